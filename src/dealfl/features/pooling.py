"""Sums over the cells of a grid laid over the places of an image."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Grid"]


@dataclass(frozen=True)
class Grid:
    """`cells` x `cells` cells over `height` x `width` places, as equal as whole places allow.

    >>> Grid(height=3, width=4, cells=2).sizes.tolist()
    [2, 2, 4, 4]
    """

    height: int
    width: int
    cells: int

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """The number of places in each cell, row by row."""
        inside = [
            (rows.stop - rows.start) * (columns.stop - columns.start)
            for rows, columns in self._cells()
        ]
        return np.array(inside, dtype=np.int64)

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return images x cells x filters from images x height x width x filters.

        The sums are kept in the type of the values, which must hold them.
        """
        sums = [
            values[:, rows, columns].sum(axis=(1, 2), dtype=values.dtype)
            for rows, columns in self._cells()
        ]
        return np.stack(sums, axis=1)

    def _cells(self) -> list[tuple[slice, slice]]:
        across = self._parts(self.width)
        return [(rows, columns) for rows in self._parts(self.height) for columns in across]

    def _parts(self, length: int) -> list[slice]:
        edges = [part * length // self.cells for part in range(self.cells + 1)]
        return [slice(start, stop) for start, stop in pairwise(edges)]
