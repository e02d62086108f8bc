"""The content of data files, unpacked according to the suffix of their names."""

import bz2
import csv
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, TextIO, cast

from dealfl.errors import BadBytes, BadInput, meant_path, needs_extra

_SPREADSHEET = bytes.fromhex("d0cf11e0a1b11ae1")  # .xls
PACKINGS = (".gz", ".xz", ".bz2", ".zip")  # of one file; archives of many need a member's name


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes, with the name of the file they came from.

    Examples
    --------
    >>> packed = Content("ratings.gz", gzip.compress(b"1 2"))
    >>> packed.unpack()
    Content(name='ratings.gz', data=b'1 2')
    """

    name: str
    data: bytes

    def __str__(self) -> str:
        return self.name

    @classmethod
    def read(cls, path: Path) -> "Content":
        """Read a file without unpacking it."""
        with _open_file(path) as file:
            return cls(str(path), file.read())

    def unpack(self, member: str | None = None) -> "Content":
        """Unpack the content according to the suffix of the name."""
        with _unpack(self.name, io.BytesIO(self.data), member) as stream:
            return Content(self.name, stream.read())


@contextmanager
def open_bytes(data: Path | Content) -> Iterator[BinaryIO]:
    """Open a file, unpacked according to its suffix, or a content as it is."""
    if isinstance(data, Content):
        yield io.BytesIO(data.data)
        return
    with _open_file(data) as file, _unpack(str(data), file, None) as stream:
        yield stream


@contextmanager
def open_text(data: Path | Content, encoding: str) -> Iterator[TextIO]:
    """Open a file or a content as text; line ends are kept."""
    with open_bytes(data) as stream:
        codec = "utf-8-sig" if encoding == "utf-8" else encoding
        try:
            yield io.TextIOWrapper(stream, encoding=codec, newline="")
        except UnicodeError as error:
            raise BadInput(
                f"{data} is not text in {encoding}: {error}; "
                'if it comes from Windows, set source.encoding = "windows-1252"'
            ) from error


def read_lines(source: Path | Content, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Read the lines that are not blank."""
    with open_text(source, encoding) as text:
        for number, line in enumerate(text, 1):
            if line.strip():
                yield number, line.rstrip("\r\n")


def unpacked_name(name: str) -> str:
    """Return the name of a file after unpacking.

    Examples
    --------
    >>> unpacked_name("covtype/covtype.data.xz")
    'covtype/covtype.data'
    """
    for packing in PACKINGS:
        name = name.removesuffix(packing)
    return name


def _open_file(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        remedy = meant_path(path) or "check the name and the directory"
        raise BadInput(f"file {path} does not exist; {remedy}") from None
    except IsADirectoryError:
        raise BadInput(f"cannot read {path}: it is a directory; name a file in it") from None
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}; make it readable") from error


@contextmanager
def _unpack(name: str, packed: BinaryIO, member: str | None) -> Iterator[BinaryIO]:
    try:
        yield _OPEN.get(PurePosixPath(name).suffix, _open_plain)(name, packed, member)
    except _DAMAGED as error:
        reason = str(error).partition("\n")[0]
        raise BadBytes(f"{name}: truncated or damaged ({reason}); get the file again") from error


def _open_plain(name: str, packed: BinaryIO, member: str | None) -> BinaryIO:  # noqa: ARG001
    return packed


def _open_gzip(name: str, packed: BinaryIO, member: str | None) -> BinaryIO:
    if not packed.read(1):
        raise EOFError("it is empty")  # gzip would accept an empty file
    packed.seek(0)
    stream = cast("BinaryIO", gzip.GzipFile(fileobj=packed))
    if not name.endswith((".tar.gz", ".tgz")):
        return stream
    # read all of it: tarfile alone would not detect a truncated end
    with tarfile.open(fileobj=io.BytesIO(stream.read()), mode="r:") as archive:
        names = [info.name for info in archive.getmembers() if info.isfile()]
        picked = archive.extractfile(_pick(name, names, member))
        assert picked is not None  # _pick names regular files only
        return io.BytesIO(picked.read())


def _open_zip(name: str, packed: BinaryIO, member: str | None) -> BinaryIO:
    archive = zipfile.ZipFile(packed)
    names = [info.filename for info in archive.infolist() if not info.is_dir()]
    try:
        return cast("BinaryIO", archive.open(_pick(name, names, member)))
    except RuntimeError as error:  # encrypted, or packed in an unknown way
        raise zipfile.BadZipFile(str(error)) from error


def _pick(archive: str, names: list[str], member: str | None) -> str:
    if member is not None and member in names:
        return member
    if len(names) == 1:
        return names[0]  # under any name: checksums detect a wrong one
    expected = "one file" if member is None else repr(member)
    listed = ", ".join(sorted(names)[:8]) or "nothing"
    problem = f"{archive}: expected {expected} in the archive, but it holds {listed}"
    raise BadInput(problem if member else f"{problem}; unpack it, and name one of the files")


_OPEN: dict[str, Callable[[str, BinaryIO, str | None], BinaryIO]] = {
    ".gz": _open_gzip,
    ".tgz": _open_gzip,
    ".xz": lambda _, packed, __: cast("BinaryIO", lzma.LZMAFile(packed)),  # noqa: SIM115
    ".bz2": lambda _, packed, __: cast("BinaryIO", bz2.BZ2File(packed)),
    ".zip": _open_zip,
}
_DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError)


def as_text(content: Content) -> Content:
    """Return the first sheet of an old spreadsheet (.xls) as text; other content as it is.

    Examples
    --------
    >>> as_text(Content("t.csv", b"1,2")).data
    b'1,2'
    """
    if not content.data.startswith(_SPREADSHEET):
        return content
    with needs_extra("datasets", f"the spreadsheet {content.name}"):
        from python_calamine import CalamineError, CalamineWorkbook
    try:
        with CalamineWorkbook.from_filelike(io.BytesIO(content.data)) as book:
            rows = book.get_sheet_by_index(0).to_python()
    except CalamineError as error:
        problem = f"{content.name}: truncated or damaged ({error}); get the file again"
        raise BadBytes(problem) from error
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return Content(content.name, text.getvalue().encode())
