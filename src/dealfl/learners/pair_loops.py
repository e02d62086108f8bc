"""Compiled loops over the pairs of a history: learning and forgetting one after the other.

See `row_loops` for the arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dealfl.exact import compile_loop
from dealfl.learners.row_loops import ALL, LEVELS, NO_SET, guard_row, is_set, start_of

__all__ = ["change_histories"]

Array = Any  # a contiguous array; numba derives the types
Number = Any

_NEVER = (1 << 31) - 1  # a count whose slacks are never small
_BLOCK_BITS = 12
_DONE, _NEGATIVE, _TIGHT = 0, 1, 2


@compile_loop
def _shift(pairs: Array, base: int, ranks: Array, by: int) -> Number:
    """Add to pairs of a row; return the smallest count before."""
    start = np.uint64(base)  # unsigned: numba then does not test for places before the first
    lowest, added = np.int32(ALL), np.int32(by)
    for other in range(len(ranks)):
        place = start + np.uint64(ranks[other])
        value = pairs[place]
        pairs[place] = value + added
        lowest = min(lowest, value)
    return lowest


@compile_loop
def _shift_noting(
    pairs: Array, base: int, ranks: Array, place: int, by: int, held: Array, lines: Array
) -> Number:
    """Do the same with the ranks before a place, and note small slacks of both items of a pair."""
    start, mine = np.uint64(base), held[place]
    lowest, added = np.int32(ALL), np.int32(by)
    for other in range(place):
        cell = start + np.uint64(ranks[other])
        value = pairs[cell]
        pairs[cell] = value + added
        lowest = min(lowest, value)
        if min(mine, held[other]) - value < LEVELS:
            if mine - value < LEVELS:
                lines[np.uint64(place * LEVELS + max(mine - value, 0))] += np.int32(1)
            if held[other] - value < LEVELS:
                lines[np.uint64(other * LEVELS + max(held[other] - value, 0))] += np.int32(1)
    return lowest


@compile_loop
def _mirror(pairs: Array, size: int, ranks: Array, by: int) -> None:
    """Add to the upper triangle of a whole matrix."""
    for first in range(len(ranks)):
        _shift(pairs, ranks[first] * size, ranks[first + 1 :], by)


@compile_loop
def _guard_forgets(line: Array, touched: Array, held: int) -> None:
    """Update the slacks of an item: those of untouched pairs shrink by 1."""
    depth = line[LEVELS]
    for level in range(LEVELS - 1):
        line[level] = touched[level] + line[level + 1] - touched[level + 1]
    line[LEVELS - 1] = touched[LEVELS - 1]
    if depth < ALL:
        depth -= 1
        if depth > held:
            line[depth:LEVELS] = 0
            depth = ALL
    line[LEVELS] = depth


@compile_loop
def _guard_learns(line: Array, touched: Array) -> None:
    """Update the slacks of an item: those of untouched pairs grow by 1."""
    depth = line[LEVELS]
    if depth == 0:
        return
    beyond = line[LEVELS - 1] - touched[LEVELS - 1]
    for level in range(LEVELS - 1, 0, -1):
        line[level] = touched[level] + line[level - 1] - touched[level - 1]
    line[0] = touched[0]
    if depth == ALL:
        line[LEVELS] = LEVELS if beyond > 0 else ALL
    elif depth < LEVELS:  # the next level is known, too, if it is counted
        line[LEVELS] = depth + 1


@compile_loop
def _mark(stale: Array, stale_items: Array, starts: Array, ids: Array) -> None:
    """Mark the blocks of pair numbers and of items that histories change."""
    for history in range(len(starts) - 1):
        lowest = ids[starts[history]] if starts[history] < starts[history + 1] else 0
        for place in range(starts[history] + 1, starts[history + 1]):
            base = ids[place] * (ids[place] - 1) // 2
            last = (base + ids[place - 1]) >> _BLOCK_BITS
            for block in range((base + lowest) >> _BLOCK_BITS, last + 1):
                stale[np.uint64(block)] = True
    for item in ids:
        stale_items[item >> _BLOCK_BITS] = True


@compile_loop
def _ranks(rank_of: Array, ids: Array) -> Array:
    return np.sort(rank_of[ids]) if len(rank_of) else ids


@compile_loop
def _is_loose(depth: int) -> Number:
    """Return whether no slack of an item is small enough to be counted."""
    return LEVELS < depth < ALL


@compile_loop
def _shift_pairs(
    pairs: Array, items: Array, guard: Array, order: Array, ranks: Array, full: bool, by: int,
    lines: Array,
) -> Number:  # fmt: skip
    """Add to all pairs of a history; return the smallest count before.

    Small slacks are noted in one line for each item; a loose item has none.
    """
    size, lowest, close = len(items), ALL, 0
    held = np.empty(len(ranks), np.int32)
    for place in range(len(ranks)):
        item = order[ranks[place]]
        held[place] = _NEVER if _is_loose(guard[item, LEVELS]) else items[item]
        close += held[place] != _NEVER
        base = start_of(ranks[place], size, full)
        if close:
            least = _shift_noting(pairs, base, ranks, place, by, held, lines)
        else:
            least = _shift(pairs, base, ranks[:place], by)
        lowest = min(lowest, least)
    return lowest


@compile_loop
def _settle(items: Array, guard: Array, order: Array, ranks: Array, by: int, lines: Array) -> None:
    """Update counts and slacks of the items of a history."""
    for place in range(len(ranks)):
        item = order[ranks[place]]
        items[item] += by
        if _is_loose(guard[item, LEVELS]):
            guard[item, LEVELS] += min(by, 0)  # learning leaves the slacks of touched pairs
            continue
        line = lines[place * LEVELS : (place + 1) * LEVELS]
        if by > 0:
            _guard_learns(guard[item], line)
        else:
            _guard_forgets(guard[item], line, items[item])


@compile_loop
def _learn(
    pairs: Array, items: Array, guard: Array, order: Array, ranks: Array, full: bool
) -> None:
    lines = np.zeros(len(ranks) * LEVELS, np.int32)
    _shift_pairs(pairs, items, guard, order, ranks, full, 1, lines)
    if full:
        _mirror(pairs, len(items), ranks, 1)
    _settle(items, guard, order, ranks, 1, lines)


@compile_loop
def _forget(
    pairs: Array, items: Array, guard: Array, order: Array, ranks: Array, full: bool, out: Array
) -> int:
    for rank in ranks:
        item = order[rank]
        if items[item] <= 0:
            return _NEGATIVE
        if guard[item, LEVELS] == 0 and guard_row(pairs, items, guard, order, rank, full) < 0:
            out[0], out[1] = item, items[item] - 1
            return _TIGHT
    lines = np.zeros(len(ranks) * LEVELS, np.int32)
    lowest = _shift_pairs(pairs, items, guard, order, ranks, full, -1, lines)
    problem = _NEGATIVE if lowest <= 0 else _first_tight(items, guard, order, ranks, lines, out)
    if problem != _DONE:
        for place in range(len(ranks)):
            _shift(pairs, start_of(ranks[place], len(items), full), ranks[:place], 1)
        return problem
    if full:
        _mirror(pairs, len(items), ranks, -1)
    _settle(items, guard, order, ranks, -1, lines)
    return _DONE


@compile_loop
def _first_tight(
    items: Array, guard: Array, order: Array, ranks: Array, lines: Array, out: Array
) -> int:
    """Return whether an item would have fewer histories than one of its untouched pairs."""
    for place in range(len(ranks)):
        item = order[ranks[place]]
        if not _is_loose(guard[item, LEVELS]) and guard[item, 0] > lines[place * LEVELS]:
            out[0], out[1] = item, items[item] - 1
            return _TIGHT
    return _DONE


@compile_loop
def change_histories(
    pairs: Array,
    items: Array,
    guard: Array,
    stale: Array,
    stale_items: Array,
    order: Array,
    rank_of: Array,
    starts: Array,
    ids: Array,
    full: bool,
    forgets: bool,
    out: Array,
) -> int:
    """Learn or forget histories one after the other, or return why none was changed."""
    for history in range(len(starts) - 1):
        if not is_set(ids[starts[history] : starts[history + 1]], len(items)):
            return NO_SET
    for history in range(len(starts) - 1):
        ranks = _ranks(rank_of, ids[starts[history] : starts[history + 1]])
        if forgets:
            problem = _forget(pairs, items, guard, order, ranks, full, out)
            if problem != _DONE:
                for back in range(history):
                    ranks = _ranks(rank_of, ids[starts[back] : starts[back + 1]])
                    _learn(pairs, items, guard, order, ranks, full)
                return problem
        else:
            _learn(pairs, items, guard, order, ranks, full)
    _mark(stale, stale_items, starts, ids)
    return _DONE
