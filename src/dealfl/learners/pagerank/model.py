"""Personalized PageRank as in the paper: item-to-item Jaccard similarity that forgets exactly.

The statistics are the number of histories with each item and with each pair of items. One history
changes the count of each of its items, and with it the similarity of every item that ever occurred
with one of them. Therefore only counts are kept; similarities are computed on demand.

Counts in memory are changed in place (`table`). Other cells, such as those in files or of very many
items, are read and written by pair number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from dealfl.errors import BadInput, Impossible, NotLearned, unknown_name
from dealfl.exact import (
    DENSE_LIMIT,
    ArraySpec,
    Cells,
    Cycles,
    Deferred,
    DenseCells,
    Entries,
    LearnerCycles,
    Proposal,
    Schema,
    Statistics,
    Storage,
    Work,
    in_memory,
)
from dealfl.learners.base import Arrays, SparseVector, Undo
from dealfl.learners.description import N_ITEMS, DataLimits, Workload, histories
from dealfl.learners.histories import (
    Batch,
    HistoryLearner,
    Ranked,
    Replaced,
    as_batch,
    as_histories,
    require_items,
)
from dealfl.learners.inputs import as_array, is_sparse, require_integer
from dealfl.learners.pagerank.pairs import (
    Signed,
    count_pairs,
    items_of,
    pair_count,
    pair_number,
    replaced,
    signed_cost,
)
from dealfl.learners.pagerank.plain import best_indices
from dealfl.learners.pagerank.table import LAYOUTS, Marks, PairTable, ReorderedPairs
from dealfl.learners.records import Change
from dealfl.settings import As, OneOf

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

ItemOrder = Annotated[
    ArrayLike | None,
    As(tuple[int, ...]),
    Meta(description="order in memory: every item number once, such as the most popular first"),
]
PairLayout = Annotated[
    str,
    OneOf(LAYOUTS),
    Meta(description="memory of the counts: packed forgets faster, full answers faster"),
]

_MAX_ITEMS = 1 << 30
_FEW_ITEMS = 1 << 16
_UNKNOWN = np.iinfo(np.int32).max
_TOGETHER = 128  # histories whose scores are summed in one pass
_EPSILON = 2.0**-52
_DISTINCT = 1 << 26  # different fractions with smaller denominators have different floats


class PersonalizedPageRank(HistoryLearner):
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

    Notes
    -----
    Compiled loops and numpy give the same answers, errors and `last_work`. The exception are
    statistics that `check` refuses, which only `merge` can bring: `similar` and `recommend` raise
    `Impossible` where they notice it, and otherwise their answers and scores are not defined.

    References
    ----------
    .. [1] G. Linden, B. Smith, J. York: Amazon.com recommendations: item-to-item collaborative
       filtering. IEEE Internet Computing 7(1), 2003.

    Examples
    --------
    >>> model = PersonalizedPageRank(n_items=4)
    >>> delta = model.learn([[0, 1], [0, 1, 2], [2, 3]])
    >>> items, scores = model.similar(0, k=2)
    >>> items.tolist(), scores.round(2).tolist()
    ([1, 2], [1.0, 0.33])
    >>> model.recommend([0], k=1)[0].tolist()
    [1]
    """

    name = "personalized_pagerank"
    tasks = ("recommendation",)
    cycles = LearnerCycles(
        Cycles(145.8, 884400),
        Cycles(21.68, 88560),
        Cycles(132.3, 322300),
        Cycles(166.8, 612100),
        Cycles(6.345, 1775000),
    )
    workload = Workload({"n_items": N_ITEMS}, histories, 2, 400)

    def __init__(
        self,
        n_items: int,
        item_order: ItemOrder = None,
        layout: PairLayout = "packed",
        *,
        storage: Storage | None = None,
    ) -> None:
        self._items = require_integer(n_items, "n_items", 1, _MAX_ITEMS)
        self._item_order = _as_order(item_order, self._items)
        self._layout = layout
        if layout not in LAYOUTS:
            raise unknown_name("layout", layout, LAYOUTS)
        sizes = {"items": self._items, "pairs": pair_count(self._items)}
        arrays = tuple(ArraySpec(name, size, 32) for name, size in sizes.items())
        schema = Schema(self.name, {"n_items": self._items}, arrays)
        self._table: PairTable | None = None
        super().__init__(schema, self._placed(storage))
        self._live = self._find_live()
        self._room = _UNKNOWN  # histories that can be learned before a count can overflow
        # An upper bound of the count of each item's most common pair, for a cheap check.
        # Where it is 0, the bound is `_other_most`: zeros that are never written use no memory.
        self._most = np.zeros(self._items, dtype=np.int32)
        self._other_most = 0
        self._is_sparse = pair_count(self._items) > DENSE_LIMIT
        # The items that occur with each item, if there are too many items to look at each of them;
        # None if they must be found in the statistics.
        self._partners: dict[int, set[int]] | None = {}

    def _find_live(self) -> tuple[PairTable, NDArray[np.int32], tuple[Marks, Marks]] | None:
        """Return what histories change in place, not a copy; None if it is not in memory."""
        counts, state = self._item_counts, self._state
        if self._table is None or counts is None:
            return None
        return self._table, counts, (state.stale("items"), state.stale("pairs"))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._live = self._find_live()  # joblib copies an array that is held twice

    @classmethod
    def settings_for(cls, data: DataLimits) -> dict[str, Any]:
        """Return the constructor arguments for data with these limits."""
        return {"n_items": data.n_items}

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor arguments of an equal, empty learner."""
        order = None if self._item_order is None else self._item_order.tolist()
        return {"n_items": self._items, "item_order": order, "layout": self._layout}

    @property
    def n_items(self) -> int:
        """The number of items."""
        return self._items

    @property
    def _item_counts(self) -> NDArray[np.int32] | None:
        """The counts of items in memory, not a copy; None if they are elsewhere."""
        items = self._state.cells("items")
        return items.low if isinstance(items, DenseCells) else None

    @cached_property
    def _first(self) -> Int64s:
        """The number of each item's pair with item 0."""
        return pair_number(np.arange(self._items), np.zeros(self._items, dtype=np.int64))

    def _placed(self, storage: Storage | None) -> Storage:
        """Return storage with pairs in the order and layout of the settings."""
        if self._layout == "full" and (storage or pair_count(self._items) > DENSE_LIMIT):
            raise BadInput(f"layout 'full' needs memory for {self._items}² counts; use 'packed'")

        def placed(spec: ArraySpec) -> Cells:
            if spec.name != "pairs":
                return (storage or in_memory)(spec)
            if self._layout == "full":
                self._table = PairTable(self._items, self._item_order, None)
                return self._table
            cells = (storage or in_memory)(spec)
            if isinstance(cells, DenseCells):
                self._table = PairTable(self._items, self._item_order, cells.low)
                return self._table
            if self._item_order is None or spec.size > DENSE_LIMIT:
                return cells
            return ReorderedPairs(cells, self._item_order)

        return placed

    # -- how histories change the counts -----------------------------------------------------------

    def learn(self, histories: object) -> Statistics:
        """Add histories."""
        return self._atomically(self._change, [(histories, +1)])

    def forget(self, histories: object) -> Statistics:
        """Remove histories; the result is the same as if they had never been learned."""
        return self._atomically(self._change, [(histories, -1)])

    def update(self, learn: tuple[Any, ...] = (), forget: tuple[Any, ...] = ()) -> Statistics:
        """Add and remove histories in one pass; on any error nothing changes."""
        parts = [(part[0], sign) for part, sign in ((learn, +1), (forget, -1)) if part]
        return self._atomically(self._change, parts)

    def _change(self, parts: Sequence[tuple[object, int]], undo: Undo) -> Statistics:
        size, schema = self._items, self._state.schema
        batches = [(as_batch(histories, size), sign) for histories, sign in parts]
        changed = self._change_table(parts, batches, undo)
        if not changed:
            batches = [(as_histories(histories, size), sign) for histories, sign in parts]
        # without a cycle of references, which would keep large tables in memory
        delta = Statistics(schema, Deferred(schema, lambda: count_pairs(schema, batches)))
        if not changed:
            self._apply(delta, undo, forgetting=any(sign < 0 for _, sign in batches))
            self._follow_delta(delta)
        self._work = lambda: signed_cost(batches, delta.count_nonzero())
        return delta

    def _change_table(
        self, parts: Sequence[tuple[object, int]], batches: Signed, undo: Undo
    ) -> bool:
        """Change counts in memory; return False if they are elsewhere, or can overflow."""
        learned = 0
        for batch, sign in batches:
            if sign > 0:
                learned += len(batch.starts) - 1
        if self._live is None or self._room < learned:
            return False
        table, counts, stale = self._live
        for number, (batch, sign) in enumerate(batches):
            if len(batch.items):  # every history changes the counts of its items
                item = batch.items.item(0) % self._items
                before = counts.item(item)
                undo.append(
                    (self._take_back, counts, item, before, table.undo, counts, batch, sign)
                )
            if not table.change(counts, stale, batch, sign):
                sets = as_histories(parts[number][0], self._items)  # sorted, or refused
                batch.items[:] = sets.items
                table.change(counts, stale, batch, sign)
        self._room -= learned
        return True

    def _replaced(self, owners: Sequence[Replaced]) -> Change:
        return replaced(self.schema, owners)

    def _follow_delta(self, delta: Statistics) -> None:
        if self._table is not None:
            self._forget_model()
        numbers = delta["pairs"].indices
        after = self._state.cells("pairs").at(numbers).low
        for ends in items_of(numbers):
            bounded = np.flatnonzero(self._most[ends] >= (self._other_most > 0))
            np.maximum.at(self._most, ends[bounded], after[bounded].astype(np.int32))
        if self._is_sparse and self._partners is not None:
            _note_partners(self._partners, numbers, after)
        self._room -= max(int(delta[name].values.low.max(initial=0)) for name in delta)

    def _merge(self, delta: Statistics, undo: Undo) -> None:
        super()._merge(delta, undo)
        self._room -= max(int(delta[name].values.low.max(initial=0)) for name in delta)

    def _refuse_unlearned(self, proposals: Mapping[str, Proposal]) -> None:
        items, pairs = proposals["items"], proposals["pairs"]
        if np.any(items.values.negative) or np.any(pairs.values.negative):
            raise NotLearned("this history was never learned: a count would be negative")
        for item, count in zip(items.indices.tolist(), items.values.low.tolist(), strict=True):
            most = self._most[item] or self._other_most
            if count < most and count < self._commonest(item, pairs):
                few = f"item {item} would be in {count} histories, but in more with another item"
                raise NotLearned(f"this history was never learned: {few}")

    def _commonest(self, item: int, pairs: Proposal) -> int:
        """Return the count of the item's most common pair after a change, and store it."""
        others, counts = self._row(item)
        before = int(counts.max(initial=0))
        numbers = pair_number(np.full(len(others), item), others)
        if len(pairs.indices):
            at = np.minimum(np.searchsorted(pairs.indices, numbers), len(pairs.indices) - 1)
            counts = np.where(pairs.indices[at] == numbers, pairs.values.low[at], counts)
        commonest = int(counts.max(initial=0))
        self._most[item] = max(commonest, before)
        return commonest

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
            partners: dict[int, set[int]] = {}
            _note_partners(partners, pairs.indices, pairs.values.low)
            self._partners = partners
        others = np.array(sorted(self._partners.get(item, ())), dtype=np.int64)
        numbers = pair_number(np.full(len(others), item), others)
        return others, self._state.cells("pairs").at(numbers).low

    def _forget_model(self) -> None:
        self._partners = None
        self._other_most = _UNKNOWN
        self._most = np.zeros(self._items, dtype=np.int32)
        if self._table is not None:
            self._table.forget_slacks()

    # -- are these counts possible? ----------------------------------------------------------------

    @property
    def max_entry(self) -> int:
        """The largest integer that one record adds to a count."""
        return 1

    def count_records(self, statistics: Statistics) -> int:
        """Return the number of items in all histories of statistics."""
        return int(statistics["items"].values.low.sum())

    def check(self) -> None:
        """Raise `Impossible` if no set of histories has these statistics."""
        self.check_statistics(self.statistics)

    def check_statistics(self, statistics: Statistics) -> None:
        """Raise `Impossible` if no set of histories has some statistics."""
        items, pairs = statistics["items"], statistics["pairs"]
        numbers = items.values.low
        if np.any(numbers < 0):
            worst = int(np.argmin(numbers))
            raise Impossible(f"item {items.indices[worst]} is in {numbers[worst]} histories")
        (first, second), counts = items_of(pairs.indices), pairs.values.low
        of_first, of_second = self._histories_of(items, first), self._histories_of(items, second)
        wrong = np.flatnonzero((counts < 0) | (counts > np.minimum(of_first, of_second)))
        for pair in wrong[:1]:
            raise Impossible(
                f"items {first[pair]} and {second[pair]} are both in {counts[pair]} "
                f"histories, but each in {of_first[pair]} and {of_second[pair]}"
            )

    def _histories_of(self, items: Entries, wanted: Int64s) -> Int64s:
        """Return in how many histories some items are; all items become an array if they are few.

        A message or file can state any number of items; memory follows what it contains.
        """
        if self._items <= _FEW_ITEMS + 8 * len(items):
            return items.dense(self._items).low[wanted]
        if not len(items):
            return np.zeros(len(wanted), np.int64)
        places = np.minimum(np.searchsorted(items.indices, wanted), len(items) - 1)
        return np.where(items.indices[places] == wanted, items.values.low[places], 0)

    def check_added(self, delta: Statistics, touched: Statistics, whole: Statistics) -> None:
        """Raise `Impossible` if no set of histories has a sum of statistics."""
        pairs = (whole if np.any(delta["items"].values.negative) else touched)["pairs"]
        self.check_statistics(Statistics(self.schema, {"items": whole["items"], "pairs": pairs}))

    # -- similarities and recommendations ----------------------------------------------------------

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
        wanted = require_integer(k, "k", 1, _MAX_ITEMS)
        with self._lock:
            self._work = Work(self._items, 2 * 4 * self._items)
            table, item_counts = self._table, self._item_counts
            if table is not None and item_counts is not None:
                others, counts, unions = table.most_similar(item_counts, number, wanted)
            else:
                others, counts = self._row(number)
                unions = self._unions(number, others, counts)
        _require_ratios(counts, unions)
        return top_ratios(others, counts, unions, wanted)

    def _unions(self, item: int, others: Int64s, counts: Int64s) -> Int64s:
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
            unions = self._unions(item, others, counts)
            _require_ratios(counts, unions)
            scores[others] += counts / unions
        return scores

    def recommend(self, history: object, k: int = 10) -> Ranked:
        """Return the items with the largest sum of similarities to the items of a history."""
        seen = self._as_history(history)
        wanted = require_integer(k, "k", 1, _MAX_ITEMS)
        with self._lock:
            self._work = Work(self._items * len(seen), 2 * 4 * self._items * len(seen))
            return self._best(seen, self._scores(seen), wanted)

    def _find_hits(
        self, histories: Sequence[Sequence[int]], wanted: Sequence[int], k: int
    ) -> Iterator[bool]:
        most = require_integer(k, "k", 1, _MAX_ITEMS)
        for (seen, scores), item in zip(self._all_scores(histories), wanted, strict=True):
            scores[seen] = 0.0
            clear = is_among(scores, item, most, 2.0 * slack_of(len(seen)))
            yield item in self._best(seen, scores, most)[0] if clear is None else clear

    def _all_scores(self, histories: Sequence[Sequence[int]]) -> Iterator[tuple[Int64s, Floats]]:
        """Yield the items of each history, and the score of every item for it."""
        table, item_counts = self._table, self._item_counts
        many = 4 * sum(map(len, histories)) > self._items
        together = many and self._layout == "packed"  # full rows are fast alone
        if table is None or item_counts is None or not together:
            for seen in map(self._as_history, histories):
                yield seen, self._scores(seen)
            return
        for first in range(0, len(histories), _TOGETHER):
            some = [self._as_history(history) for history in histories[first : first + _TOGETHER]]
            batch = Batch(np.cumsum([0, *map(len, some)]), np.concatenate(some))
            yield from zip(some, table.sum_all_similarities(item_counts, batch), strict=True)

    def _best(self, seen: Int64s, scores: Floats, wanted: int) -> Ranked:
        scores[seen] = 0.0
        best = best_indices(scores, wanted, 1.0 - 2.0 * slack_of(len(seen)))
        if scores[best].max(initial=0.0) > len(seen) + 0.5:  # the largest similarity is 1
            raise _no_histories()

        def terms(index: int) -> list[tuple[int, int]]:
            other = np.full(len(seen), best[index])
            pairs = self._state.cells("pairs").at(pair_number(seen, other)).low
            items = self._state.cells("items")
            unions = items.at(seen).low + items.at(other).low - pairs
            _require_ratios(pairs, unions)
            ratios = zip(pairs.tolist(), unions.tolist(), strict=True)
            return [ratio for ratio in ratios if ratio[0]]

        return top_sums(best, scores[best], wanted, terms, len(seen))

    def _as_history(self, history: object) -> Int64s:
        if is_sparse(history):
            batch = as_histories(history, self._items)
            if len(batch.starts) != 2:
                raise BadInput(f"history has {len(batch.starts) - 1} rows; it must have one")
            return batch.items
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
        with self._lock:
            items, pairs = self._state.whole("items").low, self._state.snapshot()["pairs"]
            similarities = self._derived()[1]
        first, second = items_of(pairs.indices)
        return {
            "item_counts": items,
            "pair_first": first,
            "pair_second": second,
            "pair_counts": pairs.values.low,
            "pair_similarities": similarities,
        }

    def _derived(self) -> SparseVector:
        pairs = self._state.snapshot()["pairs"]
        items = self._state.whole("items").to_float()
        first, second = items_of(pairs.indices)
        counts = pairs.values.to_float()
        unions = items[first] + items[second] - counts
        _require_ratios(counts, unions)
        return pairs.indices, counts / unions


def _require_ratios(counts: NDArray[Any], unions: NDArray[Any]) -> None:
    """Raise `Impossible` if some items occur together more often than one or the other does."""
    if (counts > unions).any() or (counts < 0).any():
        raise _no_histories()


def _no_histories() -> Impossible:
    return Impossible(
        "no histories have these statistics: two items are in more histories together than one of "
        "them is, or in fewer than 0; check() names the items"
    )


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


# -- exact rankings: descending score, then ascending id -----------------------------------------
#
# Most of the work uses floats. Division rounds monotonically, so only scores whose floats are equal
# (or, for sums, within the rounding error) need the exact comparison as fractions.


def top_ratios(ids: Int64s, numerators: Int64s, denominators: Int64s, k: int) -> Ranked:
    """Return the k ids with the largest numerator / denominator, and these ratios.

    Examples
    --------
    >>> items, ratios = top_ratios(np.array([7, 3, 5]), np.array([1, 2, 1]), np.array([2, 4, 3]), 2)
    >>> items.tolist()
    [3, 7]
    """
    scores = numerators / denominators
    if not len(ids) or denominators.max() < _DISTINCT:
        best = np.lexsort((ids, -scores))[:k]
        return ids[best], scores[best]

    def exact(position: int) -> Fraction:
        return Fraction(int(numerators[position]), int(denominators[position]))

    return _ranked(ids, scores, k, exact, slack=0.0)


def top_sums(
    ids: Int64s,
    scores: Floats,
    k: int,
    terms: Callable[[int], Sequence[tuple[int, int]]],
    most: int,
) -> Ranked:
    """Return the k ids with the largest sum of at most `most` ratios, listed by `terms(position)`.

    `scores` are the sums in floats, added one by one.
    """
    sums: dict[tuple[tuple[int, int], ...], Fraction] = {}

    def exact(position: int) -> Fraction:
        ratios = tuple(sorted(terms(position)))
        if ratios not in sums:
            sums[ratios] = sum((Fraction(*ratio) for ratio in ratios), Fraction())
        return sums[ratios]

    return _ranked(ids, scores, k, exact, slack_of(most))


def is_among(scores: Floats, item: int, k: int, slack: float) -> bool | None:
    """Return whether an item has one of the k largest positive scores; None if it is unclear.

    >>> scores = np.array([0.5, 0.9, 0.0, 0.5])
    >>> [is_among(scores, item, 2, 1e-9) for item in range(4)]
    [None, True, False, None]
    """
    own = scores[item] if 0 <= item < len(scores) else 0.0
    if own == 0.0 or np.count_nonzero(scores * (1.0 - slack) > own) >= k:
        return False
    return True if np.count_nonzero(scores >= own * (1.0 - slack)) <= k else None


def slack_of(terms: int) -> float:
    """Return the relative rounding error of a sum of ratios."""
    return (terms + 2) * _EPSILON


def _ranked(
    ids: Int64s, scores: Floats, k: int, exact: Callable[[int], Fraction], slack: float
) -> Ranked:
    positions = _worth_ranking(scores, k, slack)
    order = positions[np.lexsort((ids[positions], -scores[positions]))]
    for start, stop in _unclear_runs(scores[order], slack):
        if start < k:
            run = sorted(order[start:stop].tolist(), key=lambda p: (-exact(p), int(ids[p])))
            order[start:stop] = run
    return ids[order[:k]], scores[order[:k]]


def _worth_ranking(scores: Floats, k: int, slack: float) -> Int64s:
    """Return the positions whose score can be among the k largest."""
    if len(scores) <= k:
        return np.arange(len(scores))
    return np.flatnonzero(scores >= np.partition(scores, -k)[-k] * (1.0 - 2.0 * slack))


def _unclear_runs(descending: Floats, slack: float) -> list[tuple[int, int]]:
    """Return the runs of adjacent scores whose floats do not determine their order."""
    clear = descending[:-1] * (1.0 - slack) > descending[1:]
    if np.count_nonzero(clear) == len(clear):
        return []
    stops = np.append(np.flatnonzero(clear) + 1, len(descending))
    starts = np.append(0, stops[:-1])
    pairs = zip(starts.tolist(), stops.tolist(), strict=True)
    return [(start, stop) for start, stop in pairs if stop - start > 1]
