"""A file of pages. After a crash each page has either its old or its new content.

The first page is a header: "DEALPAGE", version u16, bytes per cell u16, bytes per page u32,
number of cells u64, and a CRC-32 u32 of these. Each other page ends with its number + 1 and a
CRC-32 of everything before, both u32, so reading detects a damaged or misplaced page. A page of
zeros was never written.

Before pages are overwritten in place, a batch of them is copied to a journal in the same folder:
"DEALJRNL", number of pages u32, CRC-32 u32 of the rest, and for each page its number u64 and its
bytes. A batch is valid if it is complete and its checksum matches. Once its pages are in place, it
is overwritten with zeros, so no forgotten value remains in the journal.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import weakref
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from dealfl.errors import BadBytes, BadInput

PAGE_BYTES = mmap.PAGESIZE
PAYLOAD_BYTES = PAGE_BYTES - 8
BATCH = 64  # pages: a batch needs three syncs, for any number of pages

_MAGIC = b"DEALPAGE"
_VERSION = 1
_HEADER = struct.Struct("<8sHHIQ")
_CHECKSUM = struct.Struct("<I")
_ZEROS = bytes(PAGE_BYTES)
_REMEDY = "delete it and train again from scratch"

_JOURNAL_MAGIC = b"DEALJRNL"
_JOURNAL_HEADER = struct.Struct("<8sII")
_NUMBER = struct.Struct("<Q")
_RECORD_BYTES = _NUMBER.size + PAGE_BYTES
_JOURNAL_BYTES = _JOURNAL_HEADER.size + BATCH * _RECORD_BYTES


class PageJournal:
    """One batch of pages, or zeros."""

    def __init__(self, path: Path, sync: Callable[[int], None]) -> None:
        self.path = path
        self._sync = sync
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self.close = weakref.finalize(self, os.close, self._file)
            os.posix_fallocate(self._file, 0, _JOURNAL_BYTES)
        except OSError as error:
            raise BadInput(
                f"{path} cannot be used: {error.strerror}; free some disk space"
            ) from None

    def pending(self) -> dict[int, bytes]:
        """Return the pages of a valid batch that may not be in place yet."""
        data = os.pread(self._file, _JOURNAL_BYTES, 0)
        magic, count, checksum = _JOURNAL_HEADER.unpack_from(data)
        body = data[_JOURNAL_HEADER.size : _JOURNAL_HEADER.size + count * _RECORD_BYTES]
        if magic != _JOURNAL_MAGIC or count > BATCH or zlib.crc32(body) != checksum:
            return {}  # incomplete: no page was overwritten in place yet
        starts = range(0, len(body), _RECORD_BYTES)
        return {
            _NUMBER.unpack_from(body, start)[0]: body[start + _NUMBER.size : start + _RECORD_BYTES]
            for start in starts
        }

    def begin(self, pages: Mapping[int, bytes]) -> None:
        """Write a copy of pages before they are overwritten in place."""
        body = b"".join(_NUMBER.pack(number) + page for number, page in pages.items())
        header = _JOURNAL_HEADER.pack(_JOURNAL_MAGIC, len(pages), zlib.crc32(body))
        _write_all(self._file, header + body, 0)
        self._sync(self._file)

    def finish(self, count: int = BATCH) -> None:
        """Overwrite a batch of `count` pages with zeros."""
        _write_all(self._file, bytes(_JOURNAL_HEADER.size + count * _RECORD_BYTES), 0)
        self._sync(self._file)


def _write_all(file: int, data: bytes, offset: int) -> None:
    """Write all bytes at an offset of an open file."""
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written


class PageFile:
    """A file of pages with cells of one width; one process can open it at a time."""

    def __init__(
        self, path: Path, cells: int, cell_bytes: int, sync: Callable[[int], None]
    ) -> None:
        self.path, self._sync = path, sync
        self.pages = -(-cells // (PAYLOAD_BYTES // cell_bytes))
        self.size_bytes = (1 + self.pages) * PAGE_BYTES
        header = _HEADER.pack(_MAGIC, _VERSION, cell_bytes, PAGE_BYTES, cells)
        if not path.exists():
            _create(path, header, self.size_bytes, sync)
        try:
            self.number = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise BadInput(f"{path} cannot be opened: {error.strerror}") from None
        self._close = weakref.finalize(self, os.close, self.number)
        try:
            self._open(header)
        except BaseException:
            self._close()
            raise

    def _open(self, header: bytes) -> None:
        self._lock()
        self._require_header(header)
        os.posix_fadvise(self.number, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead
        self._journal = PageJournal(self.path.with_name(self.path.name + ".journal"), self._sync)
        self._unfinished: Mapping[int, bytes] = {}
        self._recover()

    def _lock(self) -> None:
        try:
            fcntl.flock(self.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInput(f"{self.path} is in use by another process; stop it first") from None

    def _require_header(self, expected: bytes) -> None:
        found = os.pread(self.number, _HEADER.size + _CHECKSUM.size, 0)
        if not found.startswith(_MAGIC):
            raise BadBytes(f"{self.path} is not a page file; use another path or delete it")
        header, checksum = found[: _HEADER.size], found[_HEADER.size :]
        if checksum != _CHECKSUM.pack(zlib.crc32(header)):
            raise BadBytes(f"{self.path} has a damaged header; {_REMEDY}")
        _require_same(self.path, header, expected)
        self.require_size()

    def require_size(self) -> None:
        """Raise `BadBytes` if the file was cut short; reading its map would end the process."""
        size = os.fstat(self.number).st_size
        if size != self.size_bytes:
            raise BadBytes(f"{self.path} has {size} bytes instead of {self.size_bytes}; {_REMEDY}")

    def _recover(self) -> None:
        """Finish a write that a crash interrupted, and clear the journal."""
        unfinished = self._journal.pending()
        if any(page >= self.pages for page in unfinished):
            raise BadBytes(
                f"{self._journal.path} does not belong to {self.path.name}; delete both files"
            )
        self._put_in_place(unfinished)
        self._journal.finish()

    def offset(self, page: int) -> int:
        """Return the offset of a page in the file, in bytes."""
        return (1 + page) * PAGE_BYTES

    def read(self, page: int) -> bytes:
        """Return a page, without the memory map."""
        data = os.pread(self.number, PAGE_BYTES, self.offset(page))
        self.drop_cached(page)
        self.require_whole(page, data)
        return data

    def require_whole(self, page: int, data: bytes) -> None:
        """Raise `BadBytes` if the checksum of a page does not match."""
        if data == _ZEROS:
            return
        if data[PAYLOAD_BYTES:] != _seal(page, data[:PAYLOAD_BYTES]):
            raise BadBytes(f"{self.path}: page {page} is damaged; {_REMEDY}")

    def write(self, pages: Mapping[int, bytes]) -> None:
        """Replace the payload of pages, each atomically with respect to crashes."""
        if self._unfinished:  # an earlier write failed; the journal has the only copy
            self._put_in_place(self._unfinished)
        sealed = {page: data + _seal(page, data) for page, data in pages.items()}
        self._journal.begin(sealed)
        self._unfinished = sealed
        self._put_in_place(sealed)
        self._journal.finish(len(sealed))
        self._unfinished = {}

    def _put_in_place(self, sealed: Mapping[int, bytes]) -> None:
        for page, data in sealed.items():
            _write_all(self.number, data, self.offset(page))
        self._sync(self.number)
        for page in sealed:
            self.drop_cached(page)

    def drop_cached(self, page: int) -> None:
        """Remove a page from the kernel's page cache."""
        os.posix_fadvise(self.number, self.offset(page), PAGE_BYTES, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Close the file and its journal without writing."""
        self._journal.close()
        self._close()


def _seal(page: int, payload: bytes) -> bytes:
    number = _CHECKSUM.pack((page + 1) & 0xFFFF_FFFF)
    return number + _CHECKSUM.pack(zlib.crc32(number, zlib.crc32(payload)))


def _require_same(path: Path, found: bytes, expected: bytes) -> None:
    if found == expected:
        return
    _, version, cell_bytes, page_bytes, cells = _HEADER.unpack(found)
    if version != _VERSION:
        raise BadBytes(
            f"{path} has format {version}; this dealfl supports format {_VERSION}; {_REMEDY}"
        )
    if page_bytes != PAGE_BYTES:
        raise BadBytes(
            f"{path} has pages of {page_bytes} bytes; this machine has pages of {PAGE_BYTES} "
            f"bytes; {_REMEDY}"
        )
    wanted = _HEADER.unpack(expected)
    raise BadInput(
        f"{path} has {cells} cells of {cell_bytes} bytes, not {wanted[4]} cells of {wanted[2]}: "
        "it belongs to another learner; use another folder"
    )


def _create(path: Path, header: bytes, size_bytes: int, sync: Callable[[int], None]) -> None:
    """Create a file of zeros atomically, with its disk space reserved."""
    part = path.with_name(path.name + ".part")
    try:
        file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(file, 0, size_bytes)
            _write_all(file, header + _CHECKSUM.pack(zlib.crc32(header)), 0)
            sync(file)
        finally:
            os.close(file)
        path.with_name(path.name + ".journal").unlink(missing_ok=True)  # of a deleted file
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise BadInput(
            f"{path} cannot be created: {error.strerror}; it needs {size_bytes} bytes on disk"
        ) from None
