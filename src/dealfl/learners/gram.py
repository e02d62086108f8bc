"""Exact integer Gram matrices, computed by BLAS.

A float64 product is exact while every partial sum is an integer below 2^53. Up to 22 bits, one
product of a block of rows is enough. Numbers up to 30 bits that end with zero bits are shortened.
Others are split into two limbs of 15 bits, and three products (high, low, and their sum, after
Karatsuba) are combined.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from dealfl.exact import FixedPoint, Integers, is_compiled, unset

__all__ = [
    "MAX_BITS", "add_rounded_gram", "are_short", "block_rows", "exact_gram", "packed",
    "row_products", "signed_gram", "triangle", "widened",
]  # fmt: skip

Int64s = NDArray[np.int64]

MAX_BITS = 30
_ONE_PRODUCT_BITS = 22
_LIMB_BITS = 15
_ONE_CALL_ROWS = 64  # the calls of three products cost more than the fourth product of limbs
_FEW_ROWS = 4  # the sum of four products of 30-bit integers fits 63 bits
_SAMPLED = 8  # rows that usually show whether numbers can be shortened
_BLOCK_VALUES = 1 << 20  # values of a block of rows: 8 MB of floats


@lru_cache(maxsize=64)
def triangle(size: int) -> tuple[Int64s, Int64s]:
    """Return row and column of each position in a packed lower triangle, row by row."""
    rows, columns = np.tril_indices(size)
    return rows.astype(np.int64), columns.astype(np.int64)


@lru_cache(maxsize=64)
def _flat_triangle(size: int) -> Int64s:
    """Return the position in a whole matrix of each position in its packed lower triangle."""
    rows, columns = triangle(size)
    return rows * size + columns


def packed(row: int, column: int) -> int:
    """Return the position of (row, column) in a packed lower triangle.

    Examples
    --------
    >>> packed(2, 1), packed(1, 2)
    (4, 4)
    """
    high, low = max(row, column), min(row, column)
    return high * (high + 1) // 2 + low


def block_rows(columns: int, bits: int) -> int:
    """Return the largest number of rows of `bits`-bit integers that are multiplied exactly."""
    exact = 1 << (53 - 2 * bits) if bits <= _ONE_PRODUCT_BITS else 1 << 20
    return max(1, min(exact, _BLOCK_VALUES // columns))


def exact_gram(rows: Int64s, bits: int, *, wide: bool, signs: Int64s | None = None) -> Integers:
    """Return the packed lower triangle of rowsᵀ·rows for a block of rows; |value| ≤ 2^bits.

    >>> exact_gram(np.array([[1, 2], [3, 4]]), bits=8, wide=False).tolist()
    [10, 14, 20]
    """
    if bits <= _ONE_PRODUCT_BITS:
        return widened(_packed_product(rows, signs), wide)
    if signs is None and len(rows) <= _FEW_ROWS:
        return widened(row_products(rows), wide)
    if (short := _shorten(rows)) is not None:
        points, units = short
        return _scaled(_product(points, signs), units)
    if len(rows) <= _ONE_CALL_ROWS:
        return _limb_products(rows, signs)
    high, low = _split(rows)
    return _combined(*(_packed_product(part, signs) for part in (high, low, high + low)))


def row_products(rows: Int64s) -> Int64s:
    """Return the packed lower triangle of rowsᵀ·rows for very few rows."""
    size = rows.shape[1]
    if len(rows) > 1:
        return np.asarray((rows.T @ rows).ravel()[_flat_triangle(size)])
    products = np.repeat(rows[0], np.arange(1, size + 1))
    products *= rows[0].take(triangle(size)[1])
    return products


def signed_gram(rows: NDArray[np.integer], signs: Int64s, bits: int, *, wide: bool) -> Integers:
    """Return the sum of the products of any number of rows, each times its sign.

    >>> signed_gram(np.array([[1, 2], [3, 4]]), np.array([1, -1]), bits=8, wide=False).tolist()
    [-8, -10, -12]
    """
    negative = bool((signs < 0).any())
    total = Integers.zeros(0, wide)
    for first in range(0, len(rows), step := block_rows(rows.shape[1], bits)):
        block = rows[first : first + step].astype(np.int64)
        weights = signs[first : first + step] if negative else None
        moments = exact_gram(block, bits, wide=wide, signs=weights)
        total = total + moments if first else moments
    return total


def are_short(rows: Int64s) -> bool:
    """Return whether one product of rows is exact after a division of columns by powers of two."""
    return _shorten(rows) is not None


def _shorten(rows: Int64s) -> tuple[NDArray[np.floating], NDArray[np.float64]] | None:
    """Return rows whose product is exact, and the power of two that divided each column.

    Features that take few values, such as integers on a fine grid, end with zero bits. If the
    result is short enough, 32-bit floats are exact. None if the numbers are too long.
    """
    for some in (rows[:_SAMPLED], rows):  # a few rows of continuous numbers are long already
        bits = np.bitwise_or.reduce(some, axis=0)
        units = np.maximum(bits & -bits, 1)
        longest = int(np.abs(some / units).max(initial=0))
        if longest * longest * len(rows) >= 1 << 53:
            return None
    kind = np.float32 if longest * longest * len(rows) < 1 << 24 else np.float64
    return (rows / units).astype(kind), units.astype(np.float64)


def _scaled(whole: NDArray[np.floating], units: NDArray[np.float64]) -> Integers:
    """Return the packed lower triangle of products times the units of both columns, wide."""
    if is_compiled(whole.size):
        from dealfl.learners.moment_loops import take_triangle

        total = unset(len(units) * (len(units) + 1) // 2, wide=True)
        take_triangle(whole, units, *total.parts)
        return total
    left, right = triangle(len(units))
    products = whole[left, right] * (units[left] * units[right])  # exact: by powers of two
    high = np.floor(products * 2.0**-32)
    return Integers((products - high * 2.0**32).astype(np.int64), high.astype(np.int64))


def _split(rows: Int64s) -> tuple[Int64s, Int64s]:
    high = (rows + (1 << (_LIMB_BITS - 1))) >> _LIMB_BITS
    return high, rows - (high << _LIMB_BITS)


def _limb_products(rows: Int64s, signs: Int64s | None) -> Integers:
    """Return the sum of the products of rows by one product of both limbs side by side."""
    limbs = np.concatenate(_split(rows), axis=1).astype(np.float64)
    whole = (limbs.T if signs is None else limbs.T * signs) @ limbs
    upper, first, second, lower = whole.take(_limb_places(rows.shape[1]))
    below = ((first + second) * (1 << _LIMB_BITS) + lower).astype(np.int64)  # < 2^53 of few rows
    above = upper.astype(np.int64)
    low = below + ((above & 3) << 30)
    return Integers(low & 0xFFFF_FFFF, (low >> 32) + (above >> 2))


@lru_cache(maxsize=64)
def _limb_places(size: int) -> Int64s:
    """Return the positions of high·high, high·low, low·high and low·low of a packed triangle."""
    rows, columns = triangle(size)
    starts = [(0, 0), (0, size), (size, 0), (size, size)]
    return np.stack([2 * size * (rows + down) + columns + right for down, right in starts])


def add_rounded_gram(
    rows: NDArray[np.float64], targets: Int64s, grid: FixedPoint, total: Integers
) -> bool:
    """Add the products of [1, rounded rows, targets].

    Return False if a value is out of bounds, or if `exact_gram` is faster.
    """
    from dealfl.learners.moment_loops import add_triangles, round_rows

    def rounded(count: int, stop: int | None) -> NDArray[np.float64] | None:
        some = np.ascontiguousarray(rows[:stop])
        parts = np.empty((count, len(some), 1 + rows.shape[1] + targets.shape[1]))
        limits = grid.bound, grid.scale, parts, float(1 << _LIMB_BITS)
        return parts if round_rows(some, targets, *limits) else None

    count = 1 if grid.fraction_bits <= _ONE_PRODUCT_BITS else 3
    few = rounded(1, _SAMPLED) if count == 3 else None
    if few is not None and are_short(few[0].astype(np.int64)):
        return False
    parts = rounded(count, None)
    if parts is None:
        return False
    products = np.empty((count, parts.shape[2], parts.shape[2]))
    for part, product in zip(parts, products, strict=True):
        blas.dsyrk(1.0, part.T, c=product.T, overwrite_c=1, lower=0)  # BLAS counts by columns
    add_triangles(products, *total.parts)
    return True


def _product(rows: NDArray[np.floating], signs: Int64s | None = None) -> NDArray[np.floating]:
    """Return a matrix whose lower triangle is that of the sum of the products of rows."""
    multiply = blas.ssyrk if rows.dtype == np.float32 else blas.dsyrk
    if signs is None:
        return multiply(1.0, rows.T, lower=0).T  # BLAS counts by columns
    learned = multiply(1.0, rows[signs > 0].T, lower=0)
    forgotten = rows[signs < 0].T
    return multiply(-1.0, forgotten, beta=1.0, c=learned, overwrite_c=1, lower=0).T


def _packed_product(rows: Int64s, signs: Int64s | None) -> Int64s:
    whole = _product(rows.astype(np.float64), signs)
    return whole.ravel()[_flat_triangle(rows.shape[1])].astype(np.int64)


def widened(values: Int64s, wide: bool) -> Integers:
    """Return 64-bit integers as they are, or as wide ones."""
    return Integers(values & 0xFFFF_FFFF, values >> 32) if wide else Integers(values)


def _combined(upper: Int64s, lower: Int64s, both: Int64s) -> Integers:
    """Return upper·2^30 + (both − upper − lower)·2^15 + lower."""
    middle = both - upper - lower
    low = lower + ((middle & 0x1FFFF) << _LIMB_BITS) + ((upper & 3) << 30)
    return Integers(low & 0xFFFF_FFFF, (low >> 32) + (middle >> 17) + (upper >> 2))
