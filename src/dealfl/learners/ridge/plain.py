"""Exact moments and the factors of ridge regression, in numpy; `loops` has the same for numba.

Moments are a packed lower triangle of sums of products of columns, the first of which is 1. Wide
sums are high·2^32 + low; others have no high part. A table [U, U⁻ᵀB] is a Cholesky factor UᵀU = A
with right-hand sides B.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.exact import LOW_BITS, LOW_MASK, Integers, twin

# outcomes of `change_row`; otherwise a number of columns
SAME = -1
LOST = -2
FOLLOWED = -3

# A downdate loses about -log10(1 - leverage) digits; below this slack the factor is computed again.
MIN_SLACK = 1e-3

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Points = NDArray[np.int32]

_CLEAR = 1.0 - 1e-12  # float products are accurate to 1e-15
_ROOM = 1 << 62  # high parts of this magnitude do not overflow by one more row
_WIDE = 512  # columns; the indices of all cells of more take longer than row by row
_STEPS = 32  # rows of a table that one product of matrices turns
_BLOCK = 48  # rows of a triangle that are solved at once without LAPACK
_AFTER = np.triu(np.ones((_STEPS, _STEPS)), 1)  # 1 for each later row


# -- packed triangles -----------------------------------------------------------------------------


@lru_cache(maxsize=64)
def triangle(size: int) -> tuple[Int64s, Int64s]:
    """Return row and column of each position in a packed lower triangle, row by row."""
    rows, columns = np.tril_indices(size)
    return rows.astype(np.int64), columns.astype(np.int64)


@lru_cache(maxsize=64)
def flat_triangle(size: int) -> Int64s:
    """Return the position in a whole matrix of each position in its packed lower triangle."""
    rows, columns = triangle(size)
    return rows * size + columns


@lru_cache(maxsize=64)
def _ends(columns: int) -> Int64s:
    """Return where the sum and the square of each column are."""
    indices = np.arange(columns, dtype=np.int64)
    starts = indices * (indices + 1) // 2
    return np.stack((starts, starts + indices))


def row_products(rows: Int64s) -> Int64s:
    """Return the packed lower triangle of rowsᵀ·rows for very few rows."""
    size = rows.shape[1]
    if len(rows) > 1:
        return np.asarray((rows.T @ rows).ravel()[flat_triangle(size)])
    products = np.repeat(rows[0], np.arange(1, size + 1))
    products *= rows[0].take(triangle(size)[1])
    return products


# -- moments --------------------------------------------------------------------------------------


@twin
def change_row(
    values: Floats,
    targets: Floats,
    scales: Floats,
    limit: float,
    low: Int64s,
    high: Int64s,
    stale: NDArray[np.bool_],
    sign: int,
    rows: Points,
    table: Floats,  # noqa: ARG001
    weights: Floats,  # noqa: ARG001
) -> int:
    """Round one row, add or subtract its products, and let the table of a factor follow.

    The rounded row is written to `rows[0]`. Return the number of columns that must be checked
    exactly before the table can follow, written to `rows[1]`; `SAME` if a value is out of bounds or
    a sum overflows, so that nothing changed; and otherwise what became of the table: `FOLLOWED`, or
    `LOST` if it would lose accuracy. Columns are checked only for forgetting. In numpy, no table
    follows here.
    """
    line = np.concatenate((values[0], targets))
    if not np.all(np.abs(line) <= scales[0, 1:]):
        return SAME
    rows[0, 0] = 1
    rows[0, 1:] = np.rint(line * scales[1, 1:])
    if len(high) and (high.min() < -_ROOM or high.max() > _ROOM):
        return SAME
    if not shift_row(low, high, rows[0], sign):
        return SAME
    stale.fill(True)
    return _find_doubtful(low, high, limit, rows[1]) if sign < 0 else 0


@twin
def shift_row(low: Int64s, high: Int64s, row: Points, sign: int) -> bool:
    """Add the products of a row to the moments, or subtract them, or nothing if one overflows.

    In numpy, high parts must have room for it.
    """
    added = row_products(row[None].astype(np.int64))
    if sign < 0:
        np.negative(added, out=added)
    if not len(high):
        return _shift(low, added)
    total = low + added  # fits 63 bits
    # no interrupt comes within a statement, so no sum has a new low part and an old high part
    low[:], high[:] = total & LOW_MASK, high + (total >> LOW_BITS)
    return True


@twin
def change_moments(
    low: Int64s,
    high: Int64s,
    limit: float,
    stale: NDArray[np.bool_],
    added: Int64s,
    added_high: Int64s,
    sign: int,
    doubtful: Points,
) -> int:
    """Add moments of a batch or subtract them; return like `change_row`, without a table."""
    if len(high):
        total = low + sign * added
        change = sign * added_high + (total >> LOW_BITS)
        total_high = high + change
        if not _fits(high, change, total_high):
            return SAME
        low[:], high[:] = total & LOW_MASK, total_high
    elif not _shift(low, sign * added):
        return SAME
    stale.fill(True)
    return _find_doubtful(low, high, limit, doubtful) if sign < 0 else 0


def _shift(values: Int64s, added: Int64s) -> bool:
    total = values + added
    if not _fits(values, added, total):
        return False
    values[:] = total
    return True


def _fits(values: Int64s, added: Int64s, total: Int64s) -> bool:
    return bool(((values ^ total) & (added ^ total)).min() >= 0)


def _find_doubtful(low: Int64s, high: Int64s, limit: float, doubtful: Points) -> int:
    """List the columns whose moments are not clearly possible; return their number."""
    ends = _ends(len(doubtful))
    lows = low.take(ends)
    sums, squares = Integers(lows, high.take(ends) if len(high) else None).to_float()
    count = sums[0]
    clear = (squares <= count * limit * _CLEAR) & (sums * sums <= count * squares * _CLEAR)
    clear[0] = count >= 1.0
    clear &= (lows[0] ^ lows[1]) & 1 == 0
    columns = np.flatnonzero(~clear)
    doubtful[: len(columns)] = columns
    return len(columns)


@twin
def find_close(low: Int64s, high: Int64s, limits: Floats, roots: Floats, cells: Int64s) -> int:
    """List the products of two columns above the limit of one times the root of the other."""
    left, right = triangle(len(roots))
    products = Integers(low, high if len(high) else None).to_float()
    close = np.flatnonzero((np.abs(products) > limits[left] * roots[right]) & (left != right))
    cells[: len(close)] = close
    return len(close)


# -- batches --------------------------------------------------------------------------------------


@twin
def round_rows(
    values: Floats, targets: Int64s, bound: Floats, scale: Floats, parts: Floats, limb: float
) -> bool:
    """Write [1, rounded values, targets] to the last part; return False if one is out of bounds.

    With three parts, these are the high and the low limbs and their sum.
    """
    if not ((values >= -bound) & (values <= bound)).all():
        return False
    points, features = parts[-1], 1 + values.shape[1]
    points[:, 0] = 1.0
    np.rint(values * scale, out=points[:, 1:features])
    points[:, features:] = targets
    if len(parts) == 3:
        high, low = parts[0], parts[1]
        np.floor(points * (1.0 / limb) + 0.5, out=high)
        np.subtract(points, high * limb, out=low)
        np.add(high, low, out=points)
    return True


@twin
def add_triangles(products: Floats, low: Int64s, high: Int64s) -> None:
    """Add the lower triangles of exact products to moments; see `round_rows` for three of them."""
    taken = products.reshape(len(products), -1)[:, flat_triangle(products.shape[1])]
    if len(products) == 3:
        upper, lower, both = taken.astype(np.int64)
        middle = both - upper - lower
        low += lower + ((middle & 0x1FFFF) << 15) + ((upper & 3) << 30)
        high += (low >> LOW_BITS) + (middle >> 17) + (upper >> 2)
        low &= LOW_MASK
        return
    low += taken[0].astype(np.int64)
    if len(high):
        high += low >> LOW_BITS
        low &= LOW_MASK


@twin
def take_triangle(products: NDArray[np.floating], units: Floats, low: Int64s, high: Int64s) -> None:
    """Write the lower triangle of exact products times the units of both columns, wide."""
    left, right = triangle(len(units))
    values = products[left, right] * (units[left] * units[right])  # exact: by powers of two
    above = np.floor(values * 2.0**-32)
    low[:] = values - above * 2.0**32
    high[:] = above


# -- factors --------------------------------------------------------------------------------------


@twin
def fill_matrix(low: Int64s, high: Int64s, units: Floats, matrix: Floats) -> None:
    """Write packed moments as a symmetric matrix, in units of each column."""
    cells = len(matrix) * (len(matrix) + 1) // 2
    values = Integers(low[:cells], high[:cells] if len(high) else None).to_float()
    if len(matrix) > _WIDE:
        for row, unit in enumerate(units):
            start = row * (row + 1) // 2
            matrix[row, : row + 1] = values[start : start + row + 1] * (unit * units[: row + 1])
            matrix[:row, row] = matrix[row, :row]
        return
    left, right = triangle(len(matrix))
    values *= units[left] * units[right]
    matrix[left, right] = values
    matrix[right, left] = values


@cache
def _lapack() -> Any:  # noqa: ANN401 - a module without types
    """Return scipy's LAPACK; None if scipy is not installed."""
    try:
        from scipy.linalg import lapack
    except ModuleNotFoundError:
        return None
    return lapack


def solve_triangle(upper: Floats, right: Floats, *, transposed: bool) -> Floats:
    """Return the solution of U·x = b or, transposed, of Uᵀ·x = b, for one or more b.

    numpy has no triangular solver. It solves the blocks on the diagonal as whole matrices: a fourth
    of the time of one solution of the whole matrix, and six times that of LAPACK.
    """
    if (lapack := _lapack()) is not None:
        # the transposed triangle is not copied to another order
        return np.asarray(lapack.dtrtrs(upper.T, right, lower=1, trans=int(not transposed))[0])
    size, solution = len(upper), right.copy()
    firsts = range(0, size, _BLOCK)
    for first in firsts if transposed else reversed(firsts):
        some = slice(first, min(first + _BLOCK, size))
        rest = slice(some.stop, size) if transposed else slice(0, first)
        block = upper[some, some].T if transposed else upper[some, some]
        others = upper[some, rest].T if transposed else upper[rest, some]
        solution[some] = np.linalg.solve(block, solution[some])
        solution[rest] -= others @ solution[some]
    return solution


@twin
def update_table(table: Floats, row: Floats, sign: int, min_slack: float) -> bool:
    """Update [U, U⁻ᵀB] of UᵀU = A to A ± x·xᵀ and B ± x·bᵀ, for a row [x, b] that is used up.

    Return False if that loses accuracy. With p = U⁻ᵀx, the matrix I ± p·pᵀ has a Cholesky factor in
    closed form, and multiplying the table by it needs only running sums over its rows; a product
    turns some rows at a time.
    """
    size = len(table)
    p = solve_triangle(table[:, :size], row[:size], transposed=True)
    t = 1.0 + sign * np.cumsum(p * p)
    if t[-1] < min_slack:
        return False
    before = np.concatenate(([1.0], t[:-1]))
    kept = np.sqrt(t / before)
    shares = sign * p / np.sqrt(t * before)
    rest = np.zeros(len(row))  # of the row, after each step
    rest[size:] = row[size:] - p @ table[:, size:]
    for stop in range(size, 0, -_STEPS):
        start = max(stop - _STEPS, 0)
        some, part = slice(start, stop), table[start:stop, start:]
        turn = shares[some, None] * p[some]
        turn *= _AFTER[: stop - start, : stop - start]
        turn.flat[:: stop - start + 1] = kept[some]
        turned = turn @ part
        turned += shares[some, None] * rest[start:]
        rest[start:] += p[some] @ part
        part[:] = turned
    return True


@twin
def solve_table(table: Floats, units: Floats, weights: Floats) -> None:
    """Write the solutions of A·X = B, times the units of the weights, one column per target.

    The table has a row for each of the last weights; the others are 0.
    """
    size, skipped = len(table), len(weights) - len(table)
    solution = solve_triangle(table[:, :size], table[:, size:], transposed=False)
    weights[:skipped] = 0.0
    weights[skipped:] = solution * units[1, skipped:, None]
