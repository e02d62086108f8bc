"""Sums of features by class, in numpy; `loops` has the same functions for numba.

`grid` holds offset, bound and scale of each feature. Rounded features are integers below 2^31, so
float64 sums of a block of rows are exact; stored values, of any number of rows, are summed as
integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.exact import twin

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Indices = NDArray[np.integer[Any]]

_CACHED_VALUES = 1 << 15  # values of a block of rows that stays in the cache


@twin
def change_rows(
    rows: Floats,
    numbers: Int64s,
    lowest: int,
    codes: Int64s,
    grid: Floats,
    limits: Int64s,
    counts: Int64s,
    sums: Int64s,
    first: int,
    added: Int64s,
    changes: Int64s,
    sign: int,
) -> bool:
    """Sum rows and change the tables of classes from `first` on, or nothing if that fails.

    The class of a row is `codes[number - lowest]`. Counts and sums of the rows are written to
    `added` and `changes`, which hold zeros.
    """
    indices = numbers - lowest
    if indices.min(initial=0) < 0 or indices.max(initial=0) >= len(codes):
        return False
    classes = codes[indices]
    if classes.min(initial=0) < 0 or not sum_rows(rows, classes, grid, changes):
        return False
    added += np.bincount(classes, minlength=len(added))
    return add_changes(counts, sums, limits, first, added, changes, sign)


@twin
def sum_rows(rows: Floats, codes: Int64s, grid: Floats, sums: Int64s) -> bool:
    """Add rounded rows to the sums of their classes, or nothing if a value is out of bounds."""
    offset, bound, scale = grid
    step = max(1, _CACHED_VALUES // rows.shape[1])
    total = sums if len(rows) <= step else np.zeros_like(sums)
    for first in range(0, len(rows), step):
        block = rows[first : first + step]
        if np.count_nonzero(offset):
            with np.errstate(over="ignore", invalid="ignore"):
                block = block - offset
        if not ((block >= 0.0) & (block <= bound)).all():
            return False
        add_points(np.rint(block * scale), codes[first : first + step], total)
    if total is not sums:
        sums += total
    return True


def add_points(points: Floats, codes: Int64s, sums: Int64s) -> None:
    """Add a block of grid points to the sums of their classes."""
    if len(points) == 1:
        sums[codes[0]] += points[0].astype(np.int64)
        return
    member = codes == np.arange(len(sums))[:, None]
    sums += (member.astype(np.float64) @ points).astype(np.int64)


def sum_points(points: NDArray[np.int32], signs: Int64s, table: Int64s) -> None:
    """Add rows [1, features, class] on the grid, each times its sign, to [count, sums]."""
    step = max(1, _CACHED_VALUES // points.shape[1])
    classes = np.arange(len(table))[:, None]
    for first in range(0, len(points), step):
        part = points[first : first + step]
        member = (part[:, -1] == classes) * signs[first : first + step]
        sums = member.astype(np.float64) @ part[:, :-1].astype(np.float64)
        table += sums.astype(np.int64)


@twin
def sum_stored(
    values: Floats, columns: Indices, starts: Indices, codes: Int64s, grid: Floats, sums: Int64s
) -> bool:
    """Do the same as `sum_rows` with the stored values of a CSR matrix, without an offset."""
    if not ((values >= 0.0) & (values <= grid[1, columns])).all():
        return False
    points = np.rint(values * grid[2, columns]).astype(np.int64)
    add_stored(points, columns, starts, codes, sums)
    return True


def add_stored(
    points: Int64s, columns: Indices, starts: Indices, codes: Int64s, sums: Int64s
) -> None:
    """Add the grid points of stored values to the sums of their classes."""
    cells = np.repeat(codes, np.diff(starts)) * sums.shape[1] + columns
    np.add.at(sums.reshape(-1), cells, points)


@twin
def add_changes(
    counts: Int64s,
    sums: Int64s,
    limits: Int64s,
    first: int,
    added: Int64s,
    changes: Int64s,
    sign: int,
) -> bool:
    """Change counts and sums of classes from `first` on, or nothing if it may be impossible.

    A negative number is refused: it is impossible, or a sum does not fit 64 bits.
    """
    classes = slice(first, first + len(added))
    before = sums.reshape(len(counts), len(limits))[classes]
    new_counts = counts[classes] + sign * added
    after = before + sign * changes
    if new_counts.min() < 0 or before.min() < 0 or after.min() < 0:
        return False
    if sign < 0 and (after > new_counts[:, None] * limits).any():
        return False
    counts[classes], before[:] = new_counts, after  # no interrupt comes within a statement
    return True


def undo_changes(
    counts: Int64s, sums: Int64s, first: int, added: Int64s, changes: Int64s, sign: int
) -> None:
    """Undo `add_changes`, whether or not what is left is possible."""
    classes = slice(first, first + len(added))
    table = sums.reshape(len(counts), -1)[classes]
    counts[classes], table[:] = counts[classes] - sign * added, table - sign * changes


def are_possible(counts: Int64s, sums: Int64s, limits: Int64s) -> bool:
    """Return whether examples can have these counts and sums."""
    return bool(counts.min() >= 0 and sums.min() >= 0 and (sums <= counts[:, None] * limits).all())
