"""Tikhonov (ridge) regression and classification that forget exactly."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from dealfl.errors import BadInput, Impossible
from dealfl.exact import Cycles, FixedPoint, Integers, LearnerCycles, Setting, Storage
from dealfl.learners.base import Arrays
from dealfl.learners.description import (
    LABELLED,
    NUMBERED,
    DataLimits,
    Workload,
    labelled_rows,
    numbered_rows,
)
from dealfl.learners.gram import packed
from dealfl.learners.inputs import (
    Clip,
    FeatureBound,
    FractionBits,
    Labels,
    Offset,
    as_vector,
    require_integer,
)  # fmt: skip
from dealfl.learners.normal_equations import FLOATS, NormalEquations
from dealfl.learners.product_checks import require_one_class_each
from dealfl.learners.ridge_weights import Intercept, Penalty, RidgeWeights, Solver
from dealfl.learners.row_learner import Classifier
from dealfl.settings import Positive

__all__ = ["Tikhonov", "TikhonovClassifier"]

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Points = NDArray[np.int32]

_MAX_FEATURES = 1 << 15


class Tikhonov(NormalEquations):
    """Ridge (Tikhonov) regression; its state is exact integer moments, and the weights are a cache.

    Parameters
    ----------
    n_features : int
        Number of features.
    penalty : float, default 1.0
        Weight of the squared norm of the weights, like `alpha` of scikit-learn, ≥ 0.
    feature_bound : float or array_like, default 1.0
        Largest magnitude of the features after the offset, one number or one per feature; a tight
        bound gives a finer grid.
    target_bound : float, default 1.0
        Largest magnitude of the target after its offset.
    fraction_bits : int, default 30
        Bits that features and targets are rounded to, 1 to 30.
    solver : {"auto", "cholesky", "qr", "refactor"}, default "auto"
        How weights are computed; it does not affect the statistics.
    intercept : bool, default False
        Whether to learn a constant in addition to the weights.
    offset, target_offset : float or array_like, default 0.0
        Numbers that are subtracted from features and target before they are rounded, for values
        that are close together and far from 0; predictions have the original units.
    clip : bool, default False
        Move values outside the bounds to the nearest bound instead of raising an error.
    storage : callable, optional
        Creates the cells of an array; by default in memory.

    References
    ----------
    .. [1] A. E. Hoerl, R. W. Kennard: Ridge regression: biased estimation for nonorthogonal
       problems. Technometrics 12(1), 1970.

    Examples
    --------
    >>> model = Tikhonov(n_features=1, penalty=0.0, feature_bound=4.0, target_bound=8.0)
    >>> delta = model.learn([[1.0], [2.0], [3.0]], [2.0, 4.0, 7.0])
    >>> delta = model.forget([[3.0]], [7.0])
    >>> model.weights.tolist()
    [2.0]
    """

    name = "tikhonov"
    tasks = ("regression",)
    dips_at_features = True
    cycles = LearnerCycles(
        Cycles(0.975, 260900), Cycles(0.953, 340600), Cycles(0.997, 219200),
        Cycles(1.047, 363900), Cycles(0.523, 578400),
    )  # fmt: skip
    workload = Workload(NUMBERED, numbered_rows, 10, 2_000)

    def __init__(
        self,
        n_features: int,
        penalty: Penalty = 1.0,
        feature_bound: FeatureBound = 1.0,
        target_bound: Annotated[
            Positive, Meta(description="largest magnitude of the target")
        ] = 1.0,
        fraction_bits: FractionBits = 30,
        solver: Solver = "auto",
        *,
        intercept: Intercept = False,
        offset: Offset = 0.0,
        target_offset: Annotated[
            float, Meta(description="number subtracted from the target")
        ] = 0.0,
        clip: Clip = False,
        storage: Storage | None = None,
    ) -> None:
        features = require_integer(n_features, "n_features", 1, _MAX_FEATURES)
        grid = FixedPoint.of(features, feature_bound, fraction_bits, offset=offset)
        self._target_grid = FixedPoint.of(
            1, target_bound, fraction_bits, offset=target_offset, what="target"
        )
        self._target_scale = float(self._target_grid.scale[0])
        shape: dict[str, Setting] = {"n_features": features}
        shape |= self._target_grid.settings(clip=clip)
        weights = RidgeWeights(
            grid, 1, (1.0 / self._target_scale, 0.0), penalty=penalty, solver=solver,
            intercept=intercept, target_offset=float(self._target_grid.offset[0]),
        )  # fmt: skip
        edges = float(self._target_grid.bound[0]), self._target_scale
        super().__init__(shape, grid, 1, weights, edges, clip=clip, storage=storage)

    @classmethod
    def settings_for(cls, data: DataLimits) -> dict[str, Any]:
        """Return the constructor arguments for data with these limits."""
        more = {"target_bound": data.target_bound, "intercept": True}
        return {**super().settings_for(data), **more}

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor arguments of an equal, empty learner."""
        shift = self._weights.target_offset
        more = {"target_offset": shift} if shift else {}
        return {**super().settings, "target_bound": float(self._target_grid.bound[0]), **more}

    @property
    def weights(self) -> Floats:
        """One weight per feature, in the original units; a new array after every call."""
        return self._solved()[1:, 0].copy()

    @property
    def bias(self) -> float:
        """The constant that is added to every prediction; 0.0 without `intercept` and offsets."""
        return float(self._solved()[0, 0])

    def predict(self, X: object) -> Floats:
        """Return the predicted target of each row."""
        return self._outputs(X)[:, 0]

    def score(self, X: object, y: object) -> float:
        """Return R², the explained fraction of the variance of the targets; nan without rows."""
        predicted = self.predict(X)
        targets = np.asarray(as_vector(y, len(predicted)), dtype=np.float64)
        residual = float(np.sum((targets - predicted) ** 2))
        spread = float(np.sum((targets - targets.mean()) ** 2)) if len(targets) else np.nan
        return 1.0 - residual / spread if spread else float(residual == 0.0)

    def _target_points(self, y: object, rows: int) -> Int64s:
        return self._target_columns(y, rows)[:, 0]

    def _targets_at(self, points: Points) -> Floats:
        return np.asarray(points / self._target_scale + self._weights.target_offset)

    def _target_values(self, y: object, rows: int) -> Floats:
        if type(y) is np.ndarray and y.dtype is FLOATS and y.shape == (rows,):
            return y
        targets = as_vector(y, rows)
        if targets.dtype.kind not in "biuf":
            raise BadInput(f"y holds {targets.dtype} values; it must hold real numbers")
        return targets.astype(np.float64)

    def _target_columns(self, y: object, rows: int) -> Int64s:
        return self._target_grid.quantise(self._target_values(y, rows)[:, None], clip=self._clip)


class TikhonovClassifier(NormalEquations, Classifier):
    """One-vs-rest ridge classification; all classes share one matrix of moments.

    Parameters
    ----------
    n_features : int
        Number of features.
    classes : array_like
        Distinct numbers or strings.
    penalty, feature_bound, fraction_bits, solver, offset, clip, storage
        See `Tikhonov`.
    intercept : bool, default True
        Whether to learn a constant in addition to the weights.

    Examples
    --------
    >>> model = TikhonovClassifier(n_features=2, classes=["cat", "dog"])
    >>> delta = model.learn([[1, 0], [0, 1], [0, 1]], ["cat", "dog", "dog"])
    >>> model.predict([[1, 0], [0, 1]]).tolist()
    ['cat', 'dog']
    """

    name = "tikhonov_classifier"
    tasks = ("classification",)
    dips_at_features = True
    cycles = LearnerCycles(
        Cycles(0.6756, 220700), Cycles(0.5914, 149400), Cycles(0.8606, 272900),
        Cycles(1.01, 435500), Cycles(0.4951, 629200),
    )  # fmt: skip
    workload = Workload(LABELLED, labelled_rows, 10, 2_000)

    def __init__(
        self,
        n_features: int,
        classes: ArrayLike,
        penalty: Penalty = 1.0,
        feature_bound: FeatureBound = 1.0,
        fraction_bits: FractionBits = 30,
        solver: Solver = "auto",
        *,
        intercept: Intercept = True,
        offset: Offset = 0.0,
        clip: Clip = False,
        storage: Storage | None = None,
    ) -> None:
        features = require_integer(n_features, "n_features", 1, _MAX_FEATURES)
        self._labels = Labels(classes)
        grid = FixedPoint.of(features, feature_bound, fraction_bits, offset=offset)
        shape: dict[str, Setting] = {"n_features": features, "classes": self._labels.tolist()}
        weights = RidgeWeights(  # the goal is +1 for the class and -1 for the rest
            grid, len(self._labels), (2.0, -1.0), penalty=penalty, solver=solver,
            intercept=intercept,
        )  # fmt: skip
        super().__init__(
            shape, grid, len(self._labels), weights, (1.0, 1.0), clip=clip, storage=storage
        )

    @classmethod
    def settings_for(cls, data: DataLimits) -> dict[str, Any]:
        """Return the constructor arguments for data with these limits."""
        return {**super().settings_for(data), "classes": data.classes}

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor arguments of an equal, empty learner."""
        return {**super().settings, "classes": self._labels.tolist()}

    @property
    def weights(self) -> Floats:
        """One row of weights per class, in the original units; a new array after every call."""
        weights: Floats = self._solved()[1:].T.copy()
        return weights

    @property
    def bias(self) -> Floats:
        """The constant that is added to the output of each class."""
        bias: Floats = self._solved()[0].copy()
        return bias

    def derived_arrays(self) -> Arrays:
        """Return the arrays `classes`, `weights` and `bias`."""
        return {**Classifier.derived_arrays(self), **super().derived_arrays()}

    def predict(self, X: object) -> NDArray[Any]:
        """Return the class of each row; a class without examples is never predicted."""
        counts = self._class_counts(self._state.whole("moments"))
        self._require_learned(counts)
        outputs = np.where(counts > 0, self._outputs(X), -np.inf)
        return self._labels.decode(np.argmax(outputs, axis=1))

    def _require_possible(self, moments: Integers, *, pairs: bool) -> None:
        super()._require_possible(moments, pairs=pairs)
        counts = self._class_counts(moments)
        if np.any(counts < 0):
            worst = int(np.argmin(counts))
            label = self._labels.values[worst]
            raise Impossible(f"class {label} has {int(counts[worst])} examples")
        if pairs:
            require_one_class_each(moments, 1 + self.n_features, self._labels.tolist())

    def _class_counts(self, moments: Integers) -> Floats:
        first = 1 + self.n_features
        starts = np.array([packed(first + target, 0) for target in range(self._targets)])
        return moments[starts].to_float()

    def _target_values(self, y: object, rows: int) -> Floats:
        return np.eye(len(self._labels))[self._labels.encode(y, rows)].ravel()

    def _target_columns(self, y: object, rows: int) -> Int64s:
        return self._target_values(y, rows).reshape(-1, len(self._labels)).astype(np.int64)

    def _rows_at(self, points: Points) -> NDArray[np.integer]:
        return np.hstack([points[:, :-1], np.eye(len(self._labels), dtype=np.int32)[points[:, -1]]])
