"""The examples that a worker holds, found by id, by value or by a common prefix of a signature.

Removed examples are overwritten. Results depend only on the examples that are held, not on the
order in which they were added.
"""

from __future__ import annotations

from itertools import chain
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.errors import BadBytes, BadInput, NotLearned
from dealfl.learners.inputs import as_vector
from dealfl.learners.neighbors.plain import (
    GAP,
    IN_RUN,
    near_rows,
    nearest_rows,
    remove_examples,
    slots_between,
    vote_rows,
)
from dealfl.learners.neighbors.signatures import Signatures
from dealfl.settings import Count

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Keys = NDArray[np.uint64]

NeighborCount = Annotated[Count, Meta(description="number of neighbours that vote")]
CandidateCount = Annotated[
    Count, Meta(description="number of candidates compared for each neighbour")
]

MIN_MERGE = 512  # new entries or gaps, before the tables are sorted again
_IDS = 1 << 62  # larger ones leave no numbers for ids after them


class HeldExamples:
    """Quantised vectors and class codes by slot; a free slot is overwritten and used again.

    Examples
    --------
    >>> signatures = Signatures(np.array([9, 9]), 1, bits=4, vote_bits=2, seed=0, digits=1)
    >>> held = HeldExamples(signatures, columns=2, classes=2)
    >>> vectors = np.array([[1, 2], [9, 9]])
    >>> held.add(np.array([7, 8]), vectors, np.array([0, 1]), signatures.of(vectors))
    >>> held.ids[held.slots_of([8])].tolist()
    [8]
    """

    def __init__(self, signatures: Signatures, columns: int, classes: int) -> None:
        self.vectors = np.zeros((0, columns), dtype=np.int32)
        self.codes = np.zeros(0, dtype=np.int32)
        self.ids = np.zeros(0, dtype=np.int64)
        self._classes = classes
        self._slot_of: dict[int, int] = {}
        self._free: list[int] = []
        self._used = 0  # slots that were ever used
        self._signatures = signatures
        self._forest = PrefixForest(signatures.tables)

    def __len__(self) -> int:
        return len(self._slot_of)

    # -- adding and removing --------------------------------------------------------------------

    def new_ids(self, count: int, wanted: object = None) -> Int64s:
        """Return ids for new examples: the given ones, or those after the largest id held."""
        if wanted is not None:
            return self._require_new(_as_ids(wanted, count))
        first = int(self.ids.max(initial=0)) + 1 if len(self) else 0  # a free slot has id 0
        return np.arange(first, first + count)

    def _require_new(self, ids: Int64s) -> Int64s:
        given = ids.tolist()
        if len(set(given)) != len(given):
            twice = next(i for i in given if given.count(i) > 1)
            raise BadInput(f"id {twice} is given twice; each example needs its own id")
        taken = next((i for i in given if i in self._slot_of), None)
        if taken is not None:
            raise BadInput(f"id {taken} is already in use; forget that example first")
        return ids

    def add(
        self, ids: Int64s, vectors: NDArray[np.integer], codes: NDArray[np.integer], keys: Keys
    ) -> None:
        """Add examples under new ids."""
        reused = [self._free.pop() for _ in range(min(len(self._free), len(ids)))]
        first = self._used
        self._used += len(ids) - len(reused)
        slots = np.array(reused + list(range(first, self._used)), dtype=np.int64)
        self._reserve(self._used)
        self.vectors[slots], self.codes[slots], self.ids[slots] = vectors, codes, ids
        self._slot_of.update(zip(ids.tolist(), slots.tolist(), strict=True))
        self._forest.add(slots, keys)

    def _reserve(self, slots: int) -> None:
        """Make room for slots; doubling it keeps the cost of one more example constant."""
        if slots <= len(self.ids):
            return
        size = max(slots, 2 * len(self.ids))
        grown = []
        for old in (self.vectors, self.codes, self.ids):
            new = np.zeros((size, *old.shape[1:]), dtype=old.dtype)
            new[: len(old)] = old
            grown.append(new)
        self.vectors, self.codes, self.ids = grown  # no interrupt comes within a statement

    def remove(self, slots: Int64s) -> tuple[Keys, Int64s]:
        """Remove and overwrite examples; return their keys and codes."""
        for number in self.ids.take(slots).tolist():
            del self._slot_of[number]
        self._free.extend(slots.tolist())
        return self._forest.remove(slots, self.vectors, self.codes, self.ids)

    def at(self, slots: Int64s) -> tuple[Int64s, Int32s, Int32s]:
        """Return copies of the ids, vectors and codes in some slots."""
        return self.ids.take(slots), self.vectors.take(slots, 0), self.codes.take(slots)

    def take_back(self, ids: Int64s) -> None:
        """Undo `add`, also if only a part of it was done."""
        for number in ids.tolist():
            self._slot_of.pop(number, None)
        self._rebuild()

    def put_back(self, slots: Int64s, ids: Int64s, vectors: Int32s, codes: Int32s) -> None:
        """Undo `remove`, also if only a part of it was done."""
        self.ids[slots], self.vectors[slots], self.codes[slots] = ids, vectors, codes
        self._slot_of.update(zip(ids.tolist(), slots.tolist(), strict=True))
        self._rebuild()

    def _rebuild(self) -> None:
        """Derive free slots and the forest from the slots of the ids."""
        self._used = len(self.ids)
        used = np.zeros(self._used, np.bool_)
        slots = np.array(list(self._slot_of.values()), dtype=np.int64)
        used[slots] = True
        self._free = np.flatnonzero(~used).tolist()
        for array in (self.vectors, self.codes, self.ids):
            array[: self._used][~used] = 0
        self._forest = PrefixForest(self._signatures.tables)
        self._forest.add(slots, self._signatures.of(self.vectors[slots]))

    # -- finding --------------------------------------------------------------------------------

    def slots_of(self, ids: object) -> Int64s:
        """Return the slots of ids, or raise `NotLearned`."""
        if type(ids) is list and len(ids) == 1 and type(ids[0]) is int:
            slot = self._slot_of.get(ids[0])
            if slot is not None:
                return np.array((slot,))
        given = _as_ids(ids, None).tolist()
        if len(set(given)) != len(given):
            raise BadInput("an id is given twice; an example can be forgotten only once")
        missing = next((i for i in given if i not in self._slot_of), None)
        if missing is not None:
            raise NotLearned(f"no example with id {missing} is held here")
        return np.array([self._slot_of[i] for i in given], dtype=np.int64)

    def slots_of_equal(self, vectors: Int32s, codes: Int32s) -> Int64s:
        """Return the slot of an equal example for each row; of several, the smallest id's."""
        keys = self._signatures.of(vectors)
        matches: dict[int, None] = {}
        for row, (vector, code) in enumerate(zip(vectors, codes, strict=True)):
            slots = self._forest.equal(keys[row, 0])
            same = np.all(self.vectors[slots] == vector, axis=1)
            equal = slots[same & (self.codes[slots] == code)]
            free = [slot for slot in equal.tolist() if slot not in matches]
            if not free:
                raise NotLearned(f"row {row} is not among the {len(self)} examples held")
            matches[min(free, key=lambda slot: int(self.ids[slot]))] = None
        return np.array(list(matches), dtype=np.int64)

    def everything(self) -> tuple[Keys, Int64s]:
        """Return keys and codes: a column per table, each with its own order of the examples."""
        keys, slots = self._forest.everything()
        return keys.T, self.codes[slots.T].astype(np.int64)

    def nearest(
        self, vectors: Int32s, enough: int, k: int
    ) -> tuple[list[tuple[Int64s, Int64s]], int]:
        """Return ids and squared distances of the nearest of each row, and all candidates."""
        keys = self._signatures.of(vectors)
        slots, squares, counts, candidates = nearest_rows(
            *self._forest.arrays, keys, enough, self.vectors, vectors, self.ids, k
        )
        ids = self.ids[slots]
        nearest = [(ids[row, :n], squares[row, :n]) for row, n in enumerate(counts.tolist())]
        return nearest, candidates

    def votes(self, vectors: Int32s, enough: int, k: int) -> tuple[Int64s, int]:
        """Return the votes of the k nearest by class, and the number of all candidates."""
        keys = self._signatures.of(vectors)
        arrays = self._forest.arrays
        return vote_rows(*arrays, keys, enough, self.vectors, vectors, self.codes, k, self._classes)

    def voters(self, vectors: Int32s, enough: int, k: int) -> list[int]:
        """Return the ids of the examples whose votes `votes` counts."""
        keys = self._signatures.of(vectors)
        near = near_rows(*self._forest.arrays, keys, enough, self.vectors, vectors)
        voters = (some.slots[some.squares <= some.kth_squares(k)[some.rows]] for _, some in near)
        return sorted(set(chain.from_iterable(self.ids[slots].tolist() for slots in voters)))

    # -- files ----------------------------------------------------------------------------------

    def sections(self) -> dict[str, bytes]:
        """Return the examples by ascending id, as sections of a file."""
        slots = np.array([self._slot_of[i] for i in sorted(self._slot_of)], dtype=np.int64)
        return {
            "ids": self.ids[slots].astype("<i8").tobytes(),
            "codes": self.codes[slots].astype("<i4").tobytes(),
            "vectors": self.vectors[slots].astype("<i4").tobytes(),
        }

    def restore(self, ids: bytes, codes: bytes, vectors: bytes) -> None:
        """Add the examples of a file."""
        count, columns = len(ids) // 8, self.vectors.shape[1]
        if [len(ids), len(codes), len(vectors)] != [8 * count, 4 * count, 4 * count * columns]:
            raise BadBytes("ids, classes and vectors of the saved examples differ in number")
        numbers = np.frombuffer(ids, dtype="<i8").astype(np.int64)
        classes = np.frombuffer(codes, dtype="<i4").astype(np.int64)
        rows = np.frombuffer(vectors, dtype="<i4").astype(np.int32).reshape(count, columns)
        if not (np.all(numbers[1:] > numbers[:-1]) and numbers.max(initial=0) < _IDS):
            raise BadBytes("the ids of the saved examples are not ascending numbers below 2^62")
        if not np.all((classes >= 0) & (classes < self._classes)):
            raise BadBytes(f"a saved example has a class beyond the {self._classes} classes")
        if not np.all(np.abs(rows.astype(np.int64)) <= self._signatures.limits):
            raise BadBytes("a saved example is outside the bounds of its features")
        self.add(numbers, rows, classes, self._signatures.of(rows))


def _as_ids(ids: object, rows: int | None) -> Int64s:
    """Return ids as integers, one per row if the number of rows is known."""
    numbers = as_vector(ids, rows, "ids")
    truths = isinstance(ids, list | tuple) and any(
        isinstance(item, bool | np.bool_) for item in ids
    )
    if len(numbers) and (truths or numbers.dtype.kind not in "iu" or numbers.max() >= _IDS):
        raise BadInput(f"ids is {ids!r}; ids must be whole numbers below 2^62")
    return numbers.astype(np.int64)


class PrefixForest:
    """Slots of examples by signature, in several tables: which share long prefixes?

    Each table keeps its signatures sorted, so examples with a common prefix are adjacent. The
    position of each example in each table is known, so that removing it needs no search. A removed
    entry leaves a gap with the key of the next example before it. New entries wait in a small
    sorted run. So no trace of a removed example remains.

    Examples
    --------
    >>> forest = PrefixForest(tables=1)
    >>> keys = np.array([[0b0001], [0b0011], [0b1000]], dtype=np.uint64)
    >>> forest.add(np.array([10, 11, 12]), keys)
    >>> forest.equal(np.uint64(0b0011)).tolist()
    [11]
    """

    def __init__(self, tables: int) -> None:
        self._tables = range(tables)
        self._keys: Keys = np.empty((tables, 0), np.uint64)
        self._slots: Int32s = np.empty((tables, 0), np.int32)
        self._run_keys = self._keys.copy()
        self._run_slots = self._slots.copy()
        self._positions: Int32s = np.empty((0, tables), np.int32)
        self._gaps = 0

    @property
    def arrays(self) -> tuple[Keys, Int32s, Keys, Int32s]:
        """Keys and slots of the tables, and of their runs, one row per table."""
        return self._keys, self._slots, self._run_keys, self._run_slots

    def add(self, slots: Int64s, keys: Keys) -> None:
        """Add examples: one row of keys per slot, one column per table."""
        if not len(slots):
            return
        self._reserve(int(slots.max()) + 1)
        self._positions[slots] = IN_RUN
        self._run_keys, self._run_slots = _inserted(
            self._run_keys, self._run_slots, keys.T, np.broadcast_to(slots, keys.T.shape)
        )
        if self._run_keys.shape[1] > max(MIN_MERGE, self._keys.shape[1] // 16):
            self._merge()

    def _reserve(self, slots: int) -> None:
        capacity = len(self._positions)
        if slots > capacity:
            grown = np.empty((max(slots, 2 * capacity), len(self._tables)), np.int32)
            grown[:capacity] = self._positions
            self._positions = grown

    def remove(
        self, slots: Int64s, vectors: Int32s, codes: Int32s, ids: Int64s
    ) -> tuple[Keys, Int64s]:
        """Remove examples, and overwrite what is stored by slot; return their keys and codes."""
        gone_keys, gone_codes, in_run = remove_examples(
            self._keys, self._slots, self._positions, vectors, codes, ids, slots
        )
        if in_run:
            waiting = (self._positions[slots, 0] == IN_RUN).nonzero()[0]
            gone_keys[waiting] = self._remove_from_run(slots[waiting])
        self._gaps += len(slots) - in_run
        if self._gaps > max(MIN_MERGE, self._keys.shape[1] // 2):
            self._merge()
        return gone_keys, gone_codes

    def _remove_from_run(self, slots: Int64s) -> Keys:
        shape = (len(self._tables), self._run_keys.shape[1] - len(slots))
        leaving = np.isin(self._run_slots, slots)
        order = np.argsort(slots)
        gone = np.empty((len(slots), len(self._tables)), np.uint64)
        for table in self._tables:
            mine = leaving[table]
            by_slot = np.argsort(self._run_slots[table, mine])
            gone[order, table] = self._run_keys[table, mine][by_slot]
        self._run_keys = self._run_keys[~leaving].reshape(shape)
        self._run_slots = self._run_slots[~leaving].reshape(shape)
        return gone

    def _merge(self) -> None:
        """Sort new entries into the tables, and drop the gaps."""
        keys, slots = self._without_gaps()
        self._keys, self._slots = _inserted(keys, slots, self._run_keys, self._run_slots)
        self._run_keys = self._run_keys[:, :0].copy()
        self._run_slots = self._run_slots[:, :0].copy()
        self._gaps = 0
        positions = np.arange(self._keys.shape[1], dtype=np.int32)
        for table in self._tables:
            self._positions[self._slots[table], table] = positions

    def everything(self) -> tuple[Keys, Int32s]:
        """Return all keys and their slots, one row per table."""
        keys, slots = self._without_gaps()
        return np.hstack([keys, self._run_keys]), np.hstack([slots, self._run_slots])

    def _without_gaps(self) -> tuple[Keys, Int32s]:
        used = self._slots != GAP
        shape = (len(self._tables), self._keys.shape[1] - self._gaps)
        return self._keys[used].reshape(shape), self._slots[used].reshape(shape)

    def equal(self, key: np.uint64) -> Int64s:
        """Return the slots whose whole signature in the first table is `key`."""
        keys, slots, run_keys, run_slots = (array[0] for array in self.arrays)
        return slots_between(((keys, slots), (run_keys, run_slots)), key, key)


def _inserted(
    keys: Keys, slots: Int32s, new_keys: Keys, new_slots: NDArray[np.integer]
) -> tuple[Keys, Int32s]:
    """Return sorted rows of keys with further ones, in any order, and their slots."""
    whole = np.empty((len(keys), keys.shape[1] + new_keys.shape[1]), np.uint64)
    whole_slots = np.empty(whole.shape, np.int32)
    for table, (row, more) in enumerate(zip(keys, new_keys, strict=True)):
        order = np.argsort(more, kind="stable")
        positions = row.searchsorted(more[order])
        whole[table] = np.insert(row, positions, more[order])
        whole_slots[table] = np.insert(slots[table], positions, new_slots[table][order])
    return whole, whole_slots
