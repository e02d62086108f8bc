"""From rows of data to a worker's records: the owner and the encoded body of each."""

from __future__ import annotations

import csv
import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from dealfl.data.readers import Content, Layout
from dealfl.data.sources import Reading, open_table
from dealfl.jobs.job import read_source
from dealfl.jobs.plan import Plan
from dealfl.learners import Histories, Learner, RowLearner
from dealfl.settings import Document

Indices = NDArray[np.int64]

_BLOCK_VALUES = 1 << 16  # features that are encoded at once


@dataclass(frozen=True, slots=True, eq=False)
class RowRecords:
    """Records of rows, as the integers of a learner; each is packed when it is taken."""

    learner: RowLearner
    reading: Reading
    X: Any
    rows: Indices
    owner: str

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: slice) -> RowRecords:
        return dataclasses.replace(self, rows=self.rows[part])

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        targets, name = self.reading.examples.targets, self.reading.owner
        assert targets is not None
        step = max(1, _BLOCK_VALUES // self.X.shape[1])
        for first in range(0, len(self), step):
            rows = self.rows[first : first + step]
            bodies = self.learner.pack_rows(self.X[rows], targets[rows])
            for row, body in zip(rows.tolist(), bodies, strict=True):
                yield self.owner or name(row), body


Records = RowRecords | list[tuple[str, bytes]]


def records_of(
    learner: Learner,
    reading: Reading,
    X: Any,  # noqa: ANN401 - an array or a csr
    rows: Indices,
    owner: str = "",
) -> Records:
    """Return the records of some examples, in the order of their times, else as given.

    A row is a record, and so is each item of a history; '' gives every row an owner of its own.
    """
    examples = reading.examples
    if examples.targets is None:
        return _interactions(reading, rows)
    if examples.times is not None:
        rows = rows[np.argsort(examples.times[rows], kind="stable")]
    assert isinstance(learner, RowLearner)
    return RowRecords(learner, reading, X, rows, owner if examples.owners is None else "")


def _interactions(reading: Reading, indices: Indices) -> list[tuple[str, bytes]]:
    examples, named = reading.examples, reading.owner_names is not None
    rows = indices.tolist()
    meetings = [(moment, row, item) for row in rows for moment, item in examples.meetings(row)]
    if examples.times is not None:
        meetings.sort()
    owners = {row: reading.owner(row) if named else f"{row}" for row in rows}
    return [(owners[row], Histories.encode(item)) for _, row, item in meetings]


# -- files that grow ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a file: where the rows begin, in bytes, and the row of names before them."""

    size: int = 0
    names: bytes = b""


@dataclass(frozen=True, slots=True)
class Part:
    """The content of some rows of a file."""

    records: list[tuple[str, bytes]]
    bad: Counter[str]


class GrowingSource:
    """Reads growing files row by row, in the format of a job's [source]."""

    def __init__(self, document: Document, plan: Plan) -> None:
        if "source" not in document.tables:
            raise document.error(
                "job",
                "the job has no [source], which describes the data of a worker; "
                "`dealfl job init FILE` writes it",
            )
        self._document = document
        self._plan = plan
        self._learner = plan.make()
        source: Any = read_source(document)
        self._layout: Layout | None = getattr(source, "layout", None)  # LIBSVM has none
        if (self._layout or source).encoding == "utf-16":
            raise document.error(
                "source.encoding",
                "source.encoding is 'utf-16'; files that grow must be utf-8 or windows-1252",
            )
        self._whole = self._rows = source
        if self._layout is not None:
            self._whole = replace(source, layout=replace(self._layout, skip_lines=0))
            # every part of a file gets the row of names
            self._rows = replace(source, layout=replace(self._layout, skip_lines=0, header=True))

    def read_head(self, name: str, data: bytes) -> Head | None:
        """Read the header of a file."""
        layout = self._layout
        if layout is None:
            return Head()
        *skipped, rest = data.split(b"\n", layout.skip_lines)
        start = len(data) - len(rest)
        first = next((row for row in self.split_rows(rest) if row.strip()), None)
        if len(skipped) < layout.skip_lines or first is None:
            return None
        self._whole.check(self._document, Content(name, first))
        if layout.header:
            return Head(start + rest.index(first) + len(first), first)
        names = open_table(Content(name, first), self._whole.layout).read_names()
        return Head(start, f"{layout.delimiter.join(names)}\n".encode(layout.encoding))

    def split_rows(self, data: bytes) -> list[bytes]:
        """Return the complete rows at the beginning of some bytes."""
        lines = [line + b"\n" for line in data.split(b"\n")[:-1]]
        layout = self._layout
        if layout is None or b'"' not in data:
            return lines
        texts = [line.decode(layout.encoding, "replace").replace("\r", " ") for line in lines]
        rows: list[bytes] = []
        done = 0
        while True:
            # an open quotation mark swallows the line at the end
            text = chain(texts[done:], ["\n"])
            reader = csv.reader(text, delimiter=layout.delimiter, skipinitialspace=True)
            begin = done
            try:
                for _ in reader:
                    end = begin + reader.line_num
                    if end > len(lines):
                        return rows
                    rows.append(b"".join(lines[done:end]))
                    done = end
            except csv.Error:  # a cell of more than 128 KiB
                rows.append(lines[done])
                done += 1

    def read(self, name: str, head: Head, rows: Sequence[bytes], owner: str) -> Part:
        """Read some rows of a file."""
        rows = [row for row in rows if row.strip()]
        closed = [row for row in rows if row.count(b'"') % 2 == 0 or self.split_rows(row)]
        part = self._read(name, head, closed, owner)
        part.bad[""] += len(rows) - len(closed)
        return Part(part.records, +part.bad)

    def _read(self, name: str, head: Head, rows: Sequence[bytes], owner: str) -> Part:
        if not rows:
            return Part([], Counter())
        try:
            reading = self._rows.read(Content(name, head.names + b"".join(rows)), part=True)
        except ValueError:  # bytes that are no text, or no row: find them
            if len(rows) == 1:
                return Part([], Counter({"": 1}))
            middle = len(rows) // 2
            sides = (rows[:middle], rows[middle:])
            left, right = (self._read(name, head, side, owner) for side in sides)
            return Part(left.records + right.records, left.bad + right.bad)
        bad, count = Counter(reading.quarantine.by_column), len(reading.examples)
        if not count:
            return Part([], bad)
        X = self._plan.map(reading.examples.features)
        return Part(list(records_of(self._learner, reading, X, np.arange(count), owner)), bad)
