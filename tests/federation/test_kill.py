"""Kill −9 of server and workers, anywhere: nothing is lost, nothing counts twice."""

from __future__ import annotations

import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from dealfl.erasure import owner_hash
from dealfl.learners import Histories, Rows, statistics_of
from dealfl.protocol.messages import Message, Receipt, Step
from dealfl.server import Ledger
from dealfl.worker import Journal, State
from tests.federation.mortal import ITEMS, KEY, MAKERS, Call, Life, new_server, read, write
from tests.federation.parts import draw_kept_rounds

ROOT = Path(__file__).parents[2]
SERVER = "server"
WORKERS = ("w0", "w1", "w2")
AROUND = ("before begin", "after begin", "before commit", "after commit")
POINTS = [f"{point}:{n}" for n in (1, 2, 3, 5, 8) for point in (*AROUND, "before sending")]
FOUND_OUT = r"lost an update|never counted|differs|not true|begin anew"
POINTS += [f"after sending:{n}" for n in (1, 2, 4, 7)]


class Forks:
    """The fork server, and the socket on which its processes report."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(120.0)
        self.port = int(self._listener.getsockname()[1])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.federation.mortal"], stdin=subprocess.PIPE, cwd=ROOT
        )

    def start(self, life: Life) -> tuple[socket.socket, int]:
        assert self._process.stdin is not None
        life = msgspec.structs.replace(life, id=secrets.token_hex(8))
        self._process.stdin.write(msgspec.json.encode(life) + b"\n")
        self._process.stdin.flush()
        while True:
            connection, _ = self._listener.accept()
            connection.settimeout(120.0)
            frame = read(connection)
            if frame is not None:
                pid, name = msgspec.msgpack.decode(frame, type=tuple[int, str])
                if name == life.id:
                    return connection, pid
            connection.close()  # of an earlier run, or killed before it could say who it is

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._listener.close()


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    server = Forks()
    yield server
    server.close()


class Federation:
    """Processes and the relay between them; what is sent to a dead process is lost."""

    def __init__(
        self, forks: Forks, directory: Path, seed: int, naive: tuple[str, ...] = (),
        learner: str = "naive_bayes",
    ) -> None:  # fmt: skip
        self._forks, self._directory, self._naive = forks, directory, naive
        self._learner = learner
        self._kept_rounds = draw_kept_rounds(seed)
        self.random = random.Random(seed)
        self.now_s = 0.0
        self.deaths = 0
        self.failpoints: dict[str, Iterator[str]] = {}
        self.receipts: set[tuple[str, int, int]] = set()
        self.erased: list[str] = []
        self._queues: dict[str, list[Message]] = {name: [] for name in (SERVER, *WORKERS)}
        self._alive: dict[str, tuple[socket.socket, int]] = {}

    def path(self, name: str) -> Path:
        return self._directory / f"{name}.db"

    def _process(self, name: str) -> tuple[socket.socket, int]:
        if name not in self._alive:
            role = SERVER if name == SERVER else "worker"
            failpoint = next(self.failpoints.get(name, iter(())), "")
            naive = role in self._naive
            life = Life(
                role, name, str(self.path(name)), self._forks.port, failpoint, naive,
                self._learner, self._kept_rounds,
            )  # fmt: skip
            self._alive[name] = self._forks.start(life)
        return self._alive[name]

    def call(self, name: str, call: Call, kill_after_s: float | None = None) -> bool:
        """Call a process, and relay what it sends; maybe kill it before it has answered."""
        connection, pid = self._process(name)
        try:
            write(connection, call)
            if kill_after_s is not None:
                time.sleep(kill_after_s)
                os.kill(pid, signal.SIGKILL)
            frame = read(connection)
        except ConnectionError:
            frame = None
        if frame is not None:
            self._relay(name, msgspec.msgpack.decode(frame, type=Step))
        if frame is None or kill_after_s is not None:
            self._buried(name)
        return frame is not None

    def _buried(self, name: str) -> None:
        self.deaths += 1
        connection, _ = self._alive.pop(name)
        connection.close()
        if self.random.random() < 0.5:
            self._queues[name].clear()  # while it was down, what was sent to it got lost

    def _relay(self, sender: str, step: Step) -> None:
        for message in step.messages:
            if isinstance(message, Receipt):
                self.receipts.add((message.worker, message.incarnation, message.sequence))
            if sender != SERVER:
                self._queues[SERVER].append(message)
            else:
                for name in [message.worker] if message.worker else WORKERS:
                    self._queues[name].append(message)

    def _pump(self, name: str, rows: tuple[tuple[str, bytes], ...] = ()) -> None:
        messages, self._queues[name] = tuple(self._queues[name]), []
        if messages and self.random.random() < 0.2:
            self._queues[name].append(messages[0])  # repeated later
        self.call(name, Call(self.now_s, messages, rows), self.kill_after_s(name))

    def kill_after_s(self, name: str) -> float | None:
        return None

    def _rows(self) -> tuple[tuple[str, bytes], ...]:
        count = self.random.randint(0, 3)
        return tuple((f"person {self.random.randint(0, 30)}", self._body()) for _ in range(count))

    def _body(self) -> bytes:
        features = [self.random.choice((0.0, 0.25, 0.5, 1.0)) for _ in range(3)]
        return Rows.encode(features, self.random.choice("ab"))

    def tick(self) -> None:
        self.now_s += self.random.choice((0.5, 2.0, 8.0))
        for name in self.random.sample(WORKERS, 2):
            self._pump(name, self._rows())
        self._pump(SERVER)
        if self.random.random() < 0.03:
            owner = f"person {self.random.randint(0, 30)}"
            order = (f"request {len(self.erased)}", owner_hash(KEY, owner))
            self.erased.append(owner)
            while not self.call(SERVER, Call(self.now_s, erase=order)):
                pass  # who asked was not answered, and asks again

    calm = 25  # calls of everybody at the end

    def heal(self) -> None:
        """Let everybody live and say what is left to say."""
        for _ in range(self.calm):
            self.now_s += 11.0
            for name in (*WORKERS, SERVER):
                messages, self._queues[name] = tuple(self._queues[name]), []
                self.call(name, Call(self.now_s, messages))

    def stop(self) -> None:
        for connection, _ in self._alive.values():
            connection.close()
        self._alive.clear()

    def kill_all(self) -> None:
        for connection, pid in self._alive.values():
            os.kill(pid, signal.SIGKILL)
            read(connection)
            connection.close()
        self._alive.clear()

    def check(self) -> int:
        """Compare what the server counted with what each journal says; return updates counted."""
        self.kill_all()
        ledger = Ledger(self.path(SERVER), kept_rounds=self._kept_rounds)
        make = MAKERS[self._learner]
        central, total = make(), 0
        thinned: set[tuple[str, int, int]] = set()
        for name in WORKERS:
            journal = Journal(self.path(name))
            assert not journal.outgoing, f"an update of {name} was never counted"
            own, _ = statistics_of(make, journal.records(State.LEARNED))
            central.merge(own)
            row, counted = ledger.workers()[name], ledger.find_sum(name)
            assert row.incarnation == 1, f"{name} had to begin anew: {row.flag}"
            assert row.counted == journal.state.sequence, f"{name} lost an update"
            is_empty = counted is None and own.is_zero  # it has sent nothing
            assert counted == own or is_empty, f"the sum of {name} differs"
            total += row.counted
            thinned |= {(name, 1, past + 1) for past in range(row.counted - self._kept_rounds)}
            hashes = [owner_hash(KEY, owner) for owner in self.erased]
            assert not any(journal.records_of(hashes).values()), "an erased person came back"
            journal.close()
        assert not ledger.updates.waiting()
        for key in self.receipts - thinned:
            assert ledger.updates.find(*key), f"a receipt was not true: {key}"
        assert new_server(ledger, self._learner).model.digest() == central.digest()
        ledger.close()
        return total


class AtRandom(Federation):
    """Kills whoever is at work, at random moments."""

    def kill_after_s(self, name: str) -> float | None:
        return self.random.uniform(0.0, 0.008) if self.random.random() < 0.25 else None


class AtWrites(Federation):
    """Kills whoever is at work before a random write, sync or truncation of a file.

    Histories of PageRank make updates of some bytes, and of more than 64 kB.
    """

    calm = 12

    def __init__(self, forks: Forks, directory: Path, seed: int) -> None:
        learner = ("personalized_pagerank", "naive_bayes")[seed % 4 == 3]
        super().__init__(forks, directory, seed, learner=learner)
        self._points = random.Random(seed)
        self.failpoints = {name: self._draw(name) for name in (SERVER, *WORKERS)}

    def _draw(self, name: str) -> Iterator[str]:
        pages = 1 if name == SERVER else 4  # of a journal are smaller, and more
        while True:
            point = self._points.choice((4, 20, 60, 200)) + self._points.randrange(40)
            yield f"write:{pages * point}"

    def _rows(self) -> tuple[tuple[str, bytes], ...]:
        if self._learner == "naive_bayes":
            return super()._rows()
        owner = f"person {self.random.randint(0, 9)}"
        count = self.random.choice((0, 1, 1, 3, 250))
        items = self.random.sample(range(ITEMS), count)
        return tuple((owner, Histories.encode(item)) for item in items)


def run(federation: Federation, ticks: int) -> Federation:
    for _ in range(ticks):
        federation.tick()
    return federation


def finish(federation: Federation) -> int:
    federation.kill_after_s = lambda name: None  # type: ignore[method-assign]
    federation.failpoints.clear()
    try:
        federation.stop()  # what lives has a failpoint before it, maybe
        federation.heal()
        return federation.check()
    finally:
        federation.kill_all()


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_nothing_is_lost_and_nothing_counts_twice(
    forks: Forks, tmp_path: Path, seed: int
) -> None:
    federation = run(AtRandom(forks, tmp_path, seed), 60)
    assert finish(federation) > 8, "hardly anything was ever counted"
    assert federation.deaths > 20, "hardly anybody was ever killed"
    assert len(federation.receipts) > 8


def blow_at_writes(forks: Forks, folder: Path, seed: int, ticks: int = 12) -> Federation:
    federation = run(AtWrites(forks, folder, seed), ticks)
    assert finish(federation) > 0, f"seed {seed}: nothing was ever counted"
    return federation


def test_killed_at_random_writes_nothing_is_lost_and_nothing_counts_twice(
    forks: Forks, tmp_path: Path
) -> None:
    deaths = 0
    for seed in range(20):
        (tmp_path / str(seed)).mkdir()
        deaths += blow_at_writes(forks, tmp_path / str(seed), seed, ticks=4).deaths
    assert deaths > 30, "hardly anybody was ever killed"


@pytest.mark.soak
@pytest.mark.parametrize("start", range(0, 1_000, 100))
def test_killed_at_random_writes_a_thousand_times(forks: Forks, tmp_path: Path, start: int) -> None:
    first = int(os.environ.get("SOAK_SEED", "0")) * 1_000_000 + 1_000 + start
    for seed in range(first, first + 100):
        (tmp_path / str(seed)).mkdir()
        blow_at_writes(forks, tmp_path / str(seed), seed)


@pytest.mark.parametrize("role", ["server", "worker"])
def test_killed_at_every_failpoint_nothing_is_lost_and_nothing_counts_twice(
    forks: Forks, tmp_path: Path, role: str
) -> None:
    federation = Federation(forks, tmp_path, seed=1)
    run(federation, 5)
    federation.kill_all()
    _die_at(federation, role, POINTS)
    assert finish(federation) > 10


@pytest.mark.parametrize("role", ["server", "worker"])
def test_killed_after_every_statement_nothing_is_lost_and_nothing_counts_twice(
    forks: Forks, tmp_path: Path, role: str
) -> None:
    federation = Federation(forks, tmp_path, seed=2)
    run(federation, 5)
    federation.kill_all()
    _die_at(federation, role, [f"statement:{count}" for count in range(1, 90)])
    assert finish(federation) > 5


def _die_at(federation: Federation, role: str, points: list[str]) -> None:
    """Go on until every failpoint has killed a process of this role."""
    victims = [SERVER] if role == SERVER else list(WORKERS)
    left = iter(points)
    federation.failpoints = dict.fromkeys(victims, left)
    for _ in range(len(points) * 20):
        federation.tick()
        if federation.deaths >= len(points):
            return
    raise AssertionError(f"only {federation.deaths} of {len(points)} failpoints were reached")


def test_a_server_that_sends_receipts_before_it_commits_is_found_out(
    forks: Forks, tmp_path: Path
) -> None:
    federation = Federation(forks, tmp_path, seed=3, naive=("server",))
    federation.failpoints = {SERVER: iter([f"after sending:{n}" for n in range(2, 12)])}
    run(federation, 60)
    with pytest.raises(AssertionError, match=FOUND_OUT):
        finish(federation)


def test_a_worker_that_writes_its_outbox_in_another_transaction_is_found_out(
    forks: Forks, tmp_path: Path
) -> None:
    federation = Federation(forks, tmp_path, seed=4, naive=("worker",))
    points = iter([f"after commit:{n}" for n in (2, 3, 4, 5, 6, 7, 8, 9) * 4])
    federation.failpoints = dict.fromkeys(WORKERS, points)
    run(federation, 60)
    with pytest.raises(AssertionError, match=FOUND_OUT):
        finish(federation)
