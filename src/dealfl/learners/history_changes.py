"""What histories add to the counts of items and pairs, and what replacing histories changes.

A history that gains or loses one of n items changes n − 1 pairs, not all n·(n − 1)/2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dealfl.exact import Entries, Integers, Schema, Statistics, Work
from dealfl.learners.pair_numbers import Batch, pair_number
from dealfl.learners.records import Change

__all__ = ["Replaced", "Signed", "count_pairs", "replaced", "signed_cost"]

Int64s = NDArray[np.int64]
Replaced = tuple[set[int], set[int], set[int]]  # items of an owner that stay, are new, are gone

_FEW = 1 << 12  # numbers that are sorted in less time than they are narrowed
_MANY = 1 << 20  # pairs; more are counted by a product of matrices, which needs less memory


Signed = Sequence[tuple[Batch, int]]  # histories to learn (+1) and to forget (-1)


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
    for place, (batch, sign) in enumerate(batches):
        items, histories = np.unique(batch.items, return_counts=True)
        numbers, counts = batch.pairs()
        counted = {
            "items": Entries(items, Integers(sign * histories)),
            "pairs": Entries(numbers, Integers(sign * counts)),
        }
        total = total + Statistics(schema, counted) if place else Statistics(schema, counted)
    return {name: total[name] for name in total}


def replaced(schema: Schema, owners: Sequence[Replaced]) -> Change:
    """Return the change of the statistics if histories of owners are replaced."""
    if not any(stay or gone for stay, _, gone in owners) and _pairs(owners) > _MANY:
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
    known, (starts, stays, sizes, signs) = np.fromiter(flat, np.int64, len(flat)), runs
    # place of each changed item in its run, which is the number of items that it meets
    met = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes - stays, sizes)
    begins, weights = np.repeat(starts, sizes), np.repeat(signs, sizes)
    changed = known[begins + met]
    others = np.arange(met.sum()) - np.repeat(np.cumsum(met) - met - begins, met)
    numbers = pair_number(np.repeat(changed, met), known[others])
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


def _pairs(owners: Sequence[Replaced]) -> int:
    return sum(len(new) * (len(new) - 1) // 2 for _, new, _ in owners)


def _add(schema: Schema, histories: Sequence[list[int]]) -> Change:
    """Return the change by histories of which no part was learned before."""
    items = np.array([item for history in histories for item in history], dtype=np.int64)
    batch = Batch(np.cumsum([0, *map(len, histories)]), items)
    delta = Statistics(schema, count_pairs(schema, [(batch, +1)]))
    return Change(delta, signed_cost([(batch, +1)], delta.count_nonzero()), Work(0, 0))
