"""The examples that a worker holds, found by id, by value or by a common signature.

Removed examples are overwritten. Results depend only on the examples that are held, not on the
order in which they were added.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.errors import BadBytes, BadInput, NotLearned
from dealfl.exact import is_compiled
from dealfl.learners.forest import PrefixForest
from dealfl.learners.inputs import as_vector
from dealfl.learners.signatures import Signatures
from dealfl.settings import Count

__all__ = ["CandidateCount", "HeldExamples", "NeighborCount"]

Int64s = NDArray[np.int64]
Keys = NDArray[np.uint64]
Vectors = NDArray[np.int32]

NeighborCount = Annotated[Count, Meta(description="number of neighbours that vote")]
CandidateCount = Annotated[
    Count, Meta(description="number of candidates compared for each neighbour")
]

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
        self._seen, self._stamp = np.zeros(0, dtype=np.int32), 1  # marks of candidates
        self._signatures = signatures
        self._forest = PrefixForest(signatures.tables, signatures.bits)

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
        for name in ("vectors", "codes", "ids", "_seen"):
            old = getattr(self, name)
            grown = np.zeros((size, *old.shape[1:]), dtype=old.dtype)
            grown[: len(old)] = old
            setattr(self, name, grown)

    def remove(self, slots: Int64s) -> tuple[Keys, Int64s]:
        """Remove and overwrite examples; return their keys and codes."""
        for number in self.ids[slots].tolist():
            del self._slot_of[number]
        self._free.extend(slots.tolist())
        forest = self._forest
        if is_compiled(len(slots) * self.vectors.shape[1]):
            from dealfl.learners.neighbor_loops import remove_examples

            keys, codes, waiting = remove_examples(
                forest.keys, forest.slots, forest.places, self.vectors, self.codes, self.ids, slots
            )  # fmt: skip
            if waiting:
                forest.finish_removal(slots, keys)
            else:
                forest.count_gaps(len(slots))
            return keys, codes
        codes = self.codes[slots].astype(np.int64)
        self.vectors[slots], self.codes[slots], self.ids[slots] = 0, 0, 0
        return forest.remove(slots), codes

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

    def slots_of_equal(self, vectors: Vectors, codes: Vectors) -> Int64s:
        """Return the slot of an equal example for each row; of several, the smallest id's."""
        keys = self._signatures.of(vectors)
        taken: set[int] = set()
        found: list[int] = []
        for row, (vector, code) in enumerate(zip(vectors, codes, strict=True)):
            slots = self._forest.equal(keys[row, 0])
            same = np.all(self.vectors[slots] == vector, axis=1)
            equal = slots[same & (self.codes[slots] == code)]
            free = [slot for slot in equal.tolist() if slot not in taken]
            if not free:
                raise NotLearned(f"row {row} is not among the {len(self)} examples held")
            found.append(min(free, key=lambda slot: int(self.ids[slot])))
            taken.add(found[-1])
        return np.array(found, dtype=np.int64)

    def everything(self) -> tuple[Keys, Int64s]:
        """Return keys and codes: a column per table, each with its own order of the examples."""
        keys, slots = self._forest.everything()
        return keys.T, self.codes[slots.T].astype(np.int64)

    def nearest(
        self, vectors: NDArray[np.int32], enough: int, k: int
    ) -> tuple[list[tuple[Int64s, Int64s]], int]:
        """Return ids and squared distances of the nearest of each row, and all candidates."""
        if is_compiled(vectors.size * enough):
            from dealfl.learners.neighbor_loops import nearest_rows

            best, far, kept, total = nearest_rows(*self._search(vectors, enough, k))
            ids = self.ids[best]
            return [(ids[i, :n], far[i, :n]) for i, n in enumerate(kept.tolist())], total
        found, total = [], 0
        for slots, squares in self._near(vectors, enough):
            order = np.lexsort((self.ids[slots], squares))[:k]
            found.append((self.ids[slots[order]], squares[order]))
            total += len(slots)
        return found, total

    def votes(self, vectors: NDArray[np.int32], enough: int, k: int) -> tuple[Int64s, int]:
        """Return the votes of the k nearest by class, and the number of all candidates.

        Examples tied at the k-th distance share the places left.
        """
        classes = self._classes
        if is_compiled(vectors.size * enough):
            from dealfl.learners.neighbor_loops import vote_rows

            votes, total = vote_rows(*self._search(vectors, enough, k, self.codes, classes))
            return votes, total
        votes, total = np.zeros((len(vectors), classes), dtype=np.int64), 0
        for row, (slots, squares) in enumerate(self._near(vectors, enough)):
            votes[row] = self._votes_of(slots, squares, k)
            total += len(slots)
        return votes, total

    def voters(self, vectors: NDArray[np.int32], enough: int, k: int) -> list[int]:
        """Return the ids of the examples whose votes `votes` counts."""
        near = self._near(vectors, enough)
        found = [self.ids[slots[far <= _limit(far, k)]].tolist() for slots, far in near]
        return sorted(set(chain.from_iterable(found)))

    def _search(self, vectors: NDArray[np.int32], enough: int, *more: Any) -> tuple[Any, ...]:  # noqa: ANN401
        """Return the arguments of a compiled search."""
        if self._stamp + len(vectors) > np.iinfo(np.int32).max or not self._seen.flags.writeable:
            self._seen, self._stamp = np.zeros(len(self.ids), dtype=np.int32), 1
        forest, stamp = self._forest, self._stamp
        self._stamp += len(vectors)
        keys = self._signatures.of(vectors)
        return (
            forest.keys, forest.slots, forest.run_keys, forest.run_slots, keys, enough,
            self.vectors, vectors, self.ids, self._seen, stamp, *more,
        )  # fmt: skip

    def _near(self, vectors: NDArray[np.int32], enough: int) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield the candidates of each row, and exact squared distances."""
        candidates = self._forest.candidates(self._signatures.of(vectors), enough)
        for vector, slots in zip(vectors, candidates, strict=True):
            offsets = self.vectors[slots].astype(np.int64) - vector
            yield slots, np.einsum("ij,ij->i", offsets, offsets)

    def _votes_of(self, slots: Int64s, squares: Int64s, k: int) -> Int64s:
        classes, codes = self._classes, self.codes[slots]
        limit = _limit(squares, k)
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


def _limit(squares: Int64s, k: int) -> int:
    """Return the k-th smallest squared distance, or the largest of fewer."""
    return int(np.partition(squares, k - 1)[k - 1] if len(squares) > k else squares.max())


def _as_ids(ids: object, rows: int | None) -> Int64s:
    """Return ids as integers, one per row if the number of rows is known."""
    numbers = as_vector(ids, rows, "ids")
    truths = isinstance(ids, list | tuple) and any(isinstance(one, bool | np.bool_) for one in ids)
    if len(numbers) and (truths or numbers.dtype.kind not in "iu" or numbers.max() >= _IDS):
        raise BadInput(f"ids is {ids!r}; ids must be whole numbers below 2^62")
    return numbers.astype(np.int64)
