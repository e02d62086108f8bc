"""Looking at a user's file once, so that limits and words can be proposed, and then fixed."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dealfl.jobs.sources.cells import day_of, is_missing
from dealfl.jobs.sources.columns import Cells
from dealfl.jobs.sources.tables import Layout, chunks, names_of
from dealfl.jobs.sources.watching import watched

__all__ = ["Found", "survey"]

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

    def add(self, cells: list[str], written: Cells) -> None:
        """Look at more cells."""
        self.rows += len(cells)
        if not self.overflown:
            met = dict.fromkeys(cells)
            present = (cell.strip() for cell in met if cell not in self.words)
            self.words.update(dict.fromkeys(text for text in present if not is_missing(text)))
            self.overflown = len(self.words) > _MOST_DISTINCT
        values = written.numbers(cells)
        finite = np.isfinite(values)
        if finite.any():
            self._numbers(values[finite])
        if not finite.all():
            self._others([cells[place] for place in np.flatnonzero(~finite).tolist()], written)

    def _numbers(self, values: NDArray[np.float64]) -> None:
        self.numbers += len(values)
        self.low, self.high = (
            min(self.low, float(values.min())),
            max(self.high, float(values.max())),
        )
        self.whole = self.whole and bool((values == np.floor(values)).all())
        self.sample += values[: _SAMPLE - len(self.sample)].tolist()

    def _others(self, cells: list[str], written: Cells) -> None:
        days: list[float] = []
        for cell, count in Counter(cells).items():
            if is_missing(cell):
                self.missing += count
            elif math.isinf(written.number(cell)):
                self.infinite += count
            elif not math.isnan(day := day_of(cell)):
                days += [day] * count
            else:
                self.texts += count
        if days and not self.numbers:
            self.low, self.high = min(self.low, min(days)), max(self.high, max(days))
            self.sample += days[: _SAMPLE - len(self.sample)]
        self.dates += len(days)


def survey(path: Path, layout: Layout, written: Cells) -> list[Found]:
    """Return what is seen in each column; rows of another length are left out."""
    columns = [Found(name) for name in names_of(path, layout)]
    for chunk in watched(chunks(path, layout), path):
        rows = [row for row in chunk.rows if len(row) == len(columns)]
        if rows:
            for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
                column.add(list(cells), written)
    return columns
