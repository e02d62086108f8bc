"""The examples that a worker holds, found by id, by value or by a common signature.

Removed examples are overwritten. Results depend only on the examples that are held, not on the
order in which they were added.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.errors import BadBytes, BadInput, NotLearned
from dealfl.learners.forest import PrefixForest
from dealfl.learners.inputs import as_vector
from dealfl.learners.votes import Signatures
from dealfl.settings import Count

__all__ = ["CandidateCount", "HeldExamples", "NeighborCount"]

Int64s = NDArray[np.int64]
Keys = NDArray[np.uint64]
Vectors = NDArray[np.int32]

NeighborCount = Annotated[Count, Meta(description="number of neighbours that vote")]
CandidateCount = Annotated[
    Count, Meta(description="number of candidates compared for each neighbour")
]


class HeldExamples:
    """Quantised vectors and class codes by slot; a free slot is overwritten and used again.

    Examples
    --------
    >>> signatures = Signatures(columns=2, tables=1, bits=4, vote_bits=2, seed=0)
    >>> held = HeldExamples(signatures, columns=2)
    >>> vectors = np.array([[1, 2], [9, 9]])
    >>> held.add(np.array([7, 8]), vectors, np.array([0, 1]), signatures.of(vectors))
    >>> held.ids[held.slots_of(np.array([8]))].tolist()
    [8]
    """

    def __init__(self, signatures: Signatures, columns: int) -> None:
        self.vectors = np.zeros((0, columns), dtype=np.int32)
        self.codes = np.zeros(0, dtype=np.int32)
        self.ids = np.zeros(0, dtype=np.int64)
        self._slot_of: dict[int, int] = {}
        self._free: list[int] = []
        self._signatures = signatures
        self._forest = PrefixForest(signatures.tables, signatures.bits)

    def __len__(self) -> int:
        return len(self._slot_of)

    # -- adding and removing --------------------------------------------------------------------

    def new_ids(self, count: int, wanted: object = None) -> Int64s:
        """Return ids for new examples: the given ones, or the smallest free ones."""
        if wanted is not None:
            return self._require_new(_as_ids(wanted, count))
        fresh: list[int] = []
        candidate = 0 if self._free or not len(self) else max(self._slot_of) + 1
        while len(fresh) < count:
            if candidate not in self._slot_of:
                fresh.append(candidate)
            candidate += 1
        return np.array(fresh, dtype=np.int64)

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
        first = len(self.ids)
        grown = len(ids) - len(reused)
        slots = np.array(reused + list(range(first, first + grown)), dtype=np.int64)
        self._grow(grown)
        self.vectors[slots], self.codes[slots], self.ids[slots] = vectors, codes, ids
        self._slot_of.update(zip(ids.tolist(), slots.tolist(), strict=True))
        self._forest.add(slots, keys)

    def _grow(self, count: int) -> None:
        columns = self.vectors.shape[1]
        self.vectors = np.concatenate([self.vectors, np.zeros((count, columns), dtype=np.int32)])
        self.codes = np.concatenate([self.codes, np.zeros(count, dtype=np.int32)])
        self.ids = np.concatenate([self.ids, np.zeros(count, dtype=np.int64)])

    def remove(self, slots: Int64s, keys: Keys) -> None:
        """Remove and overwrite examples."""
        self._forest.remove(slots, keys)
        for slot in slots.tolist():
            del self._slot_of[int(self.ids[slot])]
        self.vectors[slots], self.codes[slots], self.ids[slots] = 0, 0, 0
        self._free.extend(slots.tolist())

    # -- finding --------------------------------------------------------------------------------

    def slots_of(self, ids: object) -> Int64s:
        """Return the slots of ids, or raise `NotLearned`."""
        given = _as_ids(ids, None).tolist()
        if len(set(given)) != len(given):
            raise BadInput("an id is given twice; an example can be forgotten only once")
        missing = next((i for i in given if i not in self._slot_of), None)
        if missing is not None:
            raise NotLearned(f"no example with id {missing} is held here")
        return np.array([self._slot_of[i] for i in given], dtype=np.int64)

    def slots_of_equal(self, vectors: Vectors, codes: Vectors) -> Int64s:
        """Return the slot of an equal example for each row; of several, the smallest id's."""
        keys = self._signatures.of(vectors)
        taken: list[int] = []
        for row, (vector, code) in enumerate(zip(vectors, codes, strict=True)):
            slots = self._forest.equal(keys[row, 0])
            same = np.all(self.vectors[slots] == vector, axis=1)
            equal = slots[same & (self.codes[slots] == code)]
            free = [slot for slot in equal.tolist() if slot not in taken]
            if not free:
                raise NotLearned(f"row {row} is not among the {len(self)} examples held")
            taken.append(min(free, key=lambda slot: int(self.ids[slot])))
        return np.array(taken, dtype=np.int64)

    def near(self, vectors: NDArray[np.int32], enough: int) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield the slots that share a long prefix with each row, and exact squared distances."""
        candidates = self._forest.candidates(self._signatures.of(vectors), enough)
        for vector, slots in zip(vectors, candidates, strict=True):
            offsets = self.vectors[slots].astype(np.int64) - vector
            yield slots, np.einsum("ij,ij->i", offsets, offsets)

    def votes(self, slots: Int64s, squares: Int64s, k: int, classes: int) -> Int64s:
        """Return the votes of the k nearest by class; ties at the end share the places left."""
        codes = self.codes[slots]
        limit = np.partition(squares, k - 1)[k - 1] if len(squares) > k else squares.max()
        nearer = np.bincount(codes[squares < limit], minlength=classes)
        tied = np.bincount(codes[squares == limit], minlength=classes)
        places_left = min(k, len(squares)) - nearer.sum()
        votes: Int64s = nearer * tied.sum() + places_left * tied
        return votes

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
        rows = np.frombuffer(vectors, dtype="<i4").astype(np.int32).reshape(count, columns)
        self.add(
            np.frombuffer(ids, dtype="<i8").astype(np.int64),
            rows,
            np.frombuffer(codes, dtype="<i4").astype(np.int64),
            self._signatures.of(rows),
        )


def _as_ids(ids: object, rows: int | None) -> Int64s:
    """Return ids as integers, one per row if the number of rows is known."""
    numbers = as_vector(ids, rows, "ids")
    truths = isinstance(ids, list | tuple) and any(isinstance(one, bool | np.bool_) for one in ids)
    if len(numbers) and (truths or numbers.dtype.kind not in "iu" or numbers.max() >= 2**63):
        raise BadInput(f"ids is {ids!r}; ids must be whole numbers of at most 63 bits")
    return numbers.astype(np.int64)
