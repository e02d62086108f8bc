"""The estimators keep scikit-learn's contract and work inside its tools."""

import pickle
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from scipy import sparse
from sklearn.base import clone  # type: ignore[import-untyped]
from sklearn.exceptions import NotFittedError  # type: ignore[import-untyped]
from sklearn.model_selection import (  # type: ignore[import-untyped]
    GridSearchCV,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
from sklearn.preprocessing import MinMaxScaler  # type: ignore[import-untyped]
from sklearn.utils.estimator_checks import (  # type: ignore[import-untyped]
    parametrize_with_checks,
)

import dealfl.sklearn
from dealfl.sklearn import KNeighborsClassifier, MultinomialNB, Ridge, RidgeClassifier

EXAMPLE = Path(__file__).parents[2] / "examples" / "forget_a_person.py"
Estimator = Any
ALL = (Ridge(), RidgeClassifier(), MultinomialNB(), KNeighborsClassifier())
RNG = np.random.default_rng(0)
X = RNG.integers(0, 9, (60, 3)).astype(float)
Y = (X[:, 0] > X[:, 1]).astype(int)
each = pytest.mark.parametrize("estimator", ALL, ids=lambda one: type(one).__name__)


@parametrize_with_checks(list(ALL))  # type: ignore[untyped-decorator]
def test_the_checks_of_scikit_learn_pass(
    estimator: Estimator, check: Callable[[Estimator], None]
) -> None:
    check(estimator)


def test_the_public_names() -> None:
    assert sorted(dealfl.sklearn.__all__) == [
        "ItemRecommender", "KNeighborsClassifier", "MultinomialNB", "Ridge", "RidgeClassifier",
    ]  # fmt: skip


def test_importing_dealfl_does_not_import_scikit_learn() -> None:
    code = "import sys, dealfl, dealfl.learners; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_without_scikit_learn_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['sklearn'] = None; import dealfl.sklearn"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.endswith('scikit-learn; run `pip install "dealfl[sklearn]"`\n')


def test_the_example_ends_with_equal_digests(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = capsys.readouterr().out.splitlines()
    assert printed.count("equal") == 2, "an estimator and a run"
    assert printed[-1] == "about her"


@each
def test_pipelines_searches_and_cross_validation(estimator: Estimator) -> None:
    name = "n_neighbors" if isinstance(estimator, KNeighborsClassifier) else "alpha"
    pipeline = make_pipeline(MinMaxScaler(), clone(estimator))
    step = type(estimator).__name__.lower()
    search = GridSearchCV(pipeline, {f"{step}__{name}": [1, 3]}, cv=2).fit(X, Y)
    assert search.best_params_[f"{step}__{name}"] in (1, 3)
    assert cross_val_score(pipeline, X, Y, cv=3).shape == (3,)


@each
def test_frames_in_and_out_and_names_of_features(estimator: Estimator) -> None:
    frame = pd.DataFrame(X, columns=["age", "height", "weight"])
    pipeline = make_pipeline(MinMaxScaler(), clone(estimator)).set_output(transform="pandas")
    pipeline.fit(frame, pd.Series(Y))
    assert pipeline[-1].feature_names_in_.tolist() == ["age", "height", "weight"]
    assert pipeline.predict(frame).shape == (60,)
    model = clone(estimator).fit(frame, Y)
    for call in (model.predict, lambda rows: model.forget(rows, Y)):
        with pytest.raises(ValueError, match="feature names should match"):
            call(frame[["height", "age", "weight"]])
    assert model.forget(frame[:5], Y[:5]).digest() != clone(estimator).fit(frame, Y).digest()


@each
def test_copies_are_equal_and_independent(estimator: Estimator) -> None:
    model = clone(estimator).fit(X, Y)
    copy = pickle.loads(pickle.dumps(model))
    assert copy.digest() == model.digest()
    assert copy.statistics == model.statistics
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    copy.forget(X[:9], Y[:9])
    assert copy.digest() != model.digest()
    with pytest.raises(NotFittedError):
        clone(model).digest()


@each
def test_sparse_rows_give_the_statistics_of_dense_ones(estimator: Estimator) -> None:
    dense = clone(estimator).fit(X, Y)
    stored = clone(estimator).fit(sparse.csr_array(X), Y)
    assert stored.digest() == dense.digest()
    stored.forget(sparse.csc_matrix(X[:5]), Y[:5])
    assert stored.digest() == dense.forget(X[:5], Y[:5]).digest()
    np.testing.assert_allclose(stored.predict(sparse.csr_matrix(X)), dense.predict(X))


@each
def test_weights_of_rows_are_refused_with_the_reason(estimator: Estimator) -> None:
    with pytest.raises(TypeError, match=r"not sample_weight: exact statistics .* take no weights"):
        clone(estimator).fit(X, Y, sample_weight=np.ones(len(X)))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (Ridge(alpha=-1), "alpha == -1, must be >= 0"),
        (MultinomialNB(alpha=0), "alpha == 0, must be > 0"),
        (MultinomialNB(class_prior=[1.0]), "give each of 2 classes a prior > 0"),
        (MultinomialNB(class_prior=[0.0, 1.0]), "give each of 2 classes a prior > 0"),
        (MultinomialNB(class_prior=[np.nan, 1.0]), "give each of 2 classes a prior > 0"),
        (KNeighborsClassifier(n_neighbors=0), "n_neighbors == 0, must be >= 1"),
        (RidgeClassifier(solver="svd"), "svd"),
        (Ridge(feature_bound=[1.0, 2.0]), "give one number, or 3 numbers"),
        (Ridge(target_bound=-1.0), "target_bound is -1.0"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(estimator: Estimator, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, Y)
    fitted = type(estimator)().fit(X, Y)
    digest = fitted.digest()
    with pytest.raises(ValueError, match=message):
        fitted.set_params(**estimator.get_params()).fit(X, Y)
    assert fitted.digest() == digest, "a fit that fails leaves the model that was there"
    with pytest.raises(NotFittedError):
        estimator.predict(X)
