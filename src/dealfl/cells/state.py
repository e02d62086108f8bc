"""The arrays of one schema, changed together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dealfl.cells.storage import Cells, Storage
from dealfl.digests import BLOCK, array_digest, block_hashes, whole_digest
from dealfl.integers import Integers
from dealfl.schema import Schema
from dealfl.statistics import Statistics

__all__ = ["Proposal", "State"]

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Proposal:
    """The values that the touched cells of one array would have after a change.

    Parameters
    ----------
    indices : ndarray of int64
        Indices of the touched cells.
    values : Integers
        Their values after the change.
    """

    indices: Int64s
    values: Integers


class State:
    """The integers of a live model, by array.

    Parameters
    ----------
    schema : Schema
        Schema of the statistics.
    storage : callable
        Creates the cells of an array from its `ArraySpec`, for example `in_memory`.

    Examples
    --------
    >>> from dealfl.cells import State, in_memory
    >>> from dealfl.integers import Entries
    >>> from dealfl.schema import ArraySpec, Schema
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
        """Return the cells of one array.

        Parameters
        ----------
        name : str
            Name of the array.

        Returns
        -------
        Cells
            The live cells, not a copy.
        """
        return self._cells[name]

    def whole(self, name: str) -> Integers:
        """Return every value of one array, zeros included.

        Parameters
        ----------
        name : str
            Name of the array.

        Returns
        -------
        Integers
            A copy of the values.
        """
        size = next(spec.size for spec in self.schema.arrays if spec.name == name)
        return self._cells[name].at(np.arange(size, dtype=np.int64))

    def after(self, name: str, proposals: Mapping[str, Proposal]) -> Integers:
        """Return every value of one array as it would be after a change.

        Parameters
        ----------
        name : str
            Name of the array.
        proposals : mapping of str to Proposal
            Result of `propose`.

        Returns
        -------
        Integers
            The values after the change; the state itself does not change.
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
        delta : Statistics
            Statistics to add.

        Returns
        -------
        dict of str to Proposal
            The changed cells of each array, for `commit`.

        Raises
        ------
        Incompatible
            The schema of `delta` is not the schema of this state.
        OutOfBounds
            A sum does not fit the width of its array.
        """
        self.schema.require_same(delta.schema)
        proposals = {}
        for spec in self.schema.arrays:
            entries = delta[spec.name]
            values = self._cells[spec.name].at(entries.indices) + entries.values
            spec.require_fit(values)
            proposals[spec.name] = Proposal(entries.indices, values)
        return proposals

    def commit(self, proposals: Mapping[str, Proposal]) -> None:
        """Write proposed values.

        Parameters
        ----------
        proposals : mapping of str to Proposal
            Result of `propose`.
        """
        for name, proposal in proposals.items():
            self._cells[name].put(proposal.indices, proposal.values)
            self._stale[name].update(_blocks(proposal.indices))

    def snapshot(self) -> Statistics:
        """Return a copy of the current statistics.

        Returns
        -------
        Statistics
            Later changes of the state do not affect it.
        """
        arrays = {s.name: self._cells[s.name].entries(0, s.size) for s in self.schema.arrays}
        return Statistics(self.schema, arrays)

    def digest(self) -> str:
        """Return the digest of the statistics; only changed blocks are hashed again.

        Returns
        -------
        str
            The same as ``snapshot().digest()``.
        """
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
    """Return the distinct blocks of ascending indices."""
    blocks = indices // BLOCK
    if not len(blocks) or blocks[0] == blocks[-1]:
        return [int(block) for block in blocks[:1]]
    found: list[int] = blocks[1:][blocks[1:] != blocks[:-1]].tolist()
    return [int(blocks[0]), *found]
