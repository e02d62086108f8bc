"""The side journal of a page file: pages are copied here before they are overwritten in place.

A batch is: "DEALJRNL", number of pages u32, CRC-32 u32 of what follows, and for each page its
number u64 and its bytes. It counts if it is complete and its checksum matches. When the pages are
safely in place the batch is overwritten with zeros: what was cleared must not linger here.
"""

from __future__ import annotations

import mmap
import os
import struct
import weakref
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from dealfl.errors import BadInput

__all__ = ["BATCH", "PAGE_BYTES", "Journal", "write_all"]

PAGE_BYTES = mmap.PAGESIZE
BATCH = 64  # pages: a batch costs three waits for the disk, however many pages it holds

_MAGIC = b"DEALJRNL"
_HEADER = struct.Struct("<8sII")
_NUMBER = struct.Struct("<Q")
_RECORD_BYTES = _NUMBER.size + PAGE_BYTES
_SIZE = _HEADER.size + BATCH * _RECORD_BYTES


class Journal:
    """One batch of pages, or zeros."""

    def __init__(self, path: Path, sync: Callable[[int], None]) -> None:
        self.path = path
        self._sync = sync
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self.close = weakref.finalize(self, os.close, self._file)
            os.posix_fallocate(self._file, 0, _SIZE)
        except OSError as error:
            raise BadInput(f"{path} can not be used: {error.strerror}; free its disk") from None

    def pending(self) -> dict[int, bytes]:
        """Return the pages of a batch that was begun and perhaps not finished."""
        data = os.pread(self._file, _SIZE, 0)
        magic, count, checksum = _HEADER.unpack_from(data)
        body = data[_HEADER.size : _HEADER.size + count * _RECORD_BYTES]
        if magic != _MAGIC or count > BATCH or zlib.crc32(body) != checksum:
            return {}  # it tore before any page was overwritten: those in place are whole
        starts = range(0, len(body), _RECORD_BYTES)
        return {
            _NUMBER.unpack_from(body, start)[0]: body[start + _NUMBER.size : start + _RECORD_BYTES]
            for start in starts
        }

    def begin(self, pages: Mapping[int, bytes]) -> None:
        """Keep a copy of pages that are about to be written in place."""
        body = b"".join(_NUMBER.pack(number) + page for number, page in pages.items())
        header = _HEADER.pack(_MAGIC, len(pages), zlib.crc32(body))
        write_all(self._file, header + body, 0)
        self._sync(self._file)

    def finish(self, count: int = BATCH) -> None:
        """Zero a batch of `count` pages."""
        write_all(self._file, bytes(_HEADER.size + count * _RECORD_BYTES), 0)
        self._sync(self._file)


def write_all(file: int, data: bytes, offset: int) -> None:
    """Write all bytes at an offset of an open file."""
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written
