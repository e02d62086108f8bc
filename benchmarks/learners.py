"""How fast do the learners learn and forget, beside scikit-learn, SciPy and implicit?

One thread, CPU time, medians (means for histories, whose lengths differ), distinct rows. Both sides
are called through their public API and warmed up first. Every row is measured twice: with loops
compiled by numba, and with numpy only.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

from functools import partial
from typing import Any

import numpy as np
from growth import compare_growth
from histories import compare_histories, compare_large, synthetic_histories
from reporting import Report, main, progress
from scipy import linalg
from sklearn.linear_model import Ridge  # type: ignore[import-untyped]
from sklearn.naive_bayes import MultinomialNB  # type: ignore[import-untyped]
from timing import MODES, Table, learn_with, loops, median_s, medians_of, times_s

from dealfl.data import load
from dealfl.learners import (
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
    Tikhonov,
    TikhonovClassifier,
)

# -- rows -----------------------------------------------------------------------------------------


def compare_naive_bayes(table: Table, quick: bool) -> None:
    """Learn all of covtype, 1,000 rows, one row."""
    examples = load("covtype", rows=50_000 if quick else None)
    X = np.asarray(examples.features, dtype=np.float64)
    X, y = np.ascontiguousarray(X - X.min(axis=0)), np.asarray(examples.targets)
    bound, classes = X.max(axis=0) + 1.0, np.unique(y)
    rng = np.random.default_rng(2)
    peer = MultinomialNB().fit(X, y)
    begin = partial(NaiveBayes, X.shape[1], classes, feature_bound=bound, fraction_bits=20)
    all_at_once = {
        "peer": partial(MultinomialNB().fit, X, y),
        "here": partial(learn_with, begin, X, y),
    }
    with loops("always"):
        found = medians_of({name: [call] * 5 for name, call in all_at_once.items()})
    peers, ours = [found["peer"]], [{"numba": found["here"]}]
    order = rng.permutation(len(X))
    for size, count in ((1000, 30), (1, 300)):
        places, order = order[: count * size].reshape(count, size), order[count * size :]
        batches = [(X[place], y[place]) for place in places]
        groups = {"peer": [partial(peer.partial_fit, *batch) for batch in batches]}
        ours.append({})
        for how, mode in MODES.items():
            with loops(mode):
                model = begin()
                ours[0].setdefault(how, times_s([partial(model.learn, X, y)])[0])
                model.learn(X, y)
                groups["here"] = [partial(model.forget, *batch) for batch in batches]
                found = medians_of(groups)
            ours[-1][how] = found["here"]
            peers += [found["peer"]] if how == "numba" else []
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


def _learned(X: Any, y: Any, bits: int) -> Tikhonov:
    """Return a model with weights, and with one more example for the warm-up to forget."""
    model = Tikhonov(X.shape[1], feature_bound=1.0, target_bound=8.0, fraction_bits=bits)
    model.learn(X, y)
    model.learn(X[:1], y[:1])
    assert np.all(np.isfinite(model.weights))
    return model


def compare_ridge(table: Table, columns: int, quick: bool) -> None:
    """Forget one row, and 1,000 rows at once, with fresh weights."""
    rng = np.random.default_rng(columns)
    X = rng.uniform(-1, 1, (4000, columns))
    y = np.clip(X @ rng.normal(size=columns) / columns**0.5, -8, 8)
    count = 40 if quick or columns > 200 else 200
    papers = {"qr_update and solve": False, "the same, tuned": True}
    one: dict[str, float] = {}
    peers: dict[str, float] = {}
    for how, mode in MODES.items():
        with loops(mode):
            model = _learned(X, y, 30)
            groups = {"here": [partial(_forget, model, X[[i]], y[[i]]) for i in range(count)]}
            for name, tuned in papers.items():
                paper = PaperRidge(X, y, tuned)
                groups[name] = [partial(paper.forget, X[i], y[i]) for i in range(count)]
            found = medians_of(groups)
        one[how] = found.pop("here")
        peers = peers or found
    what = f"ridge, {columns} features"
    for (name, peer_s), target in zip(peers.items(), (4.0, 2.5), strict=True):
        table.add(f"{what}: forget one, fresh weights", one, f"SciPy's {name}", peer_s, target)
    for bits, least in ((30, 35.0), (22, 70.0)):
        many = {}
        for how, mode in MODES.items():
            with loops(mode):
                model = _learned(X, y, bits)
                batches = [(X[start:][:1000], y[start:][:1000]) for start in (0, 1000, 2000)]
                many[how] = min(times_s([partial(_forget, model, *batch) for batch in batches]))
        plain_s = peers["qr_update and solve"] * 1000
        wanted = least if columns == 90 else None
        many_what = f"{what}: forget 1,000 of {bits} bits, fresh weights"
        table.add(many_what, many, "SciPy's, 1,000 times", plain_s, wanted)
    if columns == 90 and not quick:
        big = rng.uniform(-1, 1, (463_715, columns))
        goal = np.clip(big @ rng.normal(size=columns) / columns**0.5, -8, 8)
        fit_s = median_s(lambda: Ridge(solver="cholesky", fit_intercept=False).fit(big, goal), 3)
        for how, mode in MODES.items():
            with loops(mode):
                model = _learned(big, goal, 30)
                calls = [partial(_forget, model, big[[i]], goal[[i]]) for i in range(200)]
                one[how] = medians_of({"here": calls})["here"]
        table.add(f"{what}: forget one of 463,715", one, "scikit-learn's Ridge", fit_s, 10_000.0)


# -- updates --------------------------------------------------------------------------------------


def _update_subjects() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Return an empty learner of each kind, and examples."""
    rng = np.random.default_rng(0)
    X, few = rng.uniform(0.0, 1.0, (400, 54)), rng.uniform(0.0, 1.0, (400, 8))
    classes, labels = list(range(7)), rng.integers(0, 7, 400)
    return {
        "naive Bayes, 54 × 7": (NaiveBayes(54, classes), (X, labels)),
        "ridge, 54 features": (Tikhonov(54), (X, X.mean(axis=1))),
        "ridge, 8 features": (Tikhonov(8), (few, few.mean(axis=1))),
        "ridge classifier, 54 × 7": (TikhonovClassifier(54, classes), (X, labels)),
        "neighbors, 54 × 7": (Neighbors(54, classes), (X, labels)),
        "PageRank, 1,682 items": (
            PersonalizedPageRank(1682),
            (synthetic_histories(400, 1682, 16_000),),
        ),
    }


def compare_updates(table: Table, quick: bool) -> None:
    """Learn ten examples and forget one: in one call, and in two."""
    for how, mode in MODES.items():
        for name, (model, examples) in _update_subjects().items():
            new, old = (
                tuple(part[rows] for part in examples) for rows in (slice(10), slice(10, 11))
            )
            with loops(mode):
                model.learn(*examples)
                seconds: dict[str, list[float]] = {"update": [], "both": []}
                for _ in range(20 if quick else 100):
                    seconds["update"] += times_s([partial(model.update, new, old)])
                    model.update(old, new)
                    calls = [partial(model.learn, *new), partial(model.forget, *old)]
                    seconds["both"].append(sum(times_s(calls)))
                    model.update(old, new)
            update_s, both_s = (float(np.median(found[2:])) for found in seconds.values())
            table.add(f"{name}: update, {how}", {how: update_s}, "learn and forget", both_s, None)
            ratio = update_s / both_s
            what = f"{name}: update beside learn and forget, {how}"
            table.check(what, "≤ 1.05×", f"{ratio:.2f}×", ratio <= 1.05)


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
    if not quick:
        with progress("histories of the size of MovieLens 20M"):
            compare_large(table)
    with progress("naive Bayes"):
        compare_naive_bayes(table, quick)
    for columns in (54, 90, 112, 500):
        with progress(f"ridge with {columns} features"):
            compare_ridge(table, columns, quick)
    with progress("updates"):
        compare_updates(table, quick)
    with progress("cost against the number of examples"):
        compare_growth(table, quick)
    return report


if __name__ == "__main__":
    main(run, __doc__ or "")
