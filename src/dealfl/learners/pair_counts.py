"""Counts of items and of pairs of items in histories: the statistics of recommendations.

The pair (i, j), i > j, has the number i·(i−1)/2 + j, independent of the order in memory. If popular
items come first in memory, pairs that occur together are close to each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from dealfl.cells import DENSE_LIMIT, Cells, Proposal, Storage, in_memory
from dealfl.entries import Entries
from dealfl.errors import BadInput, Impossible, NotLearned
from dealfl.integers import Integers
from dealfl.learners.history_learner import HistoryLearner, as_histories
from dealfl.learners.inputs import require_integer
from dealfl.schema import ArraySpec, Schema
from dealfl.statistics import Statistics
from dealfl.work import Work

__all__ = ["MAX_ITEMS", "PairCounts", "items_of", "pair_number"]

Int64s = NDArray[np.int64]

MAX_ITEMS = 1 << 30
_UNKNOWN = np.iinfo(np.int32).max


class PairCounts(HistoryLearner):
    """The number of histories with each item and with each pair of items."""

    def __init__(
        self, n_items: int, item_order: ArrayLike | None = None, *, storage: Storage | None = None
    ) -> None:
        self._items = require_integer(n_items, "n_items", 1, MAX_ITEMS)
        self._item_order = _as_order(item_order, self._items)
        arrays = (
            ArraySpec("items", self._items, 32),
            ArraySpec("pairs", _pair_count(self._items), 32),
        )
        schema = Schema(self.name, {"n_items": self._items}, arrays)
        super().__init__(schema, self._ordered(storage or in_memory))
        # An upper bound of the count of each item's most common pair, for a cheap check.
        self._most = np.zeros(self._items, dtype=np.int32)
        self._is_sparse = _pair_count(self._items) > DENSE_LIMIT
        # The items that occur with each item, if there are too many items to look at each of them;
        # None if they must be found in the statistics.
        self._partners: dict[int, set[int]] | None = {}

    @cached_property
    def _first(self) -> Int64s:
        """The number of each item's pair with item 0."""
        return pair_number(np.arange(self._items), np.zeros(self._items, dtype=np.int64))

    def _ordered(self, storage: Storage) -> Storage:
        """Return storage with pairs in the order of `item_order`; it is a memory layout."""

        def place(spec: ArraySpec) -> Cells:
            cells = storage(spec)
            if self._item_order is None or spec.name != "pairs" or spec.size > DENSE_LIMIT:
                return cells
            rank_of = np.empty(self._items, dtype=np.int64)
            rank_of[self._item_order] = np.arange(self._items)
            return _ReorderedPairs(cells, rank_of)

        return place

    @property
    def n_items(self) -> int:
        """The number of items."""
        return self._items

    def learn(self, histories: object) -> Statistics:
        """Add histories."""
        return self._change(histories, +1)

    def forget(self, histories: object) -> Statistics:
        """Remove histories; the result is the same as if they had never been learned."""
        return self._change(histories, -1)

    def _change(self, histories: object, sign: int) -> Statistics:
        matrix = as_histories(histories, self._items)
        items, histories_of = np.unique(matrix.indices, return_counts=True)
        numbers, counts = _pairs_of(matrix)
        arrays = {
            "items": Entries(items.astype(np.int64), Integers(sign * histories_of)),
            "pairs": Entries(numbers, Integers(sign * counts)),
        }
        delta = self._apply(Statistics(self.schema, arrays), forgetting=sign < 0)
        after = self._state.cells("pairs").at(numbers).low
        if sign > 0:
            for ends in items_of(numbers):
                np.maximum.at(self._most, ends, after.astype(np.int32))
        if self._is_sparse and self._partners is not None:
            _note_partners(self._partners, numbers, after)
        lengths = np.diff(matrix.indptr).astype(np.int64)
        pairs = int(np.sum(lengths * (lengths - 1) // 2))
        touched = len(numbers) + len(arrays["items"])
        self._work = Work(int(lengths.sum()) + pairs, 4 * int(lengths.sum()) + 2 * 4 * touched)
        return delta

    def _refuse_unlearned(self, proposals: Mapping[str, Proposal]) -> None:
        items, pairs = proposals["items"], proposals["pairs"]
        if np.any(items.values.negative) or np.any(pairs.values.negative):
            raise NotLearned("this history was never learned: a count would be negative")
        for item, count in zip(items.indices.tolist(), items.values.low.tolist(), strict=True):
            if count < self._most[item] and count < self._commonest(item, pairs):
                raise NotLearned(
                    f"this history was never learned: item {item} would be in {count} histories, "
                    "but in more together with another item"
                )

    def _commonest(self, item: int, pairs: Proposal) -> int:
        """Return the count of the item's most common pair after a change, and store it."""
        others, counts = self._row(item)
        before = int(counts.max(initial=0))
        numbers = pair_number(np.full(len(others), item), others)
        if len(pairs.indices):
            places = np.minimum(np.searchsorted(pairs.indices, numbers), len(pairs.indices) - 1)
            counts = np.where(pairs.indices[places] == numbers, pairs.values.low[places], counts)
        commonest = int(counts.max(initial=0))
        self._most[item] = max(commonest, before)
        return commonest

    def count_records(self, statistics: Statistics) -> int:
        """Return the number of items in all histories of statistics."""
        return int(statistics["items"].values.low.sum())

    def check(self) -> None:
        """Raise `Impossible` if no set of histories has these statistics."""
        items, pairs = self._state.whole("items").low, self._state.snapshot()["pairs"]
        if np.any(items < 0):
            worst = int(np.argmin(items))
            raise Impossible(f"item {worst} is in {items[worst]} histories")
        first, second = items_of(pairs.indices)
        counts = pairs.values.low
        wrong = np.flatnonzero((counts < 0) | (counts > np.minimum(items[first], items[second])))
        if len(wrong):
            place = wrong[0]
            raise Impossible(
                f"items {first[place]} and {second[place]} are both in {counts[place]} "
                f"histories, but each in {items[first[place]]} and {items[second[place]]}"
            )

    def _row(self, item: int) -> tuple[Int64s, Int64s]:
        """Return the items that occur with `item`, and the number of common histories of each."""
        if self._is_sparse:
            return self._sparse_row(item)
        own = item * (item - 1) // 2
        numbers = np.concatenate([np.arange(own, own + item), self._first[item + 1 :] + item])
        counts = self._state.cells("pairs").at(numbers).low
        met = np.flatnonzero(counts)
        return met + (met >= item), counts[met]

    def _sparse_row(self, item: int) -> tuple[Int64s, Int64s]:
        if self._partners is None:
            pairs = self._state.snapshot()["pairs"]
            self._partners = {}
            _note_partners(self._partners, pairs.indices, pairs.values.low)
        others = np.array(sorted(self._partners.get(item, ())), dtype=np.int64)
        numbers = pair_number(np.full(len(others), item), others)
        return others, self._state.cells("pairs").at(numbers).low

    def _forget_model(self) -> None:
        self._partners = None
        self._most[:] = _UNKNOWN


def _as_order(item_order: ArrayLike | None, items: int) -> Int64s | None:
    """Return an order of all items as an array, or raise `BadInput` if it is not complete."""
    if item_order is None:
        return None
    order = np.asarray(item_order)
    if order.shape != (items,) or not np.array_equal(np.sort(order), np.arange(items)):
        raise BadInput(f"item_order must contain each of the {items} items once")
    return order.astype(np.int64)


def _note_partners(partners: dict[int, set[int]], numbers: Int64s, counts: Int64s) -> None:
    """Add the pairs that occur and remove the others, without a trace."""
    first, second = (items.tolist() for items in items_of(numbers))
    for ends in (zip(first, second, counts, strict=True), zip(second, first, counts, strict=True)):
        for item, other, count in ends:
            if count:
                partners.setdefault(item, set()).add(other)
            elif item in partners:
                partners[item].discard(other)
                if not partners[item]:
                    del partners[item]


def _pairs_of(histories: sparse.csr_array) -> tuple[Int64s, Int64s]:
    """Return the ascending numbers of all pairs that occur, and the number of histories of each."""
    if histories.shape[0] == 1:
        only = np.sort(histories.indices).astype(np.int64)
        second, first = np.triu_indices(len(only), 1)
        numbers = np.sort(pair_number(only[first], only[second]))
        return numbers, np.ones(len(numbers), dtype=np.int64)
    items, columns = np.unique(histories.indices, return_inverse=True)
    shape = (histories.shape[0], len(items))  # only items that occur: there can be very many
    ones = np.ones(histories.nnz, dtype=np.int64)
    table = sparse.csr_array((ones, columns, histories.indptr), shape=shape)
    together = sparse.tril(table.T @ table, -1).tocoo()
    numbers = pair_number(*(items[ends].astype(np.int64) for ends in (together.row, together.col)))
    order = np.argsort(numbers)
    return numbers[order], together.data[order].astype(np.int64)


def _pair_count(items: int) -> int:
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


class _ReorderedPairs:
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
        stop = min(stop, _pair_count(len(self._rank_of)))
        return Entries.of_dense(self.at(np.arange(start, stop, dtype=np.int64)), start)
