"""Examining a user's file: its layout, the content of each column, and pixels of images."""

from __future__ import annotations

import codecs
import csv
import math
import re
import statistics
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dealfl.data.readers import (
    Block,
    Encoding,
    Layout,
    looks_like_libsvm,
    open_bytes,
    read_libsvm,
    read_lines,
    read_number,
    read_pairs,
    require_rows,
)
from dealfl.data.sources import (
    Bounded,
    TableData,
    find_date,
    is_missing,
    open_table,
    report_progress,
)
from dealfl.errors import BadInput, argument
from dealfl.settings import toml_value

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
    path: Path, *, delimiter: str, header: bool | None, skip_lines: int
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
    fitting = (delimiter for delimiter in _DELIMITERS if _width(_rows(lines, delimiter)) > 1)
    return next(fitting, "")


def _require_start(path: Path, numbered: list[tuple[int, str]], delimiter: str) -> None:
    """Refuse a file whose first lines are not part of its table, and say how many they are."""
    for index, (number, _) in enumerate(numbered[:_MOST_BEFORE]):
        lines = [line for _, line in numbered[index:]]
        chosen = delimiter or _delimiter(lines)
        rows = _rows(lines, chosen) if chosen else []
        width = _width(rows)
        if width < 2 or len(rows) < min(_FEW_ROWS, len(numbered)):
            continue
        if len(rows[0]) == width:
            if index == 0:
                return
            raise BadInput(
                f"{path}: line {numbered[0][0]} is not part of a table; the rows with {width} "
                f"cells start on line {number}: give {argument('skip_lines', number - 1)}"
            )
        if index == 0 and any(map(_is_value, rows[0])):
            return  # an ordinary row that is too short or too long
        if index == 0 and len(rows[0]) == width - 1:
            raise BadInput(
                f"{path}: the first row names {width - 1} columns, but rows have {width} cells; "
                f"add a name for the first column, or give {argument('header', False)}"
            )


def _has_header(rows: list[list[str]]) -> bool:
    if len(rows) < 2:
        return bool(rows) and not any(_is_value(cell) for cell in rows[0])
    first, rest = rows[0], rows[1:]
    if any(_is_value(cell) for cell in first):
        return False
    columns = [[row[index] for row in rest if index < len(row)] for index in range(len(first))]
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


_MOST_DISTINCT = 100_000
_SAMPLE = 10_001
_FEW = 10
_LONGEST = 40  # characters of dates and numbers
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_OTHER_DATE = re.compile(
    rf"\d{{1,4}}([./-])\d{{1,2}}\1\d{{1,4}}\b.*|.*\b({_MONTHS})[a-z]*\b.*\d.*", re.IGNORECASE
)
_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+\.[a-zA-Z]{2,}")
_FEWEST_PIXELS = 64
_WHITE, _GREY = 255.0, 127.0
_CHANNELS = (1, 3)
_DECORATED = re.compile(r"[^\w\s]?\s?[-+]?\d[\d.,' ]*\s?([^\w\s]|[a-zA-Z]{1,3})?")


@dataclass(slots=True)
class Found:
    """The content of a column."""

    name: str
    rows: int = 0
    missing: int = 0
    numbers: int = 0
    dates: int = 0
    texts: int = 0
    other_dates: int = 0
    decorated: int = 0
    stray: str = ""
    whole: bool = True
    low: float = math.inf
    high: float = -math.inf
    words: dict[str, None] = field(default_factory=dict)
    overflown: bool = False
    sample: list[float] = field(default_factory=list)

    @property
    def values(self) -> int:
        """Number of cells that are not missing."""
        return self.rows - self.missing

    @property
    def distinct(self) -> int:
        """Number of distinct cells; a lower limit of it if `overflown`."""
        return len(self.words)

    @property
    def kind(self) -> str:
        """Kind of nearly all cells: "number", "date", "text" or "empty"."""
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
        """Whether all cells have the same value."""
        return self.distinct <= 1 or (self.kind != "text" and not self.low < self.high)

    @property
    def has_addresses(self) -> bool:
        """Whether nearly all of the first texts are addresses of e-mail."""
        texts = list(islice(self.words, _LINES))
        return sum(map(bool, map(_ADDRESS.fullmatch, texts))) >= max(_MOSTLY * len(texts), 1)

    @property
    def typical(self) -> float:
        """Median of the first numbers."""
        return statistics.median(self.sample)

    def add(self, block: Block, column: int) -> None:
        """Add the cells of a column."""
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
            others = [cells[index] for index in np.flatnonzero(~finite).tolist()]
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
                continue  # neither a number nor a text
            elif not math.isnan(day := find_date(cell)):
                days += [day] * count
            else:
                self._text(cell.strip(), count)
        if days and not self.numbers:
            self.low, self.high = min(self.low, min(days)), max(self.high, max(days))
            self.sample += days[: _SAMPLE - len(self.sample)]
        self.dates += len(days)

    def _text(self, cell: str, count: int) -> None:
        self.texts += count
        self.stray = self.stray or cell[:_LONGEST]
        if len(cell) <= _LONGEST:
            self.other_dates += count if _OTHER_DATE.fullmatch(cell) else 0
            self.decorated += count if _DECORATED.fullmatch(cell) else 0

    def mostly(self, count: int) -> bool:
        """Return whether a count covers nearly all cells."""
        return count > 0 and count >= _MOSTLY * self.values


def survey(data: TableData, layout: Layout) -> list[Found]:
    """Return the content of each column; rows of another length are left out."""
    table = open_table(data, layout)
    columns = [Found(name) for name in table.read_names()]
    for block in report_progress(table.read_blocks(len(columns)), data.name):
        for index, column in enumerate(columns):
            column.add(block, index)
    return columns


def survey_libsvm(path: Path, encoding: str) -> tuple[Found, dict[int, tuple[float, float]]]:
    """Return the content of the labels, and the lowest and highest value of each feature."""
    label, limits = Found("label"), dict[int, tuple[float, float]]()
    for block in report_progress(read_libsvm(path, encoding), path.name):
        good = {}
        for line, words in block:
            try:
                indices, values = read_pairs(words[1:], sys.maxsize)
            except ValueError:
                continue  # quarantined when the file is read
            good[line] = words[:1]
            for index, value in zip(indices, values, strict=True):
                low, high = limits.get(index, (math.inf, -math.inf))
                limits[index] = (min(low, value), max(high, value))
        label.add(Block(Layout(), 1, list(good), list(good.values())), 0)
    if not limits:
        raise BadInput(f"{path}: no row has a feature; a row must be a label and index:value pairs")
    return label, limits


# -- images -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Image:
    """The columns of an image, and how many channels, rows and columns of pixels it has."""

    names: tuple[str, ...]
    shape: tuple[int, int, int]

    def features(self) -> dict[str, Bounded]:
        """Return the pixels, from 0 to 255 also where the file does not go so far."""
        return {name: Bounded(low=0.0, high=_WHITE) for name in self.names}

    def draft(self, replaces: bool) -> list[str]:
        """Return a section [features] as a comment; `replaces` if there is one already."""
        channels, height, width = self.shape
        instead = "instead of the section above, " if replaces else ""
        return [
            f"# The {len(self.names)} columns look like the pixels of images, {height} x {width}"
            + (f", {channels} channels in sequence." if channels > 1 else "."),
            "# Seeded filters often give better features than raw pixels. To use them,",
            f"# {instead}remove the # from these lines:",
            "# [features]",
            '# map = "patches"',
            f"# image = {toml_value(list(self.shape))}    # channels, height, width",
            "# filters = 64",
            "",
        ]


def find_image(columns: Sequence[Found], features: Collection[str]) -> Image | None:
    """Return the image that the features of a table are the pixels of; None if they are not.

    Pixels are at least 64 columns of whole numbers in 0 .. 255 that form one or three squares;
    those that are equal in every row belong to them, too.
    """
    pixels = [column for column in columns if _is_pixel(column)]
    kept = [column for column in pixels if column.name in features or not column.low < column.high]
    shape = _square(len(kept))
    if shape is None or len(kept) < _FEWEST_PIXELS or max(pixel.high for pixel in kept) <= _GREY:
        return None
    names = tuple(column.name for column in kept)
    return Image(names, shape) if set(features) <= set(names) else None


def _is_pixel(column: Found) -> bool:
    inside = column.low >= 0.0 and column.high <= _WHITE
    return column.kind == "number" and column.whole and not column.missing and inside


def _square(pixels: int) -> tuple[int, int, int] | None:
    for channels in _CHANNELS:
        side = math.isqrt(pixels // channels)
        if channels * side * side == pixels:
            return channels, side, side
    return None
