"""Where a live model keeps its integers: `Cells`, an array that is read and written by index.

`State` keeps the cells of all arrays of one schema, applies a change to all of them or to none,
and knows which blocks have changed since they were last hashed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dealfl.digests import BLOCK, array_digest, block_hashes, whole_digest
from dealfl.integers import Entries, Integers
from dealfl.schema import ArraySpec, Schema
from dealfl.statistics import Statistics

__all__ = [
    "DENSE_LIMIT",
    "Cells",
    "DenseCells",
    "Proposal",
    "SparseCells",
    "State",
    "Storage",
    "in_memory",
]

Int64s = NDArray[np.int64]

DENSE_LIMIT = 1 << 29  # cells; zeros that are never touched cost no memory


class Cells(Protocol):
    """An array of integers that can be read and written in places."""

    def at(self, indices: Int64s) -> Integers:
        """Return the values at `indices`."""

    def put(self, indices: Int64s, values: Integers) -> None:
        """Replace the values at `indices`, which are different from one another."""

    def entries(self, start: int, stop: int) -> Entries:
        """Return the non-zeros with start ≤ index < stop."""


Storage = Callable[[ArraySpec], Cells]


class DenseCells:
    """Every cell in memory, 4, 8 or 16 bytes each."""

    def __init__(self, spec: ArraySpec) -> None:
        self._low = np.zeros(spec.size, dtype=np.int32 if spec.bits == 32 else np.int64)
        self._high = np.zeros(spec.size, dtype=np.int64) if spec.wide else None

    def at(self, indices: Int64s) -> Integers:
        """Return the values at `indices`."""
        high = None if self._high is None else self._high[indices]
        return Integers(self._low[indices].astype(np.int64, copy=False), high)

    def put(self, indices: Int64s, values: Integers) -> None:
        """Replace the values at `indices`."""
        self._low[indices] = values.low
        if self._high is not None and values.high is not None:
            self._high[indices] = values.high

    def entries(self, start: int, stop: int) -> Entries:
        """Return the non-zeros with start ≤ index < stop."""
        high = None if self._high is None else self._high[start:stop]
        low = self._low[start:stop]
        filled = low != 0 if high is None else (low != 0) | (high != 0)
        where = np.flatnonzero(filled)
        values = Integers(low[where].astype(np.int64), None if high is None else high[where])
        return Entries(where + start, values)


class SparseCells:
    """Only non-zeros in memory, for arrays far larger than what is ever counted in them."""

    def __init__(self) -> None:
        self._blocks: dict[int, dict[int, int]] = {}

    def at(self, indices: Int64s) -> Integers:
        """Return the values at `indices`."""
        empty: dict[int, int] = {}
        blocks = self._blocks
        return Integers.of(blocks.get(i // BLOCK, empty).get(i, 0) for i in indices.tolist())

    def put(self, indices: Int64s, values: Integers) -> None:
        """Replace the values at `indices`; a zero leaves no trace."""
        for index, value in zip(indices.tolist(), values.low.tolist(), strict=True):
            block = self._blocks.setdefault(index // BLOCK, {})
            if value:
                block[index] = value
            else:
                block.pop(index, None)
                if not block:
                    del self._blocks[index // BLOCK]

    def entries(self, start: int, stop: int) -> Entries:
        """Return the non-zeros with start ≤ index < stop."""
        wanted = range(start // BLOCK, (stop + BLOCK - 1) // BLOCK)
        blocks = [block for block in self._blocks if block in wanted]
        if len(wanted) < len(self._blocks):
            blocks = [block for block in wanted if block in self._blocks]
        pairs = {i: v for b in blocks for i, v in self._blocks[b].items() if start <= i < stop}
        return Entries.of(pairs)


def in_memory(spec: ArraySpec) -> Cells:
    """Return dense cells where they fit, sparse ones for arrays too large for that."""
    if spec.wide or spec.size <= DENSE_LIMIT:
        return DenseCells(spec)
    return SparseCells()


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the cells of one array would hold after a change, where it touches them."""

    indices: Int64s
    values: Integers


class State:
    """The integers of a live model, by array.

    >>> state = State(Schema("counter", {}, (ArraySpec("counts", 9),)), in_memory)
    >>> state.commit(state.propose(Statistics(state.schema, {"counts": Entries.of({7: 1})})))
    >>> state.digest() == state.snapshot().digest()
    True
    """

    def __init__(self, schema: Schema, storage: Storage) -> None:
        self.schema = schema
        self._cells = {spec.name: storage(spec) for spec in schema.arrays}
        self._hashes: dict[str, dict[int, bytes]] = {name: {} for name in self._cells}
        self._stale: dict[str, set[int]] = {name: set() for name in self._cells}

    def cells(self, name: str) -> Cells:
        """Return the cells of one array."""
        return self._cells[name]

    def whole(self, name: str) -> Integers:
        """Return every value of one array, zeros included."""
        size = next(spec.size for spec in self.schema.arrays if spec.name == name)
        return self._cells[name].at(np.arange(size, dtype=np.int64))

    def after(self, name: str, proposals: Mapping[str, Proposal]) -> Integers:
        """Return every value of one array as it would be after a change."""
        values, change = self.whole(name), proposals[name]
        values.low[change.indices] = change.values.low
        if values.high is not None and change.values.high is not None:
            values.high[change.indices] = change.values.high
        return values

    def propose(self, delta: Statistics) -> dict[str, Proposal]:
        """Return what adding `delta` would give; nothing is changed yet."""
        self.schema.require_same(delta.schema)
        proposals = {}
        for spec in self.schema.arrays:
            entries = delta[spec.name]
            values = self._cells[spec.name].at(entries.indices) + entries.values
            spec.require_fit(values)
            proposals[spec.name] = Proposal(entries.indices, values)
        return proposals

    def commit(self, proposals: Mapping[str, Proposal]) -> None:
        """Write what was proposed."""
        for name, proposal in proposals.items():
            self._cells[name].put(proposal.indices, proposal.values)
            self._stale[name].update(_blocks(proposal.indices))

    def snapshot(self) -> Statistics:
        """Return the present statistics; later changes do not reach them."""
        arrays = {s.name: self._cells[s.name].entries(0, s.size) for s in self.schema.arrays}
        return Statistics(self.schema, arrays)

    def digest(self) -> str:
        """Return the digest of the statistics; only blocks that changed are hashed."""
        digests = [(name, self._array_digest(name)) for name in self._cells]
        return whole_digest(self.schema.canonical(), digests)

    def _array_digest(self, name: str) -> bytes:
        hashes, stale = self._hashes[name], self._stale[name]
        for block in sorted(stale):
            start = block * BLOCK
            entries = self._cells[name].entries(start, start + BLOCK)
            hashes.pop(block, None)
            hashes.update(block_hashes(entries))
        stale.clear()
        return array_digest(hashes)


def _blocks(indices: Int64s) -> list[int]:
    """Return the blocks of ascending indices, each once."""
    blocks = indices // BLOCK
    if not len(blocks) or blocks[0] == blocks[-1]:
        return [int(block) for block in blocks[:1]]
    found: list[int] = blocks[1:][blocks[1:] != blocks[:-1]].tolist()
    return [int(blocks[0]), *found]
