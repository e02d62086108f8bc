"""The columns of a table that a model takes: by the names of its job, or by their order."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadInput
from dealfl.features import FeatureMap
from dealfl.jobs import Document, Quarantined
from dealfl.jobs.sources.cells import number_of
from dealfl.jobs.sources.columns import Bounded, Cells, Column, read_column
from dealfl.jobs.sources.csv_source import CsvSource
from dealfl.jobs.sources.source import source_of
from dealfl.jobs.sources.tables import Chunk, Layout, chunks
from dealfl.learners import RowLearner
from dealfl.runs.rebuilding import plan_without_data

__all__ = ["Block", "Inputs", "inputs_of", "placed"]

_MOST = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of a table: the features of the good ones, and what is wrong with the others."""

    lines: list[int]
    good: NDArray[np.int64]
    features: NDArray[np.float64]
    wrong: dict[int, Quarantined]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Columns in the order of the features, how their cells are written, and the map after them."""

    columns: tuple[tuple[str, Column], ...]
    named: bool
    layout: Layout = field(default_factory=Layout)
    written: Cells = field(default_factory=Cells)
    mapped: FeatureMap | None = None

    def blocks(self, path: Path) -> Iterator[Block]:
        """Yield the rows of a table, a block at a time."""
        for places, width, chunk in placed(
            path, self.layout, [n for n, _ in self.columns], self.named
        ):
            yield self._block(chunk, places, width)

    def _block(self, chunk: Chunk, places: Sequence[int], width: int) -> Block:
        wrong: dict[int, Quarantined] = {}
        for row, cells in enumerate(chunk.rows):
            if len(cells) != width:
                reason = f"{len(cells)} cells, where {width} are expected"
                wrong[row] = Quarantined(chunk.lines[row], "", reason)
        whole = [row for row in range(len(chunk.rows)) if row not in wrong]
        values = []
        for place, (name, column) in zip(places, self.columns, strict=True):
            read, bad = column.read([chunk.rows[row][place] for row in whole], self.written)
            for at, reason in bad.items():
                wrong.setdefault(whole[at], Quarantined(chunk.lines[whole[at]], name, reason))
            values.append(read)
        kept = np.array([row not in wrong for row in whole], dtype=bool)
        parts = [
            column.features(read[kept])
            for read, (_, column) in zip(values, self.columns, strict=True)
        ]
        features = np.hstack(parts)
        good = np.array(whole, dtype=np.int64)[kept]
        if self.mapped is not None and len(good):
            features = self.mapped.transform(features)
        return Block(chunk.lines, good, features, wrong)


def placed(
    path: Path, layout: Layout, names: Sequence[str], named: bool
) -> Iterator[tuple[list[int], int, Chunk]]:
    """Yield chunks of rows with the places of the columns wanted, and how many cells a row has."""
    rows = chunks(path, dataclasses.replace(layout, header=False))
    head = next(rows, None)
    if head is None:
        raise BadInput(f"{path} is empty: there is no row to predict for")
    first = [cell.strip() for cell in head.rows[0]]
    if layout.header or len(first) == len(names):
        places, headed = _places(path, first, names, named)
    else:  # the columns of a file without names are called by their place
        numbered = [f"c{place}" for place in range(1, len(first) + 1)]
        places, headed = _places(path, numbered, names, named)[0], False
    if headed:
        head = Chunk(head.lines[1:], head.rows[1:])
    for chunk in chain([head], rows):
        if chunk.rows:
            yield places, len(first), chunk


def _places(
    path: Path, first: list[str], names: Sequence[str], named: bool
) -> tuple[list[int], bool]:
    """Return where the columns stand, and whether the first row names them."""
    absent = [name for name in names if name not in first]
    if not absent:
        return [first.index(name) for name in names], True
    if named and len(absent) < len(names):
        raise BadInput(f"{path} has no column {absent[0]!r}; its columns: {', '.join(first)}")
    if len(first) == len(names):
        headed = not named and all(np.isnan(number_of(cell)) for cell in first)
        return list(range(len(names))), headed
    remedy = "name them in the first row" if named else "give the job file by --job to match names"
    raise BadInput(
        f"{path} has {len(first)} columns, where {len(names)} are expected "
        f"({_few(names)}); give those alone and in this order, or {remedy}"
    )


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


def inputs_of(learner: RowLearner, document: Document | None) -> Inputs:
    """Return what a model takes, as its job says; without one, as many numbers as features."""
    if document is None:
        return _numbers([(-_MOST, _MOST)] * learner.n_features, None)
    made = plan_without_data(document)
    if made.learner != learner.name:
        raise BadInput(
            f"{document.name} is for a {made.learner}, and the model is a {learner.name}"
        )
    if "source" in document.tables:
        source = source_of(document)
        if isinstance(source, CsvSource):
            return _from_table(document, source, made.feature_map)
    domain = made.subject.dataset.domain
    assert domain is not None, f"{made.subject.name} has no domain"
    return _numbers(list(zip(domain.low, domain.high, strict=True)), made.feature_map)


def _from_table(document: Document, source: CsvSource, made: FeatureMap | None) -> Inputs:
    columns = tuple((n, read_column(document, n, t)) for n, t in source.columns.items())
    layout = Layout(source.delimiter, source.header, source.skip_lines, source.encoding)
    return Inputs(columns, True, layout, Cells(source.decimal_comma), made)


def _numbers(limits: list[tuple[float, float]], made: FeatureMap | None) -> Inputs:
    columns = tuple(
        (f"c{place}", Bounded(low=low, high=high)) for place, (low, high) in enumerate(limits, 1)
    )
    return Inputs(columns, named=False, mapped=made)
