"""Compiled loops over rows of features: exact sums by class.

Rounded features are integers below 2^31, so float64 sums of a block of rows are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dealfl.compiled import compile_loop

__all__ = ["add_changes", "sum_rows", "sum_stored"]

Array = Any  # a contiguous array; numba derives the types


@compile_loop
def _add_row(row: Array, offset: Array, bound: Array, scale: Array, total: Array) -> int:
    bad = 0
    for column in range(len(total)):
        value = row[column] - offset[column]
        bad |= 0 if (value >= 0.0) & (value <= bound[column]) else 1
        total[column] += np.rint(value * scale[column])
    return bad


@compile_loop
def _add_two(
    one: Array, other: Array, offset: Array, bound: Array, scale: Array, total: Array
) -> int:
    bad = 0
    for column in range(len(total)):
        start, most, by = offset[column], bound[column], scale[column]
        first, second = one[column] - start, other[column] - start
        inside = (first >= 0.0) & (first <= most) & (second >= 0.0) & (second <= most)
        bad |= 0 if inside else 1
        total[column] += np.rint(first * by) + np.rint(second * by)
    return bad


@compile_loop
def sum_rows(
    rows: Array, codes: Array, offset: Array, bound: Array, scale: Array, totals: Array
) -> bool:
    """Add rounded rows to the totals of their classes; return False if a value is out of bounds."""
    bad, place = 0, 0
    while place < len(rows):
        total = totals[codes[place]]
        if place + 1 < len(rows) and codes[place] == codes[place + 1]:
            bad |= _add_two(rows[place], rows[place + 1], offset, bound, scale, total)
            place += 2
        else:
            bad |= _add_row(rows[place], offset, bound, scale, total)
            place += 1
    return bad == 0


@compile_loop
def sum_stored(
    values: Array, columns: Array, starts: Array, codes: Array, bound: Array, scale: Array,
    totals: Array,
) -> bool:  # fmt: skip
    """Do the same with the stored values of a CSR matrix, without an offset."""
    bad = 0
    for row in range(len(codes)):
        total = totals[codes[row]]
        for place in range(starts[row], starts[row + 1]):
            column, value = columns[place], values[place]
            bad |= 0 if (value >= 0.0) & (value <= bound[column]) else 1
            total[column] += np.rint(value * scale[column])
    return bad == 0


@compile_loop
def add_changes(
    counts: Array, sums: Array, limits: Array, first: int, added: Array, changes: Array, sign: int
) -> bool:
    """Change counts and sums of classes from `first` on, or nothing if the result is impossible.

    Limits of sums are tested only for forgetting.
    """
    for row in range(len(added)):
        count = counts[first + row] + sign * added[row]
        if sign < 0 and count < 0:
            return False
        for column in range(sums.shape[1]):
            before, change = sums[first + row, column], sign * changes[row, column]
            after = before + change
            if (before ^ after) & (change ^ after) < 0:
                return False
            if sign < 0 and not 0 <= after <= limits[column] * count:
                return False
    for row in range(len(added)):
        counts[first + row] += sign * added[row]
        for column in range(sums.shape[1]):
            sums[first + row, column] += sign * changes[row, column]
    return True
