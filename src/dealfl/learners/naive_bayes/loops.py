"""Compiled loops of naive Bayes: exact sums by class; see `plain`."""

from __future__ import annotations

from typing import Any

import numpy as np

from dealfl.exact import compile_loop

Array = Any  # a contiguous array; numba derives the types

_EXACT_ROWS = 1 << 20  # float64 sums of as many integers below 2^31 are exact
_AT_ONCE = 512  # values
_LANES = 16  # columns that the compiler adds at a time; a shorter rest takes as long


@compile_loop
def _round(values: Array, offset: Array, bound: Array, scale: Array, points: Array) -> bool:
    """Write rounded values; return whether one is out of bounds."""
    bad = False
    for column in range(len(points)):
        value = values[column] - offset[column]
        bad |= not ((value >= 0.0) & (value <= bound[column]))
        points[column] = np.rint(value * scale[column])
    return bad


@compile_loop
def _add(points: Array, total: Array) -> None:
    for column in range(len(total)):
        total[column] += points[column]


@compile_loop
def _sum_rows(rows: Array, codes: Array, grid: Array, totals: Array) -> bool:
    """Add rounded rows to the totals of their classes; return False if a value is out of bounds.

    Totals can have more columns than rows; these are not sums of anything.
    """
    values, columns, bad = rows.ravel(), rows.shape[1], False
    some = min(len(rows), max(1, _AT_ONCE // columns))  # at a time: the loop over values is long
    points, tiles = np.zeros(some * columns + _LANES), np.empty((3, some * columns))
    for row in range(some):
        tiles[:, row * columns : (row + 1) * columns] = grid
    for first in range(0, len(rows), max(some, 1)):
        count = min(some, len(rows) - first)
        part = values[first * columns : (first + count) * columns]
        bad |= _round(part, tiles[0], tiles[1], tiles[2], points[: len(part)])
        for row in range(count):
            _add(points[row * columns :], totals[codes[first + row]])
    return not bad


@compile_loop
def sum_rows(rows: Array, codes: Array, grid: Array, sums: Array) -> bool:
    """Add rounded rows to the sums of their classes, or nothing if a value is out of bounds."""
    columns, added = sums.shape[1], np.zeros_like(sums)
    for start in range(0, len(rows), _EXACT_ROWS):
        totals, stop = np.zeros((len(sums), -(-columns // _LANES) * _LANES)), start + _EXACT_ROWS
        if not _sum_rows(rows[start:stop], codes[start:stop], grid, totals):
            return False
        added += totals[:, :columns].astype(np.int64)
    sums += added
    return True


@compile_loop
def _find_classes(numbers: Array, lowest: int, codes: Array, classes: Array) -> bool:
    """Write the class of each number; return False if one has none."""
    bad = False
    for row in range(len(classes)):
        index = numbers[row] - lowest
        inside = (index >= 0) & (index < len(codes))
        code = codes[np.uint64(index if inside else 0)]
        classes[row] = np.uint64(code)
        bad |= (not inside) | (code < 0)
    return not bad


@compile_loop
def change_rows(
    rows: Array,
    numbers: Array,
    lowest: int,
    codes: Array,
    grid: Array,
    limits: Array,
    counts: Array,
    sums: Array,
    first: int,
    added: Array,
    changes: Array,
    sign: int,
) -> bool:
    """Sum rows and change the tables of classes from `first` on, or nothing if that fails."""
    classes = np.empty(len(rows), np.uint64)
    if not _find_classes(numbers, lowest, codes, classes):
        return False
    if not sum_rows(rows, classes, grid, changes):
        return False
    for code in classes:
        added[code] += 1
    return add_changes(counts, sums, limits, first, added, changes, sign)


@compile_loop
def sum_stored(
    values: Array, columns: Array, starts: Array, codes: Array, grid: Array, sums: Array
) -> bool:
    """Do the same as `sum_rows` with the stored values of a CSR matrix, without an offset."""
    bad, bound, scale = 0, grid[1], grid[2]
    totals = np.zeros_like(sums)
    for row in range(len(codes)):
        total = totals[codes[row]]
        for cell in range(starts[row], starts[row + 1]):
            column, value = columns[cell], values[cell]
            bad |= 0 if (value >= 0.0) & (value <= bound[column]) else 1
            total[column] += np.int64(np.rint(value * scale[column]))
    if bad == 0:
        sums += totals
    return bad == 0


@compile_loop
def add_changes(
    counts: Array, sums: Array, limits: Array, first: int, added: Array, changes: Array, sign: int
) -> bool:
    """Change counts and sums of classes from `first` on, or nothing if it may be impossible."""
    table = sums.reshape(len(counts), len(limits))
    for row in range(len(added)):
        count = counts[first + row] + sign * added[row]
        if count < 0:
            return False
        for column in range(len(limits)):
            before = table[first + row, column]
            after = before + sign * changes[row, column]
            if min(before, after) < 0 or (sign < 0 and after > limits[column] * count):
                return False
    for row in range(len(added)):
        counts[first + row] += sign * added[row]
        for column in range(len(limits)):  # without a row in memory, for which none may be left
            table[first + row, column] += sign * changes[row, column]
    return True
