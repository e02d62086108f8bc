"""The common part of both Tikhonov learners: exact moments of [1, X, targets], and weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.exact import (
    ArraySpec,
    Deferred,
    DenseCells,
    Entries,
    FixedPoint,
    Integers,
    Proposal,
    Schema,
    Setting,
    Statistics,
    Storage,
    Work,
    is_compiled,
    require_finite,
)
from dealfl.learners.base import Arrays
from dealfl.learners.description import DataLimits
from dealfl.learners.gram import MAX_BITS, add_rounded_gram, block_rows, exact_gram, signed_gram
from dealfl.learners.inputs import Matrix, dense_blocks, require_integer
from dealfl.learners.moment_arrays import FOLLOWED, LOST, SAME
from dealfl.learners.product_checks import are_possible, require_products
from dealfl.learners.ridge_weights import RidgeWeights
from dealfl.learners.row_learner import RowLearner

__all__ = ["FLOATS", "NormalEquations"]

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Points = NDArray[np.int32]
FLOATS = np.dtype(np.float64)

_MAX_ROWS_BITS = 24  # sums of 2^24 rows never overflow
_FEW = 16  # rows that a factor follows at the most; see `follows`


@cache
def _loops(compiled: bool) -> tuple[Callable[..., int], ...]:
    """Return what changes moments by a row and by moments in place, and what shifts a row."""
    from dealfl.learners import moment_arrays as arrays

    if not compiled:
        return arrays.change_row, arrays.change_moments, arrays.shift_row
    from dealfl.learners import moment_loops as loops

    return loops.change_row, loops.change_moments, loops.shift_row


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
        weights: RidgeWeights,
        target_grid: tuple[float, float],
        *,
        clip: bool,
        storage: Storage | None,
    ) -> None:
        bits = require_integer(grid.fraction_bits, "fraction_bits", 1, MAX_BITS)
        columns = 1 + len(grid.bound) + targets
        width = 64 if 2 * bits + _MAX_ROWS_BITS <= 62 else 96
        moments = ArraySpec("moments", columns * (columns + 1) // 2, width)
        shape |= grid.settings(clip=clip)
        super().__init__(Schema(self.name, shape, (moments,)), storage)
        self._grid, self._targets, self._columns, self._wide = grid, targets, columns, moments.wide
        self._clip, self._weights, self._size = clip, weights, moments.size
        self._one_row, self._cost_of_one = (1, len(grid.bound)), self._cost(1)
        # of each column: bound, scale, size of a grid step in the factor, unit of a weight or goal
        self._scales = np.zeros((4, columns))
        self._scales[:2, 1 : columns - targets] = grid.bound, grid.scale
        self._scales[:2, columns - targets :] = np.array(target_grid)[:, None]
        self._scales[2:, : columns - targets] = weights.units
        self._scales[2:, columns - targets :] = weights.goal[:, None]
        self._limit = 4.0**bits  # of a square

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
            **({"offset": self._grid.offset.tolist()} if self._grid.offset.any() else {}),
            "penalty": self._weights.penalty,
            "feature_bound": self._grid.bound.tolist(),
            "fraction_bits": self._grid.fraction_bits,
            "solver": self._weights.solver,
            "intercept": self._weights.intercept,
            "clip": self._clip,
        }

    @abstractmethod
    def _target_values(self, y: object, rows: int) -> Floats:
        """Return the targets of all rows, one after the other."""

    @abstractmethod
    def _target_columns(self, y: object, rows: int) -> Int64s:
        """Return the targets of all rows as integers, one column per target."""

    def _rows_at(self, points: Points) -> NDArray[np.integer]:
        """Return the columns [1, features, targets] of rows of integers."""
        return points

    def count_records(self, statistics: Statistics) -> int:
        """Return the number of examples in statistics: the first of the moments."""
        return statistics["moments"].between(0, 1).dense(1).tolist()[0]

    @property
    @abstractmethod
    def weights(self) -> Floats:
        """The weights of the features, in the original units."""

    @property
    @abstractmethod
    def bias(self) -> float | Floats:
        """The constant that is added to every output."""

    @property
    def factorisations(self) -> int:
        """The number of factors that were computed from the moments; others followed rows."""
        return self._weights.factorisations

    def derived_arrays(self) -> Arrays:
        """Return the arrays `weights` and `bias`."""
        return {"weights": self.weights, "bias": np.asarray(self.bias)}

    def _change(self, X: object, y: object, sign: int) -> Statistics:
        if type(X) is np.ndarray and X.shape == self._one_row and X.dtype is FLOATS:
            matrix: Matrix = X
        else:
            matrix = self._as_rows(X)
        rows = matrix.shape[0]
        delta = self._change_one(matrix, y, sign) if rows == 1 else None
        if delta is None:
            moments, last = self._moments(matrix, self._target_columns(y, rows))
            delta = self._add(moments, sign)
            self._weights.follow(last[:_FEW], sign, rows)
        if matrix is not X:
            self._remember_names(X)
        self._work = self._cost_of_one if rows == 1 else self._cost(rows)
        return delta

    def _change_one(self, X: Matrix, y: object, sign: int) -> Statistics | None:
        """Learn or forget one row in place; None if that is not possible, and nothing changed."""
        state, weights = self._state, self._weights
        cells = state.cells("moments")
        if weights.is_shifted or not (isinstance(cells, DenseCells) and isinstance(X, np.ndarray)):
            return None
        low, high = cells.low, cells.low[:0] if cells.high is None else cells.high
        row = np.empty((2, self._columns), np.int32)
        change, _, shift = _loops(is_compiled(len(low)))
        table, fresh = weights.table()
        found = change(
            np.ascontiguousarray(X, np.float64), self._target_values(y, 1), self._scales,
            self._limit, low, high, state.stale("moments"), sign, row, table, fresh,
        )  # fmt: skip
        if found > 0 and not self._is_possible(row[1, :found]):
            shift(low, high, row[0], -sign)
            found = SAME
        if found == SAME:
            return None
        if found == FOLLOWED:
            weights.take(fresh)
        elif found == LOST:
            weights.drop()
        else:
            weights.follow(row[:1].astype(np.int64), sign, 1)
        return self._delta_of(partial(self._product, row), sign)

    def _add(self, moments: Integers, sign: int) -> Statistics:
        """Add or subtract the moments of a batch, or raise `NotLearned` and change nothing."""
        delta = self._delta_of(lambda: moments, sign)
        cells = self._state.cells("moments")
        if isinstance(cells, DenseCells):
            live, doubtful = Integers(cells.low, cells.high), np.empty(self._columns, np.int32)
            change = partial(
                _loops(is_compiled(self._size))[1], *live.parts, self._limit,
                self._state.stale("moments"), *moments.parts,
            )  # fmt: skip
            found = change(sign, doubtful)
            if found == 0 or (found > 0 and self._is_possible(doubtful[:found])):
                return delta
            if found > 0:
                change(-sign, doubtful)
        return self._apply(delta, forgetting=sign < 0)

    def _product(self, row: Points) -> Integers:
        return exact_gram(row[:1].astype(np.int64), self._grid.fraction_bits, wide=self._wide)

    def _delta_of(self, compute: Callable[[], Integers], sign: int) -> Statistics:
        """Return moments times a sign; they are computed when they are first read."""

        def entries() -> dict[str, Entries]:
            moments = compute()
            return {"moments": Entries.of_dense(moments if sign > 0 else -moments)}

        return Statistics(self._state.schema, Deferred(self._state.schema, entries))

    def _now(self) -> Integers:
        """Return the present moments; not a copy, if they are in memory."""
        cells = self._state.cells("moments")
        if isinstance(cells, DenseCells):
            return cells.view(slice(None))
        return self._state.whole("moments")

    def _cost(self, rows: int) -> Work:
        return Work(rows * self._size, 8 * rows * self._columns + 2 * 8 * self._size)

    def _moments(self, X: Matrix, targets: Int64s) -> tuple[Integers, Int64s]:
        """Return the moments of a batch, and its last block of rows, if they are few."""
        bits, wide, shifted = self._grid.fraction_bits, self._wide, self._weights.is_shifted
        total = Integers.zeros(self._size, wide)
        rows = np.empty((0, self._columns), dtype=np.int64)
        for first, block in dense_blocks(X, block_rows(self._columns, bits)):
            goals = targets[first : first + len(block)]
            compiled = not shifted and X.shape[0] > _FEW and is_compiled(block.size)
            if not compiled or not add_rounded_gram(block, goals, self._grid, total):
                points = self._grid.quantise(block, first, clip=self._clip)
                rows = np.column_stack([np.ones(len(block), np.int64), points, goals])
                moments = exact_gram(rows, bits, wide=wide)
                total = moments if first == 0 else total + moments
        return total, rows

    def _signed(self, points: Points, signs: Int64s) -> Statistics:
        rows, bits = self._rows_at(points), self._grid.fraction_bits
        moments = signed_gram(rows, signs, bits, wide=self._wide)
        return Statistics(self.schema, {"moments": Entries.of_dense(moments)})

    def _follow_points(self, points: Points, signs: Int64s, ids: Sequence[int]) -> None:
        del ids
        rows = self._rows_at(points).astype(np.int64)
        for sign in (+1, -1):
            some = rows[signs == sign]
            self._weights.follow(some, sign, len(some))

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

    def _is_possible(self, columns: Points) -> bool:
        return are_possible(self._now(), columns.tolist(), 1 << self._grid.fraction_bits)

    # -- the model ------------------------------------------------------------------------------

    def _solved(self) -> Floats:
        """Return the weights of [1, features] in the original units, one column per target."""
        return self._weights.read(self._now)

    def _forget_model(self) -> None:
        self._weights.drop()

    def _derived(self) -> tuple[Int64s, Floats]:
        weights = self._solved().ravel()
        return np.arange(len(weights)), weights

    def _outputs(self, X: object) -> Floats:
        """Return the value of each target for each row."""
        matrix, weights = self._as_rows(X), self._solved()
        outputs = np.empty((matrix.shape[0], weights.shape[1]))
        for first, block in dense_blocks(matrix, 4096):
            require_finite(block, first)
            outputs[first : first + len(block)] = block @ weights[1:] + weights[0]
        operations = outputs.size * self.n_features + self._weights.take_operations()
        self._work = Work(operations, 8 * matrix.shape[0] * self.n_features)
        return outputs
