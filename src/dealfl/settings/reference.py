"""The key reference: tables of keys, generated from the sections."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from dealfl.settings.keys import Key, keys_of, section_in
from dealfl.settings.toml_text import toml_value
from dealfl.settings.values import convert

__all__ = ["key_table", "key_tables"]


def key_table(title: str, section: Callable[..., Any], without: Collection[str] = ()) -> str:
    """Return the keys of a section as a Markdown table.

    Parameters
    ----------
    title
        Heading of the table.
    section
        Struct, function or class that declares the keys; its first docstring line is the
        introduction.
    without
        Names of keys to leave out.

    Returns
    -------
    str
        Heading, introduction and table.
    """
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
    """Yield the key table of a section, then the tables of the sections inside it.

    Parameters
    ----------
    title
        Heading of the first table; inner tables append the name of their key.
    section
        Struct, function or class that declares the keys.

    Yields
    ------
    str
        Heading, introduction and table of one section.
    """
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
