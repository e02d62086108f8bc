"""The pages of the Python API, made from signatures and numpydoc docstrings."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from types import ModuleType
from typing import Any, get_origin

from checks.docstrings import modules_of, public_methods, public_names
from docs.docstring_text import described, first_line, signature_of

__all__ = ["api_pages"]

Homes = dict[int, tuple[str, str]]  # by id of an object: module and name
_MADE = "<!-- made by `make docs` from the docstrings; do not edit -->"
_HEAD = f"""\
# Python API

{_MADE}

Every public name: what it takes, returns and raises. Start with [dealfl](dealfl.md); the other
packages are its parts. `help(name)` shows the same in Python.

| package | contents |
|---|---|
"""


def api_pages() -> dict[str, str]:
    """Return the pages by name: an index, and one page for each part of the package.

    >>> sorted(api_pages())[:2]
    ['README.md', 'atomic_files.md']
    """
    modules = list(modules_of(importlib.import_module("dealfl")))
    homes = _homes(modules)
    parts: dict[str, list[ModuleType]] = {}
    for module in modules:
        if module.__all__ and module.__name__ != "dealfl.cli":
            parts.setdefault(_part(module.__name__), []).append(module)
    rows = [f"| [{_title(part)}]({part}.md) | {first_line(parts[part][0])} |" for part in parts]
    pages = {"README.md": _HEAD + "\n".join(rows) + "\n"}
    return pages | {f"{part}.md": _page(parts[part], homes) for part in parts}


def _part(module: str) -> str:
    """Return the name of a page: that of the package directly in dealfl."""
    return module.split(".")[1] if "." in module else module


def _title(part: str) -> str:
    return part if part == "dealfl" else f"dealfl.{part}"


def _homes(modules: list[ModuleType]) -> Homes:
    """Return the module that describes each object, and the name it has there."""
    homes: Homes = {}
    for module in sorted(modules, key=lambda one: one.__name__.count("."), reverse=True):
        for name, one in public_names(module).items():
            own = f"{one.__module__}.".startswith(f"{module.__name__}.")
            if own and (module.__name__ != "dealfl" or id(one) not in homes):
                homes.setdefault(id(one), (module.__name__, name))
    return homes


def _page(modules: list[ModuleType], homes: Homes) -> str:
    parts = [f"# {_title(_part(modules[0].__name__))}", _MADE]
    for module in modules:
        if module is not modules[0]:
            parts.append(f"# {module.__name__}")
        parts += _module(module, homes)
    return "\n\n".join(parts) + "\n"


def _module(module: ModuleType, homes: Homes) -> Iterator[str]:
    yield described(module)
    names = public_names(module)
    rows = [_row(name, getattr(module, name), names, homes, module) for name in _sorted(module)]
    if rows:
        yield "\n".join(["| name | |", "|---|---|", *rows])
    for name in _sorted(module):
        if name in names and homes.get(id(names[name]), ("", ""))[0] == module.__name__:
            yield from _object(name, names[name], homes, _part(module.__name__))


def _sorted(module: ModuleType) -> list[str]:
    return sorted((name for name in module.__all__ if name[0] != "_"), key=str.lower)


def _row(name: str, one: object, names: dict[str, Any], homes: Homes, at: ModuleType) -> str:
    if name not in names:
        return f"| `{name}` | {_constant(one)} |"
    return f"| {_link(one, name, homes, _part(at.__name__))} | {first_line(one)} |"


def _constant(one: object) -> str:
    if get_origin(one) is not None or inspect.isclass(one):
        return "type alias"
    kind = type(one).__name__.lstrip("_")
    plain = isinstance(one, int | float | str) and not isinstance(one, Enum)
    return f"constant: `{one!r}`" if plain else f"constant: {kind}"


def _link(one: object, name: str, homes: Homes, page: str) -> str:
    home, known = homes.get(id(one), ("", name))
    file = "" if _part(home) == page or not home else f"{_part(home)}.md"
    return f"[`{name}`]({file}#{known.lower()})" if home else f"`{name}`"


def _object(name: str, one: object, homes: Homes, page: str) -> Iterator[str]:
    yield f"## {name}"
    if not isinstance(one, type):
        yield signature_of(name, one)
        yield described(one)
        return
    bases = [base for base in one.__mro__[1:] if id(base) in homes]
    if bases:
        yield f"Inherits from {', '.join(_link(b, b.__name__, homes, page) for b in bases)}."
    yield signature_of(name, one)
    yield described(one)
    inherited = {method for base in bases for method in vars(base)}
    own = {
        method: kind
        for method, kind in public_methods(one).items()
        if method in vars(one) or method not in inherited
    }
    yield from _methods(name, own)


def _methods(owner: str, methods: dict[str, Any]) -> Iterator[str]:
    properties = {
        name: one for name, one in methods.items() if isinstance(one, property | cached_property)
    }
    if properties:
        rows = [f"| `{name}` | {first_line(one)} |" for name, one in properties.items()]
        yield "\n".join(["| property | |", "|---|---|", *rows])
    for name, one in methods.items():
        if name not in properties:
            plain = getattr(one, "__func__", one)
            yield f"### {owner}.{name}"
            yield signature_of(f"{owner}.{name}", plain, method=not isinstance(one, staticmethod))
            yield described(plain)
