"""A server or a worker in a process of its own that can be killed at any point.

Run as a script it is a fork server: it imports everything once, and each line on its standard
input makes one more process, which connects to the test and answers one call after the other.
Failpoints live here alone: the stores below die before, between and after statements of SQL.
"""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import struct
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from dealfl.learners import Learner, NaiveBayes, PersonalizedPageRank
from dealfl.power import Training
from dealfl.protocol.messages import Message, Step
from dealfl.server import Ledger, Rules, Server
from dealfl.server.selection import Everyone
from dealfl.worker import Cost, Journal, Worker
from tests.federation import crashing_files

KEY = b"key of the job"
FAILPOINT = "DEALFL_TEST_FAILPOINT"
RULES = Rules(rounds=10**6, workers_per_round=3, ttl_s=20.0, presence_timeout_s=90.0)


class Life(msgspec.Struct, frozen=True):
    """What to start, and at which failpoint it dies."""

    role: str
    name: str
    path: str
    port: int
    failpoint: str = ""
    naive: bool = False
    learner: str = "naive_bayes"
    kept_rounds: int = 0
    id: str = ""  # random: an earlier process that was late is not taken for this one


class Call(msgspec.Struct, frozen=True):
    """One call of `handle`, with what happens on the device before it."""

    now_s: float
    messages: tuple[Message, ...] = ()
    rows: tuple[tuple[str, bytes], ...] = ()
    erase: tuple[str, bytes] | None = None


ITEMS = 600  # a history of half of them is a large update


def make() -> NaiveBayes:
    return NaiveBayes(3, ["a", "b"], feature_bound=1.0, fraction_bits=8)


def make_ranks() -> PersonalizedPageRank:
    return PersonalizedPageRank(ITEMS)


MAKERS: dict[str, Callable[[], Learner]] = {
    "naive_bayes": make,
    "personalized_pagerank": make_ranks,
}


# -- frames -------------------------------------------------------------------------------------


def write(connection: socket.socket, item: object) -> None:
    body = msgspec.msgpack.encode(item)
    connection.sendall(struct.pack("<I", len(body)) + body)


def read(connection: socket.socket) -> bytes | None:
    """Return one frame, or None if the other side is gone, in the middle of one or not."""
    head = _exactly(connection, 4)
    return None if head is None else _exactly(connection, struct.unpack("<I", head)[0])


def _exactly(connection: socket.socket, count: int) -> bytes | None:
    parts = b""
    while len(parts) < count:
        try:
            part = connection.recv(count - len(parts))
        except ConnectionError:
            return None
        if not part:
            return None
        parts += part
    return parts


# -- stores that die ----------------------------------------------------------------------------


class Fate:
    """Kills this process, as kill −9 does, when a point is reached for the n-th time."""

    def __init__(self, failpoint: str) -> None:
        name, _, count = failpoint.partition(":")
        self._name, self._left = name, int(count or 1)

    def reach(self, point: str) -> None:
        if point == self._name:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class MortalConnection(sqlite3.Connection):
    """A connection to SQLite with a failpoint around each statement."""

    fate: Fate

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql == "PRAGMA synchronous = FULL":
            sql = "PRAGMA synchronous = OFF"  # kill −9 leaves the kernel's cache alone
        kind = {"BEGIN IMMEDIATE": "begin", "COMMIT": "commit"}.get(sql)
        if kind:
            self.fate.reach(f"before {kind}")
        cursor = super().execute(sql, *values)
        if kind:
            self.fate.reach(f"after {kind}")
        self.fate.reach("statement")
        return cursor

    def executemany(self, sql: str, rows: Any) -> sqlite3.Cursor:
        cursor = super().executemany(sql, rows)
        self.fate.reach("statement")
        return cursor

    def sent(self) -> None:
        """Do nothing: what was sent had been durable before."""


class TwoTransactions(MortalConnection):
    """Writes the outbox row in another transaction than the records: this must be found out."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql.startswith("INSERT OR REPLACE INTO outbox"):
            super().execute("COMMIT")
            super().execute("BEGIN IMMEDIATE")
        return super().execute(sql, *values)


class LateCommit(MortalConnection):
    """Commits only after the receipts have left: this must be found out."""

    terms: list[str] | None = None
    made = False  # the tables and the terms: not even this one can do without

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql == "COMMIT" and not self.made:
            return self.cursor()
        claims = bool(values) and values[0][:1] == ("term",)
        if sql.startswith("INSERT OR REPLACE INTO state"):
            terms = msgspec.msgpack.decode(values[0][0])["terms"]
            claims = terms != self.terms
            self.terms = terms
        self.made = claims or sql.startswith("PRAGMA user_version =")
        return super().execute(sql, *values)

    def sent(self) -> None:
        if self.in_transaction:
            super().execute("COMMIT")


def connecting(kind: type[MortalConnection], fate: Fate) -> Callable[..., MortalConnection]:
    """Return what opens databases with a fate."""

    def connect(path: str, **options: Any) -> MortalConnection:
        made = sqlite3.connect(path, factory=kind, **options)
        made.fate = fate
        return made

    return connect


# -- the processes ------------------------------------------------------------------------------


class QuickMeter:
    """Training takes no time at all, or some."""

    def start(self) -> None:
        pass

    def cost(self, training: Training) -> Cost:
        return Cost(
            3.0 if training.operations % 2 else 0.0,
            1e-6 * training.operations,
        )


def new_worker(name: str, journal: Journal, learner: str = "naive_bayes") -> Worker:
    return Worker(
        "job", name, MAKERS[learner], journal, QuickMeter(), key=KEY, forget_fraction="0.3",
        announce_every_s=20.0, retry_after_s=10.0,
    )  # fmt: skip


def new_server(ledger: Ledger, learner: str = "naive_bayes") -> Server:
    return Server("job", MAKERS[learner], ledger, RULES, Everyone())


def _worker_calls(life: Life, fate: Fate) -> tuple[Callable[[Call], Step], Callable[[], None]]:
    kind = TwoTransactions if life.naive else MortalConnection
    journal = Journal(life.path, connect=connecting(kind, fate))
    worker = new_worker(life.name, journal, life.learner)

    def answer(call: Call) -> Step:
        if call.rows:
            worker.ingest(call.rows)
        return worker.handle(call.messages, call.now_s)

    return answer, lambda: None


def _server_calls(life: Life, fate: Fate) -> tuple[Callable[[Call], Step], Callable[[], None]]:
    connections: list[MortalConnection] = []

    def connect(path: str, **options: Any) -> MortalConnection:
        kind = LateCommit if life.naive else MortalConnection
        connections.append(connecting(kind, fate)(path, **options))
        return connections[-1]

    ledger = Ledger(life.path, kept_rounds=life.kept_rounds, connect=connect)
    server = new_server(ledger, life.learner)

    def answer(call: Call) -> Step:
        if call.erase:
            return server.erase(call.erase[0], [call.erase[1]], call.now_s)
        return server.handle(call.messages, call.now_s)

    return answer, connections[0].sent


def live(life: Life) -> None:
    """Answer calls until the other side is gone or the failpoint is reached."""
    connection = socket.create_connection(("127.0.0.1", life.port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    write(connection, (os.getpid(), life.id))
    fate = Fate(os.environ.get(FAILPOINT, ""))
    crashing_files.install(lambda: fate.reach("write"))
    made = _server_calls if life.role == "server" else _worker_calls
    answer, sent = made(life, fate)
    decode = msgspec.msgpack.Decoder(Call).decode
    while (frame := read(connection)) is not None:
        step = answer(decode(frame))
        fate.reach("before sending")
        write(connection, step)
        fate.reach("after sending")
        sent()


def main() -> None:
    """Make a process for each line of JSON on the standard input."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the dead
    for line in sys.stdin.buffer:
        life = msgspec.json.decode(line, type=Life)
        if os.fork() == 0:
            os.environ[FAILPOINT] = life.failpoint
            try:
                live(life)
            finally:
                os._exit(0)


if __name__ == "__main__":
    main()
