"""Reading a user's file: usable rows by column, owners as numbers, progress in the log."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dealfl.data import Examples
from dealfl.data.readers import Block, Layout
from dealfl.data.sources.columns import Reader, Wrong, is_missing
from dealfl.data.sources.memory import Place, open_table
from dealfl.data.sources.quarantine import LOG, Quarantine, Quarantined
from dealfl.errors import BadInput
from dealfl.protocol import plain_name

__all__ = ["OwnerNames", "Reading", "Sifted", "rank", "read_columns", "report_progress", "sift"]

Part = TypeVar("Part", bound=Sized)

_REPORT_AFTER_S = 2.0
_REPORT_EVERY_S = 5.0
_OWNER_BITS = 63


# -- owners -------------------------------------------------------------------------------------


class OwnerNames:
    """Numbers for names; a name has the same number in every file and on every machine.

    Examples
    --------
    >>> from dealfl.data.readers import Layout
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
        block, column
            Rows of the table, and place of the column, ≥ 0.

        Returns
        -------
        numbers : array
            One number for each row; -1 where the name is missing.
        wrong : dict
            Reason by row, for rows without a name.
        """
        cells = block.texts(column)
        known = {
            cell: -1 if is_missing(cell) else self._number(plain_name(cell)) for cell in set(cells)
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
        """Return the name or the number of the owner; without owners, the place of the example.

        Parameters
        ----------
        example
            Place of the example, ≥ 0.

        Returns
        -------
        str
            The owner.
        """
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
            LOG.warning("reading %s: %s rows so far", path.name, f"{rows:,}")
            next_s = clock() + _REPORT_EVERY_S


def rank(moments: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the rank of each moment: only the order matters.

    Examples
    --------
    >>> rank(np.array([2.5, 1.0, 2.5])).tolist()
    [1, 0, 1]
    """
    return np.unique(moments, return_inverse=True)[1].astype(np.int64)
