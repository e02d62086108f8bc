"""Searching and removing held examples, in numpy; `loops` has the same functions, compiled.

`keys` and `slots` hold one sorted row per table, with gaps where examples were removed; `run_keys`
and `run_slots` hold new entries (see `examples`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dealfl.exact import twin
from dealfl.learners.neighbors.signatures import bit_lengths

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Keys = NDArray[np.uint64]

GAP = -1  # the slot of a removed entry
IN_RUN = -1  # the position of a new entry

_BLOCK_KEYS = 1 << 17  # of a block of rows, compared at a time
_BLOCK_VALUES = 1 << 17  # of pairs of vectors
_NONE = np.uint64((1 << 64) - 1)  # the distance of a key that does not exist
_MISSING = 65  # the length of its prefix


@twin
def remove_examples(
    keys: Keys,
    slots: Int32s,
    positions: Int32s,
    vectors: Int32s,
    codes: Int32s,
    ids: Int64s,
    removed: Int64s,
) -> tuple[Keys, Int64s, int]:
    """Remove and overwrite examples; return their keys and codes, and how many are in the run."""
    gone_keys = np.zeros((len(removed), len(keys)), np.uint64)
    gone_codes = codes[removed].astype(np.int64)
    every = np.arange(len(keys))
    in_run = 0
    for row, slot in enumerate(removed.tolist()):
        if positions[slot, 0] == IN_RUN:
            in_run += 1
        else:
            gone_keys[row] = _leave_gaps(keys, slots, every, positions[slot])
    vectors[removed] = 0
    codes[removed] = 0
    ids[removed] = 0
    return gone_keys, gone_codes, in_run


def _leave_gaps(keys: Keys, slots: Int32s, every: Int64s, positions: Int32s) -> Keys:
    """Replace an entry of each table by a gap, which has the key of the example before it."""
    removed = keys[every, positions]
    slots[every, positions] = GAP
    before = np.where(positions > 0, keys[every, positions - 1], np.uint64(0))
    keys[every, positions] = before
    after = np.minimum(positions + 1, keys.shape[1] - 1)
    for table in ((slots[every, after] == GAP) & (before != removed)).nonzero()[0]:
        position = positions[table] + 1
        while position < slots.shape[1] and slots[table, position] == GAP:
            keys[table, position] = before[table]
            position += 1
    return removed


@twin
def vote_rows(
    keys: Keys,
    slots: Int32s,
    run_keys: Keys,
    run_slots: Int32s,
    queries: Keys,
    enough: int,
    vectors: Int32s,
    rows: Int32s,
    codes: Int32s,
    k: int,
    classes: int,
) -> tuple[Int64s, int]:
    """Return the votes of the k nearest by class, and the number of all candidates.

    Examples tied at the k-th distance share the votes left.
    """
    votes = np.zeros((len(rows), classes), np.int64)
    total = 0
    for block, near in near_rows(keys, slots, run_keys, run_slots, queries, enough, vectors, rows):
        limits = near.kth_squares(k)[near.rows]
        nearer, tied = (
            near.by_class(codes, classes, chosen)
            for chosen in (near.squares < limits, near.squares == limits)
        )
        left = np.minimum(near.counts, k) - nearer.sum(axis=1)
        votes[block] = nearer * tied.sum(axis=1, keepdims=True) + left[:, None] * tied
        total += len(near.slots)
    return votes, total


@twin
def nearest_rows(
    keys: Keys,
    slots: Int32s,
    run_keys: Keys,
    run_slots: Int32s,
    queries: Keys,
    enough: int,
    vectors: Int32s,
    rows: Int32s,
    ids: Int64s,
    k: int,
) -> tuple[Int64s, Int64s, Int64s, int]:
    """Return the nearest slots of each row, their squares and number, and that of candidates."""
    best = np.zeros((len(rows), k), np.int64)
    best_squares = np.empty((len(rows), k), np.int64)
    counts = np.empty(len(rows), np.int64)
    total = 0
    for block, near in near_rows(keys, slots, run_keys, run_slots, queries, enough, vectors, rows):
        order = np.lexsort((ids[near.slots], near.squares, near.rows))
        ranks = np.arange(len(order)) - near.starts[near.rows]
        kept, ranks = order[ranks < k], ranks[ranks < k]
        cells = block.start + near.rows[kept], ranks
        best[cells], best_squares[cells] = near.slots[kept], near.squares[kept]
        counts[block] = np.minimum(near.counts, k)
        total += len(order)
    return best, best_squares, counts, total


# -- candidates of many rows at a time ------------------------------------------------------------


class Near(NamedTuple):
    """Candidates of a block of rows: pairs of a row and a slot, ascending, and their distances."""

    rows: Int64s
    slots: Int64s
    squares: Int64s  # exact squared distances
    counts: Int64s  # of each row

    @property
    def starts(self) -> Int64s:
        """Where the candidates of each row start."""
        return np.cumsum(self.counts) - self.counts

    def kth_squares(self, k: int) -> Int64s:
        """Return the k-th smallest squared distance of each row, or the largest of fewer."""
        order = np.argsort(self.squares)
        rows = self.rows[order].astype(np.min_scalar_type(len(self.counts)))  # short ones sort fast
        ranked = self.squares[order[np.argsort(rows, kind="stable")]]
        return np.asarray(ranked[self.starts + np.minimum(self.counts, k) - 1])

    def by_class(self, codes: Int32s, classes: int, chosen: NDArray[np.bool_]) -> Int64s:
        """Return the number of chosen candidates by row and class."""
        cells = self.rows[chosen] * classes + codes[self.slots[chosen]]
        return np.bincount(cells, minlength=len(self.counts) * classes).reshape(-1, classes)


def near_rows(
    keys: Keys,
    slots: Int32s,
    run_keys: Keys,
    run_slots: Int32s,
    queries: Keys,
    enough: int,
    vectors: Int32s,
    rows: Int32s,
) -> Iterator[tuple[slice, Near]]:
    """Yield blocks of rows with their candidates."""
    given = ((keys, slots), (run_keys, run_slots))
    parts = [part for part in (Part.of(*arrays) for arrays in given) if part.keys.size]
    step = max(1, _BLOCK_KEYS // (enough * len(keys)))
    for first in range(0, len(rows), step):
        block = slice(first, min(first + step, len(rows)))
        pairs = _candidates(parts, queries[block], enough, len(vectors))
        chosen, candidates = np.divmod(pairs, len(vectors))
        squares = _squares(vectors, candidates, rows[block], chosen)
        counts = np.bincount(chosen, minlength=block.stop - first)
        yield block, Near(chosen, candidates, squares, counts)


def _squares(vectors: Int32s, slots: Int64s, rows: Int32s, chosen: Int64s) -> Int64s:
    """Return the squared distance of each pair of a slot and a row."""
    squares = np.empty(len(slots), np.int64)
    step = max(1, _BLOCK_VALUES // max(1, rows.shape[1]))
    for first in range(0, len(slots), step):
        some = slice(first, first + step)
        gaps = (vectors[slots[some]] - rows[chosen[some]]).astype(np.int64)
        np.einsum("ij,ij->i", gaps, gaps, out=squares[some])
    return squares


def _candidates(parts: Sequence[Part], queries: Keys, enough: int, slots: int) -> Int64s:
    """Return row · slots + slot of the `enough` examples of each table with the longest prefixes.

    Of equal prefixes, these are the nearest in the order of keys, and all examples with the same
    key as the last one.
    """
    if not parts:
        return np.empty(0, np.int64)
    places = [(part, part.find(queries)) for part in parts]
    below, above = (
        _nearest([part.gaps(queries, at, enough, side) for part, at in places], enough)
        for side in (-1, +1)
    )
    lengths = np.concatenate(
        [
            _lengths(queries[:, :, None] - below, queries, below),
            _lengths(queries[:, :, None] + above, queries, above),
        ],
        axis=2,
    )
    first = np.argsort(lengths, axis=2, kind="stable")[:, :, :enough]
    used = np.take_along_axis(lengths, first, axis=2) < _MISSING
    before = (used & (first < below.shape[2])).sum(axis=2)
    after = used.sum(axis=2) - before
    low = np.where(before, queries - _at(below, before - 1), queries + _at(above, 0 * after))
    high = np.where(after, queries + _at(above, after - 1), queries - _at(below, 0 * before))
    pairs = np.concatenate([part.between(low, high, slots) for part in parts])
    pairs.sort()
    return pairs[np.diff(pairs, prepend=-1) > 0]


def _nearest(gaps: Sequence[Keys], enough: int) -> Keys:
    """Return the smallest distances of keys from several parts."""
    return gaps[0] if len(gaps) == 1 else np.sort(np.concatenate(gaps, axis=2))[:, :, :enough]


def _lengths(keys: Keys, queries: Keys, gaps: Keys) -> NDArray[np.uint8]:
    """Return the number of bits after the common prefix of keys and queries."""
    lengths = bit_lengths(keys ^ queries[:, :, None]).astype(np.uint8)
    return np.where(gaps == _NONE, np.uint8(_MISSING), lengths)


def _at(gaps: Keys, places: Int64s) -> Keys:
    return np.take_along_axis(gaps, places[:, :, None], axis=2)[:, :, 0]


class Part(NamedTuple):
    """Sorted keys and their slots, one row per table, without gaps."""

    keys: Keys
    slots: Int32s

    @classmethod
    def of(cls, keys: Keys, slots: Int32s) -> Part:
        """Return keys and slots without gaps, of which each table has the same number."""
        used = slots != GAP
        if used.all():
            return cls(keys, slots)
        return cls(keys[used].reshape(len(keys), -1), slots[used].reshape(len(keys), -1))

    def find(self, keys: Keys, *, after: bool = False) -> Int64s:
        """Return the position of keys[row, table] in its table, before or after equal ones."""
        side: Literal["left", "right"] = "right" if after else "left"
        columns = zip(self.keys, keys.T, strict=True)
        return np.stack([table.searchsorted(some, side) for table, some in columns], axis=1)

    def gaps(self, queries: Keys, positions: Int64s, enough: int, side: int) -> Keys:
        """Return the distances of the `enough` keys on one side of each query, nearest first."""
        tables, size = self.keys.shape
        steps = np.arange(min(enough, size))
        steps = steps if side > 0 else -1 - steps
        columns = positions[:, :, None] + steps
        exists = (columns >= 0) & (columns < size)
        cells = np.where(exists, columns, 0) + size * np.arange(tables)[:, None]
        keys = self.keys.ravel()[cells]
        far = keys - queries[:, :, None] if side > 0 else queries[:, :, None] - keys
        return np.where(exists, far, _NONE)

    def between(self, low: Keys, high: Keys, slots: int) -> Int64s:
        """Return row · slots + slot of all examples whose keys are in the range of their row."""
        starts, stops = self.find(low), self.find(high, after=True)
        counts = stops - starts
        before = np.cumsum(counts).reshape(counts.shape) - counts
        starts += self.keys.shape[1] * np.arange(len(self.keys))
        shifts = np.repeat((starts - before).ravel(), counts.ravel())
        rows = np.repeat(slots * np.arange(len(low)), counts.sum(axis=1))
        return np.asarray(rows + self.slots.ravel()[np.arange(len(shifts)) + shifts])


def slots_between(parts: Sequence[tuple[Keys, Int32s]], low: np.uint64, high: np.uint64) -> Int64s:
    """Return the slots of a table and of its run whose keys are in a range."""
    chosen = []
    for keys, slots in parts:
        matches = slots[keys.searchsorted(low) : keys.searchsorted(high, "right")]
        chosen.append(matches[matches != GAP])
    return np.concatenate(chosen).astype(np.int64)
