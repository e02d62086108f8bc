"""Sifting a table: a chunk's cells by column, without the rows that can not be used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadInput
from dealfl.jobs.sources.cells import is_missing, moment_of
from dealfl.jobs.sources.columns import Cells
from dealfl.jobs.sources.quarantine import Quarantine, Quarantined
from dealfl.jobs.sources.tables import Chunk, Layout, chunks, names_of
from dealfl.jobs.sources.watching import LOG, watched

__all__ = ["Reader", "Sieve", "ranked", "read_moments", "read_texts"]

Reader = Callable[[list[str]], tuple[NDArray[Any], dict[int, str]]]


@dataclass(slots=True)
class Sieve:
    """Reads some columns of a file, each by its own reader, and sets bad rows aside."""

    path: Path
    layout: Layout
    readers: Mapping[str, Reader]
    quarantine: Quarantine
    rows: int = 0

    def parts(self) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield the values of each column, a chunk of the good rows at a time."""
        names = names_of(self.path, self.layout)
        places = {name: names.index(name) for name in self.readers}
        for chunk in watched(chunks(self.path, self.layout), self.path):
            self.rows += len(chunk.rows)
            part = self._part(self._whole(chunk, len(names)), places)
            if part is not None:
                yield part
        if self.rows == len(self.quarantine):
            first = f"; the first is {self.quarantine.first[0]}" if self.rows else ""
            raise BadInput(f"{self.path}: none of {self.rows:,} rows can be used{first}")
        if self.quarantine:
            LOG.warning("%s", self.quarantine.told(self.rows))

    def _whole(self, chunk: Chunk, width: int) -> Chunk:
        kept = Chunk([], [])
        for line, row in zip(chunk.lines, chunk.rows, strict=True):
            if len(row) == width:
                kept.lines.append(line)
                kept.rows.append(row)
            else:
                reason = f"{len(row)} cells, where {width} are expected"
                self.quarantine.add(Quarantined(line, "", reason))
        return kept

    def _part(self, chunk: Chunk, places: Mapping[str, int]) -> dict[str, NDArray[Any]] | None:
        if not chunk.rows:
            return None
        cells = list(zip(*chunk.rows, strict=True))
        blamed: dict[int, Quarantined] = {}
        values = {}
        for name, reader in self.readers.items():
            values[name], wrong = reader(list(cells[places[name]]))
            for row, reason in wrong.items():
                blamed.setdefault(row, Quarantined(chunk.lines[row], name, reason))
        for row in sorted(blamed):
            self.quarantine.add(blamed[row])
        good = np.ones(len(chunk.rows), dtype=bool)
        good[list(blamed)] = False
        return {name: array[good] for name, array in values.items()} if good.any() else None


def read_texts(cells: list[str]) -> tuple[NDArray[Any], dict[int, str]]:
    """Read names: anything but a missing one."""
    absent = {cell for cell in set(cells) if is_missing(cell)}
    wrong = {place: "it is missing" for place, cell in enumerate(cells) if cell in absent}
    return np.array(cells, dtype=object), wrong


def read_moments(written: Cells) -> Reader:
    """Return the reader of times: numbers, or dates and times in ISO 8601."""

    def read(cells: list[str]) -> tuple[NDArray[Any], dict[int, str]]:
        values = written.numbers(cells)
        wrong = {}
        for place in np.flatnonzero(~np.isfinite(values)).tolist():
            values[place] = moment_of(cells[place])
            if np.isnan(values[place]):
                missing = is_missing(cells[place])
                shown = f"{cells[place][:40]!r} is neither a number nor an ISO date"
                wrong[place] = "it is missing" if missing else shown
        return values, wrong

    return read


def ranked(moments: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the place of each moment among all: only their order matters.

    >>> ranked(np.array([2.5, 1.0, 2.5])).tolist()
    [1, 0, 1]
    """
    return np.unique(moments, return_inverse=True)[1].astype(np.int64)
