"""Sums of features by class: of a batch of rows, and how they change those of a model.

Rounded features are integers below 2^31, so float64 sums of a block of rows are exact. The loops
exist twice: here in numpy, and in `sum_loops` for numba. Both give the same integers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dealfl.compiled import is_compiled
from dealfl.errors import Impossible
from dealfl.fixedpoint import FixedPoint
from dealfl.integers import checked_sum
from dealfl.learners.inputs import Matrix, dense_blocks
from dealfl.learners.labels import Labels

__all__ = ["ClassSums"]

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Points = NDArray[np.int32]

_BLOCK_VALUES = 1 << 20  # values of a block of rows, for compiled loops
_CACHED_VALUES = 1 << 15  # the same for numpy: a block stays in the cache


@cache
def _loops() -> tuple[Callable[..., bool], ...]:
    from dealfl.learners.sum_loops import add_changes, sum_rows, sum_stored

    return sum_rows, add_changes, sum_stored


class ClassSums:
    """The grid and the classes of sums."""

    def __init__(self, grid: FixedPoint, labels: Labels, *, clip: bool) -> None:
        self._grid, self._labels, self._clip = grid, labels, clip
        self._scale, self._limits = grid.scale, grid.limits
        self._has_offset = bool(grid.offset.any())

    def of(self, X: Matrix, codes: Int64s, classes: int) -> Int64s:
        """Return the sums of the rows of each class, on the grid."""
        if not isinstance(X, np.ndarray) and not self._has_offset:
            return self._of_stored(X, codes, classes)
        columns = X.shape[1]
        if is_compiled(X.shape[0] * columns):
            sums, values = self._compiled_sums, _BLOCK_VALUES
        else:
            sums, values = self._sums, _CACHED_VALUES
        if X.shape[0] == 1 and isinstance(X, np.ndarray):
            return sums(0, X.astype(np.float64), codes, classes).astype(np.int64)
        table = np.zeros((classes, columns), dtype=np.int64)
        for first, block in dense_blocks(X, max(1, values // columns)):
            part = codes[first : first + len(block)]
            table += sums(first, block, part, classes).astype(np.int64)
        return table

    def _sums(self, first: int, block: Floats, codes: Int64s, classes: int) -> Floats:
        points = self._grid.rounded(block, first, clip=self._clip)
        return np.asarray((codes[:, None] == np.arange(classes)).astype(np.float64).T @ points)

    def _compiled_sums(self, first: int, block: Floats, codes: Int64s, classes: int) -> Floats:
        totals, grid = np.zeros((classes, block.shape[1])), self._grid
        rows = np.ascontiguousarray(block)
        if _loops()[0](rows, codes, grid.offset, grid.bound, self._scale, totals):
            return totals
        return self._sums(first, block, codes, classes)  # something is out of bounds

    def _of_stored(self, X: sparse.csr_array, codes: Int64s, classes: int) -> Int64s:
        values, columns = np.asarray(X.data, dtype=np.float64), X.shape[1]
        if is_compiled(len(values)):
            totals = np.zeros((classes, columns))
            if _loops()[2](
                values, X.indices, X.indptr, codes, self._grid.bound, self._scale, totals
            ):
                return totals.astype(np.int64)
        points = self._grid.quantise_stored(values, X.indices, X.indptr, clip=self._clip)
        places = np.repeat(codes, np.diff(X.indptr)) * columns + X.indices
        whole = np.bincount(places, points.astype(np.float64), classes * columns)
        return whole.astype(np.int64).reshape(classes, columns)

    def of_points(self, points: Points, signs: Int64s) -> tuple[Int64s, Int64s]:
        """Return counts and sums of rows [1, features, class] on the grid, each times its sign."""
        points, codes = points[:, 1:-1], points[:, -1]
        classes, columns = len(self._labels), points.shape[1]
        counts = np.zeros(classes, dtype=np.int64)
        sums = np.zeros((classes, columns), dtype=np.int64)
        step = max(1, _CACHED_VALUES // columns)
        for first in range(0, len(points), step):
            part = slice(first, first + step)
            member = (codes[part] == np.arange(classes)[:, None]) * signs[part]
            counts += member.sum(axis=1)
            sums += (member.astype(np.float64) @ points[part].astype(np.float64)).astype(np.int64)
        return counts, sums

    def change(
        self, counts: Int64s, sums: Int64s, first: int, added: Int64s, changes: Int64s, sign: int
    ) -> None:
        """Change the tables of classes from `first` on, or raise an error and change nothing."""
        given = counts, sums, self._limits, first, added, changes, sign
        if is_compiled(changes.size) and _loops()[1](*given):
            return
        rows = slice(first, first + len(added))
        new_counts = checked_sum(counts[rows], sign * added)
        new_sums = checked_sum(sums[rows], sign * changes)
        if sign < 0:
            self.require_possible(new_counts, new_sums, first)
        counts[rows], sums[rows] = new_counts, new_sums

    def require_possible(self, counts: Int64s, sums: Int64s, first: int = 0) -> None:
        """Raise `Impossible` if no examples of classes from `first` on have these sums."""
        wrong = (counts < 0) | np.any((sums < 0) | (sums > counts[:, None] * self._limits), axis=1)
        if not wrong.any():
            return
        row = int(np.argmax(wrong))
        label, count = self._labels.tolist()[first + row], counts[row]
        if count < 0:
            raise Impossible(f"class {label!r} has {count} examples")
        most = self._limits * count
        column = int(np.flatnonzero((sums[row] < 0) | (sums[row] > most))[0])
        raise Impossible(
            f"feature {column} of {count} examples of class {label!r} has the sum "
            f"{sums[row, column]} grid points, outside [0, {most[column]}]"
        )
