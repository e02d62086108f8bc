"""Kill −9 before every change of a database or a file: the live model stays exact.

A failpoint is every statement of SQL that does not only read, and every call of the operating
system that is not known to be harmless. A profiler sees them all, so that a new one is tested too.
"""

import itertools
import os
import shutil
import signal
import sqlite3
import sys
import warnings
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from dealfl.erasure import owner_hash
from dealfl.memory import PagedStorage, paged
from dealfl.messages import Erase
from dealfl.statistics import Statistics
from dealfl.worker import Journal, Memory, WorkerKeys
from tests.federation.parts import KEY, assignment, delta_of, learned_statistics
from tests.worker.test_resident_model import MAKERS, records, require_equal, started

HARMLESS = {
    "close", "fdatasync", "fspath", "fstat", "getpid", "listdir", "lstat", "posix_fadvise", "pread",
    "scandir", "stat", "urandom",
}  # fmt: skip
ERASED = "owner 3"


class Fate:
    """A profiler that kills its process, as kill −9 does, at the n-th failpoint."""

    def __init__(self, number: int) -> None:
        self._left = number

    def __call__(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and _is_failpoint(function, frame):
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def _is_failpoint(function: Any, frame: FrameType) -> bool:
    if isinstance(function.__self__, sqlite3.Connection):
        return not str(frame.f_locals.get("sql", "")).startswith("SELECT")
    return function.__module__ == "posix" and function.__name__ not in HARMLESS


def _open(path: Path) -> Journal:
    def connect(where: str, **options: Any) -> sqlite3.Connection:
        return sqlite3.connect(where, factory=Unsynchronized, **options)

    return Journal(path, journal_id="mark", connect=connect)


class Unsynchronized(sqlite3.Connection):
    """kill −9 leaves the kernel's cache alone, so nothing needs to reach the disk."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        return super().execute(sql.replace("synchronous = FULL", "synchronous = OFF"), *values)

    def executemany(self, sql: str, *values: Any) -> sqlite3.Cursor:
        return super().executemany(sql, *values)


def _live(folder: Path, name: str, keys: WorkerKeys, number: int) -> None:
    """Start a worker; learn, evict and erase."""
    journal, draw = _open(folder / "j.db"), np.random.default_rng(number)
    one = started(name, journal, keys=keys)
    one.ingest(records(name, draw, 12 if number < 3 else 3))
    one.handle([assignment(number)], float(number))
    gone = owner_hash(KEY, ERASED)
    one.handle([Erase(job="job", worker="", request=f"r{number}", owners=(gone,))], float(number))
    journal.close()


def _is_killed(folder: Path, name: str, keys: WorkerKeys, failpoint: int) -> bool:
    """Let a process live, and return whether it reached its failpoint."""
    with warnings.catch_warnings(action="ignore"):  # pytest may have threads of its own
        child = os.fork()
    if child == 0:
        try:
            sys.setprofile(Fate(failpoint))
            _live(folder, name, keys, 3)
            sys.setprofile(None)
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), "the process failed"
    return status != 0


def _check(folder: Path, name: str, keys: WorkerKeys) -> None:
    """Require that a new process has an exact model, and has posted what it holds."""
    journal = _open(folder / "j.db")
    one = started(name, journal, keys=keys)
    require_equal(one, journal, name)
    nothing = Statistics.zero(MAKERS[name]().schema)
    posted = sum((delta_of(outgoing.update) for outgoing in journal.outbox()), nothing)
    assert posted == learned_statistics(journal, MAKERS[name])
    journal.close()


def _frames(name: str, folder: Path) -> Memory:
    """Return 30 % of the pages of a model."""
    with paged(folder, frames=1) as storage:
        model = MAKERS[name]()
        type(model)(**model.settings, storage=storage)
        return Memory(frames=max(1, int(0.3 * storage.pages)))


@pytest.mark.parametrize(
    ("name", "is_paged"),
    [
        ("tikhonov", False),
        ("naive_bayes", False),
        ("personalized_pagerank", True),
        ("neighbors", True),
    ],
)
def test_killed_at_every_failpoint_the_model_is_that_of_what_the_worker_holds(
    name: str, is_paged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = PagedStorage.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "sync", lambda file: None)
    memory = _frames(name, tmp_path / "pages") if is_paged else None
    keys = WorkerKeys(model="resident", memory=memory, validation_share=0.1)
    before = tmp_path / "before"
    before.mkdir()
    for number in (1, 2):
        _live(before, name, keys, number)
    for failpoint in itertools.count(1):
        folder = tmp_path / str(failpoint)
        shutil.copytree(before, folder)
        killed = _is_killed(folder, name, keys, failpoint)
        _check(folder, name, keys)
        shutil.rmtree(folder)
        if not killed:
            break
    assert failpoint > 40, "hardly any failpoint was found"
