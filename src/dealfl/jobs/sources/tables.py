"""Delimited text as rows of cells, a chunk at a time: files may be larger than the memory."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

from dealfl.datasets import Content
from dealfl.errors import BadInput

if TYPE_CHECKING:
    import _csv

__all__ = ["Chunk", "Layout", "chunks", "lines_of", "names_of", "opened"]

_CHUNK_ROWS = 16_384
_PACKED: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


@dataclass(frozen=True, slots=True)
class Layout:
    """How the text of a file is laid out."""

    delimiter: str = ","
    header: bool = True
    skip_lines: int = 0
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows, and the line on which each ends."""

    lines: list[int]
    rows: list[list[str]]


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file as bytes, unpacked by its suffix; BadInput says why it can not be read."""
    if path.is_dir():
        raise BadInput(f"{path} is a directory; name a file in it")
    try:
        with _stream(path) as stream:
            yield stream
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}; check the name and the directory") from None
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise BadInput(f"{path} is truncated or damaged ({error}); get the file again") from error
    except OSError as error:
        raise BadInput(f"{path} can not be read: {error.strerror or error}") from error


def _stream(path: Path) -> BinaryIO:
    if path.suffix == ".zip":
        return io.BytesIO(Content.read(path).unpack().data)
    opener = _PACKED.get(path.suffix)
    return cast("BinaryIO", opener(path, "rb")) if opener else path.open("rb")


@contextmanager
def _text(path: Path, encoding: str) -> Iterator[TextIO]:
    proper = "utf-8-sig" if encoding == "utf-8" else encoding
    with opened(path) as stream:
        text = io.TextIOWrapper(stream, encoding=proper, newline="")
        try:
            yield text
        except UnicodeError as error:
            raise BadInput(
                f"{path} is not a text in {encoding}: {error}; "
                'if it comes from Windows, set source.encoding = "windows-1252"'
            ) from error


def lines_of(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Yield the number, from 1, and the text of each line that is not blank."""
    with _text(path, encoding) as text:
        for number, line in enumerate(text, 1):
            if line.strip():
                yield number, line


def names_of(path: Path, layout: Layout) -> list[str]:
    """Return the names of the columns; c1, c2 … where the file does not name them."""
    with _text(path, layout.encoding) as text:
        reader = _reader(text, layout)
        first = next(_cells(reader, path), None)
    if first is None:
        raise BadInput(f"{path} is empty: there is no row to look at")
    if not layout.header:
        return [f"c{place}" for place in range(1, len(first) + 1)]
    return _named(first, path)


def _named(cells: list[str], path: Path) -> list[str]:
    names = [cell.strip() or f"c{place}" for place, cell in enumerate(cells, 1)]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise BadInput(
                f"{path}: columns {names.index(name) + 1} and {place + 1} are both called "
                f"{name!r}; rename one of them in the first row"
            )
    return names


def chunks(path: Path, layout: Layout) -> Iterator[Chunk]:
    """Yield all rows after the header, those that are blank left out."""
    with _text(path, layout.encoding) as text:
        reader = _reader(text, layout)
        rows = _cells(reader, path)
        if layout.header:
            next(rows, None)
        chunk = Chunk([], [])
        for row in rows:
            chunk.lines.append(reader.line_num + layout.skip_lines)
            chunk.rows.append(row)
            if len(chunk.rows) == _CHUNK_ROWS:
                yield chunk
                chunk = Chunk([], [])
        if chunk.rows:
            yield chunk


def _reader(text: TextIO, layout: Layout) -> _csv.Reader:
    for _ in range(layout.skip_lines):
        text.readline()
    return csv.reader(text, delimiter=layout.delimiter, skipinitialspace=True)


def _cells(reader: _csv.Reader, path: Path) -> Iterator[list[str]]:
    try:
        for row in reader:
            if row and (len(row) > 1 or row[0].strip()):
                yield row
    except csv.Error as error:
        raise BadInput(
            f"{path}, line {reader.line_num}: {error}; is a quotation mark left open?"
        ) from error
