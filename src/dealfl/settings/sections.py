"""Sections: which keys they have, and how they are read from a document and checked."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from dealfl.errors import BadInput
from dealfl.settings.document import Document
from dealfl.settings.values import OneOf, bare, convert, takes

__all__ = [
    "FLAT", "Key", "check", "keys_of", "nearest", "read_keys", "read_section", "read_tables",
    "read_value", "read_variant", "require_keys", "settle", "tags_of",
]  # fmt: skip

Section = TypeVar("Section")
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
        notes = (note for note in bare(self.type)[1] if isinstance(note, Meta))
        return next((note.description for note in notes if note.description), "")

    @property
    def takes(self) -> str:
        """What the key takes, in words."""
        return takes(self.type)

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is REQUIRED


@cache
def keys_of(section: Callable[..., Any]) -> dict[str, Key]:
    """Return the keys of a section: the annotated parameters of a Struct or any constructor.

    >>> class Point(Struct):
    ...     x: Annotated[int, Meta(ge=0, description="how far to the right")]
    ...     shown: bool = True
    >>> [(key.name, key.takes, key.description) for key in keys_of(Point).values()]
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


# -- checking what is not of a document --------------------------------------------------------


def check(section: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of keys in their plain form; BadInput names key, value and what it takes.

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
        raise BadInput(f"{key.name} is {_shown(value)}; it takes {key.takes}") from None


def settle(struct: Struct) -> None:
    """Check every key of a new Struct and keep it in its plain form."""
    given = {name: getattr(struct, name) for name in keys_of(type(struct)) if hasattr(struct, name)}
    for name, plain in check(type(struct), given).items():
        force_setattr(struct, name, plain)


# -- reading from a document -------------------------------------------------------------------


def nearest(key: str, known: Iterable[str]) -> str:
    """Return the advice after a key that does not exist.

    >>> nearest("ronds", ["rounds", "seed"])
    "did you mean 'rounds'? Valid: rounds, seed"
    """
    names = sorted(known)
    if not names:
        return "it takes no keys; leave the section out"
    closest = difflib.get_close_matches(str(key), names, n=1, cutoff=0.0)
    return f"did you mean {closest[0]!r}? Valid: {', '.join(names)}"


def require_keys(
    document: Document, name: str, table: Mapping[str, object], valid: Collection[str]
) -> None:
    """Refuse the first key of a table that does not exist."""
    for key in table:
        if key not in valid:
            within = f" in {name}" if name else ""
            raise document.error(
                _inside(name, key), f"no key {key!r}{within}; {nearest(key, valid)}"
            )


def read_section(
    document: Document, section: Callable[..., Section], name: str, **fixed: object
) -> Section:
    """Return the section that the table of that name describes; `fixed` parameters are no keys."""
    return _made(document, section, name, document.tables.get(name, {}), fixed)


def read_variant(
    document: Document,
    variants: Sequence[type[Variant]],
    name: str,
    *,
    needs_tag: bool = False,
    **fixed: object,
) -> Variant:
    """Return the section whose tag says which of several Structs it is; the first by default."""
    table = _table(document, name, document.tables.get(name, {}))
    known = tags_of(variants)
    tag = str(variants[0].__struct_config__.tag_field)
    if tag not in table:  # perhaps it is misspelt: other keys must not be blamed
        every = {tag, *(key for one in variants for key in keys_of(one) if key not in fixed)}
        require_keys(document, name, table, every)
        if needs_tag:
            raise document.error(name, _missing(tag, name, OneOf(known).takes))
    first = next(iter(known))
    place = _inside(name, tag)
    chosen = read_value(document, Annotated[str, OneOf(known)], place, table.get(tag, first))
    return _made(document, known[chosen], name, table, fixed, tag)


def read_tables(document: Document, section: type[Section], name: str) -> tuple[Section, ...]:
    """Return the sections of a list of tables, [[name]]; there must be at least one."""
    return _tables(document, section, name, document.tables.get(name, []))


def read_keys(
    document: Document,
    section: Callable[..., Any],
    name: str,
    table: object,
    fixed: Collection[str] = (),
    tag: str = "",
) -> dict[str, Any]:
    """Return the plain value of each key that a table gives; a missing one must have a default."""
    keys = {key: one for key, one in keys_of(section).items() if key not in fixed}
    given = _table(document, name, table)
    require_keys(document, name, given, [*keys, tag] if tag else keys)
    found = {
        key: read_value(document, keys[key].type, _inside(name, key), value)
        for key, value in given.items()
        if key != tag
    }
    for key, one in keys.items():
        if key not in given and one.is_required:
            raise document.error(name, _missing(key, name, one.takes))
    return found


def _missing(key: str, name: str, taken: str) -> str:
    within = f" in {name}" if name else ""
    return f"the key {key!r} is missing{within}; it takes {taken}"


def read_value(document: Document, annotated: Any, key: str, value: object) -> Any:  # noqa: ANN401
    """Return the plain value of a key; of a table or a list of tables, what they describe."""
    kind, _ = bare(annotated)
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _made(document, kind, key, value)
    each = (
        bare(get_args(kind)[-1 if get_origin(kind) is dict else 0])[0] if get_args(kind) else None
    )
    if isinstance(each, type) and issubclass(each, Struct):
        if get_origin(kind) is tuple:
            return _tables(document, each, key, value)
        given = _table(document, key, value)
        return {name: _made(document, each, _inside(key, name), one) for name, one in given.items()}
    try:
        return convert(value, annotated)
    except ValueError:
        problem = f"{key} is {_shown(value)}; it takes {takes(annotated)}"
        raise document.error(key, problem) from None


def _made(
    document: Document,
    section: Callable[..., Section],
    name: str,
    table: object,
    fixed: Mapping[str, object] | None = None,
    tag: str = "",
) -> Section:
    found = read_keys(document, section, name, table, fixed or {}, tag)
    whole: dict[str, Any] = dict(fixed or {})
    parts: dict[str, dict[str, Any]] = {}
    for key, value in found.items():
        part = keys_of(section)[key].part
        (parts.setdefault(part, {}) if part else whole)[key] = value
    try:
        for part, given in parts.items():
            whole[part] = _part_type(section, part)(**given)
        return section(**whole)
    except BadInput as error:
        blamed = next((key for key in found if key in str(error).partition(";")[0].split()), "")
        raise document.error(_inside(name, blamed), f"{name or document.name}: {error}") from error


def _part_type(section: Callable[..., Any], part: str) -> Any:  # noqa: ANN401
    return bare(get_type_hints(section, include_extras=True)[part])[0]


def _tables(
    document: Document, section: type[Section], name: str, value: object
) -> tuple[Section, ...]:
    if not isinstance(value, list) or not value:
        problem = f"there are no [[{name}]]; give at least one such section"
        if value:
            problem = f"{name} is {_shown(value)}; it takes sections [[{name}]]"
        raise document.error(name, problem)
    return tuple(_made(document, section, f"{name}.{n}", one) for n, one in enumerate(value, 1))


def _table(document: Document, name: str, table: object) -> Mapping[str, Any]:
    if not isinstance(table, Mapping):
        problem = f"{name} is {_shown(table)}; it takes a section of keys and values"
        raise document.error(name, problem)
    return table


def _inside(name: str, key: str) -> str:
    return f"{name}.{key}" if name and key else name or key


def _shown(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    return str(value) if isinstance(value, Decimal) else repr(value)
