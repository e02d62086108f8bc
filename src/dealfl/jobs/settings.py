"""Sections of a job file: frozen dataclasses whose fields say which values they take."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

from dealfl.settings import Document

__all__ = [
    "Kind",
    "decimal",
    "nearest",
    "number",
    "one_of",
    "read_section",
    "read_value",
    "read_variant",
    "require_keys",
    "setting",
    "settings_of",
    "share",
    "text",
    "whole",
]

Section = TypeVar("Section")


@dataclass(frozen=True, slots=True)
class Kind:
    """What a key takes; `read` returns the plain value, or None if it will not do."""

    what: str
    read: Callable[[object], Any]


def setting(kind: Kind, default: Any = dataclasses.MISSING, says: str = "") -> Any:  # noqa: ANN401
    """Return a field of a section; without a default the key is required.

    `says` is what the key means, for the page that lists them all.
    """
    return dataclasses.field(default=default, metadata={"kind": kind, "says": says})


def text() -> Kind:
    """Return the kind of any text but an empty one."""
    return Kind("a text", lambda value: value if isinstance(value, str) and value else None)


def one_of(names: Iterable[str]) -> Kind:
    """Return the kind of a few names."""
    known = sorted(names)
    quoted = ", ".join(f'"{name}"' for name in known)
    return Kind(f"one of {quoted}", lambda value: value if value in known else None)


def whole(least: int) -> Kind:
    """Return the kind of whole numbers.

    >>> whole(1).read(True) is None
    True
    """

    def read(value: object) -> int | None:
        proper = isinstance(value, int) and not isinstance(value, bool)
        return value if proper and value >= least else None  # type: ignore[operator,return-value]

    return Kind(f"a whole number from {least} on", read)


def number(least: float, *, most: float = math.inf, above: bool = False) -> Kind:
    """Return the kind of finite numbers from `least` (or above it) to `most`."""

    def read(value: object) -> float | None:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            return None
        plain = float(value)
        low_enough = math.isfinite(plain) and plain <= most
        return plain if low_enough and (plain > least if above else plain >= least) else None

    start = f"above {least:g}" if above else f"from {least:g}"
    end = f" to {most:g}" if math.isfinite(most) else "" if above else " on"
    return Kind(f"a number {start}{end}", read)


def share() -> Kind:
    """Return the kind of numbers from 0 to 1."""
    return number(0.0, most=1.0)


def decimal() -> Kind:
    """Return the kind of exact decimals from 0 to 1, kept as a text.

    >>> decimal().read(Decimal("0.02")), decimal().read("0.020"), decimal().read("a little")
    ('0.02', '0.020', None)
    """

    def read(value: object) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
            return None
        try:
            plain = Decimal(value)
        except ArithmeticError:
            return None
        return str(value).strip() if plain.is_finite() and 0 <= plain <= 1 else None

    return Kind('a decimal from 0 to 1, such as "0.02"', read)


def nearest(key: str, known: Iterable[str]) -> str:
    """Return the advice after a key that does not exist.

    >>> nearest("ronds", ["rounds", "seed"])
    "did you mean 'rounds'? Valid: rounds, seed"
    """
    names = sorted(known)
    closest = difflib.get_close_matches(key, names, n=1, cutoff=0.0)
    return f"did you mean {closest[0]!r}? Valid: {', '.join(names)}"


def read_section(
    document: Document, section: type[Section], name: str, table: object, tag: str = ""
) -> Section:
    """Return the section that a table describes; `tag` is a key that was read already."""
    if not isinstance(table, Mapping):
        raise document.error(name, f"{name} is {table!r}; it takes a section of keys and values")
    fields = settings_of(section)
    valid = [*fields, tag] if tag else list(fields)
    require_keys(document, name, table, valid)
    given = {}
    for key, value in table.items():
        if key != tag:
            given[key] = read_value(document, fields[key].metadata["kind"], f"{name}.{key}", value)
    for key, field in fields.items():
        if key not in given and field.default is dataclasses.MISSING:
            kind = field.metadata["kind"]
            raise document.error(
                name, f"the key {key!r} is missing in {name}; it takes {kind.what}"
            )
    return section(**given)


def require_keys(
    document: Document, name: str, table: Mapping[str, object], valid: Collection[str]
) -> None:
    """Refuse the first key of a table that does not exist."""
    for key in table:
        if key not in valid:
            raise document.error(
                f"{name}.{key}", f"no key {key!r} in {name}; {nearest(key, valid)}"
            )


def settings_of(section: type) -> dict[str, dataclasses.Field[Any]]:
    """Return the fields of a section that are keys of the file."""
    return {field.name: field for field in dataclasses.fields(section) if "kind" in field.metadata}


def read_value(document: Document, kind: Kind, key: str, value: object) -> Any:  # noqa: ANN401
    """Return the plain value of a key; BadInput says what it takes."""
    plain = kind.read(value)
    if plain is None:
        shown = str(value) if isinstance(value, Decimal) else repr(value)
        raise document.error(key, f"{key} is {shown}; it takes {kind.what}")
    return plain


def read_variant(
    document: Document,
    variants: Mapping[str, type[Section]],
    name: str,
    tag: str,
    default: str,
) -> Section:
    """Return the section whose key `tag` says which of several kinds it is."""
    table = document.tables.get(name, {})
    chosen = default
    if isinstance(table, Mapping):
        every = {tag, *(key for variant in variants.values() for key in settings_of(variant))}
        require_keys(document, name, table, every)  # a misspelt tag must not blame other keys
        chosen = table.get(tag, default)
    read_value(document, one_of(variants), f"{name}.{tag}", chosen)
    return read_section(document, variants[chosen], name, table, tag)
