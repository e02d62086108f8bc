"""Compiled loops of nearest neighbours: removing examples, and searching a forest of prefixes.

`plain` has the same functions in numpy and describes their arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dealfl.exact import compile_loop
from dealfl.learners.neighbors.plain import GAP, IN_RUN

Array = Any  # a contiguous array; numba derives the types
Number = Any


@compile_loop
def _load(keys: Array, slots: Array, positions: Array, gone: Array) -> Number:
    """Copy the keys of one example; all tables are read before any is written."""
    total = 0
    for table in range(len(positions)):
        gone[table] = keys[table, positions[table]]
        total += slots[table, positions[table]]
    return total


@compile_loop
def _leave_gap(keys: Array, slots: Array, position: int) -> None:
    """Replace an entry by a gap; a gap has the key of the next example before it."""
    slots[position] = GAP
    before = keys[position - 1] if position > 0 else np.uint64(0)
    if before == keys[position]:
        return
    while position < len(slots) and slots[position] == GAP:
        keys[position] = before
        position += 1


@compile_loop
def remove_examples(
    keys: Array,
    slots: Array,
    positions: Array,
    vectors: Array,
    codes: Array,
    ids: Array,
    removed: Array,
) -> tuple[Array, Array, int]:
    """Remove and overwrite examples; return their keys and codes, and how many are in the run."""
    tables = len(keys)
    gone_keys = np.zeros((len(removed), tables), np.uint64)
    gone_codes = np.empty(len(removed), np.int64)
    in_run = 0
    for row in range(len(removed)):
        slot = removed[row]
        if positions[slot, 0] == IN_RUN:
            in_run += 1
        else:
            _load(keys, slots, positions[slot], gone_keys[row])
            for table in range(tables):
                _leave_gap(keys[table], slots[table], positions[slot, table])
        gone_codes[row] = codes[slot]
        vectors[slot] = 0
        codes[slot] = 0
        ids[slot] = 0
    return gone_keys, gone_codes, in_run


@compile_loop
def _first_not_below(keys: Array, key: int) -> int:
    """Return the position of the first key that is not smaller."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@compile_loop
def _next(slots: Array, position: int, step: int) -> int:
    """Return the nearest position in one direction that is not a gap."""
    while 0 <= position < len(slots) and slots[position] == GAP:
        position += step
    return position


@compile_loop
def _key_at(
    keys: Array, position: int, run_keys: Array, run_position: int, exists: bool, in_run: bool
) -> Number:
    """Return the next key in one direction, of a table or of its run."""
    if not exists:
        return np.uint64(0)
    return run_keys[run_position] if in_run else keys[position]


@compile_loop
def _search(
    keys: Array,
    slots: Array,
    run_keys: Array,
    run_slots: Array,
    key: int,
    enough: int,
    seen: Array,
    candidates: Array,
    count: int,
) -> int:
    """Append the candidates of one table that are not seen yet; return their number."""
    size, run = len(keys), len(run_keys)
    right, run_right = _first_not_below(keys, key), _first_not_below(run_keys, key)
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
        if not seen[slot]:
            seen[slot] = True
            candidates[count] = slot
            count += 1


@compile_loop
def _square(first: Array, second: Array) -> Number:
    total = np.int64(0)
    for column in range(len(first)):
        gap = np.int32(first[column] - second[column])
        total += np.int64(gap) * np.int64(gap)
    return total


@compile_loop
def _near(
    keys: Array,
    slots: Array,
    run_keys: Array,
    run_slots: Array,
    query: Array,
    enough: int,
    vectors: Array,
    vector: Array,
    seen: Array,
    candidates: Array,
    squares: Array,
) -> int:
    """Write the candidates of one row and their squared distances; return their number."""
    count = 0
    for table in range(len(keys)):
        count = _search(
            keys[table],
            slots[table],
            run_keys[table],
            run_slots[table],
            query[table],
            enough,
            seen,
            candidates,
            count,
        )
    for index in range(count):
        squares[index] = _square(vectors[candidates[index]], vector)
        seen[candidates[index]] = False
    return count


@compile_loop
def _keep_best(
    candidates: Array, squares: Array, ranks: Array, count: int, best: Array, best_squares: Array
) -> int:
    """Write the nearest candidates by distance and the ranks of slots; return their number."""
    kept = 0
    for index in range(count):
        slot, square = candidates[index], squares[index]
        if kept == len(best):
            worst = best_squares[kept - 1]
            if square > worst or (square == worst and ranks[slot] > ranks[best[kept - 1]]):
                continue
        else:
            kept += 1
        at = kept - 1
        while at > 0 and (
            best_squares[at - 1] > square
            or (best_squares[at - 1] == square and ranks[best[at - 1]] > ranks[slot])
        ):
            best_squares[at], best[at] = best_squares[at - 1], best[at - 1]
            at -= 1
        best_squares[at], best[at] = square, slot
    return kept


@compile_loop
def nearest_rows(
    keys: Array,
    slots: Array,
    run_keys: Array,
    run_slots: Array,
    queries: Array,
    enough: int,
    vectors: Array,
    rows: Array,
    ids: Array,
    k: int,
) -> tuple[Array, Array, Array, int]:
    """Return the nearest slots of each row, their squares and number, and that of candidates."""
    best = np.zeros((len(rows), k), np.int64)
    best_squares = np.empty((len(rows), k), np.int64)
    counts = np.empty(len(rows), np.int64)
    total = 0
    seen = np.zeros(len(ids), np.bool_)
    candidates, squares = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
    for row in range(len(rows)):
        count = _near(
            keys,
            slots,
            run_keys,
            run_slots,
            queries[row],
            enough,
            vectors,
            rows[row],
            seen,
            candidates,
            squares,
        )
        counts[row] = _keep_best(candidates, squares, ids, count, best[row], best_squares[row])
        total += count
    return best, best_squares, counts, total


@compile_loop
def vote_rows(
    keys: Array,
    slots: Array,
    run_keys: Array,
    run_slots: Array,
    queries: Array,
    enough: int,
    vectors: Array,
    rows: Array,
    codes: Array,
    k: int,
    classes: int,
) -> tuple[Array, int]:
    """Return the votes of the k nearest by class, and the number of all candidates.

    Examples tied at the k-th distance share the votes left.
    """
    votes = np.zeros((len(rows), classes), np.int64)
    total = 0
    seen = np.zeros(len(vectors), np.bool_)
    candidates, squares = np.empty(len(vectors), np.int64), np.empty(len(vectors), np.int64)
    best, best_squares = np.empty(k, np.int64), np.empty(k, np.int64)
    for row in range(len(rows)):
        count = _near(
            keys,
            slots,
            run_keys,
            run_slots,
            queries[row],
            enough,
            vectors,
            rows[row],
            seen,
            candidates,
            squares,
        )
        kept = _keep_best(candidates, squares, codes, count, best, best_squares)
        limit = best_squares[kept - 1]
        nearer, tied = np.zeros(classes, np.int64), np.zeros(classes, np.int64)
        for index in range(count):
            if squares[index] < limit:
                nearer[codes[candidates[index]]] += 1
            elif squares[index] == limit:
                tied[codes[candidates[index]]] += 1
        votes[row] = nearer * tied.sum() + (kept - nearer.sum()) * tied
        total += count
    return votes, total
