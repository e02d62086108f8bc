"""The common part of the estimators: checked input, bounds fixed by the first rows, statistics."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import (  # type: ignore[import-untyped]
    BaseEstimator,
    ClassifierMixin,
    is_regressor,
)
from sklearn.utils.multiclass import (  # type: ignore[import-untyped]
    check_classification_targets,
)
from sklearn.utils.sparsefuncs import min_max_axis  # type: ignore[import-untyped]
from sklearn.utils.validation import (  # type: ignore[import-untyped]
    check_is_fitted,
    validate_data,
)

from dealfl.errors import BadInput, OutOfBounds
from dealfl.learners import Learner, RowLearner, Statistics, as_matrix

Verb = Callable[[Any, Any], object]
Floats = NDArray[np.float64]
Matrix = NDArray[Any] | sparse.csr_array

_ROOM = 16  # costs 4 of the 30 bits of a feature
_WIDE_ROOM = 1 << 14  # leaves 16 of them
_SMALLEST = 2.0**-200  # of a bound
_MAX_FEATURES = 1 << 24  # of any learner
_MIN_STEPS = 1 << 10  # of a grid in the range of a feature


# -- bounds ---------------------------------------------------------------------------------------


def is_auto(bound: object) -> bool:
    """Return whether a bound is to be taken from the data."""
    return bound is None or (isinstance(bound, str) and bound == "auto")


def range_of(X: Matrix) -> tuple[Floats, Floats]:
    """Return the smallest and the largest value of each column."""
    if sparse.issparse(X):
        low, high = min_max_axis(X, axis=0)
        return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    return X.min(axis=0), X.max(axis=0)


def proposed_bound(largest: Floats, room: int = _ROOM) -> Floats:
    """Return `room` times the next power of two of each magnitude: for later, larger values.

    A feature that is always 0 gets the largest bound. Similar data get equal bounds.

    Examples
    --------
    >>> proposed_bound(np.array([0.0, 1.0, 90.0])).tolist()
    [2048.0, 16.0, 2048.0]
    """
    magnitudes = np.where(largest > 0, largest, np.max(largest) or 1.0)
    limited = np.minimum(np.maximum(magnitudes, _SMALLEST), 1 / _SMALLEST)
    exponents = np.ceil(np.log2(limited))
    return np.ldexp(float(room), exponents.astype(np.int32))


def shared_bound(largest: Floats) -> Floats:
    """Return one bound for all features, but a smaller one where its grid would be too coarse."""
    return np.minimum(proposed_bound(largest.max()), proposed_bound(largest, _WIDE_ROOM))


def centre_of(low: Floats, high: Floats) -> Floats:
    """Return the middle of each column on a coarse grid, so that similar data get equal ones."""
    step = proposed_bound((high - low) / 2) / 64
    return np.rint((low + high) / 2 / step) * step


def bound_and_offset(given: Any, X: Matrix, *, centred: bool) -> tuple[Any, Any]:  # noqa: ANN401
    """Return a given bound, or bounds of magnitudes; a column far from 0 can have an offset."""
    if not is_auto(given):
        return given, 0.0
    low, high = range_of(X)
    largest, half = np.maximum(np.abs(low), np.abs(high)), high / 2 - low / 2
    far = centred & (half > 0) & (half < largest / _WIDE_ROOM)
    step = proposed_bound(half)  # coarse, so that similar data get equal offsets
    offset = np.where(far, np.rint((low / 2 + high / 2) / step) * step, 0.0)
    return np.where(far, proposed_bound(half, _WIDE_ROOM), proposed_bound(largest)), offset


def out_of_bounds(
    what: str, value: float, bound: float, offset: float, setting: str
) -> OutOfBounds:
    """Return the error for a value outside its bound."""
    low, high = offset - bound, offset + bound
    return OutOfBounds(
        f"{what} has the value {value:.10g}, outside [{low:.10g}, {high:.10g}]; bounds "
        f"are fixed when the first rows are learned: fit again with a larger {setting}, or with "
        "clip=True to move such values to the bounds"
    )


def warn_if_coarse(
    X: Matrix, bound: Floats, bits: int, name_of: Callable[[int], str], setting: str
) -> None:
    """Warn of the first column whose grid loses the differences of its values."""
    low, high = range_of(X)
    spread, steps = high - low, np.ldexp(1.0, np.ceil(np.log2(bound)).astype(np.int32) - bits)
    for column in np.flatnonzero((spread > 0) & (spread < _MIN_STEPS * steps)).tolist():
        part, step = X[:, [column]], float(steps[column])
        values = part.toarray() if sparse.issparse(part) else part
        if np.abs(np.rint(values / step) * step - values).max() * _MIN_STEPS > spread[column]:
            varies = f"{name_of(column)} varies by {spread[column]:g} in the first rows"
            remedy = f"give a smaller {setting}, or subtract a constant from all values first"
            lost = f"{varies} and is rounded to multiples of {step:g}: differences are lost"
            warnings.warn(f"{lost}; {remedy}", UserWarning, stacklevel=5)
            return


# -- odd arrays -----------------------------------------------------------------------------------


class WrongKind(BadInput, TypeError):
    """Input of a kind that cannot be used; scikit-learn's checks want a `TypeError`."""


@contextmanager
def refusing(what: str, remedy: str) -> Iterator[None]:
    """Turn what numpy and scikit-learn raise for odd arrays into bad input."""
    try:
        yield
    except BadInput:
        raise
    except ValueError as error:
        raise BadInput(f"{what} cannot be used: {error}") from None
    except (TypeError, ArithmeticError, AttributeError, LookupError) as error:
        problem = str(error).removesuffix(".")
        raise WrongKind(f"{what} cannot be used: {problem}; {remedy}") from None


def without_mask(values: Any, what: str) -> Any:  # noqa: ANN401
    """Return values, or raise `BadInput` if some are masked: scikit-learn would read below."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        masked = f"{what} has {int(np.sum(values.mask))} masked values"
        raise BadInput(f"{masked}; fill them, or leave out their rows")
    return values


def sound_table(X: Any) -> Any:  # noqa: ANN401
    """Return a table; a sparse one is checked first, because scipy reads beyond bad indices."""
    is_sparse = sparse.issparse(X)
    if not is_sparse:
        columns = getattr(X, "dtypes", ()) if getattr(X, "ndim", 0) == 2 else ()  # of a frame
        for dtype in (getattr(X, "dtype", None), *columns):
            if getattr(dtype, "kind", None) in ("m", "M", "V"):  # numpy ignores the unit of times
                raise BadInput(f"X holds {dtype} values; it must hold real numbers: convert them")
        return without_mask(X, "X")
    width = X.shape[-1]
    if width > _MAX_FEATURES:  # before bounds are taken from each
        raise BadInput(f"X has {width} columns; use at most {_MAX_FEATURES}, or hash features")
    return as_matrix(X, width)


def real_vector(y: NDArray[Any]) -> Floats:
    """Return targets as finite floats, or raise `BadInput`."""
    if y.dtype.kind not in "biuf":
        raise BadInput(f"y holds {y.dtype} values; it must hold real numbers: convert them")
    with np.errstate(over="ignore"):
        targets = y.astype(np.float64)
    if not np.isfinite(targets).all():
        raise BadInput(f"y holds {y[~np.isfinite(targets)][0]!r}; it must be a finite float64")
    return targets


# -- estimators -----------------------------------------------------------------------------------


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[None]:
    """Set all attributes of an estimator or, on any error, none."""
    before = estimator.__dict__.copy()
    try:
        yield
    except BaseException:
        estimator.__dict__ = before
        raise


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
        with all_or_nothing(self):
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
        bound = self.feature_bound_
        offset = np.broadcast_to(self.offset_, low.shape)
        outside = np.flatnonzero((low - offset < -bound) | (high - offset > bound))
        if len(outside):
            column = int(outside[0])
            is_high = high[column] - offset[column] > bound[column]
            worst = high[column] if is_high else low[column]
            raise out_of_bounds(
                self._name_of(column), worst, bound[column], offset[column], "feature_bound"
            )

    def _checked(self, X: object, y: object, **checks: Any) -> tuple[Matrix, NDArray[Any]]:  # noqa: ANN401
        numeric = is_regressor(self)
        rows, targets = self._validated(X, without_mask(y, "y"), y_numeric=numeric, **checks)
        return rows, real_vector(targets) if numeric else targets

    def _rows(self, X: object) -> Matrix:
        """Return rows to predict."""
        check_is_fitted(self)
        rows: Matrix = self._validated(X, reset=False)
        return rows

    def _validated(self, X: object, *y: object, **checks: Any) -> Any:  # noqa: ANN401
        """Return what scikit-learn makes of rows and targets."""
        rows = sound_table(X)
        with refusing("X or y", "give tables of numbers, and numbers or strings as y"):
            return validate_data(self, rows, *y, accept_sparse="csr", dtype=np.float64, **checks)

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
        if first:
            with all_or_nothing(self):
                return self._begin(*self._checked(X, y, reset=True), given)
        return self._change(self.learner_.learn, *self._checked(X, y, reset=False))

    def _begin(self, X: Matrix, y: NDArray[Any], classes: NDArray[Any] | None = None) -> Self:
        self.classes_ = np.unique(y) if classes is None else classes
        return super()._begin(X, y)

    def _checked(self, X: object, y: object, **checks: Any) -> tuple[Matrix, NDArray[Any]]:  # noqa: ANN401
        rows, labels = super()._checked(X, y, **checks)
        if len(labels):
            with refusing("y", "give numbers or strings"):
                check_classification_targets(labels)
        return rows, labels
