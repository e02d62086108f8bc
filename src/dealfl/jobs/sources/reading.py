"""Reading a user's file: bad rows are quarantined, owners are numbered, progress is logged."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dealfl.datasets import Examples
from dealfl.datasets.readers import Block, Layout
from dealfl.errors import BadInput
from dealfl.jobs.sources.columns import Reader, Wrong, is_missing
from dealfl.jobs.sources.memory import Place, open_table

__all__ = [
    "OwnerNames", "Quarantine", "Quarantined", "Reading", "Sifted", "rank", "read_columns",
    "report_progress", "sift",
]  # fmt: skip

Part = TypeVar("Part", bound=Sized)

_LOG = logging.getLogger("dealfl.jobs")  # without handlers, warnings go to the error output
_REPORT_AFTER_S = 2.0
_REPORT_EVERY_S = 5.0
_KEPT = 1_000  # a file of bad rows must not fill the memory
_OWNER_BITS = 63


# -- bad rows -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A row that is not used.

    Attributes
    ----------
    line
        Number of the line on which the row ends, or of the row.
    column
        Column with the bad value; '' for the row as a whole.
    reason
        What is wrong with the value.
    unit
        What `line` counts: "line" in a file, "row" in memory.
    """

    line: int
    column: str
    reason: str
    unit: str = "line"

    def __str__(self) -> str:
        where = f", column {self.column!r}" if self.column else ""
        return f"{self.unit} {self.line}{where}: {self.reason}"


class Quarantine:
    """The rows of a file that are not used; details are kept of the first 1000.

    Parameters
    ----------
    name
        Name of the file in messages.

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

    def add(self, row: Quarantined) -> None:
        """Add a row.

        Parameters
        ----------
        row
            The row and the reason.
        """
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
        """Return a sentence for the user.

        Parameters
        ----------
        rows
            Number of rows in the file.

        Returns
        -------
        str
            Number of unusable rows, the columns that cause them, and the first such row.
        """
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
        """Log a warning if some rows cannot be used.

        Parameters
        ----------
        rows
            Number of rows in the file.

        Raises
        ------
        BadInput
            If no row can be used.
        """
        if rows == len(self):
            first = f"; the first is {self._first[0]}" if rows else ""
            raise BadInput(f"{self._name}: none of {rows:,} rows can be used{first}")
        if self:
            _LOG.warning("%s", self.describe(rows))


# -- owners -------------------------------------------------------------------------------------


class OwnerNames:
    """Numbers for names; a name has the same number in every file and on every machine.

    Examples
    --------
    >>> from dealfl.datasets.readers import Layout
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
        """Return the number of each name in a column.

        Parameters
        ----------
        block
            Rows of the table.
        column
            Place of the column, ≥ 0.

        Returns
        -------
        numbers : array
            One number for each row; -1 where the name is missing.
        wrong : dict
            Reason by row, for rows without a name.

        Raises
        ------
        BadInput
            If two names have the same number.
        """
        cells = block.texts(column)
        known = {
            cell: -1 if is_missing(cell) else self._number(cell.strip()) for cell in set(cells)
        }
        numbers = np.array([known[cell] for cell in cells], dtype=np.int64)
        return numbers, dict.fromkeys(np.flatnonzero(numbers < 0).tolist(), "it is missing")

    def _number(self, name: str) -> int:
        known = self._number_of.get(name)
        if known is not None:
            return known
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
    """The content of a data file.

    Attributes
    ----------
    examples
        The examples.
    quarantine
        The rows that cannot be used.
    owner_names
        Names of the owners; None if the data do not name them.
    notes
        Sentences about other data that were left out.
    """

    examples: Examples
    quarantine: Quarantine
    owner_names: OwnerNames | None = None
    notes: tuple[str, ...] = ()

    def owner(self, example: int) -> str:
        """Return the owner of an example.

        Parameters
        ----------
        example
            Place of the example, ≥ 0.

        Returns
        -------
        str
            Name of the owner, or its number if it has no name; without owners, the place itself.
        """
        owners = self.examples.owners
        if owners is None:
            return f"{example}"
        number = int(owners[example])
        return f"{number}" if self.owner_names is None else self.owner_names[number]


# -- good rows ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sifted:
    """The usable rows of a block, by column, and the other rows.

    Attributes
    ----------
    lines
        Line number of each usable row.
    values
        Values of the usable rows, by column.
    bad
        The other rows, in the order of the file.
    """

    lines: NDArray[np.int64]
    values: dict[str, NDArray[Any]]
    bad: list[Quarantined]


def sift(block: Block, readers: Mapping[str, Reader], places: Mapping[str, int]) -> Sifted:
    """Read some columns of a block, and separate the rows that cannot be used.

    Parameters
    ----------
    block
        Rows of the table.
    readers
        Reader of each column, by name.
    places
        Place of each column, by name.

    Returns
    -------
    Sifted
        Usable rows and other rows. A row with several bad cells is reported once.
    """
    blamed: dict[int, Quarantined] = {}
    values = {}
    for name, reader in readers.items():
        values[name], wrong = reader(block, places[name])
        for row, reason in wrong.items():
            blamed.setdefault(row, Quarantined(block.lines[row], name, reason, block.unit))
    lines = np.array(block.lines, dtype=np.int64)
    if blamed:
        good = np.ones(len(lines), dtype=bool)
        good[list(blamed)] = False
        lines, values = lines[good], {name: array[good] for name, array in values.items()}
    ragged = [
        Quarantined(line, "", f"{len(cells)} cells, expected {block.width}")
        for line, cells in block.ragged
    ]
    return Sifted(lines, values, sorted([*ragged, *blamed.values()], key=lambda one: one.line))


def read_columns(
    path: Place,
    layout: Layout,
    readers: Mapping[str, Reader],
    quarantine: Quarantine,
    *,
    part: bool,
) -> dict[str, NDArray[Any]]:
    """Return the usable rows of a file by column; quarantine the others, and report them."""
    table = open_table(path, layout)
    names = table.read_names()
    places = {name: names.index(name) for name in readers}
    found: dict[str, list[NDArray[Any]]] = {name: [] for name in readers}
    rows = 0
    for block in report_progress(table.read_blocks(len(names)), path):
        rows += len(block)
        sifted = sift(block, readers, places)
        for one in sifted.bad:
            quarantine.add(one)
        for name, values in sifted.values.items():
            found[name].append(values)
    if not part:
        quarantine.report(rows)
    return {name: np.concatenate(found.pop(name)) for name in readers}


def report_progress(
    parts: Iterator[Part], path: Place, clock: Callable[[], float] = time.monotonic
) -> Iterator[Part]:
    """Yield the parts of a file, and log the number of rows while a large file is read.

    Parameters
    ----------
    parts
        Blocks of rows.
    path
        The file or table, for its name.
    clock
        Returns the time in seconds; tests replace it.

    Yields
    ------
    Part
        Each part, unchanged. The first log message appears after 2 s, the next every 5 s.
    """
    rows, next_s = 0, clock() + _REPORT_AFTER_S
    for part in parts:
        yield part
        rows += len(part)
        if clock() >= next_s:
            _LOG.warning("reading %s: %s rows so far", path.name, f"{rows:,}")
            next_s = clock() + _REPORT_EVERY_S


def rank(moments: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the rank of each moment: only the order matters.

    Examples
    --------
    >>> rank(np.array([2.5, 1.0, 2.5])).tolist()
    [1, 0, 1]
    """
    return np.unique(moments, return_inverse=True)[1].astype(np.int64)
