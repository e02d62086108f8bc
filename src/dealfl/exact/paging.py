"""Cells of a live model in files, with only some of their pages in memory.

The file is mapped privately: the kernel loads a page on its first use (one major fault), changes
stay in memory, and only eviction and `flush` write to the file. A page ends with its number + 1 and
a CRC-32 of everything before, both u32, so that reading detects a damaged or misplaced page; a page
of zeros was never written. The file is a cache: it does not outlive the object, and an array
with a damaged page is built again.
"""

from __future__ import annotations

import mmap
import os
import struct
import weakref
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadBytes, BadInput, OutOfBounds
from dealfl.exact.entries import ArraySpec, Entries
from dealfl.exact.integers import Int64s, Integers
from dealfl.exact.state import Cells
from dealfl.storage import Frames, Policy, Swaps, ThetaLru, make_folder

PAGE_BYTES = mmap.PAGESIZE
PAYLOAD_BYTES = PAGE_BYTES - 8
_CHUNK = 1 << 16  # cells that are read at a time
_BATCH = 64  # pages that are written at a time: each batch waits for the disk once
_LEAVING = 16  # pages that are written when one of them leaves its frame
_NUMBER = struct.Struct("<I")
_ZEROS = bytes(PAGE_BYTES)
_REMEDY = "delete it and train again from scratch"
_WAITING_A_FRAME = 16  # deferred cells kept in memory, per frame


class PagedArray:
    """A fixed-size array of integers in a new file, initially zero.

    A deferred change waits in memory, and a page that cannot be written (disk full) stays there:
    reads are always correct, and `put` is never partial.
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
        self.path = path
        self._sync = sync
        self._kind = np.dtype(kind)
        self._size = size
        self._a_page = PAYLOAD_BYTES // self._kind.itemsize
        self.pages = -(-size // self._a_page)
        self._size_bytes = max(self.pages, 1) * PAGE_BYTES
        self._file = _create(path, self._size_bytes)
        self._close = weakref.finalize(self, os.close, self._file)
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead
        self._map = mmap.mmap(self._file, self._size_bytes, flags=mmap.MAP_PRIVATE)
        self._map.madvise(mmap.MADV_RANDOM)  # no read-ahead: the swap count must be exact
        shape = (self._size_bytes // PAGE_BYTES, PAGE_BYTES // self._kind.itemsize)
        self._rows: NDArray[np.integer] = np.ndarray(shape, self._kind, buffer=self._map)
        self._frames = frames
        self._first = frames.attach(self, self.pages)
        self._here: set[int] = set()
        self._dirty: dict[int, None] = {}  # in the order of their first change
        self._stuck: set[int] = set()  # evicted, but could not be written
        self._waiting = _DeferredChanges(self._kind)
        self._trouble: OSError | None = None

    def __len__(self) -> int:
        return self._size

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
        self._require_indices(indices)
        self._require_size()
        if len(self._stuck) > self._frames.count:
            raise self._unwritten()
        values = np.empty(len(indices), dtype=np.int64)
        for page, positions, offsets in _group_by_page(indices, self._a_page):
            values[positions] = self._row(page)[offsets]
        return values

    def put(self, indices: Int64s, values: Int64s) -> None:
        """Replace values."""
        self._require_indices(indices)
        self._require_size()
        narrow = values.astype(self._kind)
        if not np.array_equal(narrow, values):
            raise OutOfBounds(f"a value does not fit {self._kind.name} in {self.path}")
        for page, positions, offsets in _group_by_page(indices, self._a_page):
            self._write(page, offsets, narrow[positions])

    def flush(self) -> None:
        """Write all changes to the file."""
        self._require_size()
        try:
            self._write_past(list(self._waiting))
            while self._dirty:
                self._write_back(list(islice(self._dirty, _BATCH)))
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
        self._close()

    def evict(self, page: int) -> None:
        """Remove a page from its frame; keep it in memory if it cannot be written."""
        try:
            if page in self._dirty:
                self._write_back([page, *islice(self._leaving(), _LEAVING - 1)])
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
            row: NDArray[np.integer] = self._rows[page]
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
            start = page * PAGE_BYTES
            self._require_whole(page, self._map[start : start + PAGE_BYTES])
            self._here.add(page)
            self._frames.swaps.ins += 1
        offsets, values = self._waiting.of(page)
        if len(offsets):
            self._change(page, offsets, values)
            self._waiting.drop(page)  # afterwards: an interrupt in between loses nothing

    def _change(self, page: int, offsets: Int64s, values: NDArray[np.integer]) -> None:
        first = page not in self._dirty
        self._dirty[page] = None  # before it is: an interrupt leaves no change that is not written
        self._rows[page, offsets] = values
        if first:
            self._frames.note(self._first + page, changed=True)
            self._drop_cached(page)  # the private copy replaces the cached one

    def _copy(self, page: int) -> NDArray[np.integer]:
        self._frames.swaps.past += 1
        data = os.pread(self._file, PAGE_BYTES, page * PAGE_BYTES)
        self._drop_cached(page)
        self._require_whole(page, data)
        cells = np.frombuffer(data, self._kind).copy()
        offsets, values = self._waiting.of(page)
        cells[offsets] = values
        return cells

    def _make_room(self) -> None:
        try:
            self._write_past(list(islice(self._waiting, _BATCH)))
        except OSError as error:
            self._trouble = error

    def _write_past(self, pages: list[int]) -> None:
        """Write deferred changes without loading their pages."""
        for start in range(0, len(pages), _BATCH):
            batch = pages[start : start + _BATCH]
            self._put_in_place({page: self._copy(page).tobytes()[:PAYLOAD_BYTES] for page in batch})
            for page in batch:
                self._waiting.drop(page)

    def _leaving(self) -> Iterator[int]:
        """Yield the changed pages that leave their frames next: others may change again first."""
        numbers = (page - self._first for page in self._frames.leaving())
        return (number for number in numbers if number in self._dirty)

    def _write_back(self, batch: list[int]) -> None:
        """Write changed pages."""
        starts = {number: number * PAGE_BYTES for number in batch}
        self._put_in_place(
            {number: self._map[at : at + PAYLOAD_BYTES] for number, at in starts.items()}
        )
        for written in batch:
            del self._dirty[written]
            self._frames.note(self._first + written, changed=False)
        self._frames.swaps.outs += len(batch)
        self._trouble = None

    def _release(self, page: int) -> None:
        if page in self._here:
            self._map.madvise(mmap.MADV_DONTNEED, page * PAGE_BYTES, PAGE_BYTES)
            self._drop_cached(page)
            self._here.remove(page)

    def _release_stuck(self) -> None:
        for page in [page for page in self._stuck if page not in self._dirty]:
            self._stuck.remove(page)
            self._release(page)

    def _put_in_place(self, payloads: dict[int, bytes]) -> None:
        for page, payload in payloads.items():
            _write_all(self._file, payload + _seal(page, payload), page * PAGE_BYTES)
        self._sync(self._file)
        for page in payloads:
            self._drop_cached(page)

    def _drop_cached(self, page: int) -> None:
        """Remove a page from the kernel's page cache."""
        os.posix_fadvise(self._file, page * PAGE_BYTES, PAGE_BYTES, os.POSIX_FADV_DONTNEED)

    def _require_whole(self, page: int, data: bytes) -> None:
        if data != _ZEROS and data[PAYLOAD_BYTES:] != _seal(page, data[:PAYLOAD_BYTES]):
            raise BadBytes(f"{self.path}: page {page} is damaged; {_REMEDY}")

    def _require_size(self) -> None:
        """Raise `BadBytes` if the file was cut short; reading its map would end the process."""
        size = os.fstat(self._file).st_size
        if size != self._size_bytes:
            raise BadBytes(f"{self.path} has {size} bytes instead of {self._size_bytes}; {_REMEDY}")

    def _require_indices(self, indices: Int64s) -> None:
        if len(indices) and (indices.min() < 0 or indices.max() >= self._size):
            raise OutOfBounds(
                f"an index is outside 0 to {self._size - 1}, the cells of {self.path}"
            )

    def _unwritten(self) -> BadInput:
        reason = self._trouble.strerror if self._trouble else "unknown"
        return BadInput(
            f"{self.path}: {len(self._dirty) + len(self._waiting)} changed pages cannot be "
            f"written: {reason}; no change is lost: free disk space and flush again"
        )


def _create(path: Path, size_bytes: int) -> int:
    """Create a file of zeros with its disk space reserved; return its descriptor."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(file, 0, size_bytes)
        except OSError:
            os.close(file)
            path.unlink()
            raise
    except OSError as error:
        raise BadInput(
            f"{path} cannot be created: {error.strerror}; it needs {size_bytes} bytes on disk"
        ) from None
    return file


def _write_all(file: int, data: bytes, offset: int) -> None:
    """Write all bytes at an offset of an open file."""
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, offset)
        view = view[written:]
        offset += written


def _seal(page: int, payload: bytes) -> bytes:
    number = _NUMBER.pack((page + 1) & 0xFFFF_FFFF)
    return number + _NUMBER.pack(zlib.crc32(number, zlib.crc32(payload)))


def _group_by_page(indices: Int64s, cells_a_page: int) -> Iterator[tuple[int, Int64s, Int64s]]:
    """Yield each page once, ascending, with positions in `indices` and offsets in the page."""
    pages, offsets = np.divmod(indices, cells_a_page)
    order = np.argsort(pages, kind="stable")
    ordered = pages[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    stops = np.append(starts, len(order))[1:]
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        positions = order[start:stop]
        yield int(ordered[start]), positions, offsets[positions]


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


class PagedCells(Cells):
    """The cells of one array: one plane of 32 or 64 bits, or two planes for 96 bits."""

    def __init__(self, size: int, low: PagedArray, high: PagedArray | None) -> None:
        self._size = size
        self._low, self._high = low, high

    def at(self, indices: Int64s) -> Integers:
        """Return values."""
        high = None if self._high is None else self._high.at(indices)
        return Integers(self._low.at(indices), high)

    def put(self, indices: Int64s, values: Integers) -> None:
        """Replace values."""
        self._low.put(indices, values.low)
        if self._high is not None and values.high is not None:
            self._high.put(indices, values.high)

    def entries(self, start: int, stop: int) -> Entries:
        """Return the non-zero cells of a range."""
        stop = min(stop, self._size)
        firsts = range(start, stop, _CHUNK) if start < stop else [start]
        parts = [self._part(first, min(first + _CHUNK, stop)) for first in firsts]
        return Entries.chained(parts, self._high is not None)

    def _part(self, start: int, stop: int) -> Entries:
        return Entries.of_dense(self.at(np.arange(start, stop, dtype=np.int64)), start)


class PagedStorage:
    """Storage of one learner's arrays in files, with a fixed number of pages in memory.

    Examples
    --------
    >>> import tempfile
    >>> from dealfl.exact import Schema, State, Statistics
    >>> schema = Schema("counter", {}, (ArraySpec("counts", 9000, 32),))
    >>> with tempfile.TemporaryDirectory() as folder, paged(folder, frames=2) as storage:
    ...     state = State(schema, storage)
    ...     state.commit(state.propose(Statistics(schema, {"counts": Entries.of({8000: 3})})))
    ...     state.snapshot()["counts"].to_dict(), storage.resident
    ({8000: 3}, 2)
    """

    def __init__(
        self, folder: Path, policy: Policy, *, sync: Callable[[int], None] = os.fdatasync
    ) -> None:
        self._folder, self._sync = folder, sync
        self._frames = Frames(policy)
        self._arrays: list[PagedArray] = []

    def __call__(self, spec: ArraySpec) -> PagedCells:
        """Return the cells of one array of a new learner, all zero."""
        if not spec.wide:
            kind = "<i4" if spec.bits == 32 else "<i8"
            return PagedCells(spec.size, self._array(spec.name, spec.size, kind), None)
        low = self._array(f"{spec.name}.low", spec.size, "<u4")
        return PagedCells(spec.size, low, self._array(f"{spec.name}.high", spec.size, "<i8"))

    def _array(self, name: str, size: int, kind: str) -> PagedArray:
        path = self._folder / f"{name}.pages"
        if path.exists():  # a new state is all zero and must not inherit old values
            raise BadInput(
                f"{path} already exists; each learner needs its own folder: "
                "use another folder, or delete the file if no learner uses it"
            )
        try:
            make_folder(self._folder)
        except OSError as error:
            raise BadInput(f"{self._folder} cannot be created: {error.strerror}") from None
        array = PagedArray(path, size, kind, self._frames, sync=self._sync)
        self._arrays.append(array)
        return array

    @property
    def swaps(self) -> Swaps:
        """Counts of moved pages."""
        return self._frames.swaps

    @property
    def pages(self) -> int:
        """The number of pages of all arrays."""
        return sum(array.pages for array in self._arrays)

    @property
    def resident(self) -> int:
        """The number of pages in memory."""
        return sum(array.resident for array in self._arrays)

    def new_round(self) -> None:
        """Start a round of the job and apply deferred changes."""
        self._frames.new_round()

    def flush(self) -> None:
        """Write all changes, so that no forgotten value remains in the files."""
        for array in self._arrays:
            array.flush()

    def close(self) -> None:
        """Write all changes and release the memory; the learner cannot be used afterwards."""
        for array in self._arrays:
            array.close()
        self._arrays.clear()

    def abandon(self) -> None:
        """Release the memory without writing; the learner cannot be used afterwards."""
        for array in self._arrays:
            array.abandon()
        self._arrays.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def paged(
    folder: str | Path, frames: int, policy: Callable[[int], Policy] = ThetaLru
) -> PagedStorage:
    """Return storage for one learner: `Tikhonov(..., storage=paged("folder", frames=1000))`."""
    return PagedStorage(Path(folder), policy(frames))
