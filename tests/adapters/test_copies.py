"""A copy learns and forgets as the original does, whichever way it was copied."""

import copy
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
import pytest

from dealfl.learners.checks import Subject
from dealfl.sklearn import (
    ItemRecommender,
    KNeighborsClassifier,
    MultinomialNB,
    Ridge,
    RidgeClassifier,
)
from tests.learners.subjects import SUBJECTS, pagerank, tikhonov

Copy = Callable[[Any, Path], Any]


def _through_joblib(model: Any, path: Path, mode: str | None = None) -> Any:
    joblib.dump(model, path)
    return joblib.load(path, mmap_mode=mode)


WAYS: dict[str, Copy] = {
    "joblib": _through_joblib,
    "joblib, mapped": partial(_through_joblib, mode="c"),
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, _: copy.deepcopy(model),
}
LEARNERS = SUBJECTS | {
    "tikhonov, factor follows": Subject(
        partial(tikhonov, solver="qr", intercept=True), SUBJECTS["tikhonov"].examples
    ),
    "tikhonov, 64 bits": Subject(
        partial(tikhonov, fraction_bits=12, solver="cholesky"), SUBJECTS["tikhonov"].examples
    ),
    "pagerank, full": Subject(
        partial(pagerank, layout="full"), SUBJECTS["personalized_pagerank"].examples
    ),
    "pagerank, ordered": Subject(
        partial(pagerank, item_order=[3, 1, 0, 2, 5, 4]),
        SUBJECTS["personalized_pagerank"].examples,
    ),
}
X = np.random.default_rng(0).integers(0, 9, (40, 3)).astype(float)
Y = (X[:, 0] > X[:, 1]).astype(int)
HISTORIES = [[0, 1, 2], [1, 2], [2, 3, 4], [0, 4], [1, 3]]
each_way = pytest.mark.parametrize("way", WAYS)


@pytest.mark.parametrize("way", [*WAYS, "copy"])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_copied_learner_changes_as_the_original_does(name: str, way: str, tmp_path: Path) -> None:
    subject = LEARNERS[name]
    model: Any = subject.learned(range(5))
    model.digest()
    model.derived_arrays()  # whatever is derived is copied, too
    copied = copy.copy(model) if way == "copy" else WAYS[way](model, tmp_path / "model")
    assert copied.digest() == model.digest()
    for one in (model, copied):
        subject.learn(one, [5])
        subject.forget(one, [1])
        subject.forget(one, [0, 3])
        subject.learn(one, [6, 2])
        one.check()
    expected: Any = subject.learned([2, 2, 4, 5, 6])
    assert copied.digest() == copied.statistics.digest() == expected.digest()
    assert copied.change(expected) < 1e-9
    assert model.digest() == expected.digest()


@each_way
@pytest.mark.parametrize(
    "estimator", [Ridge(), RidgeClassifier(), MultinomialNB(), KNeighborsClassifier(enough=50)]
)
def test_a_copied_estimator_changes_as_the_original_does(
    estimator: Any, way: str, tmp_path: Path
) -> None:
    model = estimator.fit(X[:30], Y[:30])
    copied = WAYS[way](model, tmp_path / "model")
    for one in (model, copied):
        one.partial_fit(X[30:], Y[30:]).forget(X[:6], Y[:6])
    assert copied.digest() == model.digest() == copied.statistics.digest()
    assert copied.forget(X[6:], Y[6:]).statistics.is_zero
    assert not model.statistics.is_zero, "copies are independent"


@each_way
def test_a_copied_recommender_changes_as_the_original_does(way: str, tmp_path: Path) -> None:
    model = ItemRecommender(n_items=8).fit(HISTORIES)
    copied = WAYS[way](model, tmp_path / "model")
    copied.partial_fit([[0, 5]]).forget([0, 3])
    copied.learner_.check()
    expected = ItemRecommender(n_items=8).fit([*HISTORIES[1:3], HISTORIES[4], [0, 5]])
    assert copied.digest() == copied.statistics.digest() == expected.digest()
    assert copied.similar_items(2)[0].tolist() == expected.similar_items(2)[0].tolist()
    assert model.digest() == ItemRecommender(n_items=8).fit(HISTORIES).digest()
