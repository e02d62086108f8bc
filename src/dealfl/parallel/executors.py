"""Calls on an executor: any object with the interface of `concurrent.futures.Executor`.

Processes of this machine, loky, and Dask's `Client.get_executor()` have it. Results come as they
are ready. Dask makes the calls of a lost worker again itself; an executor that is lost as a whole
is replaced if a function that makes another one was given instead of an executor.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from importlib import import_module
from itertools import chain, islice
from typing import Any, TypeVar, cast

from dealfl.errors import BadInput, DealError, Incompatible, argument, needs_extra

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")
AnyExecutor = Executor | Callable[[], Executor]
"""An executor, or a function that makes one: such an executor is replaced when it is lost."""

_SCHEME = "dask://"
_IN_FLIGHT = 256  # calls at a time, on an executor that does not tell its number of workers
_TRIES = 3  # executors in a row that are lost before a call of theirs has ended


class ExecutorLost(DealError):
    """An executor has died; what it had returned before is not lost."""


def call_each(
    executor: AnyExecutor,
    function: Callable[..., Result],
    calls: Iterable[tuple[Key, tuple[Any, ...]]],
) -> Iterator[tuple[Key, Result]]:
    """Make calls on an executor; yield the key and the result of each, in the order they end.

    Arguments are taken as there is room for them. An error of a call is raised; others are then
    cancelled.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> dict(call_each(ThreadPoolExecutor, len, [("a", ([1, 2],)), ("b", ([],))]))
    {'a': 2, 'b': 0}
    """
    given: dict[Key, tuple[Any, ...]] = {}  # calls that have not ended
    left, tries = iter(calls), _TRIES
    while tries:
        again, given = list(given.items()), {}
        try:
            with _opened(executor) as opened:
                for key, result in _call_each(opened, function, chain(again, left), given):
                    tries = _TRIES
                    yield key, result
            tries = 0
        except ExecutorLost:
            tries -= 1
            if _given(executor) or not tries:
                raise


def _given(executor: AnyExecutor) -> Executor | None:
    """Return an executor as it is; None for a function or class that makes one."""
    submits = hasattr(executor, "submit") and not isinstance(executor, type)
    return cast(Executor, executor) if submits else None


@contextmanager
def _opened(executor: AnyExecutor) -> Iterator[Executor]:
    if (given := _given(executor)) is not None:
        yield given  # its owner shuts it down
        return
    if not callable(executor):
        raise _no_executor(executor)
    made = executor()
    if not hasattr(made, "submit"):
        raise _no_executor(executor)
    try:
        yield made
    finally:
        made.shutdown(wait=False, cancel_futures=True)


def _no_executor(given: object) -> BadInput:
    return BadInput(
        f"{argument('executor', str(given))}; it takes an object with `submit`, such as "
        "ProcessPoolExecutor() or Dask's Client(…).get_executor(), or a function that makes one"
    )


def _call_each(
    executor: Executor,
    function: Callable[..., Result],
    calls: Iterable[tuple[Key, tuple[Any, ...]]],
    given: dict[Key, tuple[Any, ...]],
) -> Iterator[tuple[Key, Result]]:
    """Make calls on one executor; `given` has the arguments of those that have not ended."""
    running: dict[Future[Result], Key] = {}
    room, ticket, left = 2 * getattr(executor, "_max_workers", _IN_FLIGHT), uuid.uuid4().hex, 0
    calls = iter(calls)
    try:
        while True:
            for key, arguments in islice(calls, room - len(running)):
                given[key] = arguments
                left += 1
                running[_submit(executor, f"{ticket}-{left}", function, arguments)] = key
            if not running:
                return
            for future in wait_for(running, return_when=FIRST_COMPLETED).done:
                result = _result(future)
                key = running.pop(future)
                del given[key]
                yield key, result
    finally:
        for future in running:
            future.cancel()


def _submit(
    executor: Executor, ticket: str, function: Callable[..., Result], given: tuple[Any, ...]
) -> Future[Result]:
    try:
        return executor.submit(_call, ticket, _version(), function, *given)
    except Exception as error:
        if (explained := _explained(error)) is error:
            raise
        raise explained from error


def _call(ticket: str, version: str, function: Callable[..., Result], *given: Any) -> Result:  # noqa: ANN401
    """Make a call where it runs; the ticket tells Dask that equal calls are different ones."""
    del ticket
    if version != _version():
        raise Incompatible(
            f"a worker of the executor has dealfl {_version()}, this process {version}; "
            "install the same version for both"
        )
    return function(*given)


def _version() -> str:
    return str(import_module("dealfl").__version__)


def _result(future: Future[Result]) -> Result:
    try:
        return future.result()
    except (Exception, CancelledError) as error:
        if (explained := _explained(error)) is error:
            raise
        raise explained from error


def _explained(error: BaseException) -> BaseException:
    """Return an error of the executor in our words; one of the called function as it is."""
    text = f"{error} {error.__cause__ or ''}"
    if isinstance(error, BrokenExecutor | CancelledError):
        return ExecutorLost(
            f"the executor has died ({type(error).__name__}): a process was killed, perhaps for "
            "lack of memory, or could not start (a script needs `if __name__ == '__main__':`)"
        )
    if "No module named 'dealfl'" in text:
        return DealError(
            f"the executor cannot import dealfl: install dealfl {_version()} where its scheduler "
            "and its workers run"
        )
    if "pickle" in text and not isinstance(error, DealError):
        return BadInput(
            f"a call cannot be sent to another process: {error}; use functions of a module instead "
            "of lambdas, or an executor that sends them (loky, Dask)"
        )
    if type(error).__module__.startswith("distributed.") or "after shutdown" in text:
        return ExecutorLost(f"the executor takes no calls ({type(error).__name__}): {error}")
    return error


@contextmanager
def open_executor(address: str) -> Iterator[Executor | None]:
    """Yield the executor of an address, `dask://HOST:PORT`; None for an empty address."""
    if not address:
        yield None
        return
    host = address.removeprefix(_SCHEME)
    name, _, port = host.rpartition(":")
    if host == address or not (name and port.isdecimal()):
        raise BadInput(f"{argument('executor', address)}; it takes {_SCHEME}HOST:PORT")
    with needs_extra("dask", argument("executor")):
        dask = import_module("distributed")
    try:
        client: Any = dask.Client(f"tcp://{host}", timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:  # a TimeoutError is an OSError
        raise DealError(f"no Dask scheduler answers at {address}: {error}") from error
    with client:
        yield client.get_executor()
