"""Values and keys as TOML writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WIDTH = 90


def toml_key(name: str) -> str:
    """Return a key as TOML writes it: quoted where necessary.

    Examples
    --------
    >>> toml_key("rooms"), toml_key("Größe in m²")
    ('rooms', '"Größe in m²"')
    """
    return name if _BARE.fullmatch(name) else toml_value(name)


def toml_value(value: object) -> str:
    """Return a value as TOML writes it.

    Examples
    --------
    >>> toml_value(True), toml_value(2.5), toml_value(["a", 'b "c"'])
    ('true', '2.5', '["a", "b \\\\"c\\\\""]')
    """
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Sequence):
        return _list([toml_value(part) for part in value])
    return str(value) if isinstance(value, Decimal) else repr(value)


def _list(parts: list[str]) -> str:
    line = f"[{', '.join(parts)}]"
    if len(line) <= _WIDTH:
        return line
    lines, current = [], ""
    for part in parts:
        if current and len(current) + len(part) > _WIDTH:
            lines.append(current.rstrip())
            current = ""
        current += f"{part}, "
    return "[\n  " + "\n  ".join([*lines, current.rstrip()]) + "\n]"


def toml_document(tables: Mapping[str, Any], prefix: str = "") -> str:
    """Return tables as a TOML document: values first, then the tables inside.

    Examples
    --------
    >>> print(toml_document({"job": {"rounds": 3}, "devices": [{"count": 1}]}), end="")
    [job]
    rounds = 3
    <BLANKLINE>
    [[devices]]
    count = 1
    """
    values = {name: value for name, value in tables.items() if not _is_table(value)}
    lines = [f"{toml_key(name)} = {toml_value(value)}" for name, value in values.items()]
    parts = ["\n".join(lines) + "\n"] if lines else []
    for name, value in tables.items():
        key = f"{prefix}{toml_key(name)}"
        if isinstance(value, Mapping):
            parts.append(f"[{key}]\n{toml_document(value, f'{key}.')}")
        elif _is_table(value):
            parts += [f"[[{key}]]\n{toml_document(one, f'{key}.')}" for one in value]
    return "\n".join(parts)


def _is_table(value: object) -> bool:
    listed = isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)
    return isinstance(value, Mapping) or listed
