"""An array of integers in a file, of which only some pages are in memory.

The file is mapped privately: the kernel brings a page in when it is first touched (one major
fault), changes stay in memory, and only `PageFile.write` ever changes the file. So a page leaves by
a journalled write, if it was changed, and then by telling the kernel to drop it.
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

__all__ = ["PagedArray"]

Int64s = NDArray[np.int64]

_WAITING_A_FRAME = 16  # cells whose change may wait in memory, for each frame


class PagedArray:
    """A fixed number of integers of one type ("<i4", "<u4" or "<i8"), all zero at first.

    A write that the policy defers waits in memory, and a page that can not be written (a full
    disk) stays there: reading is right at all times, and `put` never does half of its work.
    `flush` writes everything, or says why it can not. After a crash each page is as it was at one
    of the moments it was written; a learner's arrays agree with one another only after `flush`.
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
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        self._map = mmap.mmap(
            self._file.number, self._file.size_bytes, flags=mmap.MAP_PRIVATE, prot=protection
        )
        self._map.madvise(mmap.MADV_RANDOM)  # or neighbours would come in uncounted
        shape = (1 + self._file.pages, PAGE_BYTES // self._kind.itemsize)
        self._rows: NDArray[np.integer] = np.ndarray(shape, self._kind, buffer=self._map)
        self._frames = frames
        self._first = frames.attach(self, self._file.pages)
        self._here: set[int] = set()
        self._dirty: dict[int, None] = {}  # longest dirty first
        self._stuck: set[int] = set()  # left their frame, but could not be written
        self._waiting: dict[int, dict[int, int]] = {}  # page → offset → value
        self.waiting = 0  # cells
        self._trouble: OSError | None = None

    def __len__(self) -> int:
        return self._size

    @property
    def pages(self) -> int:
        """How many pages the array has."""
        return self._file.pages

    @property
    def resident(self) -> int:
        """How many of them are in memory."""
        return len(self._here)

    def at(self, indices: Int64s) -> Int64s:
        """Return the values at `indices`."""
        self._require_places(indices)
        if len(self._stuck) > self._frames.count:
            raise self._unwritten()
        values = np.empty(len(indices), dtype=np.int64)
        for page, places, offsets in self._by_page(indices):
            values[places] = self._row(page)[offsets]
        return values

    def put(self, indices: Int64s, values: Int64s) -> None:
        """Replace the values at `indices`, which are different from one another."""
        self._require_places(indices)
        narrow = values.astype(self._kind)
        if not np.array_equal(narrow, values):
            raise OutOfBounds(f"a value does not fit the cells of {self._file.path}")
        for page, places, offsets in self._by_page(indices):
            self._write(page, offsets, narrow[places])

    def flush(self) -> None:
        """Write all that is not in the file yet; the journal is left empty."""
        try:
            self._write_past(list(self._waiting))
            while self._dirty:
                self._write_back(next(iter(self._dirty)))
        except OSError as error:
            self._trouble = error
            raise self._unwritten() from None
        self._release_stuck()

    def close(self) -> None:
        """Write everything and give the memory back."""
        self.flush()
        self.abandon()

    def abandon(self) -> None:
        """Give the memory back without writing, as a crash would."""
        self._rows = np.empty((0, 0), self._kind)
        self._map.close()
        self._file.close()

    # -- what the frames ask for ----------------------------------------------------------------

    def evict(self, page: int) -> None:
        """Let a page leave its frame; if it can not be written it stays in memory."""
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
        """Make the changes that were deferred, as far as the policy allows it now."""
        for page in list(self._waiting):
            if not self._available(page):
                return
            self._bring(page)

    # -- pages ----------------------------------------------------------------------------------

    def _row(self, page: int) -> NDArray[np.integer]:
        """Return the cells of a page to read: in its frame, or a copy if it was deferred."""
        if self._available(page):
            self._bring(page)
            row: NDArray[np.integer] = self._rows[1 + page]
            return row
        return self._copy(page)

    def _available(self, page: int) -> bool:
        """Touch a page; return whether it may be in memory now, or is because it is stuck."""
        if self._frames.touch(self._first + page):
            self._stuck.discard(page)
            return True
        return page in self._here

    def _write(self, page: int, offsets: Int64s, values: NDArray[np.integer]) -> None:
        if self._available(page):
            self._bring(page)
            self._change(page, offsets, values)
            return
        waiting = self._waiting.setdefault(page, {})
        self.waiting -= len(waiting)
        waiting.update(zip(offsets.tolist(), values.tolist(), strict=True))
        self.waiting += len(waiting)
        if self.waiting > _WAITING_A_FRAME * self._frames.count:
            self._make_room()

    def _bring(self, page: int) -> None:
        """Have a page in memory, as it was written last and with what was deferred."""
        if page not in self._here:
            start = self._file.offset(page)
            self._file.require_whole(page, self._map[start : start + PAGE_BYTES])
            self._here.add(page)
            self._frames.swaps.ins += 1
        changes = self._no_longer_waiting(page)
        if changes:
            self._change(page, *_as_arrays(changes, self._kind))

    def _change(self, page: int, offsets: Int64s, values: NDArray[np.integer]) -> None:
        self._rows[1 + page, offsets] = values
        if page not in self._dirty:
            self._dirty[page] = None
            self._file.drop_cached(page)  # the changed copy is ours; the kernel needs none

    def _copy(self, page: int) -> NDArray[np.integer]:
        self._frames.swaps.past += 1
        cells = np.frombuffer(self._file.read(page), self._kind).copy()
        changes = self._waiting.get(page)
        if changes:
            offsets, values = _as_arrays(changes, self._kind)
            cells[offsets] = values
        return cells

    def _make_room(self) -> None:
        try:
            self._write_past(list(islice(self._waiting, BATCH)))
        except OSError as error:
            self._trouble = error

    def _write_past(self, pages: list[int]) -> None:
        """Write deferred changes without bringing their pages in."""
        for start in range(0, len(pages), BATCH):
            batch = pages[start : start + BATCH]
            self._file.write({page: self._copy(page).tobytes()[:PAYLOAD_BYTES] for page in batch})
            for page in batch:
                self._no_longer_waiting(page)

    def _no_longer_waiting(self, page: int) -> dict[int, int]:
        changes = self._waiting.pop(page, {})
        self.waiting -= len(changes)
        return changes

    def _write_back(self, page: int) -> None:
        """Write a changed page, and with it those that wait for it longest."""
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

    def _by_page(self, indices: Int64s) -> Iterator[tuple[int, Int64s, Int64s]]:
        """Yield each page once, ascending, with the places it serves and the offsets in it."""
        pages, offsets = np.divmod(indices, self._a_page)
        order = np.argsort(pages, kind="stable")
        ordered = pages[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        stops = np.append(starts, len(order))[1:]
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            places = order[start:stop]
            yield int(ordered[start]), places, offsets[places]

    def _require_places(self, indices: Int64s) -> None:
        if len(indices) and (indices.min() < 0 or indices.max() >= self._size):
            raise OutOfBounds(f"an index outside the {self._size} cells of {self._file.path}")

    def _unwritten(self) -> BadInput:
        reason = self._trouble.strerror if self._trouble else "unknown"
        return BadInput(
            f"{self._file.path}: {len(self._dirty) + len(self._waiting)} changed pages can not be "
            f"written: {reason}; nothing is lost yet: make room on its disk and flush again"
        )


def _as_arrays(changes: dict[int, int], kind: np.dtype) -> tuple[Int64s, NDArray[np.integer]]:
    offsets = np.fromiter(changes, np.int64, len(changes))
    return offsets, np.fromiter(changes.values(), kind, len(changes))
