"""New rows of growing files: each enters a worker's journal once.

The position up to which a file was read is stored in the transaction that stores its rows.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from dealfl.errors import BadInput
from dealfl.jobs import GrowingSource, Head
from dealfl.network.growing_files import File, GrowingFiles, Matching, Position
from dealfl.worker import Journal, Worker

__all__ = ["Feed"]

_LOG = logging.getLogger("dealfl.network")
_PART_BYTES = 1 << 18  # rows that are stored in one transaction
_MAX_ROW_BYTES = 1 << 20
_SETTING = "file "


class Feed:
    """Gives a worker the rows of some files as they arrive."""

    def __init__(
        self,
        worker: Worker,
        journal: Journal,
        source: GrowingSource,
        data: Path,
        *,
        key: bytes,
        gateway: bool = False,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.left_bytes = 0  # not read yet
        self._worker, self._source, self._report = worker, source, report
        self._files = GrowingFiles(data, worker.name if gateway else "", key, self._say)
        self._positions = {
            int(number.removeprefix(_SETTING)): msgspec.json.decode(text, type=Position)
            for number, text in journal.settings(_SETTING).items()
        }
        self._heads: dict[int, Head] = {}
        self._known: dict[File, int] = {}  # files without news, as they were listed
        self._said: set[tuple[object, ...]] = set()

    @property
    def bad(self) -> int:
        """Number of rows that could not be used, so far."""
        return sum(one.bad for one in self._positions.values())

    def poll(self) -> Iterator[int]:
        """Give new rows to the worker; yield the number of records after each transaction."""
        files = self._files.list()
        there = {file for file in files if file.size}
        if self._known.keys() == there:
            return
        self._known = {file: number for file, number in self._known.items() if file in there}
        for last in (False, True):  # a copy is recognised after its original was read
            matching = Matching(self._files, self._positions)
            matching.match(files, self._known, last=last)
            for number, file in matching.found.items():
                self._adopt(number, file)
            left = (f.size - self._positions[n].offset for n, f in matching.found.items())
            self.left_bytes = sum(left)
            for number, file in matching.found.items():
                if file in there and file not in self._known:
                    yield from self._try(number, file)

    def _try(self, number: int, file: File) -> Iterator[int]:
        try:
            yield from self._read(number, file)
            self._known[file] = number
        except OSError as error:  # the next poll tries again
            if error.errno not in (errno.ENOENT, errno.ESTALE):
                self._say("%s cannot be read: %s", file.name, error.strerror)

    def _adopt(self, number: int, file: File) -> None:
        """Store the new place of a file that was moved."""
        name = self._files.hide(file.name)
        new = Position(name=name, device=file.device, inode=file.inode)
        position = self._positions.get(number, new)
        moved = msgspec.structs.replace(
            position, name=name, device=file.device, inode=file.inode,
            offset=min(position.offset, file.size),
            hashes={cut: one for cut, one in position.hashes.items() if cut <= file.size},
        )  # fmt: skip
        self._positions[number] = moved
        if moved != position:
            self._worker.ingest([], _setting(number, moved))

    # -- rows -----------------------------------------------------------------------------------

    def _read(self, number: int, file: File) -> Iterator[int]:
        """Store the complete rows of a file that are not stored yet."""
        with self._files.open(file) as descriptor:
            head = self._head(number, file, descriptor)
            while head is not None:
                position = self._positions[number]
                offset = max(position.offset, head.size)
                rows = self._rows(file, descriptor, offset)
                if not rows:
                    break
                part = self._source.read(file.name, head, rows, self._worker.name)
                end = offset + sum(map(len, rows))
                moved = msgspec.structs.replace(
                    position, offset=end, hashes=self._files.hash_before(descriptor, end),
                    bad=position.bad + part.bad.total(),
                )  # fmt: skip
                same = os.pread(descriptor, end - offset, offset) == b"".join(rows)
                if not same or not self._files.has(descriptor, position.hashes):
                    raise OSError(errno.ESTALE, "it was truncated meanwhile")
                self._worker.ingest(part.records, _setting(number, moved))
                self._positions[number] = moved
                self.left_bytes -= end - position.offset
                self._report_bad(file, position.bad, moved.bad, sorted(part.bad))
                yield len(part.records)

    def _head(self, number: int, file: File, descriptor: int) -> Head | None:
        if number not in self._heads or not self._positions[number].offset:
            try:
                begin = os.pread(descriptor, _MAX_ROW_BYTES, 0)
                head = self._source.read_head(file.name, begin)
            except BadInput as error:
                self._say("%s is not read: %s", file.name, error)
                return None
            if head is None:
                return None
            self._heads[number] = head
        return self._heads[number]

    def _rows(self, file: File, descriptor: int, offset: int) -> list[bytes]:
        for size in (_PART_BYTES, _MAX_ROW_BYTES):
            # what is written after the listing belongs to the next poll
            data = os.pread(descriptor, min(size, max(file.size - offset, 0)), offset)
            rows = self._source.split_rows(data)
            if rows or len(data) < size:
                return rows
        self._say("%s: no line end in %s bytes; the rest is not read", file.name, _MAX_ROW_BYTES)
        return []

    def _report_bad(self, file: File, before: int, after: int, columns: Iterable[str]) -> None:
        """Report unusable rows of a file, but no values: the first, the tenth, the hundredth, …"""
        if after and (not before or len(str(after)) > len(str(before))):
            blamed = ", ".join(f"column {name!r}" if name else "whole rows" for name in columns)
            self._say("%s: %s rows cannot be used (%s)", file.name, after, blamed)

    def _say(self, text: str, *values: object) -> None:
        """Report something once."""
        if (text, *values) not in self._said:
            self._said.add((text, *values))
            _LOG.warning(text, *values)
            self._report(text % values)


def _setting(number: int, position: Position) -> tuple[str, str]:
    return f"{_SETTING}{number}", msgspec.json.encode(position).decode()
