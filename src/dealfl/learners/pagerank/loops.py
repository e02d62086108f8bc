"""Compiled loops over counts of pairs: changing them, slacks, similarities.

`plain` has the same functions in numpy and describes their arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dealfl.exact import compile_loop
from dealfl.learners.pagerank.plain import ALL, LEVELS, NEGATIVE, NO_SET, TIGHT

Array = Any  # a contiguous array; numba derives the types
Number = Any

_NEVER = (1 << 31) - 1  # a count whose slacks are never small
_BLOCK_BITS = 12
_PART = 32  # counts that are compared with the best similarities at a time
_ALMOST = 1.0 - 1e-6  # products in float32 are accurate to 3e-7


@compile_loop
def _start(rank: int, size: int, full: bool) -> int:
    """Return the place of the first count of a row."""
    return rank * size if full else rank * (rank - 1) // 2


@compile_loop
def _is_set(ids: Array, size: int) -> bool:
    """Return whether items are in range and ascending."""
    before = -1
    for item in ids:
        if item <= before:
            return False
        before = item
    return before < size


@compile_loop
def _longest(starts: Array, ids: Array, size: int) -> int:
    """Return the largest number of items of a history; -1 if one is not a set."""
    longest = 0
    for history in range(len(starts) - 1):
        first, stop = starts[history], starts[history + 1]
        if not _is_set(ids[first:stop], size):
            return -1
        longest = max(longest, stop - first)
    return longest


@compile_loop
def _guard_row(
    pairs: Array, items: Array, guard: Array, order: Array, rank: int, full: bool
) -> Number:
    """Count the slacks of one item; return the smallest."""
    size, item = len(items), order[rank]
    count, line = items[item], guard[item]
    line[:] = 0
    base, later = _start(rank, size, full), size - rank - 1
    smallest = min(count, _count_slacks(pairs, base, 1, 0, rank, count, line))
    if full:
        rest = _count_slacks(pairs, base + rank + 1, 1, 0, later, count, line)
    else:
        below = _start(rank + 1, size, full) + rank
        rest = _count_slacks(pairs, below, rank + 1, 1, later, count, line)
    smallest = min(smallest, rest)
    _set_depth(line, count, smallest)
    return smallest


@compile_loop
def _count_slacks(
    pairs: Array, cell: int, step: int, growth: int, others: int, count: int, line: Array
) -> Number:
    """Count the slacks of pairs of an item, from a cell on; each step to the next one can grow."""
    smallest = ALL
    for _ in range(others):
        slack = count - pairs[np.uint64(cell)]
        smallest = min(smallest, slack)
        if 0 <= slack < LEVELS:
            line[np.uint64(slack)] += np.int32(1)
        cell += step
        step += growth
    return smallest


@compile_loop
def _column(pairs: Array, rank: int, size: int) -> Array:
    """Return the counts of an item with later ones, from a packed triangle."""
    column = np.empty(size - rank - 1, np.int32)
    cell = np.uint64((rank + 1) * rank // 2 + rank)
    for other in range(len(column)):
        column[other] = pairs[cell]
        cell += np.uint64(other + rank + 1)
    return column


@compile_loop
def _set_depth(line: Array, count: int, smallest: int) -> None:
    if smallest < 0:
        line[LEVELS] = 0
    elif count < LEVELS:
        line[LEVELS] = ALL  # no slack is larger
    else:
        line[LEVELS] = max(smallest, LEVELS)


# -- one history after the other ----------------------------------------------------------------
#
# A call that changes counts takes all memory that it needs before: it ends, or it has changed none.


@compile_loop
def _shift(pairs: Array, base: int, ranks: Array, by: int) -> Number:
    """Add to pairs of a row; return the smallest count before."""
    start = np.uint64(base)  # unsigned: numba then does not test for places before the first
    lowest, added = np.int32(ALL), np.int32(by)
    for other in range(len(ranks)):
        cell = start + np.uint64(ranks[other])
        value = pairs[cell]
        pairs[cell] = value + added
        lowest = min(lowest, value)
    return lowest


@compile_loop
def _shift_noting(
    pairs: Array, base: int, ranks: Array, position: int, by: int, item_counts: Array, lines: Array
) -> Number:
    """Do the same with the ranks before a place, and note small slacks of both items of a pair."""
    start, mine = np.uint64(base), item_counts[position]
    lowest, added = np.int32(ALL), np.int32(by)
    for other in range(position):
        cell = start + np.uint64(ranks[other])
        value = pairs[cell]
        pairs[cell] = value + added
        lowest = min(lowest, value)
        if min(mine, item_counts[other]) - value < LEVELS:
            if mine - value < LEVELS:
                lines[np.uint64(position * LEVELS + max(mine - value, 0))] += np.int32(1)
            if item_counts[other] - value < LEVELS:
                lines[np.uint64(other * LEVELS + max(item_counts[other] - value, 0))] += np.int32(1)
    return lowest


@compile_loop
def _mirror(pairs: Array, size: int, ranks: Array, by: int) -> None:
    """Add to the upper triangle of a whole matrix."""
    for first in range(len(ranks)):
        _shift(pairs, ranks[first] * size, ranks[first + 1 :], by)


@compile_loop
def _guard_forgets(line: Array, touched: Array, count: int) -> None:
    """Update the slacks of an item: those of untouched pairs shrink by 1."""
    depth = line[LEVELS]
    for level in range(LEVELS - 1):
        line[level] = touched[level] + line[level + 1] - touched[level + 1]
    line[LEVELS - 1] = touched[LEVELS - 1]
    if depth < ALL:
        depth -= 1
        if depth > count:
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
        for position in range(starts[history] + 1, starts[history + 1]):
            base = ids[position] * (ids[position] - 1) // 2
            last = (base + ids[position - 1]) >> _BLOCK_BITS
            for block in range((base + lowest) >> _BLOCK_BITS, last + 1):
                stale[np.uint64(block)] = True
    for item in ids:
        stale_items[item >> _BLOCK_BITS] = True


@compile_loop
def _ranks(rank_of: Array, starts: Array, ids: Array) -> Array:
    """Return the ascending ranks of the items of each history."""
    if not len(rank_of):
        return ids
    ranks = rank_of[ids]
    for history in range(len(starts) - 1):
        ranks[starts[history] : starts[history + 1]].sort()
    return ranks


@compile_loop
def _is_loose(depth: int) -> Number:
    """Return whether no slack of an item is small enough to be counted."""
    return LEVELS < depth < ALL


@compile_loop
def _shift_pairs(
    pairs: Array,
    items: Array,
    guard: Array,
    order: Array,
    ranks: Array,
    full: bool,
    by: int,
    lines: Array,
    item_counts: Array,
) -> Number:
    """Add to all pairs of a history; return the smallest count before.

    Small slacks are noted in one line for each item; a loose item has none.
    """
    size, lowest, close = len(items), ALL, 0
    lines[: len(ranks) * LEVELS] = 0
    for position in range(len(ranks)):
        item = order[ranks[position]]
        item_counts[position] = _NEVER if _is_loose(guard[item, LEVELS]) else items[item]
        close += item_counts[position] != _NEVER
        base = _start(ranks[position], size, full)
        if close:
            least = _shift_noting(pairs, base, ranks, position, by, item_counts, lines)
        else:
            least = _shift(pairs, base, ranks[:position], by)
        lowest = min(lowest, least)
    return lowest


@compile_loop
def _settle(items: Array, guard: Array, order: Array, ranks: Array, by: int, lines: Array) -> None:
    """Update counts and slacks of the items of a history."""
    for position in range(len(ranks)):
        item = order[ranks[position]]
        items[item] += by
        if _is_loose(guard[item, LEVELS]):
            guard[item, LEVELS] += min(by, 0)  # learning leaves the slacks of touched pairs
            continue
        line = lines[position * LEVELS : (position + 1) * LEVELS]
        if by > 0:
            _guard_learns(guard[item], line)
        else:
            _guard_forgets(guard[item], line, items[item])


@compile_loop
def _learn(
    pairs: Array,
    items: Array,
    guard: Array,
    order: Array,
    ranks: Array,
    full: bool,
    lines: Array,
    item_counts: Array,
) -> None:
    _shift_pairs(pairs, items, guard, order, ranks, full, 1, lines, item_counts)
    if full:
        _mirror(pairs, len(items), ranks, 1)
    _settle(items, guard, order, ranks, 1, lines)


@compile_loop
def _forget(
    pairs: Array,
    items: Array,
    guard: Array,
    order: Array,
    ranks: Array,
    full: bool,
    lines: Array,
    item_counts: Array,
    refused: Array,
) -> int:
    for rank in ranks:
        if items[order[rank]] <= 0:
            return NEGATIVE
    for rank in ranks:
        item = order[rank]
        if guard[item, LEVELS] == 0 and _guard_row(pairs, items, guard, order, rank, full) < 0:
            refused[0], refused[1] = item, items[item] - 1
            return TIGHT
    lowest = _shift_pairs(pairs, items, guard, order, ranks, full, -1, lines, item_counts)
    problem = NEGATIVE if lowest <= 0 else _first_tight(items, guard, order, ranks, lines, refused)
    if problem != 0:
        for position in range(len(ranks)):
            _shift(pairs, _start(ranks[position], len(items), full), ranks[:position], 1)
        return problem
    if full:
        _mirror(pairs, len(items), ranks, -1)
    _settle(items, guard, order, ranks, -1, lines)
    return 0


@compile_loop
def _first_tight(
    items: Array, guard: Array, order: Array, ranks: Array, lines: Array, refused: Array
) -> int:
    """Return whether an item would have fewer histories than one of its untouched pairs."""
    for position in range(len(ranks)):
        item = order[ranks[position]]
        if not _is_loose(guard[item, LEVELS]) and guard[item, 0] > lines[position * LEVELS]:
            refused[0], refused[1] = item, items[item] - 1
            return TIGHT
    return 0


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
    refused: Array,
) -> int:
    """Learn or forget histories one after the other, or return why none was changed."""
    longest = _longest(starts, ids, len(items))
    if longest < 0:
        return NO_SET
    ranks = _ranks(rank_of, starts, ids)
    lines, item_counts = np.empty(longest * LEVELS, np.int32), np.empty(longest, np.int32)
    for history in range(len(starts) - 1):
        some = ranks[starts[history] : starts[history + 1]]
        if not forgets:
            _learn(pairs, items, guard, order, some, full, lines, item_counts)
            continue
        problem = _forget(pairs, items, guard, order, some, full, lines, item_counts, refused)
        if problem != 0:
            for back in range(history):
                some = ranks[starts[back] : starts[back + 1]]
                _learn(pairs, items, guard, order, some, full, lines, item_counts)
            return problem
    _mark(stale, stale_items, starts, ids)
    return 0


# -- many histories at once ---------------------------------------------------------------------


@compile_loop
def _bump(row: Array, ranks: Array, by: int) -> None:
    added = np.int32(by)
    for position in range(len(ranks)):
        row[np.uint64(ranks[position])] += added


@compile_loop
def _holders(starts: Array, ranks: Array, size: int) -> tuple[Array, Array, Array]:
    """Return the places of each rank and their histories, and where those of a rank start."""
    heads = np.zeros(size + 1, np.int64)
    for rank in ranks:
        heads[rank + 1] += 1
    for rank in range(size):
        heads[rank + 1] += heads[rank]
    free = heads.copy()
    holders, owners = np.empty(len(ranks), np.int64), np.empty(len(ranks), np.int64)
    for history in range(len(starts) - 1):
        for position in range(starts[history], starts[history + 1]):
            slot = free[ranks[position]]
            holders[slot], owners[slot] = position, history
            free[ranks[position]] = slot + 1
    return heads, holders, owners


@compile_loop
def add_histories(
    pairs: Array, items: Array, rank_of: Array, starts: Array, ids: Array, full: bool, by: int
) -> int:
    """Add many histories row by row: one row of counts at a time stays in the cache."""
    size = len(items)
    if _longest(starts, ids, size) < 0:
        return NO_SET
    ranks = _ranks(rank_of, starts, ids)
    heads, holders, owners = _holders(starts, ranks, size)
    for item in ids:
        items[item] += by
    for rank in range(size):
        base = _start(rank, size, full)
        row = pairs[base : base + (size if full else rank)]
        for slot in range(heads[rank], heads[rank + 1]):
            position, history = holders[slot], owners[slot]
            _bump(row, ranks[starts[history] : position], by)
            if full:
                _bump(row, ranks[position + 1 : starts[history + 1]], by)
    return 0


@compile_loop
def guard_rows(pairs: Array, items: Array, guard: Array, order: Array, full: bool) -> None:
    """Count the slacks of all items."""
    size = len(items)
    guard[:] = 0
    others, smallest = np.full(size, size - 1), items.astype(np.int64)
    for rank in range(size):
        base, item = _start(rank, size, full), order[rank]
        for lower in range(rank):
            value = pairs[base + lower]
            if value != 0:
                _note_pair(guard, others, smallest, items, item, value)
                _note_pair(guard, others, smallest, items, order[lower], value)
    for item in range(size):
        if 0 <= items[item] < LEVELS:
            guard[item, items[item]] += others[item]
        _set_depth(guard[item], items[item], smallest[item])


@compile_loop
def _note_pair(
    guard: Array, others: Array, smallest: Array, items: Array, item: int, value: int
) -> None:
    slack = items[item] - value
    others[item] -= 1
    smallest[item] = min(smallest[item], slack)
    if 0 <= slack < LEVELS:
        guard[item, slack] += 1


@compile_loop
def _add_row(scores: Array, row: Array, item_counts: Array, own: int) -> None:
    for position in range(len(row)):
        both = row[position]
        either = own + item_counts[position] - both
        scores[position] += both / (either if either != 0 else 1)


@compile_loop
def sum_similarities(pairs: Array, item_counts: Array, ranks: Array, full: bool) -> Array:
    """Return the sums of the similarities to some items, by rank; `item_counts` are, too."""
    size = len(item_counts)
    scores = np.zeros(size)
    for rank in ranks:
        base, own = _start(rank, size, full), item_counts[rank]
        _add_row(scores[:rank], pairs[base : base + rank], item_counts[:rank], own)
        later = pairs[base + rank + 1 : base + size] if full else _column(pairs, rank, size)
        _add_row(scores[rank + 1 :], later, item_counts[rank + 1 :], own)
    return scores


@compile_loop
def sum_all_similarities(
    pairs: Array, item_counts: Array, starts: Array, ranks: Array, full: bool
) -> Array:
    """Return the sums of the similarities to the items of each history, in one pass over pairs."""
    size = len(item_counts)
    heads, _, owners = _holders(starts, ranks, size)
    scores, partners = np.zeros((size, len(starts) - 1)), np.empty(size, np.int64)
    met: Array = np.flatnonzero(item_counts)
    asked = met[heads[met + 1] > heads[met]]  # a pair without one of them adds nothing
    for rank in met:
        base, own, line = _start(rank, size, full), item_counts[rank], scores[rank]
        others, count = asked if heads[rank + 1] == heads[rank] else met, 0
        for other in others[: np.searchsorted(others, rank)]:
            partners[count] = other
            count += pairs[base + other] != 0
        for other in partners[:count]:
            both = pairs[base + other]
            similarity = both / (own + item_counts[other] - both)
            for slot in range(heads[rank], heads[rank + 1]):
                scores[other, owners[slot]] += similarity
            for slot in range(heads[other], heads[other + 1]):
                line[owners[slot]] += similarity
    return np.ascontiguousarray(scores.T)


@compile_loop
def _replace_smallest(best: Array, score: float) -> None:
    """Replace the first, smallest score of a heap."""
    parent, child = 0, 1
    while child < len(best):
        if child + 1 < len(best) and best[child + 1] < best[child]:
            child += 1
        if best[child] >= score:
            break
        best[parent] = best[child]
        parent, child = child, 2 * child + 1
    best[parent] = score


@compile_loop
def best_indices(scores: Array, k: int, factor: float) -> Array:
    """Return the indices of positive scores that reach `factor` times the k-th largest one."""
    best = np.zeros(min(k, len(scores)))
    for score in scores:
        if score > best[0]:
            _replace_smallest(best, score)
    limit = best[0] * factor
    indices = np.empty(len(scores), np.int64)
    count = 0
    for index in range(len(scores)):
        if scores[index] > 0 and scores[index] >= limit:
            indices[count] = index
            count += 1
    return indices[:count].copy()


@compile_loop
def _has_similar(row: Array, item_counts: Array, own: Number, least: Number) -> bool:
    """Return whether a count of a part of a row can reach a share of both items' counts."""
    similar = False
    for position in range(len(row)):
        both = np.float32(np.int32(own + item_counts[position]))
        similar |= (row[position] > 0) & (np.float32(row[position]) >= least * both)
    return similar


@compile_loop
def most_similar(
    pairs: Array, item_counts: Array, rank: int, full: bool, k: int
) -> tuple[Array, Array, Array]:
    """Return the k items most similar to one, and equally similar ones: ranks, counts, unions.

    Of most parts of a row, one loop in float32 finds that nothing reaches the k-th best so far.
    """
    size, base, own = len(item_counts), _start(rank, len(item_counts), full), item_counts[rank]
    row = pairs[base : base + size]
    if not full:
        row = np.zeros(size, np.int32)
        row[:rank], row[rank + 1 :] = pairs[base : base + rank], _column(pairs, rank, size)
    best, candidates, count = np.zeros(min(k, size)), np.empty(size, np.int32), 0
    for start in range(0, size, _PART):
        part, part_counts = row[start : start + _PART], item_counts[start : start + _PART]
        # a similarity of s is a share of s / (1 + s)
        if not _has_similar(part, part_counts, own, np.float32(best[0] / (1 + best[0]) * _ALMOST)):
            continue
        for index in range(len(part)):
            both = part[index]
            if both <= 0:
                continue
            either = own + part_counts[index] - both
            score = both / (either if either != 0 else 1)
            if score >= best[0]:
                candidates[count] = start + index
                count += 1
                if score > best[0]:
                    _replace_smallest(best, score)
    ranks = candidates[:count].astype(np.int64)
    counts = row[ranks].astype(np.int64)
    unions = own + item_counts[ranks] - counts
    kept = counts / np.where(unions == 0, 1, unions) >= best[0]
    return ranks[kept], counts[kept], unions[kept]
