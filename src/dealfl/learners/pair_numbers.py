"""Histories as arrays, and the numbers of their pairs of items.

The pair (i, j), i > j, has the number i·(i−1)/2 + j, independent of the order in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from dealfl.errors import BadInput
from dealfl.settings import As

__all__ = [
    "Batch", "ItemOrder", "items_of", "numbers_of", "pair_number", "require_items", "require_sets",
    "row_products", "triangle",
]  # fmt: skip

Int64s = NDArray[np.int64]
_CHUNK = 1 << 20  # additions at a time

ItemOrder = Annotated[
    ArrayLike | None,
    As(tuple[int, ...]),
    Meta(description="order in memory: every item number once, such as the most popular first"),
]


class Batch(NamedTuple):
    """Histories one after the other: where each starts, and their ascending items."""

    starts: Int64s
    items: Int64s

    @property
    def pair_count(self) -> int:
        """The number of pairs of all histories."""
        if len(self.starts) == 2:
            return len(self.items) * (len(self.items) - 1) // 2
        lengths = np.diff(self.starts)
        return int(lengths @ (lengths - 1)) // 2

    def are_sets(self, size: int) -> bool:
        """Return whether each history has ascending items below `size`."""
        rising = np.ones(len(self.items) + 1, dtype=np.bool_)
        rising[1:-1] = self.items[1:] > self.items[:-1]
        rising[self.starts] = True
        return bool(rising.all()) and not (
            len(self.items) and (self.items.min() < 0 or self.items.max() >= size)
        )

    def pairs(self) -> tuple[Int64s, Int64s]:
        """Return the ascending numbers of all pairs that occur, and the histories of each."""
        if len(self.starts) == 2:
            once = numbers_of(self.items)
            return once, np.ones(len(once), dtype=np.int64)
        items, columns = np.unique(self.items, return_inverse=True)
        shape = (len(self.starts) - 1, len(items))  # only items that occur: there can be very many
        ones = np.ones(len(self.items), dtype=np.int32)
        numbers, counts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for first, rows in row_products(sparse.csr_array((ones, columns, self.starts), shape)):
            below = sparse.tril(rows, first - 1, format="csr")
            below.sort_indices()
            ends = (below := below.tocoo()).row + first, below.col
            numbers.append(pair_number(*(items[end] for end in ends)))
            counts.append(below.data.astype(np.int64))
        return np.concatenate(numbers), np.concatenate(counts)


def row_products(table: sparse.csr_array) -> Iterator[tuple[int, sparse.csr_array]]:
    """Yield the transposed histories times themselves, a few rows at a time after their number."""
    columns = sparse.csr_array(table.T)
    parts = np.cumsum(columns @ np.diff(table.indptr).astype(np.int64)) // _CHUNK
    for first, stop in pairwise([0, *(np.flatnonzero(np.diff(parts)) + 1), table.shape[1]]):
        yield int(first), columns[first:stop] @ table


@lru_cache(maxsize=8)
def triangle(size: int) -> tuple[Int64s, Int64s]:
    """Return row and column of each place below the diagonal, row by row."""
    rows = np.repeat(np.arange(size), np.arange(size))
    return rows, np.arange(len(rows)) - rows * (rows - 1) // 2


def numbers_of(items: Int64s) -> Int64s:
    """Return the ascending numbers of the pairs of one history."""
    high, low = triangle(len(items))
    first = items * (items - 1) // 2
    numbers: Int64s = first[high] + items[low]
    return numbers


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
    high -= high * (high - 1) // 2 > numbers  # the root can be off by one for large numbers
    high += (high + 1) * high // 2 <= numbers
    return high, numbers - high * (high - 1) // 2


def require_items(numbers: NDArray[np.integer], items: int) -> None:
    """Raise `BadInput` if a number is not an item."""
    wrong = np.flatnonzero((numbers < 0) | (numbers >= items))
    if len(wrong):
        rule = f"is out of range; items are 0 .. {items - 1}"
        raise BadInput(f"item {numbers[wrong[0]]} {rule}", f"an item {rule}")


def require_sets(matrix: sparse.csr_array) -> None:
    """Raise `BadInput` if a row is not a set of items."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    wrong = np.flatnonzero(matrix.data != 1)
    if len(wrong):
        place = wrong[0]
        raise BadInput(
            f"history {rows[place]} has {matrix.data[place]} for item {matrix.indices[place]}; "
            "a history is a set: give 1 for each of its items"
        )
    order = np.lexsort((matrix.indices, rows))
    items, owners = matrix.indices[order], rows[order]
    twice = np.flatnonzero((items[1:] == items[:-1]) & (owners[1:] == owners[:-1]))
    if len(twice):
        raise BadInput(f"history {owners[twice[0]]} has item {items[twice[0]]} twice")
