"""The integers of a live model: a change is applied to all arrays of a schema or to none."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.exact.cells import Cells, DenseCells, Storage
from dealfl.exact.digests import BlockHashes, whole_digest
from dealfl.exact.integers import Integers
from dealfl.exact.schema import Schema
from dealfl.exact.statistics import Statistics

__all__ = ["Proposal", "State"]

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Proposal:
    """The values of cells of one array after a change, also zeros.

    Parameters
    ----------
    place
        Ascending indices of the cells, or a slice.
    values
        One value per cell.
    """

    place: Int64s | slice
    values: Integers

    @property
    def indices(self) -> Int64s:
        """Ascending indices of the cells."""
        place = self.place
        return np.arange(place.start, place.stop) if isinstance(place, slice) else place


class State:
    """The integers of a live model, by array.

    Parameters
    ----------
    schema, storage
        Schema of the statistics, and a function that creates the cells of an array.

    Examples
    --------
    >>> from dealfl.cells import in_memory
    >>> from dealfl.entries import Entries
    >>> from dealfl.schema import ArraySpec
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
        values.put(change.place, change.values)
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
            if isinstance(cells, DenseCells):
                place, values = entries.place, cells.view(entries.place) + entries.values
            else:
                place, values = entries.indices, cells.at(entries.indices) + entries.values
            spec.require_fit(values)
            proposals[spec.name] = Proposal(place, values)
        return proposals

    def commit(self, proposals: Mapping[str, Proposal]) -> None:
        """Write proposed values.

        Parameters
        ----------
        proposals
            Result of `propose`.
        """
        for name, proposal in proposals.items():
            self._cells[name].put(proposal.place, proposal.values)  # type: ignore[arg-type]
            self._hashes[name].mark(proposal.place)

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
        """Return a copy of the current statistics, the last one if nothing has changed since."""
        stale = any(hashes.is_stale for hashes in self._hashes.values())
        held = self._snapshot() if self._snapshot is not None else None
        if held is not None and not stale:
            return held
        arrays = {s.name: self._cells[s.name].entries(0, s.size) for s in self.schema.arrays}
        made = Statistics(self.schema, arrays)
        if not stale:
            self._snapshot = weakref.ref(made)
        return made

    def digest(self) -> str:
        """Return the digest of the statistics; only changed blocks are hashed again."""
        if any(hashes.is_stale for hashes in self._hashes.values()):
            self._snapshot = None
        digests = ((n, self._hashes[n].digest(self._cells[n].entries)) for n in self._cells)
        return whole_digest(self.schema.canonical(), tuple(digests))
