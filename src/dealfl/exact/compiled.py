"""Loops compiled by numba, where it is installed; otherwise numpy does the same work.

Importing numba and reading its cache takes about a second. So a process uses numpy until it
has enough to do. The environment variable `DEALFL_NUMBA` decides otherwise: `always` compiles from
the start, `never` not at all. Statistics are the same bit for bit; floats computed from them, such
as the weights of a ridge model that follows single rows, agree up to rounding.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar, cast

__all__ = ["CHOICE", "compile_loop", "is_compiled"]

Loop = TypeVar("Loop", bound=Callable[..., Any])

_ENOUGH = 60_000_000  # elementary steps: about a second of numpy
_CALL = 400  # steps in the time that numpy needs for a few calls with small arrays


@dataclass
class _Choice:
    """Whether this process uses compiled loops ("auto", "always", "never"), and steps without."""

    mode: str
    steps: int = 0


CHOICE = _Choice(os.environ.get("DEALFL_NUMBA", "auto") if find_spec("numba") else "never")


def is_compiled(steps: int) -> bool:
    """Return whether a loop of some elementary steps is to run compiled.

    Parameters
    ----------
    steps : int
        Number of elementary steps, for example additions.

    Returns
    -------
    bool
        True if numba is installed and the process has had enough to do.
    """
    if CHOICE.mode == "auto":
        CHOICE.steps += steps + _CALL
        if CHOICE.steps < _ENOUGH:
            return False
        CHOICE.mode = "always"
    return CHOICE.mode == "always"


def compile_loop(loop: Loop, *, reorder: bool = False) -> Loop:
    """Return a function compiled by numba at its first call; the result is cached on disk.

    Parameters
    ----------
    loop : callable
        Function of arrays and numbers.
    reorder : bool, default False
        Whether floats can be added in any order and without rounding their products.

    Returns
    -------
    callable
        The compiled function.
    """
    numba: Any = import_module("numba")
    freedom = {"reassoc", "nsz", "contract"} if reorder else False
    options = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": freedom}
    return cast(Loop, numba.njit(**options)(loop))
