"""Where an estimator computes the same as scikit-learn's, the results agree."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn import linear_model, naive_bayes, neighbors  # type: ignore[import-untyped]
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]

from dealfl.data import Examples
from dealfl.errors import BadInput
from dealfl.sklearn import KNeighborsClassifier, MultinomialNB, Ridge, RidgeClassifier

Load = Callable[[str], Examples]
PIXELS, DIGITS = load_digits(return_X_y=True)


def rows_of(examples: Examples) -> tuple[Any, NDArray[Any]]:
    assert examples.targets is not None
    return examples.features, examples.targets


def halves(rows: int) -> tuple[slice, slice]:
    return slice(0, rows // 2), slice(rows // 2, rows)


def assert_same(mine: Any, theirs: Any, X: Any, names: tuple[str, ...]) -> None:
    """Compare the predictions of two estimators and their methods or attributes."""
    np.testing.assert_array_equal(mine.predict(X), theirs.predict(X))
    for name in names:
        ours, known = getattr(mine, name), getattr(theirs, name)
        if callable(ours):
            ours, known = ours(X), known(X)
        np.testing.assert_allclose(np.ravel(ours), np.ravel(known), 1e-6, 1e-7, err_msg=name)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.01, 10.0])
def test_ridge_on_housing(load_real: Load, alpha: float, fit_intercept: bool) -> None:
    X, y = rows_of(load_real("housing"))
    first, second = halves(len(y))
    theirs = linear_model.Ridge(alpha=alpha, fit_intercept=fit_intercept).fit(X[first], y[first])
    tight = {"feature_bound": np.abs(X).max(axis=0), "target_bound": y.max()}
    for bounds, close in (({}, 1e-6), (tight, 1e-7)):  # "auto" leaves room, which costs four bits
        mine = Ridge(alpha, fit_intercept=fit_intercept, **bounds).fit(X, y)
        mine.forget(X[second], y[second])
        np.testing.assert_allclose(mine.predict(X), theirs.predict(X), rtol=close, atol=close)
        np.testing.assert_allclose(mine.coef_, theirs.coef_, rtol=10 * close, atol=close)
        assert mine.intercept_ == pytest.approx(theirs.intercept_, rel=close)
        assert mine.score(X, y) == pytest.approx(theirs.score(X, y), rel=10 * close)


@pytest.mark.parametrize("count", [10, 2])
def test_ridge_classifier_on_digits(count: int) -> None:
    some = np.isin(DIGITS, range(count))
    X, y = StandardScaler().fit_transform(PIXELS[some]), DIGITS[some]
    first, second = halves(len(y))
    theirs = linear_model.RidgeClassifier().fit(X[first], y[first])
    mine = RidgeClassifier().fit(X, y).forget(X[second], y[second])
    assert_same(mine, theirs, X, ("decision_function", "coef_", "intercept_"))


@pytest.mark.parametrize("fit_prior", [True, False])
def test_naive_bayes_on_mushrooms(load_real: Load, fit_prior: bool) -> None:
    X, y = rows_of(load_real("mushrooms"))
    first, second = halves(len(y))
    theirs = naive_bayes.MultinomialNB(alpha=0.5, fit_prior=fit_prior).fit(X[first], y[first])
    mine = MultinomialNB(alpha=0.5, fit_prior=fit_prior).fit(X[first], y[first])
    names = ("feature_log_prob_", "class_log_prior_", "class_count_")
    assert_same(mine, theirs, X, (*names, "predict_proba", "predict_log_proba"))
    theirs.partial_fit(X[second], y[second])
    mine.partial_fit(X[second], y[second])
    assert_same(mine, theirs, X, (*names, "predict_joint_log_proba"))


def test_naive_bayes_with_given_priors_on_digits() -> None:
    priors = np.arange(1, 11) / 55
    theirs = naive_bayes.MultinomialNB(class_prior=priors).fit(PIXELS, DIGITS)
    mine = MultinomialNB(class_prior=priors).fit(sparse.csr_array(PIXELS), DIGITS)
    assert_same(mine, theirs, PIXELS, ("predict_proba", "class_log_prior_"))


def test_neighbours_on_digits() -> None:
    X = PIXELS + np.random.default_rng(0).uniform(0, 1, PIXELS.shape)  # no equal distances
    first, second = halves(len(X))
    theirs = neighbors.KNeighborsClassifier(5).fit(X[first], DIGITS[first])
    exact = KNeighborsClassifier(5, tables=1, enough=2000).fit(X[first], DIGITS[first])
    assert_same(exact, theirs, X[second][:200], ("predict_proba",))
    hashed = KNeighborsClassifier(5).fit(X[first], DIGITS[first])
    found = hashed.predict_proba(X[second]) == theirs.predict_proba(X[second])
    assert found.all(axis=1).mean() > 0.97
    assert (
        abs(hashed.score(X[second], DIGITS[second]) - theirs.score(X[second], DIGITS[second]))
        < 5e-3
    )


@pytest.mark.parametrize("kind", [Ridge, RidgeClassifier])
def test_ridge_refuses_too_many_features_at_once_with_an_estimate(kind: Any) -> None:
    wide = sparse.random_array((50, 20_000), density=0.001, format="csr", rng=0)
    with pytest.raises(
        BadInput, match=r"X has 20,000 features.* about 22 GB of memory and 4 min: give at most"
    ) as refusal:
        kind().fit(wide, np.arange(50) % 2)
    assert "8,192 features" in str(refusal.value)
