"""The layout of a table in delimited text, numbers in its cells, and files that are no table."""

import json
import math
import re
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from dealfl.data.readers.content import Content, open_bytes
from dealfl.errors import BadInput

__all__ = ["Encoding", "Layout", "read_number", "require_rows"]

Encoding = Annotated[
    Literal["utf-8", "utf-16", "windows-1252"], Meta(description="text encoding of the file")
]

_GROUPED = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d*)?([eE][+-]?\d+)?")


class Layout(Struct, frozen=True, kw_only=True):
    """The layout of a table in delimited text.

    Parameters
    ----------
    delimiter : str, default ","
        Character between two cells.
    decimal_comma : bool, default False
        Whether numbers are written like 1.234,5.
    header : bool, default True
        Whether the first row names the columns.
    skip_lines : int, default 0
        Lines at the start of the file that are not part of the table.
    encoding : {"utf-8", "utf-16", "windows-1252"}, default "utf-8"
        Text encoding of the file.
    """

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

        Parameters
        ----------
        cell : str
            Text of the cell.

        Returns
        -------
        float
            The number; nan if the cell does not hold one.

        Examples
        --------
        >>> layout = Layout(decimal_comma=True)
        >>> layout.read_number("1.234,5"), layout.read_number("31.12.2024")
        (1234.5, nan)
        """
        if not self.decimal_comma:
            return read_number(cell)
        if "." in cell and not _GROUPED.fullmatch(cell.strip()):
            return math.nan  # 31.12.2024 is a date
        return read_number(cell.replace(".", "").replace(",", "."))


def read_number(cell: str) -> float:
    """Return the number in a cell with a decimal point.

    Parameters
    ----------
    cell : str
        Text of the cell.

    Returns
    -------
    float
        The number; nan if the cell does not hold one.

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

    Parameters
    ----------
    source : Path or Content
        A file, unpacked according to its suffix, or a content as it is.

    Raises
    ------
    BadInput
        The file is a workbook, Parquet, JSON, HTML or another known format.

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
        found = (pair for mark, *pair in _ARCHIVES if mark in head)
        what, remedy = next(found, ["a zip archive", _SUFFIX.replace("{suffix}", ".zip")])
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
