"""Looking at a user's file: how it is written, and what each of its columns holds."""

from __future__ import annotations

import codecs
import csv
import math
import re
import statistics
import sys
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dealfl.datasets.readers import (
    Block,
    Encoding,
    Layout,
    looks_like_libsvm,
    open_bytes,
    read_libsvm,
    read_lines,
    read_number,
    read_pairs,
)
from dealfl.errors import BadInput
from dealfl.jobs.sources import Place, find_date, is_missing, open_table, report_progress

__all__ = ["Found", "detect_layout", "survey", "survey_libsvm"]

# -- how the file is written --------------------------------------------------------------------

_BLOCK = 1 << 20
_LINES = 200
_DELIMITERS = ("\t", ";", "|", ",", " ")
_WITH_COMMA = re.compile(r"-?\d+(\.\d{3})*,\d+")
_WITH_POINT = re.compile(r"-?\d+\.\d+")


def detect_layout(
    path: Path, *, delimiter: str = "", header: bool | None = None, skip_lines: int = 0
) -> tuple[Layout, bool]:
    """Return how a file is laid out, and whether it is LIBSVM's text; what is given counts."""
    encoding = _encoding(path)
    after = islice(read_lines(path, encoding), _LINES + skip_lines)
    lines = [line for number, line in after if number > skip_lines]
    if not lines:
        raise BadInput(f"{path} is empty: there is no row to look at")
    if not delimiter and looks_like_libsvm(lines):
        return Layout(encoding=encoding, skip_lines=skip_lines), True
    chosen = delimiter or _delimiter(lines)
    rows = _rows(lines, chosen)
    named = _has_header(rows) if header is None else header
    layout = Layout(
        delimiter=chosen,
        decimal_comma=_has_decimal_comma(rows, chosen),
        header=named,
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
                f"{path} is not a text: it holds zero bytes; save the table as CSV, and name that"
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
        raise BadInput(
            f"{path} is a text neither in UTF-8 nor in Windows-1252; save it as CSV in UTF-8"
        )
    return next(iter(decoders))


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
    return not is_missing(cell) and not math.isnan(read_number(text))


def _has_decimal_comma(rows: list[list[str]], delimiter: str) -> bool:
    cells = [cell.strip() for row in rows for cell in row]
    return (
        delimiter != ","
        and any(_WITH_COMMA.fullmatch(cell) for cell in cells)
        and not any(_WITH_POINT.fullmatch(cell) for cell in cells)
    )


# -- what its columns hold ----------------------------------------------------------------------

_MOST_DISTINCT = 100_000
_SAMPLE = 10_001
_MOSTLY = 0.9
_FEW = 10


@dataclass(slots=True)
class Found:
    """What was seen in a column."""

    name: str
    rows: int = 0
    missing: int = 0
    numbers: int = 0
    dates: int = 0
    texts: int = 0
    infinite: int = 0
    whole: bool = True
    low: float = math.inf
    high: float = -math.inf
    words: dict[str, None] = field(default_factory=dict)  # in the order they were met
    overflown: bool = False
    sample: list[float] = field(default_factory=list)

    @property
    def values(self) -> int:
        """How many cells are not missing."""
        return self.rows - self.missing

    @property
    def distinct(self) -> int:
        """How many different cells there are; at least so many if `overflown`."""
        return len(self.words)

    @property
    def kind(self) -> str:
        """What nearly all cells are."""
        if not self.values:
            return "empty"
        if self.dates >= _MOSTLY * self.values:
            return "date"
        strays = self.texts + self.dates
        if not strays or (self.numbers >= _MOSTLY * self.values and self.distinct > _FEW):
            return "number"
        return "text"

    @property
    def is_constant(self) -> bool:
        """Whether there is but one value."""
        return self.distinct <= 1 or (self.kind != "text" and not self.low < self.high)

    @property
    def typical(self) -> float:
        """The median of the first numbers seen."""
        return statistics.median(self.sample)

    def add(self, block: Block, column: int) -> None:
        """Look at the cells of a column."""
        self.rows += len(block.lines)
        if not self.overflown:
            met = dict.fromkeys(block.texts(column))
            present = (cell.strip() for cell in met if cell not in self.words)
            self.words.update(dict.fromkeys(text for text in present if not is_missing(text)))
            self.overflown = len(self.words) > _MOST_DISTINCT
        values = block.numbers(column)
        finite = np.isfinite(values)
        if finite.any():
            self._numbers(values[finite])
        if not finite.all():
            cells = block.texts(column)
            others = [cells[place] for place in np.flatnonzero(~finite).tolist()]
            self._others(others, block.layout)

    def _numbers(self, values: NDArray[np.float64]) -> None:
        self.numbers += len(values)
        self.low, self.high = (
            min(self.low, float(values.min())),
            max(self.high, float(values.max())),
        )
        self.whole = self.whole and bool((values == np.floor(values)).all())
        self.sample += values[: _SAMPLE - len(self.sample)].tolist()

    def _others(self, cells: list[str], layout: Layout) -> None:
        days: list[float] = []
        for cell, count in Counter(cells).items():
            if is_missing(cell):
                self.missing += count
            elif math.isinf(layout.read_number(cell)):
                self.infinite += count
            elif not math.isnan(day := find_date(cell)):
                days += [day] * count
            else:
                self.texts += count
        if days and not self.numbers:
            self.low, self.high = min(self.low, min(days)), max(self.high, max(days))
            self.sample += days[: _SAMPLE - len(self.sample)]
        self.dates += len(days)


def survey(path: Place, layout: Layout) -> list[Found]:
    """Return what is seen in each column; rows of another length are left out."""
    table = open_table(path, layout)
    columns = [Found(name) for name in table.read_names()]
    for block in report_progress(table.read_blocks(len(columns)), path):
        for place, column in enumerate(columns):
            column.add(block, place)
    return columns


def survey_libsvm(path: Path, encoding: str) -> tuple[Found, dict[int, tuple[float, float]]]:
    """Return what the labels are, and the lowest and highest value of each feature."""
    label, limits = Found("label"), dict[int, tuple[float, float]]()
    for block in report_progress(read_libsvm(path, encoding), path):
        good = {}
        for line, words in block:
            try:
                indices, values = read_pairs(words[1:], sys.maxsize)
            except ValueError:
                continue  # set aside when the file is read
            good[line] = words[:1]
            for index, value in zip(indices, values, strict=True):
                low, high = limits.get(index, (math.inf, -math.inf))
                limits[index] = (min(low, value), max(high, value))
        label.add(Block(Layout(), 1, list(good), list(good.values())), 0)
    if not limits:
        raise BadInput(f"{path}: no row has a feature; a row is a label, then index:value pairs")
    return label, limits
