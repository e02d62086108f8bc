"""The columns of a user's file that are features, as the job file fixes them before training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from dealfl.jobs.sources.cells import day_of, is_missing, number_of
from dealfl.settings import Document, Labels, Text, read_value

__all__ = ["Bounded", "Cells", "Column", "Vocabulary", "WordColumn", "read_column"]

Floats = NDArray[np.float64]
Wrong = dict[int, str]  # what is wrong with which of the cells


@dataclass(frozen=True, slots=True)
class Cells:
    """How the numbers of a file are written."""

    decimal_comma: bool = False

    def number(self, cell: str) -> float:
        """Return the number in a cell; nan if there is none."""
        return number_of(cell.replace(".", "").replace(",", ".") if self.decimal_comma else cell)

    def numbers(self, cells: list[str]) -> Floats:
        """Return the number in each cell."""
        try:
            if not self.decimal_comma and "_" not in "".join(cells):
                return np.array(list(map(float, cells)), dtype=np.float64)
        except ValueError:
            pass  # some cell is no number: look at each that differs
        known = {cell: self.number(cell) for cell in set(cells)}
        return np.array([known[cell] for cell in cells], dtype=np.float64)


class Column(Protocol):
    """A column that gives one feature, or one for each of its words."""

    @property
    def limits(self) -> tuple[tuple[float, float], ...]:
        """The lowest and the highest value of each feature."""

    def read(self, cells: list[str], written: Cells) -> tuple[Floats, Wrong]:
        """Return a value for each cell, and what is wrong with some."""

    def features(self, values: Floats) -> Floats:
        """Return the features, one row for each value."""


class Bounded(Struct, frozen=True, kw_only=True):
    """A number, or a date as days since 1970, between fixed limits."""

    low: Annotated[float, Meta(description="lowest value; rows below it are quarantined")]
    high: Annotated[float, Meta(description="highest value; rows above it are quarantined")]
    date: Annotated[bool, Meta(description="cells are ISO dates, read as days since 1970")] = False
    missing: Annotated[
        float | Text, Meta(description='value of an empty cell: a number, or "quarantine"')
    ] = "quarantine"

    @property
    def limits(self) -> tuple[tuple[float, float], ...]:
        """The one pair of limits."""
        return ((self.low, self.high),)

    def read(self, cells: list[str], written: Cells) -> tuple[Floats, Wrong]:
        """Return the numbers; what is missing is filled if the job says so."""
        values = np.array([day_of(cell) for cell in cells]) if self.date else written.numbers(cells)
        wrong: Wrong = {}
        for place in np.flatnonzero(~((values >= self.low) & (values <= self.high))).tolist():
            if is_missing(cells[place]) and self.missing != "quarantine":
                values[place] = float(self.missing)
            else:
                wrong[place] = self._reason(cells[place], float(values[place]))
        return values, wrong

    def _reason(self, cell: str, value: float) -> str:
        if is_missing(cell):
            return "it is missing"
        if np.isnan(value):
            return f"{cell[:40]!r} is not {'an ISO date' if self.date else 'a number'}"
        return f"{cell[:40]!r} is outside {self.low:g} … {self.high:g}"

    def features(self, values: Floats) -> Floats:
        """Return one column."""
        return values[:, np.newaxis]


class WordColumn(Struct, frozen=True, kw_only=True):
    """A word of a fixed vocabulary: a feature for each word, 1 where it occurs and 0 elsewhere."""

    words: Annotated[
        tuple[Any, ...],
        Labels(2),
        Meta(description="vocabulary, one feature for each word; rows with others are quarantined"),
    ]
    missing: Annotated[
        Text, Meta(description='value of an empty cell: one of the words, or "quarantine"')
    ] = "quarantine"

    @property
    def limits(self) -> tuple[tuple[float, float], ...]:
        """From 0 to 1 for each word."""
        return ((0.0, 1.0),) * len(self.words)

    def read(self, cells: list[str], written: Cells) -> tuple[Floats, Wrong]:
        """Return the place of each word in the vocabulary."""
        filled = None if self.missing == "quarantine" else self.missing
        return Vocabulary(self.words, filled).read(cells, written)

    def features(self, values: Floats) -> Floats:
        """Return one column for each word."""
        return np.eye(len(self.words))[values.astype(np.int64)]


class Vocabulary:
    """Texts or numbers, by their place in a fixed list.

    >>> Vocabulary(("no", "yes")).read(["yes", "maybe"], Cells())
    (array([ 1., -1.]), {1: "'maybe' is none of: no, yes"})
    """

    def __init__(self, words: tuple[Any, ...], filled: str | None = None) -> None:
        self._words, self._filled = words, filled
        self._places = {word: float(place) for place, word in enumerate(words)}

    def read(self, cells: list[str], written: Cells) -> tuple[Floats, Wrong]:
        """Return the place of each cell's word, and what is wrong with some."""
        texts = isinstance(self._words[0], str)
        key: Callable[[str], Any] = str.strip if texts else written.number
        known = {cell: self._places.get(key(cell), -1.0) for cell in set(cells)}
        places = np.array([known[cell] for cell in cells], dtype=np.float64)
        wrong: Wrong = {}
        for place in np.flatnonzero(places < 0).tolist():
            if is_missing(cells[place]) and self._filled is not None:
                places[place] = self._places[self._filled]
            else:
                wrong[place] = self._reason(cells[place])
        return places, wrong

    def _reason(self, cell: str) -> str:
        if is_missing(cell):
            return "it is missing"
        known = ", ".join(map(str, self._words[:8])) + (", …" if len(self._words) > 8 else "")
        return f"{cell.strip()[:40]!r} is none of: {known}"


def read_column(document: Document, name: str, table: object) -> Bounded | WordColumn:
    """Return the column that a table of [source.columns] describes."""
    key = f"source.columns.{name}"
    if isinstance(table, dict) and not {"low", "high", "date"} & set(table):
        return _checked_words(document, key, read_value(document, WordColumn, key, table))
    column: Bounded = read_value(document, Bounded, key, table)
    if not column.low < column.high:
        raise document.error(
            key, f"{key}: low is {column.low:g} and high is {column.high:g}; low must be below high"
        )
    fill = column.missing
    if fill != "quarantine" and not (isinstance(fill, float) and column.low <= fill <= column.high):
        raise document.error(
            key,
            f"{key}.missing is {fill!r}; it takes a number from {column.low:g} to "
            f'{column.high:g}, or "quarantine"',
        )
    return column


def _checked_words(document: Document, key: str, column: WordColumn) -> WordColumn:
    if column.missing != "quarantine" and column.missing not in column.words:
        raise document.error(
            key, f'{key}.missing is {column.missing!r}; it takes one of the words, or "quarantine"'
        )
    return column
