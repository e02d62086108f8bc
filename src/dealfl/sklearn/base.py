"""The common part of the estimators: checked input, bounds fixed by the first rows, statistics."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (  # type: ignore[import-untyped]
    BaseEstimator,
    ClassifierMixin,
    is_regressor,
)
from sklearn.utils.multiclass import (  # type: ignore[import-untyped]
    check_classification_targets,
)
from sklearn.utils.validation import (  # type: ignore[import-untyped]
    check_is_fitted,
    validate_data,
)

from dealfl.errors import BadInput
from dealfl.learners import Learner, RowLearner, Statistics
from dealfl.sklearn.bounds import Matrix, out_of_bounds, range_of, warn_if_coarse

Verb = Callable[[Any, Any], object]


class Learned(BaseEstimator):  # type: ignore[misc]
    """An estimator whose model is a learner, made when it is fitted."""

    learner_: Learner

    @property
    def statistics(self) -> Statistics:
        """A copy of the integer statistics, the whole state of the model."""
        check_is_fitted(self)
        return self.learner_.statistics

    def digest(self) -> str:
        """Return the digest of the statistics: equal if and only if settings and values are."""
        check_is_fitted(self)
        return self.learner_.digest()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learner_")


class ForgettingEstimator(Learned):
    """An estimator that learns and forgets rows; its bounds are fixed by the first ones."""

    clip: bool
    learner_: RowLearner

    def fit(self, X: object, y: object, **refused: object) -> Self:
        """Forget everything, take the bounds from the settings or the data, and learn rows.

        Parameters
        ----------
        X : {array_like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            One row per example.
        y : array_like of shape (n_samples,)
            Target of each row.
        **refused
            Anything else is an error: exact statistics count each row once and take no weights.

        Returns
        -------
        estimator
            The estimator itself.
        """
        if refused:
            raise TypeError(
                f"fit takes X and y, not {', '.join(refused)}: exact statistics count each row "
                "once and take no weights; give a row several times to count it more"
            )
        self.__dict__.pop("learner_", None)  # a failed fit leaves no model
        return self._begin(*self._checked(X, y, reset=True))

    def partial_fit(self, X: object, y: object) -> Self:
        """Learn more rows; the first call takes the bounds from the settings or from its rows.

        Parameters
        ----------
        X : {array_like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            One row per example.
        y : array_like of shape (n_samples,)
            Target of each row.

        Returns
        -------
        estimator
            The estimator itself.
        """
        if not hasattr(self, "learner_"):
            return self.fit(X, y)
        return self._change(self.learner_.learn, *self._checked(X, y, reset=False))

    def forget(self, X: object, y: object) -> Self:
        """Remove rows; the model is then equal to one that never learned them.

        Parameters
        ----------
        X : {array_like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            Rows that were learned before.
        y : array_like of shape (n_samples,)
            Target of each row.

        Returns
        -------
        estimator
            The estimator itself.

        Raises
        ------
        NotLearned
            The statistics show that a row was never learned; nothing was changed.
        """
        check_is_fitted(self)
        rows, targets = self._checked(X, y, reset=False, ensure_min_samples=0)
        return self._change(self.learner_.forget, rows, targets)

    @abstractmethod
    def predict(self, X: object) -> NDArray[Any]:
        """Return the predicted target of each row.

        Parameters
        ----------
        X : {array_like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            Rows, inside or outside the bounds.

        Returns
        -------
        ndarray
            One target or class per row.
        """

    @abstractmethod
    def _empty_learner(self, X: Matrix, y: NDArray[Any]) -> RowLearner:
        """Return a learner with the given bounds, or with bounds for these rows."""

    def _begin(self, X: Matrix, y: NDArray[Any]) -> Self:
        learner = self._empty_learner(X, y)
        self.feature_bound_ = np.array(learner.settings["feature_bound"])
        self.offset_ = np.array(learner.settings.get("offset", 0.0))
        self._clips = bool(self.clip)  # fixed by the first fit: clipping shapes the statistics
        self._change(learner.learn, X, y)
        self._warn_if_coarse(learner, X, y)
        self.learner_ = learner
        return self

    def _change(self, verb: Verb, X: Matrix, y: NDArray[Any]) -> Self:
        if not self._clips and X.shape[0]:
            self._require_inside(X, y)
        verb(X, y)
        return self

    def _warn_if_coarse(self, learner: RowLearner, X: Matrix, y: NDArray[Any]) -> None:  # noqa: ARG002
        """Warn if the grid of a feature loses the differences of its first values."""
        bits = learner.settings["fraction_bits"]
        warn_if_coarse(X, self.feature_bound_, bits, self._name_of, "feature_bound")

    def _name_of(self, feature: int) -> str:
        names = getattr(self, "feature_names_in_", None)
        return f"feature {feature}" if names is None else f"feature {names[feature]!r}"

    def _require_inside(self, X: Matrix, y: NDArray[Any]) -> None:  # noqa: ARG002
        """Raise `OutOfBounds` if a value is outside its bound."""
        low, high = range_of(X)
        bound, offset = self.feature_bound_, np.broadcast_to(self.offset_, low.shape)
        outside = np.flatnonzero((low - offset < -bound) | (high - offset > bound))
        if len(outside):
            place = int(outside[0])
            worst = high[place] if high[place] - offset[place] > bound[place] else low[place]
            raise out_of_bounds(
                self._name_of(place), worst, bound[place], offset[place], "feature_bound"
            )

    def _checked(self, X: object, y: object, **checks: Any) -> tuple[Matrix, NDArray[Any]]:  # noqa: ANN401
        checked: tuple[Matrix, NDArray[Any]] = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=np.float64,
            y_numeric=is_regressor(self),
            **checks,
        )
        return checked

    def _rows(self, X: object) -> Matrix:
        """Return rows to predict."""
        check_is_fitted(self)
        rows: Matrix = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        return rows

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class ForgettingClassifier(ClassifierMixin, ForgettingEstimator):  # type: ignore[misc]
    """A classifier; its classes are settings, fixed by `fit` or the first `partial_fit`."""

    classes_: NDArray[Any]

    def partial_fit(self, X: object, y: object, classes: object = None) -> Self:
        """Learn more rows; the first call takes the bounds from the settings or from its rows.

        Parameters
        ----------
        X : {array_like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            One row per example.
        y : array_like of shape (n_samples,)
            Class of each row.
        classes : array_like, optional
            All classes that any row will have; required by the first call.

        Returns
        -------
        estimator
            The estimator itself.
        """
        first = not hasattr(self, "learner_")
        given = None if classes is None else np.unique(np.asarray(classes))
        if first and given is None:
            raise BadInput("the first call of partial_fit needs classes: all that y can hold")
        if not first and given is not None and not np.array_equal(given, self.classes_):
            raise BadInput(
                f"classes is {given.tolist()}; the first call set {self.classes_.tolist()}"
            )
        rows, labels = self._checked(X, y, reset=first)
        if first:
            return self._begin(rows, labels, given)
        return self._change(self.learner_.learn, rows, labels)

    def _begin(self, X: Matrix, y: NDArray[Any], classes: NDArray[Any] | None = None) -> Self:
        self.classes_ = np.unique(y) if classes is None else classes
        return super()._begin(X, y)

    def _checked(self, X: object, y: object, **checks: Any) -> tuple[Matrix, NDArray[Any]]:  # noqa: ANN401
        rows, labels = super()._checked(X, y, **checks)
        if len(labels):
            check_classification_targets(labels)
        return rows, labels
