"""Forgetting gives the digest of fitting the others; bounds and classes are fixed at first."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from sklearn import linear_model, naive_bayes  # type: ignore[import-untyped]

from dealfl.errors import BadInput, NotLearned, OutOfBounds
from dealfl.learners import Tikhonov
from dealfl.sklearn import KNeighborsClassifier, MultinomialNB, Ridge, RidgeClassifier

Estimator = Any
CLASSES = ["a", "b", "c"]
MAKERS: dict[str, Callable[..., Estimator]] = {
    "Ridge": lambda: Ridge(feature_bound=8.0, target_bound=4.0),
    "RidgeClassifier": lambda: RidgeClassifier(feature_bound=[8.0, 9.0]),
    "MultinomialNB": lambda: MultinomialNB(feature_bound=8.0),
    "KNeighborsClassifier": lambda: KNeighborsClassifier(
        3, tables=3, feature_bound=8.0, offset=[1.0, 2.0]
    ),
}
each = pytest.mark.parametrize("name", list(MAKERS))
X = np.random.default_rng(0).uniform(0, 8, (40, 2)).round(2)
LABELS = np.array(CLASSES)[np.arange(40) % 3]


def targets(name: str, labels: NDArray[Any]) -> NDArray[Any]:
    return np.where(labels == "a", 1.5, -0.5) if name == "Ridge" else labels


def fitted(name: str, X: NDArray[Any], labels: NDArray[Any]) -> Estimator:
    classes = {} if name == "Ridge" else {"classes": CLASSES}
    return MAKERS[name]().partial_fit(X, targets(name, labels), **classes)


values = st.floats(0, 8, allow_subnormal=False)
rows = st.tuples(values, values, st.sampled_from(CLASSES), st.booleans())


@each
@pytest.mark.filterwarnings("ignore:.*differences are lost")  # of values near 0
@given(table=st.lists(rows, min_size=2, max_size=12), splits=st.integers(1, 3))
def test_forgetting_gives_the_digest_of_fitting_the_others(
    name: str, table: list[tuple[float, float, str, bool]], splits: int
) -> None:
    X = np.array([row[:2] for row in table])
    labels = np.array([row[2] for row in table])
    gone = np.array([row[3] for row in table])
    gone[:2] = True, False  # at least one row each
    model = fitted(name, X[:1], labels[:1])
    for part in np.array_split(np.arange(1, len(X)), splits):
        if len(part):
            model.partial_fit(X[part], targets(name, labels[part]))
    model.forget(X[gone], targets(name, labels[gone]))
    others = fitted(name, X[~gone], labels[~gone])
    assert model.digest() == others.digest()
    assert model.statistics == others.statistics
    if "Ridge" not in name:  # float weights may differ in the last digits
        assert model.predict(X).tolist() == others.predict(X).tolist()


def test_the_digest_is_that_of_the_learner_with_the_same_settings() -> None:
    learner = Tikhonov(n_features=2, feature_bound=8.0, target_bound=4.0, intercept=True)
    learner.learn(X, targets("Ridge", LABELS))
    assert fitted("Ridge", X, LABELS).digest() == learner.digest()


@each
def test_bounds_from_the_data_are_the_same_for_similar_data(name: str) -> None:
    kind = type(MAKERS[name]())
    y = targets(name, LABELS)
    model = kind().fit(X, y)
    assert model.forget(X[:7], y[:7]).digest() == kind().fit(X[7:], y[7:]).digest()


@each
def test_rows_outside_the_bounds_are_refused_or_clipped(name: str) -> None:
    kind, y = type(MAKERS[name]()), targets(name, LABELS)
    frame = pd.DataFrame(X, columns=["age", "height"])
    model = kind().fit(frame, y)
    before = model.digest()
    large = pd.DataFrame([[1.0, 1000.0]], columns=["age", "height"])
    with pytest.raises(OutOfBounds, match=r"'height' has the value 1000, outside .* clip=True"):
        model.partial_fit(large, y[:1])
    assert model.digest() == before
    model = kind(clip=True).fit(frame, y)
    unclipped, before = before, model.digest()
    assert before != unclipped  # clipping shapes the statistics
    clipped = model.partial_fit(large, y[:1]).digest()
    assert clipped != before
    assert model.forget(large, y[:1]).digest() == before
    large["height"] = model.feature_bound_[1] + np.broadcast_to(model.offset_, 2)[1]
    assert model.partial_fit(large, y[:1]).digest() == clipped


def test_a_target_outside_its_bound_is_refused_or_clipped() -> None:
    model = Ridge().fit([[1.0], [2.0]], [1.0, -2.0])
    assert model.target_bound_ == 32.0
    with pytest.raises(OutOfBounds, match=r"the target has the value -99, outside \[-32, 32\]"):
        model.partial_fit([[1.0]], [-99.0])
    model = Ridge(clip=True).fit([[1.0], [2.0]], [1.0, -2.0])
    before = model.digest()
    model.partial_fit([[1.0]], [-99.0])
    assert model.forget([[1.0]], [-32.0]).digest() == before


def test_bounds_around_a_centre_follow_the_rows() -> None:
    rows = np.array([[100.0, 0.0], [101.0, 0.0]])
    model = KNeighborsClassifier().fit(rows, [0, 1])
    assert model.offset_.tolist() == [100.5, 0.0]
    assert model.feature_bound_.tolist() == [8.0, 8.0]
    centred = KNeighborsClassifier(offset=100.0).fit(rows[:, :1], [0, 1])
    assert (centred.offset_.tolist(), centred.feature_bound_.tolist()) == ([100.0], [16.0])


def test_a_feature_that_was_always_zero_has_room_for_values() -> None:
    model = Ridge().fit([[0.0, 3.0], [0.0, 4.0]], [1.0, 2.0])
    assert model.feature_bound_.tolist() == [64.0, 64.0]
    assert Ridge().fit([[0.0]], [0.0]).feature_bound_.tolist() == [16.0]


@each
def test_what_was_never_learned_is_refused(name: str) -> None:
    model = fitted(name, X, LABELS)
    before = model.digest()
    model.forget(X, targets(name, LABELS))
    with pytest.raises(NotLearned):
        model.forget(X[:1], targets(name, LABELS[:1]))
    assert model.partial_fit(X, targets(name, LABELS)).digest() == before


def test_classes_are_fixed_by_the_first_call() -> None:
    with pytest.raises(ValueError, match="first call of partial_fit needs classes"):
        MultinomialNB().partial_fit(X, LABELS)
    model = MultinomialNB().partial_fit(X[:2], LABELS[:2], classes=["c", "b", "a"])
    assert model.classes_.tolist() == CLASSES
    with pytest.raises(ValueError, match="the first call set"):
        model.partial_fit(X, LABELS, classes=["a", "b"])
    with pytest.raises(ValueError, match="row 0 has class 'z'"):
        model.partial_fit(X[:1], ["z"])
    assert set(model.predict(X)) <= {"a", "b"}  # no row has class c


@pytest.mark.parametrize("name", list(MAKERS)[1:])
def test_a_class_without_rows_is_never_predicted(name: str) -> None:
    model = fitted(name, X, LABELS)
    if name == "MultinomialNB":
        model.set_params(fit_prior=False)
    gone = LABELS == "b"
    model.forget(X[gone], LABELS[gone])
    assert "b" not in model.predict(X)
    if hasattr(model, "predict_proba"):
        assert np.all(model.predict_proba(X)[:, 1] == 0)


@each
def test_forgetting_no_rows_changes_nothing(name: str) -> None:
    model = fitted(name, X, LABELS)
    before = model.digest()
    assert model.forget(X[:0], targets(name, LABELS[:0])).digest() == before
    assert model.forget(sparse.csr_array((0, 2)), []).digest() == before


def test_counts_of_classes_are_zero_when_everything_is_forgotten() -> None:
    model = fitted("MultinomialNB", X, LABELS)
    assert model.class_count_.tolist() == [14.0, 13.0, 13.0]
    assert model.forget(X, LABELS).class_count_.tolist() == [0.0, 0.0, 0.0]


FAR = 1.7e9  # seconds since 1970
FAR_ROWS = X + np.array([FAR, 0.0])
COARSE = r"varies .* multiples of 32: .* a smaller"


@pytest.mark.parametrize(
    ("model", "X", "y", "what"),
    [
        (Ridge(fit_intercept=False), FAR_ROWS, X[:, 0], f"feature 0 {COARSE} feature_bound"),
        (Ridge(fit_intercept=False), X, X[:, 0] + FAR, f"the target {COARSE} target_bound"),
        (RidgeClassifier(fit_intercept=False), FAR_ROWS, LABELS, f"feature 0 {COARSE}"),
        (Ridge(feature_bound=2.0**35), X, X[:, 0], f"feature 0 {COARSE} feature_bound"),
        (MultinomialNB(feature_bound=2.0**35), X, LABELS, f"feature 0 {COARSE}"),
        (Ridge(), X * np.array([1.0, 1e-200]), X[:, 0], r"feature 1 varies .*e-69: .*"),
    ],
)
def test_a_grid_that_loses_the_differences_of_values_is_named(
    model: Estimator, X: NDArray[Any], y: NDArray[Any], what: str
) -> None:
    for rows in (X, sparse.csr_array(X)):
        with pytest.warns(UserWarning, match=what):
            model.fit(rows, y)


@pytest.mark.parametrize("kind", [list, sparse.csr_array])
def test_values_far_from_zero_are_learned_and_forgotten_like_others(kind: Any) -> None:
    draw = np.random.default_rng(0)
    near = draw.random((200, 2))
    rows, y = near + np.array([FAR, 0.0]), near @ [1.0, 2.0] + FAR
    model, peer = Ridge().fit(kind(rows), y), linear_model.Ridge().fit(near, y)
    assert (model.offset_[0] > 0, model.offset_[1], model.target_offset_ > 0) == (True, 0.0, True)
    assert model.coef_ == pytest.approx(peer.coef_, abs=1e-3)
    assert model.predict(kind(rows)) - FAR == pytest.approx(peer.predict(near) - FAR, abs=1e-3)
    model.partial_fit(rows[:3] + np.array([8000.0, 0.0]), y[:3] - 8000.0)  # later values
    model.forget(rows[:3] + np.array([8000.0, 0.0]), y[:3] - 8000.0).forget(kind(rows[:90]), y[:90])
    assert model.digest() == Ridge().fit(rows[90:], y[90:]).digest()
    with pytest.raises(
        OutOfBounds, match=r"the target has the value 0, outside \[1699967232, 1700032768\]"
    ):
        model.partial_fit(rows[:1], [0.0])
    classes = np.where(near[:, 0] > 0.5, "late", "early")
    assert RidgeClassifier().fit(kind(rows), classes).score(kind(rows), classes) > 0.95


def test_whole_numbers_on_a_coarse_grid_and_small_values_lose_nothing() -> None:
    rows = np.arange(8.0)[:, None]
    Ridge(feature_bound=2.0**30, target_bound=2.0**30).fit(rows, rows[:, 0])
    with pytest.raises(BadInput, match=r"feature_bound is .*; it must lie between 2\^-200 and 2"):
        Ridge().fit(rows * 1e307, rows[:, 0])
    tiny = Ridge(alpha=0.0).fit(rows * 1e-40, rows[:, 0])
    assert tiny.predict(rows * 1e-40) == pytest.approx(rows[:, 0], abs=1e-6)


def test_small_counts_beside_large_ones_are_not_lost_and_can_grow() -> None:
    draw = np.random.default_rng(0)
    y = draw.integers(0, 2, 200)
    rows = np.column_stack([np.zeros(200), 0.01 * draw.poisson(2 + 3 * y[:, None], (200, 3))])
    rows[0, 0] = 1e10
    model, peer = MultinomialNB().fit(rows, y), naive_bayes.MultinomialNB().fit(rows, y)
    assert model.feature_log_prob_ == pytest.approx(peer.feature_log_prob_, rel=1e-3)
    assert model.predict(rows).tolist() == peer.predict(rows).tolist()
    model.partial_fit(1000 * rows[1:], y[1:])
    plain = MultinomialNB().fit(X, LABELS)
    assert plain.feature_bound_.tolist() == [128.0, 128.0], "one bound for similar features"
