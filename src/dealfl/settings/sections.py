"""Sections of a document: their keys, the check of the values, and the reference of all keys.

An error names the line, the key, the value and the valid values.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from dealfl.errors import BadInput
from dealfl.settings.document import Document, toml_value
from dealfl.settings.values import OneOf, bare, convert, takes

Section = TypeVar("Section")
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
    keys: dict[str, Key] = {}
    hints = get_type_hints(_declaring(section), include_extras=True)
    for name, parameter in inspect.signature(section).parameters.items():
        hint = hints.get(name)
        kind, notes = bare(hint)
        if FLAT in notes:
            inner = keys_of(kind).values()
            keys |= {key.name: Key(key.name, key.type, key.default, name) for key in inner}
        elif notes:
            keys[name] = Key(name, hint, parameter.default)
    return keys


def _declaring(section: Callable[..., Any]) -> Any:  # noqa: ANN401
    if isinstance(section, type) and not issubclass(section, Struct):
        return section.__init__
    return section


def tags_of(variants: Iterable[type[Variant]]) -> dict[str, type[Variant]]:
    """Return tagged Structs by their tags, in the given order."""
    return {str(variant.__struct_config__.tag): variant for variant in variants}


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
    plain = {}
    for name, value in values.items():
        if name in keys:
            try:
                plain[name] = convert(value, keys[name].type)
            except ValueError:
                problem = f"{name} is {show(value)}; it takes {keys[name].takes}"
                raise BadInput(problem) from None
    return plain


def normalise(struct: Struct) -> None:
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


KEY_HEAD = "| key | takes | default | meaning |\n|---|---|---|---|"


def key_cells(section: Callable[..., Any]) -> dict[str, tuple[str, str, str]]:
    """Return what each key of a section takes, its default, and its meaning."""
    keys = keys_of(section).values()
    return {key.name: (key.takes, _default(key), key.description) for key in keys}


def key_rows(section: Callable[..., Any]) -> dict[str, str]:
    """Return the keys of a section as rows of a Markdown table, without their names."""
    return {key: f"{' | '.join(cells)} |" for key, cells in key_cells(section).items()}


def key_table(title: str, section: Callable[..., Any], without: Collection[str]) -> str:
    """Return the keys of a section as a Markdown table."""
    first = (section.__doc__ or "").partition("\n")[0]
    lines = [f"#### {title}\n\n{first}\n"]
    rows = [f"| `{key}` | {row}" for key, row in key_rows(section).items() if key not in without]
    return "\n".join([*lines, KEY_HEAD, *rows, ""] if rows else lines)


def nested_sections(
    title: str, section: Callable[..., Any]
) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield a section with its title, then the sections inside it."""
    yield title, section
    for key in keys_of(section).values():
        inner = section_in(key.type)
        if inner is not None:
            yield from nested_sections(f"{title}: {key.name}", inner)


def _default(key: Key) -> str:
    if key.is_required:
        return "required"
    try:
        return f"`{toml_value(convert(key.default, key.type))}`"
    except (TypeError, ValueError):
        return "none"


def nearest(key: str, valid: Iterable[str]) -> str:
    """Return the advice that follows the name of a key that does not exist.

    Examples
    --------
    >>> nearest("ronds", ["rounds", "seed"])
    "did you mean 'rounds'? Valid: rounds, seed"
    >>> nearest("owner", ["rounds", "seed"])
    'valid: rounds, seed'
    """
    names = sorted(valid)
    if not names:
        return "it takes no keys; leave the section out"
    closest = difflib.get_close_matches(str(key), names, n=1)
    meant = f"did you mean {closest[0]!r}? Valid" if closest else "valid"
    return f"{meant}: {', '.join(names)}"


def _require_keys(
    document: Document,
    name: str,
    table: Mapping[str, object],
    keys: Mapping[str, Key],
    tag: str,
) -> None:
    """Reject a table that has an unknown key."""
    valid = {*keys, tag} if tag else set(keys)
    for key in table:
        if key in valid:
            continue
        within = f" in {name}" if name else ""
        problem = f"no key {key!r}{within}; {nearest(key, valid)}"
        raise document.error(_inside(name, key), problem)


def read_section(
    document: Document, section: Callable[..., Section], name: str, **fixed: object
) -> Section:
    """Read one section of a document."""
    return _made(document, section, name, document.tables.get(name, {}), fixed)


def read_table(document: Document, name: str) -> Mapping[str, Any]:
    """Return the keys and values of a section as they are given; none if it is missing."""
    return _table(document, name, document.tables.get(name, {}))


def read_variant(
    document: Document,
    variants: Sequence[type[Variant]],
    name: str,
    *,
    needs_tag: bool = False,
    **fixed: object,
) -> Variant:
    """Read a section whose tag selects one of several Structs."""
    table = read_table(document, name)
    variant_of = tags_of(variants)
    tag = str(variants[0].__struct_config__.tag_field)
    if tag not in table:  # perhaps it is misspelt: other keys must not be blamed
        every = {key.name: key for variant in variants for key in keys_of(variant).values()}
        open_keys = {key: declared for key, declared in every.items() if key not in fixed}
        _require_keys(document, name, table, open_keys, tag)
        if needs_tag:
            raise document.error(name, _missing(tag, name, OneOf(variant_of).takes))
    first = next(iter(variant_of))
    tag_key = _inside(name, tag)
    chosen = read_value(document, Annotated[str, OneOf(variant_of)], tag_key, table.get(tag, first))
    return _made(document, variant_of[chosen], name, table, fixed, tag)


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
    keys = {key: declared for key, declared in keys_of(section).items() if key not in fixed}
    given = _table(document, name, table)
    _require_keys(document, name, given, keys, tag)
    values = {
        key: read_value(document, keys[key].type, _inside(name, key), value)
        for key, value in given.items()
        if key != tag
    }
    for key, declared in keys.items():
        if key not in given and declared.is_required:
            raise document.error(name, _missing(key, name, declared.takes))
    return values


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
    values = read_keys(document, section, name, table, fixed or {}, tag)
    whole: dict[str, Any] = dict(fixed or {})
    parts: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        part = keys_of(section)[key].part
        (parts.setdefault(part, {}) if part else whole)[key] = value
    try:
        for part, given in parts.items():
            kind = bare(get_type_hints(section, include_extras=True)[part])[0]
            whole[part] = kind(**given)
        return section(**whole)
    except BadInput as error:
        blamed = next((key for key in values if key in str(error).partition(";")[0].split()), "")
        raise document.error(_inside(name, blamed), f"{name or document.name}: {error}") from error


def _tables(
    document: Document, section: type[Section], name: str, value: object
) -> tuple[Section, ...]:
    if not isinstance(value, list) or not value:
        problem = f"there are no [[{name}]]; give at least one such section"
        if value:
            problem = f"{name} is {show(value)}; it takes sections [[{name}]]"
        raise document.error(name, problem)
    return tuple(_made(document, section, f"{name}.{n}", table) for n, table in enumerate(value, 1))


def _table(document: Document, name: str, table: object) -> Mapping[str, Any]:
    if not isinstance(table, Mapping):
        problem = f"{name} is {show(table)}; it takes a section of keys and values"
        raise document.error(name, problem)
    return table


def _inside(name: str, key: str) -> str:
    return f"{name}.{key}" if name and key else name or key
