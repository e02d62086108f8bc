"""Pairs of items numbered in one line, and cells that lie in another order than they are numbered.

The pair (i, j), i > j, has the number i·(i−1)/2 + j, whatever order the cells lie in. With popular
items first, the pairs that occur together lie together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dealfl.cells import Cells
from dealfl.integers import Entries, Integers

__all__ = ["ReorderedPairs", "items_of", "pair_count", "pair_number"]

Int64s = NDArray[np.int64]


def pair_count(items: int) -> int:
    """Return how many pairs there are."""
    return items * (items - 1) // 2


def pair_number(first: Int64s, second: Int64s) -> Int64s:
    """Return the numbers of pairs of different items, in any order.

    >>> pair_number(np.array([0, 3]), np.array([1, 2])).tolist()
    [0, 5]
    """
    high = np.maximum(first, second)
    numbers: Int64s = high * (high - 1) // 2 + np.minimum(first, second)
    return numbers


def items_of(numbers: Int64s) -> tuple[Int64s, Int64s]:
    """Return the larger and the smaller item of each pair.

    >>> [item.tolist() for item in items_of(np.array([0, 5]))]
    [[1, 3], [0, 2]]
    """
    high = ((1.0 + np.sqrt(1.0 + 8.0 * numbers)) / 2.0).astype(np.int64)
    high -= high * (high - 1) // 2 > numbers  # the root may be off by one for large numbers
    high += (high + 1) * high // 2 <= numbers
    return high, numbers - high * (high - 1) // 2


class ReorderedPairs:
    """Cells of pairs that lie by rank of their items instead of by number."""

    def __init__(self, cells: Cells, rank_of: Int64s) -> None:
        self._cells = cells
        self._rank_of = rank_of

    def _places(self, numbers: Int64s) -> Int64s:
        first, second = items_of(numbers)
        return pair_number(self._rank_of[first], self._rank_of[second])

    def at(self, indices: Int64s) -> Integers:
        """Return the counts of pairs."""
        return self._cells.at(self._places(indices))

    def put(self, indices: Int64s, values: Integers) -> None:
        """Replace the counts of pairs."""
        self._cells.put(self._places(indices), values)

    def entries(self, start: int, stop: int) -> Entries:
        """Return the non-zeros with start ≤ number < stop."""
        stop = min(stop, pair_count(len(self._rank_of)))
        return Entries.of_dense(self.at(np.arange(start, stop, dtype=np.int64)), start)
