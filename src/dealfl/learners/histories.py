"""Histories as learners take them, and a numbering of pairs of items.

The pair (i, j), i > j, has the number i·(i−1)/2 + j, independent of the order in memory. If popular
items come first in memory, pairs that occur together are close to each other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import index
from typing import TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from dealfl.cells import Cells
from dealfl.errors import BadInput
from dealfl.integers import Entries, Integers
from dealfl.learners.inputs import as_array

__all__ = [
    "ReorderedPairs", "as_histories", "as_order", "items_of", "pair_count", "pair_number",
    "pairs_of", "require_items",
]  # fmt: skip

Int64s = NDArray[np.int64]


def pairs_of(histories: sparse.csr_array) -> tuple[Int64s, Int64s]:
    """Return the ascending numbers of all pairs that occur, and the number of histories of each."""
    if histories.shape[0] == 1:
        items = np.sort(histories.indices).astype(np.int64)
        second, first = np.triu_indices(len(items), 1)
        numbers = np.sort(pair_number(items[first], items[second]))
        return numbers, np.ones(len(numbers), dtype=np.int64)
    ones = sparse.csr_array(
        (np.ones(histories.nnz, dtype=np.int64), histories.indices, histories.indptr),
        shape=histories.shape,
    )
    together = sparse.tril(ones.T @ ones, -1).tocoo()
    numbers = pair_number(together.row.astype(np.int64), together.col.astype(np.int64))
    order = np.argsort(numbers)
    return numbers[order], together.data[order].astype(np.int64)


def as_order(item_order: ArrayLike | None, items: int) -> Int64s | None:
    """Return an order of all items as an array, or raise `BadInput` if it is not complete."""
    if item_order is None:
        return None
    order = np.asarray(item_order)
    if order.shape != (items,) or not np.array_equal(np.sort(order), np.arange(items)):
        raise BadInput(f"item_order must contain each of the {items} items once")
    return order.astype(np.int64)


def as_histories(histories: object, items: int) -> sparse.csr_array:
    """Return histories as a CSR matrix of ones; raise `BadInput` if one is not a set of items."""
    if _lists_items(histories, items):
        return _from_lists(histories, items)
    if not sparse.issparse(histories):
        dense = as_array(histories, "histories")
        if dense.ndim != 2 or dense.dtype.kind not in "biuf":
            raise BadInput(
                "histories must be lists of item numbers, or a table of 0 and 1 with one row each"
            )
        histories = dense
    matrix: sparse.csr_array = sparse.csr_array(histories)  # type: ignore[arg-type]
    if np.any(matrix.data == 0):
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    if matrix.ndim != 2 or matrix.shape[1] != items:
        raise BadInput(f"histories have shape {matrix.shape}; the model has n_items={items}")
    require_items(matrix.indices, items)
    _require_sets(matrix)
    return matrix


def _lists_items(histories: object, items: int) -> TypeGuard[Sequence[Collection[int]]]:
    """Return whether histories are lists of item numbers instead of rows of 0 and 1."""
    if not isinstance(histories, list | tuple):
        return False
    if not all(isinstance(row, Collection) and not isinstance(row, str) for row in histories):
        return False
    if items <= 2 or not histories:
        return True  # a row of two numbers could be either
    return not all(len(row) == items and set(row) <= {0, 1} for row in histories)


def _from_lists(histories: Sequence[Collection[int]], items: int) -> sparse.csr_array:
    """Return lists of item numbers as a CSR matrix of ones."""
    numbers = [np.fromiter(map(index, row), np.int64, len(row)) for row in histories]
    found = np.concatenate([np.empty(0, np.int64), *numbers])
    require_items(found, items)
    starts = np.cumsum([0, *map(len, numbers)])
    shape = (len(numbers), items)
    matrix: sparse.csr_array = sparse.csr_array((np.ones(len(found)), found, starts), shape=shape)
    _require_sets(matrix)
    matrix.sort_indices()
    return matrix


def require_items(numbers: NDArray[np.integer], items: int) -> None:
    """Raise `BadInput` if a number is not an item."""
    wrong = np.flatnonzero((numbers < 0) | (numbers >= items))
    if len(wrong):
        raise BadInput(f"item {numbers[wrong[0]]} is out of range; items are 0 .. {items - 1}")


def _require_sets(matrix: sparse.csr_array) -> None:
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


def pair_count(items: int) -> int:
    """Return the number of pairs of `items` items."""
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
    high -= high * (high - 1) // 2 > numbers  # the root can be off by one for large numbers
    high += (high + 1) * high // 2 <= numbers
    return high, numbers - high * (high - 1) // 2


class ReorderedPairs:
    """Cells of pairs that are ordered by the rank of their items instead of by number."""

    def __init__(self, cells: Cells, rank_of: Int64s) -> None:
        self._cells = cells
        self._rank_of = rank_of

    def _places(self, numbers: Int64s) -> Int64s:
        first, second = items_of(numbers)
        return pair_number(self._rank_of[first], self._rank_of[second])

    def at(self, indices: Int64s) -> Integers:
        """Return the counts of some pairs."""
        return self._cells.at(self._places(indices))

    def put(self, indices: Int64s, values: Integers) -> None:
        """Replace the counts of some pairs."""
        self._cells.put(self._places(indices), values)

    def entries(self, start: int, stop: int) -> Entries:
        """Return the non-zeros with start ≤ number < stop."""
        stop = min(stop, pair_count(len(self._rank_of)))
        return Entries.of_dense(self.at(np.arange(start, stop, dtype=np.int64)), start)
