"""Calls on executors: all results, also when an executor dies; errors that say what to do."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import dealfl
from dealfl.errors import BadInput, DealError, Incompatible
from dealfl.parallel import ExecutorLost, call_each, executors, open_executor
from tests.executors.fleets import FLEET

FORKED = partial(ProcessPoolExecutor, 2, multiprocessing.get_context("fork"))


def _square(n: int) -> int:
    return n * n


def _die_once(n: int, folder: Path, times: int = 1) -> int:
    """Kill the process of the third call, as often as told."""
    if n == 3 and len(list(folder.iterdir())) < times:
        (folder / str(os.getpid())).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return n * n


def test_results_come_from_every_call_and_arguments_are_taken_as_there_is_room() -> None:
    taken: list[int] = []

    def calls() -> Iterator[tuple[int, tuple[int]]]:
        for n in range(50):
            taken.append(n)
            yield n, (n,)

    with ThreadPoolExecutor(2) as threads:
        results = call_each(threads, _square, calls())
        next(results)
        assert len(taken) < 12
        assert len(list(results)) == 49


def test_an_executor_that_dies_is_made_again(tmp_path: Path) -> None:
    calls = [(n, (n, tmp_path)) for n in range(6)]
    assert dict(call_each(FORKED, _die_once, calls)) == {n: n * n for n in range(6)}
    assert len(list(tmp_path.iterdir())) == 1


def test_a_call_that_kills_each_executor_ends_in_an_error(tmp_path: Path) -> None:
    with pytest.raises(ExecutorLost, match="a process was killed"):
        dict(call_each(FORKED, _die_once, [(3, (3, tmp_path, 99))]))
    assert len(list(tmp_path.iterdir())) == 3


def test_a_given_executor_that_dies_is_reported(tmp_path: Path) -> None:
    with FORKED() as pool, pytest.raises(ExecutorLost, match="has died"):
        dict(call_each(pool, _die_once, [(n, (n, tmp_path)) for n in range(6)]))
    with ThreadPoolExecutor(1) as threads:
        pass
    with pytest.raises(ExecutorLost, match="takes no calls"):
        dict(call_each(threads, _square, [(1, (1,))]))


def test_what_cannot_be_sent_is_refused() -> None:
    with FORKED() as pool, pytest.raises(BadInput, match="cannot be sent to another process"):
        dict(call_each(pool, lambda: 1, [(1, ())]))


class Failing(Executor):
    """An executor whose calls end with an error of its own."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def submit(self, *_: Any, **__: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(self.error)
        return future


KilledWorker = type("KilledWorker", (Exception,), {"__module__": "distributed.scheduler"})


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ModuleNotFoundError("No module named 'dealfl'", name="dealfl"), "cannot import dealfl"),
        (RuntimeError("graph: No module named 'dealfl'"), "cannot import"),
        (KilledWorker("4 died"), "takes no calls"),
    ],
)
def test_errors_of_an_executor_are_explained(error: Exception, told: str) -> None:
    with pytest.raises(DealError, match=told):
        dict(call_each(Failing(error), _square, [(1, (1,))]))


def test_an_error_of_the_call_is_raised_as_it_is() -> None:
    with ThreadPoolExecutor(1) as threads, pytest.raises(ZeroDivisionError):
        dict(call_each(threads, divmod, [(1, (1, 0))]))


def test_a_worker_of_another_version_is_refused() -> None:
    with pytest.raises(Incompatible, match="a worker of the executor has dealfl"):
        executors._call("", "0.0.0", _square, 1)


class Plain:
    """An executor of another package: it has the methods, not the class."""

    def __init__(self) -> None:
        self.calls, self.is_shut = 0, False

    def submit(self, function: Callable[..., Any], *given: Any) -> Future[Any]:
        self.calls += 1
        future: Future[Any] = Future()
        future.set_result(function(*given))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.is_shut = True


def _learned(executor: Any) -> str:
    rows = [[0.5], [0.25], [0.75]]
    parts = [(rows[n : n + 1], [0.5]) for n in range(3)]
    return dealfl.learn(parts, dealfl.Tikhonov(1), executor).digest()


def test_an_executor_need_not_be_a_subclass() -> None:
    given, made = Plain(), list[Plain]()
    assert _learned(given) == _learned(None)
    assert (given.calls, given.is_shut) == (3, False), "its owner shuts it down"

    def make() -> Plain:
        made.append(Plain())
        return made[-1]

    assert _learned(make) == _learned(None)
    assert [(one.calls, one.is_shut) for one in made] == [(3, True)]
    assert _learned(Plain) == _learned(None)


@pytest.mark.parametrize("executor", [5, "dask://x:1", [], object(), dict, lambda: 5, lambda: None])
def test_what_is_no_executor_is_refused(executor: Any) -> None:
    with pytest.raises(BadInput, match=r"executor=.*; it takes an object with `submit`"):
        _learned(executor)


@pytest.mark.parametrize("address", ["ray://x:1", "dask://x", "dask://x:y", "dask://:1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(BadInput, match="it takes dask://HOST:PORT"), open_executor(address):
        pass


def test_an_address_of_no_scheduler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(DealError, match=r"pip install 'dealfl\[dask\]'"),
        open_executor("dask://127.0.0.1:1"),
    ):
        pass
    with open_executor("") as none:
        assert none is None


def test_a_sweep_has_the_same_rows_on_an_executor() -> None:
    vary = {"job.scheme": ["deal", "newfl"]}
    here = dealfl.sweep(FLEET, vary, seeds=2, verbose=False)
    with FORKED() as pool:
        there = dealfl.sweep(FLEET, vary, seeds=2, verbose=False, executor=pool)
        compared = dealfl.compare(FLEET, ["deal", "newfl"], seeds=2, verbose=False, executor=pool)
    assert there.equals(here)
    assert compared.equals(here)


def test_a_stopped_sweep_continues(tmp_path: Path) -> None:
    ran: list[int] = []

    class Stopping(ThreadPoolExecutor):
        def submit(self, *given: Any, **more: Any) -> Future[Any]:
            ran.append(1)
            if len(ran) == 3:
                raise KeyboardInterrupt
            future: Future[Any] = super().submit(*given, **more)
            future.result()
            return future

    whole = dealfl.sweep(FLEET, seeds=4, verbose=False)

    def sweep(**more: Any) -> Any:
        with Stopping(1) as pool:
            return dealfl.sweep(FLEET, seeds=4, verbose=False, out=tmp_path, executor=pool, **more)

    with pytest.raises(dealfl.Interrupted, match="keeps 2 simulations"):
        sweep()
    with pytest.raises(BadInput, match="resume=True"):
        sweep()
    assert len(ran) == 3
    assert sweep(resume=True).equals(whole)
    assert len(ran) == 5, "only two were left"
    assert dealfl.sweep(FLEET, seeds=4, verbose=False, out=tmp_path, resume=True).equals(whole)
    with pytest.raises(BadInput, match="leaves nothing to resume"):
        dealfl.sweep(FLEET, resume=True)
    other = FLEET.with_settings({"arrival.examples_per_hour": 3.0})
    table = dealfl.sweep(other, seeds=4, verbose=False, out=tmp_path, resume=True)
    assert not table.equals(whole), "other settings have other outcomes"
    dealfl.sweep(FLEET, seeds=1, verbose=False, out=tmp_path, restart=True)
    assert len(list(tmp_path.glob("outcomes/*"))) == 1
