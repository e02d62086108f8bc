"""Compiled loops for ridge regression: exact moments of one row, and factors updated by it.

Moments are a packed lower triangle of sums of products of columns, the first of which is 1. Wide
sums are high·2^32 + low; others have no high part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dealfl.compiled import compile_loop

__all__ = ["change_row", "round_rows", "shift_row", "solve_moments", "update_upper"]

Array = Any  # a contiguous array; numba derives the types
Number = Any

_LOW_MASK = np.int64(0xFFFF_FFFF)
_TWO_32 = 4294967296.0
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
def _find_doubtful(low: Array, high: Array, columns: int, limit: float, doubtful: Array) -> int:
    """List the columns whose moments are not clearly possible; return their number."""
    count, found, start = _value(low, high, 0), 0, 1
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
def change_row(
    values: Array, targets: Array, bound: Array, scale: Array, unit: float, low: Array,
    high: Array, sign: int, row: Array, scaled: Array, doubtful: Array,
) -> int:  # fmt: skip
    """Round one row, also in units of the largest values, and add or subtract its products.

    Return the number of columns that must be checked exactly, or -1 if nothing was changed because
    a value is out of bounds or a sum overflows. Columns are checked only for forgetting.
    """
    row[0], scaled[0] = 1, 1.0
    for column in range(len(values)):
        value = values[column]
        if not -bound[column] <= value <= bound[column]:
            return -1
        point = np.rint(value * scale[column])
        row[1 + column], scaled[1 + column] = np.int32(point), point / unit
    row[1 + len(values) :] = targets
    if not shift_row(low, high, row, sign):
        shift_row(low, high, row, -sign)
        return -1
    if sign > 0:
        return 0
    if _value(low, high, 0) < 1.0:
        doubtful[0] = 0
        return 1
    return _find_doubtful(low, high, len(row), unit * unit, doubtful)


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


@compile_loop
def _step(upper: Array, rest: Array, along: float, by: float, add: float) -> None:
    for place in range(len(rest)):
        rest[place] -= along * upper[place]
        upper[place] = upper[place] * by + rest[place] * add


@compile_loop
def update_upper(upper: Array, row: Array, sign: int, min_slack: float) -> bool:
    """Update a Cholesky factor U, UᵀU = A, to A ± row·rowᵀ; return False if it loses accuracy.

    After Gill, Golub, Murray and Saunders (1974), method C1. `row` is used up.
    """
    slack = 1.0
    for column in range(len(row)):
        along = row[column] / upper[column, column]
        before, slack = slack, slack + sign * along * along
        if slack < min_slack:
            return False
        by, add = np.sqrt(slack / before), sign * along / np.sqrt(slack * before)
        upper[column, column] *= by
        _step(upper[column, column + 1 :], row[column + 1 :], along, by, add)
    return True


@compile_loop
def _subtract(rest: Array, line: Array, by: float) -> None:
    for place in range(len(rest)):
        rest[place] -= by * line[place]


def _product(first: Array, second: Array) -> float:
    total = 0.0
    for place in range(len(first)):
        total += first[place] * second[place]
    return total


_product = compile_loop(_product, reorder=True)


@compile_loop
def _solve(upper: Array, solution: Array) -> None:
    size = len(solution)
    for column in range(size):
        solution[column] /= upper[column, column]
        _subtract(solution[column + 1 :], upper[column, column + 1 :], solution[column])
    for column in range(size - 1, -1, -1):
        rest = _product(upper[column, column + 1 :], solution[column + 1 :])
        solution[column] = (solution[column] - rest) / upper[column, column]


@compile_loop
def solve_moments(
    upper: Array, low: Array, high: Array, start: int, units: Array, weight_units: Array
) -> Array:
    """Return the weights of [1, features] for the products of one target, which start there.

    `upper` is a Cholesky factor with or without the constant column.
    """
    weights = np.zeros(len(units))
    skipped = len(units) - len(upper)
    for column in range(skipped, len(units)):
        weights[column] = _value(low, high, start + column) / units[column]
    _solve(upper, weights[skipped:])
    for column in range(skipped, len(units)):
        weights[column] *= weight_units[column]
    return weights
