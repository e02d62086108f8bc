"""Arrays of integers in memory that are read and written by index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dealfl.digests import BLOCK
from dealfl.integers import Entries, Integers
from dealfl.schema import ArraySpec

__all__ = ["DENSE_LIMIT", "Cells", "DenseCells", "SparseCells", "Storage", "in_memory"]

Int64s = NDArray[np.int64]

DENSE_LIMIT = 1 << 29  # cells; zeros that are never written use no memory


class Cells(Protocol):
    """An array of integers that is read and written by index."""

    def at(self, indices: Int64s) -> Integers:
        """Return the values at some indices.

        Parameters
        ----------
        indices : ndarray of int64
            Indices of the cells to read.

        Returns
        -------
        Integers
            One value per index.
        """

    def put(self, indices: Int64s, values: Integers) -> None:
        """Replace the values at some indices.

        Parameters
        ----------
        indices : ndarray of int64
            Distinct indices of the cells to write.
        values : Integers
            One value per index.
        """

    def entries(self, start: int, stop: int) -> Entries:
        """Return the non-zero values of a range of indices.

        Parameters
        ----------
        start : int
            First index of the range.
        stop : int
            Index after the last one of the range.

        Returns
        -------
        Entries
            The non-zero values, by ascending index.
        """


Storage = Callable[[ArraySpec], Cells]


class DenseCells:
    """Cells that are all held in memory, with 4, 8 or 16 bytes each.

    Parameters
    ----------
    spec : ArraySpec
        Size and width of the array.
    """

    def __init__(self, spec: ArraySpec) -> None:
        self._low = np.zeros(spec.size, dtype=np.int32 if spec.bits == 32 else np.int64)
        self._high = np.zeros(spec.size, dtype=np.int64) if spec.wide else None

    def at(self, indices: Int64s) -> Integers:
        """Return the values at some indices.

        Parameters
        ----------
        indices : ndarray of int64
            Indices of the cells to read.

        Returns
        -------
        Integers
            One value per index.
        """
        high = None if self._high is None else self._high[indices]
        return Integers(self._low[indices].astype(np.int64, copy=False), high)

    def put(self, indices: Int64s, values: Integers) -> None:
        """Replace the values at some indices.

        Parameters
        ----------
        indices : ndarray of int64
            Distinct indices of the cells to write.
        values : Integers
            One value per index.
        """
        self._low[indices] = values.low
        if self._high is not None and values.high is not None:
            self._high[indices] = values.high

    def entries(self, start: int, stop: int) -> Entries:
        """Return the non-zero values of a range of indices.

        Parameters
        ----------
        start : int
            First index of the range.
        stop : int
            Index after the last one of the range.

        Returns
        -------
        Entries
            The non-zero values, by ascending index.
        """
        high = None if self._high is None else self._high[start:stop]
        low = self._low[start:stop]
        filled = low != 0 if high is None else (low != 0) | (high != 0)
        where = np.flatnonzero(filled)
        values = Integers(low[where].astype(np.int64), None if high is None else high[where])
        return Entries(where + start, values)


class SparseCells:
    """Cells of which only the non-zero ones are held in memory, for very large arrays."""

    def __init__(self) -> None:
        self._blocks: dict[int, dict[int, int]] = {}

    def at(self, indices: Int64s) -> Integers:
        """Return the values at some indices.

        Parameters
        ----------
        indices : ndarray of int64
            Indices of the cells to read.

        Returns
        -------
        Integers
            One value per index.
        """
        empty: dict[int, int] = {}
        blocks = self._blocks
        return Integers.of(blocks.get(i // BLOCK, empty).get(i, 0) for i in indices.tolist())

    def put(self, indices: Int64s, values: Integers) -> None:
        """Replace the values at some indices; a zero frees its cell.

        Parameters
        ----------
        indices : ndarray of int64
            Distinct indices of the cells to write.
        values : Integers
            One value per index.
        """
        for index, value in zip(indices.tolist(), values.low.tolist(), strict=True):
            block = self._blocks.setdefault(index // BLOCK, {})
            if value:
                block[index] = value
            else:
                block.pop(index, None)
                if not block:
                    del self._blocks[index // BLOCK]

    def entries(self, start: int, stop: int) -> Entries:
        """Return the non-zero values of a range of indices.

        Parameters
        ----------
        start : int
            First index of the range.
        stop : int
            Index after the last one of the range.

        Returns
        -------
        Entries
            The non-zero values, by ascending index.
        """
        wanted = range(start // BLOCK, (stop + BLOCK - 1) // BLOCK)
        blocks = [block for block in self._blocks if block in wanted]
        if len(wanted) < len(self._blocks):
            blocks = [block for block in wanted if block in self._blocks]
        pairs = {i: v for b in blocks for i, v in self._blocks[b].items() if start <= i < stop}
        return Entries.of(pairs)


def in_memory(spec: ArraySpec) -> Cells:
    """Create cells in memory: dense up to `DENSE_LIMIT` cells, sparse above.

    Parameters
    ----------
    spec : ArraySpec
        Size and width of the array.

    Returns
    -------
    Cells
        Cells that are all zero.
    """
    if spec.wide or spec.size <= DENSE_LIMIT:
        return DenseCells(spec)
    return SparseCells()
