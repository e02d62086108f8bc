"""Compiled loops and numpy: the same statistics, the same refusals, the same answers."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import partial
from importlib import import_module
from itertools import count, product
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dealfl.errors import DealError
from dealfl.exact import CHOICE, compiled
from dealfl.learners import (
    Learner,
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
    Statistics,
    Tikhonov,
    TikhonovClassifier,
)
from dealfl.learners.ridge.moments import packed
from dealfl.learners.ridge.plain import FOLLOWED, LOST, change_moments, find_close, solve_table

pytest.importorskip("numba")


@contextmanager
def loops_used(mode: str) -> Iterator[None]:
    before, CHOICE.mode = CHOICE.mode, mode
    yield
    CHOICE.mode = before


class Call:
    """A call of a method; statistics are answered as bytes, an error as its text."""

    def __init__(self, method: str, *arguments: Any) -> None:
        self.method, self.arguments = method, arguments

    def __call__(self, model: Learner) -> Any:
        try:
            answer = getattr(model, self.method)(*self.arguments)
        except DealError as error:
            return f"{type(error).__name__}: {error}"
        return answer.to_bytes() if isinstance(answer, Statistics) else answer


def outcomes(model: Learner, steps: list[Call], mode: str) -> Iterator[tuple[str, Any]]:
    """Yield the digest after each step, and what it answered."""
    for step in steps:
        with loops_used(mode):
            answer = step(model)
            yield model.digest(), answer


def compare(make: Callable[[], Learner], steps: list[Call]) -> list[Any]:
    """Run steps with both versions of the loops; return what they answered."""
    numpy, numba = (list(outcomes(make(), steps, mode)) for mode in ("never", "always"))
    for ours, theirs in zip(numpy, numba, strict=True):
        assert ours[0] == theirs[0]
        np.testing.assert_equal(ours[1], theirs[1])
    return [answer for _, answer in numpy]


def refusals(answers: list[Any]) -> int:
    return sum(isinstance(answer, str) for answer in answers)


# -- histories ----------------------------------------------------------------------------------


def history_steps(seed: int, items: int) -> list[Call]:
    """Return random batches to learn and forget, some of them never learned, and queries."""
    rng = np.random.default_rng(seed)
    pool = [np.flatnonzero(rng.random(items) < share).tolist() for share in rng.random(40) * 0.6]
    steps: list[Call] = [Call("learn", pool)]
    for _ in range(60):
        picked = [pool[place] for place in rng.integers(len(pool), size=rng.integers(1, 4))]
        kind = rng.random()
        if kind < 0.4:
            steps.append(Call("learn", picked))
        elif kind < 0.6:
            steps.append(Call("forget", picked))
        elif kind < 0.8:  # a history that was never learned, after one that was
            steps.append(Call("forget", [picked[0], picked[0][::2]]))
        elif kind < 0.85:
            steps.append(Call("merge", PersonalizedPageRank(items).learn(picked)))
        steps.append(Call("similar", int(rng.integers(items)), 5))
        steps.append(Call("recommend", picked[0][:9], 5))
    return steps


@pytest.mark.parametrize("layout", ["packed", "full"])
@pytest.mark.parametrize("ordered", [False, True])
def test_histories(layout: str, ordered: bool) -> None:
    for seed, items in enumerate((1, 2, 25, 120)):
        order = np.random.default_rng(9).permutation(items) if ordered else None

        def make(n: int = items, order: Any = order) -> Learner:
            return PersonalizedPageRank(n, item_order=order, layout=layout)

        steps = history_steps(seed, items)
        answers = compare(make, steps)
        if items > 2:
            assert refusals(answers) > 2
        packed = outcomes(PersonalizedPageRank(items), steps, "never")
        ours = outcomes(make(), steps, "always")
        assert [digest for digest, _ in packed] == [digest for digest, _ in ours]


def test_many_histories_forgotten_one_by_one_leave_nothing() -> None:
    rng = np.random.default_rng(3)
    table = (rng.random((200, 40)) < np.linspace(0.9, 0.02, 40)).astype(int)
    for layout in ("packed", "full"):
        for mode in ("never", "always"):
            with loops_used(mode):
                model = PersonalizedPageRank(40, layout=layout)
                model.learn(table)
                for row in rng.permutation(200):
                    model.forget(table[[row]])
                    model.check()
                assert model.digest() == PersonalizedPageRank(40).digest()


def test_a_layout_that_is_not_known_is_named() -> None:
    with pytest.raises(DealError, match="no layout called 'ful'; known: full, packed"):
        PersonalizedPageRank(3, layout="ful")


# -- rows ---------------------------------------------------------------------------------------


def row_steps(seed: int, columns: int, labels: list[Any]) -> list[Call]:
    """Return random batches of rows to learn and forget, some never learned or out of bounds."""
    rng = np.random.default_rng(seed)
    rows = rng.random((60, columns)) * 8.0
    rows[rng.random(rows.shape) < 0.3] = 0.0
    targets = rng.choice(labels, 60)
    steps = [Call("learn", rows, targets)]
    for _ in range(60):
        places = rng.integers(60, size=rng.choice([0, 1, 1, 2, 5, 30]))
        batch, given = rows[places], targets[places]
        kind = rng.random()
        if kind < 0.4:
            steps.append(Call("learn", batch, given))
        elif kind < 0.6:
            steps.append(Call("forget", batch, given))
        elif kind < 0.7:
            steps.append(Call("learn", sparse.csr_array(batch), given))
        elif kind < 0.8:  # never learned
            steps.append(Call("forget", np.tile(batch, (40, 1)), np.tile(given, 40)))
        else:
            wrong = batch.copy()
            wrong[-1:, -1:] = rng.choice([np.nan, np.inf, -0.5, 8.5])
            steps.append(Call("learn", wrong, given))
    return steps


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("offset", [0.0, -1.0])
@pytest.mark.parametrize("labels", [[3, 1, 2], ["a", "b"]])
def test_sums_by_class(labels: list[Any], offset: float, clip: bool) -> None:
    for seed, columns in enumerate((1, 7)):
        answers = compare(
            lambda n=columns: NaiveBayes(n, labels, feature_bound=10, offset=offset, clip=clip),  # type: ignore[misc]
            row_steps(seed, columns, labels),
        )
        assert refusals(answers) > 5


@pytest.mark.parametrize("bits", [12, 30])
@pytest.mark.parametrize("intercept", [False, True])
def test_moments(intercept: bool, bits: int) -> None:
    for seed, columns in enumerate((1, 40)):
        options: dict[str, Any] = {"fraction_bits": bits, "intercept": intercept}
        compare(
            lambda n=columns, more=options: TikhonovClassifier(n, [1, 2], feature_bound=10, **more),  # type: ignore[misc]
            row_steps(seed, columns, [1, 2]),
        )
        answers = compare(
            lambda n=columns, more=options: Tikhonov(n, feature_bound=10, target_bound=4, **more),  # type: ignore[misc]
            row_steps(seed, columns, [-4.0, 0.5, 3.25]),
        )
        assert refusals(answers) > 5


@pytest.mark.parametrize("row", [[0.0, 1.0, 0.5], [0.0, 1.0, -0.5], [1.0, 1.0, 0.5]])
def test_rows_of_constant_columns_are_forgotten_or_refused_exactly(row: list[float]) -> None:
    rows = np.array([[0.0, 1.0, 0.5], [0.0, 1.0, -0.25]])
    steps = [Call("learn", rows, [1.0, 0.0]), Call("forget", [row], [1.0]), Call("check")]
    answers = compare(lambda: Tikhonov(3, target_bound=2.0), [*steps, *steps[1:]])
    assert isinstance(answers[1], str) == (row != rows[0].tolist())


def check_weights_of_what_remains(
    columns: int, rows_learned: int, rows_forgotten: int, solver: str
) -> None:
    rng = np.random.default_rng(5)
    rows, targets = rng.uniform(-1, 1, (rows_learned, columns)), rng.uniform(-1, 1, rows_learned)
    for intercept in (False, True):
        with loops_used("always"):
            model = Tikhonov(columns, penalty=0.1, intercept=intercept, solver=solver)
            model.learn(rows, targets)
            for place in range(rows_forgotten):
                assert np.all(np.isfinite(model.weights))
                model.forget(rows[[place]], targets[[place]])
        scratch = Tikhonov(columns, penalty=0.1, intercept=intercept, solver="refactor")
        scratch.learn(rows[rows_forgotten:], targets[rows_forgotten:])
        np.testing.assert_allclose(model.weights, scratch.weights, rtol=1e-9, atol=1e-11)
        assert model.bias == pytest.approx(scratch.bias, abs=1e-11)
        assert model.factorisations == 1


def test_weights_after_one_row_are_those_of_all_that_remain() -> None:
    check_weights_of_what_remains(50, 400, 100, "auto")


# -- neighbours -----------------------------------------------------------------------------------


def neighbor_steps(seed: int, columns: int) -> list[Call]:
    """Return random examples to learn and forget, by id and by value, and queries after each."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-2, 3, (700, columns)) / 2.0  # many are equal
    labels = rng.integers(0, 3, 700)
    steps = [Call("learn", rows[:600], labels[:600])]
    for step in range(25):
        some = rng.integers(0, 700, rng.integers(1, 60))
        known = rng.permutation(600)[: rng.integers(1, 40)]
        steps.append(Call("forget", None, None, known[:1].tolist()))
        steps.append(Call("forget", None, None, known))
        steps.append(Call("forget", rows[known[:2]], labels[known[:2]]))
        steps.append(Call("learn", rows[some], labels[some]))
        steps.append(Call("nearest", rows[some[:5]] + 0.1, 1 + step % 9))
        steps.append(Call("predict_proba", rows[some[:5]]))
    return steps


@pytest.mark.parametrize("min_merge", [0, 40, 10_000])
def test_neighbours(min_merge: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dealfl.learners.neighbors.examples.MIN_MERGE", min_merge)
    for seed, columns in enumerate((1, 7)):

        def make(n: int = columns) -> Learner:
            return Neighbors(n, [0, 1, 2], k=4, tables=3, bits=30, enough=3, feature_bound=2.0)

        answers = compare(make, neighbor_steps(seed, columns))
        assert 2 < refusals(answers) < 75


def test_sums_beyond_the_integers_of_floats_are_exact() -> None:
    rows, point = (1 << 23) + (1 << 15), (1 << 30) - 3
    places = np.zeros(rows, np.int32), np.arange(rows + 1, dtype=np.int32)
    table = sparse.csr_array((np.full(rows, point / (1 << 30)), *places), shape=(rows, 1))
    for mode in ("never", "always"):
        with loops_used(mode):
            delta = NaiveBayes(1, [0, 1]).learn(table, np.zeros(rows, np.int64))
        assert delta["sums"].to_dict() == {0: rows * point}


# -- loops as they are written --------------------------------------------------------------------

# arguments that the twins leave different: numpy lets no table follow, and what is refused is lost
LEFT = {"change_row": (8, 9, 10), "change_moments": (7,), "round_rows": (4,)}


def require_same(ours: Any, theirs: Any) -> None:
    """Compare answers or arguments; floats agree up to rounding."""
    if isinstance(ours, tuple):
        for one, other in zip(ours, theirs, strict=True):
            require_same(one, other)
    elif isinstance(ours, np.ndarray) and ours.dtype.kind == "f":
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)
    else:
        np.testing.assert_equal(ours, theirs)


def beside_numpy(plain: Callable[..., Any], loop: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loop that compares what it returns and changes with what its twin does."""
    left = LEFT.get(plain.__name__, ())

    def comparable(answer: Any) -> Any:
        if plain.__name__ not in ("change_row", "change_moments"):
            return answer
        return 0 if answer in (FOLLOWED, LOST) else min(answer, 1)

    def run(*given: Any) -> Any:
        copies = deepcopy(given)
        expected, found = plain(*copies), loop(*given)
        require_same(comparable(found), comparable(expected))
        for place, (ours, theirs) in enumerate(zip(given, copies, strict=True)):
            if place not in left:
                require_same(ours, theirs)
        return found

    return run


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let Python run the loops of learners as they are written, which checks every index."""
    pairs = [pair for pair in compiled._twins if pair.module.startswith("dealfl.learners.")]
    for module in {import_module(pair.module) for pair in pairs}:
        for name, loop in list(vars(module).items()):
            monkeypatch.setattr(module, name, getattr(loop, "py_func", loop))
    for pair in pairs:
        loop = getattr(import_module(pair.module), pair.plain.__name__)
        monkeypatch.setattr(pair, "loop", beside_numpy(pair.plain, loop))
        monkeypatch.setattr(pair, "failed", False)
    with np.errstate(all="ignore"):  # like compiled loops
        yield
    assert not any(pair.failed for pair in pairs)


MEMORY = ("empty", "zeros", "zeros_like", "full", "sort")  # functions of numpy that take some
CHANGE = ("change_histories", "add_histories", "change_rows", "add_changes")


def out_of_memory(loop: Callable[..., Any], failures: list[str]) -> Callable[..., Any]:
    """Return a loop that runs out of memory wherever it takes some, and then ends at last."""

    def run(*given: Any) -> Any:
        before = deepcopy(given)
        for most in count():
            takes = 0

            def take(function: Callable[..., Any], *values: Any) -> Any:
                nonlocal takes
                takes += 1
                if takes > most:  # noqa: B023 - it is called before the next round
                    raise MemoryError
                return function(*values)

            with pytest.MonkeyPatch.context() as patch:
                for name in MEMORY:
                    patch.setattr(np, name, partial(take, getattr(np, name)))
                with suppress(MemoryError):
                    return loop(*given)
            failures.append(loop.__name__)
            require_same(given, before)
        return None

    return run


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("layout", ["packed", "full"])
def test_loops_that_change_counts_take_their_memory_before(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they raise cannot be caught there, so nothing could be taken back."""
    failures: list[str] = []
    for pair in compiled._twins:
        if pair.plain.__name__ in CHANGE:
            loop = getattr(import_module(pair.module), pair.plain.__name__)
            monkeypatch.setattr(pair, "loop", out_of_memory(loop, failures))
    compare(lambda: PersonalizedPageRank(12, layout=layout), history_steps(0, 12))
    compare(lambda: NaiveBayes(5, [1, 4], feature_bound=10), row_steps(0, 5, [1, 4]))
    assert {"change_histories", "add_histories"} <= set(failures)


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("layout", ["packed", "full"])
def test_loops_over_pairs_do_what_numpy_does_inside_their_arrays(layout: str) -> None:
    first = [Call("learn", [[0, 1, 2], [2, 3]]), Call("similar", 2, 5), Call("recommend", [2], 5)]
    last = [Call("score", [[0, 3, 5], [7, 1], [2, 4, 8, 6]], 3), Call("check")]
    for size, wrong in product((1, 9), ([5, 5], [6, 3], [3, 12])):  # one by one, and together
        table = sparse.csr_array((2, 12), dtype=np.int64)
        table.data, table.indptr = np.ones(size + 2, np.int64), np.array([0, size, size + 2])
        table.indices = np.array([*range(size), *wrong])
        last.append(Call("learn", table))
    for order in (None, np.random.default_rng(9).permutation(12)):
        compare(
            lambda order=order: PersonalizedPageRank(12, item_order=order, layout=layout),  # type: ignore[misc]
            [*first, *history_steps(0, 12), *last],
        )


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("bits", [12, 21, 30])
def test_loops_over_rows_do_what_numpy_does_inside_their_arrays(bits: int) -> None:
    wrong = [Call("learn", np.ones((2, 5)), np.array([4, label])) for label in (0, 2, 9)]
    compare(lambda: NaiveBayes(5, [1, 4], feature_bound=10), [*row_steps(0, 5, [1, 4]), *wrong])
    short = Call("learn", np.arange(60.0).reshape(12, 5) % 10, np.ones(12))
    compare(
        lambda: Tikhonov(5, feature_bound=10, target_bound=4, fraction_bits=bits),
        [*row_steps(0, 5, [-4.0, 0.5, 3.25]), short, Call("check")],
    )


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("columns", [1, 4, 5])
def test_loops_over_factors_do_what_numpy_does_inside_their_arrays(columns: int) -> None:
    check_weights_of_what_remains(columns, 40, 10, "cholesky")


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("mode", ["never", "always"])
def test_weights_without_a_row_of_the_table_are_zero(mode: str) -> None:
    table = np.array([[2.0, 1.0, 4.0], [0.0, 4.0, 8.0]])  # 2x + y = 4, 4y = 8
    weights, units = np.full((3, 1), 9.0), np.array([[1.0, 1.0, 1.0], [7.0, 1.0, 10.0]])
    with loops_used(mode):
        solve_table(table, units, weights)
    assert weights.ravel().tolist() == [0.0, 1.0, 20.0]


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("min_merge", [0, 40])
def test_loops_over_examples_do_what_numpy_does_inside_their_arrays(
    min_merge: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dealfl.learners.neighbors.examples.MIN_MERGE", min_merge)
    settings: dict[str, Any] = {"classes": [0, 1, 2], "k": 4, "bits": 30, "feature_bound": 2.0}
    compare(lambda: Neighbors(2, tables=3, enough=3, **settings), neighbor_steps(0, 2))
    few = Call("learn", np.arange(-9.0, 9.0).reshape(6, 3) / 9, [0, 1, 2, 2, 1, 0])
    near = Call("nearest", np.zeros((2, 3)), 6)
    steps = [few, near, few, near, *(Call("forget", None, None, [one]) for one in range(12)), near]
    compare(lambda: Neighbors(3, tables=1, enough=9, **settings), steps)


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("mode", ["never", "always"])
def test_only_columns_close_to_a_limit_or_of_unequal_parity_are_checked_exactly(
    mode: str,
) -> None:
    clear, parity, mean, magnitude = [(3, 5), (2, 6), (0, 0)], (3, 6), (9, 9), (18, 36)
    low, none = np.zeros(packed(7, 0), np.int64), np.zeros(0, np.int64)
    low[0] = 9  # rows, with values from -2 to 2
    for column, ends in enumerate([*clear, parity, mean, magnitude], 1):
        low[[packed(column, 0), packed(column, column)]] = ends
    stale, doubtful = np.zeros(1, np.bool_), np.empty(7, np.int32)
    nothing = np.zeros_like(low), none
    with loops_used(mode):
        count = change_moments(low, none, 4.0, stale, *nothing, -1, doubtful)
        assert doubtful[:count].tolist() == [4, 5, 6]
        low[0], doubtful[:] = 0, -1
        count = change_moments(low, none, 4.0, stale, *nothing, -1, doubtful)
        assert doubtful[0] == 0  # the number of rows
        assert (doubtful[:count] >= 0).all()


# -- when numba is loaded -------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "never"])
def test_numba_is_imported_only_for_much_work(mode: str) -> None:
    code = (
        "import sys, time, numpy as np\n"
        "from dealfl.learners import PersonalizedPageRank\n"
        "model = PersonalizedPageRank(200)\n"
        "model.learn(np.ones((1, 200)))\n"
        "print('numba' in sys.modules)\n"
        "model.learn(np.ones((5000, 200)))\n"
        f"end_s = time.monotonic() + {60 if mode == 'auto' else 0}\n"  # to compile, at the worst
        "while 'numba' not in sys.modules and time.monotonic() < end_s:\n"
        "    model.learn(np.ones((500, 200)))\n"
        "print('numba' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"DEALFL_NUMBA": mode, "PYTHONPATH": ":".join(sys.path)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["False", str(mode == "auto")]


@pytest.mark.parametrize("order", [None, list(range(40))[::-1]])
def test_a_score_counts_the_histories_whose_last_item_is_recommended(
    order: list[int] | None,
) -> None:
    draw = np.random.default_rng(5)
    table = draw.random((150, 40)) < np.linspace(0.6, 0.05, 40)
    learned = table[:60].astype(int)
    learned[:, 30:39] = learned[:, :9]  # equal scores, also of the k-th place
    learned[:, 39] = 0
    model = PersonalizedPageRank(40, item_order=order)
    model.learn(sparse.csr_array(learned))
    histories = [draw.permutation(np.flatnonzero(row)).tolist() for row in table]
    histories = [history for history in histories if len(history) > 1]
    assert len(histories) > 128
    for k in (1, 3, 10):
        hits = [last in model.recommend(known, k)[0] for *known, last in histories]
        for mode in ("always", "never"):
            with loops_used(mode):
                assert model.score(histories, k) == sum(hits) / len(histories)
        assert 0 < sum(hits) < len(hits)
    assert model.score([[0, 1], [0, 99]], 39) == 0.5


@pytest.mark.parametrize("mode", ["never", "always"])
@pytest.mark.parametrize("wide", [False, True])
def test_products_close_to_their_limits_are_listed_one_after_the_other(
    wide: bool, mode: str
) -> None:
    low = np.array([9, 5, 9, -7, 0, 9, 6, 6, -1, 9], np.int64)  # the triangle of four columns
    high = np.where(low < 0, -1, 0) if wide else np.empty(0, np.int64)
    low = low & (2**32 - 1) if wide else low
    cells = np.full(6, -1)
    with loops_used(mode):
        count = find_close(low, high, np.full(4, 2.0), np.full(4, 2.5), cells)
    assert (count, cells[:count].tolist()) == (3, [3, 6, 7])


def test_a_batch_of_few_rows_is_summed_over_all_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, targets = np.random.default_rng(0).random((10, 3)), np.arange(10.0) / 10
    whole, parts = Tikhonov(3), Tikhonov(3)
    whole.learn(rows, targets)
    monkeypatch.setattr("dealfl.learners.ridge.tikhonov.block_rows", lambda *_: 4)
    parts.learn(rows, targets)
    assert parts.digest() == whole.digest()
