"""Twins: a function in numpy, and the same function as a loop that numba compiles.

The numpy function stands in a file beside `loops.py` and is decorated with `twin`; the loop of the
same name and signature stands in `loops.py`. Callers call the numpy function; which of the two runs
is decided here, for the process as a whole:

- Importing numba and reading its cache takes about a second, so a process starts with numpy. After
  0.2 s in numpy functions that have a twin, loops are loaded in a thread, and compiled there where
  the cache does not have them; each takes over when it is ready.
- A run that knows its plan calls `prefer_loops` at its start if it is long.
- The environment variable `DEALFL_NUMBA` decides otherwise: `always` uses loops from the first
  call, `never` not at all. Without numba, there is only numpy.

Statistics are the same bit for bit; floats computed from them, such as the weights of a ridge model
that follows single rows, agree up to rounding.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import Any, ParamSpec, TypeVar, cast

__all__ = ["CHOICE", "compile_loop", "is_compiled", "prefer_loops", "twin"]

Loop = TypeVar("Loop", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")

_ENOUGH_S = 0.2  # in numpy functions that have a twin
_ENOUGH = 60_000_000  # elementary steps: about a second of numpy
_CALL = 400  # steps in the time that numpy needs for a few calls with small arrays


@dataclass
class _Choice:
    """Which twin runs: "auto", "always" or "never"; and what was done with numpy so far."""

    mode: str
    spent_s: float = 0.0
    steps: int = 0


CHOICE = _Choice(os.environ.get("DEALFL_NUMBA", "auto") if find_spec("numba") else "never")
_loading = threading.Lock()  # held while a thread imports numba or compiles: no fork meanwhile


def prefer_loops() -> None:
    """Use compiled loops, for a process that is known to have much to do."""
    if CHOICE.mode == "auto":
        CHOICE.mode = "always"


class _Twin:
    """One function and its loop, which is None until it can be called without waiting."""

    def __init__(self, plain: Callable[..., Any]) -> None:
        self.plain, self.loop = plain, cast(Callable[..., Any] | None, None)
        self.requested = False

    def find(self) -> Callable[..., Any]:
        """Return the loop; numba compiles it when it is called."""
        module = import_module(self.plain.__module__.rpartition(".")[0] + ".loops")
        return cast(Callable[..., Any], getattr(module, self.plain.__name__))

    def run_plain(self, given: tuple[Any, ...]) -> Any:  # noqa: ANN401
        """Call the numpy function, and load the loop if the process has worked for long enough."""
        start_s = perf_counter()
        result = self.plain(*given)
        CHOICE.spent_s += perf_counter() - start_s
        if CHOICE.spent_s > _ENOUGH_S and not self.requested:
            self.requested = True
            threading.Thread(target=self._load, args=(given,), name="dealfl-loops").start()
        return result

    def _load(self, given: tuple[Any, ...]) -> None:
        with _loading:
            if not threading.main_thread().is_alive():
                return  # the process ends
            with suppress(Exception):  # numpy goes on with the work
                numba: Any = import_module("numba")
                loop: Any = self.find()
                loop.compile(tuple(map(numba.typeof, given)))
                self.loop = loop


def twin(plain: Callable[P, R]) -> Callable[P, R]:
    """Let the compiled loop of the same name run instead of a numpy function, once that pays.

    Parameters
    ----------
    plain : callable
        Function of positional arguments, in numpy.

    Returns
    -------
    callable
        The function that decides.
    """
    pair = _Twin(plain)

    @wraps(plain)
    def run(*given: P.args, **none: P.kwargs) -> R:
        mode = CHOICE.mode
        if mode != "never" and pair.loop is not None:
            return cast(R, pair.loop(*given))
        if mode == "always":
            pair.loop = pair.find()
            return cast(R, pair.loop(*given))
        return cast(R, pair.run_plain(given) if mode == "auto" else plain(*given, **none))

    return run


def _forget_lock() -> None:
    global _loading
    _loading = threading.Lock()


os.register_at_fork(
    before=lambda: _loading.acquire(), after_in_parent=lambda: _loading.release(),
    after_in_child=_forget_lock,
)  # fmt: skip


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
