"""Files that grow and are rotated: which file is which, and how far each was read.

A position belongs to a content, not to a name. A file is recognised by its inode and by hashes of
some of its bytes, so that it continues where it was after a rotation.

    data.csv        grows
    data.csv.1      was data.csv before the last rotation, renamed or copied; also data.csv-20261115
    data.csv.2.gz   packed: not read
"""

from __future__ import annotations

import errno
import hmac
import itertools
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from dealfl.data.readers import PACKINGS, unpacked_name

__all__ = ["File", "GrowingFiles", "Matching", "Position"]

_WINDOW = 1024  # bytes before a cut that its hash covers
_CUTS = (8, 16, 24, *range(32, _WINDOW + 1, 32))
_ROTATED = re.compile(r"[.-]\d[\d.-]*$")
_HIDDEN = re.compile(r"\..*|.*(~|\.tmp|\.part|\.swp)")


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """How far a file was read, and how it is recognised; nothing in it tells of erased people."""

    name: str  # its hash
    device: int
    inode: int
    offset: int = 0
    hashes: dict[int, str] = {}
    bad: int = 0  # rows that cannot be used


class File(NamedTuple):
    """A file as its folder lists it."""

    name: str
    device: int
    inode: int
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

    def __init__(self, data: Path, worker: str, key: bytes, say: Callable[..., None]) -> None:
        self._data, self._worker, self._key, self._say = data, worker, key, say
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
                        identity = (entry.name, state.st_dev, state.st_ino)
                        files.append(File(*identity, state.st_size, state.st_mtime_ns))
        except OSError as error:
            self._say("%s cannot be listed: %s", self._folder, error.strerror)
        if not files:
            self._say("no data in %s yet", whole)
        return sorted(files, key=lambda file: (file.changed_ns, file.name))

    def _counts(self, name: str, wanted: str) -> bool:
        base = _ROTATED.sub("", unpacked_name(name))
        if _HIDDEN.fullmatch(name) or not re.fullmatch(wanted, base):
            return False
        if name.endswith(PACKINGS):
            self._say("%s is packed; it is not read", name)
            return False
        return True

    @contextmanager
    def open(self, file: File) -> Iterator[int]:
        """Open a file that has not been replaced since it was listed."""
        descriptor = os.open(self._folder / file.name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if os.fstat(descriptor).st_ino != file.inode:
                raise OSError(errno.ESTALE, "it was replaced meanwhile")
            yield descriptor
        finally:
            os.close(descriptor)

    def hash_before(self, descriptor: int, offset: int) -> dict[int, str]:
        """Return the hashes by which a file that was read up to a place is recognised."""
        return self._hash(descriptor, {*(cut for cut in _CUTS if cut < offset), offset})

    def has(self, descriptor: int, hashes: Mapping[int, str]) -> bool:
        """Return whether a file has these hashes."""
        return self._hash(descriptor, hashes) == hashes

    def _hash(self, descriptor: int, cuts: Iterable[int]) -> dict[int, str]:
        found = {}
        for cut in cuts:
            data = os.pread(descriptor, min(cut, _WINDOW), max(cut - _WINDOW, 0))
            found[cut] = self._hide(data)
        return found

    def hide(self, name: str) -> str:
        """Return a hash of a file's name."""
        return self._hide(os.fsencode(name))

    def _hide(self, data: bytes) -> str:
        return hmac.digest(self._key, data, "sha256").hex()[:12]  # nobody can guess it

    def continues(self, file: File, position: Position, *, shorter: bool = False) -> bool:
        """Return whether a file has the content that was read; a copy may be shorter."""
        hashes = {cut: one for cut, one in position.hashes.items() if cut <= file.size}
        if not hashes or (file.size < position.offset and not shorter):
            return False
        try:
            with self.open(file) as descriptor:
                return self.has(descriptor, hashes)
        except OSError:
            return False


class Matching:
    """Which file is which: the file of each position, by inode and by content."""

    def __init__(self, files: GrowingFiles, positions: Mapping[int, Position]) -> None:
        self.found: dict[int, File] = {}
        self._files, self._positions = files, positions
        self._by_inode = self._index(lambda number: _identity(positions[number]))
        self._truncated: set[int] = set()
        self._free = itertools.count(max(positions, default=0) + 1)

    def match(self, files: Iterable[File], known: Mapping[File, int], *, last: bool) -> None:
        """Find the position of each file; give new numbers to the others.

        Rotated files without a position get a number at the `last` attempt only: they may be copies
        of files that are new, too.
        """
        others = []
        for file in files:
            number = known.get(file) or self._find_inode(file)
            if number is None:
                self._truncated.update(self._by_inode[_identity(file)])
                others += [file] if file.size else []
            else:
                self.found[number] = file
        by_name = self._index(self._name)
        for file in others:
            new = not self._match_content(file, by_name)
            if new and (last or file.base == file.name):
                self.found[next(self._free)] = file

    def _index(self, key: Callable[[int], object]) -> defaultdict[object, list[int]]:
        """Return the numbers of positions by a key, the newest first."""
        index: defaultdict[object, list[int]] = defaultdict(list)
        for number in sorted(self._positions, reverse=True):
            index[key(number)].append(number)
        return index

    def _name(self, number: int) -> str:
        there = self.found.get(number)
        return self._positions[number].name if there is None else self._files.hide(there.name)

    def _find_inode(self, file: File) -> int | None:
        for number in self._by_inode[_identity(file)]:
            position = self._positions[number]
            if not position.offset or self._files.continues(file, position):
                return number
        return None

    def _match_content(self, file: File, by_name: Mapping[object, list[int]]) -> bool:
        """Match a file that has a new inode, or whose inode has a new content."""
        own, base = self._files.hide(file.name), self._files.hide(file.base)
        for number in {*by_name.get(base, ()), *by_name.get(own, ())}:
            name, there = self._name(number), number in self.found
            position = self._positions[number]
            if name == own:  # replaced, or restored from a backup
                fits = not there and self._files.continues(file, position)
            elif name == base:  # copied, to be truncated; later rows are not in the copy
                shorter = there or number in self._truncated
                fits = self._files.continues(file, position, shorter=shorter)
            else:
                fits = False  # its content was found in another file
            if fits:
                self.found.setdefault(number, file)
                return True
        return False


def _identity(one: File | Position) -> tuple[int, int]:
    return one.device, one.inode
