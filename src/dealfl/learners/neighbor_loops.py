"""Compiled loops of nearest neighbours: removing examples, and searching a forest of prefixes.

`keys` and `slots` hold one sorted row per table; `run_keys` and `run_slots` hold new entries. See
`forest`, which does the same in numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dealfl.exact import compile_loop

__all__ = ["nearest_rows", "remove_examples", "vote_rows"]

Array = Any  # a contiguous array; numba derives the types
Number = Any

_GAP = -1


@compile_loop
def _load(keys: Array, slots: Array, places: Array, gone: Array) -> Number:
    """Copy the keys of one example; all tables are read before any is written."""
    total = 0
    for table in range(len(places)):
        gone[table] = keys[table, places[table]]
        total += slots[table, places[table]]
    return total


@compile_loop
def _leave_gap(keys: Array, slots: Array, place: int) -> None:
    """Replace an entry by a gap; a gap has the key of the next example before it."""
    slots[place] = _GAP
    before = keys[place - 1] if place > 0 else np.uint64(0)
    if before == keys[place]:
        return
    while place < len(slots) and slots[place] == _GAP:
        keys[place] = before
        place += 1


@compile_loop
def remove_examples(
    keys: Array, slots: Array, places: Array, vectors: Array, codes: Array, ids: Array,
    removed: Array,
) -> tuple[Array, Array, int]:  # fmt: skip
    """Remove and overwrite examples; return their keys and codes, and how many are in the run."""
    tables = len(keys)
    gone, classes = np.zeros((len(removed), tables), np.uint64), np.empty(len(removed), np.int64)
    waiting = 0
    for row in range(len(removed)):
        slot = removed[row]
        if places[slot, 0] >= 0:
            _load(keys, slots, places[slot], gone[row])
            for table in range(tables):
                _leave_gap(keys[table], slots[table], places[slot, table])
        else:
            waiting += 1
        classes[row] = codes[slot]
        vectors[slot] = 0
        codes[slot], ids[slot] = 0, 0
    return gone, classes, waiting


@compile_loop
def _first_place(keys: Array, key: int) -> int:
    """Return the place of the first key that is not smaller."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@compile_loop
def _next(slots: Array, place: int, step: int) -> int:
    """Return the nearest place in one direction that is not a gap."""
    while 0 <= place < len(slots) and slots[place] == _GAP:
        place += step
    return place


@compile_loop
def _key_at(
    keys: Array, place: int, run_keys: Array, run_place: int, exists: bool, in_run: bool
) -> Number:
    """Return the next key in one direction, of a table or of its run."""
    if not exists:
        return np.uint64(0)
    return run_keys[run_place] if in_run else keys[place]


@compile_loop
def _search(
    keys: Array, slots: Array, run_keys: Array, run_slots: Array, key: int, enough: int,
    seen: Array, stamp: int, found: Array, count: int,
) -> int:  # fmt: skip
    """Append the candidates of one table that are not seen yet; return their number."""
    size, run = len(keys), len(run_keys)
    right, run_right = _first_place(keys, key), _first_place(run_keys, key)
    left, run_left = right - 1, run_right - 1
    last, side, taken = np.uint64(0), 0, 0
    while True:
        left, right = _next(slots, left, -1), _next(slots, right, 1)
        below, above = left >= 0 or run_left >= 0, right < size or run_right < run
        if not (below or above):
            return count
        in_run_below = left < 0 or (run_left >= 0 and run_keys[run_left] > keys[left])
        in_run_above = right >= size or (run_right < run and run_keys[run_right] < keys[right])
        low = _key_at(keys, left, run_keys, run_left, below, in_run_below)
        high = _key_at(keys, right, run_keys, run_right, above, in_run_above)
        if taken >= enough:  # only further examples with the last key
            below = below and side < 0 and low == last
            above = above and side > 0 and high == last
            if not (below or above):
                return count
        if below and (not above or (low ^ key) < (high ^ key)):
            slot = run_slots[run_left] if in_run_below else slots[left]
            run_left, left = run_left - in_run_below, left - (not in_run_below)
            last, side = low, -1
        else:
            slot = run_slots[run_right] if in_run_above else slots[right]
            run_right, right = run_right + in_run_above, right + (not in_run_above)
            last, side = high, 1
        taken += 1
        if seen[slot] != stamp:
            seen[slot] = stamp
            found[count] = slot
            count += 1


@compile_loop
def _square(first: Array, second: Array) -> Number:
    total = np.int64(0)
    for column in range(len(first)):
        gap = np.int32(first[column] - second[column])
        total += np.int64(gap) * np.int64(gap)
    return total


@compile_loop
def _candidates(
    keys: Array, slots: Array, run_keys: Array, run_slots: Array, query: Array, enough: int,
    vectors: Array, vector: Array, seen: Array, stamp: int, found: Array, squares: Array,
) -> int:  # fmt: skip
    """Write the candidates of one row and their squared distances; return their number."""
    count = 0
    for table in range(len(keys)):
        count = _search(
            keys[table], slots[table], run_keys[table], run_slots[table], query[table], enough,
            seen, stamp, found, count,
        )  # fmt: skip
    for place in range(count):
        squares[place] = _square(vectors[found[place]], vector)
    return count


@compile_loop
def _keep_best(
    slots: Array, squares: Array, ids: Array, count: int, best: Array, far: Array
) -> int:
    """Write the nearest candidates by distance and id; return their number."""
    kept = 0
    for place in range(count):
        slot, square = slots[place], squares[place]
        if kept == len(best):
            worst = far[kept - 1]
            if square > worst or (square == worst and ids[slot] > ids[best[kept - 1]]):
                continue
        else:
            kept += 1
        at = kept - 1
        while at > 0 and (
            far[at - 1] > square or (far[at - 1] == square and ids[best[at - 1]] > ids[slot])
        ):
            far[at], best[at] = far[at - 1], best[at - 1]
            at -= 1
        far[at], best[at] = square, slot
    return kept


@compile_loop
def nearest_rows(
    keys: Array, slots: Array, run_keys: Array, run_slots: Array, queries: Array, enough: int,
    vectors: Array, rows: Array, ids: Array, seen: Array, stamp: int, k: int,
) -> tuple[Array, Array, Array, int]:  # fmt: skip
    """Return the nearest slots of each row, their squares and number, and all candidates' number.

    `seen` has a mark per slot; marks from `stamp` on are unused.
    """
    best, far = np.zeros((len(rows), k), np.int64), np.empty((len(rows), k), np.int64)
    kept, total = np.empty(len(rows), np.int64), 0
    found, squares = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
    for row in range(len(rows)):
        count = _candidates(
            keys, slots, run_keys, run_slots, queries[row], enough, vectors, rows[row], seen,
            stamp + row, found, squares,
        )  # fmt: skip
        kept[row] = _keep_best(found, squares, ids, count, best[row], far[row])
        total += count
    return best, far, kept, total


@compile_loop
def vote_rows(
    keys: Array, slots: Array, run_keys: Array, run_slots: Array, queries: Array, enough: int,
    vectors: Array, rows: Array, ids: Array, seen: Array, stamp: int, k: int, codes: Array,
    classes: int,
) -> tuple[Array, int]:  # fmt: skip
    """Return the votes of the k nearest by class, and the number of all candidates.

    Examples tied at the k-th distance share the places left.
    """
    votes, total = np.zeros((len(rows), classes), np.int64), 0
    found, squares = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
    best, far = np.empty(k, np.int64), np.empty(k, np.int64)
    for row in range(len(rows)):
        count = _candidates(
            keys, slots, run_keys, run_slots, queries[row], enough, vectors, rows[row], seen,
            stamp + row, found, squares,
        )  # fmt: skip
        kept = _keep_best(found, squares, ids, count, best, far)
        nearer, tied = np.zeros(classes, np.int64), np.zeros(classes, np.int64)
        for place in range(count):
            if squares[place] < far[kept - 1]:
                nearer[codes[found[place]]] += 1
            elif squares[place] == far[kept - 1]:
                tied[codes[found[place]]] += 1
        votes[row] = nearer * tied.sum() + (kept - nearer.sum()) * tied
        total += count
    return votes, total
