"""A saved learner: one versioned file without pickle, written completely or not at all.

"DEALFILE", version u16, header length u32, header (JSON: learner, settings, lengths of the
sections), the sections, SHA-256 of everything before it.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec

from dealfl.errors import BadBytes, unreadable
from dealfl.exact import Setting, Statistics
from dealfl.storage import replace_file

_MAGIC = b"DEALFILE"
_VERSION = 1
_PREFIX = struct.Struct("<8sHI")
_DIGEST_BYTES = 32


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    learner: str
    settings: dict[str, Setting]
    sections: dict[str, Annotated[int, msgspec.Meta(ge=0)]]


class SavedLearner(msgspec.Struct, frozen=True):
    """The content of a file: the name of a learner, its settings, and named sections of bytes.

    Parameters
    ----------
    learner : str
        Name of the learner.
    settings : dict of str to object
        Constructor arguments of the learner.
    sections : dict of str to bytes
        Sections by name; "statistics" is always there.
    """

    MAX_BYTES: ClassVar[int] = 1 << 36  # the user's own file can be large

    learner: str
    settings: dict[str, Any]
    sections: dict[str, bytes]

    @classmethod
    def read(cls, path: Path) -> SavedLearner:
        """Read a file that `write` wrote.

        Parameters
        ----------
        path : Path
            File to read.

        Returns
        -------
        SavedLearner
            The content.

        Raises
        ------
        BadInput
            The file cannot be read.
        BadBytes
            The file is damaged or is not a saved learner.
        """
        try:
            data = path.read_bytes()
        except OSError as error:
            raise unreadable(path, error) from None
        try:
            return _parse(data)
        except BadBytes as error:
            raise BadBytes(f"{path}: {error}") from None

    def write(self, path: Path) -> None:
        """Write a file; a crash leaves the old file or the new one.

        Parameters
        ----------
        path : Path
            File to write.
        """
        lengths = {name: len(section) for name, section in self.sections.items()}
        header = msgspec.json.encode(
            {"learner": self.learner, "settings": self.settings, "sections": lengths}
        )
        prefix = _PREFIX.pack(_MAGIC, _VERSION, len(header))
        parts = [prefix, header, *self.sections.values()]
        whole = hashlib.sha256()
        for part in parts:
            whole.update(part)
        replace_file(path, [*parts, whole.digest()])

    def section(self, name: str) -> bytes:
        """Return one section.

        Parameters
        ----------
        name : str
            Name of the section.

        Returns
        -------
        bytes
            The section.

        Raises
        ------
        BadBytes
            The section is missing.
        """
        if name not in self.sections:
            raise BadBytes(f"the saved {self.learner} has no section {name!r}")
        return self.sections[name]

    @property
    def statistics(self) -> Statistics:
        """The saved statistics."""
        return Statistics.from_bytes(self.section("statistics"), max_bytes=self.MAX_BYTES)


def _parse(data: bytes) -> SavedLearner:
    if len(data) < _PREFIX.size + _DIGEST_BYTES or not data.startswith(_MAGIC):
        raise BadBytes("not a saved learner")
    _, version, length = _PREFIX.unpack_from(data)
    if version != _VERSION:
        raise BadBytes(
            f"the saved learner has format {version}; this dealfl reads format {_VERSION}: "
            "use the version of dealfl that wrote it"
        )
    if hashlib.sha256(data[:-_DIGEST_BYTES]).digest() != data[-_DIGEST_BYTES:]:
        raise BadBytes("the file is damaged: its checksum does not match")
    start = _PREFIX.size + length
    try:
        header = msgspec.json.decode(data[_PREFIX.size : start], type=_Header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadBytes(f"the header cannot be read: {error}") from None
    sections = {}
    for name, size in header.sections.items():
        sections[name] = data[start : start + size]
        start += size
    if start != len(data) - _DIGEST_BYTES:
        raise BadBytes("the sizes of the sections do not match the file")
    return SavedLearner(header.learner, header.settings, sections)
