"""The columns of a user's file: their valid cells, which the job file fixes before training."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from dealfl.data.readers import Block
from dealfl.settings import Document, Labels, Text, read_value

Floats = NDArray[np.float64]
Wrong = dict[int, str]  # reason by row
Reader = Callable[[Block, int], tuple[NDArray[Any], Wrong]]
"""Reads a column of a block: a value for each row, and the reasons of bad rows."""

_MISSING = ("", "?", "na", "n/a", "nan", "null", "none")
_LIKE_A_DATE = re.compile(r"\d{4}-?\d{2}-?\d{2}")
_WITH_POINTS = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(?!\d)")  # day, month, year
_DAY_S = 86_400.0


# -- cells --------------------------------------------------------------------------------------


def is_missing(cell: str) -> bool:
    """Return whether a cell denotes a missing value.

    Examples
    --------
    >>> [is_missing(cell) for cell in ("NA", " ", "0", "nan")]
    [True, True, False, True]
    """
    return cell.strip().lower() in _MISSING


def find_moment(cell: str) -> float:
    """Return a date, or date and time, as seconds since 1970; nan for other text.

    A date is in ISO 8601, or has points between day, month and year: "2.1.1970".

    Examples
    --------
    >>> find_moment("1970-01-02"), find_moment("1970-01-01 00:01:00Z"), find_moment("12")
    (86400.0, 60.0, nan)
    >>> find_moment("02.01.1970"), find_moment("2.1.1970 00:01")
    (86400.0, 86460.0)
    """
    text = cell.strip()
    if pointed := _WITH_POINTS.match(text):
        day, month, year = pointed.groups()
        text = f"{year}-{month:0>2}-{day:0>2}{text[pointed.end() :]}"
    if not _LIKE_A_DATE.match(text):
        return math.nan
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return math.nan
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def find_date(cell: str) -> float:
    """Return a date, or date and time, as days since 1970.

    Examples
    --------
    >>> find_date("1970-01-02T12:00")
    1.5
    """
    return find_moment(cell) / _DAY_S


def read_moments(block: Block, column: int) -> tuple[Floats, Wrong]:
    """Read times: numbers, or dates and times in ISO 8601."""
    values = block.numbers(column)
    wrong: Wrong = {}
    unread = np.flatnonzero(~np.isfinite(values)).tolist()
    cells = block.texts(column) if unread else []
    for row in unread:
        values[row] = find_moment(cells[row])
        if np.isnan(values[row]):
            shown = f"{cells[row][:40]!r} is neither a number nor an ISO date"
            wrong[row] = "it is missing" if is_missing(cells[row]) else shown
    return values, wrong


# -- features -----------------------------------------------------------------------------------


class Bounded(Struct, frozen=True, kw_only=True):
    """A number, or a date as days since 1970, between fixed limits."""

    low: Annotated[float, Meta(description="lowest value; rows below it are quarantined")]
    high: Annotated[float, Meta(description="highest value; rows above it are quarantined")]
    date: Annotated[
        bool, Meta(description="cells are dates (2015-10-03, 3.10.2015), read as days since 1970")
    ] = False
    missing: Annotated[
        float | Text, Meta(description='value of an empty cell: a number, or "quarantine"')
    ] = "quarantine"

    @property
    def limits(self) -> tuple[tuple[float, float], ...]:
        """Lowest and highest value of its one feature."""
        return ((self.low, self.high),)

    def read(self, block: Block, column: int) -> tuple[Floats, Wrong]:
        """Return the numbers of a column."""
        values = self._values(block, column)
        wrong: Wrong = {}
        outside = np.flatnonzero(~((values >= self.low) & (values <= self.high))).tolist()
        cells = block.texts(column) if outside else []
        for row in outside:
            if is_missing(cells[row]) and self.missing != "quarantine":
                values[row] = float(self.missing)
            else:
                wrong[row] = self._reason(cells[row], float(values[row]))
        return values, wrong

    def _values(self, block: Block, column: int) -> Floats:
        if self.date:
            return np.array([find_date(cell) for cell in block.texts(column)], dtype=np.float64)
        return block.numbers(column)

    def _reason(self, cell: str, value: float) -> str:
        if is_missing(cell):
            return "it is missing"
        if np.isnan(value):
            return f"{cell[:40]!r} is not {'an ISO date' if self.date else 'a number'}"
        return f"{cell[:40]!r} is outside {self.low:g} … {self.high:g}"

    def features(self, values: Floats) -> Floats:
        """Return the numbers as one feature."""
        return values[:, np.newaxis]


class WordColumn(Struct, frozen=True, kw_only=True):
    """A word of a fixed vocabulary: a feature for each word, 1 where it occurs and 0 elsewhere."""

    words: Annotated[
        tuple[Any, ...],
        Labels(2),
        Meta(description="vocabulary, one feature per word; rows with others are quarantined"),
    ]
    missing: Annotated[
        Text, Meta(description='value of an empty cell: one of the words, or "quarantine"')
    ] = "quarantine"

    @property
    def limits(self) -> tuple[tuple[float, float], ...]:
        """0 and 1 for each word."""
        return ((0.0, 1.0),) * len(self.words)

    def read(self, block: Block, column: int) -> tuple[Floats, Wrong]:
        """Return the index of each word in the vocabulary."""
        filled = None if self.missing == "quarantine" else self.missing
        return Vocabulary(self.words, filled).read(block, column)

    def features(self, values: Floats) -> Floats:
        """Return one feature for each word of the vocabulary."""
        return np.eye(len(self.words))[values.astype(np.int64)]


Column = Bounded | WordColumn
"""A column of a user's file: its valid cells, and the features that they give."""


class Vocabulary:
    """Strings or numbers, by their index in a fixed list.

    Examples
    --------
    >>> from dealfl.data.readers import Layout
    >>> Vocabulary(("no", "yes")).read(Block(Layout(), 1, [1, 2], ["yes", "maybe"]), 0)
    (array([ 1., -1.]), {1: "'maybe' is none of: no, yes"})
    """

    def __init__(self, words: tuple[Any, ...], filled: str | None = None) -> None:
        self._words, self._filled = words, filled
        self._index_of = {word: float(index) for index, word in enumerate(words)}

    def read(self, block: Block, column: int) -> tuple[Floats, Wrong]:
        """Return the index of each cell's word, and the reasons of bad rows."""
        cells = block.texts(column)
        texts = isinstance(self._words[0], str)
        key: Callable[[str], Any] = str.strip if texts else block.layout.read_number
        index_of = {cell: self._index_of.get(key(cell), -1.0) for cell in set(cells)}
        indices = np.array([index_of[cell] for cell in cells], dtype=np.float64)
        wrong: Wrong = {}
        for row in np.flatnonzero(indices < 0).tolist():
            if is_missing(cells[row]) and self._filled is not None:
                indices[row] = self._index_of[self._filled]
            else:
                wrong[row] = self._reason(cells[row])
        return indices, wrong

    def _reason(self, cell: str) -> str:
        if is_missing(cell):
            return "it is missing"
        words = ", ".join(map(str, self._words[:8])) + (", …" if len(self._words) > 8 else "")
        return f"{cell.strip()[:40]!r} is none of: {words}"


def read_column(document: Document, name: str, table: object) -> Column:
    """Return the column that a table of [source.columns] describes."""
    key = f"source.columns.{name}"
    if isinstance(table, dict) and not {"low", "high", "date"} & set(table):
        words: WordColumn = read_value(document, WordColumn, key, table)
        if words.missing not in ("quarantine", *words.words):
            given = f"{key}.missing is {words.missing!r}"
            raise document.error(key, f'{given}; it takes one of the words, or "quarantine"')
        return words
    column: Bounded = read_value(document, Bounded, key, table)
    if not column.low < column.high:
        raise document.error(
            key, f"{key}: low is {column.low:g}; it must be below high, {column.high:g}"
        )
    fill = column.missing
    if fill != "quarantine" and not (isinstance(fill, float) and column.low <= fill <= column.high):
        raise document.error(
            key,
            f"{key}.missing is {fill!r}; it takes a number from {column.low:g} to "
            f'{column.high:g}, or "quarantine"',
        )
    return column
