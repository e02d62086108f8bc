"""The value of a key: read by its annotated type, which also states the valid values in words."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Meta

Whole = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Amount = Annotated[float, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Text = Annotated[str, Meta(pattern=r"\S")]
Numbers = float | Annotated[tuple[float, ...], Meta(min_length=1)]


class Reader:
    """An annotation that reads the value itself, where the type is not specific enough."""

    @property
    def takes(self) -> str:
        """Valid values, in words."""
        raise NotImplementedError

    def read(self, value: object) -> Any:  # noqa: ANN401
        """Return the plain value, or raise ValueError."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class OneOf(Reader):
    """One of several names; the names that plug-ins add to a registry are included.

    Examples
    --------
    >>> OneOf(["deal", "newfl"]).takes
    'one of "deal", "newfl"'
    """

    names: Collection[str]

    @property
    def takes(self) -> str:
        """All valid names."""
        return _listed(sorted(self.names))

    def read(self, value: object) -> str:
        """Return the value if it is a valid name."""
        if not isinstance(value, str) or value not in self.names:
            raise ValueError(value)
        return value

    def __hash__(self) -> int:
        return id(self.names)


@dataclass(frozen=True, slots=True)
class As(Reader):
    """Read a value as another type than the annotated one, such as numbers for any array."""

    type: Any

    @property
    def takes(self) -> str:
        """Valid values of the other type, in words."""
        return takes(self.type)

    def read(self, value: object) -> Any:  # noqa: ANN401
        """Return the value as the other type.

        Parameters
        ----------
        value
            A value from a file or a call.

        Returns
        -------
        Any
            The plain value.
        """
        return convert(value, self.type)


class _Decimal(Reader):
    """An exact decimal from 0 to 1, kept as a string."""

    takes = 'a decimal from 0 to 1, such as "0.02"'

    def read(self, value: object) -> str:
        exact = isinstance(value, int | str | Decimal) and not isinstance(value, bool)
        text = str(value).strip() if exact else ""
        try:
            plain = Decimal(text)
        except ArithmeticError:
            raise ValueError(value) from None
        if not (plain.is_finite() and 0 <= plain <= 1):
            raise ValueError(value)
        return text


Fraction = Annotated[str, _Decimal()]
"""An exact decimal, kept as a string."""


@dataclass(frozen=True, slots=True)
class Labels(Reader):
    """A list of distinct strings, or of distinct numbers.

    Examples
    --------
    >>> Labels(2).read(["no", "yes"]), Labels(2).read([Decimal("1.0"), Decimal("2.5")])
    (('no', 'yes'), (1, 2.5))
    """

    least: int

    @property
    def takes(self) -> str:
        """Lists of a minimum number of labels."""
        return f"a list of at least {self.least} strings, or of numbers, no two the same"

    def read(self, value: object) -> tuple[str | int | float, ...]:
        """Return the labels: strings without surrounding spaces, or numbers, whole ones as int."""
        if not isinstance(value, list | tuple) or len(value) < self.least:
            raise ValueError(value)
        each = tuple(_label(part) for part in value)
        texts = sum(isinstance(part, str) for part in each)
        if texts not in (0, len(each)) or len(set(each)) < len(each):
            raise ValueError(value)
        return each


def _label(value: object) -> str | int | float:
    if isinstance(value, str):
        return value.strip()
    number: float = convert(value, float)
    return int(number) if number == int(number) else number


def bare(annotated: Any) -> tuple[Any, tuple[Any, ...]]:  # noqa: ANN401
    """Return a type without its annotations, and the annotations."""
    if get_origin(annotated) is Annotated:
        return annotated.__origin__, annotated.__metadata__
    return annotated, ()


def convert(value: object, annotated: Any) -> Any:  # noqa: ANN401
    """Return the plain value of a type, or raise ValueError.

    Examples
    --------
    >>> convert(Decimal("2.5"), Amount), convert([1, 2], Numbers)
    (2.5, (1.0, 2.0))
    """
    kind, notes = bare(annotated)
    for note in notes:
        if isinstance(note, Reader):
            return note.read(value)
    plain = value.tolist() if hasattr(value, "tolist") else value  # of numpy
    try:
        made = msgspec.convert(plain, annotated)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    unlimited = any(isinstance(note, Meta) and (note.extra or {}).get("inf") for note in notes)
    if not unlimited and not _finite(made):
        raise ValueError(kind)
    return made


def _finite(made: object) -> bool:
    if isinstance(made, tuple):
        return all(map(_finite, made))
    return not isinstance(made, float) or math.isfinite(made)


def takes(annotated: Any) -> str:  # noqa: ANN401
    """Return the valid values of a type in words, for error messages and the key reference.

    Examples
    --------
    >>> takes(Count), takes(Share), takes(Numbers)
    ('a whole number ≥ 1', 'a number from 0 to 1', 'a number, or a list of such')
    """
    kind, notes = bare(annotated)
    for note in notes:
        if isinstance(note, Reader):
            return note.takes
    limits = _limits(notes)
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _alternatives([part for part in get_args(kind) if part is not NoneType])
    if origin is Literal:
        return _listed(get_args(kind))
    if origin is tuple:
        return _list(get_args(kind), limits)
    return _plain(kind, origin, limits)


def _listed(names: Iterable[str]) -> str:
    quoted = (f'"{name}"' for name in names)
    return f"one of {', '.join(quoted)}"


def _limits(notes: Iterable[Any]) -> dict[str, Any]:
    names = ("ge", "gt", "le", "lt", "min_length", "max_length")
    limits: dict[str, Any] = {}
    for note in notes:
        if isinstance(note, Meta):
            limits |= {
                name: getattr(note, name) for name in names if getattr(note, name) is not None
            }
            limits |= note.extra or {}
    return limits


def _alternatives(kinds: list[Any]) -> str:
    if len(kinds) == 2 and get_origin(bare(kinds[1])[0]) is tuple:
        (each, _) = get_args(bare(kinds[1])[0])
        if each == kinds[0]:
            return f"{takes(each)}, or a list of such"
    return ", or ".join(map(takes, kinds))


def _list(parts: tuple[Any, ...], limits: Mapping[str, Any]) -> str:
    if isinstance(bare(parts[0])[0], type) and issubclass(bare(parts[0])[0], msgspec.Struct):
        return "a list of tables"
    least = f" of at least {limits['min_length']}" if limits.get("min_length", 1) > 1 else ""
    return f"a list{least}, each {takes(parts[0])}"


def _plain(kind: Any, origin: Any, limits: Mapping[str, Any]) -> str:  # noqa: ANN401
    if kind is bool:
        return "true or false"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _listed(member.value for member in kind)
    if kind is str:
        most = limits.get("max_length")
        long = f"a string of at most {most} printable characters"
        return {None: "a string", 1: "one character"}.get(most, long)
    if kind in (int, float):
        noun = "a whole number" if kind is int else "a number"
        return noun + _range(limits) + (", or inf" if limits.get("inf") else "")
    if isinstance(origin, type) and issubclass(origin, Mapping) and get_args(kind)[1] is not Any:
        return f"a table, each value {takes(get_args(kind)[1])}"
    return "a table of keys and values"


def _range(limits: Mapping[str, Any]) -> str:
    if "ge" in limits and "le" in limits:
        return f" from {_figure(limits['ge'])} to {_figure(limits['le'])}"
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    bounds = [f"{sign} {_figure(limits[name])}" for name, sign in signs.items() if name in limits]
    return f" {' and '.join(bounds)}" if bounds else ""


def _figure(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"
