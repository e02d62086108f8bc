"""Compiled loops for ridge regression: exact moments of rows.

Moments are a packed lower triangle of sums of products of columns, the first of which is 1. Wide
sums are high·2^32 + low; others have no high part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dealfl.exact import compile_loop
from dealfl.learners.factor_loops import follow

__all__ = [
    "add_triangles", "change_moments", "change_row", "find_close", "round_rows", "shift_row",
    "take_triangle",
]  # fmt: skip

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
    return _FOLLOWED if follow(row, sign, table, scales[2:], weights) else _LOST


@compile_loop
def _shift_moments(low: Array, high: Array, added: Array, added_high: Array, sign: int) -> Number:
    """Add moments, or subtract them; return a negative number if one overflows."""
    overflow = np.int64(0)
    for place in range(len(low)):
        if len(high):
            total = low[place] + sign * added[place]
            before, change = high[place], sign * added_high[place] + (total >> 32)
            low[place], high[place] = total & _LOW_MASK, before + change
            after = high[place]
        else:
            before, change = low[place], sign * added[place]
            low[place] = after = before + change
        overflow |= (before ^ after) & (change ^ after)
    return overflow


@compile_loop
def change_moments(
    low: Array, high: Array, limit: float, stale: Array, added: Array, added_high: Array,
    sign: int, doubtful: Array,
) -> int:  # fmt: skip
    """Add moments of a batch or subtract them; return like `change_row`, without a table."""
    if _shift_moments(low, high, added, added_high, sign) < 0:
        _shift_moments(low, high, added, added_high, -sign)
        return _SAME
    stale[:] = True
    return _find_doubtful(low, high, limit, doubtful) if sign < 0 else 0


@compile_loop
def add_triangles(products: Array, low: Array, high: Array) -> None:
    """Add the lower triangles of exact products to moments; see `round_rows` for three of them."""
    start = 0
    for row in range(products.shape[1]):
        stop = start + row + 1
        total, total_high = low[start:stop], high[start:stop]
        if len(products) == 3:
            _add_limbs(products[0, row], products[1, row], products[2, row], total, total_high)
        else:
            _add_products(products[0, row], total, total_high)
        start = stop


@compile_loop
def _add_limbs(uppers: Array, lowers: Array, boths: Array, low: Array, high: Array) -> None:
    for place in range(len(low)):
        upper, lower = np.int64(uppers[place]), np.int64(lowers[place])
        middle = np.int64(boths[place]) - upper - lower
        total = low[place] + lower + ((middle & 0x1FFFF) << 15) + ((upper & 3) << 30)
        high[place] += (total >> 32) + (middle >> 17) + (upper >> 2)
        low[place] = total & _LOW_MASK


@compile_loop
def _add_products(products: Array, low: Array, high: Array) -> None:
    for place in range(len(low)):
        low[place] += np.int64(products[place])
    for place in range(len(high)):
        high[place] += low[place] >> 32
        low[place] &= _LOW_MASK


@compile_loop
def take_triangle(products: Array, units: Array, low: Array, high: Array) -> None:
    """Write the lower triangle of exact products times the units of both columns, wide."""
    start = 0
    for row in range(len(units)):
        stop = start + row + 1
        _take_scaled(products[row], units[row], units, low[start:stop], high[start:stop])
        start = stop


@compile_loop
def _take_scaled(products: Array, unit: float, units: Array, low: Array, high: Array) -> None:
    for place in range(len(low)):
        value = products[place] * (unit * units[place])  # exact: by powers of two
        above = np.floor(value * (1.0 / _TWO_32))
        low[place], high[place] = np.int64(value - above * _TWO_32), np.int64(above)


@compile_loop
def find_close(low: Array, high: Array, limits: Array, roots: Array, places: Array) -> int:
    """List the products of two columns above the limit of one times the root of the other."""
    found, start = 0, 0
    for row in range(len(roots)):
        for column in range(row):
            value = abs(_value(low, high, start + column))
            if value > limits[row] * roots[column]:
                places[found] = start + column
                found += 1
        start += row + 1
    return found


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
