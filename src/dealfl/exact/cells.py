"""Cells: an array of integers that is read and written by index, in memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dealfl.exact.digests import BLOCK
from dealfl.exact.entries import Entries
from dealfl.exact.integers import Integers
from dealfl.exact.schema import ArraySpec

__all__ = ["DENSE_LIMIT", "Cells", "DenseCells", "SparseCells", "Storage", "in_memory"]

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

    def view(self, indices: Int64s | slice) -> Integers:
        """Return the values at some indices, not copied if possible.

        Parameters
        ----------
        indices
            Cells to read.

        Returns
        -------
        Integers
            One value per index; not to be changed.
        """
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
