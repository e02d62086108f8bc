"""Tikhonov (ridge) regression that forgets exactly."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.cells import Storage
from dealfl.errors import BadInput
from dealfl.fixedpoint import FixedPoint
from dealfl.integers import Integers
from dealfl.learners.inputs import Clip, FeatureBound, FractionBits, as_vector, require_integer
from dealfl.learners.limits import DataLimits
from dealfl.learners.normal_equations import Intercept, NormalEquations, Penalty, Solver
from dealfl.learners.workloads import NUMBERED, Workload, numbered_rows
from dealfl.schema import Setting
from dealfl.settings import Positive
from dealfl.work import Cycles, LearnerCycles

__all__ = ["Tikhonov"]

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

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
        Largest magnitude of the features, one number or one per feature; a tight bound gives a
        finer grid.
    target_bound : float, default 1.0
        Largest magnitude of the target.
    fraction_bits : int, default 30
        Bits that features and targets are rounded to, 1 to 30.
    solver : {"auto", "cholesky", "qr", "refactor"}, default "auto"
        How weights are computed; it does not affect the statistics.
    intercept : bool, default False
        Whether to learn a constant in addition to the weights.
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
    cycles = LearnerCycles(Cycles(1.345, 591500), Cycles(1.404, 1134000), Cycles(6.923, 972000))
    workload = Workload(NUMBERED, numbered_rows, 50, 10_000)

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
        clip: Clip = False,
        storage: Storage | None = None,
    ) -> None:
        features = require_integer(n_features, "n_features", 1, _MAX_FEATURES)
        grid = FixedPoint.of(features, feature_bound, fraction_bits)
        self._target_grid = FixedPoint.of(1, target_bound, fraction_bits, what="target")
        shape: dict[str, Setting] = {"n_features": features} | self._target_grid.settings()
        super().__init__(
            shape, grid, 1, penalty=penalty, solver=solver, intercept=intercept,
            clip=clip, storage=storage,
        )  # fmt: skip

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
        more = {"target_bound": data.target_bound, "intercept": True}
        return {**super().settings_for(data), **more}

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor arguments of an equal, empty learner."""
        return {**super().settings, "target_bound": float(self._target_grid.bound[0])}

    @property
    def weights(self) -> Floats:
        """One weight per feature, in the original units; a new array after every call."""
        return self._solved()[1:, 0].copy()

    @property
    def bias(self) -> float:
        """The constant that is added to every prediction; 0.0 without `intercept`."""
        return float(self._solved()[0, 0])

    def predict(self, X: object) -> Floats:
        """Return the predicted target of each row.

        Parameters
        ----------
        X : array_like, csr_array or DataFrame
            One row of `n_features` numbers per example.

        Returns
        -------
        ndarray of float64
            One target per row.
        """
        return self._outputs(X)[:, 0]

    def score(self, X: object, y: object) -> float:
        """Return R², the explained fraction of the variance of the targets.

        Parameters
        ----------
        X : array_like, csr_array or DataFrame
            One row of `n_features` numbers per example.
        y : array_like
            Target of each row.

        Returns
        -------
        float
            1.0 is perfect.
        """
        predicted = self.predict(X)
        targets = np.asarray(as_vector(y, len(predicted)), dtype=np.float64)
        residual = float(np.sum((targets - predicted) ** 2))
        spread = float(np.sum((targets - targets.mean()) ** 2))
        return 1.0 - residual / spread if spread else float(residual == 0.0)

    def _target_columns(self, y: object, rows: int) -> Int64s:
        targets = as_vector(y, rows)
        if targets.dtype.kind not in "biuf":
            raise BadInput(f"y holds {targets.dtype} values; it must hold real numbers")
        column = targets.astype(np.float64)[:, None]
        return self._target_grid.quantise(column, clip=self._clip)

    def _target_products(self, moments: Integers) -> Floats:
        return self._cross(moments, 0)[:, None] / self._target_grid.scale
