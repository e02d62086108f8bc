"""Searching and removing held examples, in numpy; `loops` has the same functions, compiled.

`keys` and `slots` hold one sorted row per table, with gaps where examples were removed; `run_keys`
and `run_slots` hold new entries (see `examples`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dealfl.exact import twin
from dealfl.learners.neighbors.signatures import bit_lengths

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Keys = NDArray[np.uint64]

GAP = -1  # the slot of a removed entry
IN_RUN = -1  # the position of a new entry


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
    near = near_rows(keys, slots, run_keys, run_slots, queries, enough, vectors, rows)
    for row, (candidates, squares) in enumerate(near):
        limit = kth_square(squares, k)
        nearer = np.bincount(codes[candidates[squares < limit]], minlength=classes)
        tied = np.bincount(codes[candidates[squares == limit]], minlength=classes)
        votes[row] = nearer * tied.sum() + (min(k, len(squares)) - nearer.sum()) * tied
        total += len(candidates)
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
    near = near_rows(keys, slots, run_keys, run_slots, queries, enough, vectors, rows)
    for row, (candidates, squares) in enumerate(near):
        order = np.lexsort((ids[candidates], squares))[:k]
        counts[row] = len(order)
        best[row, : len(order)] = candidates[order]
        best_squares[row, : len(order)] = squares[order]
        total += len(candidates)
    return best, best_squares, counts, total


def kth_square(squares: Int64s, k: int) -> int:
    """Return the k-th smallest squared distance, or the largest of fewer."""
    return int(np.partition(squares, k - 1)[k - 1] if len(squares) > k else squares.max())


def near_rows(
    keys: Keys,
    slots: Int32s,
    run_keys: Keys,
    run_slots: Int32s,
    queries: Keys,
    enough: int,
    vectors: Int32s,
    rows: Int32s,
) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield the candidate slots of each row, ascending, and their exact squared distances."""
    tables = [
        ((keys[table], slots[table]), (run_keys[table], run_slots[table]))
        for table in range(len(keys))
    ]
    for query, row in zip(queries, rows, strict=True):
        pairs = zip(tables, query, strict=True)
        by_table = [_candidates(parts, key, enough) for parts, key in pairs]
        candidates = np.unique(np.concatenate(by_table))
        offsets = vectors[candidates].astype(np.int64) - row
        yield candidates, np.einsum("ij,ij->i", offsets, offsets)


Part = tuple[Keys, Int32s]  # sorted keys and their slots


def _candidates(parts: tuple[Part, Part], key: np.uint64, enough: int) -> Int64s:
    """Return the `enough` examples of a table with the longest prefixes in common with a key.

    Of equal prefixes, these are the nearest in the order of keys, and all examples with the same
    key as the last one.
    """
    sides = [_around(*part, int(part[0].searchsorted(key)), enough) for part in parts]
    below = np.sort(np.concatenate([side[0] for side in sides]))[::-1][:enough]
    above = np.sort(np.concatenate([side[1] for side in sides]))[:enough]
    left = bit_lengths(below ^ key)
    right = bit_lengths(above ^ key)
    before = int((np.arange(len(left)) + right.searchsorted(left) < enough).sum())
    after = min(enough - before, len(above))
    low = below[before - 1] if before else above[0] if after else key
    high = above[after - 1] if after else below[0] if before else key
    return slots_between(parts, low, high)


def _around(keys: Keys, slots: Int32s, position: int, enough: int) -> tuple[Keys, Keys]:
    """Return the keys of the `enough` examples before a position and of those after it."""
    step = enough
    while True:
        first = max(0, position - step)
        stop = position + step
        below = keys[first:position][slots[first:position] != GAP][-enough:]
        above = keys[position:stop][slots[position:stop] != GAP][:enough]
        short = (len(below) < enough and first > 0) or (len(above) < enough and stop < len(keys))
        if not short:
            return below, above
        step *= 4


def slots_between(parts: tuple[Part, Part], low: np.uint64, high: np.uint64) -> Int64s:
    """Return the slots of a table and of its run whose keys are in a range."""
    chosen = []
    for keys, slots in parts:
        matches = slots[keys.searchsorted(low) : keys.searchsorted(high, "right")]
        chosen.append(matches[matches != GAP])
    return np.concatenate(chosen).astype(np.int64)
