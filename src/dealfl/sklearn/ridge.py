"""Ridge regression and classification as scikit-learn estimators."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin  # type: ignore[import-untyped]
from sklearn.utils import check_scalar  # type: ignore[import-untyped]
from sklearn.utils.extmath import safe_sparse_dot  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from dealfl.errors import BadInput
from dealfl.learners import RowLearner, Tikhonov, TikhonovClassifier
from dealfl.sklearn.base import (
    ForgettingClassifier,
    ForgettingEstimator,
    Matrix,
    bound_and_offset,
    out_of_bounds,
    warn_if_coarse,
)

Floats = NDArray[np.float64]

_MAX_FEATURES = 1 << 13  # the products of all pairs of features are held in memory
_BYTES_PER_PAIR = 56  # of features: moments, what is added to them, and a factor
_SECONDS_PER_FACTOR_STEP = 3e-11
_SECONDS_PER_PRODUCT = 3e-10


def require_feasible(X: Matrix) -> None:
    """Raise `BadInput` with an estimate if there are too many features for ridge in memory."""
    rows, features = X.shape
    if features <= _MAX_FEATURES:
        return
    pairs = float(features) ** 2
    seconds = pairs * features * _SECONDS_PER_FACTOR_STEP
    if isinstance(X, np.ndarray):
        seconds += pairs * rows * _SECONDS_PER_PRODUCT
    raise BadInput(
        f"X has {features:,} features; ridge keeps the products of all pairs of features, which "
        f"would take about {pairs * _BYTES_PER_PAIR / 1e9:,.0f} GB of memory and "
        f"{max(1, round(seconds / 60)):,} min: give at most {_MAX_FEATURES:,} features, for "
        "example after sklearn.feature_selection.SelectKBest or a HashingVectorizer with fewer"
    )


class Ridge(RegressorMixin, ForgettingEstimator):  # type: ignore[misc]
    """Ridge regression like `sklearn.linear_model.Ridge` that forgets rows exactly.

    It keeps the products of all pairs of features, so `X` has at most 8,192 features.

    Parameters
    ----------
    alpha : float, default 1.0
        Weight of the squared norm of the coefficients, ≥ 0.
    fit_intercept : bool, default True
        Whether to learn a constant, which is not penalised.
    solver : {"auto", "cholesky", "qr", "refactor"}, default "auto"
        How coefficients are computed; it does not affect the statistics.
    feature_bound : float, array_like or "auto", default "auto"
        Largest magnitude of the features, one number or one per feature; "auto" takes it from the
        first rows. With an intercept, "auto" also subtracts an offset from a feature whose first
        values are close together and far from 0, such as times in seconds since 1970.
    target_bound : float or "auto", default "auto"
        Largest magnitude of the target; see `feature_bound`.
    clip : bool, default False
        Move values outside the bounds to the bounds instead of raising an error.

    Attributes
    ----------
    learner_ : Tikhonov
        The model; it saves, merges and checks statistics.
    feature_bound_ : ndarray of shape (n_features,)
        Bound of each feature, as a distance from `offset_`.
    offset_ : ndarray
        Number that is subtracted from each feature before it is rounded, or 0 for all.
    target_bound_, target_offset_ : float
        Bound and offset of the target.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if `X` has names.

    Examples
    --------
    >>> model = Ridge(alpha=0.0).fit([[0.0], [1.0], [2.0], [9.0]], [1.0, 3.0, 5.0, 0.0])
    >>> model.forget([[9.0]], [0.0]).predict([[3.0]]).round(6).tolist()
    [7.0]
    """

    learner_: Tikhonov

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        solver: str = "auto",
        feature_bound: float | ArrayLike | str = "auto",
        target_bound: float | str = "auto",
        clip: bool = False,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.feature_bound = feature_bound
        self.target_bound = target_bound
        self.clip = clip

    def predict(self, X: object) -> Floats:
        """Return the predicted target of each row."""
        rows = self._rows(X)
        predicted: Floats = self.learner_.predict(rows)
        return predicted

    @property
    def coef_(self) -> Floats:
        """One coefficient per feature."""
        check_is_fitted(self)
        return self.learner_.weights

    @property
    def intercept_(self) -> float:
        """The constant that is added to every prediction."""
        check_is_fitted(self)
        return self.learner_.bias

    def _empty_learner(self, X: Matrix, y: NDArray[Any]) -> Tikhonov:
        check_scalar(self.alpha, "alpha", Real, min_val=0)
        require_feasible(X)
        centred = bool(self.fit_intercept)
        bound, offset = bound_and_offset(self.feature_bound, X, centred=centred)
        goal, shift = bound_and_offset(self.target_bound, y[:, None], centred=centred)
        learner = Tikhonov(
            X.shape[1],
            penalty=self.alpha,
            feature_bound=bound,
            target_bound=goal,
            offset=offset,
            target_offset=shift,
            solver=self.solver,
            intercept=self.fit_intercept,
            clip=self.clip,
        )
        self.target_bound_ = learner.settings["target_bound"]
        self.target_offset_ = learner.settings.get("target_offset", 0.0)
        return learner

    def _warn_if_coarse(self, learner: RowLearner, X: Matrix, y: NDArray[Any]) -> None:
        super()._warn_if_coarse(learner, X, y)
        bound, bits = np.array([self.target_bound_]), learner.settings["fraction_bits"]
        warn_if_coarse(y[:, None], bound, bits, lambda _: "the target", "target_bound")

    def _require_inside(self, X: Matrix, y: NDArray[Any]) -> None:
        super()._require_inside(X, y)
        bound, offset = self.target_bound_, self.target_offset_
        worst = y[np.argmax(np.abs(y - offset))]
        if abs(worst - offset) > bound:
            raise out_of_bounds("the target", worst, bound, offset, "target_bound")


class RidgeClassifier(ForgettingClassifier):
    """Ridge classification like `sklearn.linear_model.RidgeClassifier` that forgets rows exactly.

    It keeps the products of all pairs of features, so `X` has at most 8,192 features.

    Parameters
    ----------
    alpha, fit_intercept, solver, feature_bound, clip
        See `Ridge`.

    Attributes
    ----------
    learner_ : TikhonovClassifier
        The model; it saves, merges and checks statistics.
    classes_ : ndarray
        The classes, sorted.
    feature_bound_, offset_, n_features_in_, feature_names_in_
        See `Ridge`.

    Examples
    --------
    >>> model = RidgeClassifier().fit([[0.0], [1.0], [2.0], [9.0]], ["a", "a", "b", "a"])
    >>> model.forget([[9.0]], ["a"]).predict([[3.0]]).tolist()
    ['b']
    """

    learner_: TikhonovClassifier

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        solver: str = "auto",
        feature_bound: float | ArrayLike | str = "auto",
        clip: bool = False,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.feature_bound = feature_bound
        self.clip = clip

    def decision_function(self, X: object) -> Floats:
        """Return the output of each class; of two classes, that of the second one.

        Parameters
        ----------
        X : {array_like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            Rows, inside or outside the bounds.

        Returns
        -------
        ndarray of float64
            Rows by classes, or one number per row for two classes.
        """
        rows = self._rows(X)
        outputs: Floats = safe_sparse_dot(rows, self.coef_.T, dense_output=True) + self.intercept_
        return outputs.ravel() if outputs.shape[1] == 1 else outputs

    def predict(self, X: object) -> NDArray[Any]:
        """Return the class of each row; a class without rows is never predicted."""
        rows = self._rows(X)
        labels = self.learner_.predict(rows)
        return np.asarray(self.classes_[np.searchsorted(self.classes_, labels)])

    @property
    def coef_(self) -> Floats:
        """One row of coefficients per class; of two classes, that of the second one."""
        check_is_fitted(self)
        return self.learner_.weights[self._shown]

    @property
    def intercept_(self) -> Floats:
        """The constant of each row of `coef_`."""
        check_is_fitted(self)
        return self.learner_.bias[self._shown]

    @property
    def _shown(self) -> slice:
        return slice(1 if len(self.classes_) == 2 else 0, None)

    def _empty_learner(self, X: Matrix, y: NDArray[Any]) -> TikhonovClassifier:  # noqa: ARG002
        check_scalar(self.alpha, "alpha", Real, min_val=0)
        require_feasible(X)
        bound, offset = bound_and_offset(self.feature_bound, X, centred=bool(self.fit_intercept))
        return TikhonovClassifier(
            X.shape[1],
            self.classes_.tolist(),
            penalty=self.alpha,
            feature_bound=bound,
            offset=offset,
            solver=self.solver,
            intercept=self.fit_intercept,
            clip=self.clip,
        )
