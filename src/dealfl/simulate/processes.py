"""Simulations in several processes: forked, so that they share the examples in memory.

All processes are forked at the start, while this one is small, and wait for their turn. They end
with this process, whatever ends it. Where the system cannot fork, there are none.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any

from dealfl.errors import BadInput, DealError
from dealfl.simulate.outcome import Outcome, Progress

Task = Callable[[Callable[[Progress], None]], Outcome]

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
_POLL_S = 0.2
_SHOW_EVERY_S = 0.5


def require_processes(count: int) -> int:
    """Return a number of processes."""
    if count < 1:
        raise BadInput(f"processes is {count}; it must be a whole number ≥ 1")
    return count


class Processes:
    """Simulations by name; at most `count` run at the same time, fewer if memory is short.

    Examples
    --------
    >>> with Processes({}, count=2, keep=print) as processes:
    ...     "original" in processes
    False
    """

    def __init__(
        self, tasks: Mapping[str, Task], count: int, keep: Callable[[dict[str, Outcome]], None]
    ) -> None:
        self._count, self._keep = require_processes(count), keep
        self._outcomes: dict[str, Outcome] = {}
        self._errors: dict[str, DealError] = {}
        self._progress: dict[str, Progress] = {}
        self._waiting: dict[str, Connection] = {}
        self._running: dict[str, Connection] = {}
        self._forked: dict[str, BaseProcess] = {}
        if sys.platform == "linux" and count > 1 and not multiprocessing.current_process().daemon:
            for name, task in tasks.items():
                self._fork(name, task)

    def _fork(self, name: str, task: Task) -> None:
        context = multiprocessing.get_context("fork")
        here, there = context.Pipe()
        self._forked[name] = context.Process(target=_perform, args=(task, there), daemon=True)
        self._forked[name].start()
        there.close()
        self._waiting[name] = here

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        try:
            if isinstance(error, DealError):
                self.stop()
        finally:
            for process in self._forked.values():
                process.kill()
                process.join()

    def __contains__(self, name: str) -> bool:
        return name in self._forked

    def poll(self, *, busy: int = 0, timeout_s: float = 0.0) -> None:
        """Start processes whose turn it is, and take what they have sent."""
        while self._waiting and self._has_room(busy):
            name = next(iter(self._waiting))
            self._running[name] = self._waiting.pop(name)
            self._running[name].send(True)
        names = {connection: name for name, connection in self._running.items()}
        for ready in wait(list(names), timeout_s):
            self._take(names[ready])  # type: ignore[index]

    def _has_room(self, busy: int) -> bool:
        running = busy + len(self._running)
        return not running or (running < self._count and _available_bytes() > 2 * _own_bytes())

    def _take(self, name: str) -> None:
        """Take a message of a task, or note that it has ended or was killed."""
        try:
            message: Any = self._running[name].recv()
        except (EOFError, OSError):
            self._running.pop(name).close()
            return
        if isinstance(message, Progress):
            self._progress[name] = message
        elif isinstance(message, Outcome):
            self._outcomes[name] = message
            self._keep(dict(self._outcomes))
        else:
            self._errors[name] = message

    def finish(
        self, name: str, show: Callable[[Progress], None], stopped: Callable[[], bool]
    ) -> None:
        """Wait until a task has ended, was killed, perhaps for lack of memory, or is to stop."""
        while (name in self._waiting or name in self._running) and not stopped():
            self.poll(timeout_s=_POLL_S)
            if name in self._progress:
                show(self._progress.pop(name))
        if name in self._errors and not stopped():
            raise self._errors[name]

    def stop(self) -> None:
        """Let all tasks save their state and end; take what they still send."""
        for name, process in self._forked.items():
            process.terminate() if name in self._running else process.kill()
        self._waiting.clear()
        while self._running:
            self.poll(timeout_s=_POLL_S)


def _perform(task: Task, connection: Connection) -> None:
    """Wait for the turn of a task, perform it, and send its outcome or error."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    _stop_once()
    connection.recv()
    shown_s = 0.0

    def show(progress: Progress) -> None:
        nonlocal shown_s
        late = time.monotonic() > shown_s + _SHOW_EVERY_S
        if late and select.select([], [connection], [], 0)[1]:  # else nobody reads at the moment
            connection.send(progress)
            shown_s = time.monotonic()

    try:
        message: object = task(show)
    except DealError as error:
        message = error
    connection.send(message)


def _stop_once() -> None:
    """Leave Ctrl-C to the parent, which asks for a stop by SIGTERM, and heed the first of these."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop = signal.getsignal(signal.SIGTERM)
    if not callable(stop):
        return

    def stop_first(number: int, frame: FrameType | None) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        stop(number, frame)

    signal.signal(signal.SIGTERM, stop_first)


def _available_bytes() -> float:
    """Return the memory that new processes can use."""
    lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    sizes = dict(line.split(":") for line in lines)
    return 1024.0 * float(sizes["MemAvailable"].removesuffix("kB"))


def _own_bytes() -> float:
    """Return the memory of this process, without what it shares with files."""
    _, resident, shared, *_ = map(int, Path("/proc/self/statm").read_text("ascii").split())
    return float((resident - shared) * os.sysconf("SC_PAGE_SIZE"))
