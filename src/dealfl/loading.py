"""Packages whose names are loaded when they are first used."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def load_when_used(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package.

    Parameters
    ----------
    package : str
        Name of the package.
    homes : mapping of str to tuple of str
        Names that each module of the package has.

    Returns
    -------
    callable
        Function from a name to the object of that name.
    """
    modules = {name: f"{package}.{module}" for module, names in homes.items() for name in names}

    def load(name: str) -> Any:  # noqa: ANN401
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return load
