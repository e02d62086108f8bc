"""A server under masks that is killed −9, as a real process: exact in the end, and nothing seen."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from dealfl.errors import DealError
from dealfl.jobs import Document, plan_without_data
from dealfl.keyholder import SERVER_NAME, KeyholderFolder, KeyholderSettings
from dealfl.masks import Ring
from dealfl.network import write_credentials
from dealfl.server import LedgerReader
from dealfl.storage import open_read_only
from tests.network.brokers import start_broker
from tests.network.forks import Forks, wait_for
from tests.network.growing import ERASED, REQUEST, SOURCE, Growing, erase

JOB = """\
[job]
name = "test"
learner = "tikhonov"
scheme = "incremental"
rounds = 1000000
workers_per_round = 3
ttl_s = 1.0
retry_after_s = 0.3
publish_every_s = 0.2

[privacy]
keyholder = "keyholder"
cohort = 3
max_workers = 100
"""
KEYHOLDER = "keyholder"
WORKERS = ("w1", "w2", "w3")
FIRST_ROW = 700_001  # numbers that occur nowhere else


class Private:
    """Broker, server, keyholder and three workers as processes: an opening needs all of them."""

    def __init__(self, folder: Path, forks: Forks) -> None:
        self.folder, self.forks = folder, forks
        self.job = folder / "job.toml"
        self.job.write_text(JOB + SOURCE)
        self.files = Growing(folder / "data", random.Random(0), first=FIRST_ROW)
        self.broker = start_broker(folder / "broker")
        self.operator = self.broker.broker.enrol(["operator"], operator=True)[0]
        self.vault = KeyholderFolder(folder / "vault")
        self.vault.create(KeyholderSettings(cohort=len(WORKERS)))
        self.vault.enrol([SERVER_NAME], server=True, again=False)
        self.vault.enrol(WORKERS, server=False, again=False)
        write_credentials(folder / "server.toml", self.broker.server)
        for own in self.broker.broker.enrol([KEYHOLDER, *WORKERS]):
            write_credentials(folder / f"{own.user}.toml", own)
        self.alive: dict[str, int] = {}

    def start(self, name: str) -> None:
        path = self.vault.path / "enrolments" / f"{name}.enrolment"
        own = ["--keyholder", path] * path.exists()
        own += ["--broker", self.folder / f"{name}.toml"]
        out = ["--out", self.folder / name]
        words: list[Any] = ["work", self.job, *own, *out, "--data", self.files.path(name)]
        if name == SERVER_NAME:
            words = ["serve", self.job, *own, *out, "--trust", "operator"]
        if name == KEYHOLDER:
            words = ["keyholder", "run", self.vault.path, *own]
        self.alive[name] = self.forks.start(self.folder / f"{name}.log", words, "hurry")

    def kill(self, name: str) -> None:
        self.forks.end(self.alive.pop(name))

    def bring(self, *owners: str) -> None:
        """Give every worker new rows."""
        for name in WORKERS:
            self.files.append(name, owners)

    def wait(self, until: Callable[[LedgerReader], object], what: str) -> None:
        """Wait for what the server's ledger says."""

        def reached() -> object:
            try:
                with LedgerReader.open(self.folder / SERVER_NAME / "ledger.db") as reader:
                    return until(reader)
            except (DealError, OSError, sqlite3.Error):  # no ledger yet
                return False

        wait_for(reached, what, 60.0)

    def is_published(self, reader: LedgerReader) -> bool:
        version = reader.last_version()
        return version is not None and version.digest == self.files.train(self.job)

    def find_records(self) -> list[bytes]:
        """Return the records that the workers hold now."""
        bodies: list[bytes] = []
        for name in WORKERS:
            with closing(open_read_only(self.folder / name / "journal.db")) as db:
                bodies += [body for (body,) in db.execute("SELECT body FROM records")]
        return bodies

    def find_deltas(self) -> list[bytes]:
        """Return what each row, and all rows of a worker, would add, in every form."""
        make = plan_without_data(Document.read(self.job)).make
        with LedgerReader.open(self.folder / SERVER_NAME / "ledger.db") as reader:
            ring = Ring(make().schema, reader.masks().bits)
        deltas: list[bytes] = []
        for rows in self.files.rows.values():
            numbers = [number for _, number in rows]
            kept = [number for owner, number in rows if owner != ERASED]
            for part in (*([number] for number in numbers), numbers, kept, numbers[:2]):
                model: Any = make()
                delta = model.learn([[float(n)] for n in part], [n + 0.5 for n in part])
                vector = ring.vector(delta)
                deltas += [delta.to_bytes(), vector, ring.pack(vector)]
        return deltas

    @property
    def texts(self) -> list[bytes]:
        """The values of all rows."""
        return [b"%d" % number for rows in self.files.rows.values() for _, number in rows]

    def read(self, *names: str) -> bytes:
        """Return the content of all files in folders, and of logs."""
        files = [file for name in names for file in sorted((self.folder / name).rglob("*"))]
        logs = sorted(self.folder.glob("*.log"))
        return b"".join(file.read_bytes() for file in [*files, *logs] if file.is_file())


def test_a_masked_server_that_is_killed_ends_exact_and_has_seen_nothing(tmp_path: Path) -> None:
    """It is killed with a request under way, and with an erasure."""
    forks = Forks()
    private = Private(tmp_path, forks)
    public = (SERVER_NAME, "vault", "broker")
    try:
        private.bring(ERASED, "bob")
        for name in (SERVER_NAME, KEYHOLDER, *WORKERS):
            private.start(name)
        private.wait(lambda reader: reader.masks().number > 0, "an opening")
        private.kill(KEYHOLDER)
        private.bring("bob")
        private.wait(lambda reader: reader.masks().request is not None, "a request")
        private.kill(SERVER_NAME)
        seen = [private.read(*public)]
        records = private.find_records()
        private.start(SERVER_NAME)
        private.start(KEYHOLDER)
        private.wait(lambda reader: reader.masks().request is None, "the answer")
        erase(private.operator, 60.0)
        private.kill(SERVER_NAME)
        seen.append(private.read(*public))
        private.start(SERVER_NAME)
        private.wait(lambda reader: len(reader.answers(REQUEST)) == len(WORKERS), "all answers")
        private.bring("carol")  # whose rows open what takes the person out
        private.wait(private.is_published, "a version without the person")
        private.wait(lambda reader: reader.count_erasures() == (1, 1), "the erasure")
    finally:
        forks.close()
        private.broker.kill()
    records += private.find_records()
    seen.append(private.read(*public))
    needles = [*private.texts, *records, *private.find_deltas()]
    assert not [needle for needle in needles if any(needle in each for each in seen)]
    own = private.read("data", *WORKERS)
    assert all(needle in own for needle in (*private.texts, *private.find_records()))
