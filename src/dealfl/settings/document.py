"""A TOML file with the line number of each key, for error messages; values as TOML writes them."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from dealfl.errors import BadInput, unreadable

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_NAME = r"(?:\"[^\"]*\"|'[^']*'|[\w-]+)"
_KEY = re.compile(rf"\s*({_NAME}(?:\s*\.\s*{_NAME})*)\s*=")


@dataclass(frozen=True, slots=True)
class Document:
    """The tables of a TOML file, and the line of each key.

    Dotted names number the tables of a list: `devices.1` is the first table of `[[devices]]`.

    Examples
    --------
    >>> fleet = Document.parse("[job]\\nrounds = 3", "fleet.toml")
    >>> fleet.where("job.rounds")
    'fleet.toml, line 2'
    >>> fleet.replaced("job.rounds", 5).where("job.rounds")
    'the value set for job.rounds'
    """

    tables: Mapping[str, Any]
    name: str
    folder: Path = Path()
    write: Callable[[], str] = str  # returns the text as it was written, comments included
    changed: tuple[str, ...] = ()  # keys that differ from this text

    @classmethod
    def read(cls, path: str | Path, max_bytes: int | None = None) -> Document:
        """Read a TOML file."""
        file = Path(path)
        try:
            if max_bytes is not None and file.stat().st_size > max_bytes:
                raise BadInput(f"{file} is larger than {max_bytes:,} bytes; use a smaller file")
        except OSError as error:
            raise unreadable(file, error) from error
        return cls.parse(read_text(file), str(file), file.parent)

    @classmethod
    def parse(cls, text: str, name: str, folder: Path = Path()) -> Document:
        """Parse TOML text; decimals stay exact."""
        try:
            tables = tomllib.loads(text, parse_float=Decimal)
            repr(plain_value(tables))  # a message must be able to show what a key has
        except tomllib.TOMLDecodeError as error:
            raise BadInput(f"{name} is not TOML: {error}") from error
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise BadInput(
                f"{name} has a number of too many digits, or too many tables inside each other; "
                "shorten it"
            ) from error
        return cls(tables, name, folder, lambda: text)

    def text(self) -> str:
        """Return the document as TOML: as it was written, unless a key has changed."""
        return toml_document(self.tables) if self.changed else self.write()

    def where(self, key: str) -> str:
        """Return the position of a key, for error messages."""
        key = _plain(key)
        lines = _lines(self.write())
        while key and key not in self.changed and key not in lines:
            key = key.rpartition(".")[0]
        if key in self.changed:
            return f"the value set for {key}"
        return f"{self.name}, line {lines[key]}" if key else self.name

    def error(self, key: str, problem: str) -> BadInput:
        """Return an error that names the position of a key."""
        return BadInput(f"{self.where(key)}: {problem}")

    def has(self, key: str) -> bool:
        """Return whether a section has a key.

        >>> Document.parse("[job]\\nrounds = 3", "job.toml").has("job.rounds")
        True
        """
        *sections, last = key.split(".")
        table: Any = self.tables
        for name in sections:
            table = table.get(name) if isinstance(table, dict) else None
        return isinstance(table, dict) and last in table

    def replaced(self, key: str, value: object) -> Document:
        """Return a copy of the document in which one key has another value."""
        tables: dict[str, Any] = copy.deepcopy(dict(self.tables))
        *parents, last = key.split(".")
        table: Any = tables
        for name in parents:
            table = self._inside(table, name, key)
        if value is None:
            if not isinstance(table, dict) or last not in table:
                raise BadInput(f"{key!r} cannot be removed: {self.name} does not have it")
            del table[last]
        elif not isinstance(table, dict) or not parents or not last:
            raise BadInput(f"{key!r} is not a key of a section; write for example job.rounds")
        else:
            table[last] = value
        return replace(self, tables=tables, changed=(*self.changed, key))

    def _inside(self, table: Any, name: str, key: str) -> Any:  # noqa: ANN401
        if isinstance(table, dict):
            return table.setdefault(name, {})
        if isinstance(table, list) and name.isdigit() and 1 <= int(name) <= len(table):
            return table[int(name) - 1]
        count = len(table) if isinstance(table, list) else 0
        raise BadInput(f"{key!r} does not exist: {name!r} is not a number from 1 to {count}")


def _lines(text: str) -> dict[str, int]:
    """Return the line of each table and key, by its dotted name."""
    lines: dict[str, int] = {}
    counts: Counter[str] = Counter()
    prefix = ""
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(line):
            prefix = _plain(header[2])
            lines.setdefault(prefix, number)
            if header[1] == "[[":
                counts[prefix] += 1
                prefix = f"{prefix}.{counts[prefix]}"
            lines.setdefault(prefix, number)
        elif key := _KEY.match(line):
            lines.setdefault(f"{prefix}.{_plain(key[1])}".lstrip("."), number)
    return lines


def _plain(key: str) -> str:
    return re.sub(r"[\s\"']", "", key)


_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WIDTH = 90


def toml_key(name: str) -> str:
    """Return a key as TOML writes it: quoted where necessary.

    Examples
    --------
    >>> toml_key("rooms"), toml_key("Größe in m²")
    ('rooms', '"Größe in m²"')
    """
    return name if _BARE.fullmatch(name) else toml_value(name)


def toml_value(value: object, *, wrap: bool = True) -> str:
    """Return a value as TOML writes it; long lists take several lines, except in an inline table.

    Examples
    --------
    >>> toml_value(True), toml_value(2.5), toml_value(["a", 'b "c"'])
    ('true', '2.5', '["a", "b \\\\"c\\\\""]')
    """
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        keys = (f"{toml_key(key)} = {toml_value(part, wrap=False)}" for key, part in value.items())
        return f"{{ {', '.join(keys)} }}"
    if isinstance(value, Sequence):
        return _list([toml_value(part) for part in value], wrap)
    return str(value) if isinstance(value, Decimal) else repr(value)


def _list(parts: list[str], wrap: bool) -> str:
    line = f"[{', '.join(parts)}]"
    if len(line) <= _WIDTH or not wrap:
        return line
    lines, current = [], ""
    for part in parts:
        if current and len(current) + len(part) > _WIDTH:
            lines.append(current.rstrip())
            current = ""
        current += f"{part}, "
    return "[\n  " + "\n  ".join([*lines, current.rstrip()]) + "\n]"


def plain_value(value: object) -> Any:  # noqa: ANN401
    """Return a value as TOML would have given it: exact decimals, plain lists.

    >>> plain_value([0.1, np.int64(3), "deal"])
    [Decimal('0.1'), 3, 'deal']
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, Mapping):
        return {str(key): plain_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain_value(part) for part in value]
    return str(value) if isinstance(value, PurePath) else value


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text; save it as UTF-8") from error


def toml_document(tables: Mapping[str, Any], prefix: str = "") -> str:
    """Return tables as a TOML document: values first, then the tables inside.

    Examples
    --------
    >>> print(toml_document({"job": {"rounds": 3}, "devices": [{"count": 1}]}), end="")
    [job]
    rounds = 3
    <BLANKLINE>
    [[devices]]
    count = 1
    """
    values = {name: value for name, value in tables.items() if not _is_table(value)}
    lines = [f"{toml_key(name)} = {toml_value(value)}" for name, value in values.items()]
    parts = ["\n".join(lines) + "\n"] if lines else []
    for name, value in tables.items():
        key = f"{prefix}{toml_key(name)}"
        if isinstance(value, Mapping):
            parts.append(f"[{key}]\n{toml_document(value, f'{key}.')}")
        elif _is_table(value):
            parts += [f"[[{key}]]\n{toml_document(inner, f'{key}.')}" for inner in value]
    return "\n".join(parts)


def _is_table(value: object) -> bool:
    listed = isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)
    return isinstance(value, Mapping) or listed
