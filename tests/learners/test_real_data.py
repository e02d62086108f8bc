"""Real data: digests after forgetting, and quality beside scikit-learn and brute force."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge  # type: ignore[import-untyped]

from dealfl.data import CATALOG, Examples, load
from dealfl.features import feature_map
from dealfl.learners import LEARNERS, PersonalizedPageRank, learners_for, settings_for

Load = Callable[[str], Examples]

PROBLEMS = [
    (name, learner)
    for name in ("mushrooms", "phishing", "covtype", "housing", "cadata", "movielens", "jester")
    for learner in learners_for(CATALOG[name].task)
]


def made(name: str, learner: str, **other: Any) -> Any:
    return LEARNERS[learner](**(settings_for(learner, CATALOG[name]) | other))


def mapped(examples: Examples, learner: str) -> Any:
    table = CATALOG[examples.name].feature_map(learner)
    if table is None:
        return examples.features
    return feature_map(table, examples.features.shape[1]).transform(examples.features)


@pytest.mark.parametrize(("name", "learner"), PROBLEMS)
def test_forgetting_rows_of_real_data_gives_the_digest_of_the_others(
    name: str, learner: str, load_real: Load
) -> None:
    examples = load_real(name)
    count = min(len(examples), 10_000 if learner == "neighbors" else len(examples))
    X, y = mapped(examples, learner)[:count], examples.targets

    def rows(places: Any) -> tuple[Any, ...]:
        return (X[places],) if y is None else (X[places], y[places])

    rng = np.random.default_rng(0)
    gone = rng.permutation(count)[: min(300, count // 2)]
    model, scratch = made(name, learner), made(name, learner)
    model.learn(*rows(np.arange(count)))
    for batch in (gone[:1], gone[1:20], gone[20:]):
        model.forget(*rows(batch))
    scratch.learn(*rows(rng.permutation(np.setdiff1d(np.arange(count), gone))))
    model.check()
    assert model.digest() == scratch.digest()
    assert model.statistics == scratch.statistics


@pytest.mark.parametrize("solver", ["auto", "cholesky", "qr"])
@pytest.mark.parametrize("name", ["housing", "cadata"])
def test_predictions_stay_those_of_scikit_learn_through_many_pairs(
    name: str, solver: str, load_real: Load
) -> None:
    examples = load_real(name)
    X, y = np.asarray(examples.features, dtype=float), np.asarray(examples.targets, dtype=float)
    model = made(name, "tikhonov", solver=solver)
    model.learn(X, y)
    _ = model.weights
    before = model.statistics
    extreme = np.array(model.settings["feature_bound"])[None]
    rng = np.random.default_rng(1)
    for pair in range(500):
        place = rng.integers(len(X), size=1)
        row, target = (
            (X[place], y[place]) if pair % 50 else (extreme, [model.settings["target_bound"]])
        )
        model.learn(row, target)
        model.forget(row, target)
    assert model.statistics == before
    oracle = Ridge(alpha=1.0, solver="cholesky", fit_intercept=model.settings["intercept"])
    expected = oracle.fit(X, y).predict(X)
    error = np.linalg.norm(model.predict(X) - expected) / np.linalg.norm(expected)
    assert error <= 1e-7


@pytest.mark.parametrize("learner", ["naive_bayes", "tikhonov_classifier"])
def test_every_row_of_covtype_is_learned_in_little_memory(learner: str, load_real: Load) -> None:
    examples = load_real("covtype")
    model = made("covtype", learner)
    tracemalloc.start()
    try:
        model.learn(mapped(examples, learner), examples.targets)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 300e6
    assert model.statistics.nbytes <= 1e6


def test_digits_are_distinguished() -> None:
    examples = load("digits")
    X, y = mapped(examples, "tikhonov_classifier"), examples.targets
    assert y is not None
    order = np.random.default_rng(0).permutation(len(examples))
    model = made("digits", "tikhonov_classifier")
    model.learn(X[order[400:]], y[order[400:]])
    assert model.score(X[order[:400]], y[order[:400]]) >= 0.97


@pytest.mark.parametrize("name", ["mushrooms", "phishing"])
def test_neighbors_are_as_good_as_exact_search(name: str, load_real: Load) -> None:
    from sklearn.neighbors import KNeighborsClassifier  # type: ignore[import-untyped]

    examples = load_real(name)
    X, y = np.asarray(examples.features), np.asarray(examples.targets)
    order = np.random.default_rng(0).permutation(len(X))
    learned, tested = order[1000:], order[:1000]
    model = made(name, "neighbors")
    model.learn(X[learned], y[learned])
    oracle = KNeighborsClassifier(10, algorithm="brute").fit(X[learned], y[learned])
    assert model.score(X[tested], y[tested]) >= oracle.score(X[tested], y[tested]) - 0.01
    limits = oracle.kneighbors(X[tested], 10)[0][:, -1]
    found = [
        np.sum(far <= limit + 1e-3)
        for (_, far), limit in zip(model.nearest(X[tested]), limits, strict=True)
    ]
    assert np.mean(found) / 10 >= 0.95


@pytest.mark.parametrize(("name", "least"), [("movielens", 0.13), ("jester", 0.57)])
def test_recommendations_for_real_histories_are_those_of_brute_force(
    name: str, least: float, load_real: Load
) -> None:
    histories = load_real(name).histories
    lengths = np.diff(histories.indptr)
    table = histories.toarray().astype(float)
    owners = np.flatnonzero(lengths > 1)[::7][:400]
    hidden = [histories.indices[histories.indptr[owner]] for owner in owners]
    table[owners, hidden] = 0
    model = PersonalizedPageRank(table.shape[1])
    model.learn(table)
    together = table.T @ table
    alone = np.diag(together)
    unions = alone[:, None] + alone - together
    similarity = np.divide(together, unions, out=np.zeros_like(together), where=unions > 0)
    np.fill_diagonal(similarity, 0)
    hits = 0
    for owner, item in zip(owners, hidden, strict=True):
        history = np.flatnonzero(table[owner])
        scores = similarity[history].sum(axis=0)
        scores[history] = 0
        order = np.lexsort((np.arange(len(scores)), -scores.round(11)))[:10]
        items = model.recommend(history, 10)[0].tolist()
        assert items == [place for place in order.tolist() if scores[place] > 0]
        hits += item in items
    assert hits / len(owners) >= least / 2  # how good it is, is reported by the benchmark
