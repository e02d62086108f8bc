"""Counts of pairs in memory, and how histories change them.

A history can be forgotten only if no item then has fewer histories than one of its pairs. Only
pairs that the history does not contain can break this rule. The *slack* of a pair of an item is the
number of the item's histories without the other item. The table knows, for each item, how many
pairs have the slacks 0, 1, 2, …: forgetting needs no look at other pairs until this is used up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dealfl.errors import NotLearned
from dealfl.exact import BLOCK, Entries, Integers, is_compiled
from dealfl.learners.pair_numbers import Batch, items_of, numbers_of, row_products, triangle

__all__ = ["LAYOUTS", "PairTable"]

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]

LAYOUTS = ("packed", "full")
_LEVELS = 8  # slacks that are counted
_ALL = 1 << 30  # every slack is known
_CHUNK = 1 << 22  # pairs at a time
_NEGATIVE, _TIGHT = 1, 2


@cache
def _compiled_change() -> Callable[..., int]:
    from dealfl.learners.pair_loops import change_histories

    return change_histories


class PairTable:
    """Cells of pairs in some order: a packed triangle, `counts`, or else a full matrix."""

    def __init__(self, size: int, order: Int64s | None, counts: Int32s | None) -> None:
        self._size, self._full = size, counts is None
        self._counts = np.zeros(size * size, dtype=np.int32) if counts is None else counts
        self._order = np.arange(size) if order is None else order
        self._rank_of = np.empty(0 if order is None else size, dtype=np.int64)
        if order is not None:
            self._rank_of[order] = np.arange(size)
        self._guard = np.zeros((size, _LEVELS + 1), dtype=np.int32)
        self._guard[:, 0], self._guard[:, _LEVELS] = size - 1, _ALL
        self._plain = counts is not None and order is None
        self._refused = np.zeros(2, dtype=np.int64)

    def _ranks(self, items: Int64s) -> Int64s:
        return self._rank_of[items] if len(self._rank_of) else items

    def _starts(self, ranks: Int64s) -> Int64s:
        return ranks * self._size if self._full else ranks * (ranks - 1) // 2

    def _places(self, numbers: Int64s) -> tuple[Int64s, Int64s]:
        """Return the place of each pair in the lower and in the upper triangle."""
        first, second = (self._ranks(items) for items in items_of(numbers))
        high, low = np.maximum(first, second), np.minimum(first, second)
        return self._starts(high) + low, self._starts(low) + high

    def at(self, indices: Int64s) -> Integers:
        """Return the counts of some pairs."""
        places = indices if self._plain else self._places(indices)[0]
        return Integers(self._counts[places].astype(np.int64))

    def put(self, indices: Int64s, values: Integers) -> None:
        """Replace the counts of some pairs."""
        places, mirrored = (indices, indices) if self._plain else self._places(indices)
        self._counts[places] = values.low
        if self._full:
            self._counts[mirrored] = values.low

    def entries(self, start: int, stop: int) -> Entries:
        """Return the non-zeros with start ≤ number < stop."""
        stop = min(stop, self._size * (self._size - 1) // 2)
        if self._plain:
            return Entries.of_dense(Integers(self._counts[start:stop]), start)  # type: ignore[arg-type]
        return Entries.of_dense(self.at(np.arange(start, stop, dtype=np.int64)), start)

    # -- histories ------------------------------------------------------------------------------

    def change(self, items: Int32s, stale: tuple[Marks, Marks], batch: Batch, sign: int) -> bool:
        """Learn or forget histories, or change nothing; return False if one is not a set."""
        pairs = batch.pair_count
        if sign > 0 and len(batch.starts) > 2 and 16 * pairs >= self._size * self._size:
            return self._learn_rows(items, stale, batch)
        if is_compiled(pairs):
            problem = _compiled_change()(
                self._counts, items, self._guard, stale[1], stale[0], self._order, self._rank_of,
                batch.starts, batch.items, self._full, sign < 0, self._refused,
            )  # fmt: skip
        else:
            problem = self._change(items, stale, batch, sign)
        if problem in (_NEGATIVE, _TIGHT):
            item, count = self._refused.tolist()
            tight = f"item {item} would be in {count} histories, but in more with another item"
            found = "a count would be negative" if problem == _NEGATIVE else tight
            raise NotLearned(f"this history was never learned: {found}")
        return bool(problem == 0)

    def _learn_rows(self, items: Int32s, stale: tuple[Marks, Marks], batch: Batch) -> bool:
        if is_compiled(batch.pair_count):
            from dealfl.learners.row_loops import add_histories, guard_rows

            layout = batch.starts, batch.items, self._full
            if add_histories(self._counts, items, self._rank_of, *layout):
                return False
            guard_rows(self._counts, items, self._guard, self._order, self._full)
        elif not batch.are_sets(self._size):
            return False
        else:
            items += np.bincount(batch.items, minlength=self._size).astype(np.int32)
            self._add_rows(batch)
            self._guard_rows(items)
        stale[0][:], stale[1][:] = True, True
        return True

    def _add_rows(self, batch: Batch) -> None:
        """Add the product of the transposed histories with themselves, a few rows at a time."""
        shape, ones = (len(batch.starts) - 1, self._size), np.ones(len(batch.items), dtype=np.int32)
        table = sparse.csr_array((ones, self._ranks(batch.items), batch.starts), shape=shape)
        for first, rows in row_products(table):
            block = rows.tocoo()
            high, low = block.row.astype(np.int64) + first, block.col.astype(np.int64)
            kept = np.flatnonzero(high != low if self._full else high > low)
            self._counts[self._starts(high[kept]) + low[kept]] += block.data[kept]

    def _change(self, items: Int32s, stale: tuple[Marks, Marks], batch: Batch, sign: int) -> int:
        if not batch.are_sets(self._size):
            return 3
        bounds = list(zip(batch.starts[:-1].tolist(), batch.starts[1:].tolist(), strict=True))
        for done, (start, stop) in enumerate(bounds):
            own = batch.items[start:stop]
            problem = self._forget(items, own) if sign < 0 else self._step(items, own, +1)
            if problem:
                for back in bounds[:done]:
                    self._step(items, batch.items[slice(*back)], +1)
                return problem
        for start, stop in bounds:
            stale[1][numbers_of(batch.items[start:stop]) // BLOCK] = True
        stale[0][batch.items // BLOCK] = True
        return 0

    def _forget(self, items: Int32s, own: Int64s) -> int:
        if np.any(items[own] <= 0):
            return _NEGATIVE
        for item in own[self._guard[own, _LEVELS] == 0].tolist():
            if self._guard_row(items, item) < 0:
                self._refused[:] = item, items[item] - 1
                return _TIGHT
        return self._step(items, own, -1)

    def _step(self, items: Int32s, own: Int64s, sign: int) -> int:
        """Add one history, or subtract it unless the statistics show that it was not learned."""
        own = own[np.argsort(self._ranks(own))]
        ranks = self._ranks(own)
        upper, lower = triangle(len(own))
        places = self._starts(ranks[upper]) + ranks[lower]
        values = self._counts[places]
        if sign < 0 and np.any(values <= 0):
            return _NEGATIVE
        touched = np.zeros(len(own) * _LEVELS, dtype=np.int64)
        for ends in (upper, lower):
            slacks = np.maximum(items[own][ends] - values, 0)
            small = np.flatnonzero(slacks < _LEVELS)
            touched += np.bincount(ends[small] * _LEVELS + slacks[small], minlength=len(touched))
        table, lines = touched.reshape(-1, _LEVELS), self._guard[own]
        tight = np.flatnonzero(lines[:, 0] > table[:, 0])
        if sign < 0 and len(tight):
            self._refused[:] = own[tight[0]], items[own[tight[0]]] - 1
            return _TIGHT
        self._counts[places] = values + sign
        if self._full:
            self._counts[self._starts(ranks[lower]) + ranks[upper]] = values + sign
        items[own] += sign
        follow = _after_learning if sign > 0 else _after_forgetting
        self._guard[own] = follow(lines, table, items[own])
        return 0

    def forget_slacks(self) -> None:
        """Drop the counted slacks; they are counted again where they are needed."""
        self._guard[:, _LEVELS] = 0

    def _guard_row(self, items: Int32s, item: int) -> int:
        """Count the slacks of one item; return the smallest."""
        slacks = np.delete(items[item] - self._line(item), self._ranks(np.array([item])))
        smallest, held = int(slacks.min(initial=items[item])), int(items[item])
        small = slacks[(slacks >= 0) & (slacks < _LEVELS)]
        self._guard[item, :_LEVELS] = np.bincount(small, minlength=_LEVELS)
        depth = _ALL if held < _LEVELS else max(smallest, _LEVELS)
        self._guard[item, _LEVELS] = 0 if smallest < 0 else depth
        return smallest

    def _guard_rows(self, items: Int32s) -> None:
        """Count the slacks of all items."""
        size, held = self._size, items.astype(np.int64)
        table = np.zeros(size * _LEVELS, dtype=np.int64)
        others, smallest = np.full(size, size - 1), held.copy()
        for first in range(0, len(self._counts), _CHUNK):
            where = np.flatnonzero(self._counts[first : first + _CHUNK]) + first
            values = self._counts[where]
            ends = (where // size,) if self._full else items_of(where)
            for one in (self._order[ranks] for ranks in ends):
                slacks = held[one] - values
                np.minimum.at(smallest, one, slacks)
                others -= np.bincount(one, minlength=size)
                small = np.flatnonzero((slacks >= 0) & (slacks < _LEVELS))
                places = one[small] * _LEVELS + slacks[small]
                table += np.bincount(places, minlength=len(table))
        self._guard[:, :_LEVELS] = table.reshape(size, _LEVELS)
        few = np.flatnonzero((held >= 0) & (held < _LEVELS))
        self._guard[few, held[few]] += others[few].astype(np.int32)
        depths = np.where(held < _LEVELS, _ALL, np.maximum(smallest, _LEVELS))
        self._guard[:, _LEVELS] = np.where(smallest < 0, 0, depths)

    def _line(self, item: int) -> Int32s:
        """Return the counts of one item with all others, by rank; its own is 0."""
        rank = int(self._ranks(np.array([item]))[0])
        if self._full:
            return self._counts[rank * self._size : (rank + 1) * self._size]
        base = rank * (rank - 1) // 2
        later = np.arange(rank + 1, self._size)
        parts = self._counts[base : base + rank], [0], self._counts[self._starts(later) + rank]
        return np.concatenate(parts).astype(np.int32)

    # -- queries --------------------------------------------------------------------------------

    def most_similar(self, items: Int32s, item: int, k: int) -> tuple[Int64s, Int64s, Int64s]:
        """Return the k items most similar to one, and equally similar ones; counts and unions."""
        from dealfl.learners.row_loops import most_similar

        held = items[self._order] if len(self._rank_of) else items
        rank = int(self._rank_of[item]) if len(self._rank_of) else item
        ranks, counts, unions = most_similar(self._counts, held, rank, self._full, k)
        return self._order[ranks], counts, unions

    def sum_similarities(self, items: Int32s, seen: Int64s) -> Floats:
        """Return, for each item, the sum of its similarities to some items."""
        ranks = self._ranks(seen)
        held = items[self._order] if len(self._rank_of) else items
        if is_compiled(len(seen) * self._size):
            from dealfl.learners.row_loops import sum_similarities

            scores: Floats = sum_similarities(self._counts, held, ranks, self._full)
        else:
            scores = np.zeros(self._size)
            for item, rank in zip(seen.tolist(), ranks.tolist(), strict=True):
                line = self._line(item)
                either = held + (held[rank] - line)
                scores += np.divide(line, either, out=np.zeros(self._size), where=line != 0)
        return scores[self._rank_of] if len(self._rank_of) else scores

    def sum_all_similarities(self, items: Int32s, batch: Batch) -> Floats:
        """Return, for each history and item, the sum of the item's similarities to the history."""
        from dealfl.learners.row_loops import sum_all_similarities

        held, ranks = items[self._order], self._ranks(batch.items)
        scores = sum_all_similarities(self._counts, held, batch.starts, ranks, self._full)
        return np.ascontiguousarray(scores[:, self._rank_of]) if len(self._rank_of) else scores


def _after_forgetting(lines: Int32s, touched: Int64s, held: Int32s) -> Int64s:
    """Return the slacks of items: those of untouched pairs shrink by 1."""
    after = lines.astype(np.int64)
    after[:, : _LEVELS - 1] = touched[:, :-1] + lines[:, 1:_LEVELS] - touched[:, 1:]
    after[:, _LEVELS - 1] = touched[:, -1]
    depths = lines[:, _LEVELS] - (lines[:, _LEVELS] < _ALL)
    known = (depths < _ALL) & (depths > held)
    unused = known[:, None] & (np.arange(_LEVELS) >= depths[:, None])
    after[:, :_LEVELS][unused] = 0
    after[:, _LEVELS] = np.where(known, _ALL, depths)
    return after


def _after_learning(lines: Int32s, touched: Int64s, held: Int32s) -> Int64s:  # noqa: ARG001
    """Return the slacks of items: those of untouched pairs grow by 1."""
    after = lines.astype(np.int64)
    after[:, 1:_LEVELS] = touched[:, 1:] + lines[:, : _LEVELS - 1] - touched[:, :-1]
    after[:, 0] = touched[:, 0]
    depths, beyond = lines[:, _LEVELS], lines[:, _LEVELS - 1] - touched[:, -1]
    deeper = depths + (depths < _LEVELS)  # the next level is known, too, if it is counted
    after[:, _LEVELS] = np.where(depths == _ALL, np.where(beyond > 0, _LEVELS, _ALL), deeper)
    return np.where(depths[:, None] == 0, lines, after)
