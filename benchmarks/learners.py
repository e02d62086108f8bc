"""How fast do the learners learn and forget, beside scikit-learn, SciPy and implicit?

One thread, CPU time, medians (means for histories, whose lengths differ), distinct rows. Both sides
are called through their public API and warmed up first. Every row is measured twice: with loops
compiled by numba, and with numpy only.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from implicit.nearest_neighbours import ItemItemRecommender  # type: ignore[import-untyped]
from problems import problem
from reporting import Report, main, progress
from scipy import linalg, sparse
from sklearn.linear_model import Ridge  # type: ignore[import-untyped]
from sklearn.naive_bayes import MultinomialNB  # type: ignore[import-untyped]

from dealfl.compiled import CHOICE
from dealfl.datasets import load
from dealfl.learners import NaiveBayes, PersonalizedPageRank, Tikhonov

MODES = {"numba": "always", "numpy": "never"}
NEIGHBORS = 20  # of an item, in implicit's lists


@contextmanager
def loops(mode: str) -> Iterator[None]:
    """Use compiled loops always or never."""
    before, CHOICE.mode = CHOICE.mode, mode
    yield
    CHOICE.mode = before


def times_s(calls: Sequence[Callable[[], object]]) -> list[float]:
    """Return the CPU time of each call."""
    found = []
    for call in calls:
        start = time.thread_time()
        call()
        found.append(time.thread_time() - start)
    return found


def median_s(call: Callable[[], object], repeats: int) -> float:
    """Return the median CPU time of a call, after one that does not count."""
    call()
    return float(np.median(times_s([call] * repeats)))


def median_of(calls: Sequence[Callable[[], object]]) -> float:
    """Return the median CPU time of different calls; the first is warmed up."""
    calls[0]()
    return float(np.median(times_s(calls)))


def _learn(make: Callable[[], Any], *examples: object) -> object:
    return make().learn(*examples)


class Table:
    """Rows of one comparison, and the checks of its compiled version."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def add(
        self, what: str, here: dict[str, float], peer: str, peer_s: float, target: float | None
    ) -> None:
        """Add a row; with a target, also a check of how many times faster numba is."""
        row: dict[str, Any] = {"what": what}
        row |= {f"{mode} ms": seconds * 1e3 for mode, seconds in here.items()}
        row |= {"peer": peer, "peer ms": peer_s * 1e3}
        row |= {f"peer / {mode}": peer_s / seconds for mode, seconds in here.items()}
        self._report.rows.append(row)
        if target is not None:
            ratio = peer_s / here["numba"]
            self._report.check(
                f"{what}, beside {peer}", f"≥ {target:g}×", f"{ratio:,.1f}×", ratio >= target
            )


# -- histories ------------------------------------------------------------------------------------


def synthetic_histories(people: int, items: int, total: int) -> sparse.csr_array:
    """Return histories of lognormal lengths of items whose popularity falls like 1 / rank."""
    rng = np.random.default_rng(0)
    shares = np.cumsum(1.0 / (np.arange(items) + 20.0))
    lengths = rng.lognormal(0.0, 1.1, people)
    lengths = np.clip(lengths / lengths.sum() * total, 5, items // 3).astype(int)
    names = rng.permutation(items)
    rows = []
    for length in lengths.tolist():
        drawn = np.unique(np.searchsorted(shares, rng.random(int(1.6 * length)) * shares[-1]))
        rows.append(np.sort(names[rng.permutation(drawn)[:length]]))
    starts = np.cumsum([0, *map(len, rows)])
    ones = np.ones(starts[-1])
    return sparse.csr_array((ones, np.concatenate(rows), starts), shape=(people, items))


def fit_implicit(histories: sparse.csr_array) -> Callable[[], object]:
    """Return a call that fits the peer, which needs 32-bit places."""
    parts = histories.indices.astype(np.int32), histories.indptr.astype(np.int32)
    matrix = sparse.csr_matrix((np.ones(histories.nnz), *parts), shape=histories.shape)
    return lambda: ItemItemRecommender(K=NEIGHBORS, num_threads=1).fit(matrix, show_progress=False)


def forget_s(model: PersonalizedPageRank, rows: Sequence[sparse.csr_array]) -> float:
    """Return the mean time to forget a history of the whole model, learned again after it."""
    found = []
    for row in [rows[0], *rows]:
        found += times_s([partial(model.forget, row)])
        model.learn(row)
    return float(np.mean(found[1:]))


def compare_histories(
    table: Table, name: str, histories: sparse.csr_array, target: float | None, quick: bool
) -> None:
    """Learn all, forget one, recommend to one; in both layouts."""
    fit_s = median_s(fit_implicit(histories), 3)
    people = np.random.default_rng(1).permutation(histories.shape[0])[: 60 if quick else 300]
    rows = [histories[[person]] for person in people.tolist()]
    for layout in ("packed",) if quick else ("packed", "full"):
        learn: dict[str, float] = {}
        forget: dict[str, float] = {}
        query: dict[str, float] = {}
        for how, mode in MODES.items():
            with loops(mode):
                model = PersonalizedPageRank(histories.shape[1], layout=layout)
                model.learn(histories)
                begin = partial(PersonalizedPageRank, histories.shape[1], layout=layout)
                learn[how] = median_s(partial(_learn, begin, histories), 3 if how == "numba" else 1)
                chosen = rows if how == "numba" else rows[:30]
                forget[how] = forget_s(model, chosen)
                query[how] = median_of([partial(model.recommend, r.indices, 20) for r in chosen])
        peer = "implicit's fit"
        packed = layout == "packed"
        table.add(f"{name}, {layout}: learn all", learn, peer, fit_s, 1.0 if packed else None)
        wanted = target if packed else None
        table.add(f"{name}, {layout}: forget one, mean", forget, peer, fit_s, wanted)
        table.add(f"{name}, {layout}: recommend 20", query, peer, fit_s, None)


# -- rows -----------------------------------------------------------------------------------------


def compare_naive_bayes(table: Table, quick: bool) -> None:
    """Learn all of covtype, 1,000 rows, one row."""
    examples = load("covtype", rows=50_000 if quick else None)
    X = np.asarray(examples.features, dtype=np.float64)
    X, y = np.ascontiguousarray(X - X.min(axis=0)), np.asarray(examples.targets)
    bound, classes = X.max(axis=0) + 1.0, np.unique(y)
    rng = np.random.default_rng(2)
    peer = MultinomialNB().fit(X, y)
    peers, ours = [median_s(lambda: MultinomialNB().fit(X, y), 3)], [dict[str, float]()]
    batches, order = [], rng.permutation(len(X))
    for size, count in ((1000, 30), (1, 300)):
        places, order = order[: count * size].reshape(count, size), order[count * size :]
        batches.append([(X[place], y[place]) for place in places])
        peers.append(median_of([partial(peer.partial_fit, *batch) for batch in batches[-1]]))
        ours.append({})
    for how, mode in MODES.items():
        with loops(mode):
            begin = partial(NaiveBayes, X.shape[1], classes, feature_bound=bound, fraction_bits=20)
            ours[0][how] = median_s(partial(_learn, begin, X, y), 3)
            model = begin()
            model.learn(X, y)
            for place, group in enumerate(batches, 1):
                model.learn(*group[0])  # forgotten by the warm-up
                ours[place][how] = median_of([partial(model.forget, *batch) for batch in group])
    names = ("learn all", "forget 1,000", "forget one")
    targets = (None if quick else 4.0, 15.0, 50.0)
    for what, here, peer_s, target in zip(names, ours, peers, targets, strict=True):
        known = "scikit-learn's fit" if what == "learn all" else "its partial_fit of as many"
        table.add(f"naive Bayes, covtype: {what}", here, known, peer_s, target)


class PaperRidge:
    """The paper's way: Q·R of the Gram matrix, updated by SciPy for each row, and a solve."""

    def __init__(self, X: Any, y: Any, tuned: bool) -> None:
        matrix = X.T @ X + np.eye(X.shape[1])
        self._q, self._r = (np.asfortranarray(part) for part in linalg.qr(matrix))
        self._z = X.T @ y
        self._more = {"overwrite_qruv": True, "check_finite": False} if tuned else {}
        self._checked = not tuned

    def forget(self, row: Any, target: float) -> Any:
        """Subtract one row and return the weights."""
        self._q, self._r = linalg.qr_update(self._q, self._r, -row, row.copy(), **self._more)
        self._z -= target * row
        right = self._q.T @ self._z
        return linalg.solve_triangular(self._r, right, check_finite=self._checked)


def _forget(model: Tikhonov, X: Any, y: Any) -> Any:
    model.forget(X, y)
    return model.weights


def compare_ridge(table: Table, columns: int, quick: bool) -> None:
    """Forget one row, and 1,000 rows at once, with fresh weights."""
    rng = np.random.default_rng(columns)
    X = rng.uniform(-1, 1, (4000, columns))
    y = np.clip(X @ rng.normal(size=columns) / columns**0.5, -8, 8)
    count = 40 if quick or columns > 200 else 200
    peers = {}
    for name, tuned in (("qr_update and solve", False), ("the same, tuned", True)):
        paper = PaperRidge(X, y, tuned)
        peers[name] = median_of([partial(paper.forget, X[i], y[i]) for i in range(count)])
    one: dict[str, float] = {}
    many: dict[str, float] = {}
    for how, mode in MODES.items():
        with loops(mode):
            model = Tikhonov(columns, feature_bound=1.0, target_bound=8.0)
            model.learn(X, y)
            model.learn(X[:1], y[:1])  # forgotten by the warm-up
            assert np.all(np.isfinite(model.weights))
            calls = [partial(_forget, model, X[[i]], y[[i]]) for i in range(count)]
            one[how] = median_of(calls)
            batches = [(X[start:][:1000], y[start:][:1000]) for start in (1000, 2000)]
            many[how] = min(times_s([partial(_forget, model, *batch) for batch in batches]))
    what = f"ridge, {columns} features"
    for (name, peer_s), target in zip(peers.items(), (4.0, 2.5), strict=True):
        table.add(f"{what}: forget one, fresh weights", one, f"SciPy's {name}", peer_s, target)
    plain = peers["qr_update and solve"] * 1000
    wanted = 35.0 if columns == 90 else None
    table.add(f"{what}: forget 1,000, fresh weights", many, "SciPy's, 1,000 times", plain, wanted)
    if columns == 90 and not quick:
        big = rng.uniform(-1, 1, (463_715, columns))
        goal = big @ rng.normal(size=columns)
        fit_s = median_s(lambda: Ridge(solver="cholesky", fit_intercept=False).fit(big, goal), 3)
        table.add(f"{what}: forget one of 463,715", one, "scikit-learn's Ridge", fit_s, 10_000.0)


def compare_neighbors(table: Table, quick: bool) -> None:
    """Forget examples by id; there is no peer that overwrites what it forgets."""
    task = problem("covtype", "neighbors", rows=20_000)
    model = task.made()
    model.learn(task.X, task.y)
    model.forget(ids=[0])
    calls = [partial(model.forget, ids=[i]) for i in range(1, 30 if quick else 200)]
    seconds = float(np.median(times_s(calls)))
    retrain_s = times_s([partial(_learn, task.made, task.X, task.y)])[0]
    what = "neighbors, 20,000 rows of covtype: forget one by id"
    table.add(what, {"numba": seconds, "numpy": seconds}, "learning them again", retrain_s, None)


def run(quick: bool) -> Report:
    """Run every comparison."""
    report = Report("learners")
    table = Table(report)
    sources: dict[str, tuple[Any, float | None]] = {
        "movielens": (load("movielens").features, 1500.0),
        "jester": (load("jester").features, 5000.0),
        "610 × 9,724": (synthetic_histories(610, 9724, 100_836), None),
    }
    for name, (histories, target) in sources.items():
        with progress(f"histories of {name}"):
            compare_histories(table, name, histories, target, quick)
    with progress("naive Bayes"):
        compare_naive_bayes(table, quick)
    for columns in (54, 90, 112, 500):
        with progress(f"ridge with {columns} features"):
            compare_ridge(table, columns, quick)
    with progress("neighbors"):
        compare_neighbors(table, quick)
    return report


if __name__ == "__main__":
    main(run, __doc__ or "")
