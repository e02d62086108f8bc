"""Sources: a user's own data, read row by row; a row that cannot be used is quarantined."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from dealfl.data.dataset import Dataset
from dealfl.data.examples import Examples
from dealfl.data.readers import Block, DelimitedText, Layout, read_number
from dealfl.data.sources.columns import Reader, Wrong, find_moment, is_missing
from dealfl.data.sources.memory import Table, TableData, open_table
from dealfl.errors import BadInput
from dealfl.protocol import plain_name
from dealfl.settings import Document, Labels, Positive, Text, nearest

Part = TypeVar("Part", bound=Sized)

LOG = logging.getLogger("dealfl.jobs")  # without handlers, warnings go to the error output
_KEPT = 1_000  # a file of bad rows must not fill the memory
_REPORT_AFTER_S = 2.0
_REPORT_EVERY_S = 5.0
_OWNER_BITS = 63


# -- rows that are not used ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A row that is not used; `line` counts lines of a file or rows in memory, as `unit` says."""

    line: int
    column: str
    reason: str
    unit: str = "line"

    @property
    def location(self) -> str:
        """Line and column, without the value."""
        return f"{self.unit} {self.line}" + (f", column {self.column!r}" if self.column else "")

    def __str__(self) -> str:
        return f"{self.location}: {self.reason}"


class Quarantine:
    """The rows of a file that are not used; details are kept of the first 1000.

    Examples
    --------
    >>> quarantine = Quarantine("people.csv")
    >>> quarantine.add(Quarantined(7, "age", "'old' is not a number"))
    >>> print(quarantine.describe(rows=100))
    people.csv: 1 of 100 rows cannot be used (1 by column 'age'); the first is line 7, \
column 'age': 'old' is not a number
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._first: list[Quarantined] = []
        self._columns: Counter[str] = Counter()

    def add(self, *rows: Quarantined) -> None:
        """Add rows in the order of the file."""
        for row in rows:
            self._columns[row.column] += 1
            if len(self._first) < _KEPT:
                self._first.append(row)

    def __len__(self) -> int:
        return self._columns.total()

    @property
    def first(self) -> tuple[Quarantined, ...]:
        """The first 1000 rows, in the order of the file."""
        return tuple(self._first)

    @property
    def by_column(self) -> dict[str, int]:
        """Number of rows by the column with the bad value; '' stands for the row as a whole."""
        return dict(self._columns)

    def describe(self, rows: int) -> str:
        """Return how many of all rows cannot be used, which columns cause it, and the first row."""
        if not self._first:
            return f"{self._name}: all {rows:,} rows can be used"
        blamed = ", ".join(
            f"{count:,} by {f'column {column!r}' if column else 'their length'}"
            for column, count in self._columns.most_common(3)
        )
        return (
            f"{self._name}: {len(self):,} of {rows:,} rows cannot be used ({blamed}); "
            f"the first is {self._first[0]}"
        )

    def report(self, rows: int) -> None:
        """Log a warning if some rows cannot be used; raise BadInput if none can."""
        if rows == len(self):
            first = f"; the first is {self._first[0]}" if rows else ""
            raise BadInput(f"{self._name}: none of {rows:,} rows can be used{first}")
        if self:
            LOG.warning("%s", self.describe(rows))


# -- owners -------------------------------------------------------------------------------------


class OwnerNames:
    """Numbers for names; a name has the same number in every file and on every machine.

    Examples
    --------
    >>> names = OwnerNames()
    >>> block = Block(Layout(), 1, [1, 2, 3], ["ann", "bob", " ann"])
    >>> ann, bob, again = names.read(block, 0)[0].tolist()
    >>> ann == again, ann == bob, names[ann]
    (True, False, 'ann')
    """

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}
        self._name_of: dict[int, str] = {}

    def __getitem__(self, number: int) -> str:
        return self._name_of[number]

    def read(self, block: Block, column: int) -> tuple[NDArray[np.int64], Wrong]:
        """Return the number of each name in a column, -1 where it is missing."""
        cells = block.texts(column)
        number_of = {
            cell: -1 if is_missing(cell) else self._number(plain_name(cell)) for cell in set(cells)
        }
        numbers = np.array([number_of[cell] for cell in cells], dtype=np.int64)
        return numbers, dict.fromkeys(np.flatnonzero(numbers < 0).tolist(), "it is missing")

    def _number(self, name: str) -> int:
        if name in self._number_of:
            return self._number_of[name]
        digest = hashlib.sha256(name.encode()).digest()
        number = int.from_bytes(digest[:8], "big") >> (64 - _OWNER_BITS)
        if self._name_of.setdefault(number, name) != name:
            raise BadInput(
                f"owners {name!r} and {self._name_of[number]!r} have the same number; rename one"
            )
        self._number_of[name] = number
        return number


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """The content of a data file; `notes` are sentences about other data that were left out."""

    examples: Examples
    quarantine: Quarantine
    owner_names: OwnerNames | None = None
    notes: tuple[str, ...] = ()

    def owner(self, example: int) -> str:
        """Return the name or the number of the owner; without owners, the index of the example."""
        owners = self.examples.owners
        if owners is None:
            return f"{example}"
        number = int(owners[example])
        return f"{number}" if self.owner_names is None else self.owner_names[number]


# -- good rows ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sifted:
    """Line numbers and values of the usable rows of a block, and the other rows."""

    lines: NDArray[np.int64]
    values: dict[str, NDArray[Any]]
    bad: list[Quarantined]

    def __len__(self) -> int:
        return len(self.lines) + len(self.bad)


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Some rows without targets: line numbers and features of usable rows, and the other rows."""

    lines: list[int]
    features: Any
    bad: list[Quarantined]


def sift(table: Table, readers: Mapping[str, Reader]) -> Iterator[Sifted]:
    """Read some columns of a table, block by block; a row with several bad cells counts once."""
    names = table.read_names()
    indices = {name: names.index(name) for name in readers}
    return (_sift_block(block, readers, indices) for block in table.read_blocks(len(names)))


def _sift_block(block: Block, readers: Mapping[str, Reader], indices: Mapping[str, int]) -> Sifted:
    blamed: dict[int, Quarantined] = {}
    values = {}
    for name, reader in readers.items():
        values[name], wrong = reader(block, indices[name])
        for row, reason in wrong.items():
            blamed.setdefault(row, Quarantined(block.lines[row], name, reason, block.unit))
    lines = np.array(block.lines, dtype=np.int64)
    if blamed:
        good = np.ones(len(lines), dtype=bool)
        good[list(blamed)] = False
        lines = lines[good]
        values = {name: array[good] for name, array in values.items()}
    ragged = [
        Quarantined(line, "", f"{len(cells)} cells, expected {block.width}")
        for line, cells in block.ragged
    ]
    return Sifted(lines, values, sorted([*ragged, *blamed.values()], key=lambda row: row.line))


def read_columns(
    table: Table, readers: Mapping[str, Reader], quarantine: Quarantine, *, part: bool
) -> dict[str, NDArray[Any]]:
    """Return the usable rows of a table by column; quarantine the others, and report them."""
    columns: dict[str, list[NDArray[Any]]] = {name: [] for name in readers}
    rows = 0
    for sifted in report_progress(sift(table, readers), table.name):
        rows += len(sifted)
        quarantine.add(*sifted.bad)
        for name, values in sifted.values.items():
            columns[name].append(values)
    if not part:
        quarantine.report(rows)
    return {name: np.concatenate(columns.pop(name)) for name in readers}


def report_progress(
    parts: Iterator[Part], name: str, clock: Callable[[], float] = time.monotonic
) -> Iterator[Part]:
    """Yield the parts of a file, and log its rows so far: after 2 s, then every 5 s."""
    rows, next_s = 0, clock() + _REPORT_AFTER_S
    for part in parts:
        yield part
        rows += len(part)
        if clock() >= next_s:
            LOG.warning("reading %s: %s rows so far", name, f"{rows:,}")
            next_s = clock() + _REPORT_EVERY_S


def rank(moments: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the rank of each moment: only the order matters.

    Examples
    --------
    >>> rank(np.array([2.5, 1.0, 2.5])).tolist()
    [1, 0, 1]
    """
    return np.unique(moments, return_inverse=True)[1].astype(np.int64)


# -- columns of a file for a model, by their names or by their order ----------------------------


def match_columns(
    path: Path,
    layout: Layout,
    names: Sequence[str],
    *,
    named: bool,
    words: Collection[str] | None = None,
) -> DelimitedText:
    """Return a file as a table with the given names; `named` if a job gave them to its columns.

    `words` are all texts that a cell can hold; a first row without any of them, a number or a date
    is a header. None if a cell can hold any text.
    """
    first = [cell.strip() for cell in DelimitedText(path, layout).read_first()]
    if named and words is not None:
        _require_names(path, layout, first, names, words)
    headed = False
    if layout.header or len(first) == len(names):
        indices, headed = _find_columns(path, first, names, named)
    else:  # columns of a file without a header are named by their position
        numbered = [f"c{number}" for number in range(1, len(first) + 1)]
        indices, _ = _find_columns(path, numbered, names, named)
    name_at = dict(zip(indices, names, strict=True))
    table = DelimitedText(path, replace(layout, header=headed))
    return table.renamed([name_at.get(index, "") for index in range(len(first))])


def _is_value(cell: str, layout: Layout, words: Collection[str]) -> bool:
    """Return whether a cell can be a value, so that its row is no header."""
    read = (layout.read_number, find_moment)
    return cell in words or is_missing(cell) or not all(np.isnan(find(cell)) for find in read)


def _require_names(
    path: Path, layout: Layout, first: list[str], names: Sequence[str], words: Collection[str]
) -> None:
    """Refuse a header of as many other names: it must not be read as a row."""
    if len(first) != len(names) or set(first) & set(names):
        return
    if not any(_is_value(cell, layout, words) for cell in first):
        few = ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")
        raise BadInput(
            f"{path} has no column {few}; its columns are: {', '.join(first)}; rename them, or "
            "leave the header out if they are these columns in this order"
        )


def _find_columns(
    path: Path, first: list[str], names: Sequence[str], named: bool
) -> tuple[list[int], bool]:
    """Return the positions of the columns, and whether the first row is a header."""
    absent = [name for name in names if name not in first]
    if not absent:
        return [first.index(name) for name in names], True
    if named and len(absent) < len(names):
        raise BadInput(f"{path} has no column {absent[0]!r}; its columns are: {', '.join(first)}")
    if len(first) == len(names):
        headed = not named and all(np.isnan(read_number(cell)) for cell in first)
        return list(range(len(names))), headed
    remedy = "name them in the first row" if named else "give the job file with --job"
    few = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    if len(first) == 1:
        raise BadInput(
            f"{path} has one column, {first[0]!r}; {len(names)} are expected ({few}): separate "
            "columns by the character that the job names"
        )
    raise BadInput(
        f"{path} has {len(first)} columns; {len(names)} are expected ({few}): "
        f"give only these, in this order, or {remedy}"
    )


# -- the section [source] -----------------------------------------------------------------------

File = Annotated[
    Text,
    Meta(
        description="path of the data file, relative to the job file or absolute; .gz, .xz, .bz2 "
        "and .zip are unpacked"
    ),
]
Time = Annotated[Text, Meta(description="column of numbers or ISO dates that orders arrival")]
Classes = Annotated[
    tuple[Any, ...],
    Labels(2),
    Meta(description="values the target can take; required for classification only"),
]
TargetBound = Annotated[
    Positive, Meta(description="largest magnitude of the target; required for regression only")
]


class Source(Struct, frozen=True, kw_only=True, tag_field="format"):
    """The user's own data, in one of several formats."""

    file: File

    def with_columns(self, document: Document) -> Source:  # noqa: ARG002
        """Return the source with its columns as the job file declares them."""
        return self

    def check(self, document: Document, data: Any) -> None:  # noqa: ANN401
        """Reject a source that contradicts itself or the data: a file, its content, or memory."""
        raise NotImplementedError

    def describe(self, data: Any) -> Dataset:  # noqa: ANN401
        """Return the properties of the data that learners need; only the name of it is used."""
        raise NotImplementedError

    def read(self, data: Any, *, part: bool = False) -> Reading:  # noqa: ANN401
        """Read the examples; BadInput if no row can be used.

        A part of a file may have no usable row, and its quarantined rows are not logged.
        """
        raise NotImplementedError

    # -- what a model takes: rows in the same format, mostly without targets ----------------------

    @property
    def has_header(self) -> bool:
        """Whether the data name their features."""
        return False

    @property
    def feature_names(self) -> list[str]:
        """Names of the features; none if they are numbered."""
        return []

    def is_format_of(self, path: Path) -> bool:  # noqa: ARG002
        """Return whether a file for a model can be in this format."""
        return True

    def read_rows(self, data: Any) -> Iterator[RowBlock]:  # noqa: ANN401
        """Yield the rows of a file or table; targets are not needed."""
        raise NotImplementedError

    def read_labelled(self, path: Path) -> Reading:
        """Read the examples of a file with targets for a model; owners and times are ignored."""
        return self.read(path)

    def take(self, X: object) -> Any:  # noqa: ANN401 - an array or a csr
        """Return rows in memory as features; BadInput names the first that does not fit."""
        raise NotImplementedError

    def label(self, item: int) -> Any:  # noqa: ANN401
        """Return the name of an item in the data."""
        return item


def require_columns(
    document: Document, data: TableData, layout: Layout, wanted: Mapping[str, str]
) -> None:
    """Reject keys that name columns which the file does not have."""
    try:
        names = open_table(data, layout).read_names()
    except BadInput as error:
        raise document.error("source.file", str(error)) from error
    for key, name in wanted.items():
        if name not in names:
            problem = f"{data.name} has no column {name!r}; {nearest(name, names)}"
            raise document.error(key, problem)


def require_one_target(document: Document, classes: tuple[Any, ...], bound: float) -> None:
    """Reject a source that declares neither classes nor a bound of its target, or both."""
    if bool(classes) == bool(bound):
        given = "both are given" if classes else "neither is given"
        raise document.error(
            "source.target_bound" if classes else "source",
            f"source takes either classes (for classification) or target_bound (for "
            f"regression); {given}",
        )
