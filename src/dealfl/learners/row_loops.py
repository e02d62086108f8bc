"""Compiled loops over whole rows of counts: learning many histories, slacks, similarities.

`pairs` is a packed lower triangle or, if `full`, a whole symmetric matrix of counts, both in the
order of `rank_of`. `guard` holds, for each item, how many other items have a slack of 0, 1, 2, …
and, in its last column, the number of slacks for which these figures are known; see `pair_table`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dealfl.exact import compile_loop

__all__ = [
    "ALL", "LEVELS", "NO_SET", "add_histories", "best_places", "guard_row", "guard_rows", "is_set",
    "most_similar", "start_of", "sum_all_similarities", "sum_similarities",
]  # fmt: skip

Array = Any  # a contiguous array; numba derives the types
Number = Any

LEVELS = 8
ALL = 1 << 30
NO_SET = 3
_PART = 32  # counts that are compared with the best similarities at a time
_ALMOST = 1.0 - 1e-6  # products in float32 are accurate to 3e-7


@compile_loop
def start_of(rank: int, size: int, full: bool) -> int:
    """Return the place of the first count of a row."""
    return rank * size if full else rank * (rank - 1) // 2


@compile_loop
def is_set(ids: Array, size: int) -> bool:
    """Return whether items are in range and ascending."""
    before = -1
    for item in ids:
        if item <= before:
            return False
        before = item
    return before < size


@compile_loop
def guard_row(
    pairs: Array, items: Array, guard: Array, order: Array, rank: int, full: bool
) -> Number:
    """Count the slacks of one item; return the smallest."""
    size, item = len(items), order[rank]
    held, line = items[item], guard[item]
    line[:] = 0
    base = start_of(rank, size, full)
    smallest = min(held, _count_slacks(pairs[base : base + rank], held, line))
    if full:
        rest = _count_slacks(pairs[base + rank + 1 : base + size], held, line)
    else:
        rest = _count_slacks(_column(pairs, rank, size), held, line)
    smallest = min(smallest, rest)
    _set_depth(line, held, smallest)
    return smallest


@compile_loop
def _count_slacks(row: Array, held: int, line: Array) -> Number:
    smallest = ALL
    for value in row:
        slack = held - value
        smallest = min(smallest, slack)
        if 0 <= slack < LEVELS:
            line[np.uint64(slack)] += np.int32(1)
    return smallest


@compile_loop
def _column(pairs: Array, rank: int, size: int) -> Array:
    """Return the counts of an item with later ones, from a packed triangle."""
    column = np.empty(size - rank - 1, np.int32)
    place = np.uint64((rank + 1) * rank // 2 + rank)
    for other in range(len(column)):
        column[other] = pairs[place]
        place += np.uint64(other + rank + 1)
    return column


@compile_loop
def _set_depth(line: Array, held: int, smallest: int) -> None:
    if smallest < 0:
        line[LEVELS] = 0
    elif held < LEVELS:
        line[LEVELS] = ALL  # no slack is larger
    else:
        line[LEVELS] = max(smallest, LEVELS)


@compile_loop
def _bump(row: Array, ranks: Array) -> None:
    for place in range(len(ranks)):
        row[np.uint64(ranks[place])] += np.int32(1)


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
        for place in range(starts[history], starts[history + 1]):
            slot = free[ranks[place]]
            holders[slot], owners[slot] = place, history
            free[ranks[place]] = slot + 1
    return heads, holders, owners


@compile_loop
def add_histories(
    pairs: Array, items: Array, rank_of: Array, starts: Array, ids: Array, full: bool
) -> int:
    """Learn many histories row by row: one row of counts at a time stays in the cache."""
    size = len(items)
    ranks = np.empty(len(ids), np.int64)
    for history in range(len(starts) - 1):
        first, stop = starts[history], starts[history + 1]
        if not is_set(ids[first:stop], size):
            return NO_SET
        ranks[first:stop] = np.sort(rank_of[ids[first:stop]]) if len(rank_of) else ids[first:stop]
    for item in ids:
        items[item] += 1
    heads, holders, owners = _holders(starts, ranks, size)
    for rank in range(size):
        base = start_of(rank, size, full)
        row = pairs[base : base + (size if full else rank)]
        for slot in range(heads[rank], heads[rank + 1]):
            place, history = holders[slot], owners[slot]
            _bump(row, ranks[starts[history] : place])
            if full:
                _bump(row, ranks[place + 1 : starts[history + 1]])
    return 0


@compile_loop
def guard_rows(pairs: Array, items: Array, guard: Array, order: Array, full: bool) -> None:
    """Count the slacks of all items."""
    size = len(items)
    guard[:] = 0
    others, smallest = np.full(size, size - 1), items.astype(np.int64)
    for rank in range(size):
        base, item = start_of(rank, size, full), order[rank]
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
def _add_row(scores: Array, row: Array, held: Array, own: int) -> None:
    for place in range(len(row)):
        both = row[place]
        either = own + held[place] - both
        scores[place] += both / (either if either != 0 else 1)


@compile_loop
def sum_similarities(pairs: Array, held: Array, ranks: Array, full: bool) -> Array:
    """Return the sums of the similarities to some items, by rank; `held` is by rank, too."""
    size = len(held)
    scores = np.zeros(size)
    for rank in ranks:
        base, own = start_of(rank, size, full), held[rank]
        _add_row(scores[:rank], pairs[base : base + rank], held[:rank], own)
        later = pairs[base + rank + 1 : base + size] if full else _column(pairs, rank, size)
        _add_row(scores[rank + 1 :], later, held[rank + 1 :], own)
    return scores


@compile_loop
def sum_all_similarities(
    pairs: Array, held: Array, starts: Array, ranks: Array, full: bool
) -> Array:
    """Return the sums of the similarities to the items of each history, in one pass over pairs."""
    size = len(held)
    heads, _, owners = _holders(starts, ranks, size)
    scores, found = np.zeros((size, len(starts) - 1)), np.empty(size, np.int64)
    met: Array = np.flatnonzero(held)
    asked = met[heads[met + 1] > heads[met]]  # a pair without one of them adds nothing
    for rank in met:
        base, own, line = start_of(rank, size, full), held[rank], scores[rank]
        others, count = asked if heads[rank + 1] == heads[rank] else met, 0
        for other in others[: np.searchsorted(others, rank)]:
            found[count] = other
            count += pairs[base + other] != 0
        for other in found[:count]:
            both = pairs[base + other]
            similarity = both / (own + held[other] - both)
            for slot in range(heads[rank], heads[rank + 1]):
                scores[other, owners[slot]] += similarity
            for slot in range(heads[other], heads[other + 1]):
                line[owners[slot]] += similarity
    return np.ascontiguousarray(scores.T)


@compile_loop
def _insert(best: Array, score: float) -> None:
    """Replace the smallest of ascending scores."""
    place = 0
    while place + 1 < len(best) and best[place + 1] < score:
        best[place] = best[place + 1]
        place += 1
    best[place] = score


@compile_loop
def best_places(scores: Array, k: int, factor: float) -> Array:
    """Return the places of positive scores that reach `factor` times the k-th largest one."""
    best = np.zeros(k)
    for score in scores:
        if score > best[0]:
            _insert(best, score)
    limit = best[0] * factor
    found = np.empty(len(scores), np.int64)
    count = 0
    for place in range(len(scores)):
        if scores[place] > 0 and scores[place] >= limit:
            found[count] = place
            count += 1
    return found[:count].copy()


@compile_loop
def _has_similar(row: Array, held: Array, own: Number, least: Number) -> bool:
    """Return whether a count of a part of a row can reach a share of both items' counts."""
    found = False
    for place in range(len(row)):
        both = np.float32(np.int32(own + held[place]))
        found |= (row[place] > 0) & (np.float32(row[place]) >= least * both)
    return found


@compile_loop
def most_similar(
    pairs: Array, held: Array, rank: int, full: bool, k: int
) -> tuple[Array, Array, Array]:
    """Return the k items most similar to one, and equally similar ones: ranks, counts, unions.

    Of most parts of a row, one loop in float32 finds that nothing reaches the k-th best so far.
    """
    size, base, own = len(held), start_of(rank, len(held), full), held[rank]
    row = pairs[base : base + size]
    if not full:
        row = np.zeros(size, np.int32)
        row[:rank], row[rank + 1 :] = pairs[base : base + rank], _column(pairs, rank, size)
    best, found, count = np.zeros(k), np.empty(size, np.int32), 0
    for start in range(0, size, _PART):
        part, held_part = row[start : start + _PART], held[start : start + _PART]
        # a similarity of s is a share of s / (1 + s)
        if not _has_similar(part, held_part, own, np.float32(best[0] / (1 + best[0]) * _ALMOST)):
            continue
        for place in range(len(part)):
            both = part[place]
            score = both / (own + held_part[place] - both) if both else 0.0
            if both and score >= best[0]:
                found[count] = start + place
                count += 1
                if score > best[0]:
                    _insert(best, score)
    ranks = found[:count].astype(np.int64)
    counts = row[ranks].astype(np.int64)
    unions = own + held[ranks] - counts
    kept = counts / unions >= best[0]
    return ranks[kept], counts[kept], unions[kept]
