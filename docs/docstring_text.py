"""Docstrings and signatures as Markdown."""

from __future__ import annotations

import inspect
import re
import textwrap
from enum import Enum
from pathlib import Path
from typing import Any

from numpydoc.docscrape import NumpyDocString  # type: ignore[import-untyped]

from dealfl.settings import keys_of

__all__ = ["described", "first_line", "signature_of"]

_WIDTH = 92
_LISTED = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns")
_PLAIN = ("Notes", "References", "Examples")


def first_line(one: object) -> str:
    """Return the summary of a docstring, fit for a cell of a table.

    >>> first_line(first_line)
    'Return the summary of a docstring, fit for a cell of a table.'
    """
    return " ".join(_parsed(one)["Summary"]).replace("|", "\\|")


def _parsed(one: object) -> Any:  # noqa: ANN401 - numpydoc has no types
    return NumpyDocString(inspect.getdoc(one) or "")


def described(one: object) -> str:
    """Return a docstring: summary and text, then the sections, each as a list."""
    doc = _parsed(one)
    parts = [" ".join(doc["Summary"]), _text(doc["Extended Summary"])]
    keys = _keys(one, {name for listed in doc["Parameters"] for name in listed.name.split(", ")})
    parts += [keys] if keys and not doc["Parameters"] else []
    for section in _LISTED:
        if doc[section]:
            rows = [_item(*one) for one in doc[section]]
            more = f"\n{keys}" if section == "Parameters" and keys else ""
            parts.append(f"**{section}**\n\n" + "\n".join(rows) + more)
    parts += [f"**{section}**\n\n{_text(doc[section])}" for section in _PLAIN if _any(doc[section])]
    return "\n\n".join(part for part in parts if part.strip())


def _any(lines: list[str]) -> bool:
    return any(map(str.strip, lines))


def _item(name: str, kind: str, lines: list[str]) -> str:
    """Return a parameter with its type and meaning; what is returned may have no name."""
    word = f"`{name}`" if name else ""
    words = " ".join(filter(None, (word, f"*{_escaped(kind)}*" if kind else "")))
    text = " ".join(line.strip() for line in lines if line.strip())
    return f"- {words}: {text}" if text else f"- {words}"


def _escaped(kind: str) -> str:
    return kind.replace("*", "\\*").replace("_", "\\_")


def _keys(one: object, without: set[str]) -> str:
    """Return the parameters that are keys of settings, as their annotations describe them."""
    if not isinstance(one, type):
        return ""
    try:
        keys = keys_of(one)
    except (NameError, TypeError, ValueError):
        return ""
    rows = [
        f"- `{key.name}` *{_escaped(key.takes)}*: {key.description}"
        for key in keys.values()
        if key.description and key.name not in without
    ]
    return "" if not rows else "\n".join(rows) if without else "**Keys**\n\n" + "\n".join(rows)


def _text(lines: list[str]) -> str:
    """Return paragraphs; what is typed at a prompt becomes a block of code."""
    paragraphs = re.split(r"\n\s*\n", textwrap.dedent("\n".join(lines)).strip("\n"))
    return "\n\n".join(map(_paragraph, paragraphs))


def _paragraph(text: str) -> str:
    before, prompt, code = text.partition(">>> ")
    if not prompt:
        return f"```text\n{textwrap.dedent(text)}\n```" if text.startswith("    ") else text
    block = textwrap.dedent(f"```python\n{textwrap.dedent(prompt + code)}\n```")
    return f"{before.rstrip()}\n\n{block}" if before.strip() else block


def signature_of(name: str, one: Any, method: bool = False) -> str:  # noqa: ANN401
    """Return how something is called, as a block of code; the types are among the parameters.

    >>> print(signature_of("signature_of", signature_of))
    ```python
    signature_of(name, one, method=False)
    ```
    """
    if isinstance(one, type) and _kind(one):
        return f"*{_kind(one)}*"
    try:
        parameters = list(inspect.signature(one).parameters.values())
    except ValueError:
        return ""
    words = _arguments(parameters[1:] if method else parameters)
    line = f"{name}({', '.join(words)})"
    if len(line) > _WIDTH:
        filled = textwrap.fill(", ".join(words), _WIDTH - 4, break_on_hyphens=False)
        line = f"{name}(\n{textwrap.indent(filled, '    ')}\n)"
    return f"```python\n{line}\n```"


def _kind(one: type) -> str:
    """Return what a class is that nobody calls, or whose call takes a message; else ''."""
    kinds = {Enum: "enumeration", BaseException: "exception"}
    found = (word for base, word in kinds.items() if issubclass(one, base))
    return next(found, "protocol" if getattr(one, "_is_protocol", False) else "")


def _arguments(parameters: list[inspect.Parameter]) -> list[str]:
    words: list[str] = []
    starred = False
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and not starred:
            words.append("*")
        starred = starred or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        stars = "*" * (one.kind is one.VAR_POSITIONAL) + "**" * (one.kind is one.VAR_KEYWORD)
        default = "" if one.default is one.empty else f"={_default(one.default)}"
        words.append(f"{stars}{one.name}{default}")
    return words


def _default(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.name)
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    if isinstance(value, Path):
        return repr(str(value))
    return "()" if value == () else str(getattr(value, "__name__", "…"))
