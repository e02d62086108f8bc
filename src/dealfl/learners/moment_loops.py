"""Compiled loops for ridge regression: exact moments of one row, and factors updated by it.

Moments are a packed lower triangle of sums of products of columns, the first of which is 1. Wide
sums are high·2^32 + low; others have no high part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dealfl.compiled import compile_loop
from dealfl.learners.factors import MIN_SLACK

__all__ = ["change_row", "round_rows", "shift_row", "solve_table", "update_table"]

Array = Any  # a contiguous array; numba derives the types
Number = Any

_LOW_MASK = np.int64(0xFFFF_FFFF)
_TWO_32 = 4294967296.0
_SAME, _LOST, _FOLLOWED = -1, -2, -3  # as in `moment_arrays`
_CLEAR = 1.0 - 1e-12  # float products are accurate to 1e-15


@compile_loop
def _shift_wide(low: Array, high: Array, row: Array, factor: Number) -> Number:
    """Add factor·row to wide sums; return a negative number if one overflows."""
    overflow = np.int64(0)
    for place in range(len(low)):
        product = np.int64(factor) * np.int64(row[place])
        total = low[place] + (product & _LOW_MASK)
        before, added = high[place], (product >> 32) + (total >> 32)
        after = before + added
        low[place], high[place] = total & _LOW_MASK, after
        overflow |= (before ^ after) & (added ^ after)
    return overflow


@compile_loop
def _shift_narrow(low: Array, row: Array, factor: Number) -> Number:
    overflow = np.int64(0)
    for place in range(len(low)):
        before, added = low[place], np.int64(factor) * np.int64(row[place])
        low[place] = before + added
        overflow |= (before ^ low[place]) & (added ^ low[place])
    return overflow


@compile_loop
def shift_row(low: Array, high: Array, row: Array, sign: int) -> bool:
    """Add the products of a row to the moments, or subtract them; return False on overflow."""
    overflow, start = np.int64(0), 0
    for column in range(len(row)):
        stop, factor = start + column + 1, np.int32(sign * row[column])
        if len(high):
            overflow |= _shift_wide(low[start:stop], high[start:stop], row, factor)
        else:
            overflow |= _shift_narrow(low[start:stop], row, factor)
        start = stop
    return bool(overflow >= 0)


@compile_loop
def _value(low: Array, high: Array, place: int) -> float:
    return high[place] * _TWO_32 + low[place] if len(high) else float(low[place])


@compile_loop
def _find_doubtful(low: Array, high: Array, limit: float, doubtful: Array) -> int:
    """List the columns whose moments are not clearly possible; return their number."""
    count, found, start, columns = _value(low, high, 0), 0, 1, len(doubtful)
    if count < 1.0:
        doubtful[0] = 0
        return 1
    for column in range(1, columns):
        total, square = _value(low, high, start), _value(low, high, start + column)
        clear = square <= count * limit * _CLEAR and total * total <= count * square * _CLEAR
        zero = total == 0.0 and square == 0.0 and count >= 0.0
        if not (clear or zero) or (low[start] ^ low[start + column]) & 1:
            doubtful[found] = column
            found += 1
        start += column + 1
    return found


@compile_loop
def _round(values: Array, bound: Array, scale: Array, row: Array) -> int:
    """Write rounded values; return a number other than 0 if one is out of bounds."""
    bad = 0
    for column in range(len(values)):
        value = values[column]
        bad |= 0 if (value >= -bound[column]) & (value <= bound[column]) else 1
        row[column] = np.int32(np.rint(value * scale[column]))
    return bad


@compile_loop
def change_row(
    values: Array, targets: Array, scales: Array, limit: float, low: Array, high: Array,
    stale: Array, sign: int, rows: Array, table: Array, weights: Array,
) -> int:  # fmt: skip
    """Round one row, add or subtract its products, and follow with the table of a factor.

    The rounded row is written to `rows[0]`. Return the number of columns that must be checked
    exactly before the table can follow, written to `rows[1]`; -1 if a value is out of bounds or a
    sum overflows, so that nothing changed; and otherwise what became of the table: -3 if it
    followed, or -2 if it would lose accuracy. Columns are checked only for forgetting.
    """
    row, stop = rows[0], 1 + values.shape[1]
    row[0] = 1
    bad = _round(values[0], scales[0, 1:stop], scales[1, 1:stop], row[1:stop])
    if bad | _round(targets, scales[0, stop:], scales[1, stop:], row[stop:]):
        return _SAME
    if not shift_row(low, high, row, sign):
        shift_row(low, high, row, -sign)
        return _SAME
    stale[:] = True
    if sign < 0:
        found = _find_doubtful(low, high, limit, rows[1])
        if found:
            return found
    if not len(table):
        return 0
    return _FOLLOWED if _follow(row, sign, table, scales[2:], weights) else _LOST


@compile_loop
def round_rows(
    values: Array, targets: Array, bound: Array, scale: Array, parts: Array, limb: float
) -> bool:
    """Write [1, rounded values, targets] to the last part; return False if one is out of bounds.

    With three parts, these are the high and the low limbs and their sum.
    """
    bad, last, columns = 0, parts[-1], 1 + values.shape[1]
    for row in range(len(values)):
        last[row, 0] = 1.0
        for column in range(values.shape[1]):
            value = values[row, column]
            bad |= 0 if (value >= -bound[column]) & (value <= bound[column]) else 1
            last[row, 1 + column] = np.rint(value * scale[column])
        for target in range(targets.shape[1]):
            last[row, columns + target] = targets[row, target]
        if len(parts) == 3:
            _split(last[row], parts[0, row], parts[1, row], limb)
    return bad == 0


@compile_loop
def _split(points: Array, high: Array, low: Array, limb: float) -> None:
    """Split points into two limbs and replace them by their sum."""
    for column in range(len(points)):
        high[column] = np.floor(points[column] / limb + 0.5)
        low[column] = points[column] - high[column] * limb
        points[column] = high[column] + low[column]


def _step(
    first: Array, second: Array, rest: Array, along: float, by: float, add: float, along_2: float,
    by_2: float, add_2: float,
) -> None:  # fmt: skip
    """Change two rows of a table and the rest of a row; see `update_table`."""
    for place in range(len(rest)):
        left = rest[place] - along * first[place]
        first[place] = first[place] * by + left * add
        left -= along_2 * second[place]
        second[place] = second[place] * by_2 + left * add_2
        rest[place] = left


_step = compile_loop(_step, reorder=True)


@compile_loop
def update_table(table: Array, row: Array, sign: int, min_slack: float) -> bool:
    """Update [U, U⁻ᵀB] of UᵀU = A to A ± x·xᵀ and B ± x·bᵀ, for a row [x, b] that is used up.

    Return False if that loses accuracy. After Gill, Golub, Murray and Saunders (1974), method C1,
    with two rows of the table at a time.
    """
    slack, root = 1.0, 1.0
    if len(table) % 2:
        along = row[0] / table[0, 0]
        slack += sign * along * along
        root = np.sqrt(max(slack, 0.0))
        row[1:] -= along * table[0, 1:]
        table[0, 0] *= root
        table[0, 1:] = table[0, 1:] * root + row[1:] * (sign * along / root)
    for column in range(len(table) % 2, len(table), 2):
        first, second, after = table[column], table[column + 1], column + 2
        along = row[column] / first[column]
        middle = slack + sign * along * along
        left = row[column + 1] - along * first[column + 1]
        along_2 = left / second[column + 1]
        slack = middle + sign * along_2 * along_2
        if not min(middle, slack) >= min_slack:
            return False
        half, before, root = np.sqrt(middle), root, np.sqrt(slack)
        by, add = half / before, sign * along / (half * before)
        by_2, add_2 = root / half, sign * along_2 / (root * half)
        first[column] *= by
        first[column + 1] = first[column + 1] * by + left * add
        second[column + 1] *= by_2
        _step(first[after:], second[after:], row[after:], along, by, add, along_2, by_2, add_2)
    return bool(slack >= min_slack)


def _products(first: Array, second: Array, solution: Array) -> Number:
    total, total_2 = 0.0, 0.0
    for place in range(len(solution)):
        total += first[place] * solution[place]
        total_2 += second[place] * solution[place]
    return total, total_2


_products = compile_loop(_products, reorder=True)


@compile_loop
def _substitute(table: Array, solution: Array, right: int) -> None:
    """Solve for one column of the table, two rows at a time from the end."""
    size = len(table)
    for last in range(size - 1, 0, -2):
        first, second, after = table[last - 1], table[last], last + 1
        rest, rest_2 = _products(first[after:size], second[after:size], solution[after:])
        solution[last] = (second[right] - rest_2) / second[last]
        rest += first[last] * solution[last]
        solution[last - 1] = (first[right] - rest) / first[last - 1]
    if size % 2:
        rest, _ = _products(table[0, 1:size], table[0, 1:size], solution[1:])
        solution[0] = (table[0, right] - rest) / table[0, 0]


@compile_loop
def solve_table(table: Array, units: Array, weights: Array) -> None:
    """Write the weights of [1, features], one column per target, from the table of a factor.

    The table has a row for each of the last weights; the others are 0.
    """
    skipped, solution = len(weights) - len(table), np.empty(len(table))
    weights[:skipped] = 0.0
    for target in range(weights.shape[1]):
        _substitute(table, solution, len(table) + target)
        for column in range(len(table)):
            weights[skipped + column, target] = solution[column] * units[1, skipped + column]


@compile_loop
def _follow(row: Array, sign: int, table: Array, scales: Array, weights: Array) -> bool:
    """Update a table by a row of integers, and compute the weights if there is room for them."""
    size, scaled = len(table), np.empty(table.shape[1])
    skipped = len(row) - len(scaled)
    for place in range(len(scaled)):
        scaled[place] = row[skipped + place] * scales[0, skipped + place]
    scaled[size:] += scales[1, skipped + size :]
    if not update_table(table, scaled, sign, MIN_SLACK):
        return False
    if len(weights):
        solve_table(table, scales, weights)
    return True
