"""Twins: a function in numpy, and the same function as a loop that numba compiles.

The numpy function stands in a file beside `loops.py` and is decorated with `twin`; the loop of the
same name and signature stands in `loops.py`. Callers call the numpy function; which of the two runs
is decided here, for the process as a whole:

- Importing numba and reading the cache takes about 0.5 s, so a process starts with numpy. After
  0.4 s of CPU time in numpy functions that have a twin, their loops are loaded. Another process
  compiles those that are not in the cache; each takes over when it is ready. (A thread would
  disturb this one: compiling changes the filters of warnings, and a fork would have to wait.)
- A run that knows its plan calls `prefer_loops` at its start if it is long.
- The environment variable `DEALFL_NUMBA` decides otherwise: `always` uses loops from the first
  call, `never` not at all. Without numba, and where it cannot cache a loop, there is only numpy.
- Compiled loops are kept in the user's cache folder (`NUMBA_CACHE_DIR` names another one), by the
  content of their source: every installation of the same version finds them. A process that has
  loops compiled for more than a second logs one line.

Statistics are the same bit for bit; floats computed from them, such as the weights of a ridge model
that follows single rows, agree up to rounding.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from functools import cache, wraps
from hashlib import sha256
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from select import select
from threading import Timer
from time import perf_counter, thread_time
from typing import IO, Any, ParamSpec, TypeVar, cast

import numpy as np

Loop = TypeVar("Loop", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")

_LOG = logging.getLogger("dealfl.exact")  # without handlers, warnings go to the error output

_ENOUGH_S = 0.4  # of CPU time in numpy functions that have a twin
_LOOK_EVERY_S = 0.05
_SILENT_S = 1.0  # of compiling
_IDLE_S = 2.0  # after which the process that compiles ends


@dataclass
class _Choice:
    """Which twin runs: "auto", "always" or "never"; and what was done with numpy so far."""

    mode: str
    spent_s: float = 0.0
    wait_until_s: float = 0.0  # a loop is being compiled
    compiler: _Compiler | None = None
    has_told: bool = False  # that loops are being compiled


CHOICE = _Choice(os.environ.get("DEALFL_NUMBA", "auto") if find_spec("numba") else "never")


def prefer_loops() -> None:
    """Use compiled loops, for a process that is known to have much to do."""
    if CHOICE.mode == "auto":
        CHOICE.mode = "always"


class _Compiler:
    """A process that compiles loops into numba's cache, one after the other.

    It ends when it has been idle for a while, and may outlive this process, for the next one.
    """

    def __init__(self) -> None:
        code = f"from {__name__} import _compile_requests; _compile_requests()"
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.set_blocking(self._out.fileno(), False)
        self._done = b""
        self._tell_from_s = perf_counter() + _SILENT_S

    @property
    def _out(self) -> IO[bytes]:
        return cast(IO[bytes], self._process.stdout)

    def compile(self, module: str, name: str, given: tuple[Any, ...]) -> None:
        """Have a loop compiled for the types of some arguments."""
        request = json.dumps([module, name, list(map(_describe, given))])
        os.write(cast(IO[bytes], self._process.stdin).fileno(), request.encode() + b"\n")

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def has_done(self, module: str, name: str) -> bool:
        """Whether the process has compiled a loop, or failed to, or has ended."""
        has_ended = self.has_ended
        self._done += self._out.read() or b""
        if has_ended or f"{module} {name}\n".encode() in self._done:
            return True
        if perf_counter() > self._tell_from_s:
            _tell("another process compiles loops while this one works in numpy")
        return False

    def leave(self) -> None:
        """Let the process end by itself."""
        self._process.returncode = 0
        self._out.close()
        cast(IO[bytes], self._process.stdin).close()


class _Twin:
    """A numpy function and its loop, which is None until it has been loaded."""

    def __init__(self, plain: Callable[..., Any]) -> None:
        self.plain = plain
        self.loop: Callable[..., Any] | None = None
        self.is_requested = False
        self.failed = False

    def run_plain(self, given: tuple[Any, ...]) -> Any:  # noqa: ANN401
        """Call the numpy function, and have the loop loaded if the process has worked enough."""
        start_s = thread_time()
        result = self.plain(*given)
        CHOICE.spent_s += thread_time() - start_s
        if CHOICE.spent_s > _ENOUGH_S and not self.failed and perf_counter() > CHOICE.wait_until_s:
            self._load_soon(given)
        return result

    def _load_soon(self, given: tuple[Any, ...]) -> None:
        """Load the loop from numba's cache, which another process fills if it has to."""
        if not self.is_requested and not self._is_cached():
            self._request(given)
        elif CHOICE.compiler is None or CHOICE.compiler.has_done(self.module, self.plain.__name__):
            self.load(given)
        else:
            CHOICE.wait_until_s = perf_counter() + _LOOK_EVERY_S

    def _request(self, given: tuple[Any, ...]) -> None:
        try:
            if CHOICE.compiler and CHOICE.compiler.has_ended:
                _leave_compiler()
            CHOICE.compiler = CHOICE.compiler or _Compiler()
            CHOICE.compiler.compile(self.module, self.plain.__name__, given)
            self.is_requested = True
        except (OSError, TypeError):  # no process is left, or a kind that cannot be described
            self.failed = True

    def _is_cached(self) -> bool:
        loops = Path(self.plain.__code__.co_filename).with_name("loops.py")
        version = "py{}{}".format(*sys.version_info)
        pattern = f"loops.{self.plain.__name__}-*.{version}*.nbi"
        return any(any(folder.glob(pattern)) for folder in _cache_folders(loops))

    @property
    def module(self) -> str:
        """The module of the loop."""
        return self.plain.__module__.rpartition(".")[0] + ".loops"

    def load(self, given: tuple[Any, ...]) -> None:
        """Read the loop for the types of some arguments from numba's cache, or compile it."""
        late = Timer(_SILENT_S, _tell, ["compiling loops"])
        late.daemon = True
        late.start()
        try:
            self.loop = _compile(self.module, self.plain.__name__, given)
        except Exception:
            self.failed = True
        finally:
            late.cancel()


def _compile(module: str, name: str, given: Iterable[Any]) -> Callable[..., Any]:
    """Return a loop compiled for the types of some arguments; no two processes compile it at once.

    The second process reads what the first compiled.
    """
    loop: Any = getattr(import_module(module), name)
    types = tuple(map(import_module("numba").typeof, given))
    with Path(loop.stats.cache_path, f"{name}.lock").open("wb") as file:
        flock(file, LOCK_EX)
        loop.compile(types)
    return cast(Callable[..., Any], loop)


def _tell(what: str) -> None:
    """Log that loops are being compiled, once a process."""
    if not CHOICE.has_told:
        CHOICE.has_told = True
        _LOG.warning("%s (once on this machine; kept in %s)", what, _user_cache())


# -- the cache on disk ----------------------------------------------------------------------------


def _user_cache() -> Path:
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(given)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "dealfl" / "loops"
    cache_home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache_home, "dealfl", "loops")


@cache
def _cache_folders(loops: Path) -> list[Path]:
    """Return where the compiled loops of a file may be: in the user's cache, or beside the file."""
    sources = [file for file in (loops, loops.with_name("plain.py")) if file.exists()]
    content = sha256(metadata.version("numba").encode())
    for file in sources:  # numba itself does not see that a constant of `plain` changed
        content.update(file.read_bytes())
    name = f"{loops.parent.name}-{content.hexdigest()[:16]}"
    return [_user_cache() / name, loops.parent / "__pycache__" / name]


class _Place:
    """Where numba keeps a loop: the first folder that can be written."""

    def __init__(self, folder: Path, line: int, file: str) -> None:
        self._folder, self._line, self._py_file = folder, line, file

    @classmethod
    def from_function(cls, loop: Callable[..., Any], file: str) -> _Place | None:
        """Return the place of a loop of a file, or None if no folder can be written."""
        for folder in _cache_folders(Path(file)):
            with suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                if os.access(folder, os.W_OK):
                    return cls(folder, loop.__code__.co_firstlineno, file)
        return None

    def ensure_cache_path(self) -> None:
        """Create the folder if it was deleted."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        """Return the folder."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """Return what changes with the source: the name of the folder."""
        return self._folder.name

    def get_disambiguator(self) -> str:
        """Return what tells loops of the same name apart."""
        return str(self._line)


@cache
def _loop_cache() -> Any:  # noqa: ANN401
    """Return numba's cache of a function, with our folders."""
    caching: Any = import_module("numba.core.caching")
    parts = {"_locator_classes": [_Place]}
    return type(
        "LoopCache",
        (caching.FunctionCache,),
        {"_impl_class": type("LoopFiles", (caching.CompileResultCacheImpl,), parts)},
    )


# -- twins ----------------------------------------------------------------------------------------

_twins: list[_Twin] = []


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
            pair.load(given)
        if pair.loop is None:
            return pair.run_plain(given)  # type: ignore[no-any-return]
        try:
            return pair.loop(*given)  # type: ignore[no-any-return]
        except (OSError, RuntimeError):  # it cannot be compiled for arguments of other types
            pair.loop = None
            pair.failed = True
            return plain(*given, **none)

    return run


@atexit.register
def _leave_compiler() -> None:
    if CHOICE.compiler:
        CHOICE.compiler.leave()
    CHOICE.compiler = None


def _start_after_fork() -> None:
    """Leave the compiler, and telling about it, to the parent."""
    CHOICE.has_told = CHOICE.has_told or CHOICE.compiler is not None
    _leave_compiler()
    for pair in _twins:
        pair.is_requested = False


os.register_at_fork(after_in_child=_start_after_fork)


def _describe(value: object) -> list[Any]:
    """Return the kind of an argument as values for JSON."""
    if isinstance(value, np.ndarray):
        flags = value.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        return ["array", value.dtype.str, value.ndim, layout, bool(flags.writeable)]
    if isinstance(value, np.generic):
        return ["scalar", value.dtype.str]
    if type(value) in (bool, int, float):
        return ["plain", type(value)()]
    raise TypeError(f"an argument of type {type(value).__name__} has no description")


def _make(kind: str, *rest: Any) -> Any:  # noqa: ANN401
    """Return an argument of a described kind."""
    if kind == "plain":
        return rest[0]
    if kind == "scalar":
        return np.dtype(rest[0]).type()
    dtype, dimensions, layout, writeable = rest
    array = np.zeros((4,) * dimensions, dtype, order="F" if layout == "F" else "C")
    array = array[(slice(None, None, 2),) * dimensions] if layout == "A" else array
    array.setflags(write=writeable)
    return array


def _compile_requests() -> None:
    """Compile the loops that the lines of stdin name, and say when each is done."""
    os.nice(5)
    requests = os.fdopen(0, "rb", buffering=0)  # a buffer would hide lines from select
    while select([requests], [], [], _IDLE_S)[0] and (line := requests.readline()):
        module, name, kinds = json.loads(line)
        with suppress(Exception):
            _compile(module, name, [_make(*kind) for kind in kinds])
        with suppress(OSError):  # the process that asked has ended
            os.write(1, f"{module} {name}\n".encode())


def compile_loop(loop: Loop, *, reorder: bool = False) -> Loop:
    """Return a function compiled by numba at its first call; the result is cached on disk.

    Floats of a loop with `reorder` can be added in any order and without rounding their products.
    """
    numba: Any = import_module("numba")
    freedom = {"reassoc", "nsz", "contract"} if reorder else False
    compiled = numba.njit(nogil=True, error_model="numpy", fastmath=freedom)(loop)
    compiled._cache = _loop_cache()(loop)
    return cast(Loop, compiled)
