"""Sums of features by class: of a batch of rows, and how they change those of a model.

Rounded features are integers below 2^31, so float64 sums of a block of rows are exact; stored
values, of any number of rows, are summed as integers. The loops exist twice: here in numpy, and in
`sum_loops` for numba. Both give the same integers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dealfl.errors import Impossible
from dealfl.exact import BLOCK, FixedPoint, checked_sum, is_compiled
from dealfl.learners.inputs import Labels, Matrix, dense_blocks

__all__ = ["Added", "ClassSums", "Tables"]

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Points = NDArray[np.int32]

_FLOATS = np.dtype(np.float64)
_FIRST = np.zeros(1, dtype=np.int64)
_BLOCK_VALUES = 1 << 20  # values of a block of rows, for compiled loops
_CACHED_VALUES = 1 << 15  # the same for numpy: a block stays in the cache


@cache
def _loops() -> tuple[Callable[..., bool], ...]:
    from dealfl.learners.sum_loops import add_changes, change_rows, sum_rows, sum_stored

    return change_rows, sum_rows, sum_stored, add_changes


class Tables(NamedTuple):
    """Counts and sums by class, changed in place, and the marks of their blocks."""

    counts: Int64s
    sums: Int64s
    stale: NDArray[np.bool_]
    stale_sums: NDArray[np.bool_]


class Added(NamedTuple):
    """Counts and sums of a batch, of the classes from `first` on."""

    first: int
    counts: Int64s
    sums: Int64s


class ClassSums:
    """The grid and the classes of sums."""

    def __init__(self, grid: FixedPoint, labels: Labels, *, clip: bool) -> None:
        self._grid, self._labels, self._clip = grid, labels, clip
        self._parts, self._limits = np.stack([grid.offset, grid.bound, grid.scale]), grid.limits
        self._has_offset = bool(grid.offset.any())
        self._every = np.arange(len(labels))

    def change(self, X: Matrix, y: object, live: Tables | None, sign: int) -> Added:
        """Sum rows by class, and change live tables; on any error nothing changes."""
        if live is not None and isinstance(X, np.ndarray) and is_compiled(X.size):
            added = self._change_compiled(X, y, live, sign)
            if added is not None:
                return added
        codes, (first, classes) = self._labels.encode(y, X.shape[0]), (0, len(self._labels))
        if len(codes) == 1:  # only the tables of its class change
            first, codes, classes = int(codes[0]), _FIRST, 1
        added = Added(first, np.bincount(codes, minlength=classes), self.of(X, codes, classes))
        if live is not None:
            self._commit(live, added, sign)
        return added

    def _change_compiled(self, X: NDArray[Any], y: object, live: Tables, sign: int) -> Added | None:
        """Do the same in one loop; None if something is unusable, and nothing changed."""
        if X.dtype is not _FLOATS or not X.flags.c_contiguous:
            return None  # converted block by block
        if len(X) == 1:
            first, classes, found = int(self._labels.encode(y, 1)[0]), 1, (_FIRST, 0, _FIRST)
        else:
            first, classes, found = 0, len(self._labels), self._labels.numbered(y, len(X))
        counts, sums = np.zeros(classes, np.int64), np.zeros((classes, X.shape[1]), np.int64)
        places = self._parts, self._limits, *live, first, counts, sums, sign
        return Added(first, counts, sums) if _loops()[0](X, *found, *places) else None

    def of(self, X: Matrix, codes: Int64s, classes: int) -> Int64s:
        """Return the sums of the rows of each class, on the grid."""
        if not isinstance(X, np.ndarray) and not self._has_offset:
            return self._of_stored(X, codes, classes)
        columns, compiled = X.shape[1], is_compiled(X.shape[0] * X.shape[1])
        table = np.zeros((classes, columns), dtype=np.int64)
        values = _BLOCK_VALUES if compiled else _CACHED_VALUES
        for first, block in dense_blocks(X, max(1, values // columns)):
            part = codes[first : first + len(block)]
            if not compiled or not self._add_compiled(block, part, table):
                points = self._grid.rounded(block, first, clip=self._clip)
                if X.shape[0] > 1:  # a single row is the sum of its class
                    points = (part == self._every[:classes, None]).astype(np.float64) @ points
                table += points.astype(np.int64)
        return table

    def _add_compiled(self, block: Floats, codes: Int64s, table: Int64s) -> bool:
        rows, counts = np.ascontiguousarray(block), np.zeros(len(table), np.int64)
        added = np.zeros_like(table)
        if _loops()[1](rows, codes, 0, self._every, self._parts, counts, added):
            table += added
            return True
        return False

    def _of_stored(self, X: sparse.csr_array, codes: Int64s, classes: int) -> Int64s:
        values, columns = np.asarray(X.data, dtype=np.float64), X.shape[1]
        if is_compiled(len(values)):
            totals = np.zeros((classes, columns), dtype=np.int64)
            given = values, X.indices, X.indptr, codes, self._parts[1], self._parts[2], totals
            if _loops()[2](*given):
                return totals
        points = self._grid.quantise_stored(values, X.indices, X.indptr, clip=self._clip)
        places = np.repeat(codes, np.diff(X.indptr)) * columns + X.indices
        whole = np.zeros(classes * columns, dtype=np.int64)
        np.add.at(whole, places, points)
        return whole.reshape(classes, columns)

    def of_points(self, points: Points, signs: Int64s) -> tuple[Int64s, Int64s]:
        """Return counts and sums of rows [1, features, class] on the grid, each times its sign."""
        table = np.zeros((len(self._labels), points.shape[1] - 1), dtype=np.int64)
        step = max(1, _CACHED_VALUES // points.shape[1])
        for first in range(0, len(points), step):
            part = points[first : first + step]
            member = (part[:, -1] == self._every[:, None]) * signs[first : first + step]
            sums = member.astype(np.float64) @ part[:, :-1].astype(np.float64)
            table += sums.astype(np.int64)
        return table[:, 0], table[:, 1:]

    def _commit(self, live: Tables, added: Added, sign: int) -> None:
        """Change the tables, or raise an error and change nothing."""
        first, counts, sums = added
        rows, columns = slice(first, first + len(counts)), sums.shape[1]
        live.stale[first // BLOCK : (rows.stop - 1) // BLOCK + 1] = True
        live.stale_sums[first * columns // BLOCK : (rows.stop * columns - 1) // BLOCK + 1] = True
        given = live.counts, live.sums, self._limits, first, counts, sums, sign
        if is_compiled(sums.size) and _loops()[3](*given):
            return
        new_counts = checked_sum(live.counts[rows], sign * counts)
        table = live.sums.reshape(-1, columns)
        new_sums = checked_sum(table[rows], sign * sums)
        if sign < 0:
            self.require_possible(new_counts, new_sums, first)
        live.counts[rows], table[rows] = new_counts, new_sums

    def require_possible(self, counts: Int64s, sums: Int64s, first: int = 0) -> None:
        """Raise `Impossible` if no examples of classes from `first` on have these sums."""
        if counts.min() >= 0 and sums.min() >= 0 and (sums <= counts[:, None] * self._limits).all():
            return
        wrong = (counts < 0) | np.any((sums < 0) | (sums > counts[:, None] * self._limits), axis=1)
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
