"""The key reference: tables of the keys of a section, from the section itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from dealfl.settings.keys import Key, keys_of, section_in
from dealfl.settings.toml_text import toml_value
from dealfl.settings.values import convert

__all__ = ["key_table", "key_tables"]


def key_table(title: str, section: Callable[..., Any], without: Collection[str] = ()) -> str:
    """Return the keys of a section in Markdown, below its title and first line of documentation."""
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
    """Yield the table of a section, then those of the sections inside it."""
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
