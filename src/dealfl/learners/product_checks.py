"""Checks that packed products of columns can come from real rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import Impossible
from dealfl.exact import Integers, is_compiled
from dealfl.learners.gram import packed, triangle, widened

__all__ = ["are_possible", "require_one_class_each", "require_products"]

Int64s = NDArray[np.int64]

_CLEAR = 1.0 - 1e-9  # float squares are accurate to 1e-15, so pairs below this ratio are possible
_LIMB = (1 << 24) - 1  # mask of a limb of a magnitude: four products of two limbs fit 63 bits
_COMPARED = 1 << 14  # pairs at a time, so that their limbs stay in the cache


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
    places = np.arange(size, dtype=np.int64)
    squares = products[places * (places + 3) // 2]
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
    places = np.array(columns, dtype=np.int64)
    starts = places * (places + 1) // 2
    sums, squares = products[starts].tolist(), products[starts + places].tolist()
    for column, total, square, limit in zip(columns, sums, squares, limits, strict=True):
        if not 0 <= square <= count * limit * limit:
            raise Impossible(f"column {column} has the sum of squares {square}")
        if total * total > count * square or (total - square) % 2:
            raise Impossible(f"column {column} has the sum {total}, but sum of squares {square}")
    return sums


def _require_products_of(products: Integers, row: Int64s) -> None:
    left, right = triangle(len(row))
    known = widened(row[left] * row[right], products.wide)
    if not products.same(known):
        raise _impossible(products, int((products - known).nonzero()[0]), left, right)


def _impossible(products: Integers, place: int, left: Int64s, right: Int64s) -> Impossible:
    product = products[place : place + 1].tolist()[0]
    return Impossible(
        f"columns {right[place]} and {left[place]} have the sum of products {product}"
    )


def _require_pairs(products: Integers, squares: Integers) -> None:
    left, right = triangle(len(squares))
    doubtful = _find_close(products, np.sqrt(squares.to_float()))
    limbs = _limbs(squares)
    for first in range(0, len(doubtful), _COMPARED):
        places = doubtful[first : first + _COMPARED]
        across = _limbs(products[places])
        sides = limbs[:, left[places]], limbs[:, right[places]]
        wrong = np.flatnonzero(_is_larger((across, across), sides))
        if len(wrong):
            raise _impossible(products, int(places[wrong[0]]), left, right)


def _find_close(products: Integers, roots: NDArray[np.float64]) -> Int64s:
    """Return the places of the products of two columns that are not clearly possible."""
    if is_compiled(len(products)):
        from dealfl.learners.moment_loops import find_close

        places = np.empty(len(products), np.int64)
        return places[: find_close(*products.parts, roots * _CLEAR, roots, places)]
    left, right = triangle(len(roots))
    close = np.abs(products.to_float()) > roots[left] * _CLEAR * roots[right]
    return np.flatnonzero(close & (left != right))


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
    for place in range(len(difference) - 1):
        difference[place + 1] += difference[place] >> 24
        difference[place] &= _LIMB
    rest = difference[:-1].any(axis=0)
    return np.asarray((difference[-1] > 0) | ((difference[-1] == 0) & rest))


def require_one_class_each(moments: Integers, first: int, labels: Sequence[object]) -> None:
    """Raise `Impossible` unless each row is 1 in one of the columns from `first` on, and else 0."""
    rows = [
        moments[packed(first + n, 0) : packed(first + n, 0) + first] for n in range(len(labels))
    ]
    total = rows[0]
    for row in rows[1:]:
        total = total + row
    if not total.same(moments[np.array([packed(j, 0) for j in range(first)], dtype=np.int64)]):
        raise Impossible("the sums of the classes do not add up to the sums of the features")
    for target, (label, row) in enumerate(zip(labels, rows, strict=True)):
        start = packed(first + target, first)
        among = moments[start : start + target + 1].tolist()
        if any(among[:-1]) or among[-1] != row[:1].tolist()[0]:
            raise Impossible(f"an example of class {label} also belongs to another class")
