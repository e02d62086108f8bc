"""Numbers of pairs of items, and what histories add to the counts of items and pairs.

The pair (i, j), i > j, has the number i·(i−1)/2 + j, independent of the order in memory. A history
that gains or loses one of n items changes n − 1 pairs, not all n·(n − 1)/2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dealfl.exact import Entries, Integers, Schema, Statistics, Work
from dealfl.learners.histories import Batch, Replaced
from dealfl.learners.records import Change

Int64s = NDArray[np.int64]
Signed = Sequence[tuple[Batch, int]]  # histories to learn (+1) and to forget (-1)

_CHUNK = 1 << 18  # pairs at a time
_FEW = 1 << 12  # numbers that are sorted in less time than they are narrowed
_MANY = 1 << 20  # pairs; more are counted by their larger item, which needs less memory


def pair_count(items: int) -> int:
    """Return the number of pairs of `items` items."""
    return items * (items - 1) // 2


def pair_number(first: Int64s, second: Int64s) -> Int64s:
    """Return the numbers of pairs of different items, in any order.

    >>> pair_number(np.array([0, 3]), np.array([1, 2])).tolist()
    [0, 5]
    """
    high = np.maximum(first, second)
    numbers: Int64s = high * (high - 1) // 2 + np.minimum(first, second)
    return numbers


def items_of(numbers: Int64s) -> tuple[Int64s, Int64s]:
    """Return the larger and the smaller item of each pair.

    >>> [item.tolist() for item in items_of(np.array([0, 5]))]
    [[1, 3], [0, 2]]
    """
    high = ((1.0 + np.sqrt(1.0 + 8.0 * numbers)) / 2.0).astype(np.int64)
    high -= high * (high - 1) // 2 > numbers  # the root of a large number can be rounded up
    return high, numbers - high * (high - 1) // 2


@lru_cache(maxsize=8)
def triangle(size: int) -> tuple[Int64s, Int64s]:
    """Return row and column of each cell below the diagonal, row by row."""
    rows = np.repeat(np.arange(size), np.arange(size))
    return rows, np.arange(len(rows)) - rows * (rows - 1) // 2


def numbers_of(items: Int64s) -> Int64s:
    """Return the ascending numbers of the pairs of one history."""
    high, low = triangle(len(items))
    first = items * (items - 1) // 2
    numbers: Int64s = first[high] + items[low]
    return numbers


def pair_counts(batch: Batch) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield the ascending numbers of pairs that occur, and the histories of each, in parts.

    Pairs are listed by their larger item, which meets the items before it in each of its histories.
    """
    starts, items = batch
    before = np.arange(len(items)) - np.repeat(starts[:-1], np.diff(starts))
    order = np.argsort(items, kind="stable")
    high, met = items[order], before[order]
    begins, first_numbers = order - met, high * (high - 1) // 2
    for first, stop in pairwise(_cuts(high, met)):
        some = met[first:stop]
        offsets = np.repeat(np.cumsum(some) - some - begins[first:stop], some)
        others = items[np.arange(len(offsets)) - offsets]
        yield _count(np.repeat(first_numbers[first:stop], some) + others)


def _cuts(high: Int64s, met: Int64s) -> list[int]:
    """Return where to cut ascending items so that equal ones stay together and parts are small."""
    lasts = np.append(np.flatnonzero(np.diff(high)), len(high) - 1)
    parts = np.cumsum(met)[lasts] // _CHUNK if len(high) else lasts
    return [0, *(lasts[np.flatnonzero(np.diff(parts))] + 1).tolist(), len(high)]


def _count(numbers: Int64s) -> tuple[Int64s, Int64s]:
    """Return distinct numbers, ascending, and how often each occurs."""
    if not len(numbers):
        return numbers, numbers
    low = int(numbers.min())
    if int(numbers.max()) - low > 8 * len(numbers):
        return np.unique(numbers, return_counts=True)
    counts = np.bincount(numbers - low)
    distinct = np.flatnonzero(counts)
    return distinct + low, counts[distinct]


def pairs_of(batch: Batch) -> tuple[Int64s, Int64s]:
    """Return the ascending numbers of all pairs that occur, and the histories of each."""
    if len(batch.starts) == 2:
        once = numbers_of(batch.items)
        return once, np.ones(len(once), dtype=np.int64)
    numbers, counts = zip(*pair_counts(batch), strict=True)
    return np.concatenate(numbers), np.concatenate(counts)


def history_cost(items: int, pairs: int, cells: int) -> Work:
    """Return the cost of counting items and pairs, and of changing cells."""
    return Work(items + pairs, 4 * items + 2 * 4 * cells)


def signed_cost(batches: Signed, cells: int) -> Work:
    """Return the cost of learning and forgetting histories in one pass."""
    items = sum(len(batch.items) for batch, _ in batches)
    return history_cost(items, sum(batch.pair_count for batch, _ in batches), cells)


def count_pairs(schema: Schema, batches: Signed) -> dict[str, Entries]:
    """Return the statistics of histories to learn and to forget."""
    total = Statistics.zero(schema)
    for index, (batch, sign) in enumerate(batches):
        items, histories = np.unique(batch.items, return_counts=True)
        numbers, counts = pairs_of(batch)
        counted = {
            "items": Entries(items, Integers(sign * histories)),
            "pairs": Entries(numbers, Integers(sign * counts)),
        }
        total = total + Statistics(schema, counted) if index else Statistics(schema, counted)
    return {name: total[name] for name in total}


def replaced(schema: Schema, owners: Sequence[Replaced]) -> Change:
    """Return the change of the statistics if histories of owners are replaced."""
    pairs = sum(len(new) * (len(new) - 1) // 2 for _, new, _ in owners)
    if pairs > _MANY and not any(stay or gone for stay, _, gone in owners):
        return _add(schema, [sorted(new) for _, new, _ in owners])
    flat, starts, stays, sizes, signs = (list[int]() for _ in range(5))
    for stay, new, gone in owners:
        for sign, changed in ((+1, new), (-1, gone)):
            if changed:
                starts.append(len(flat))
                stays.append(len(stay))
                sizes.append(len(changed))
                signs.append(sign)
                flat += stay
                flat += changed
    return _count_changes(schema, flat, np.array([starts, stays, sizes, signs], dtype=np.int64))


def _count_changes(schema: Schema, flat: Sequence[int], runs: Int64s) -> Change:
    """Count runs of items: each meets the items before it, except those that stay."""
    run_items, (starts, stays, sizes, signs) = np.fromiter(flat, np.int64, len(flat)), runs
    # place of each changed item in its run, which is the number of items that it meets
    met = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes - stays, sizes)
    begins, weights = np.repeat(starts, sizes), np.repeat(signs, sizes)
    changed = run_items[begins + met]
    others = np.arange(met.sum()) - np.repeat(np.cumsum(met) - met - begins, met)
    numbers = pair_number(np.repeat(changed, met), run_items[others])
    arrays = {
        "items": _sum(changed, weights),
        "pairs": _sum(numbers, np.repeat(weights, met)),
    }
    delta, new = Statistics(schema, arrays), weights > 0
    items, pairs = int(np.count_nonzero(new)), int(met @ new)
    learned = history_cost(items, pairs, delta.count_nonzero())
    return Change(delta, learned, history_cost(len(new) - items, len(others) - pairs, 0))


def _sum(numbers: Int64s, signs: Int64s) -> Entries:
    """Add up the signs of equal numbers; numbers are sorted together with their signs."""
    if not len(numbers):
        return Entries(numbers, Integers(signs))
    keys = 2 * numbers + (signs < 0)
    if len(keys) > _FEW and keys.max() < 1 << 31:
        keys = keys.astype(np.int32)  # sorted in half the time
    keys.sort()
    ordered = keys.astype(np.int64, copy=False) >> 1
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    totals = np.add.reduceat(1 - 2 * (keys & 1).astype(np.int64, copy=False), starts)
    kept = np.flatnonzero(totals)
    return Entries(ordered[starts[kept]], Integers(totals[kept]))


def _add(schema: Schema, histories: Sequence[list[int]]) -> Change:
    """Return the change by histories of which no part was learned before."""
    items = np.array([item for history in histories for item in history], dtype=np.int64)
    batch = Batch(np.cumsum([0, *map(len, histories)]), items)
    delta = Statistics(schema, count_pairs(schema, [(batch, +1)]))
    return Change(delta, signed_cost([(batch, +1)], delta.count_nonzero()), Work(0, 0))
