"""Files that do not hold rows of text, recognised by their first bytes; errors name the remedy."""

import json
import re
from pathlib import Path

from dealfl.datasets.readers.content import Content, open_bytes
from dealfl.errors import BadInput

__all__ = ["require_rows"]

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
