"""A crash before every write of a short run, for each learner, and for a region: all ends exact.

Server and worker live in one process that is forked, and ends before its n-th change of a file, for
every n. What is on disk is then opened again, and whoever lives says what is left to say.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dealfl.erasure import owner_hash
from dealfl.learners import Histories, Rows
from dealfl.protocol.messages import Message, Step
from dealfl.server import FromParent, Ledger, Region, Rules, Server
from dealfl.server.selection import Everyone
from dealfl.worker import Journal, State, Worker
from tests.federation import crashing_files
from tests.federation.parts import KEY, FixedMeter, learned_statistics
from tests.federation.test_chaos import MAKERS
from tests.federation.trees import UPWARD

ERASED = "ann"
MAX_WRITES = 1000
REGION = "naive_bayes"  # the learner of a region


def rows_of(learner: str, first: int, count: int) -> list[tuple[str, bytes]]:
    owners = (ERASED, "bob", "carol")
    numbers = range(first, first + count)
    if learner == "personalized_pagerank":
        return [(owners[n % 3], Histories.encode(n % 12)) for n in numbers]
    target = 0.5 if learner == "tikhonov" else "a"
    return [(owners[n % 3], Rows.encode([0.0, 0.25 * (n % 4), 1.0], target)) for n in numbers]


class Unsynchronized(sqlite3.Connection):
    """A connection that does not wait for the disk: kill −9 leaves the kernel's cache alone."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        return super().execute(sql.replace("synchronous = FULL", "synchronous = OFF"), *values)


Make = Callable[[Path, ExitStack], "Pair | Trio"]


def pair_of(learner: str) -> Make:
    return lambda folder, stack: Pair(folder, learner, stack)


CONNECT = partial(sqlite3.connect, factory=Unsynchronized)


class Pair:
    """A server and a worker on files in a folder."""

    def __init__(self, folder: Path, learner: str, stack: ExitStack) -> None:
        make = MAKERS[learner]
        self.learner = learner
        ledger = Ledger(folder / "ledger.db", kept_rounds=1, connect=CONNECT)  # thinned each round
        self.ledger = stack.enter_context(closing(ledger))
        self.journal = stack.enter_context(closing(Journal(folder / "journal.db", connect=CONNECT)))
        rules = Rules(rounds=10**6, ttl_s=20.0, publish_every_s=0.0)
        self.server = Server("job", make, self.ledger, rules, Everyone())
        self.worker = Worker(
            "job", "w", make, self.journal, FixedMeter(), key=KEY, forget_fraction="0.4",
            retry_after_s=10.0,
        )  # fmt: skip

    def prepare(self) -> None:
        """Begin what the run continues."""
        self.worker.ingest(rows_of(self.learner, 0, 6), (1, b"6"))
        self.talk(0.0)

    def talk(self, now_s: float, times: int = 4) -> None:
        step = self.worker.handle((), now_s)
        for _ in range(times):
            back = self.server.handle(step.messages, now_s)
            step = self.worker.handle(back.messages, now_s)

    def erase(self, now_s: float) -> Step:
        return self.server.erase("r", [owner_hash(KEY, ERASED)], now_s)

    def run(self) -> None:
        """Learn, evict, erase."""
        self.worker.ingest(rows_of(self.learner, 6, 3), (1, b"9"))
        self.talk(100.0, times=3)
        step = self.worker.handle(self.erase(110.0).messages, 110.0)
        self.server.handle(step.messages, 110.0)

    def recover(self) -> None:
        """Read what was not read, ask again, and say what is left to say."""
        if self.journal.positions() != {1: b"9"}:
            self.worker.ingest(rows_of(self.learner, 6, 3), (1, b"9"))
        self.erase(200.0)
        for turn in range(5):
            self.worker.reconnect()
            self.talk(210.0 + 30.0 * turn)

    def check(self) -> None:
        row = self.server.workers["w"]
        assert row.incarnation == 1, f"a receipt was not true: {row.flag}"
        assert not self.journal.outgoing, "an update was never counted"
        assert row.counted == self.journal.state.sequence
        held = learned_statistics(self.journal, MAKERS[self.learner])
        assert self.ledger.find_sum("w") == held == self.server.model.statistics
        assert self.journal.count(State.WAITING) == 0
        assert not any(self.journal.records_of([owner_hash(KEY, ERASED)]).values())
        assert self.server.reader.count_erasures()[0] == row.forgotten == 1


class Trio:
    """A root, a region and its worker on files in a folder."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        make = MAKERS[REGION]
        ledgers = [
            stack.enter_context(closing(Ledger(folder / name, kept_rounds=1, connect=CONNECT)))
            for name in ("root.db", "region.db")
        ]
        self.journal = stack.enter_context(closing(Journal(folder / "journal.db", connect=CONNECT)))
        rules = Rules(rounds=10**6, ttl_s=20.0, publish_every_s=0.0, regions=("r",))
        self.root = Server("job", make, ledgers[0], rules, Everyone())
        self.region = Region(
            "job", "r", make, ledgers[1], replace(rules, regions=()), Everyone(),
            retry_after_s=10.0,
        )  # fmt: skip
        self.region.meet(self.root.path, self.root.schema_digest)
        self.worker = Worker(
            "job", "w", make, self.journal, FixedMeter(), key=KEY, forget_fraction="0.4",
            retry_after_s=10.0,
        )  # fmt: skip

    def prepare(self) -> None:
        self.worker.ingest(rows_of(REGION, 0, 6), (1, b"6"))
        self.talk(0.0)

    def talk(self, now_s: float, *of_root: Message, times: int = 8) -> None:
        """Carry messages; of those that a region sends, a parent takes what a worker sends."""
        given: list[Any] = [FromParent(message) for message in of_root]
        for _ in range(times):
            given += self.worker.handle(self.below, now_s).messages
            said = self.region.handle(given, now_s).messages
            self.below = [m for m in said if not isinstance(m, UPWARD)]
            upward = [m for m in said if isinstance(m, UPWARD)]
            given = [FromParent(m) for m in self.root.handle(upward, now_s).messages]

    below: Sequence[Message] = ()

    def erase(self, now_s: float) -> Sequence[Message]:
        return self.root.erase("r", [owner_hash(KEY, ERASED)], now_s).messages

    def run(self) -> None:
        self.worker.ingest(rows_of(REGION, 6, 3), (1, b"9"))
        self.talk(100.0, times=4)
        self.talk(110.0, *self.erase(110.0), times=5)

    def recover(self) -> None:
        if self.journal.positions() != {1: b"9"}:
            self.worker.ingest(rows_of(REGION, 6, 3), (1, b"9"))
        order = self.erase(200.0)
        for turn in range(5):
            self.worker.reconnect()
            self.talk(210.0 + 30.0 * turn, *order)

    def check(self) -> None:
        held = learned_statistics(self.journal, MAKERS[REGION])
        assert held == self.region.model.statistics == self.root.model.statistics
        for server, name in ((self.root, "r"), (self.region, "w")):
            row = server.workers[name]
            assert row.incarnation == 1, f"a receipt was not true: {row.flag}"
            assert (row.forgotten, row.flag) == (1, "")
        assert not self.journal.outgoing, "an update was never counted"
        assert self.region.problem == ""
        assert self.root.reader.count_erasures() == (1, 1)
        removed, claimed = self.root.reader.count_deleted("r")
        assert (removed, claimed) == self.region.reader.count_deleted("r")
        assert 0 < removed <= claimed  # what was evicted, or not learned yet, left no sum
        assert self.root.reader.answering_devices("r") == {"r": 1}


def run_until_write(folder: Path, make: Make, number: int) -> bool:
    """Run in another process that is killed before its n-th change; return whether it was."""
    pid = os.fork()
    if pid == 0:
        left = [number]

        def count() -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            crashing_files.install(count)
            with ExitStack() as stack:
                make(folder, stack).run()
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
    return os.WIFSIGNALED(status)


def crash_at(numbers: Iterable[int], make: Make, folder: Path) -> int:
    """Crash before each of some writes; return the number of the last that was reached."""
    (folder / "start").mkdir()
    with ExitStack() as stack:
        make(folder / "start", stack).prepare()
    last = 0
    for number in numbers:
        copy = folder / str(number)
        shutil.copytree(folder / "start", copy)
        killed = run_until_write(copy, make, number)
        with ExitStack() as stack:
            federation = make(copy, stack)
            federation.recover()
            federation.check()
        shutil.rmtree(copy)
        if not killed:
            break
        last = number
    return last


@pytest.mark.parametrize("learner", sorted(MAKERS))
def test_a_crash_at_a_write_of_a_short_run_ends_exact(learner: str, tmp_path: Path) -> None:
    first = 1 + sorted(MAKERS).index(learner)
    assert crash_at(range(first, MAX_WRITES, 31), pair_of(learner), tmp_path) > 100


def test_a_crash_at_a_write_of_a_short_run_of_a_region_ends_exact(tmp_path: Path) -> None:
    assert crash_at(range(5, MAX_WRITES, 97), Trio, tmp_path) > 100


@pytest.mark.soak
def test_a_crash_at_every_write_of_a_short_run_of_a_region_ends_exact(tmp_path: Path) -> None:
    assert 100 < crash_at(range(1, MAX_WRITES), Trio, tmp_path) < MAX_WRITES - 1


@pytest.mark.soak
@pytest.mark.parametrize("learner", sorted(MAKERS))
def test_a_crash_at_every_write_of_a_short_run_ends_exact(learner: str, tmp_path: Path) -> None:
    last = crash_at(range(1, MAX_WRITES), pair_of(learner), tmp_path)
    assert 100 < last < MAX_WRITES - 1, "every write of the run was tried"
