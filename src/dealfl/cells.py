"""Storage of a live model's integers: a change is applied to all arrays of a schema or to none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dealfl.digests import BLOCK, BlockHashes, whole_digest
from dealfl.entries import Entries
from dealfl.integers import Integers
from dealfl.schema import ArraySpec, Schema
from dealfl.statistics import Statistics

__all__ = [
    "DENSE_LIMIT", "Cells", "DenseCells", "Proposal", "SparseCells", "State", "Storage",
    "in_memory",
]  # fmt: skip

Int64s = NDArray[np.int64]
DENSE_LIMIT = 1 << 29  # cells; zeros that are never written use no memory


class Cells(Protocol):
    """An array of integers that is read and written by index."""

    def at(self, indices: Int64s) -> Integers:
        """Return the values at some indices.

        Parameters
        ----------
        indices
            Cells to read.

        Returns
        -------
        Integers
            One value per index.
        """

    def put(self, indices: Int64s, values: Integers) -> None:
        """Replace the values at some indices.

        Parameters
        ----------
        indices, values
            Distinct indices of the cells to write, and one value per index.
        """

    def entries(self, start: int, stop: int) -> Entries:
        """Return the non-zero values of a range of indices.

        Parameters
        ----------
        start, stop
            First index of the range, and the index after the last one.

        Returns
        -------
        Entries
            The non-zero values, by ascending index.
        """


Storage = Callable[[ArraySpec], Cells]


class DenseCells(Cells):
    """Cells in memory, with 4, 8 or 16 bytes each; `low` and `high` are made when first used.

    Parameters
    ----------
    spec
        Size and width of the array.
    """

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

    def put(self, indices: Int64s | slice, values: Integers) -> None:
        """Replace the values at some indices."""
        self.low[indices] = values.low
        if self.high is not None and values.high is not None:
            self.high[indices] = values.high

    def entries(self, start: int, stop: int) -> Entries:
        """Return the non-zero values of a range of indices."""
        part = slice(start, stop)
        values = Integers(self.low[part], None if self.high is None else self.high[part])
        found = Entries.of_dense(values, start)
        shared = np.may_share_memory(found.values.low, self.low)
        return Entries(found.indices, self.at(part)) if shared else found


class SparseCells(Cells):
    """Cells of which only the non-zero ones are held in memory, for very large arrays."""

    def __init__(self) -> None:
        self._blocks: dict[int, dict[int, int]] = {}

    def at(self, indices: Int64s) -> Integers:
        """Return the values at some indices."""
        blocks, empty = self._blocks, dict[int, int]()
        return Integers.of(blocks.get(i // BLOCK, empty).get(i, 0) for i in indices.tolist())

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
        blocks = (block for block in fewer if block in more)
        pairs = {i: v for b in blocks for i, v in self._blocks[b].items() if start <= i < stop}
        return Entries.of(pairs)


def in_memory(spec: ArraySpec) -> Cells:
    """Create cells in memory: dense up to `DENSE_LIMIT` cells, sparse above.

    Parameters
    ----------
    spec
        Size and width.

    Returns
    -------
    Cells
        All are zero.
    """
    return DenseCells(spec) if spec.wide or spec.size <= DENSE_LIMIT else SparseCells()


class Proposal(Entries):
    """The indices of touched cells of one array, and their values after a change, also zeros."""


class State:
    """The integers of a live model, by array.

    Parameters
    ----------
    schema, storage
        Schema of the statistics, and a function that creates the cells of an array.

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

    def cells(self, name: str) -> Cells:
        """Return the live cells of one array, not a copy.

        Parameters
        ----------
        name : str
            Name of the array.

        Returns
        -------
        Cells
            The cells.
        """
        return self._cells[name]

    def whole(self, name: str) -> Integers:
        """Return a copy of every value of one array, zeros included.

        Parameters
        ----------
        name
            Name of the array.

        Returns
        -------
        Integers
            The values.
        """
        size = next(spec.size for spec in self.schema.arrays if spec.name == name)
        where: Any = slice(None) if isinstance(self._cells[name], DenseCells) else np.arange(size)
        return self._cells[name].at(where)

    def after(self, name: str, proposals: Mapping[str, Proposal]) -> Integers:
        """Return every value of one array as it would be after a change.

        Parameters
        ----------
        name, proposals
            Name of the array, and result of `propose`.

        Returns
        -------
        Integers
            The values.
        """
        values, change = self.whole(name), proposals[name]
        values.low[change.indices] = change.values.low
        if values.high is not None and change.values.high is not None:
            values.high[change.indices] = change.values.high
        return values

    def propose(self, delta: Statistics) -> dict[str, Proposal]:
        """Compute the result of adding statistics, without changing the state.

        Parameters
        ----------
        delta
            Statistics to add; another schema or a sum that does not fit is an error.

        Returns
        -------
        dict of str to Proposal
            The changed cells of each array.
        """
        self.schema.require_same(delta.schema)
        proposals = {}
        for spec in self.schema.arrays:
            cells, entries = self._cells[spec.name], delta[spec.name]
            where = entries.place if isinstance(cells, DenseCells) else entries.indices
            values = cells.at(where) + entries.values
            spec.require_fit(values)
            proposals[spec.name] = Proposal(entries.indices, values)
        return proposals

    def commit(self, proposals: Mapping[str, Proposal]) -> None:
        """Write proposed values.

        Parameters
        ----------
        proposals
            Result of `propose`.
        """
        for name, proposal in proposals.items():
            cells = self._cells[name]
            where = proposal.place if isinstance(cells, DenseCells) else proposal.indices
            cells.put(where, proposal.values)
            self._hashes[name].mark(proposal.indices)

    def stale(self, name: str) -> NDArray[np.bool_]:
        """Return the marks of the blocks of an array in memory that the next digest hashes again.

        Parameters
        ----------
        name : str
            Name of the array.

        Returns
        -------
        ndarray of bool
            One mark per block, not a copy; set them after changing cells in place.
        """
        stale = self._hashes[name].stale
        assert not isinstance(stale, set), "an array of that many blocks is changed by commit only"
        return stale

    def snapshot(self) -> Statistics:
        """Return a copy of the current statistics."""
        arrays = {s.name: self._cells[s.name].entries(0, s.size) for s in self.schema.arrays}
        return Statistics(self.schema, arrays)

    def digest(self) -> str:
        """Return the digest of the statistics; only changed blocks are hashed again."""
        digests = ((n, self._hashes[n].digest(self._cells[n].entries)) for n in self._cells)
        return whole_digest(self.schema.canonical(), tuple(digests))
