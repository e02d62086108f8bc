"""Detection of a file's encoding, delimiter, header and first line of the table."""

from __future__ import annotations

import codecs
import csv
import math
import re
from collections import Counter
from itertools import islice
from pathlib import Path

from dealfl.data.readers import (
    Encoding,
    Layout,
    looks_like_libsvm,
    open_bytes,
    read_lines,
    read_number,
    require_rows,
)
from dealfl.data.sources import is_missing
from dealfl.errors import BadInput

_BLOCK = 1 << 20
_LINES = 200
_MOST_BEFORE = 50
_FEW_ROWS = 3
_MOSTLY = 0.9
_DELIMITERS = ("\t", ";", "|", ",", " ")
_SEPARATOR = re.compile(r"sep=(.)\s*", re.IGNORECASE)  # a line that Excel writes and hides
_WITH_COMMA = re.compile(r"-?\d+(\.\d{3})*,\d+")
_WITH_POINT = re.compile(r"-?\d+\.\d+")


def detect_layout(
    path: Path, *, delimiter: str = "", header: bool | None = None, skip_lines: int = 0
) -> tuple[Layout, bool]:
    """Return how a file is laid out, and whether it is LIBSVM's text; what is given counts."""
    require_rows(path)
    encoding = _encoding(path)
    after = islice(read_lines(path, encoding), _LINES + skip_lines)
    numbered = [(number, line) for number, line in after if number > skip_lines]
    separator = _SEPARATOR.fullmatch(numbered[0][1]) if numbered else None
    if separator:
        skip_lines, delimiter = numbered[0][0], delimiter or separator[1]
        del numbered[0]
    if not numbered:
        raise BadInput(f"{path} is empty; name a file with rows")
    lines = [line for _, line in numbered]
    if not delimiter and looks_like_libsvm(lines):
        return Layout(encoding=encoding, skip_lines=skip_lines), True
    if header is None:
        _require_start(path, numbered, delimiter)
    chosen = delimiter or _delimiter(lines) or ","
    rows = _rows(lines, chosen)
    layout = Layout(
        delimiter=chosen,
        decimal_comma=_has_decimal_comma(rows, chosen),
        header=_has_header(rows) if header is None else header,
        skip_lines=skip_lines,
        encoding=encoding,
    )
    return layout, False


def _encoding(path: Path) -> Encoding:
    with open_bytes(path) as stream:
        head = stream.read(_BLOCK)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if b"\0" in head:
            raise BadInput(
                f"{path} is not text: it contains zero bytes; save the table as CSV and use that"
            )
        names: tuple[Encoding, ...] = ("utf-8", "windows-1252")
        decoders = {name: codecs.getincrementaldecoder(name)() for name in names}
        while head:
            for name in list(decoders):
                try:
                    decoders[name].decode(head)
                except UnicodeDecodeError:
                    del decoders[name]
            head = stream.read(_BLOCK)
    if not decoders:
        raise BadInput(f"{path} is neither UTF-8 nor Windows-1252 text; save it as CSV in UTF-8")
    return next(iter(decoders))


# -- rows ---------------------------------------------------------------------------------------


def _rows(lines: list[str], delimiter: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True) if row]
    except csv.Error:
        return []


def _width(rows: list[list[str]]) -> int:
    """Return how many cells nearly all rows have; 0 if they differ."""
    widths = Counter(map(len, rows))
    width, count = widths.most_common(1)[0] if widths else (0, 0)
    return width if count >= _MOSTLY * widths.total() else 0


def _delimiter(lines: list[str]) -> str:
    """Return the first delimiter that divides nearly all lines into equally many cells, or ''."""
    fitting = (one for one in _DELIMITERS if _width(_rows(lines, one)) > 1)
    return next(fitting, "")


def _require_start(path: Path, numbered: list[tuple[int, str]], delimiter: str) -> None:
    """Refuse a file whose first lines are not part of its table, and say how many they are."""
    for place, (number, _) in enumerate(numbered[:_MOST_BEFORE]):
        lines = [line for _, line in numbered[place:]]
        chosen = delimiter or _delimiter(lines)
        rows = _rows(lines, chosen) if chosen else []
        width = _width(rows)
        if width < 2 or len(rows) < min(_FEW_ROWS, len(numbered)):
            continue
        if len(rows[0]) == width:
            if place == 0:
                return
            raise BadInput(
                f"{path}: line {numbered[0][0]} is not part of a table; the rows with {width} "
                f"cells start on line {number}: give --skip-lines {number - 1}"
            )
        if place == 0 and any(map(_is_value, rows[0])):
            return  # an ordinary row that is too short or too long
        if place == 0 and len(rows[0]) == width - 1:
            raise BadInput(
                f"{path}: the first row names {width - 1} columns, but rows have {width} cells; "
                "add a name for the first column, or give --header no"
            )


def _has_header(rows: list[list[str]]) -> bool:
    if len(rows) < 2:
        return bool(rows) and not any(_is_value(cell) for cell in rows[0])
    first, rest = rows[0], rows[1:]
    if any(_is_value(cell) for cell in first):
        return False
    columns = [[row[place] for row in rest if place < len(row)] for place in range(len(first))]
    if any(_is_value(cell) for cells in columns for cell in cells):
        return True
    return not any(cell in cells for cell, cells in zip(first, columns, strict=True))


def _is_value(cell: str) -> bool:
    text = cell.replace(",", ".")
    return not is_missing(cell) and not math.isnan(read_number(text))


def _has_decimal_comma(rows: list[list[str]], delimiter: str) -> bool:
    cells = [cell.strip() for row in rows for cell in row]
    return (
        delimiter != ","
        and any(_WITH_COMMA.fullmatch(cell) for cell in cells)
        and not any(_WITH_POINT.fullmatch(cell) for cell in cells)
    )
