"""The examples a worker holds: one row each in a slab, found by id, wiped when removed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadBytes, BadInput, NotLearned
from dealfl.learners.inputs import as_array, as_vector

__all__ = ["Slab", "as_ids"]

Int64s = NDArray[np.int64]
Vectors = NDArray[np.int32]


class Slab:
    """Quantised vectors and class codes by slot; a freed slot is wiped and used again.

    >>> slab = Slab(columns=2)
    >>> slab.add(np.array([7]), np.array([[1, 2]]), np.array([0])).tolist()
    [0]
    """

    def __init__(self, columns: int) -> None:
        self.vectors: Vectors = np.zeros((0, columns), dtype=np.int32)
        self.codes = np.zeros(0, dtype=np.int32)
        self.ids = np.zeros(0, dtype=np.int64)
        self._slot_of: dict[int, int] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._slot_of)

    def new_ids(self, count: int) -> Int64s:
        """Return the smallest ids that are not in use."""
        fresh: list[int] = []
        candidate = 0 if self._free or not len(self) else max(self._slot_of) + 1
        while len(fresh) < count:
            if candidate not in self._slot_of:
                fresh.append(candidate)
            candidate += 1
        return np.array(fresh, dtype=np.int64)

    def require_new(self, ids: Int64s) -> None:
        """Raise `BadInput` if an id is in use or given twice."""
        given = ids.tolist()
        if len(set(given)) != len(given):
            twice = next(i for i in given if given.count(i) > 1)
            raise BadInput(f"the id {twice} is given twice; each example needs its own")
        taken = next((i for i in given if i in self._slot_of), None)
        if taken is not None:
            raise BadInput(f"an example with the id {taken} is held already; forget it first")

    def add(self, ids: Int64s, vectors: NDArray[np.integer], codes: NDArray[np.integer]) -> Int64s:
        """Add examples under new ids; return their slots."""
        reused = [self._free.pop() for _ in range(min(len(self._free), len(ids)))]
        first = len(self.ids)
        grown = len(ids) - len(reused)
        slots = np.array(reused + list(range(first, first + grown)), dtype=np.int64)
        self._grow(grown)
        self.vectors[slots], self.codes[slots], self.ids[slots] = vectors, codes, ids
        self._slot_of.update(zip(ids.tolist(), slots.tolist(), strict=True))
        return slots

    def _grow(self, count: int) -> None:
        columns = self.vectors.shape[1]
        self.vectors = np.concatenate([self.vectors, np.zeros((count, columns), dtype=np.int32)])
        self.codes = np.concatenate([self.codes, np.zeros(count, dtype=np.int32)])
        self.ids = np.concatenate([self.ids, np.zeros(count, dtype=np.int64)])

    def remove(self, slots: Int64s) -> None:
        """Remove and wipe examples."""
        for slot in slots.tolist():
            del self._slot_of[int(self.ids[slot])]
        self.vectors[slots], self.codes[slots], self.ids[slots] = 0, 0, 0
        self._free.extend(slots.tolist())

    def slots(self, ids: Int64s) -> Int64s:
        """Return the slots of ids, or raise `NotLearned`."""
        missing = next((i for i in ids.tolist() if i not in self._slot_of), None)
        if missing is not None:
            raise NotLearned(f"no example with the id {missing} is held")
        return np.array([self._slot_of[i] for i in ids.tolist()], dtype=np.int64)

    def held(self) -> Int64s:
        """Return the slots in use, by ascending id."""
        return np.array([self._slot_of[i] for i in sorted(self._slot_of)], dtype=np.int64)

    # -- files ----------------------------------------------------------------------------------

    def sections(self) -> dict[str, bytes]:
        """Return the examples held, for a file."""
        slots = self.held()
        return {
            "ids": self.ids[slots].astype("<i8").tobytes(),
            "codes": self.codes[slots].astype("<i4").tobytes(),
            "vectors": self.vectors[slots].astype("<i4").tobytes(),
        }

    def read(self, ids: bytes, codes: bytes, vectors: bytes) -> Int64s:
        """Add the examples of a file; return their slots."""
        count, columns = len(ids) // 8, self.vectors.shape[1]
        if [len(ids), len(codes), len(vectors)] != [8 * count, 4 * count, 4 * count * columns]:
            raise BadBytes("the examples of the saved learner do not fit together")
        return self.add(
            np.frombuffer(ids, dtype="<i8").astype(np.int64),
            np.frombuffer(vectors, dtype="<i4").astype(np.int32).reshape(count, columns),
            np.frombuffer(codes, dtype="<i4").astype(np.int64),
        )


def as_ids(ids: object, rows: int | None) -> Int64s:
    """Return ids as whole numbers, one for each row where their number is known."""
    numbers = as_array(ids, "ids")
    numbers = as_vector(numbers, numbers.size if rows is None else rows, "ids")
    if len(numbers) and numbers.dtype.kind not in "iu":
        raise BadInput(f"ids hold {numbers.dtype} values; an id is a whole number")
    return numbers.astype(np.int64)
