"""An array of integers in a file, with only some of its pages in memory.

The file is mapped privately: the kernel loads a page on its first use (one major fault), changes
stay in memory, and only `PageFile.write` changes the file. To evict a page, it is written through
the journal if it has changed, and then dropped from memory.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadInput, OutOfBounds
from dealfl.memory.frames import Frames
from dealfl.memory.page_file import BATCH, PAGE_BYTES, PAYLOAD_BYTES, PageFile

Int64s = NDArray[np.int64]

_WAITING_A_FRAME = 16  # deferred cells kept in memory, per frame


class PagedArray:
    """A fixed-size array of integers in a file, initially zero.

    A deferred change waits in memory, and a page that cannot be written (disk full) stays there:
    reads are always correct, and `put` is never partial. After a crash each page has the content
    of one of its writes; a learner's arrays agree with each other only after `flush`.
    """

    def __init__(
        self,
        path: Path,
        size: int,
        kind: str,
        frames: Frames,
        *,
        sync: Callable[[int], None] = os.fdatasync,
    ) -> None:
        self._kind = np.dtype(kind)
        self._size = size
        self._a_page = PAYLOAD_BYTES // self._kind.itemsize
        self._file = PageFile(path, size, self._kind.itemsize, sync)
        self._map = mmap.mmap(self._file.number, self._file.size_bytes, flags=mmap.MAP_PRIVATE)
        self._map.madvise(mmap.MADV_RANDOM)  # no read-ahead: the swap count must be exact
        shape = (1 + self._file.pages, PAGE_BYTES // self._kind.itemsize)
        self._rows: NDArray[np.integer] = np.ndarray(shape, self._kind, buffer=self._map)
        self._frames = frames
        self._first = frames.attach(self, self._file.pages)
        self._here: set[int] = set()
        self._dirty: dict[int, None] = {}  # in the order of their first change
        self._stuck: set[int] = set()  # evicted, but could not be written
        self._waiting = _DeferredChanges(self._kind)
        self._trouble: OSError | None = None

    def __len__(self) -> int:
        return self._size

    @property
    def pages(self) -> int:
        """The number of pages."""
        return self._file.pages

    @property
    def resident(self) -> int:
        """The number of pages in memory."""
        return len(self._here)

    @property
    def waiting(self) -> int:
        """The number of cells with a deferred change."""
        return self._waiting.cells

    def at(self, indices: Int64s) -> Int64s:
        """Return values."""
        self._require_places(indices)
        self._file.require_size()
        if len(self._stuck) > self._frames.count:
            raise self._unwritten()
        values = np.empty(len(indices), dtype=np.int64)
        for page, places, offsets in _group_by_page(indices, self._a_page):
            values[places] = self._row(page)[offsets]
        return values

    def put(self, indices: Int64s, values: Int64s) -> None:
        """Replace values."""
        self._require_places(indices)
        self._file.require_size()
        narrow = values.astype(self._kind)
        if not np.array_equal(narrow, values):
            raise OutOfBounds(f"a value does not fit {self._kind.name} in {self._file.path}")
        for page, places, offsets in _group_by_page(indices, self._a_page):
            self._write(page, offsets, narrow[places])

    def flush(self) -> None:
        """Write all changes to the file; the journal is empty afterwards."""
        self._file.require_size()
        try:
            self._write_past(list(self._waiting))
            while self._dirty:
                self._write_back(next(iter(self._dirty)))
        except OSError as error:
            self._trouble = error
            raise self._unwritten() from None
        self._release_stuck()

    def close(self) -> None:
        """Write all changes and release the memory."""
        self.flush()
        self.abandon()

    def abandon(self) -> None:
        """Release the memory without writing, as in a crash."""
        self._rows = np.empty((0, 0), self._kind)
        self._map.close()
        self._file.close()

    def evict(self, page: int) -> None:
        """Remove a page from its frame; keep it in memory if it cannot be written."""
        try:
            if page in self._dirty:
                self._write_back(page)
        except OSError as error:
            self._trouble = error
            self._stuck.add(page)
            return
        self._release(page)
        self._release_stuck()

    def settle(self) -> None:
        """Apply deferred changes as far as the policy allows."""
        for page in list(self._waiting):
            if not self._available(page):
                return
            self._bring(page)

    def _row(self, page: int) -> NDArray[np.integer]:
        """Return the cells of a page for reading: its frame, or a copy if it is deferred."""
        if self._available(page):
            self._bring(page)
            row: NDArray[np.integer] = self._rows[1 + page]
            return row
        return self._copy(page)

    def _available(self, page: int) -> bool:
        """Touch a page; return whether it has a frame, or is still in memory."""
        if self._frames.touch(self._first + page):
            self._stuck.discard(page)
            return True
        return page in self._here

    def _write(self, page: int, offsets: Int64s, values: NDArray[np.integer]) -> None:
        if self._available(page):
            self._bring(page)
            self._change(page, offsets, values)
            return
        self._waiting.add(page, offsets, values)
        if self.waiting > _WAITING_A_FRAME * self._frames.count:
            self._make_room()

    def _bring(self, page: int) -> None:
        """Load a page and apply its deferred changes."""
        if page not in self._here:
            start = self._file.offset(page)
            self._file.require_whole(page, self._map[start : start + PAGE_BYTES])
            self._here.add(page)
            self._frames.swaps.ins += 1
        offsets, values = self._waiting.of(page)
        if len(offsets):
            self._waiting.drop(page)
            self._change(page, offsets, values)

    def _change(self, page: int, offsets: Int64s, values: NDArray[np.integer]) -> None:
        self._rows[1 + page, offsets] = values
        if page not in self._dirty:
            self._dirty[page] = None
            self._file.drop_cached(page)  # the private copy replaces the cached one

    def _copy(self, page: int) -> NDArray[np.integer]:
        self._frames.swaps.past += 1
        cells = np.frombuffer(self._file.read(page), self._kind).copy()
        offsets, values = self._waiting.of(page)
        cells[offsets] = values
        return cells

    def _make_room(self) -> None:
        try:
            self._write_past(list(islice(self._waiting, BATCH)))
        except OSError as error:
            self._trouble = error

    def _write_past(self, pages: list[int]) -> None:
        """Write deferred changes without loading their pages."""
        for start in range(0, len(pages), BATCH):
            batch = pages[start : start + BATCH]
            self._file.write({page: self._copy(page).tobytes()[:PAYLOAD_BYTES] for page in batch})
            for page in batch:
                self._waiting.drop(page)

    def _write_back(self, page: int) -> None:
        """Write a changed page, together with the pages changed earliest."""
        others = islice((other for other in self._dirty if other != page), BATCH - 1)
        batch = [page, *others]
        starts = {page: self._file.offset(page) for page in batch}
        self._file.write({p: self._map[at : at + PAYLOAD_BYTES] for p, at in starts.items()})
        for written in batch:
            del self._dirty[written]
        self._frames.swaps.outs += len(batch)
        self._trouble = None

    def _release(self, page: int) -> None:
        if page in self._here:
            self._map.madvise(mmap.MADV_DONTNEED, self._file.offset(page), PAGE_BYTES)
            self._file.drop_cached(page)
            self._here.remove(page)

    def _release_stuck(self) -> None:
        for page in [page for page in self._stuck if page not in self._dirty]:
            self._stuck.remove(page)
            self._release(page)

    def _require_places(self, indices: Int64s) -> None:
        if len(indices) and (indices.min() < 0 or indices.max() >= self._size):
            raise OutOfBounds(
                f"an index is outside 0 to {self._size - 1}, the cells of {self._file.path}"
            )

    def _unwritten(self) -> BadInput:
        reason = self._trouble.strerror if self._trouble else "unknown"
        return BadInput(
            f"{self._file.path}: {len(self._dirty) + len(self._waiting)} changed pages cannot be "
            f"written: {reason}; no change is lost: free disk space and flush again"
        )


def _group_by_page(indices: Int64s, cells_a_page: int) -> Iterator[tuple[int, Int64s, Int64s]]:
    """Yield each page once, ascending, with positions in `indices` and offsets in the page."""
    pages, offsets = np.divmod(indices, cells_a_page)
    order = np.argsort(pages, kind="stable")
    ordered = pages[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    stops = np.append(starts, len(order))[1:]
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        places = order[start:stop]
        yield int(ordered[start]), places, offsets[places]


class _DeferredChanges:
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
