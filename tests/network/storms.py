"""A storm: broker, server and workers as processes, killed −9 at random while they work.

The files of the workers grow, and a person is erased meanwhile. Afterwards nothing may be lost and
nothing may count twice: the ledger, the journals and the files must agree.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from dealfl.errors import DealError
from dealfl.exact import Statistics
from dealfl.jobs import Document, plan_without_data, read_job
from dealfl.learners import statistics_of
from dealfl.network import Credentials, write_credentials
from dealfl.server import Ledger, LedgerReader, Server
from dealfl.server.selection import make_selector
from dealfl.worker import Journal, State
from tests.network.brokers import start_broker
from tests.network.forks import CALM_S, Forks, wait_until_calm
from tests.network.growing import ERASED, OTHERS, SOURCE, Growing, erase, hash_erased

JOB = """\
[job]
name = "storm"
learner = "tikhonov"
scheme = "{scheme}"
forget_fraction = "0.1"
rounds = 1000000
workers_per_round = 3
ttl_s = 0.5
retry_after_s = 0.3
publish_every_s = 0.2
{sleep}"""
SLEEP = "sleep = true\nmin_waiting = 3\nmax_wait_s = 1.5\n"
WORKERS = ("w1", "w2", "w3")
SERVER, BROKER, ALL = "server", "broker", "all"
PEOPLE = (ERASED, *OTHERS)

Result = TypeVar("Result")


class Loopback:
    """All processes on this machine."""

    address = "127.0.0.1"
    cuts: tuple[str, ...] = ()  # hosts whose network can be cut

    def on(self, host: str, call: Callable[[], Result]) -> Result:
        """Call a function as if on a host."""
        return call()

    def namespace(self, host: str) -> str:
        """Return the network namespace of a host; empty for that of this process."""
        return ""

    def route(self, credentials: Credentials) -> Credentials:
        """Return credentials by which a worker reaches the broker."""
        return credentials

    def cut(self, host: str, draw: random.Random) -> None:
        """Drop all packets of a host for a while."""


class Storm:
    """One storm in a folder; all its decisions follow from its seed."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        forks: Forks,
        program: str = "hurry",
        network: Loopback | None = None,
        sleeps: bool = False,
    ) -> None:
        self.seed, self._folder, self._forks, self._program = seed, folder, forks, program
        self._network, self._sleeps = network or Loopback(), sleeps
        self._draw = random.Random(seed)
        self.scheme, tls = ("incremental", "deal")[seed % 2], seed % 4 == 3
        self._devices: dict[str, tuple[str, ...]] = {name: (name,) for name in WORKERS}
        if seed % 4 == 2:
            self._devices = {"w1": ("w1",), "w2": ("w2", "w3")}  # the second is a gateway
        self.kills = dict.fromkeys((BROKER, SERVER, "worker", ALL, "network"), 0)
        self._alive: dict[str, int] = {}
        self._versions: dict[int, str] = {}
        self._counted, self._next = 0, list[str]()
        folder.mkdir()
        self._job = folder / "job.toml"
        self._job.write_text(JOB.format(scheme=self.scheme, sleep=SLEEP * sleeps) + SOURCE)
        self._files = Growing(folder / "data", self._draw)
        address = self._network.address
        self._broker = self._network.on(
            BROKER, lambda: start_broker(folder / BROKER, job="storm", tls=tls, host=address)
        )
        self._operator = self._broker.broker.enrol(["operator"], operator=True)[0]
        write_credentials(folder / "server.toml", self._broker.server)
        for name, carried in self._devices.items():
            workers = carried if len(carried) > 1 else ()
            own = self._network.route(self._broker.enrol(name, workers=workers))
            write_credentials(folder / f"{name}.toml", own)
        for name in WORKERS:
            self._files.grow(name, PEOPLE)

    # -- the processes --------------------------------------------------------------------------

    def _start(self, name: str) -> None:
        if name == BROKER:
            self._network.on(BROKER, self._broker.restart)
            return
        single = self._devices.get(name) == (name,)
        data = self._files.path(name) if single else self._files.folder
        more = ["--trust", "operator"] if name == SERVER else ["--data", data]
        self._alive[name] = self._forks.start(
            self._folder / f"{name}.log",
            ["serve" if name == SERVER else "work", self._job,
             "--broker", self._folder / f"{name}.toml", "--out", self._folder / name, *more],
            self._program, self._network.namespace(name),
        )  # fmt: skip

    def _strike(self, victim: str) -> None:
        """Kill a process −9, or all of them, and start it again; or cut the network of a host."""
        kind, _, host = victim.partition(" ")
        self.kills["network" if host else kind if kind in self.kills else "worker"] += 1
        if host:
            self._network.cut(host, self._draw)
            return
        names = [BROKER, *self._alive] if kind == ALL else [kind]
        self._end(names)
        time.sleep(self._draw.choice([0.0, 0.05, 0.4]))
        for name in self._draw.sample(names, len(names)):
            self._start(name)

    def _end(self, names: Iterable[str]) -> None:
        for name in names:
            if name == BROKER:
                self._broker.kill()
            else:
                self._forks.end(self._alive.pop(name))

    # -- the storm ------------------------------------------------------------------------------

    def run(self, kills: int) -> None:
        """Kill so many processes, let the rest of the work be done, compare."""
        try:
            erasing = Thread(target=self._erase, daemon=True)
            for name in (SERVER, *self._devices):
                self._start(name)
            erase_at = self._draw.randrange(kills)
            while sum(self.kills.values()) < kills:
                if sum(self.kills.values()) == erase_at and not erasing.ident:
                    erasing.start()
                self._blow()
            erasing.join()
            wait_until_calm(self._find_missing, self)
        finally:
            self._end([BROKER, *self._alive])
        self.check()

    def _blow(self) -> None:
        self._files.grow(self._draw.choice(WORKERS), PEOPLE)
        time.sleep(self._draw.uniform(0.0, 0.08))
        counted = self._look()
        if counted != self._counted or self._draw.random() < 0.05:  # who does nothing loses nothing
            self._counted = counted
            if not self._next:
                victims = [BROKER, SERVER, SERVER, ALL, *self._devices]
                victims += [f"cut {host}" for host in self._network.cuts]
                self._next = self._draw.sample(victims, len(victims))
            self._strike(self._next.pop())

    def _journal(self, name: str) -> Path:
        device = next(one for one, carried in self._devices.items() if name in carried)
        home = self._folder / device
        return (home if self._devices[device] == (name,) else home / name) / "journal.db"

    def _erase(self) -> None:
        self._network.on(SERVER, lambda: erase(self._operator, CALM_S))

    def _look(self) -> int:
        """Return the number of counted updates; a published version must never change."""
        try:
            with LedgerReader.open(self._folder / SERVER / "ledger.db") as reader:
                found, workers = reader.last_version(), reader.workers()
        except (DealError, OSError, sqlite3.Error):  # no ledger yet
            return 0
        if found is not None:
            assert self._versions.setdefault(found.number, found.digest) == found.digest, str(self)
            assert max(self._versions) == found.number, f"{self}: versions went back"
        return sum(one.row.counted for one in workers)

    # -- afterwards -----------------------------------------------------------------------------

    def _find_missing(self) -> list[str]:
        """Return which rows are not read, learned and counted, or an erasure not published."""
        with LedgerReader.open(self._folder / SERVER / "ledger.db") as reader:
            counted = {one.row.name: one.row.counted for one in reader.workers()}
            missing = ["the erasure"] if reader.count_erasures() != (1, 1) else []
        for name in WORKERS:
            sequence = self._files.find_sequence(name, self._journal(name))
            if sequence != counted.get(name):
                missing.append(f"{name} at {sequence}, counted to {counted.get(name)}")
        return missing

    def check(self) -> None:
        """Compare the ledger with the journals, and both with the files."""
        document = Document.read(self._job)
        job, plan = read_job(document), plan_without_data(document)
        central: Any = plan.make()
        with closing(Ledger(self._folder / SERVER / "ledger.db")) as ledger:
            for name in WORKERS:
                own = self._check_worker(name, ledger, plan.make)
                central.merge(own)
            assert not ledger.updates.waiting(), f"{self}: an update was never counted"
            server = Server(
                job.name, plan.make, ledger, job.server_rules, make_selector(job.selector, {})
            )
            digest = server.model.digest()
        assert digest == central.digest(), f"{self}: the model is not the sum of the journals"
        if self.scheme == "incremental":
            whole = self._files.train(self._job)
            assert digest == whole, f"{self}: the model differs from the rows of all files"

    def _check_worker(self, name: str, ledger: Ledger, make: Any) -> Statistics:
        """Return the statistics of what a worker holds."""
        row, counted = ledger.workers()[name], ledger.find_sum(name)
        with closing(Journal(self._journal(name))) as journal:
            own, _ = statistics_of(make, journal.records(State.LEARNED))
            left = journal.records_of([hash_erased(self._operator)])
            assert not any(left.values()), f"{self}: the erased person came back to {name}"
            assert not journal.outgoing, f"{self}: an update of {name} was never counted"
            assert row.counted == journal.state.sequence, f"{self}: {name} lost one"
        assert row.incarnation == 1, f"{self}: {name} held a receipt that was not true: {row.flag}"
        assert counted == own, f"{self}: the sum of {name} differs"
        return own

    def __str__(self) -> str:
        kills = ", ".join(f"{count} of {name}" for name, count in self.kills.items())
        asleep = ", workers sleep" * self._sleeps
        return f"storm {self.seed} ({self.scheme}{asleep}, {len(self._files)} rows; kills: {kills})"
