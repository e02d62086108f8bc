"""A batch is accepted if and only if each of its rows is, and it adds what its rows add."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from dealfl.errors import BadInput
from dealfl.exact import Statistics
from dealfl.learners import (
    Learner,
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
    Tikhonov,
    TikhonovClassifier,
)
from dealfl.learners.histories import as_batch
from dealfl.learners.pagerank import pairs as pairs_module
from dealfl.learners.pagerank.pairs import pairs_of
from dealfl.learners.ridge.weights import QrFactor

pd: Any = import_module("pandas")

FEW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
FAR = 2**53

# cells that numpy joins in one array by changing some of them
FINE = (0, 1, 0.5, 1.0, True, np.float32(0.25), np.int8(1), np.uint64(1), Decimal("0.5"))
ODD = ("1", None, float("nan"), 2**64, 2**63, 10**400, -1, 3, 1 + 0j, "x", b"1")
LABELS = (0, 1, "0", "1", 1.0, True, None, float("nan"), FAR, FAR + 1, 0.0, "a\0", "a", 2**64)
ITEMS = (0, 1, 2, 3, 1.0, True, "1", None, -1, 2**70, np.int8(2))

CLASSES = ([0, 1], ["0", "1"], [0, FAR, FAR + 1], [0.5, 1.0], ["a", "0"], [False, True])
TABLES: dict[str, Callable[[Any], Any]] = {
    "lists": list,
    "tuples": tuple,
    "objects": lambda rows: np.array(rows, dtype=object),
    "frame": lambda rows: pd.DataFrame({f"c{j}": [row[j] for row in rows] for j in range(2)}),
}
COLUMNS: dict[str, Callable[[Any], Any]] = {
    "lists": list,
    "tuples": tuple,
    "objects": lambda values: np.fromiter(values, dtype=object, count=len(values)),
    "frame": lambda values: pd.Series(values, dtype=object),
}


def added(learner: Callable[[], Learner], *examples: object) -> Statistics | None:
    """Return the statistics of examples; None if they are refused."""
    try:
        return learner().learn(*examples)
    except BadInput:
        return None


def assert_the_sum_of_its_rows(
    learner: Callable[[], Learner], whole: Statistics | None, parts: Sequence[Statistics | None]
) -> None:
    assert (whole is None) == any(part is None for part in parts)
    total = Statistics.zero(learner().schema)
    for part in parts:
        total = total + part if part is not None else total
    assert whole is None or whole == total


def compare(learner: Callable[[], Learner], form: str, rows: Sequence[Any]) -> None:
    """Compare a batch of (features, target) with its rows, all in the same form."""

    def given(some: Sequence[Any]) -> tuple[Any, Any]:
        return TABLES[form]([x for x, _ in some]), COLUMNS[form]([y for _, y in some])

    whole = added(learner, *given(rows))
    assert_the_sum_of_its_rows(learner, whole, [added(learner, *given([row])) for row in rows])


cells = st.sampled_from(FINE) | st.sampled_from(FINE + ODD)
pairs = st.lists(cells, min_size=2, max_size=2)
CLASSIFIERS = {
    "tikhonov_classifier": TikhonovClassifier,
    "naive_bayes": NaiveBayes,
    "neighbors": partial(Neighbors, tables=2),
}


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize("kind", CLASSIFIERS)
@FEW
@example(rows=[([0, 0], 1), ([0, 0], "1")], classes=["0", "1"], clip=False)
@example(rows=[([0, 0], FAR + 1), ([0, 0], 0.0)], classes=[0, FAR, FAR + 1], clip=False)
@example(rows=[([2**64, 0], 1), ([0.5, 0], 1)], classes=[0, 1], clip=True)
@given(
    rows=st.lists(st.tuples(pairs, st.sampled_from(LABELS)), min_size=1, max_size=3),
    classes=st.sampled_from(CLASSES),
    clip=st.booleans(),
)
def test_of_a_classifier(
    kind: str, form: str, rows: list[Any], classes: list[Any], clip: bool
) -> None:
    made: Any = CLASSIFIERS[kind]
    compare(lambda: made(2, classes, feature_bound=2.0, clip=clip), form, rows)


@pytest.mark.parametrize("form", TABLES)
@FEW
@example(rows=[([0, 0], 2**64), ([0, 0], 0.5)], clip=True)
@given(rows=st.lists(st.tuples(pairs, cells), min_size=1, max_size=3), clip=st.booleans())
def test_of_a_regression(form: str, rows: list[Any], clip: bool) -> None:
    compare(lambda: Tikhonov(2, feature_bound=2.0, target_bound=2.0, clip=clip), form, rows)


@FEW
@example(rows=[[0, 1, 0], [0, 2]])
@example(rows=[[1.0], [2]])
@given(rows=st.lists(st.lists(st.sampled_from(ITEMS), max_size=3), min_size=1, max_size=3))
def test_of_lists_of_items(rows: list[Any]) -> None:
    learner = partial(PersonalizedPageRank, n_items=3)
    parts = [added(learner, [row]) for row in rows]
    assert_the_sum_of_its_rows(learner, added(learner, rows), parts)


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
@FEW
@given(
    rows=st.lists(
        st.lists(st.sampled_from((0, 1, 2, -1, np.nan)), min_size=3, max_size=3),
        min_size=1,
        max_size=3,
    )
)
def test_of_tables_of_items(form: Callable[[Any], Any], rows: list[Any]) -> None:
    learner = partial(PersonalizedPageRank, n_items=3)
    table = form(rows)
    parts = [added(learner, table[[place]]) for place in range(len(rows))]
    assert_the_sum_of_its_rows(learner, added(learner, table), parts)


@pytest.mark.parametrize("wanted", [[True, 5], [np.uint64(2**63), 1], [1, 2.0], [2**64, 1]])
def test_of_ids(wanted: list[Any]) -> None:
    def refused(ids: list[Any]) -> bool:
        model = Neighbors(1, [0, 1])
        return added(lambda: model, np.zeros((len(ids), 1)), [0] * len(ids), ids) is None

    assert refused(wanted) == any(refused([one]) for one in wanted)
    assert refused([np.uint64(2**63)])


def test_classes_are_numbers_or_strings_not_both() -> None:
    with pytest.raises(BadInput, match=r"classes is \[1, 'a'\]; it must be a list of numbers or"):
        NaiveBayes(1, [1, "a"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("learner", "follow", "first", "second"),
    [
        (lambda: Tikhonov(1, solver="qr"), "_follow_points", ([[1.0]], [1.0]), ([[0.5]], [0.0])),
        (lambda: NaiveBayes(1, [0, 1]), "_follow_points", ([[1.0]], [1]), ([[0.5]], [0])),
        (lambda: PersonalizedPageRank(4), "_follow_delta", ([[1, 2]],), ([[0, 2]],)),
    ],
    ids=["tikhonov", "naive_bayes", "personalized_pagerank"],
)
def test_nothing_changes_if_the_model_cannot_follow(
    learner: Callable[[], Any],
    follow: str,
    first: Any,
    second: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, expected = learner(), learner()
    for one in (model, expected):
        one.learn(*first)
        one.derived_arrays()
    is_history = isinstance(model, PersonalizedPageRank)
    records = model.records_of(*((sparse.csr_array([[1, 0, 1, 0]]),) if is_history else second))

    def fail(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(type(model), follow, fail)
    with pytest.raises(MemoryError):
        model.update_records(records, ())
    monkeypatch.undo()
    assert model.digest() == expected.digest() == model.statistics.digest()
    for one in (model, expected):
        one.learn(*second)
    assert model.digest() == expected.digest()
    assert model.change(expected) < 1e-9


def test_a_factor_that_failed_half_way_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Tikhonov(1, solver="qr")
    model.learn([[1.0], [0.5]], [1.0, 0.0])
    model.derived_arrays()
    kind, lines = QrFactor, iter(range(2))
    update = kind.update

    def fail(factor: QrFactor, row: Any, sign: int) -> bool:
        if next(lines):
            raise MemoryError
        return update(factor, row, sign)

    with monkeypatch.context() as broken:
        broken.setattr(kind, "update", fail)
        with pytest.raises(MemoryError):
            model.learn([[0.25], [0.75]], [1.0, 1.0])
    expected = Tikhonov(1, solver="qr")
    expected.merge(model.statistics)
    assert model.change(expected) < 1e-9


@pytest.mark.parametrize("chunk", [1, 100, 1 << 20])
def test_pairs_counted_in_parts_are_those_of_a_learner(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs_module, "_CHUNK", chunk)
    table = np.random.default_rng(4).random((80, 30)) < np.linspace(0.5, 0.02, 30)
    histories, model = sparse.csr_array(table.astype(int)), PersonalizedPageRank(30)
    model.learn(histories)
    numbers, counts = pairs_of(as_batch(histories, 30))
    assert np.all(np.diff(numbers) > 0)
    found = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
    assert found == model.statistics["pairs"].to_dict()
