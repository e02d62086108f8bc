"""Changing and reading counts of pairs in numpy; `loops` has the same functions, compiled.

`pairs` is a packed lower triangle or, if `full`, a whole symmetric matrix of counts, in the order
of `rank_of` (empty if the rank of an item is its number); `order` has the item of each rank.
`items` has the count of each item, `item_counts` the same by rank. `guard` has, for each item, how
many other items have a slack of 0, 1, 2, … and, in its last column, the number of slacks for which
these figures are known (see `table`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dealfl.exact import BLOCK, twin
from dealfl.learners.histories import Batch
from dealfl.learners.pagerank.pairs import items_of, numbers_of, pair_counts, triangle

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]

LEVELS = 8  # slacks that are counted
ALL = 1 << 30  # every slack is known
NEGATIVE, TIGHT, NO_SET = 1, 2, 3  # why histories are refused
_CHUNK = 1 << 22  # pairs at a time


@twin
def change_histories(
    pairs: Int32s,
    items: Int32s,
    guard: Int32s,
    stale: Marks,
    stale_items: Marks,
    order: Int64s,
    rank_of: Int64s,
    starts: Int64s,
    ids: Int64s,
    full: bool,
    forgets: bool,
    refused: Int64s,
) -> int:
    """Learn or forget histories one after the other, or return why none was changed."""
    del order
    if not _are_sets(starts, ids, len(items)):
        return NO_SET
    table = _Table(pairs, items, guard, rank_of, full)
    histories = [ids[start:stop] for start, stop in pairwise(starts.tolist())]
    log: Log = []
    step = table.forget if forgets else table.learn
    try:
        try:
            for history in histories:
                problem = step(history, refused, log)
                if problem:
                    table.restore(log)
                    return problem
            for history in histories:
                stale[numbers_of(history) // BLOCK] = True
            stale_items[ids // BLOCK] = True
            return 0  # noqa: TRY300 - an interrupt here undoes the change, too
        except BaseException:
            table.restore(log)
            raise
    except BaseException:  # also an interrupt of that
        table.restore(log)
        raise


Log = list[tuple[Int64s, Int32s, Int64s, Int32s, Int32s]]  # cells, counts, items, counts, slacks


class _Table(NamedTuple):
    """The arrays that one history changes."""

    pairs: Int32s
    items: Int32s
    guard: Int32s
    rank_of: Int64s
    full: bool

    def learn(self, history: Int64s, refused: Int64s, log: Log) -> int:
        """Add one history."""
        return self._step(history, +1, refused, log)

    def restore(self, log: Log) -> None:
        """Write what was there before the first entry of a log."""
        for cells, counts, items, item_counts, slacks in reversed(log):
            self.pairs[cells] = counts
            self.items[items] = item_counts
            self.guard[items] = slacks

    def forget(self, history: Int64s, refused: Int64s, log: Log) -> int:
        """Subtract one history unless the statistics show that it was not learned."""
        if np.any(self.items[history] <= 0):
            return NEGATIVE
        own = self._by_rank(history)
        for item in own[self.guard[own, LEVELS] == 0].tolist():
            if self._count_slacks(item) < 0:
                refused[:] = item, self.items[item] - 1
                return TIGHT
        return self._step(history, -1, refused, log)

    def _by_rank(self, history: Int64s) -> Int64s:
        return history[np.argsort(self.rank_of[history])] if len(self.rank_of) else history

    def _step(self, history: Int64s, sign: int, refused: Int64s, log: Log) -> int:
        """Add or subtract the pairs of one history, and update the slacks of its items."""
        pairs, items, size = self.pairs, self.items, len(self.items)
        own = self._by_rank(history)
        ranks = self.rank_of[own] if len(self.rank_of) else own
        upper, lower = triangle(len(own))
        cells = _starts(ranks[upper], size, self.full) + ranks[lower]
        values = pairs[cells]
        if sign < 0 and np.any(values <= 0):
            return NEGATIVE
        touched = np.zeros(len(own) * LEVELS, dtype=np.int64)
        for ends in (upper, lower):
            slacks = np.maximum(items[own][ends] - values, 0)
            small = np.flatnonzero(slacks < LEVELS)
            touched += np.bincount(ends[small] * LEVELS + slacks[small], minlength=len(touched))
        by_item = touched.reshape(-1, LEVELS)
        lines = self.guard[own]
        tight = np.flatnonzero(lines[:, 0] > by_item[:, 0])
        if sign < 0 and len(tight):
            refused[:] = own[tight[0]], items[own[tight[0]]] - 1
            return TIGHT
        if self.full:
            mirrored = _starts(ranks[lower], size, True) + ranks[upper]
            cells = np.concatenate((cells, mirrored))
            values = np.concatenate((values, values))
        counts = items[own]
        follow = _after_learning if sign > 0 else _after_forgetting
        slacks = follow(lines, by_item, counts + sign)
        log.append((cells, values, own, counts, lines))
        pairs[cells] = values + sign
        items[own] = counts + sign
        self.guard[own] = slacks
        return 0

    def _count_slacks(self, item: int) -> int:
        """Count the slacks of one item; return the smallest."""
        rank = int(self.rank_of[item]) if len(self.rank_of) else item
        count = int(self.items[item])
        row = _row(self.pairs, len(self.items), rank, self.full)
        slacks = np.delete(self.items[item] - row, rank)
        smallest = int(slacks.min(initial=count))
        small = slacks[(slacks >= 0) & (slacks < LEVELS)]
        depth = ALL if count < LEVELS else max(smallest, LEVELS)
        if smallest < 0:
            depth = 0
        self.guard[item] = np.append(np.bincount(small, minlength=LEVELS), depth)
        return smallest


def _are_sets(starts: Int64s, ids: Int64s, size: int) -> bool:
    """Return whether each history has ascending items below `size`."""
    rising = np.ones(len(ids) + 1, dtype=np.bool_)
    rising[1:-1] = ids[1:] > ids[:-1]
    rising[starts] = True
    return bool(rising.all()) and not (len(ids) and (ids.min() < 0 or ids.max() >= size))


def _after_forgetting(lines: Int32s, touched: Int64s, counts: Int32s) -> Int64s:
    """Return the slacks of items: those of untouched pairs shrink by 1."""
    after = lines.astype(np.int64)
    after[:, : LEVELS - 1] = touched[:, :-1] + lines[:, 1:LEVELS] - touched[:, 1:]
    after[:, LEVELS - 1] = touched[:, -1]
    depths = lines[:, LEVELS] - (lines[:, LEVELS] < ALL)
    complete = (depths < ALL) & (depths > counts)
    unused = complete[:, None] & (np.arange(LEVELS) >= depths[:, None])
    after[:, :LEVELS][unused] = 0
    after[:, LEVELS] = np.where(complete, ALL, depths)
    return after


def _after_learning(lines: Int32s, touched: Int64s, counts: Int32s) -> Int64s:
    """Return the slacks of items: those of untouched pairs grow by 1."""
    del counts
    after = lines.astype(np.int64)
    after[:, 1:LEVELS] = touched[:, 1:] + lines[:, : LEVELS - 1] - touched[:, :-1]
    after[:, 0] = touched[:, 0]
    depths = lines[:, LEVELS]
    beyond = lines[:, LEVELS - 1] - touched[:, -1]
    deeper = depths + (depths < LEVELS)  # the next level is known, too, if it is counted
    after[:, LEVELS] = np.where(depths == ALL, np.where(beyond > 0, LEVELS, ALL), deeper)
    return np.where(depths[:, None] == 0, lines, after)


def _starts(ranks: Int64s, size: int, full: bool) -> Int64s:
    """Return where the counts of some ranks start."""
    return ranks * size if full else ranks * (ranks - 1) // 2


def _row(pairs: Int32s, size: int, rank: int, full: bool) -> Int32s:
    """Return the counts of one item with all others, by rank; its own is 0."""
    if full:
        return pairs[rank * size : (rank + 1) * size]
    first = rank * (rank - 1) // 2
    later = _starts(np.arange(rank + 1, size), size, full) + rank
    return np.concatenate((pairs[first : first + rank], [0], pairs[later])).astype(np.int32)


@twin
def add_histories(
    pairs: Int32s, items: Int32s, rank_of: Int64s, starts: Int64s, ids: Int64s, full: bool, by: int
) -> int:
    """Add to the counts of many histories, without the slacks; `NO_SET` if one is not a set."""
    size = len(items)
    if not _are_sets(starts, ids, size):
        return NO_SET
    ranks = ids
    if len(rank_of):
        histories = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        ranks = rank_of[ids][np.lexsort((rank_of[ids], histories))]
    before, log = items.copy(), list[tuple[Int64s, Int32s]]()
    try:
        for numbers, more in pair_counts(Batch(starts, ranks)):
            cells, added = numbers, by * more
            if full:
                high, low = items_of(numbers)
                cells = np.concatenate((high * size + low, low * size + high))
                added = np.concatenate((added, added))
            counts = pairs[cells]
            log.append((cells, counts))
            pairs[cells] = counts + added
        items += by * np.bincount(ids, minlength=size).astype(np.int32)
        return 0  # noqa: TRY300 - an interrupt here undoes the change, too
    except BaseException:
        for cells, counts in log:
            pairs[cells] = counts
        items[:] = before
        raise


@twin
def guard_rows(pairs: Int32s, items: Int32s, guard: Int32s, order: Int64s, full: bool) -> None:
    """Count the slacks of all items."""
    size = len(items)
    counts = items.astype(np.int64)
    table = np.zeros(size * LEVELS, dtype=np.int64)
    others = np.full(size, size - 1)
    smallest = counts.copy()
    for first in range(0, len(pairs), _CHUNK):
        cells = np.flatnonzero(pairs[first : first + _CHUNK]) + first
        values = pairs[cells]
        for ranks in (cells // size,) if full else items_of(cells):
            ends = order[ranks]
            slacks = counts[ends] - values
            np.minimum.at(smallest, ends, slacks)
            others -= np.bincount(ends, minlength=size)
            small = np.flatnonzero((slacks >= 0) & (slacks < LEVELS))
            table += np.bincount(ends[small] * LEVELS + slacks[small], minlength=len(table))
    guard[:, :LEVELS] = table.reshape(size, LEVELS)
    few = np.flatnonzero((counts >= 0) & (counts < LEVELS))
    guard[few, counts[few]] += others[few].astype(np.int32)
    depths = np.where(counts < LEVELS, ALL, np.maximum(smallest, LEVELS))
    guard[:, LEVELS] = np.where(smallest < 0, 0, depths)


@twin
def most_similar(
    pairs: Int32s, item_counts: Int32s, rank: int, full: bool, k: int
) -> tuple[Int64s, Int64s, Int64s]:
    """Return the k items most similar to one, and equally similar ones: ranks, counts, unions."""
    row = _row(pairs, len(item_counts), rank, full)
    similarities = _similarities(row, item_counts, rank)
    similarities[row < 0] = 0.0  # only of impossible counts
    ranks = best_indices(similarities, k, 1.0)
    counts = row[ranks].astype(np.int64)
    return ranks, counts, item_counts[ranks].astype(np.int64) + int(item_counts[rank]) - counts


def _similarities(row: Int32s, item_counts: Int32s, rank: int) -> Floats:
    either = item_counts + (item_counts[rank] - row)
    either += either == 0  # only of impossible counts
    similarities = np.zeros(len(item_counts))
    np.divide(row, either, out=similarities, where=row != 0)
    return similarities


@twin
def sum_similarities(pairs: Int32s, item_counts: Int32s, ranks: Int64s, full: bool) -> Floats:
    """Return the sums of the similarities to some items, by rank."""
    scores = np.zeros(len(item_counts))
    for rank in ranks.tolist():
        scores += _similarities(_row(pairs, len(item_counts), rank, full), item_counts, rank)
    return scores


@twin
def sum_all_similarities(
    pairs: Int32s, item_counts: Int32s, starts: Int64s, ranks: Int64s, full: bool
) -> Floats:
    """Return the sums of the similarities to the items of each history, by rank."""
    scores = np.zeros((len(starts) - 1, len(item_counts)))
    for history, (start, stop) in enumerate(pairwise(starts.tolist())):
        for rank in ranks[start:stop].tolist():
            scores[history] += _similarities(
                _row(pairs, len(item_counts), rank, full), item_counts, rank
            )
    return scores


@twin
def best_indices(scores: Floats, k: int, factor: float) -> Int64s:
    """Return the indices of positive scores that reach `factor` times the k-th largest one."""
    positive = np.flatnonzero(scores > 0)
    if len(positive) > k:
        kth = np.partition(scores[positive], len(positive) - k)[len(positive) - k]
        positive = positive[scores[positive] >= kth * factor]
    return positive
