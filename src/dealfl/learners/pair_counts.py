"""Counts of items and of pairs of items in histories: the statistics of recommendations.

Counts in memory are changed in place (`pair_table`). Other cells, such as those in files or of very
many items, are read and written by pair number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    Deferred,
    DenseCells,
    Entries,
    Integers,
    Proposal,
    Schema,
    Statistics,
    Storage,
    in_memory,
)
from dealfl.learners.history_changes import Replaced, Signed, count_pairs, replaced, signed_cost
from dealfl.learners.history_learner import HistoryLearner, as_batch, as_histories
from dealfl.learners.inputs import require_integer
from dealfl.learners.pair_numbers import ItemOrder, items_of, pair_number
from dealfl.learners.pair_table import LAYOUTS, PairTable
from dealfl.learners.records import Change
from dealfl.settings import OneOf

__all__ = ["MAX_ITEMS", "PairCounts", "PairLayout"]

Int64s = NDArray[np.int64]

PairLayout = Annotated[
    str,
    OneOf(LAYOUTS),
    Meta(description="memory of the counts: packed forgets faster, full answers faster"),
]

MAX_ITEMS = 1 << 30
_UNKNOWN = np.iinfo(np.int32).max


class PairCounts(HistoryLearner):
    """The number of histories with each item and with each pair of items."""

    def __init__(
        self, n_items: int, item_order: ItemOrder = None, layout: PairLayout = "packed",
        *, storage: Storage | None = None,
    ) -> None:  # fmt: skip
        self._items = require_integer(n_items, "n_items", 1, MAX_ITEMS)
        self._item_order = _as_order(item_order, self._items)
        self._layout = layout
        if layout not in LAYOUTS:
            raise unknown_name("layout", layout, LAYOUTS)
        sizes = {"items": self._items, "pairs": _pair_count(self._items)}
        arrays = tuple(ArraySpec(name, size, 32) for name, size in sizes.items())
        schema = Schema(self.name, {"n_items": self._items}, arrays)
        self._table: PairTable | None = None
        super().__init__(schema, self._placed(storage))
        self._room = _UNKNOWN  # histories that can be learned before a count can overflow
        # An upper bound of the count of each item's most common pair, for a cheap check.
        self._most = np.zeros(self._items, dtype=np.int32)
        self._is_sparse = _pair_count(self._items) > DENSE_LIMIT
        # The items that occur with each item, if there are too many items to look at each of them;
        # None if they must be found in the statistics.
        self._partners: dict[int, set[int]] | None = {}

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
        if self._layout == "full" and (storage or _pair_count(self._items) > DENSE_LIMIT):
            raise BadInput(f"layout 'full' needs memory for {self._items}² counts; use 'packed'")

        def place(spec: ArraySpec) -> Cells:
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
        return self._change([(histories, +1)])

    def forget(self, histories: object) -> Statistics:
        """Remove histories; the result is the same as if they had never been learned."""
        return self._change([(histories, -1)])

    def update(self, learn: tuple[Any, ...] = (), forget: tuple[Any, ...] = ()) -> Statistics:
        """Add and remove histories in one pass; on any error nothing changes."""
        return self._change([(part[0], sign) for part, sign in ((learn, +1), (forget, -1)) if part])

    def _change(self, parts: Sequence[tuple[object, int]]) -> Statistics:
        size, schema = self._items, self.schema
        batches = [(as_batch(histories, size), sign) for histories, sign in parts]
        changed = self._change_table(batches)
        if not changed:
            batches = [(as_batch(as_histories(one, size), size), sign) for one, sign in parts]
            changed = self._change_table(batches)
        # without a cycle of references, which would keep large tables in memory
        delta = Statistics(schema, Deferred(schema, lambda: count_pairs(schema, batches)))
        if not changed:
            self._apply(delta, forgetting=any(sign < 0 for _, sign in batches))
            with self._undoing(delta):
                self._follow_delta(delta)
        self._work = lambda: signed_cost(batches, delta.count_nonzero())
        return delta

    def _change_table(self, batches: Signed) -> bool:
        """Change counts in memory; return False if they are elsewhere or a history is no set."""
        learned = sum([len(batch.starts) - 1 for batch, sign in batches if sign > 0])
        table, counts = self._table, self._item_counts
        if table is None or counts is None or self._room < learned:
            return False
        stale = self._state.stale("items"), self._state.stale("pairs")
        for place, (batch, sign) in enumerate(batches):
            changed = False
            try:
                changed = table.change(counts, stale, batch, sign)
            finally:
                for done, done_sign in () if changed else batches[:place]:
                    table.change(counts, stale, done, -done_sign)
            if not changed:
                return False
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
            np.maximum.at(self._most, ends, after.astype(np.int32))
        if self._is_sparse and self._partners is not None:
            _note_partners(self._partners, numbers, after)
        self._room -= max(int(delta[name].values.low.max(initial=0)) for name in delta)

    def merge(self, delta: Statistics) -> None:
        """Add the statistics that another worker learned or forgot."""
        super().merge(delta)
        self._room -= max(int(delta[name].values.low.max(initial=0)) for name in delta)

    def _refuse_unlearned(self, proposals: Mapping[str, Proposal]) -> None:
        items, pairs = proposals["items"], proposals["pairs"]
        if np.any(items.values.negative) or np.any(pairs.values.negative):
            raise NotLearned("this history was never learned: a count would be negative")
        for item, count in zip(items.indices.tolist(), items.values.low.tolist(), strict=True):
            if count < self._most[item] and count < self._commonest(item, pairs):
                few = f"item {item} would be in {count} histories, but in more with another item"
                raise NotLearned(f"this history was never learned: {few}")

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
        self.check_statistics(self._state.snapshot())

    def check_statistics(self, statistics: Statistics) -> None:
        """Raise `Impossible` if no set of histories has some statistics."""
        items, pairs = statistics["items"].dense(self._items).low, statistics["pairs"]
        if np.any(items < 0):
            worst = int(np.argmin(items))
            raise Impossible(f"item {worst} is in {items[worst]} histories")
        (first, second), counts = items_of(pairs.indices), pairs.values.low
        wrong = np.flatnonzero((counts < 0) | (counts > np.minimum(items[first], items[second])))
        for place in wrong[:1]:
            raise Impossible(
                f"items {first[place]} and {second[place]} are both in {counts[place]} "
                f"histories, but each in {items[first[place]]} and {items[second[place]]}"
            )

    def check_added(self, delta: Statistics, touched: Statistics, whole: Statistics) -> None:
        """Raise `Impossible` if no set of histories has a sum of statistics."""
        pairs = (whole if np.any(delta["items"].values.negative) else touched)["pairs"]
        self.check_statistics(Statistics(self.schema, {"items": whole["items"], "pairs": pairs}))

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
        if self._table is not None:
            self._table.forget_slacks()


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


def _pair_count(items: int) -> int:
    """Return the number of pairs of `items` items."""
    return items * (items - 1) // 2


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
