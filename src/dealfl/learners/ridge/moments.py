"""Exact moments of rows: integer products computed by BLAS, and whether they are possible.

A float64 product is exact while every partial sum is an integer below 2^53. Up to 22 bits, one
product of a block of rows is enough. Numbers up to 30 bits that end with zero bits are shortened.
Others are split into two limbs of 15 bits, and three products (high, low, and their sum, after
Karatsuba) are combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import Impossible
from dealfl.exact import FixedPoint, Integers, short_float, unset
from dealfl.learners.ridge.plain import (
    add_triangles,
    find_close,
    flat_triangle,
    round_rows,
    row_products,
    take_triangle,
    triangle,
)

if TYPE_CHECKING:
    from scipy import sparse

Int64s = NDArray[np.int64]

MAX_BITS = 30
_ONE_PRODUCT_BITS = 22
_LIMB_BITS = 15
_ONE_CALL_ROWS = 64  # the calls of three products cost more than the fourth product of limbs
_FEW_ROWS = 4  # the sum of four products of 30-bit integers fits 63 bits
_SAMPLED = 8  # rows that usually show whether numbers can be shortened
_BLOCK_VALUES = 1 << 20  # values of a block of rows: 8 MB of floats
_SPARSE_COST = 16  # of a product of stored values, relative to one in a product of matrices
_SAFE_SUM = 2.0**62  # below it, the rounding of a sum of squares does not hide an overflow
_CLEAR = 1.0 - 1e-9  # float squares are accurate to 1e-15, so pairs below this ratio are possible
_LIMB = (1 << 24) - 1  # mask of a limb of a magnitude: four products of two limbs fit 63 bits
_COMPARED = 1 << 14  # pairs at a time, so that their limbs stay in the cache


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
    useful = max(_BLOCK_VALUES // columns, columns // 2)  # adding a block takes columns² steps
    return min(exact, useful)


def exact_gram(rows: Int64s, bits: int, *, wide: bool, signs: Int64s | None = None) -> Integers:
    """Return the packed lower triangle of rowsᵀ·rows for a block of rows; |value| ≤ 2^bits.

    >>> exact_gram(np.array([[1, 2], [3, 4]]), bits=8, wide=False).tolist()
    [10, 14, 20]
    """
    if bits <= _ONE_PRODUCT_BITS:
        return widened(_packed_product(rows, signs), wide)
    if signs is None and len(rows) <= _FEW_ROWS:
        return widened(row_products(rows), wide)
    if (short := shorten(rows)) is not None:
        points, units = short
        total = unset(len(units) * (len(units) + 1) // 2, wide=True)
        take_triangle(_product(points, signs), units, *total.parts)
        return total
    if len(rows) <= _ONE_CALL_ROWS:
        return _limb_products(rows, signs)
    high, low = _split(rows)
    return _combined(*(_packed_product(part, signs) for part in (high, low, high + low)))


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


def is_sparse_enough(rows: sparse.csr_array, columns: int) -> bool:
    """Return whether products of the stored values of rows are faster than those of all values."""
    stored = np.diff(rows.indptr).astype(np.float64) + (columns - rows.shape[1])
    return bool(_SPARSE_COST * np.square(stored).sum() < rows.shape[0] * columns**2)


def sparse_gram(rows: sparse.csr_array, *, wide: bool) -> Integers:
    """Return the packed lower triangle of rowsᵀ·rows from the stored values, of at most 30 bits.

    The magnitude of a product of two columns, also of some of their rows, is at most the largest
    square of a column (Cauchy-Schwarz). So 64-bit integers are exact if that fits, and otherwise
    for products of limbs.

    >>> from scipy.sparse import csr_array
    >>> sparse_gram(csr_array([[1, 2], [3, 0]]), wide=False).tolist()
    [10, 2, 4]
    """
    squares = np.bincount(rows.indices, np.square(rows.data.astype(np.float64)))
    if squares.max(initial=0.0) < _SAFE_SUM:
        return widened(_sparse_product(rows, rows.data), wide)
    high, low = _split(rows.data)
    return _combined(*(_sparse_product(rows, part) for part in (high, low, high + low)))


def _sparse_product(rows: sparse.csr_array, values: Int64s) -> Int64s:
    from scipy import sparse

    part = sparse.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
    product = (part.T @ part).tocoo()
    left, right = (axis.astype(np.int64) for axis in product.coords)
    lower = left >= right
    left, right = left[lower], right[lower]
    cells = np.zeros(packed(rows.shape[1], 0), np.int64)
    cells[left * (left + 1) // 2 + right] = product.data[lower]
    return cells


def shorten(rows: Int64s) -> tuple[NDArray[np.floating], NDArray[np.float64]] | None:
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
    kind = short_float() if longest * longest * len(rows) < 1 << 24 else np.float64
    return (rows / units).astype(kind), units.astype(np.float64)


def _split(rows: Int64s) -> tuple[Int64s, Int64s]:
    high = (rows + (1 << (_LIMB_BITS - 1))) >> _LIMB_BITS
    return high, rows - (high << _LIMB_BITS)


def _limb_products(rows: Int64s, signs: Int64s | None) -> Integers:
    """Return the sum of the products of rows by one product of both limbs side by side."""
    limbs = np.concatenate(_split(rows), axis=1).astype(np.float64)
    whole = (limbs.T if signs is None else limbs.T * signs) @ limbs
    upper, first, second, lower = whole.take(_limb_cells(rows.shape[1]))
    below = ((first + second) * (1 << _LIMB_BITS) + lower).astype(np.int64)  # < 2^53 of few rows
    above = upper.astype(np.int64)
    low = below + ((above & 3) << 30)
    return Integers(low & 0xFFFF_FFFF, (low >> 32) + (above >> 2))


@lru_cache(maxsize=64)
def _limb_cells(size: int) -> Int64s:
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

    def rounded(count: int, stop: int | None) -> NDArray[np.float64] | None:
        some = np.ascontiguousarray(rows[:stop])
        parts = np.empty((count, len(some), 1 + rows.shape[1] + targets.shape[1]))
        limits = grid.bound, grid.scale, parts, float(1 << _LIMB_BITS)
        return parts if round_rows(some, targets[:stop], *limits) else None

    count = 1 if grid.fraction_bits <= _ONE_PRODUCT_BITS else 3
    few = rounded(1, _SAMPLED) if count == 3 else None
    if few is not None and shorten(few[0].astype(np.int64)) is not None:
        return False
    parts = rounded(count, None)
    if parts is None:
        return False
    products = np.empty((count, parts.shape[2], parts.shape[2]))
    for part, product in zip(parts, products, strict=True):
        np.matmul(part.T, part, out=product)
    add_triangles(products, *total.parts)
    return True


def _product(rows: NDArray[np.floating], signs: Int64s | None) -> NDArray[np.floating]:
    """Return the sum of the products of rows; numpy computes one half of a symmetric matrix."""
    if signs is None:
        return np.asarray(rows.T @ rows)
    learned, forgotten = rows[signs > 0], rows[signs < 0]
    return np.asarray(learned.T @ learned - forgotten.T @ forgotten)


def _packed_product(rows: Int64s, signs: Int64s | None) -> Int64s:
    whole = _product(rows.astype(np.float64), signs)
    return whole.ravel()[flat_triangle(rows.shape[1])].astype(np.int64)


def widened(values: Int64s, wide: bool) -> Integers:
    """Return 64-bit integers as they are, or as wide ones."""
    return Integers(values & 0xFFFF_FFFF, values >> 32) if wide else Integers(values)


def _combined(upper: Int64s, lower: Int64s, both: Int64s) -> Integers:
    """Return upper·2^30 + (both − upper − lower)·2^15 + lower."""
    middle = both - upper - lower
    low = lower + ((middle & 0x1FFFF) << _LIMB_BITS) + ((upper & 3) << 30)
    return Integers(low & 0xFFFF_FFFF, (low >> 32) + (middle >> 17) + (upper >> 2))


# -- possible moments ----------------------------------------------------------------------------


def require_products(products: Integers, limits: Sequence[int], *, pairs: bool) -> None:
    """Raise `Impossible` unless the packed `products` of columns can come from real rows.

    Column 0 is the constant 1, so its product with itself is the number of rows n. The magnitude of
    a value of column j is at most `limits[j]`. Checked always: n ≥ 0, only zeros if n = 0, 0 ≤
    squares ≤ n·limit², equal parity of sums and squares, and the Cauchy-Schwarz inequality for
    sums. With `pairs`: the Cauchy-Schwarz inequality for each pair of columns, too; of a single
    row, the sums are its values, so that all products are known.

    Examples
    --------
    >>> require_products(Integers.of([-1, 0, 0]), [1, 8], pairs=False)
    Traceback (most recent call last):
    dealfl.errors.Impossible: the number of examples is -1
    """
    size = len(limits)
    sums = _require_columns(products, range(size), limits)
    count = products[:1].tolist()[0]
    indices = np.arange(size, dtype=np.int64)
    squares = products[indices * (indices + 3) // 2]
    if pairs and count == 1:
        _require_products_of(products, np.array(sums))
    elif pairs:
        _require_pairs(products, squares)


def are_possible(products: Integers, columns: Sequence[int], limit: int) -> bool:
    """Return whether the sums and squares of some columns are possible; column 0 is 1."""
    with suppress(Impossible):
        _require_columns(products, columns, [limit if column else 1 for column in columns])
        return True
    return False


def _require_columns(
    products: Integers, columns: Sequence[int], limits: Sequence[int]
) -> list[int]:
    """Check sums and squares of columns; return the sums."""
    count = products[:1].tolist()[0]
    if count < 0:
        raise Impossible(f"the number of examples is {count}")
    if count == 0 and len(products.nonzero()):
        raise Impossible("the number of examples is 0, but sums are not 0")
    indices = np.array(columns, dtype=np.int64)
    starts = indices * (indices + 1) // 2
    sums, squares = products[starts].tolist(), products[starts + indices].tolist()
    for column, total, square, limit in zip(columns, sums, squares, limits, strict=True):
        if not 0 <= square <= count * limit * limit:
            raise Impossible(f"column {column} has the sum of squares {square}")
        if total * total > count * square or (total - square) % 2:
            raise Impossible(f"column {column} has the sum {total}, but sum of squares {square}")
    return sums


def _require_products_of(products: Integers, row: Int64s) -> None:
    left, right = triangle(len(row))
    expected = widened(row[left] * row[right], products.wide)
    if not products.same(expected):
        raise _impossible(products, int((products - expected).nonzero()[0]), left, right)


def _impossible(products: Integers, cell: int, left: Int64s, right: Int64s) -> Impossible:
    product = products[cell : cell + 1].tolist()[0]
    return Impossible(f"columns {right[cell]} and {left[cell]} have the sum of products {product}")


def _require_pairs(products: Integers, squares: Integers) -> None:
    left, right = triangle(len(squares))
    doubtful = _find_close(products, np.sqrt(squares.to_float()))
    limbs = _limbs(squares)
    for first in range(0, len(doubtful), _COMPARED):
        cells = doubtful[first : first + _COMPARED]
        across = _limbs(products[cells])
        sides = limbs[:, left[cells]], limbs[:, right[cells]]
        wrong = np.flatnonzero(_is_larger((across, across), sides))
        if len(wrong):
            raise _impossible(products, int(cells[wrong[0]]), left, right)


def _find_close(products: Integers, roots: NDArray[np.float64]) -> Int64s:
    """Return the places of the products of two columns that are not clearly possible."""
    cells = np.empty(len(products), np.int64)
    return cells[: find_close(*products.parts, roots * _CLEAR, roots, cells)]


def _limbs(values: Integers) -> Int64s:
    """Return the magnitudes in limbs of 24 bits, the lowest first."""
    negative, opposite = values.negative, -values
    low = np.where(negative, opposite.low, values.low)
    if values.high is None or opposite.high is None:
        low, high = low & 0xFFFF_FFFF, low >> 32
    else:
        high = np.where(negative, opposite.high, values.high)
    return np.stack([low & _LIMB, (low >> 24 | high << 8) & _LIMB, high >> 16 & _LIMB, high >> 40])


def _is_larger(ours: tuple[Int64s, Int64s], theirs: tuple[Int64s, Int64s]) -> NDArray[np.bool_]:
    """Return where a product of two magnitudes is exactly larger than another."""
    difference = np.zeros((2 * len(ours[0]) - 1, ours[0].shape[1]), dtype=np.int64)
    for first in range(len(ours[0])):
        for second in range(len(ours[0])):
            difference[first + second] += ours[0][first] * ours[1][second]
            difference[first + second] -= theirs[0][first] * theirs[1][second]
    for limb in range(len(difference) - 1):
        difference[limb + 1] += difference[limb] >> 24
        difference[limb] &= _LIMB
    rest = difference[:-1].any(axis=0)
    return np.asarray((difference[-1] > 0) | ((difference[-1] == 0) & rest))


def require_one_class_each(moments: Integers, first: int, labels: Sequence[object]) -> None:
    """Raise `Impossible` unless each row is 1 in one of the columns from `first` on, and else 0."""
    starts = [packed(first + n, 0) for n in range(len(labels))]
    rows = [moments[start : start + first] for start in starts]
    total = rows[0]
    for row in rows[1:]:
        total = total + row
    columns = np.arange(first, dtype=np.int64)
    if not total.same(moments[columns * (columns + 1) // 2]):
        raise Impossible("the sums of the classes do not add up to the sums of the features")
    for target, (label, row) in enumerate(zip(labels, rows, strict=True)):
        start = packed(first + target, first)
        among = moments[start : start + target + 1].tolist()
        if any(among[:-1]) or among[-1] != row[:1].tolist()[0]:
            raise Impossible(f"an example of class {label} also belongs to another class")
