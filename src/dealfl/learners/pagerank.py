"""Personalised PageRank as the paper means it: item-to-item Jaccard similarity, exactly forgotten.

One history changes the count of each of its items, and with it the similarity of every item that
ever met one of them. So only counts are kept, and a similarity is computed when it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from dealfl.cells import DENSE_LIMIT, Cells, Proposal, Storage, in_memory
from dealfl.errors import BadInput, Impossible, NotLearned
from dealfl.integers import Entries, Integers
from dealfl.learners.base import Arrays, SparseVector
from dealfl.learners.histories import (
    ReorderedPairs,
    as_histories,
    as_order,
    items_of,
    pair_count,
    pair_number,
    pairs_of,
    require_items,
)
from dealfl.learners.inputs import as_array, require_integer
from dealfl.learners.limits import DataLimits
from dealfl.learners.ranking import Ranked, top_ratios, top_sums
from dealfl.learners.records import HistoryLearner
from dealfl.learners.workloads import N_ITEMS, Workload, histories
from dealfl.schema import ArraySpec, Schema
from dealfl.statistics import Statistics
from dealfl.work import Cycles, LearnerCycles, Work

__all__ = ["PersonalizedPageRank"]

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

_MAX_ITEMS = 1 << 30
_UNKNOWN = np.iinfo(np.int32).max


class PersonalizedPageRank(HistoryLearner):
    """Which items go together, from histories: sets of items, one row of a csr each.

    >>> model = PersonalizedPageRank(n_items=4)
    >>> delta = model.learn(sparse.csr_array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1]]))
    >>> items, scores = model.similar(0, k=2)
    >>> items.tolist(), scores.round(2).tolist()
    ([1, 2], [1.0, 0.33])
    >>> model.recommend([0], k=1)[0].tolist()
    [1]
    """

    name = "personalized_pagerank"
    tasks = ("recommendation",)
    cycles = LearnerCycles(Cycles(167.2, 1069000), Cycles(1561, 5069000), Cycles(220, 1826000))
    workload = Workload({"n_items": N_ITEMS}, histories, 2, 400)

    def __init__(
        self, n_items: int, item_order: ArrayLike | None = None, *, storage: Storage | None = None
    ) -> None:
        self._items = require_integer(n_items, "n_items", 1, _MAX_ITEMS)
        self._item_order = as_order(item_order, self._items)
        arrays = (
            ArraySpec("items", self._items, 32),
            ArraySpec("pairs", pair_count(self._items), 32),
        )
        schema = Schema(self.name, {"n_items": self._items}, arrays)
        super().__init__(schema, self._ordered(storage or in_memory))
        # At least the count of each item's commonest pair: tells cheaply what can not be refused.
        self._most = np.zeros(self._items, dtype=np.int32)
        self._partners: sparse.csr_array | None = None

    def _ordered(self, storage: Storage) -> Storage:
        """Return storage whose pairs lie by `item_order`; only their place in memory changes."""

        def place(spec: ArraySpec) -> Cells:
            cells = storage(spec)
            if self._item_order is None or spec.name != "pairs" or spec.size > DENSE_LIMIT:
                return cells
            rank_of = np.empty(self._items, dtype=np.int64)
            rank_of[self._item_order] = np.arange(self._items)
            return ReorderedPairs(cells, rank_of)

        return place

    @classmethod
    def settings_for(cls, data: DataLimits) -> dict[str, Any]:
        """Return the arguments of a learner for data with these limits."""
        return {"n_items": data.n_items}

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that make an empty learner like this one."""
        order = None if self._item_order is None else self._item_order.tolist()
        return {"n_items": self._items, "item_order": order}

    @property
    def n_items(self) -> int:
        """How many items there are."""
        return self._items

    def learn(self, histories: object) -> Statistics:
        """Add histories; return the statistics that were added."""
        return self._change(histories, +1)

    def forget(self, histories: object) -> Statistics:
        """Remove histories as if they had never been learned; return what was added."""
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
            raise NotLearned("forgetting a history that was never learned: a count below zero")
        for item, count in zip(items.indices.tolist(), items.values.low.tolist(), strict=True):
            if count < self._most[item] and count < self._commonest(item, pairs):
                raise NotLearned(
                    f"forgetting a history that was never learned: item {item} would be left in "
                    f"{count} histories, but is together with another item in more"
                )

    def _commonest(self, item: int, pairs: Proposal) -> int:
        """Return the count of the item's commonest pair after a change, and remember it."""
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
        """Raise `Impossible` if no set of histories can have these statistics."""
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
                f"items {first[place]} and {second[place]} are together in {counts[place]} "
                f"histories, but alone in {items[first[place]]} and {items[second[place]]}"
            )

    # -- the model ------------------------------------------------------------------------------

    def _row(self, item: int) -> tuple[Int64s, Int64s]:
        """Return the items that are together with `item` in some history, and in how many."""
        if pair_count(self._items) > DENSE_LIMIT:
            return self._sparse_row(item)
        others = np.concatenate([np.arange(item), np.arange(item + 1, self._items)])
        numbers = pair_number(np.full(len(others), item), others)
        counts = self._state.cells("pairs").at(numbers).low
        met = np.flatnonzero(counts)
        return others[met], counts[met]

    def _sparse_row(self, item: int) -> tuple[Int64s, Int64s]:
        """Return the same from a table of all pairs, made when it is first needed."""
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

    def similar(self, item: int, k: int = 10) -> Ranked:
        """Return up to k items most similar to `item`, and their similarities."""
        number = require_integer(item, "item", 0, self._items - 1)
        wanted = require_integer(k, "k", 1, _MAX_ITEMS)
        self._work = Work(self._items, 2 * 4 * self._items)
        others, counts = self._row(number)
        return top_ratios(others, counts, self._unions(number, others, counts), wanted)

    def _unions(self, item: int, others: Int64s, counts: Int64s) -> Int64s:
        items = self._state.cells("items")
        unions: Int64s = items.at(np.array([item])).low + items.at(others).low - counts
        return unions

    def recommend(self, history: object, k: int = 10) -> Ranked:
        """Return up to k items with the largest sum of similarities to those of a history."""
        seen = self._as_history(history)
        wanted = require_integer(k, "k", 1, _MAX_ITEMS)
        self._work = Work(self._items * len(seen), 2 * 4 * self._items * len(seen))
        scores = np.zeros(self._items)
        rows: list[tuple[Int64s, Int64s, Int64s]] = []
        for item in seen.tolist():
            others, counts = self._row(item)
            unions = self._unions(item, others, counts)
            scores[others] += counts / unions
            rows.append((others, counts, unions))
        scores[seen] = 0.0
        found = np.flatnonzero(scores)

        def terms(place: int) -> list[tuple[int, int]]:
            return _ratios(rows, int(found[place]))

        return top_sums(found, scores[found], wanted, terms, len(seen))

    def _as_history(self, history: object) -> Int64s:
        if sparse.issparse(history):
            matrix = as_histories(history, self._items)
            if matrix.shape[0] != 1:
                raise BadInput(f"a history is one row, not {matrix.shape[0]}")
            return np.sort(matrix.indices).astype(np.int64)
        items = as_array(history, "history")
        if items.ndim != 1 or (len(items) and items.dtype.kind not in "iu"):
            raise BadInput(
                f"a history is a list of item numbers or one row of a csr, not {history!r}"
            )
        seen = np.sort(items.astype(np.int64))
        require_items(seen, self._items)
        if np.any(seen[1:] == seen[:-1]):
            raise BadInput(f"item {seen[:-1][seen[1:] == seen[:-1]][0]} is twice in the history")
        return seen

    def derived_arrays(self) -> Arrays:
        """Return the counts of items and of pairs that occur, and the similarity of each pair."""
        items, pairs = self._state.whole("items").low, self._state.snapshot()["pairs"]
        first, second = items_of(pairs.indices)
        return {
            "item_counts": items,
            "pair_first": first,
            "pair_second": second,
            "pair_counts": pairs.values.low,
            "pair_similarities": self._derived()[1],
        }

    def _forget_model(self) -> None:
        self._partners = None
        self._most[:] = _UNKNOWN

    def _derived(self) -> SparseVector:
        pairs = self._state.snapshot()["pairs"]
        items = self._state.whole("items").to_float()
        first, second = items_of(pairs.indices)
        counts = pairs.values.to_float()
        return pairs.indices, counts / (items[first] + items[second] - counts)


def _ratios(rows: list[tuple[Int64s, Int64s, Int64s]], item: int) -> list[tuple[int, int]]:
    found = []
    for others, counts, unions in rows:
        place = int(np.searchsorted(others, item))
        if place < len(others) and others[place] == item:
            found.append((int(counts[place]), int(unions[place])))
    return found
