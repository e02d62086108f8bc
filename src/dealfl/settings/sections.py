"""Sections of a document; an error names the line, the key, the value and the valid values."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, get_origin, get_type_hints

from msgspec import Struct

from dealfl.errors import BadInput
from dealfl.settings.document import Document
from dealfl.settings.keys import Key, keys_of, section_in, show, tags_of
from dealfl.settings.values import OneOf, bare, convert, takes

Section = TypeVar("Section")
Variant = TypeVar("Variant", bound=Struct)


def nearest(key: str, known: Iterable[str]) -> str:
    """Return the advice that follows the name of a key that does not exist.

    Examples
    --------
    >>> nearest("ronds", ["rounds", "seed"])
    "did you mean 'rounds'? Valid: rounds, seed"
    """
    names = sorted(known)
    if not names:
        return "it takes no keys; leave the section out"
    closest = difflib.get_close_matches(str(key), names, n=1, cutoff=0.0)
    return f"did you mean {closest[0]!r}? Valid: {', '.join(names)}"


def _require_keys(
    document: Document,
    name: str,
    table: Mapping[str, object],
    keys: Mapping[str, Key],
    tag: str = "",
) -> None:
    """Reject a table that has an unknown key."""
    valid = {*keys, tag} if tag else set(keys)
    renamed = {key.former_name: key.name for key in keys.values()}
    for key in table:
        if key in valid:
            continue
        place, within = _inside(name, key), f" in {name}" if name else ""
        if key in renamed:
            raise document.error(place, f"{place} is now called {renamed[key]}")
        raise document.error(place, f"no key {key!r}{within}; {nearest(key, valid)}")


def read_section(
    document: Document, section: Callable[..., Section], name: str, **fixed: object
) -> Section:
    """Read one section of a document."""
    return _made(document, section, name, document.tables.get(name, {}), fixed)


def read_variant(
    document: Document,
    variants: Sequence[type[Variant]],
    name: str,
    *,
    needs_tag: bool = False,
    **fixed: object,
) -> Variant:
    """Read a section whose tag selects one of several Structs."""
    table = _table(document, name, document.tables.get(name, {}))
    known = tags_of(variants)
    tag = str(variants[0].__struct_config__.tag_field)
    if tag not in table:  # perhaps it is misspelt: other keys must not be blamed
        every = {key.name: key for one in variants for key in keys_of(one).values()}
        open_keys = {key: one for key, one in every.items() if key not in fixed}
        _require_keys(document, name, table, open_keys, tag)
        if needs_tag:
            raise document.error(name, _missing(tag, name, OneOf(known).takes))
    first = next(iter(known))
    place = _inside(name, tag)
    chosen = read_value(document, Annotated[str, OneOf(known)], place, table.get(tag, first))
    return _made(document, known[chosen], name, table, fixed, tag)


def read_tables(document: Document, section: type[Section], name: str) -> tuple[Section, ...]:
    """Read the sections of a list of tables, `[[name]]`; there must be at least one."""
    return _tables(document, section, name, document.tables.get(name, []))


def read_keys(
    document: Document,
    section: Callable[..., Any],
    name: str,
    table: object,
    fixed: Collection[str] = (),
    tag: str = "",
) -> dict[str, Any]:
    """Read the keys of a table without calling the section."""
    keys = {key: one for key, one in keys_of(section).items() if key not in fixed}
    given = _table(document, name, table)
    _require_keys(document, name, given, keys, tag)
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
    """Read the value of one key."""
    section = section_in(annotated)
    if section is not None:
        several = get_origin(bare(annotated)[0]) is tuple
        return (_tables if several else _made)(document, section, key, value)
    try:
        return convert(value, annotated)
    except ValueError:
        problem = f"{key} is {show(value)}; it takes {takes(annotated)}"
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
            kind = bare(get_type_hints(section, include_extras=True)[part])[0]
            whole[part] = kind(**given)
        return section(**whole)
    except BadInput as error:
        blamed = next((key for key in found if key in str(error).partition(";")[0].split()), "")
        raise document.error(_inside(name, blamed), f"{name or document.name}: {error}") from error


def _tables(
    document: Document, section: type[Section], name: str, value: object
) -> tuple[Section, ...]:
    if not isinstance(value, list) or not value:
        problem = f"there are no [[{name}]]; give at least one such section"
        if value:
            problem = f"{name} is {show(value)}; it takes sections [[{name}]]"
        raise document.error(name, problem)
    return tuple(_made(document, section, f"{name}.{n}", one) for n, one in enumerate(value, 1))


def _table(document: Document, name: str, table: object) -> Mapping[str, Any]:
    if not isinstance(table, Mapping):
        problem = f"{name} is {show(table)}; it takes a section of keys and values"
        raise document.error(name, problem)
    return table


def _inside(name: str, key: str) -> str:
    return f"{name}.{key}" if name and key else name or key
