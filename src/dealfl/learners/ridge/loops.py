"""Compiled loops of ridge regression: exact moments of rows, and factors; see `plain`."""

from __future__ import annotations

from typing import Any

import numpy as np

from dealfl.exact import compile_loop
from dealfl.learners.ridge.plain import FOLLOWED, LOST, MIN_SLACK, SAME

Array = Any  # a contiguous array; numba derives the types
Number = Any

_LOW_MASK = np.int64(0xFFFF_FFFF)
_TWO_32 = 4294967296.0
_CLEAR = 1.0 - 1e-12  # float products are accurate to 1e-15


@compile_loop
def fill_matrix(low: Array, high: Array, units: Array, matrix: Array) -> None:
    """Write packed moments as a symmetric matrix, in units of each column."""
    cell = 0
    for row in range(len(matrix)):
        for column in range(row + 1):
            value = high[cell] * _TWO_32 + low[cell] if len(high) else float(low[cell])
            matrix[row, column] = value * (units[row] * units[column])
            matrix[column, row] = matrix[row, column]
            cell += 1


def _step(
    first: Array,
    second: Array,
    rest: Array,
    along: float,
    by: float,
    add: float,
    along_2: float,
    by_2: float,
    add_2: float,
) -> None:
    """Change two rows of a table and the rest of a row; see `update_table`."""
    for column in range(len(rest)):
        left = rest[column] - along * first[column]
        first[column] = first[column] * by + left * add
        left -= along_2 * second[column]
        second[column] = second[column] * by_2 + left * add_2
        rest[column] = left


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
    for column in range(len(solution)):
        total += first[column] * solution[column]
        total_2 += second[column] * solution[column]
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
    for column in range(len(scaled)):
        scaled[column] = row[skipped + column] * scales[0, skipped + column]
    scaled[size:] += scales[1, skipped + size :]
    if not update_table(table, scaled, sign, MIN_SLACK):
        return False
    if len(weights):
        solve_table(table, scales, weights)
    return True


@compile_loop
def _shift_wide(low: Array, high: Array, row: Array, factor: Number) -> Number:
    """Add factor·row to wide sums; return a negative number if one overflows."""
    overflow = np.int64(0)
    for column in range(len(low)):
        product = np.int64(factor) * np.int64(row[column])
        total = low[column] + (product & _LOW_MASK)
        before, added = high[column], (product >> 32) + (total >> 32)
        after = before + added
        low[column], high[column] = total & _LOW_MASK, after
        overflow |= (before ^ after) & (added ^ after)
    return overflow


@compile_loop
def _shift_narrow(low: Array, row: Array, factor: Number) -> Number:
    overflow = np.int64(0)
    for column in range(len(low)):
        before, added = low[column], np.int64(factor) * np.int64(row[column])
        low[column] = before + added
        overflow |= (before ^ low[column]) & (added ^ low[column])
    return overflow


@compile_loop
def _shift_products(low: Array, high: Array, row: Array, sign: int) -> bool:
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
def shift_row(low: Array, high: Array, row: Array, sign: int) -> bool:
    """Add the products of a row to the moments, or subtract them, or nothing if one overflows."""
    if _shift_products(low, high, row, sign):
        return True
    _shift_products(low, high, row, -sign)
    return False


@compile_loop
def _value(low: Array, high: Array, cell: int) -> float:
    return high[cell] * _TWO_32 + low[cell] if len(high) else float(low[cell])


@compile_loop
def _find_doubtful(low: Array, high: Array, limit: float, doubtful: Array) -> int:
    """List the columns whose moments are not clearly possible; return their number."""
    count, matches, start, columns = _value(low, high, 0), 0, 1, len(doubtful)
    if count < 1.0:
        doubtful[0] = 0
        return 1
    for column in range(1, columns):
        total, square = _value(low, high, start), _value(low, high, start + column)
        clear = square <= count * limit * _CLEAR and total * total <= count * square * _CLEAR
        if not clear or (low[start] ^ low[start + column]) & 1:
            doubtful[matches] = column
            matches += 1
        start += column + 1
    return matches


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
    values: Array,
    targets: Array,
    scales: Array,
    limit: float,
    low: Array,
    high: Array,
    stale: Array,
    sign: int,
    rows: Array,
    table: Array,
    weights: Array,
) -> int:
    """Round one row, add or subtract its products, and let the table of a factor follow."""
    row, stop = rows[0], 1 + values.shape[1]
    row[0] = 1
    bad = _round(values[0], scales[0, 1:stop], scales[1, 1:stop], row[1:stop])
    if bad | _round(targets, scales[0, stop:], scales[1, stop:], row[stop:]):
        return SAME
    if not shift_row(low, high, row, sign):
        return SAME
    stale[:] = True
    if sign < 0:
        doubtful = _find_doubtful(low, high, limit, rows[1])
        if doubtful:
            return doubtful
    if not len(table):
        return 0
    return FOLLOWED if _follow(row, sign, table, scales[2:], weights) else LOST


@compile_loop
def _shift_moments(low: Array, high: Array, added: Array, added_high: Array, sign: int) -> Number:
    """Add moments, or subtract them; return a negative number if one overflows."""
    overflow = np.int64(0)
    for cell in range(len(low)):
        if len(high):
            total = low[cell] + sign * added[cell]
            before, change = high[cell], sign * added_high[cell] + (total >> 32)
            low[cell], high[cell] = total & _LOW_MASK, before + change
            after = high[cell]
        else:
            before, change = low[cell], sign * added[cell]
            low[cell] = after = before + change
        overflow |= (before ^ after) & (change ^ after)
    return overflow


@compile_loop
def change_moments(
    low: Array,
    high: Array,
    limit: float,
    stale: Array,
    added: Array,
    added_high: Array,
    sign: int,
    doubtful: Array,
) -> int:
    """Add moments of a batch or subtract them; return like `change_row`, without a table."""
    if _shift_moments(low, high, added, added_high, sign) < 0:
        _shift_moments(low, high, added, added_high, -sign)
        return SAME
    stale[:] = True
    return _find_doubtful(low, high, limit, doubtful) if sign < 0 else 0


@compile_loop
def add_triangles(products: Array, low: Array, high: Array) -> None:
    """Add the lower triangles of exact products to moments."""
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
    for cell in range(len(low)):
        upper, lower = np.int64(uppers[cell]), np.int64(lowers[cell])
        middle = np.int64(boths[cell]) - upper - lower
        total = low[cell] + lower + ((middle & 0x1FFFF) << 15) + ((upper & 3) << 30)
        high[cell] += (total >> 32) + (middle >> 17) + (upper >> 2)
        low[cell] = total & _LOW_MASK


@compile_loop
def _add_products(products: Array, low: Array, high: Array) -> None:
    for cell in range(len(low)):
        low[cell] += np.int64(products[cell])
    for cell in range(len(high)):
        high[cell] += low[cell] >> 32
        low[cell] &= _LOW_MASK


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
    for cell in range(len(low)):
        value = products[cell] * (unit * units[cell])  # exact: by powers of two
        above = np.floor(value * (1.0 / _TWO_32))
        low[cell], high[cell] = np.int64(value - above * _TWO_32), np.int64(above)


@compile_loop
def find_close(low: Array, high: Array, limits: Array, roots: Array, cells: Array) -> int:
    """List the products of two columns above the limit of one times the root of the other."""
    matches, start = 0, 0
    for row in range(len(roots)):
        for column in range(row):
            value = abs(_value(low, high, start + column))
            if value > limits[row] * roots[column]:
                cells[matches] = start + column
                matches += 1
        start += row + 1
    return matches


@compile_loop
def round_rows(
    values: Array, targets: Array, bound: Array, scale: Array, parts: Array, limb: float
) -> bool:
    """Write [1, rounded values, targets] to the last part; return False if one is out of bounds."""
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
