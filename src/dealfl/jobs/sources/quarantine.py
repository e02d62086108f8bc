"""Rows that can not be used: set aside, counted and told, while all others go on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

__all__ = ["Quarantine", "Quarantined"]

_KEPT = 1_000  # a file of nothing but bad rows must not fill the memory


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A row that is not used: on which line it ends, which column is to blame, and why."""

    line: int
    column: str
    reason: str

    def __str__(self) -> str:
        where = f", column {self.column!r}" if self.column else ""
        return f"line {self.line}{where}: {self.reason}"


class Quarantine:
    """All the rows of a file that are not used; only the first ones are kept in detail.

    >>> quarantine = Quarantine("people.csv")
    >>> quarantine.add(Quarantined(7, "age", "'old' is not a number"))
    >>> print(quarantine.told(rows=100))
    people.csv: 1 of 100 rows can not be used (1 by column 'age'); the first is line 7, \
column 'age': 'old' is not a number
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._first: list[Quarantined] = []
        self._columns: Counter[str] = Counter()

    def add(self, row: Quarantined) -> None:
        """Set a row aside."""
        self._columns[row.column] += 1
        if len(self._first) < _KEPT:
            self._first.append(row)

    def __len__(self) -> int:
        return self._columns.total()

    @property
    def first(self) -> tuple[Quarantined, ...]:
        """The first of them, in the order of the file."""
        return tuple(self._first)

    @property
    def by_column(self) -> dict[str, int]:
        """How many rows each column is to blame for; '' stands for the row as a whole."""
        return dict(self._columns)

    def told(self, rows: int) -> str:
        """Return the sentence for a person, of a file with so many rows."""
        if not self._first:
            return f"{self._name}: all {rows:,} rows can be used"
        blamed = ", ".join(
            f"{count:,} by {f'column {column!r}' if column else 'their length'}"
            for column, count in self._columns.most_common(3)
        )
        return (
            f"{self._name}: {len(self):,} of {rows:,} rows can not be used ({blamed}); "
            f"the first is {self._first[0]}"
        )
