"""Personalized PageRank as in the paper: item-to-item Jaccard similarity that forgets exactly.

One history changes the count of each of its items, and with it the similarity of every item that
ever occurred with one of them. Therefore only counts are kept; similarities are computed on demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dealfl.errors import BadInput
from dealfl.exact import Cycles, LearnerCycles, Work, is_compiled
from dealfl.learners.base import Arrays, SparseVector
from dealfl.learners.description import N_ITEMS, DataLimits, Workload, histories
from dealfl.learners.exact_rankings import (
    FEW,
    best_places,
    is_among,
    slack_of,
    top_ratios,
    top_sums,
)  # fmt: skip
from dealfl.learners.history_learner import Ranked, as_histories
from dealfl.learners.inputs import as_array, require_integer
from dealfl.learners.pair_counts import MAX_ITEMS, PairCounts
from dealfl.learners.pair_numbers import Batch, items_of, pair_number, require_items

__all__ = ["PersonalizedPageRank"]

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

_TOGETHER = 128  # histories whose scores are summed in one pass


class PersonalizedPageRank(PairCounts):
    """Recommend items that occur in the same histories, by Jaccard similarity.

    Parameters
    ----------
    n_items : int
        Number of items.
    item_order : array_like of int, optional
        Order of the items in memory, such as the most popular first; results are the same.
    layout : {"packed", "full"}, default "packed"
        Each pair once (4 bytes for each of n·(n−1)/2 pairs), or a full matrix: twice the memory and
        slower forgetting, faster `similar` and `recommend`; it does not affect results.
    storage : callable, optional
        Creates the cells of an array; by default in memory.

    References
    ----------
    .. [1] G. Linden, B. Smith, J. York: Amazon.com recommendations: item-to-item collaborative
       filtering. IEEE Internet Computing 7(1), 2003.

    Examples
    --------
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
    cycles = LearnerCycles(
        Cycles(145.8, 884400), Cycles(21.68, 88560), Cycles(132.3, 322300),
        Cycles(166.8, 612100), Cycles(6.345, 1775000))  # fmt: skip
    workload = Workload({"n_items": N_ITEMS}, histories, 2, 400)

    @classmethod
    def settings_for(cls, data: DataLimits) -> dict[str, Any]:
        """Return the constructor arguments for data with these limits."""
        return {"n_items": data.n_items}

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor arguments of an equal, empty learner."""
        order = None if self._item_order is None else self._item_order.tolist()
        return {"n_items": self._items, "item_order": order, "layout": self._layout}

    def similar(self, item: int, k: int = 10) -> Ranked:
        """Return the items most similar to an item.

        Parameters
        ----------
        item : int
            Item number.
        k : int, default 10
            Largest number of items.

        Returns
        -------
        items : ndarray of int64
            Item numbers, the most similar first.
        scores : ndarray of float64
            Jaccard similarities in (0, 1].
        """
        number = require_integer(item, "item", 0, self._items - 1)
        wanted = require_integer(k, "k", 1, MAX_ITEMS)
        self._work = Work(self._items, 2 * 4 * self._items)
        table, held = self._table, self._item_counts
        if table is None or held is None:
            others, counts = self._row(number)
        elif wanted <= FEW and is_compiled(self._items):
            return top_ratios(*table.most_similar(held, number, wanted), wanted)
        else:
            scores = self._scores(np.array([number]))
            others = best_places(scores, wanted, 1.0)
            counts = self._together(number, others)
        return top_ratios(others, counts, self._unions(number, others, counts), wanted)

    def _together(self, item: int, others: Int64s) -> Int64s:
        numbers = pair_number(np.full(len(others), item), others)
        return self._state.cells("pairs").at(numbers).low

    def _unions(self, item: int, others: Int64s, counts: Int64s) -> Int64s:
        if self._item_counts is not None:
            held: Int64s = self._item_counts[others].astype(np.int64)
            return held + int(self._item_counts[item]) - counts
        items = self._state.cells("items")
        unions: Int64s = items.at(np.array([item])).low + items.at(others).low - counts
        return unions

    def _scores(self, seen: Int64s) -> Floats:
        """Return the sum of the similarities of each item to some items."""
        if self._table is not None and self._item_counts is not None:
            return self._table.sum_similarities(self._item_counts, seen)
        scores = np.zeros(self._items)
        for item in seen.tolist():
            others, counts = self._row(item)
            scores[others] += counts / self._unions(item, others, counts)
        return scores

    def recommend(self, history: object, k: int = 10) -> Ranked:
        """Return the items with the largest sum of similarities to the items of a history."""
        seen = self._as_history(history)
        wanted = require_integer(k, "k", 1, MAX_ITEMS)
        self._work = Work(self._items * len(seen), 2 * 4 * self._items * len(seen))
        return self._best(seen, self._scores(seen), wanted)

    def _find_hits(
        self, histories: Sequence[Sequence[int]], wanted: Sequence[int], k: int
    ) -> Iterator[bool]:
        most = require_integer(k, "k", 1, MAX_ITEMS)
        for (seen, scores), item in zip(self._all_scores(histories), wanted, strict=True):
            scores[seen] = 0.0
            clear = is_among(scores, item, most, 2.0 * slack_of(len(seen)))
            yield item in self._best(seen, scores, most)[0] if clear is None else clear

    def _all_scores(self, histories: Sequence[Sequence[int]]) -> Iterator[tuple[Int64s, Floats]]:
        """Yield the items of each history, and the score of every item for it."""
        table, held = self._table, self._item_counts
        cells = self._items * sum(map(len, histories))
        many = 4 * cells > self._items**2 and self._layout == "packed"  # full rows are fast alone
        if table is None or held is None or not (many and is_compiled(cells)):
            for seen in map(self._as_history, histories):
                yield seen, self._scores(seen)
            return
        for first in range(0, len(histories), _TOGETHER):
            some = [self._as_history(one) for one in histories[first : first + _TOGETHER]]
            batch = Batch(np.cumsum([0, *map(len, some)]), np.concatenate(some))
            yield from zip(some, table.sum_all_similarities(held, batch), strict=True)

    def _best(self, seen: Int64s, scores: Floats, wanted: int) -> Ranked:
        scores[seen] = 0.0
        found = best_places(scores, wanted, 1.0 - 2.0 * slack_of(len(seen)))

        def terms(place: int) -> list[tuple[int, int]]:
            other = np.full(len(seen), found[place])
            pairs = self._state.cells("pairs").at(pair_number(seen, other)).low
            items = self._state.cells("items")
            unions = items.at(seen).low + items.at(other).low - pairs
            ratios = zip(pairs.tolist(), unions.tolist(), strict=True)
            return [ratio for ratio in ratios if ratio[0]]

        return top_sums(found, scores[found], wanted, terms, len(seen))

    def _as_history(self, history: object) -> Int64s:
        if sparse.issparse(history):
            matrix = as_histories(history, self._items)
            if matrix.shape[0] != 1:
                raise BadInput(f"history has {matrix.shape[0]} rows; it must have one")
            return np.sort(matrix.indices).astype(np.int64)
        items = as_array(history, "history")
        if items.ndim != 1 or (len(items) and items.dtype.kind not in "iu"):
            remedy = "give a list of item numbers, or one row of 0 and 1"
            raise BadInput(f"history is {history!r}; {remedy}")
        seen = np.sort(items.astype(np.int64))
        require_items(seen, self._items)
        if np.any(seen[1:] == seen[:-1]):
            raise BadInput(f"item {seen[:-1][seen[1:] == seen[:-1]][0]} is in the history twice")
        return seen

    def derived_arrays(self) -> Arrays:
        """Return `item_counts`, and items, count and similarity of each pair that occurs."""
        items, pairs = self._state.whole("items").low, self._state.snapshot()["pairs"]
        first, second = items_of(pairs.indices)
        return {
            "item_counts": items, "pair_first": first, "pair_second": second,
            "pair_counts": pairs.values.low, "pair_similarities": self._derived()[1],
        }  # fmt: skip

    def _derived(self) -> SparseVector:
        pairs = self._state.snapshot()["pairs"]
        items = self._state.whole("items").to_float()
        first, second = items_of(pairs.indices)
        counts = pairs.values.to_float()
        return pairs.indices, counts / (items[first] + items[second] - counts)
