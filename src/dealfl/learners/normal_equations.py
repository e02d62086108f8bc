"""The common part of both Tikhonov learners: exact moments of [1, X, targets], and weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.cells import DenseCells, Proposal, Storage
from dealfl.compiled import is_compiled
from dealfl.entries import Entries
from dealfl.errors import BadInput, unknown_name
from dealfl.fixedpoint import FixedPoint, require_finite
from dealfl.integers import Integers
from dealfl.learners.base import Arrays
from dealfl.learners.description import DataLimits
from dealfl.learners.factors import SOLVERS, Factor, factorise, follows
from dealfl.learners.gram import (
    MAX_BITS,
    are_possible,
    block_rows,
    exact_gram,
    packed,
    require_products,
    rounded_gram,
    triangle,
)  # fmt: skip
from dealfl.learners.inputs import Matrix, dense_blocks, require_integer
from dealfl.learners.row_learner import RowLearner
from dealfl.schema import ArraySpec, Schema, Setting
from dealfl.settings import Amount, OneOf
from dealfl.statistics import Deferred, Statistics
from dealfl.work import Work

__all__ = ["Intercept", "NormalEquations", "Penalty", "Solver"]

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

Penalty = Annotated[
    Amount, Meta(description="penalty of large weights, in the units of the original features")
]
Solver = Annotated[
    str, OneOf(SOLVERS), Meta(description="how weights are computed from the statistics")
]
Intercept = Annotated[bool, Meta(description="learn a constant in addition to the weights")]

_MAX_ROWS_BITS = 24  # sums of 2^24 rows never overflow
_FEW = 16  # rows that a factor follows at the most; see `follows`
_STEPS_BEFORE_REFRESH = 1000  # rank-one steps; a new factor then costs little in comparison


class NormalEquations(RowLearner):
    """Ridge regression on the packed moments of the columns [1, features, targets].

    `moments` holds the lower triangle row by row: the number of examples, then for each feature
    and each target its sum and its products with the columns before it.
    """

    def __init__(
        self,
        shape: dict[str, Setting],
        grid: FixedPoint,
        targets: int,
        *,
        penalty: float,
        solver: str,
        intercept: bool,
        clip: bool,
        storage: Storage | None,
    ) -> None:
        if not np.isfinite(penalty) or penalty < 0:
            raise BadInput(f"penalty is {penalty!r}; it must be a finite number ≥ 0")
        if solver not in SOLVERS:
            raise unknown_name("solver", solver, SOLVERS)
        bits = require_integer(grid.fraction_bits, "fraction_bits", 1, MAX_BITS)
        columns = 1 + len(grid.bound) + targets
        width = 64 if 2 * bits + _MAX_ROWS_BITS <= 62 else 96
        moments = ArraySpec("moments", columns * (columns + 1) // 2, width)
        shape |= grid.settings(clip=clip)
        super().__init__(Schema(self.name, shape, (moments,)), storage)
        self._grid, self._targets, self._columns, self._wide = grid, targets, columns, moments.wide
        self._penalty, self._solver = float(penalty), solver
        self._intercept, self._clip, self._size = intercept, clip, moments.size
        self._scale, self._unit = grid.scale, 2.0**bits
        self._doubtful = np.zeros(columns, dtype=np.int64)
        self._design = slice(0 if intercept else 1, 1 + len(grid.bound))  # columns with weights
        # grid points per unit of [1, features]: scaled features lie in [-1, 1]
        self._units = np.r_[1.0, np.full(len(grid.bound), 2.0**bits)][:, None]
        self._feature_units = np.ldexp(1.0, -grid.exponent.astype(np.int32))[:, None]
        self._factor: Factor | None = None
        self._steps = 0
        self._weights: Floats | None = None

    @classmethod
    def settings_for(cls, data: DataLimits) -> dict[str, Any]:
        """Return the constructor arguments that both learners share."""
        domain = data.domain_for(cls.name)
        return {"n_features": domain.n_features, "feature_bound": domain.magnitude}

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor arguments that both learners share."""
        return {
            "n_features": self.n_features,
            "penalty": self._penalty,
            "feature_bound": self._grid.bound.tolist(),
            "fraction_bits": self._grid.fraction_bits,
            "solver": self._solver,
            "intercept": self._intercept,
            "clip": self._clip,
        }

    @abstractmethod
    def _target_columns(self, y: object, rows: int) -> Int64s:
        """Return the targets of all rows as integers, one column per target."""

    @abstractmethod
    def _target_products(self, moments: Integers) -> Floats:
        """Return [1, X]ᵀ·targets in units of the grid, one column per target."""

    def count_records(self, statistics: Statistics) -> int:
        """Return the number of examples in statistics: the first of the moments."""
        moments = statistics["moments"]
        return sum(moments.values[: int(0 in moments.indices[:1])].tolist())

    @property
    @abstractmethod
    def weights(self) -> Floats:
        """The weights of the features, in the original units."""

    @property
    @abstractmethod
    def bias(self) -> float | Floats:
        """The constant that is added to every output."""

    def derived_arrays(self) -> Arrays:
        """Return the arrays `weights` and `bias`."""
        return {"weights": self.weights, "bias": np.asarray(self.bias)}

    def learn(self, X: object, y: object) -> Statistics:
        """Add examples."""
        return self._change(X, y, +1)

    def forget(self, X: object, y: object) -> Statistics:
        """Remove examples; the result is the same as if they had never been learned."""
        return self._change(X, y, -1)

    def _change(self, X: object, y: object, sign: int) -> Statistics:
        matrix = self._as_rows(X)
        targets = self._target_columns(y, matrix.shape[0])
        delta = self._change_one(matrix, targets, sign)
        if delta is None:
            moments, last = self._moments(matrix, targets)
            entries = Entries.of_dense(moments if sign > 0 else -moments)
            delta = self._apply(Statistics(self.schema, {"moments": entries}), forgetting=sign < 0)
            few = last[:_FEW, : len(self._units)] / self._units[:, 0]
            self._follow(few, sign, matrix.shape[0])
        self._remember_names(X)
        self._work = self._cost(matrix.shape[0])
        return delta

    def _change_one(self, X: Matrix, targets: Int64s, sign: int) -> Statistics | None:
        """Learn or forget one row in place; None if that is not possible, and nothing changed."""
        cells, single = self._state.cells("moments"), X.shape[0] == 1 and isinstance(X, np.ndarray)
        if not single or not isinstance(cells, DenseCells) or not is_compiled(len(cells.low)):
            return None
        from dealfl.learners.moment_loops import change_row, shift_row

        low, high = cells.low, cells.low[:0] if cells.high is None else cells.high
        row, scaled = np.empty(self._columns, dtype=np.int32), np.empty(len(self._units))
        doubtful = change_row(
            X[0].astype(np.float64), targets[0], self._grid.bound, self._scale, self._unit, low,
            high, sign, row, scaled, self._doubtful,
        )  # fmt: skip
        if doubtful > 0 and not are_possible(
            self._now(), self._doubtful[:doubtful].tolist(), 1 << self._grid.fraction_bits
        ):
            shift_row(low, high, row, -sign)
            doubtful = -1
        if doubtful < 0:
            return None
        self._state.stale("moments")[:] = True
        self._follow(scaled[None], sign, 1)

        def entries() -> dict[str, Entries]:
            bits, wide = self._grid.fraction_bits, self._wide
            moments = exact_gram(row[None].astype(np.int64), bits, wide=wide)
            return {"moments": Entries.of_dense(moments if sign > 0 else -moments)}

        return Statistics(self.schema, Deferred(self.schema, entries))

    def _now(self) -> Integers:
        """Return the present moments; not a copy, if they are in memory."""
        cells = self._state.cells("moments")
        if isinstance(cells, DenseCells):
            return Integers(cells.low, cells.high)
        return self._state.whole("moments")

    def _cost(self, rows: int) -> Work:
        return Work(rows * self._size, 8 * rows * self._columns + 2 * 8 * self._size)

    def _moments(self, X: Matrix, targets: Int64s) -> tuple[Integers, Int64s]:
        """Return the moments of a batch, and its last block of rows, if they are few."""
        bits, wide = self._grid.fraction_bits, self._wide
        total = Integers.zeros(self._size, wide)
        rows = np.empty((0, self._columns), dtype=np.int64)
        for first, block in dense_blocks(X, block_rows(self._columns, bits)):
            goals = targets[first : first + len(block)]
            compiled = X.shape[0] > _FEW and is_compiled(block.size)
            moments = rounded_gram(block, goals, self._grid, wide=wide) if compiled else None
            if moments is None:
                points = self._grid.quantise(block, first, clip=self._clip)
                rows = np.column_stack([np.ones(len(block), np.int64), points, goals])
                moments = exact_gram(rows, bits, wide=wide)
            total = moments if first == 0 else total + moments
        return total, rows

    def _refuse_unlearned(self, proposals: Mapping[str, Proposal]) -> None:
        self._require_possible(self._state.after("moments", proposals), pairs=False)

    def check(self) -> None:
        """Raise `Impossible` if no set of examples has these statistics."""
        self._require_possible(self._now(), pairs=True)

    def check_statistics(self, statistics: Statistics) -> None:
        """Raise `Impossible` if no set of examples has some statistics."""
        self._require_possible(statistics["moments"].dense(self._size), pairs=True)

    def _require_possible(self, moments: Integers, *, pairs: bool) -> None:
        limits = [1, *[1 << self._grid.fraction_bits] * (self.n_features + self._targets)]
        require_products(moments, limits, pairs=pairs)

    # -- the model ------------------------------------------------------------------------------

    def _matrix(self, moments: Integers) -> Floats:
        size = 1 + self.n_features
        left, right = triangle(size)
        units = self._units[:, 0]
        values = moments[: len(left)].to_float() / (units[left] * units[right])
        matrix = np.zeros((size, size))
        matrix[left, right] = values
        matrix[right, left] = values
        matrix[range(1, size), range(1, size)] += self._penalty * self._feature_units[:, 0] ** 2
        return matrix[self._design, self._design]

    def _solved(self) -> Floats:
        """Return the weights of [1, features] in the original units, one column per target."""
        if self._weights is None:
            moments = self._now()
            if self._factor is None:
                self._factor = factorise(self._matrix(moments), self._solver)
                self._steps = 0
            self._weights = self._solve(self._factor, moments)
        return self._weights

    def _solve(self, factor: Factor, moments: Integers) -> Floats:
        right = (self._target_products(moments) / self._units)[self._design]
        weights = np.zeros((len(self._units), right.shape[1]))
        weights[self._design] = factor.solve(right)
        weights[1:] *= self._feature_units
        return weights

    def _cross(self, moments: Integers, target: int) -> Floats:
        """Return the products of one target with [1, features]."""
        start = packed(1 + self.n_features + target, 0)
        return moments[start : start + 1 + self.n_features].to_float()

    def _follow(self, scaled: Floats, sign: int, count: int) -> None:
        """Update the factor with a small batch, or drop it; it is computed again when needed."""
        self._weights = None
        self._steps += count
        if self._factor is None or count == 0:
            return
        small = follows(self._solver, count, len(self._units))
        small &= self._steps <= _STEPS_BEFORE_REFRESH
        if not small or not all(self._factor.update(row[self._design], sign) for row in scaled):
            self._factor = None

    def _forget_model(self) -> None:
        self._factor, self._weights = None, None

    def _derived(self) -> tuple[Int64s, Floats]:
        weights = self._solved().ravel()
        return np.arange(len(weights)), weights

    def _outputs(self, X: object) -> Floats:
        """Return the value of each target for each row."""
        matrix = self._as_rows(X)
        weights = self._solved()
        outputs = np.empty((matrix.shape[0], weights.shape[1]))
        for first, block in dense_blocks(matrix, 4096):
            require_finite(block, first)
            outputs[first : first + len(block)] = block @ weights[1:] + weights[0]
        self._work = Work(outputs.size * self.n_features, 8 * matrix.shape[0] * self.n_features)
        return outputs
