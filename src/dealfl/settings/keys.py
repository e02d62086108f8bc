"""The keys of a section: names, types, meanings, the check of their values, the reference."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from dealfl.errors import BadInput
from dealfl.settings.toml_text import toml_value
from dealfl.settings.values import Formerly, bare, convert, takes

Variant = TypeVar("Variant", bound=Struct)
REQUIRED = inspect.Parameter.empty
FLAT = Meta(extra={"flat": True})
"""Annotates a field whose keys belong to the section of the field, without a table of their own."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a section; `part` is the flat field that holds it, '' if the section itself does."""

    name: str
    type: Any
    default: Any
    part: str = ""

    @property
    def description(self) -> str:
        """Meaning of the key; '' if the annotation has no description."""
        notes = [note for note in bare(self.type)[1] if isinstance(note, Meta)]
        return next((note.description for note in reversed(notes) if note.description), "")

    @property
    def takes(self) -> str:
        """Valid values of the key, in words."""
        return takes(self.type)

    @property
    def former_name(self) -> str:
        """Former name of the key; '' if it was never renamed."""
        notes = (note for note in bare(self.type)[1] if isinstance(note, Formerly))
        return next((note.name for note in notes), "")

    @property
    def is_required(self) -> bool:
        """Whether the key has no default."""
        return self.default is REQUIRED


@cache
def keys_of(section: Callable[..., Any]) -> dict[str, Key]:
    """Return the keys of a section.

    Examples
    --------
    >>> from typing import Annotated
    >>> def draw(x: Annotated[int, Meta(ge=0, description="distance to the right")], y: int): ...
    >>> [(key.name, key.takes, key.description) for key in keys_of(draw).values()]
    [('x', 'a whole number ≥ 0', 'distance to the right')]
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
    """Return tagged Structs by their tags, in the given order."""
    return {str(one.__struct_config__.tag): one for one in variants}


def section_in(annotated: Any) -> type[Struct] | None:  # noqa: ANN401
    """Return the Struct of a key that takes a table or a list of tables; None for other keys."""
    kind, _ = bare(annotated)
    inner = kind if isinstance(kind, type) or not get_args(kind) else get_args(kind)[0]
    return inner if isinstance(inner, type) and issubclass(inner, Struct) else None


# -- checking values from outside a document ---------------------------------------------------


def check(section: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Check values that do not come from a document, such as the arguments of a call.

    Examples
    --------
    >>> from typing import Annotated
    >>> def wait(*, seconds: Annotated[float, Meta(gt=0)]) -> None: ...
    >>> check(wait, {"seconds": 0})
    Traceback (most recent call last):
    dealfl.errors.BadInput: seconds is 0; it takes a number > 0
    """
    keys = keys_of(section)
    found = {}
    for name, value in values.items():
        if name in keys:
            try:
                found[name] = convert(value, keys[name].type)
            except ValueError:
                problem = f"{name} is {show(value)}; it takes {keys[name].takes}"
                raise BadInput(problem) from None
    return found


def settle(struct: Struct) -> None:
    """Check every key of a new Struct, and replace each value by its plain form."""
    given = {name: getattr(struct, name) for name in keys_of(type(struct)) if hasattr(struct, name)}
    for name, plain in check(type(struct), given).items():
        force_setattr(struct, name, plain)


def show(value: object) -> str:
    """Return a value as error messages write it."""
    if isinstance(value, list):
        return f"[{', '.join(map(show, value))}]"
    return str(value) if isinstance(value, Decimal) else repr(value)


# -- the key reference --------------------------------------------------------------------------


def key_table(title: str, section: Callable[..., Any], without: Collection[str] = ()) -> str:
    """Return the keys of a section as a Markdown table."""
    first = (section.__doc__ or "").partition("\n")[0]
    keys = [key for key in keys_of(section).values() if key.name not in without]
    lines = [f"### {title}\n\n{first}\n"]
    if keys:
        lines.append("| key | takes | default | meaning |\n|---|---|---|---|")
    lines += [
        f"| `{key.name}` | {key.takes} | {_default(key)} | {key.description} |" for key in keys
    ]
    return "\n".join([*lines, ""] if keys else lines)


def key_tables(title: str, section: Callable[..., Any]) -> Iterator[str]:
    """Yield the key table of a section, then the tables of the sections inside it."""
    yield key_table(title, section)
    for key in keys_of(section).values():
        inner = section_in(key.type)
        if inner is not None:
            yield from key_tables(f"{title}: {key.name}", inner)


def _default(key: Key) -> str:
    if key.is_required:
        return "required"
    try:
        return f"`{toml_value(convert(key.default, key.type))}`"
    except (TypeError, ValueError):
        return "none"
