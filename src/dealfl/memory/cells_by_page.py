"""Cells of an array grouped by their page, and changes that wait for a page."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["DeferredChanges", "group_by_page"]

Int64s = NDArray[np.int64]


def group_by_page(indices: Int64s, cells_a_page: int) -> Iterator[tuple[int, Int64s, Int64s]]:
    """Yield each page once, ascending, with positions in `indices` and offsets in the page."""
    pages, offsets = np.divmod(indices, cells_a_page)
    order = np.argsort(pages, kind="stable")
    ordered = pages[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    stops = np.append(starts, len(order))[1:]
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        places = order[start:stop]
        yield int(ordered[start]), places, offsets[places]


class DeferredChanges:
    """Changes of cells that the policy deferred, in the order of their pages' first change."""

    def __init__(self, kind: np.dtype) -> None:
        self._kind = kind
        self._values: dict[int, dict[int, int]] = {}  # page → offset → value
        self.cells = 0

    def __len__(self) -> int:
        """Return the number of pages."""
        return len(self._values)

    def __iter__(self) -> Iterator[int]:
        return iter(self._values)

    def add(self, page: int, offsets: Int64s, values: NDArray[np.integer]) -> None:
        """Keep new values of cells; they replace earlier ones."""
        waiting = self._values.setdefault(page, {})
        self.cells -= len(waiting)
        waiting.update(zip(offsets.tolist(), values.tolist(), strict=True))
        self.cells += len(waiting)

    def of(self, page: int) -> tuple[Int64s, NDArray[np.integer]]:
        """Return offsets and values of a page, both empty if it has no changes."""
        changes = self._values.get(page, {})
        offsets = np.fromiter(changes, np.int64, len(changes))
        return offsets, np.fromiter(changes.values(), self._kind, len(changes))

    def drop(self, page: int) -> None:
        """Remove the changes of a page."""
        self.cells -= len(self._values.pop(page, {}))
