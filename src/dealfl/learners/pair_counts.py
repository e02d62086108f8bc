"""Counts of items and of pairs of items in histories: the statistics of recommendations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from dealfl.cells import DENSE_LIMIT, Cells, Proposal, Storage, in_memory
from dealfl.errors import Impossible, NotLearned
from dealfl.integers import Entries, Integers
from dealfl.learners.histories import (
    ReorderedPairs,
    as_histories,
    as_order,
    items_of,
    pair_count,
    pair_number,
    pairs_of,
)
from dealfl.learners.history_learner import HistoryLearner
from dealfl.learners.inputs import require_integer
from dealfl.schema import ArraySpec, Schema
from dealfl.statistics import Statistics
from dealfl.work import Work

__all__ = ["MAX_ITEMS", "PairCounts"]

Int64s = NDArray[np.int64]

MAX_ITEMS = 1 << 30
_UNKNOWN = np.iinfo(np.int32).max


class PairCounts(HistoryLearner):
    """The number of histories with each item and with each pair of items."""

    def __init__(
        self, n_items: int, item_order: ArrayLike | None = None, *, storage: Storage | None = None
    ) -> None:
        self._items = require_integer(n_items, "n_items", 1, MAX_ITEMS)
        self._item_order = as_order(item_order, self._items)
        arrays = (
            ArraySpec("items", self._items, 32),
            ArraySpec("pairs", pair_count(self._items), 32),
        )
        schema = Schema(self.name, {"n_items": self._items}, arrays)
        super().__init__(schema, self._ordered(storage or in_memory))
        # An upper bound of the count of each item's most common pair, for a cheap check.
        self._most = np.zeros(self._items, dtype=np.int32)
        self._partners: sparse.csr_array | None = None

    def _ordered(self, storage: Storage) -> Storage:
        """Return storage with pairs in the order of `item_order`; it is a memory layout."""

        def place(spec: ArraySpec) -> Cells:
            cells = storage(spec)
            if self._item_order is None or spec.name != "pairs" or spec.size > DENSE_LIMIT:
                return cells
            rank_of = np.empty(self._items, dtype=np.int64)
            rank_of[self._item_order] = np.arange(self._items)
            return ReorderedPairs(cells, rank_of)

        return place

    @property
    def n_items(self) -> int:
        """The number of items."""
        return self._items

    def learn(self, histories: object) -> Statistics:
        """Add histories.

        Parameters
        ----------
        histories : csr_array, array_like or list of list of int
            One row of 0 and 1, or one list of item numbers, per history.

        Returns
        -------
        Statistics
            The statistics that were added.

        Raises
        ------
        BadInput
            A history is not a set of items; nothing was changed.
        """
        return self._change(histories, +1)

    def forget(self, histories: object) -> Statistics:
        """Remove histories; the result is the same as if they had never been learned.

        Parameters
        ----------
        histories : csr_array, array_like or list of list of int
            One row of 0 and 1, or one list of item numbers, per history.

        Returns
        -------
        Statistics
            The (negative) statistics that were added.

        Raises
        ------
        NotLearned
            A history was never learned, as far as the statistics show it; nothing was changed.
        """
        return self._change(histories, -1)

    def _change(self, histories: object, sign: int) -> Statistics:
        matrix = as_histories(histories, self._items)
        items, histories_of = np.unique(matrix.indices, return_counts=True)
        numbers, counts = pairs_of(matrix)
        arrays = {
            "items": Entries(items.astype(np.int64), Integers(sign * histories_of)),
            "pairs": Entries(numbers, Integers(sign * counts)),
        }
        delta = self._apply(Statistics(self.schema, arrays), forgetting=sign < 0)
        self._partners = None
        if sign > 0:
            self._note_most(numbers)
        lengths = np.diff(matrix.indptr).astype(np.int64)
        pairs = int(np.sum(lengths * (lengths - 1) // 2))
        touched = len(numbers) + len(arrays["items"])
        self._work = Work(int(lengths.sum()) + pairs, 4 * int(lengths.sum()) + 2 * 4 * touched)
        return delta

    def _note_most(self, numbers: Int64s) -> None:
        counts = self._state.cells("pairs").at(numbers).low.astype(np.int32)
        for items in items_of(numbers):
            np.maximum.at(self._most, items, counts)

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

    def check(self) -> None:
        """Check that some set of histories can have these statistics.

        Raises
        ------
        Impossible
            No set of histories has these statistics.
        """
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
        if pair_count(self._items) > DENSE_LIMIT:
            return self._sparse_row(item)
        others = np.concatenate([np.arange(item), np.arange(item + 1, self._items)])
        numbers = pair_number(np.full(len(others), item), others)
        counts = self._state.cells("pairs").at(numbers).low
        met = np.flatnonzero(counts)
        return others[met], counts[met]

    def _sparse_row(self, item: int) -> tuple[Int64s, Int64s]:
        """Return the same from a table of all pairs, which is built on first use."""
        if self._partners is None:
            pairs = self._state.snapshot()["pairs"]
            first, second = items_of(pairs.indices)
            ends = np.concatenate([first, second]), np.concatenate([second, first])
            shape = (self._items, self._items)
            counts = np.tile(pairs.values.low, 2)
            self._partners = sparse.csr_array((counts, ends), shape=shape)
        start, stop = self._partners.indptr[item], self._partners.indptr[item + 1]
        others = self._partners.indices[start:stop].astype(np.int64)
        return others, self._partners.data[start:stop].astype(np.int64)

    def _forget_model(self) -> None:
        self._partners = None
        self._most[:] = _UNKNOWN
