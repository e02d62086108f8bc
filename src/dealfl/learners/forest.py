"""A forest of prefixes: which held examples share the longest prefix of a signature?

Each table keeps its signatures sorted, so examples with a common prefix are adjacent. New entries
are kept in a small sorted run. A removed entry leaves a gap whose key is overwritten by that of its
neighbour. So no trace of a removed example remains, and results depend only on the examples that
are held.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["MIN_MERGE", "PrefixForest"]

Int64s = NDArray[np.int64]
Keys = NDArray[np.uint64]

_GAP = -1
_FIRST_GAPS = 64
MIN_MERGE = 512  # new entries and gaps, before a table is sorted again


class PrefixForest:
    """Slots of examples by signature, in several tables.

    Examples
    --------
    >>> forest = PrefixForest(tables=1, bits=4)
    >>> keys = np.array([[0b0001], [0b0011], [0b1000]], dtype=np.uint64)
    >>> forest.add(np.array([10, 11, 12]), keys)
    >>> forest.candidates(np.array([[0b0000]], dtype=np.uint64), enough=2)[0].tolist()
    [10, 11]
    """

    def __init__(self, tables: int, bits: int) -> None:
        self._bits = bits
        self._tables = [_Table(bits) for _ in range(tables)]

    def add(self, slots: Int64s, keys: Keys) -> None:
        """Add examples: one row of keys per slot, one column per table."""
        for table, column in zip(self._tables, keys.T, strict=True):
            table.add(slots, column)

    def remove(self, slots: Int64s, keys: Keys) -> None:
        """Remove examples that were added with these keys."""
        for table, column in zip(self._tables, keys.T, strict=True):
            for slot, key in zip(slots.tolist(), column, strict=True):
                table.remove(slot, key)

    def equal(self, key: np.uint64) -> Int64s:
        """Return the slots whose whole signature in the first table is `key`."""
        return self._tables[0].members(key, key)

    def candidates(self, keys: Keys, enough: int) -> list[Int64s]:
        """Return the candidate slots for each row of keys.

        Candidates share, in some table, the longest prefix that at least `enough` examples have.
        """
        found = [
            table.longest_prefix(column, enough)
            for table, column in zip(self._tables, keys.T, strict=True)
        ]
        return [
            np.unique(
                np.concatenate(
                    [
                        table.members(low[query], high[query])
                        for table, (low, high) in zip(self._tables, found, strict=True)
                    ]
                )
            )
            for query in range(len(keys))
        ]


class _Table:
    """One sorted table with a small run of new entries and a few gaps."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._keys, self._slots = np.empty(0, np.uint64), np.empty(0, np.int64)
        self._new_keys, self._new_slots = np.empty(0, np.uint64), np.empty(0, np.int64)
        self._gap_places, self._gap_count = np.zeros(_FIRST_GAPS, np.int64), 0

    @property
    def _gaps(self) -> Int64s:
        return self._gap_places[: self._gap_count]

    def add(self, slots: Int64s, keys: Keys) -> None:
        order = np.argsort(keys, kind="stable")
        places = np.searchsorted(self._new_keys, keys[order])
        self._new_keys = np.insert(self._new_keys, places, keys[order])
        self._new_slots = np.insert(self._new_slots, places, slots[order])
        self._merge_if_many()

    def remove(self, slot: int, key: np.uint64) -> None:
        place = _place_of(self._new_keys, self._new_slots, key, slot)
        if place is not None:
            self._new_keys = np.delete(self._new_keys, place)
            self._new_slots = np.delete(self._new_slots, place)
            return
        place = _place_of(self._keys, self._slots, key, slot)
        assert place is not None, "the example is not in the index"
        self._slots[place] = _GAP
        self._overwrite_gaps(place)
        self._note_gap(place)
        self._merge_if_many()

    def _note_gap(self, place: int) -> None:
        """Insert a place into the ascending places of gaps."""
        if self._gap_count == len(self._gap_places):
            self._gap_places = np.concatenate([self._gap_places, np.zeros_like(self._gap_places)])
        places, count = self._gap_places, self._gap_count
        at = int(self._gaps.searchsorted(place))
        places[at + 1 : count + 1] = places[at:count]
        places[at] = place
        self._gap_count += 1

    def _overwrite_gaps(self, place: int) -> None:
        """Replace the keys of gaps around `place` by that of an adjacent example; order is kept."""
        first, after = place, place + 1
        while first > 0 and self._slots[first - 1] == _GAP:
            first -= 1
        while after < len(self._slots) and self._slots[after] == _GAP:
            after += 1
        beside = first - 1 if first > 0 else after
        self._keys[first:after] = self._keys[beside] if beside < len(self._keys) else 0

    def _merge_if_many(self) -> None:
        waiting = len(self._new_keys) + len(self._gaps)
        if waiting <= max(MIN_MERGE, len(self._keys) // 16):
            return
        held = self._slots != _GAP
        keys, slots = self._keys[held], self._slots[held]
        places = np.searchsorted(keys, self._new_keys)
        self._keys = np.insert(keys, places, self._new_keys)
        self._slots = np.insert(slots, places, self._new_slots)
        self._new_keys, self._new_slots = self._new_keys[:0].copy(), self._new_slots[:0].copy()
        self._gap_places, self._gap_count = np.zeros(_FIRST_GAPS, np.int64), 0

    def _count(self, low: Keys, high: Keys) -> Int64s:
        """Return the number of examples with a key in [low, high], for each pair."""
        start = np.searchsorted(self._keys, low)
        stop = np.searchsorted(self._keys, high, side="right")
        gaps = np.searchsorted(self._gaps, stop) - np.searchsorted(self._gaps, start)
        new_stop = np.searchsorted(self._new_keys, high, side="right")
        new = new_stop - np.searchsorted(self._new_keys, low)
        counts: Int64s = stop - start - gaps + new
        return counts

    def longest_prefix(self, keys: Keys, enough: int) -> tuple[Keys, Keys]:
        """Return the range of keys that share the longest prefix with `enough` examples."""
        shortest = np.zeros(len(keys), dtype=np.int64)
        longest = np.full(len(keys), self._bits, dtype=np.int64)
        while np.any(shortest < longest):
            middle = (shortest + longest + 1) // 2
            held = self._count(*self._range(keys, middle)) >= enough
            shortest = np.where(held, middle, shortest)
            longest = np.where(held, longest, middle - 1)
        return self._range(keys, shortest)

    def _range(self, keys: Keys, prefix: Int64s) -> tuple[Keys, Keys]:
        free = (np.uint64(1) << (self._bits - prefix).astype(np.uint64)) - np.uint64(1)
        return keys & ~free, keys | free

    def members(self, low: np.uint64, high: np.uint64) -> Int64s:
        start, stop = np.searchsorted(self._keys, low), np.searchsorted(self._keys, high, "right")
        old = self._slots[start:stop]
        start = np.searchsorted(self._new_keys, low)
        stop = np.searchsorted(self._new_keys, high, "right")
        return np.concatenate([old[old != _GAP], self._new_slots[start:stop]])


def _place_of(keys: Keys, slots: Int64s, key: np.uint64, slot: int) -> int | None:
    start = int(keys.searchsorted(key)) if len(keys) else 0
    if start < len(slots) and slots[start] == slot:  # mostly, few examples share a signature
        return start
    stop = int(keys.searchsorted(key, side="right")) if len(keys) else 0
    places = (slots[start:stop] == slot).nonzero()[0]
    return start + int(places[0]) if len(places) else None
