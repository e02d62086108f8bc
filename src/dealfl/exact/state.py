"""The integers of a live model: cells of each array, changed in all arrays of a schema or in none.

Cells are read and written by index. They are in memory, dense or sparse, or in files (`paging`);
every learner runs on all of them unchanged.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dealfl.exact.encoding import BLOCK, array_digest, block_hashes
from dealfl.exact.entries import ArraySpec, Entries
from dealfl.exact.integers import Int64s, Integers
from dealfl.exact.statistics import Schema, Statistics, whole_digest

DENSE_LIMIT = 1 << 29  # cells; zeros that are never written use no memory
_MAX_MARKS = 1 << 17  # blocks of an array that have a mark each; more blocks are kept in a set
_RUN = 64  # blocks that are read at a time


class Cells(Protocol):
    """An array of integers that is read and written by index."""

    def at(self, indices: Int64s) -> Integers:
        """Return the values at some indices."""

    def put(self, indices: Int64s, values: Integers) -> None:
        """Replace the values at some distinct indices."""

    def entries(self, start: int, stop: int) -> Entries:
        """Return the non-zero values with start ≤ index < stop."""


Storage = Callable[[ArraySpec], Cells]


class DenseCells(Cells):
    """Cells in memory, with 4, 8 or 16 bytes each; `low` and `high` are made when first used."""

    def __init__(self, spec: ArraySpec) -> None:
        self._spec = spec

    @cached_property
    def low(self) -> NDArray[Any]:
        """The values; of wide integers, the low 32 bits."""
        return np.zeros(self._spec.size, np.int32 if self._spec.bits == 32 else np.int64)

    @cached_property
    def high(self) -> Int64s | None:
        """The high bits of wide integers."""
        return np.zeros(self._spec.size, np.int64) if self._spec.wide else None

    def at(self, indices: Int64s | slice) -> Integers:
        """Return a copy of the values at some indices."""
        high = None if self.high is None else self.high[indices].copy()
        return Integers(self.low[indices].astype(np.int64), high)

    def view(self, indices: Int64s | slice) -> Integers:
        """Return the values at some indices, not copied if possible; they must not be changed."""
        high = None if self.high is None else self.high[indices]
        return Integers(self.low[indices].astype(np.int64, copy=False), high)

    def put(self, indices: Int64s | slice, values: Integers) -> None:
        """Replace the values at some indices."""
        self.low[indices] = values.low
        if self.high is not None and values.high is not None:
            self.high[indices] = values.high

    def entries(self, start: int, stop: int) -> Entries:
        """Return the non-zero values of a range of indices."""
        part = slice(start, stop)
        values = Integers(self.low[part], None if self.high is None else self.high[part])
        entries = Entries.of_dense(values, start)
        shared = np.may_share_memory(entries.values.low, self.low)
        return Entries(entries.indices, self.at(part)) if shared else entries


class SparseCells(Cells):
    """Cells of which only the non-zero ones are held in memory, for very large arrays."""

    def __init__(self) -> None:
        self._blocks: dict[int, dict[int, int]] = {}

    def at(self, indices: Int64s) -> Integers:
        """Return the values at some indices."""
        empty = dict[int, int]()
        return Integers.of(self._blocks.get(i // BLOCK, empty).get(i, 0) for i in indices.tolist())

    def put(self, indices: Int64s, values: Integers) -> None:
        """Replace the values at some indices; a zero frees its cell."""
        for index, value in zip(indices.tolist(), values.low.tolist(), strict=True):
            block = self._blocks.setdefault(index // BLOCK, {})
            if value:
                block[index] = value
            else:
                block.pop(index, None)
                if not block:
                    del self._blocks[index // BLOCK]

    def entries(self, start: int, stop: int) -> Entries:
        """Return the non-zero values of a range of indices."""
        wanted = range(start // BLOCK, (stop + BLOCK - 1) // BLOCK)
        fewer, more = sorted((wanted, self._blocks), key=len)
        blocks = (self._blocks[number] for number in fewer if number in more)
        pairs = (pair for block in blocks for pair in block.items())
        return Entries.of({index: value for index, value in pairs if start <= index < stop})


def in_memory(spec: ArraySpec) -> Cells:
    """Create cells in memory, all zero: dense up to `DENSE_LIMIT` cells, sparse above."""
    return DenseCells(spec) if spec.wide or spec.size <= DENSE_LIMIT else SparseCells()


class BlockHashes:
    """The hashes of the blocks of one live array, and which of them are stale.

    `stale` has a mark per block, to be set after changing cells in place. Of an array of very many
    blocks, it is the set of the numbers of stale blocks.

    Examples
    --------
    >>> hashes = BlockHashes(9000)
    >>> hashes.mark(np.array([5, 8000]))
    >>> np.flatnonzero(hashes.stale).tolist()
    [0, 1]
    """

    def __init__(self, size: int) -> None:
        blocks = -(-size // BLOCK)
        self.stale: NDArray[np.bool_] | set[int] = set()
        if blocks <= _MAX_MARKS:
            self.stale = np.zeros(blocks, dtype=np.bool_)
        self._hashes: dict[int, bytes] = {}
        self._digest: bytes | None = None

    def mark(self, indices: Int64s | slice) -> None:
        """Note that the integers at some ascending indices changed."""
        if isinstance(indices, slice):
            indices = np.arange(indices.start // BLOCK * BLOCK, indices.stop, BLOCK)
        if not isinstance(self.stale, set) and len(indices) > len(self.stale):
            ends = np.searchsorted(indices, BLOCK * np.arange(1, 1 + len(self.stale)))
            self.stale |= np.diff(ends, prepend=0) > 0
            return
        blocks = indices // BLOCK
        if isinstance(self.stale, set):
            self.stale.update(blocks[np.diff(blocks, prepend=-1) != 0].tolist())
        else:
            self.stale[blocks] = True

    @property
    def is_stale(self) -> bool:
        """Whether an integer has changed since the last digest."""
        return bool(self.stale) if isinstance(self.stale, set) else bool(self.stale.any())

    def digest(self, entries: Callable[[int, int], Entries]) -> bytes:
        """Return the digest of the array, of which a function returns the entries of a range."""
        stale = self.stale
        marked = sorted(stale) if isinstance(stale, set) else np.flatnonzero(stale).tolist()
        if marked or self._digest is None:
            for first, stop in _runs(marked):
                for block in range(first, stop):
                    self._hashes.pop(block, None)
                self._hashes.update(block_hashes(entries(first * BLOCK, stop * BLOCK)))
            self._digest = array_digest(self._hashes)
            if isinstance(stale, set):
                stale.clear()
            else:
                stale[:] = False
        return self._digest


def _runs(blocks: Sequence[int]) -> list[tuple[int, int]]:
    """Return ascending blocks as ranges of at most `_RUN` adjacent ones."""
    runs: list[tuple[int, int]] = []
    for block in blocks:
        if runs and runs[-1][1] == block < runs[-1][0] + _RUN:
            runs[-1] = (runs[-1][0], block + 1)
        else:
            runs.append((block, block + 1))
    return runs


@dataclass(frozen=True, slots=True)
class Proposal:
    """The values of cells of one array after a change, also zeros."""

    span: Int64s | slice  # ascending indices of the cells
    values: Integers
    added: Integers  # to what is there now

    @property
    def indices(self) -> Int64s:
        """Ascending indices of the cells."""
        span = self.span
        return np.arange(span.start, span.stop) if isinstance(span, slice) else span


class State:
    """The integers of a live model, by array.

    Examples
    --------
    >>> state = State(Schema("counter", {}, (ArraySpec("counts", 9),)), in_memory)
    >>> state.commit(state.propose(Statistics(state.schema, {"counts": Entries.of({7: 1})})))
    >>> state.digest() == state.snapshot().digest()
    True
    """

    def __init__(self, schema: Schema, storage: Storage) -> None:
        self.schema = schema
        self._cells = {spec.name: storage(spec) for spec in schema.arrays}
        self._hashes = {spec.name: BlockHashes(spec.size) for spec in schema.arrays}
        self._snapshot: weakref.ref[Statistics] | None = None  # the last one, while it is held

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_snapshot": None}

    def cells(self, name: str) -> Cells:
        """Return the live cells of one array, not a copy."""
        return self._cells[name]

    def whole(self, name: str) -> Integers:
        """Return a copy of every value of one array, zeros included."""
        size = next(spec.size for spec in self.schema.arrays if spec.name == name)
        where: Any = slice(None) if isinstance(self._cells[name], DenseCells) else np.arange(size)
        return self._cells[name].at(where)

    def after(self, name: str, proposals: Mapping[str, Proposal]) -> Integers:
        """Return every value of one array as it would be after a change."""
        values = self.whole(name)
        change = proposals[name]
        values.put(change.span, change.values)
        return values

    def propose(self, delta: Statistics) -> dict[str, Proposal]:
        """Return the changed cells of each array after adding statistics; the state stays.

        Statistics of another schema and a sum that does not fit its width are errors.
        """
        self.schema.require_same(delta.schema)
        proposals = {}
        for spec in self.schema.arrays:
            cells, entries = self._cells[spec.name], delta[spec.name]
            if isinstance(cells, DenseCells):
                span = entries.span
                values = cells.view(span) + entries.values
            else:
                span = entries.indices
                values = cells.at(span) + entries.values
            spec.require_fit(values)
            proposals[spec.name] = Proposal(span, values, entries.values)
        return proposals

    def commit(self, proposals: Mapping[str, Proposal]) -> None:
        """Write proposed values."""
        for name, proposal in proposals.items():
            self._cells[name].put(proposal.span, proposal.values)  # type: ignore[arg-type]
            self._hashes[name].mark(proposal.span)

    def restore(self, proposals: Mapping[str, Proposal]) -> None:
        """Write what was there before proposed values, also if only some of them are written."""
        for name, proposal in proposals.items():
            before = proposal.values - proposal.added
            self._cells[name].put(proposal.span, before)  # type: ignore[arg-type]

    def stale(self, name: str) -> NDArray[np.bool_]:
        """Return the marks of the blocks of an array in memory that the next digest hashes again.

        They are not a copy: set them after changing cells in place.
        """
        stale = self._hashes[name].stale
        assert not isinstance(stale, set), "an array of that many blocks is changed by commit only"
        return stale

    def snapshot(self) -> Statistics:
        """Return a copy of the current statistics, the last one if nothing has changed since."""
        stale = any(hashes.is_stale for hashes in self._hashes.values())
        last = self._snapshot() if self._snapshot is not None else None
        if last is not None and not stale:
            return last
        specs = self.schema.arrays
        arrays = {spec.name: self._cells[spec.name].entries(0, spec.size) for spec in specs}
        snapshot = Statistics(self.schema, arrays)
        if not stale:
            self._snapshot = weakref.ref(snapshot)
        return snapshot

    def digest(self) -> str:
        """Return the digest of the statistics; only changed blocks are hashed again."""
        if any(hashes.is_stale for hashes in self._hashes.values()):
            self._snapshot = None
        digests = (
            (name, self._hashes[name].digest(cells.entries)) for name, cells in self._cells.items()
        )
        return whole_digest(self.schema.canonical(), tuple(digests))
