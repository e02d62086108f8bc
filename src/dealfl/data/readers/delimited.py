"""Delimited text: its layout, the rows of a block by column, and tables larger than memory."""

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, TextIO

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import DTypeLike, NDArray

from dealfl.data.readers.content import Content, open_bytes, open_text
from dealfl.errors import BadInput

Encoding = Annotated[
    Literal["utf-8", "utf-16", "windows-1252"], Meta(description="text encoding of the file")
]

_GROUPED = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d*)?([eE][+-]?\d+)?")
_CURRENCIES = "$€£¥"
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?")  # as in $1,234.50


class Layout(Struct, frozen=True, kw_only=True):
    """The layout of a table in delimited text."""

    delimiter: Annotated[
        str, Meta(min_length=1, max_length=1, description="character between two cells")
    ] = ","
    decimal_comma: Annotated[bool, Meta(description="numbers are written 1.234,5")] = False
    header: Annotated[
        bool, Meta(description="the first row names the columns; otherwise they are c1, c2, …")
    ] = True
    skip_lines: Annotated[
        int,
        Meta(ge=0, description="lines at the start of the file that are not part of the table"),
    ] = 0
    encoding: Encoding = "utf-8"

    def read_number(self, cell: str) -> float:
        """Return the number in a cell.

        Examples
        --------
        >>> layout = Layout(decimal_comma=True)
        >>> layout.read_number("1.234,5"), layout.read_number("31.12.2024")
        (1234.5, nan)
        >>> layout.read_number("12,50 €"), Layout().read_number("$1,015.44")
        (12.5, 1015.44)
        """
        cell = _without_currency(cell)
        if not self.decimal_comma:
            return read_number(cell)
        if "." in cell and not _GROUPED.fullmatch(cell.strip()):
            return math.nan  # 31.12.2024 is a date
        return read_number(cell.replace(".", "").replace(",", "."))


def _without_currency(cell: str) -> str:
    """Return a price as a number; of "$1,234.50" also without the commas of thousands."""
    text = cell.strip()
    plain = text.strip(_CURRENCIES + " ").removeprefix("-").strip(_CURRENCIES + " ")
    if len(plain) == len(text.removeprefix("-")):
        return cell
    plain = plain.replace(",", "") if _THOUSANDS.fullmatch(plain) else plain
    return f"-{plain}" if "-" in text[:-1] else plain


def read_number(cell: str) -> float:
    """Return the number in a cell with a decimal point.

    Examples
    --------
    >>> read_number(" 2.5 "), read_number("1_000"), read_number("ten")
    (2.5, nan, nan)
    """
    try:
        return float(cell) if "_" not in cell else math.nan
    except ValueError:
        return math.nan


# -- files that do not hold rows of text, recognised by their first bytes ------------------------

_HEAD_BYTES = 1 << 16
_PANDAS = "convert it first, for example in Python: pandas.{read}.to_csv({out!r})"
_SHEET = "save the sheet as CSV, and name that file"
_SUFFIX = "give its name the suffix {suffix}, so that it is unpacked"
_SAVE = "save the table as CSV, and name that file"

_BEGINNINGS: tuple[tuple[bytes, str, str], ...] = (
    (b"PAR1", "a Parquet file", _PANDAS.replace("{read}", "read_parquet({name!r})")),
    (b"ARROW1", "an Arrow or Feather file", _PANDAS.replace("{read}", "read_feather({name!r})")),
    (b"\x89HDF\r\n", "an HDF5 file", _PANDAS.replace("{read}", "read_hdf({name!r})")),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook", _SHEET),
    (b"SQLite format 3\0", "an SQLite database", "export the table as CSV, and name that file"),
    (b"\x93NUMPY", "a NumPy array", "save it by numpy.savetxt({out!r}, array, delimiter=',')"),
    (b"%PDF", "a PDF", _SAVE),
    (b"\x1f\x8b", "a gzip file", _SUFFIX.replace("{suffix}", ".gz")),
    (b"\xfd7zXZ\0", "an xz file", _SUFFIX.replace("{suffix}", ".xz")),
    (b"BZh", "a bzip2 file", _SUFFIX.replace("{suffix}", ".bz2")),
    (b"(\xb5/\xfd", "a zstd file", "unpack it, and name the file inside"),
)
_ARCHIVES = (
    (b"xl/", "an Excel workbook", _SHEET),
    (b"opendocument", "an OpenDocument sheet", _SHEET),
)
_MARKUP = re.compile(rb"\s*<(\?xml|!doctype|html|table)", re.IGNORECASE)
_JSON = re.compile(r"\s*(\[\s*[\[{]|\{\s*\")")


def require_rows(source: Path | Content) -> None:
    """Check that a file is not of a known format without rows of text.

    Examples
    --------
    >>> require_rows(Content("people.jsonl", b'{"age": 3}\\n{"age": 4}\\n'))
    Traceback (most recent call last):
    dealfl.errors.BadInput: people.jsonl is JSON Lines, not a table of text; convert it ...
    """
    with open_bytes(source) as stream:
        head = stream.read(_HEAD_BYTES)
    what, remedy = _recognise(head)
    if what:
        name = str(source)
        out = str(Path(name).with_suffix(".csv"))
        out = out if out != name else out.removesuffix(".csv") + "-table.csv"
        raise BadInput(
            f"{name} is {what}, not a table of text; {remedy.format(name=name, out=out)}"
        )


def _recognise(head: bytes) -> tuple[str, str]:
    """Return the format of a file and the remedy; two empty texts if it can be a table."""
    for beginning, what, remedy in _BEGINNINGS:
        if head.startswith(beginning):
            return what, remedy
    if head.startswith(b"PK\3\4"):
        matches = (pair for mark, *pair in _ARCHIVES if mark in head)
        what, remedy = next(matches, ["a zip archive", _SUFFIX.replace("{suffix}", ".zip")])
        return what, remedy
    if _MARKUP.match(head.removeprefix(b"\xef\xbb\xbf")):
        return "HTML or XML", _SAVE
    return _recognise_json(head.decode("utf-8", "replace").removeprefix("\ufeff"))


def _recognise_json(text: str) -> tuple[str, str]:
    if not _JSON.match(text):
        return "", ""
    first = text.strip().partition("\n")[0]
    if first.startswith("{") and _is_object(first):
        return "JSON Lines", _PANDAS.replace("{read}", "read_json({name!r}, lines=True)")
    if first.startswith("[[") and "\n" in text.strip():
        return "", ""  # a cell can start like this
    return "JSON", _PANDAS.replace("{read}", "read_json({name!r})")


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


class Block:
    """Some rows of a table, by column; rows of another width are separate."""

    unit = "line"  # what `lines` count

    def __init__(
        self,
        layout: Layout,
        width: int,
        lines: list[int],
        rows: list[str] | list[list[str]],
        ragged: Sequence[tuple[int, list[str]]] = (),
    ) -> None:
        self.layout, self.width, self.lines, self.ragged = layout, width, lines, ragged
        self._rows: Any = rows

    def __len__(self) -> int:
        return len(self.lines) + len(self.ragged)

    def texts(self, column: int) -> list[str]:
        """Return the cells of a column."""
        cells: list[str] = self._columns[column].tolist()
        return cells

    def numbers(self, column: int) -> NDArray[np.float64]:
        """Return the numbers of a column."""
        if self._floats is not None:
            return self._floats[:, column].copy()
        texts = self.texts(column)
        if not self.layout.decimal_comma and "_" not in "".join(texts):
            try:
                return np.asarray(self._columns[column], dtype=np.float64)
            except ValueError:
                pass  # some cell is not a number: parse each distinct cell
        number_of = {text: self.layout.read_number(text) for text in set(texts)}
        return np.array([number_of[text] for text in texts], dtype=np.float64)

    def table(self, columns: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
        """Return some columns as numbers of one type."""
        if self.lines and isinstance(self._rows[0], str):
            return self._parse(columns, dtype)
        return np.asarray(self._columns[list(columns)].T, dtype=dtype)

    @cached_property
    def _floats(self) -> NDArray[np.float64] | None:
        """All cells, if each is a number that numpy reads as Python does; without their texts."""
        if self.layout.decimal_comma or not self.lines or not isinstance(self._rows[0], str):
            return None
        with suppress(ValueError):
            return self._parse(None, np.float64)
        return None

    @cached_property
    def _columns(self) -> NDArray[Any]:
        if self.lines and isinstance(self._rows[0], str):
            return self._parse(None, object).T
        return np.array(self._rows, dtype=object).reshape(-1, self.width).T

    def _parse(self, columns: Sequence[int] | None, dtype: DTypeLike) -> NDArray[Any]:
        delimiter = self.layout.delimiter
        table: NDArray[Any] = np.loadtxt(
            self._rows, dtype, comments=None, delimiter=delimiter, usecols=columns, ndmin=2
        )
        return table


BLOCK_CHARACTERS = 1 << 20
_PLAIN = Layout()


@dataclass(frozen=True, slots=True)
class DelimitedText:
    """A table of delimited text, in a file or in memory.

    Examples
    --------
    >>> table = DelimitedText(Content("tiny.csv", b"a,b\\n1,2\\n3\\n5,x"))
    >>> (block,) = table.read_blocks(width=2)
    >>> block.numbers(0).tolist(), block.texts(1), block.ragged
    ([1.0, 5.0], ['2', 'x'], [(3, ['3'])])
    """

    source: Path | Content
    layout: Layout = _PLAIN
    _names: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.source.name

    def __str__(self) -> str:
        return str(self.source)

    def renamed(self, names: Sequence[str]) -> "DelimitedText":
        """Return the table with other names of its columns; a header is skipped."""
        return DelimitedText(self.source, self.layout, tuple(names))

    def read_names(self) -> list[str]:
        """Return the names in the header; c1, c2, … where there are none."""
        if self._names:
            return list(self._names)
        first = self.read_first()
        if not self.layout.header:
            return [f"c{index}" for index in range(1, len(first) + 1)]
        names = [cell.strip() or f"c{index}" for index, cell in enumerate(first, 1)]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise BadInput(
                    f"{self.source}: columns {names.index(name) + 1} and {index + 1} are both "
                    f"named {name!r}; rename one of them in the first row"
                )
        return names

    def read_first(self) -> list[str]:
        """Return the cells of the first row, whether it is a header or not."""
        require_rows(self.source)
        with open_text(self.source, self.layout.encoding) as text:
            for _, row in self._read_rows(text, self._skip(text)):
                return row
        raise BadInput(f"{self.source} is empty; it has no row")

    def read_blocks(self, width: int) -> Iterator[Block]:
        """Read all rows after the header; blank rows are skipped."""
        delimiter = self.layout.delimiter
        with open_text(self.source, self.layout.encoding) as text:
            line = self._skip(text)
            if self.layout.header:
                line, _ = next(self._read_rows(text, line), (line, []))
            while part := text.readlines(BLOCK_CHARACTERS):
                # csv merges several spaces, and a quoted cell can end on another line
                if delimiter == " " or '"' in "".join(part):
                    block, line = self._quoted(part, text, line, width)
                else:
                    block, line = self._plain(part, line, width), line + len(part)
                if len(block):
                    yield block

    def _skip(self, text: TextIO) -> int:
        for _ in range(self.layout.skip_lines):
            text.readline()
        return self.layout.skip_lines

    def _read_rows(self, text: Iterable[str], line: int) -> Iterator[tuple[int, list[str]]]:
        """Yield the line on which each row ends, and its cells; `line` lines precede them."""
        reader = csv.reader(text, delimiter=self.layout.delimiter, skipinitialspace=True)
        try:
            for row in reader:
                if row and (len(row) > 1 or row[0].strip()):
                    yield line + reader.line_num, row
        except csv.Error as error:
            raise BadInput(
                f"{self.source}, line {line + reader.line_num}: {error}; "
                "is a quotation mark left open?"
            ) from error

    def _quoted(self, part: list[str], rest: TextIO, line: int, width: int) -> tuple[Block, int]:
        """Return the rows that start in `part`, and the line on which the last one ends."""
        lines: list[int] = []
        rows: list[list[str]] = []
        ragged: list[tuple[int, list[str]]] = []
        end = line + len(part)
        for last, row in self._read_rows(chain(part, rest), line):
            if len(row) == width:
                lines.append(last)
                rows.append(row)
            else:
                ragged.append((last, row))
            if last >= end:
                end = last
                break
        return Block(self.layout, width, lines, rows, ragged), end

    def _plain(self, part: list[str], line: int, width: int) -> Block:
        delimiter = self.layout.delimiter
        counts = [text.count(delimiter) for text in part]
        lines = list(range(line + 1, line + 1 + len(part)))
        if width > 1 and counts.count(width - 1) == len(part):
            return Block(self.layout, width, lines, part)
        rows = [
            (number, text, count + 1)
            for number, text, count in zip(lines, part, counts, strict=True)
            if count or text.strip()
        ]
        good = [(number, text) for number, text, cells in rows if cells == width]
        ragged = [
            (number, text.rstrip("\r\n").split(delimiter))
            for number, text, cells in rows
            if cells != width
        ]
        return Block(self.layout, width, [n for n, _ in good], [text for _, text in good], ragged)
