"""Twins: a function in numpy, and the same function as a loop that numba compiles.

The numpy function stands in a file beside `loops.py` and is decorated with `twin`; the loop of the
same name and signature stands in `loops.py`. Callers call the numpy function; which of the two runs
is decided here, for the process as a whole:

- Importing numba and reading its cache takes about a second, so a process starts with numpy. After
  0.2 s in numpy functions that have a twin, a thread loads their loops, and compiles those that are
  not in the cache; each takes over when it is ready.
- A run that knows its plan calls `prefer_loops` at its start if it is long.
- The environment variable `DEALFL_NUMBA` decides otherwise: `always` uses loops from the first
  call, `never` not at all. Without numba, and where it cannot cache a loop, there is only numpy.

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

Loop = TypeVar("Loop", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")

_ENOUGH_S = 0.2  # in numpy functions that have a twin


@dataclass
class _Choice:
    """Which twin runs: "auto", "always" or "never"; and what was done with numpy so far."""

    mode: str
    spent_s: float = 0.0


CHOICE = _Choice(os.environ.get("DEALFL_NUMBA", "auto") if find_spec("numba") else "never")


def prefer_loops() -> None:
    """Use compiled loops, for a process that is known to have much to do."""
    if CHOICE.mode == "auto":
        CHOICE.mode = "always"


class _Twin:
    """A numpy function and its loop, which is None until it has been compiled once."""

    def __init__(self, plain: Callable[..., Any]) -> None:
        self.plain = plain
        self.loop: Callable[..., Any] | None = None
        self.requested = False
        self.failed = False

    def run_plain(self, given: tuple[Any, ...]) -> Any:  # noqa: ANN401
        """Call the numpy function, and have the loop loaded if the process has worked enough."""
        start_s = perf_counter()
        result = self.plain(*given)
        CHOICE.spent_s += perf_counter() - start_s
        if CHOICE.spent_s > _ENOUGH_S and not (self.requested or self.failed):
            self.requested = True
            thread = threading.Thread(target=self._load_later, args=(given,), name="dealfl-loops")
            with suppress(RuntimeError):  # no threads are left, or the process ends
                thread.start()
        return result

    def _load_later(self, given: tuple[Any, ...]) -> None:
        with _loading:
            if threading.main_thread().is_alive():  # a process that ends waits for one loop at most
                self.load(given)

    def load(self, given: tuple[Any, ...]) -> None:
        """Compile the loop for the types of some arguments, or read it from numba's cache."""
        try:
            module = import_module(self.plain.__module__.rpartition(".")[0] + ".loops")
            loop: Any = getattr(module, self.plain.__name__)
            loop.compile(tuple(map(import_module("numba").typeof, given)))
            self.loop = loop
        except Exception:
            self.failed = True


_twins: list[_Twin] = []
_loading = threading.Lock()  # held while a loop is loaded: no fork meanwhile


def twin(plain: Callable[P, R]) -> Callable[P, R]:
    """Let the compiled loop of the same name run instead of a numpy function, once that pays.

    The loop returns what the numpy function returns, for positional arguments.
    """
    pair = _Twin(plain)
    _twins.append(pair)

    @wraps(plain)
    def run(*given: P.args, **none: P.kwargs) -> R:
        mode = CHOICE.mode
        if mode == "never":
            return plain(*given, **none)
        if pair.loop is None and mode == "always" and not pair.failed:
            with _loading:
                pair.load(given)
        if pair.loop is None:
            return cast(R, pair.run_plain(given))
        try:
            return cast(R, pair.loop(*given))
        except (OSError, RuntimeError):  # it cannot be compiled for arguments of other types
            pair.loop = None
            pair.failed = True
            return plain(*given, **none)

    return run


def _start_child() -> None:
    """Begin again in a forked process, in which no thread loads what was requested."""
    global _loading
    _loading = threading.Lock()
    for pair in _twins:
        pair.requested = False


# Modules that numba imports lock something of their own before a fork. Handlers run in the reverse
# order of their registration: if they came first, the thread would wait for what a fork has locked.
for _name in ("logging", "concurrent.futures.thread"):
    import_module(_name)
os.register_at_fork(
    before=lambda: _loading.acquire(),
    after_in_parent=lambda: _loading.release(),
    after_in_child=_start_child,
)


def compile_loop(loop: Loop, *, reorder: bool = False) -> Loop:
    """Return a function compiled by numba at its first call; the result is cached on disk.

    Floats of a loop with `reorder` can be added in any order and without rounding their products.
    """
    numba: Any = import_module("numba")
    freedom = {"reassoc", "nsz", "contract"} if reorder else False
    options = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": freedom}
    return cast(Loop, numba.njit(**options)(loop))
