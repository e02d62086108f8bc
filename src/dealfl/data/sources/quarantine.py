"""Rows of a user's file that are not used, and why."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass

from dealfl.errors import BadInput

__all__ = ["LOG", "Quarantine", "Quarantined"]

LOG = logging.getLogger("dealfl.jobs")  # without handlers, warnings go to the error output
_KEPT = 1_000  # a file of bad rows must not fill the memory


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

    @property
    def place(self) -> str:
        """Line and column, without the value."""
        return f"{self.unit} {self.line}" + (f", column {self.column!r}" if self.column else "")

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


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
        """Return how many rows cannot be used, the columns that cause it, and the first such row.

        Parameters
        ----------
        rows
            Number of rows in the file.

        Returns
        -------
        str
            A sentence.
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
        """Log a warning if some rows cannot be used; raise BadInput if none can.

        Parameters
        ----------
        rows
            Number of rows in the file.
        """
        if rows == len(self):
            first = f"; the first is {self._first[0]}" if rows else ""
            raise BadInput(f"{self._name}: none of {rows:,} rows can be used{first}")
        if self:
            LOG.warning("%s", self.describe(rows))
