"""Can a matrix of integer products be that of real rows at all?

Exact necessary conditions. Floats only pick the pairs that are worth an exact look.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dealfl.errors import Impossible
from dealfl.integers import Integers
from dealfl.learners.gram import triangle

__all__ = ["require_products"]

_CLEAR = 1.0 - 1e-9  # float squares are good to 1e-15: pairs below this ratio can not be wrong


def require_products(products: Integers, limits: Sequence[int], *, pairs: bool) -> None:
    """Raise `Impossible` unless the packed `products` of columns could come from real rows.

    Column 0 is the constant one, so its product with itself is the number of rows n; a value of
    column j is at most `limits[j]` in size. Always looked at: n ≥ 0, nothing left at n = 0,
    0 ≤ squares ≤ n·limit², sums and squares of equal parity, sums within Cauchy and Schwarz' limit.
    With `pairs`, that limit for each pair of columns, too.

    >>> require_products(Integers.of([-1, 0, 0]), [1, 8], pairs=False)
    Traceback (most recent call last):
    dealfl.errors.Impossible: -1 examples
    """
    size = len(limits)
    count = products[:1].tolist()[0]
    if count < 0:
        raise Impossible(f"{count} examples")
    if count == 0 and len(products.nonzero()):
        raise Impossible("no example is left, but sums are")
    places = np.arange(size, dtype=np.int64)
    starts = places * (places + 1) // 2
    sums, squares = products[starts].tolist(), products[starts + places].tolist()
    for column, (total, square, limit) in enumerate(zip(sums, squares, limits, strict=True)):
        if not 0 <= square <= count * limit * limit:
            raise Impossible(f"column {column} has squares that sum to {square}")
        if total * total > count * square or (total - square) % 2:
            raise Impossible(f"column {column} has a sum of {total} but squares of {square}")
    if pairs:
        _require_pairs(products, squares)


def _require_pairs(products: Integers, squares: list[int]) -> None:
    left, right = triangle(len(squares))
    roots = np.sqrt(np.array([float(square) for square in squares]))
    close = np.abs(products.to_float()) > roots[left] * roots[right] * _CLEAR
    for place in np.flatnonzero(close & (left != right)).tolist():
        first, second = int(left[place]), int(right[place])
        product = products[place : place + 1].tolist()[0]
        if product * product > squares[first] * squares[second]:
            raise Impossible(f"columns {first} and {second} have a product of {product}")
