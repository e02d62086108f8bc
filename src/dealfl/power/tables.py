"""TOML tables whose mistakes are told with file, line, key, value and what would do."""

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dealfl.errors import BadInput

__all__ = ["Table", "read_table"]

_HEADER = re.compile(r"\s*\[(\[)?\s*([^\[\]]+?)\s*\]")
_LARGEST_BYTES = 1 << 20  # a phone is a page of text; anything longer is a mistake


def read_table(path: Path) -> "Table":
    """Return the outermost table of a TOML file."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise BadInput(f"{path} is longer than {_LARGEST_BYTES:,} bytes; a phone is a page")
        text = path.read_text(encoding="utf-8")
        return Table(path, text, (), tomllib.loads(text))
    except OSError as error:
        raise BadInput(f"{path} can not be read: {error.strerror}; name a TOML file") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not UTF-8 text; name a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path} is not TOML: {error}") from None


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a TOML file, which knows where it stands."""

    path: Path
    document: str
    place: tuple[str | int, ...]
    content: Mapping[str, Any]

    def only(self, *known: str) -> "Table":
        """Refuse keys that are not known; return this table."""
        for key in self.content:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise self.wrong(key, f"is not known; {hint}known: {', '.join(known)}")
        return self

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text that says something."""
        value = self.content.get(key, default)
        if not isinstance(value, str) or not value.strip():
            raise self.unfit(key, "a text that is not empty")
        return value

    def whole(self, key: str, low: int, high: int) -> int:
        """Return a whole number within limits."""
        value = self.content.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.unfit(key, f"a whole number from {low:,} to {high:,}")
        return value

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        """Return a number within limits."""
        return self._fit(key, self.content.get(key, default), low, high)

    def numbers(
        self, key: str, low: float, high: float, default: Sequence[float]
    ) -> tuple[float, ...]:
        """Return a list of as many numbers as the default has, each within limits."""
        values = self.content.get(key, default)
        if not isinstance(values, Sequence) or len(values) != len(default):
            raise self.unfit(key, f"a list of {len(default)} numbers")
        return tuple(self._fit(key, value, low, high) for value in values)

    def table(self, key: str) -> "Table":
        """Return a table within this one."""
        value = self.content.get(key)
        if not isinstance(value, Mapping):
            raise self.unfit(key, "a table")
        return Table(self.path, self.document, (*self.place, key), value)

    def tables(self, key: str) -> list["Table"]:
        """Return a list of tables, at least one."""
        values = self.content.get(key)
        if not isinstance(values, list) or not values:
            raise self.unfit(key, "a list of at least one table")
        for value in values:
            if not isinstance(value, Mapping):
                raise self.unfit(key, "a list of tables")
        place = (*self.place, key)
        return [Table(self.path, self.document, (*place, i), v) for i, v in enumerate(values)]

    def unfit(self, key: str, wanted: str) -> BadInput:
        """Return the error for a value that is missing, or not what is wanted."""
        if key not in self.content:
            return self.wrong(key, f"is missing; it must be {wanted}")
        return self.wrong(key, f"is {self.content[key]!r}; it must be {wanted}")

    def wrong(self, key: str, why: str) -> BadInput:
        """Return the error for a key, with its file and line."""
        place = (*self.place, key)
        line = _line_of(self.document, place)
        return BadInput(f"{self.path}{f':{line}' if line else ''}: {_shown(place)} {why}")

    def _fit(self, key: str, value: object, low: float, high: float) -> float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not low <= value <= high:  # type: ignore[operator]
            raise self.unfit(key, f"a number from {low:g} to {high:g}")
        return float(value)  # type: ignore[arg-type]


def _shown(place: tuple[str | int, ...]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return "".join(parts).lstrip(".")


def _line_of(document: str, place: tuple[str | int, ...]) -> int | None:
    """Return the line of a key, else that of the nearest table or key that contains it."""
    lines = _numbered(document)
    for length in range(len(place), 0, -1):
        if place[:length] in lines:
            return lines[place[:length]]
    return None


def _numbered(document: str) -> dict[tuple[str | int, ...], int]:
    found: dict[tuple[str | int, ...], int] = {}
    header: tuple[str | int, ...] = ()
    counts: dict[str, int] = {}
    for number, line in enumerate(document.splitlines(), start=1):
        if opened := _HEADER.match(line):
            name = opened[2].strip("\"'")
            header = (name,)
            if opened[1]:
                header = (name, counts.get(name, 0))
                counts[name] = counts.get(name, 0) + 1
            found.setdefault(header, number)
        elif assigned := re.match(r"\s*[\"']?([\w-]+)[\"']?\s*=", line):
            found.setdefault((*header, assigned[1]), number)
    return found
