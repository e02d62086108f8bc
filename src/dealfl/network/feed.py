"""New rows of files that grow and are rotated: each enters a worker's journal once.

The position up to which a file was read is stored in the transaction that stores its rows. It
belongs to a content, not to a name. A file is recognised by its inode and by hashes of some of its
bytes, so that it continues where it was after a rotation.

    data.csv        grows
    data.csv.1      was data.csv before the last rotation, renamed or copied; also data.csv-20261115
    data.csv.2.gz   packed: not read
"""

from __future__ import annotations

import errno
import hmac
import itertools
import logging
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from dealfl.data.readers import PACKINGS, unpacked_name
from dealfl.errors import BadInput, WriteFailed
from dealfl.jobs import GrowingSource, Head
from dealfl.storage import log
from dealfl.worker import Journal, Worker

_LOG = logging.getLogger("dealfl.network")
_PART_BYTES = 1 << 18  # rows that are stored in one transaction
_MAX_ROW_BYTES = 1 << 20
_WINDOW = 1024  # bytes before a cut that its hash covers
_CUTS = (8, 16, 24, *range(32, _WINDOW + 1, 32))
_ROTATED = re.compile(r"[.-]\d[\d.-]*$")
_GONE = (errno.ENOENT, errno.ESTALE)
_HIDDEN = re.compile(r"\..*|.*(~|\.tmp|\.part|\.swp)")


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """How far a file was read, and how it is recognised; nothing in it tells of erased people."""

    name: str  # its hash
    inode: tuple[int, int]  # with its device
    offset: int = 0
    hashes: dict[int, str] = {}
    bad: int = 0  # rows that cannot be used

    def hashes_within(self, size: int) -> dict[int, str]:
        """Return the hashes that a file of some bytes can have."""
        return {cut: value for cut, value in self.hashes.items() if cut <= size}


class File(NamedTuple):
    """A file as its folder lists it."""

    name: str
    inode: tuple[int, int]  # with its device
    size: int
    changed_ns: int

    @property
    def base(self) -> str:
        """The name before rotations."""
        return _ROTATED.sub("", self.name)


class GrowingFiles:
    """A file with its rotated predecessors, or all files of a folder.

    A gateway's folder has a file or a folder for each worker: `worker` selects WORKER.csv,
    WORKER.csv.1, … or WORKER/. `say` reports a problem once.
    """

    def __init__(
        self, data: Path, worker: str, key: bytes, say: Callable[[str, str, str], None]
    ) -> None:
        self._data = data
        self._worker = worker
        self._key = key
        self._say = say
        self._folder = data

    def list(self) -> list[File]:
        """Return the files, the one that was written first in front."""
        whole = self._data / self._worker  # as they are now: they may not have been there before
        everything = whole.is_dir()
        self._folder = whole if everything else self._data if self._worker else self._data.parent
        name = re.escape(self._worker) + r"\.\w+" if self._worker else re.escape(self._data.name)
        files = []
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if self._counts(entry.name, ".*" if everything else name) and entry.is_file():
                        state = entry.stat()
                        inode = (state.st_dev, state.st_ino)
                        files.append(File(entry.name, inode, state.st_size, state.st_mtime_ns))
        except OSError as error:
            why = str(error.strerror)
            self._say("the data cannot be listed", why, f"{self._folder} cannot be listed: {why}")
        if not files:
            self._say("no data yet", "", f"no data in {whole} yet")
        return sorted(files, key=lambda file: (file.changed_ns, file.name))

    def _counts(self, name: str, wanted: str) -> bool:
        base = _ROTATED.sub("", unpacked_name(name))
        if _HIDDEN.fullmatch(name) or not re.fullmatch(wanted, base):
            return False
        if name.endswith(PACKINGS):
            self._say("a file is not read", "it is packed", f"{name} is packed; it is not read")
            return False
        return True

    @contextmanager
    def open(self, file: File) -> Iterator[int]:
        """Open a file that has not been replaced since it was listed."""
        descriptor = os.open(self._folder / file.name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if os.fstat(descriptor).st_ino != file.inode[1]:
                raise OSError(errno.ESTALE, "it was replaced meanwhile")
            yield descriptor
        finally:
            os.close(descriptor)

    def hashes(self, descriptor: int, cuts: Iterable[int]) -> dict[int, str]:
        """Return hashes of the bytes before some cuts, by which a file is recognised."""
        hashes = {}
        for cut in cuts:
            data = os.pread(descriptor, min(cut, _WINDOW), max(cut - _WINDOW, 0))
            hashes[cut] = self.hide(data)
        return hashes

    def hide(self, text: str | bytes) -> str:
        """Return a keyed hash of a name or of content, which nobody can guess."""
        return hmac.digest(self._key, os.fsencode(text), "sha256").hex()[:12]

    def continues(self, file: File, position: Position, *, shorter: bool = False) -> bool:
        """Return whether a file has the content that was read; a copy may be shorter.

        One that cannot be read now is taken for it: who reads its rows compares the content again.
        """
        hashes = position.hashes_within(file.size)
        if not hashes or (file.size < position.offset and not shorter):
            return False
        try:
            with self.open(file) as descriptor:
                return self.hashes(descriptor, hashes) == hashes
        except OSError as error:
            return error.errno not in _GONE


class Matching:
    """Which file is which: the file of each position, by inode and by content."""

    def __init__(self, files: GrowingFiles, positions: Mapping[int, Position]) -> None:
        self.matches: dict[int, File] = {}
        self._files = files
        self._positions = positions
        self._by_inode = self._index(lambda number: positions[number].inode)
        self._truncated: set[int] = set()
        self._free = itertools.count(max(positions, default=0) + 1)

    def match(self, files: Iterable[File], numbers: Mapping[File, int], *, last: bool) -> None:
        """Find the position of each file; give new numbers to the others.

        Rotated files without a position get a number at the `last` attempt only: they may be copies
        of files that are new, too.
        """
        others = []
        for file in files:
            number = numbers.get(file) or self._find_inode(file)
            if number is None:
                self._truncated.update(self._by_inode[file.inode])
                others += [file] if file.size else []
            else:
                self.matches[number] = file
        by_name = self._index(self._name)
        for file in others:
            new = not self._match_content(file, by_name)
            if new and (last or file.base == file.name):
                self.matches[next(self._free)] = file

    def _index(self, key: Callable[[int], object]) -> defaultdict[object, list[int]]:
        """Return the numbers of positions by a key, the newest first."""
        index: defaultdict[object, list[int]] = defaultdict(list)
        for number in sorted(self._positions, reverse=True):
            index[key(number)].append(number)
        return index

    def _name(self, number: int) -> str:
        match = self.matches.get(number)
        return self._files.hide(match.name) if match else self._positions[number].name

    def _find_inode(self, file: File) -> int | None:
        for number in self._by_inode[file.inode]:
            position = self._positions[number]
            if not position.offset or self._files.continues(file, position):
                return number
        return None

    def _match_content(self, file: File, by_name: Mapping[object, list[int]]) -> bool:
        """Match a file that has a new inode, or whose inode has a new content."""
        own = self._files.hide(file.name)
        base = self._files.hide(file.base)
        for number in {*by_name.get(base, ()), *by_name.get(own, ())}:
            name = self._name(number)
            matched = number in self.matches
            position = self._positions[number]
            if name == own:  # replaced, or restored from a backup
                fits = not matched and self._files.continues(file, position)
            elif name == base:  # copied, to be truncated; later rows are not in the copy
                shorter = matched or number in self._truncated
                fits = self._files.continues(file, position, shorter=shorter)
            else:
                fits = False  # its content was found in another file
            if fits:
                self.matches.setdefault(number, file)
                return True
        return False


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
        report: Callable[[str], None],
    ) -> None:
        self.left_bytes = 0  # not read yet
        self.problem = ""  # why no record can be stored now
        self.worker = worker
        self._source = source
        self._report = report
        self._files = GrowingFiles(data, worker.name if gateway else "", key, self._say)
        self._positions = {
            number: msgspec.json.decode(position, type=Position)
            for number, position in journal.positions().items()
        }
        self._heads: dict[int, Head] = {}
        self._unchanged: dict[File, int] = {}  # files without news, as they were listed
        self._said: set[str] = set()

    @property
    def bad(self) -> int:
        """Number of rows that could not be used, so far."""
        return sum(position.bad for position in self._positions.values())

    def poll(self) -> Iterator[int]:
        """Give new rows to the worker; yield the number of records after each transaction.

        While the disk is full nothing is stored, neither rows nor positions: the next poll reads
        the same rows again.
        """
        try:
            yield from self._poll()
            self._note_problem("")
        except WriteFailed as error:
            self._note_problem(str(error))

    def _note_problem(self, problem: str) -> None:
        """Log why no record can be stored, and when it can be again."""
        if problem and not self.problem:
            extra = {"deal_event": "rows wait", "deal_reason": problem}
            _LOG.warning("%s; rows wait", problem, extra=extra)
        if self.problem and not problem:
            _LOG.warning("rows are stored again", extra={"deal_reason": "disk writable"})
        self.problem = problem

    def _poll(self) -> Iterator[int]:
        files = self._files.list()
        there = {file for file in files if file.size}
        if self._unchanged.keys() == there:
            return
        self._unchanged = {
            file: number for file, number in self._unchanged.items() if file in there
        }
        for last in (False, True):  # a copy is recognised after its original was read
            matching = Matching(self._files, self._positions)
            matching.match(files, self._unchanged, last=last)
            for number, file in matching.matches.items():
                self._adopt(number, file)
            left = (f.size - self._positions[n].offset for n, f in matching.matches.items())
            self.left_bytes = sum(left)
            for number, file in matching.matches.items():
                if file in there and file not in self._unchanged:
                    yield from self._try(number, file)

    def _try(self, number: int, file: File) -> Iterator[int]:
        try:
            yield from self._read(number, file)
            self._unchanged[file] = number
        except OSError as error:  # the next poll tries again
            if error.errno not in _GONE:
                why = str(error.strerror)
                self._say("a file cannot be read", why, f"{file.name} cannot be read: {why}")

    def _adopt(self, number: int, file: File) -> None:
        """Store the new place of a file that was moved."""
        new = Position(name=self._files.hide(file.name), inode=file.inode)
        position = self._positions.get(number, new)
        moved = msgspec.structs.replace(
            position,
            name=new.name,
            inode=new.inode,
            offset=min(position.offset, file.size),
            hashes=position.hashes_within(file.size),
        )
        if moved != position:
            self.worker.ingest([], (number, msgspec.json.encode(moved)))
        self._positions[number] = moved

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
                    self._require_same(descriptor, position)
                    break
                part = self._source.read(file.name, head, rows, self.worker.name)
                end = offset + sum(map(len, rows))
                cuts = [*(cut for cut in _CUTS if cut < end), end]
                moved = msgspec.structs.replace(
                    position,
                    offset=end,
                    hashes=self._files.hashes(descriptor, cuts),
                    bad=position.bad + part.bad.total(),
                )
                same = os.pread(descriptor, end - offset, offset) == b"".join(rows)
                self._require_same(descriptor, position, same=same)
                self.worker.ingest(part.records, (number, msgspec.json.encode(moved)))
                self._positions[number] = moved
                self.left_bytes -= end - position.offset
                self._report_bad(file, position.bad, moved.bad, sorted(part.bad))
                yield len(part.records)

    def _require_same(self, descriptor: int, position: Position, *, same: bool = True) -> None:
        """Refuse a file that does not have the content that was read."""
        if not same or self._files.hashes(descriptor, position.hashes) != position.hashes:
            raise OSError(errno.ESTALE, "it was truncated meanwhile")

    def _head(self, number: int, file: File, descriptor: int) -> Head | None:
        if number not in self._heads or not self._positions[number].offset:
            try:
                begin = os.pread(descriptor, _MAX_ROW_BYTES, 0)
                head = self._source.read_head(file.name, begin)
            except BadInput as error:
                self._say("a file is not read", "its head", f"{file.name} is not read: {error}")
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
        problem = f"no line end in {_MAX_ROW_BYTES} bytes"
        text = f"{file.name}: {problem}; the rest is not read"
        self._say("the rest of a file is not read", problem, text)
        return []

    def _report_bad(self, file: File, before: int, after: int, columns: Iterable[str]) -> None:
        """Report unusable rows of a file, but no values: the first, the tenth, the hundredth, …"""
        if after and (not before or len(str(after)) > len(str(before))):
            blamed = ", ".join(f"column {name!r}" if name else "whole rows" for name in columns)
            text = f"{file.name}: {after} rows cannot be used ({blamed})"
            self._say("rows cannot be used", blamed, text, rows=after)

    def _say(self, event: str, reason: str, text: str, rows: int = 0) -> None:
        """Report something once: with the name of the file, which the log does not contain."""
        if text not in self._said:
            self._said.add(text)
            name = self.worker.name
            log(event, worker=name, reason=reason or None, level="warning", rows=rows)
            self._report(f"{self.worker.name}: {text}")
