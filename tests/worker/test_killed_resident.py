"""Kill −9 before every change of a database or a file: the live model stays exact.

A failpoint is every statement of SQL that does not only read, and every call of the operating
system that is not known to be harmless. A profiler sees them all, so that a new one is tested too.
kill −9 leaves what the kernel was given, so the files of a process that is killed there are a copy
of the folder at that moment: one life is enough for all failpoints.
"""

import shutil
import sqlite3
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from dealfl.erasure import owner_hash
from dealfl.exact import PagedStorage, Statistics, paged
from dealfl.protocol.messages import Erase
from dealfl.worker import Journal, Memory, WorkerKeys
from tests.federation.parts import KEY, assignment, delta_of, learned_statistics
from tests.worker.test_resident_model import MAKERS, records, require_equal, started

HARMLESS = {
    "close", "fdatasync", "fspath", "fstat", "getpid", "listdir", "lstat", "posix_fadvise", "pread",
    "scandir", "stat", "urandom",
}  # fmt: skip
ERASED = "owner 3"


class Copies:
    """A profiler that copies a folder at every failpoint."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.made = folder, list[Path]()

    def __call__(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and _is_failpoint(function, frame):
            to = self._folder.with_name(f"failpoint {len(self.made)}")
            shutil.copytree(self._folder, to)
            self.made.append(to)


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


def _check(folder: Path, name: str, keys: WorkerKeys) -> None:
    """Require that a new process has an exact model, and has posted what it holds."""
    journal = _open(folder / "j.db")
    one = started(name, journal, keys=keys)
    require_equal(one, journal, name)
    nothing = Statistics.zero(MAKERS[name]().schema)
    posted = sum((delta_of(journal.read_update(number)) for number in journal.outgoing), nothing)
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
    folder = tmp_path / "life"
    folder.mkdir()
    for number in (1, 2):
        _live(folder, name, keys, number)
    copies = Copies(folder)
    sys.setprofile(copies)
    try:
        _live(folder, name, keys, 3)
    finally:
        sys.setprofile(None)
    for killed in [*copies.made, folder]:
        _check(killed, name, keys)
    assert len(copies.made) > 40, "hardly any failpoint was found"
