"""The keys of a section: which there are, what each takes and means, and whether values fit."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from dealfl.errors import BadInput
from dealfl.settings.values import Formerly, bare, convert, takes

__all__ = ["FLAT", "Key", "check", "keys_of", "section_in", "settle", "show", "tags_of"]

Variant = TypeVar("Variant", bound=Struct)
REQUIRED = inspect.Parameter.empty
FLAT = Meta(extra={"flat": True})
"""Marks a field whose own keys stand in the section of the field."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a section: what it takes, its default, what it means; `part` is a flat field."""

    name: str
    type: Any
    default: Any
    part: str = ""

    @property
    def description(self) -> str:
        """What the key means; '' if nobody says."""
        notes = [note for note in bare(self.type)[1] if isinstance(note, Meta)]
        return next((note.description for note in reversed(notes) if note.description), "")

    @property
    def takes(self) -> str:
        """What the key takes, in words."""
        return takes(self.type)

    @property
    def former_name(self) -> str:
        """The name that the key had before; '' if it always had its name."""
        notes = (note for note in bare(self.type)[1] if isinstance(note, Formerly))
        return next((note.name for note in notes), "")

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is REQUIRED


@cache
def keys_of(section: Callable[..., Any]) -> dict[str, Key]:
    """Return the keys of a section: the annotated parameters of a Struct or any constructor.

    >>> from typing import Annotated
    >>> def draw(x: Annotated[int, Meta(ge=0, description="how far to the right")], y: int): ...
    >>> [(key.name, key.takes, key.description) for key in keys_of(draw).values()]
    [('x', 'a whole number ≥ 0', 'how far to the right')]
    """
    found: dict[str, Key] = {}
    hints = get_type_hints(_declaring(section), include_extras=True)
    for name, parameter in inspect.signature(section).parameters.items():
        hint = hints.get(name)
        kind, notes = bare(hint)
        if FLAT in notes:
            inner = keys_of(kind).values()
            found |= {one.name: Key(one.name, one.type, one.default, name) for one in inner}
        elif notes:
            found[name] = Key(name, hint, parameter.default)
    return found


def _declaring(section: Callable[..., Any]) -> Any:  # noqa: ANN401
    if isinstance(section, type) and not issubclass(section, Struct):
        return section.__init__
    return section


def tags_of(variants: Iterable[type[Variant]]) -> dict[str, type[Variant]]:
    """Return tagged Structs by their tags."""
    return {str(one.__struct_config__.tag): one for one in variants}


def section_in(annotated: Any) -> type[Struct] | None:  # noqa: ANN401
    """Return the Struct of a key that takes a table, or a list of tables; else None."""
    kind, _ = bare(annotated)
    inner = kind if isinstance(kind, type) or not get_args(kind) else get_args(kind)[0]
    return inner if isinstance(inner, type) and issubclass(inner, Struct) else None


# -- checking what is not of a document --------------------------------------------------------


def check(section: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of keys in their plain form; BadInput names key, value and what it takes.

    >>> from typing import Annotated
    >>> def wait(*, seconds: Annotated[float, Meta(gt=0)]) -> None: ...
    >>> check(wait, {"seconds": 0})
    Traceback (most recent call last):
    dealfl.errors.BadInput: seconds is 0; it takes a number > 0
    """
    keys = keys_of(section)
    return {name: _checked(keys[name], value) for name, value in values.items() if name in keys}


def _checked(key: Key, value: object) -> Any:  # noqa: ANN401
    try:
        return convert(value, key.type)
    except ValueError:
        raise BadInput(f"{key.name} is {show(value)}; it takes {key.takes}") from None


def settle(struct: Struct) -> None:
    """Check every key of a new Struct and keep it in its plain form."""
    given = {name: getattr(struct, name) for name in keys_of(type(struct)) if hasattr(struct, name)}
    for name, plain in check(type(struct), given).items():
        force_setattr(struct, name, plain)


def show(value: object) -> str:
    """Return a value as it is told in an error."""
    if isinstance(value, list):
        return f"[{', '.join(map(show, value))}]"
    return str(value) if isinstance(value, Decimal) else repr(value)
