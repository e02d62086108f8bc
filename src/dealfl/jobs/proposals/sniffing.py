"""How a file of unknown layout is written: its encoding, format, delimiter and header."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from dealfl.errors import BadInput
from dealfl.jobs.sources.cells import is_missing, number_of
from dealfl.jobs.sources.libsvm_source import pairs_of
from dealfl.jobs.sources.tables import Layout, lines_of, opened

__all__ = ["Sniffed", "sniff"]

_BLOCK = 1 << 20
_LINES = 200
_DELIMITERS = ("\t", ";", "|", ",", " ")
_WITH_COMMA = re.compile(r"-?\d+(\.\d{3})*,\d+")
_WITH_POINT = re.compile(r"-?\d+\.\d+")


@dataclass(frozen=True, slots=True)
class Sniffed:
    """What a file looks like."""

    layout: Layout
    decimal_comma: bool
    libsvm: bool


def sniff(
    path: Path, *, delimiter: str = "", header: bool | None = None, skip_lines: int = 0
) -> Sniffed:
    """Return how a file is laid out; what is given is taken as it is."""
    encoding = _encoding(path)
    after = islice(lines_of(path, encoding), _LINES + skip_lines)
    lines = [line for number, line in after if number > skip_lines]
    if not lines:
        raise BadInput(f"{path} is empty: there is no row to look at")
    if not delimiter and _is_libsvm(lines):
        return Sniffed(Layout(encoding=encoding, skip_lines=skip_lines), False, True)
    chosen = delimiter or _delimiter(lines)
    rows = _rows(lines, chosen)
    named = _has_header(rows) if header is None else header
    layout = Layout(chosen, named, skip_lines, encoding)
    return Sniffed(layout, _has_decimal_comma(rows, chosen), False)


def _encoding(path: Path) -> str:
    with opened(path) as stream:
        head = stream.read(_BLOCK)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if b"\0" in head:
            raise BadInput(
                f"{path} is not a text: it holds zero bytes; save the table as CSV, and name that"
            )
        decoders = {
            name: codecs.getincrementaldecoder(name)() for name in ("utf-8", "windows-1252")
        }
        while head:
            for name in list(decoders):
                try:
                    decoders[name].decode(head)
                except UnicodeDecodeError:
                    del decoders[name]
            head = stream.read(_BLOCK)
    if not decoders:
        raise BadInput(
            f"{path} is a text neither in UTF-8 nor in Windows-1252; save it as CSV in UTF-8"
        )
    return next(iter(decoders))


def _is_libsvm(lines: list[str]) -> bool:
    pairs = 0
    for line in lines[:20]:
        words = line.partition("#")[0].split()
        try:
            pairs += len(pairs_of(words[1:]))
        except ValueError:
            return False
    return pairs > 0


def _rows(lines: list[str], delimiter: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True) if row]
    except csv.Error:
        return []


def _delimiter(lines: list[str]) -> str:
    """Return the first that divides nearly all lines into as many cells; a comma if none does."""
    for delimiter in _DELIMITERS:
        widths = Counter(len(row) for row in _rows(lines, delimiter))
        width, count = widths.most_common(1)[0] if widths else (1, 0)
        if width > 1 and count >= 0.9 * widths.total():
            return delimiter
    return ","


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
    return not is_missing(cell) and number_of(text) == number_of(text)


def _has_decimal_comma(rows: list[list[str]], delimiter: str) -> bool:
    cells = [cell.strip() for row in rows for cell in row]
    return (
        delimiter != ","
        and any(_WITH_COMMA.fullmatch(cell) for cell in cells)
        and not any(_WITH_POINT.fullmatch(cell) for cell in cells)
    )
