"""Counts of pairs in memory.

A history can be forgotten only if no item then has fewer histories than one of its pairs. Only
pairs that the history does not contain can break this rule. The *slack* of a pair of an item is the
number of the item's histories without the other item. The table knows, for each item, how many
pairs have the slacks 0, 1, 2, …: forgetting needs no look at other pairs until this is used up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import NotLearned
from dealfl.exact import Cells, Entries, Integers
from dealfl.learners.histories import Batch
from dealfl.learners.pagerank.pairs import items_of, pair_count, pair_number
from dealfl.learners.pagerank.plain import (
    ALL,
    LEVELS,
    NEGATIVE,
    TIGHT,
    add_histories,
    change_histories,
    guard_rows,
    most_similar,
    sum_all_similarities,
    sum_similarities,
)

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]

LAYOUTS = ("packed", "full")


class PairTable:
    """Cells of pairs in some order: a packed triangle, `counts`, or else a full matrix."""

    def __init__(self, size: int, order: Int64s | None, counts: Int32s | None) -> None:
        self._size = size
        self._full = counts is None
        self._counts = np.zeros(size * size, dtype=np.int32) if counts is None else counts
        self._order = np.arange(size) if order is None else order
        self._rank_of = np.empty(0, dtype=np.int64) if order is None else ranks_of(order)
        self._guard = np.zeros((size, LEVELS + 1), dtype=np.int32)
        self._guard[:, 0] = size - 1
        self._guard[:, LEVELS] = ALL
        self._by_number = counts is not None and order is None
        self._refused = np.zeros(2, dtype=np.int64)  # an item and its count

    # -- cells ----------------------------------------------------------------------------------

    def _ranks(self, items: Int64s) -> Int64s:
        return self._rank_of[items] if len(self._rank_of) else items

    def _cells(self, numbers: Int64s) -> tuple[Int64s, Int64s]:
        """Return the cell of each pair in the lower and in the upper triangle."""
        first, second = (self._ranks(items) for items in items_of(numbers))
        if not self._full:
            cells = pair_number(first, second)
            return cells, cells
        high, low = np.maximum(first, second), np.minimum(first, second)
        return high * self._size + low, low * self._size + high

    def at(self, indices: Int64s) -> Integers:
        """Return the counts of some pairs."""
        cells = indices if self._by_number else self._cells(indices)[0]
        return Integers(self._counts[cells].astype(np.int64))

    def put(self, indices: Int64s, values: Integers) -> None:
        """Replace the counts of some pairs."""
        lower, upper = (indices, indices) if self._by_number else self._cells(indices)
        self._counts[lower] = values.low
        if self._full:
            self._counts[upper] = values.low

    def entries(self, start: int, stop: int) -> Entries:
        """Return the non-zeros with start ≤ number < stop."""
        stop = min(stop, pair_count(self._size))
        if self._by_number:
            return Entries.of_dense(Integers(self._counts[start:stop]), start)  # type: ignore[arg-type]
        return Entries.of_dense(self.at(np.arange(start, stop, dtype=np.int64)), start)

    # -- histories ------------------------------------------------------------------------------

    def change(self, items: Int32s, stale: tuple[Marks, Marks], batch: Batch, sign: int) -> bool:
        """Learn or forget histories, or change nothing; return False if one is not a set."""
        if sign > 0 and len(batch.starts) > 2 and 16 * batch.pair_count >= self._size**2:
            return self._add(items, stale, batch)
        problem = change_histories(
            self._counts,
            items,
            self._guard,
            stale[1],
            stale[0],
            self._order,
            self._rank_of,
            batch.starts,
            batch.items,
            self._full,
            sign < 0,
            self._refused,
        )
        if problem in (NEGATIVE, TIGHT):
            item, count = self._refused.tolist()
            tight = f"item {item} would be in {count} histories, but in more with another item"
            reason = "a count would be negative" if problem == NEGATIVE else tight
            raise NotLearned(f"this history was never learned: {reason}")
        return problem == 0

    def _add(self, items: Int32s, stale: tuple[Marks, Marks], batch: Batch) -> bool:
        if add_histories(self._counts, items, self._rank_of, *batch, self._full, +1):
            return False
        stale[0][:] = True
        stale[1][:] = True
        guard_rows(self._counts, items, self._guard, self._order, self._full)
        return True

    def undo(self, items: Int32s, batch: Batch, sign: int) -> None:
        """Undo `change`, whether or not what is left is possible; the slacks must be dropped."""
        add_histories(self._counts, items, self._rank_of, *batch, self._full, -sign)

    def forget_slacks(self) -> None:
        """Drop the counted slacks; they are counted again where they are needed."""
        self._guard[:, LEVELS] = 0

    # -- queries --------------------------------------------------------------------------------

    def _by_rank(self, items: Int32s) -> Int32s:
        return items[self._order] if len(self._rank_of) else items

    def most_similar(self, items: Int32s, item: int, k: int) -> tuple[Int64s, Int64s, Int64s]:
        """Return the k items most similar to one, and equally similar ones; counts and unions."""
        rank = int(self._rank_of[item]) if len(self._rank_of) else item
        item_counts = self._by_rank(items)
        ranks, counts, unions = most_similar(self._counts, item_counts, rank, self._full, k)
        return self._order[ranks], counts, unions

    def sum_similarities(self, items: Int32s, seen: Int64s) -> Floats:
        """Return, for each item, the sum of its similarities to some items."""
        item_counts, ranks = self._by_rank(items), self._ranks(seen)
        scores = sum_similarities(self._counts, item_counts, ranks, self._full)
        return scores[self._rank_of] if len(self._rank_of) else scores

    def sum_all_similarities(self, items: Int32s, batch: Batch) -> Floats:
        """Return, for each history and item, the sum of the item's similarities to the history."""
        item_counts, ranks = self._by_rank(items), self._ranks(batch.items)
        scores = sum_all_similarities(self._counts, item_counts, batch.starts, ranks, self._full)
        return np.ascontiguousarray(scores[:, self._rank_of]) if len(self._rank_of) else scores


class ReorderedPairs:
    """Cells of pairs that are ordered by the rank of their items instead of by number."""

    def __init__(self, cells: Cells, order: Int64s) -> None:
        self._cells = cells
        self._rank_of = ranks_of(order)

    def _numbers(self, numbers: Int64s) -> Int64s:
        first, second = items_of(numbers)
        return pair_number(self._rank_of[first], self._rank_of[second])

    def at(self, indices: Int64s) -> Integers:
        """Return the counts of some pairs."""
        return self._cells.at(self._numbers(indices))

    def put(self, indices: Int64s, values: Integers) -> None:
        """Replace the counts of some pairs."""
        self._cells.put(self._numbers(indices), values)

    def entries(self, start: int, stop: int) -> Entries:
        """Return the non-zeros with start ≤ number < stop."""
        stop = min(stop, pair_count(len(self._rank_of)))
        return Entries.of_dense(self.at(np.arange(start, stop, dtype=np.int64)), start)


def ranks_of(order: Int64s) -> Int64s:
    """Return the rank of each item in an order of all items."""
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks
