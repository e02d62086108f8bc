"""A forest of prefixes: which held examples share long prefixes of a signature?

Each table keeps its signatures sorted, so examples with a common prefix are adjacent. The place of
each example in each table is known, so that removing it needs no search. A removed entry leaves a
gap with the key of the next example before it. New entries wait in a small sorted run. So no trace
of a removed example remains, and results depend only on the examples that are held.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dealfl.learners.signatures import bit_lengths

__all__ = ["MIN_MERGE", "PrefixForest"]

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Keys = NDArray[np.uint64]

_GAP = -1
_IN_RUN = -1  # the place of a new entry
MIN_MERGE = 512  # new entries or gaps, before the tables are sorted again


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
        self._every = np.arange(tables)
        self.keys, self.slots = np.empty((tables, 0), np.uint64), np.empty((tables, 0), np.int32)
        self.run_keys, self.run_slots = self.keys.copy(), self.slots.copy()
        self.places: Int32s = np.empty((0, tables), np.int32)
        self._gaps = 0

    # -- adding and removing --------------------------------------------------------------------

    def add(self, slots: Int64s, keys: Keys) -> None:
        """Add examples: one row of keys per slot, one column per table."""
        if not len(slots):
            return
        self._reserve(int(slots.max()) + 1)
        self.places[slots] = _IN_RUN
        self.run_keys, self.run_slots = _inserted(
            self.run_keys, self.run_slots, keys.T, np.broadcast_to(slots, keys.T.shape)
        )
        if self.run_keys.shape[1] > max(MIN_MERGE, self.keys.shape[1] // 16):
            self._merge()

    def _reserve(self, slots: int) -> None:
        if slots > len(self.places):
            grown = np.empty((max(slots, 2 * len(self.places)), len(self._every)), np.int32)
            grown[: len(self.places)] = self.places
            self.places = grown

    def remove(self, slots: Int64s) -> Keys:
        """Remove examples; return their keys."""
        gone = np.empty((len(slots), len(self._every)), np.uint64)
        for row, slot in enumerate(slots.tolist()):
            if self.places[slot, 0] != _IN_RUN:
                gone[row] = self._leave_gaps(self.places[slot])
        self.finish_removal(slots, gone)
        return gone

    def finish_removal(self, slots: Int64s, gone: Keys) -> None:
        """Remove new entries and write their keys to `gone`; sort the tables if gaps are many."""
        waiting = (self.places[slots, 0] == _IN_RUN).nonzero()[0]
        if len(waiting):
            gone[waiting] = self._remove_from_run(slots[waiting])
        self.count_gaps(len(slots) - len(waiting))

    def count_gaps(self, new: int) -> None:
        """Note new gaps; sort the tables again if there are too many."""
        self._gaps += new
        if self._gaps > max(MIN_MERGE, self.keys.shape[1] // 2):
            self._merge()

    def _leave_gaps(self, places: Int32s) -> Keys:
        every = self._every
        keys = self.keys[every, places]
        self.slots[every, places] = _GAP
        before = np.where(places > 0, self.keys[every, places - 1], np.uint64(0))
        self.keys[every, places] = before
        after = np.minimum(places + 1, self.keys.shape[1] - 1)
        for table in ((self.slots[every, after] == _GAP) & (before != keys)).nonzero()[0]:
            place = places[table] + 1
            while place < self.slots.shape[1] and self.slots[table, place] == _GAP:
                self.keys[table, place] = before[table]
                place += 1
        return keys

    def _remove_from_run(self, slots: Int64s) -> Keys:
        shape = (len(self._every), self.run_keys.shape[1] - len(slots))
        leaving = np.isin(self.run_slots, slots)
        order = np.argsort(slots)
        gone = np.empty((len(slots), len(self._every)), np.uint64)
        for table in self._every:
            mine = leaving[table]
            by_slot = np.argsort(self.run_slots[table, mine])
            gone[order, table] = self.run_keys[table, mine][by_slot]
        self.run_keys = self.run_keys[~leaving].reshape(shape)
        self.run_slots = self.run_slots[~leaving].reshape(shape)
        return gone

    def _merge(self) -> None:
        """Sort new entries into the tables, and drop the gaps."""
        keys, slots = self._without_gaps()
        self.keys, self.slots = _inserted(keys, slots, self.run_keys, self.run_slots)
        self.run_keys, self.run_slots = self.run_keys[:, :0].copy(), self.run_slots[:, :0].copy()
        self._gaps = 0
        places = np.arange(self.keys.shape[1], dtype=np.int32)
        for table in self._every:
            self.places[self.slots[table], table] = places

    def everything(self) -> tuple[Keys, Int32s]:
        """Return all keys and their slots, one row per table."""
        keys, slots = self._without_gaps()
        return np.hstack([keys, self.run_keys]), np.hstack([slots, self.run_slots])

    def _without_gaps(self) -> tuple[Keys, Int32s]:
        held, shape = self.slots != _GAP, (len(self._every), self.keys.shape[1] - self._gaps)
        return self.keys[held].reshape(shape), self.slots[held].reshape(shape)

    # -- finding --------------------------------------------------------------------------------

    def equal(self, key: np.uint64) -> Int64s:
        """Return the slots whose whole signature in the first table is `key`."""
        return self._members(0, key, key)

    def candidates(self, keys: Keys, enough: int) -> list[Int64s]:
        """Return the candidate slots for each row of keys.

        In each table, these are the `enough` examples with the longest common prefixes, of equal
        ones the nearest in the order of keys, and all examples with the same key as the last one.
        """
        return [
            np.unique(
                np.concatenate(
                    [
                        self._members(table, *self._window(table, key, enough))
                        for table, key in enumerate(row)
                    ]
                )
            )
            for row in keys
        ]

    def _members(self, table: int, low: np.uint64, high: np.uint64) -> Int64s:
        parts = []
        for keys, slots in self._parts(table):
            found = slots[keys.searchsorted(low) : keys.searchsorted(high, "right")]
            parts.append(found[found != _GAP])
        return np.concatenate(parts).astype(np.int64)

    def _parts(self, table: int) -> tuple[tuple[Keys, Int32s], tuple[Keys, Int32s]]:
        return (
            (self.keys[table], self.slots[table]),
            (self.run_keys[table], self.run_slots[table]),
        )

    def _window(self, table: int, key: np.uint64, enough: int) -> tuple[np.uint64, np.uint64]:
        """Return the lowest and the highest key of the candidates of one table."""
        parts = self._parts(table)
        sides = [_around(*part, int(part[0].searchsorted(key)), enough) for part in parts]
        below = np.sort(np.concatenate([side[0] for side in sides]))[::-1][:enough]
        above = np.sort(np.concatenate([side[1] for side in sides]))[:enough]
        left, right = bit_lengths(below ^ key), bit_lengths(above ^ key)
        before = int((np.arange(len(left)) + right.searchsorted(left) < enough).sum())
        after = min(enough - before, len(above))
        low = below[before - 1] if before else above[0] if after else key
        high = above[after - 1] if after else below[0] if before else key
        return low, high


def _inserted(
    keys: Keys, slots: Int32s, new_keys: Keys, new_slots: NDArray[np.integer]
) -> tuple[Keys, Int32s]:
    """Return sorted rows of keys with further ones, in any order, and their slots."""
    whole = np.empty((len(keys), keys.shape[1] + new_keys.shape[1]), np.uint64)
    whole_slots = np.empty(whole.shape, np.int32)
    for table, (row, more) in enumerate(zip(keys, new_keys, strict=True)):
        order = np.argsort(more, kind="stable")
        places = row.searchsorted(more[order])
        whole[table] = np.insert(row, places, more[order])
        whole_slots[table] = np.insert(slots[table], places, new_slots[table][order])
    return whole, whole_slots


def _around(keys: Keys, slots: Int32s, place: int, enough: int) -> tuple[Keys, Keys]:
    """Return the keys of the `enough` examples before a place and of those after it."""
    step = enough
    while True:
        first, stop = max(0, place - step), place + step
        below = keys[first:place][slots[first:place] != _GAP][-enough:]
        above = keys[place:stop][slots[place:stop] != _GAP][:enough]
        short = (len(below) < enough and first > 0) or (len(above) < enough and stop < len(keys))
        if not short:
            return below, above
        step *= 4
