"""A map is a frozen dataclass that declares its settings, each annotated with what it may be."""

import dataclasses
from typing import Any, ClassVar, Protocol, get_type_hints

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadInput

__all__ = ["Declared", "bad_setting", "check_keys", "settle", "spread", "table"]


class Declared(Protocol):
    """A frozen dataclass whose fields, besides `n_inputs`, are its settings."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    name: ClassVar[str]


def settle(declared: Declared) -> None:
    """Check every setting of a new map and keep it in its plain form.

    A field is annotated with its kind (`kinds`), which reads the value or does not.
    """
    hints = get_type_hints(type(declared), include_extras=True)
    for field in dataclasses.fields(declared):
        value = getattr(declared, field.name)
        if value is None and field.default is None:
            continue  # left out: the map decides
        kind = hints[field.name].__metadata__[0]
        plain = kind.read(value)
        if plain is None:
            raise bad_setting(declared, field.name, f"it takes {kind}")
        object.__setattr__(declared, field.name, plain)


def table(declared: Declared) -> dict[str, object]:
    """Return the plain table that declares this map: strings, numbers and lists."""
    values = {field.name: getattr(declared, field.name) for field in _fields(type(declared))}
    plain = {k: list(v) if isinstance(v, tuple) else v for k, v in values.items() if v is not None}
    return {"map": declared.name, **plain}


def check_keys(kind: type[Declared], given: dict[Any, object]) -> None:
    """Refuse a table that has a key which this kind of map lacks, or lacks one it requires."""
    known = {field.name: field for field in _fields(kind)}
    for key, value in given.items():
        if key not in known:
            raise BadInput(f"{kind.name} map: no setting {key!r} (given {value!r}); {_valid(kind)}")
    for key, field in known.items():
        if key not in given and field.default is dataclasses.MISSING:
            raise BadInput(f"{kind.name} map: the setting {key!r} is missing; {_valid(kind)}")


def bad_setting(declared: Declared, key: str, remedy: str) -> BadInput:
    """Return the error for a setting that can not be used."""
    value = getattr(declared, key)
    return BadInput(f"{declared.name} map: {key} is {value!r}; {remedy}; {_valid(type(declared))}")


def spread(declared: Declared, key: str, count: int) -> NDArray[np.float64]:
    """Return one number for each of `count` columns from a number or a list."""
    value = getattr(declared, key)
    if isinstance(value, tuple) and len(value) != count:
        raise bad_setting(declared, key, f"it has {len(value)} numbers for {count} columns")
    return np.broadcast_to(np.asarray(value, dtype=np.float64), (count,))


def _fields(kind: type[Declared]) -> list["dataclasses.Field[Any]"]:
    return [field for field in dataclasses.fields(kind) if field.name != "n_inputs"]


def _valid(kind: type[Declared]) -> str:
    return f"valid keys: {', '.join(['map', *(field.name for field in _fields(kind))])}"
