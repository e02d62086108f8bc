"""Multinomial naive Bayes: the model is two tables of counts, so forgetting is subtraction."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from dealfl.cells import Storage
from dealfl.errors import BadInput, NotLearned
from dealfl.fixedpoint import FixedPoint, require_finite
from dealfl.learners.base import Arrays, SparseVector
from dealfl.learners.class_sums import BLOCK_VALUES, ClassSums
from dealfl.learners.inputs import (
    Clip,
    FeatureBound,
    FractionBits,
    Labels,
    Offset,
    dense_blocks,
    require_integer,
)
from dealfl.learners.limits import DataLimits
from dealfl.learners.workloads import LABELLED, Workload, labelled_rows
from dealfl.settings import Positive
from dealfl.work import Cycles, LearnerCycles, Work

__all__ = ["NaiveBayes"]

Floats = NDArray[np.float64]

_MAX_FEATURES = 1 << 24
_MAX_BITS = 30


class NaiveBayes(ClassSums):
    """Multinomial naive Bayes on non-negative features; x − offset must lie in [0, bound].

    Parameters
    ----------
    n_features : int
        Number of features.
    classes : array_like
        Distinct numbers or strings.
    smoothing : float, default 1.0
        Count added to every feature of every class, > 0.
    feature_bound : float or array_like, default 1.0
        Largest value of the features after the offset, one number or one per feature.
    offset : float or array_like, default 0.0
        Smallest value of the features, one number or one per feature; it is subtracted.
    fraction_bits : int, default 30
        Bits that features are rounded to, 1 to 30.
    clip : bool, default False
        Move values outside the bounds to the nearest bound instead of raising an error.
    storage : callable, optional
        Creates the cells of an array; by default in memory.

    References
    ----------
    .. [1] A. McCallum, K. Nigam: A comparison of event models for naive Bayes text classification.
       AAAI-98 Workshop on Learning for Text Categorization.

    Examples
    --------
    >>> model = NaiveBayes(n_features=2, classes=["ham", "spam"], feature_bound=8)
    >>> delta = model.learn([[1, 0], [0, 3]], ["ham", "spam"])
    >>> model.predict([[0, 1]]).tolist()
    ['spam']
    >>> model.forget([[1, 0]], ["ham"]).is_zero
    False
    """

    name = "naive_bayes"
    tasks = ("classification",)
    feature_map = "bins"
    cycles = LearnerCycles(Cycles(16.21, 334400), Cycles(17.08, 720700), Cycles(165.4, 642900))
    workload = Workload(LABELLED, labelled_rows, 100, 20_000)

    def __init__(
        self,
        n_features: int,
        classes: ArrayLike,
        smoothing: Annotated[
            Positive, Meta(description="count added to every feature of every class")
        ] = 1.0,
        feature_bound: FeatureBound = 1.0,
        offset: Offset = 0.0,
        *,
        fraction_bits: FractionBits = 30,
        clip: Clip = False,
        storage: Storage | None = None,
    ) -> None:
        features = require_integer(n_features, "n_features", 1, _MAX_FEATURES)
        bits = require_integer(fraction_bits, "fraction_bits", 1, _MAX_BITS)
        if not np.isfinite(smoothing) or smoothing <= 0:
            raise BadInput(f"smoothing is {smoothing!r}; it must be a finite number > 0")
        labels = Labels(classes)
        grid = FixedPoint.of(features, feature_bound, bits, offset=offset, signed=False)
        super().__init__(labels, grid, clip=clip, storage=storage)
        self._smoothing = float(smoothing)
        self._model: tuple[Floats, Floats] | None = None

    @classmethod
    def settings_for(cls, data: DataLimits) -> dict[str, Any]:
        """Return the constructor arguments for data with these limits.

        Parameters
        ----------
        data : DataLimits
            Limits of the data.

        Returns
        -------
        dict of str to object
            Keyword arguments of the learner.
        """
        domain = data.domain_for(cls.name)
        return {
            "n_features": domain.n_features,
            "classes": data.classes,
            "feature_bound": domain.span,
            "offset": domain.lowest,
        }

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor arguments of an equal, empty learner."""
        return {
            "n_features": self.n_features,
            "classes": self._labels.tolist(),
            "smoothing": self._smoothing,
            "feature_bound": self._grid.bound.tolist(),
            "offset": self._grid.offset.tolist(),
            "fraction_bits": self._grid.fraction_bits,
            "clip": self._clip,
        }

    def _logarithms(self) -> tuple[Floats, Floats]:
        """Return the logarithms of the shares of classes, and of features in each class."""
        if self._model is None:
            counts, sums = self._tables()
            if not np.any(counts > 0):
                raise NotLearned("no example is learned, so no class can be predicted; learn first")
            self.check()
            with np.errstate(divide="ignore"):
                priors = np.log(counts / counts.sum())
            weights = sums / self._grid.scale + self._smoothing
            self._model = priors, np.log(weights) - np.log(weights.sum(axis=1, keepdims=True))
        return self._model

    @property
    def log_priors(self) -> Floats:
        """The logarithm of the share of each class; −∞ for a class without examples."""
        return self._logarithms()[0].copy()

    @property
    def log_probabilities(self) -> Floats:
        """The logarithm of the share of each feature in a class, one row per class."""
        return self._logarithms()[1].copy()

    def derived_arrays(self) -> Arrays:
        """Return the model as named arrays.

        Returns
        -------
        dict of str to ndarray
            Arrays `classes`, `class_counts`, `log_priors` and `log_probabilities`.
        """
        return {
            **super().derived_arrays(),
            "class_counts": self._state.whole("counts").low,
            "log_priors": self.log_priors,
            "log_probabilities": self.log_probabilities,
        }

    def _joint(self, X: object) -> Floats:
        matrix = self._as_rows(X)
        priors, features = self._logarithms()
        self._work = Work(
            matrix.shape[0] * len(priors) * self.n_features, 8 * matrix.shape[0] * self.n_features
        )
        if sparse.issparse(matrix) and not np.any(self._grid.offset):
            require_finite(np.asarray(matrix.data, dtype=np.float64)[None, :])
            return np.asarray(matrix @ features.T + priors)
        joint = np.empty((matrix.shape[0], len(priors)))
        for first, block in dense_blocks(matrix, max(1, BLOCK_VALUES // self.n_features)):
            require_finite(block, first)
            joint[first : first + len(block)] = (block - self._grid.offset) @ features.T + priors
        return joint

    def predict(self, X: object) -> NDArray[Any]:
        """Return the class of each row; a class without examples is never predicted.

        Parameters
        ----------
        X : array_like, csr_array or DataFrame
            One row of `n_features` numbers per example.

        Returns
        -------
        ndarray
            One class per row.

        Raises
        ------
        NotLearned
            No example is learned.
        """
        return self._labels.decode(np.argmax(self._joint(X), axis=1))

    def predict_log_proba(self, X: object) -> Floats:
        """Return the logarithm of the probability of each class for each row.

        Parameters
        ----------
        X : array_like, csr_array or DataFrame
            One row of `n_features` numbers per example.

        Returns
        -------
        ndarray of float64
            Rows by classes.

        Raises
        ------
        NotLearned
            No example is learned.
        """
        joint = self._joint(X)
        top = joint.max(axis=1, keepdims=True)
        shares: Floats = joint - top - np.log(np.exp(joint - top).sum(axis=1, keepdims=True))
        return shares

    def _forget_model(self) -> None:
        self._model = None

    def _derived(self) -> SparseVector:
        counts, _ = self._tables()
        held = np.flatnonzero(counts > 0)
        if not len(held):
            return np.empty(0, dtype=np.int64), np.empty(0)
        priors, features = self._logarithms()
        width = 1 + self.n_features
        table = np.column_stack([priors, features])[held]
        places = held[:, None] * width + np.arange(width)
        return places.ravel(), table.ravel()
