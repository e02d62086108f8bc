"""A federation of real processes on this machine: broker, server, ten workers, a kill, an erasure.

Every process is started as a user would start it. At the end the digest of the server is compared
with training in one process, on all rows but those of the erased person.
"""

from __future__ import annotations

import csv
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dealfl.data import load
from dealfl.errors import DealError
from dealfl.jobs import Document, read_job, read_plan
from dealfl.runs.running_server import RunningServer
from dealfl.settings import toml_document

_JOB, _OPERATOR, _ERASED = "demo", "operator", "ann"
_KEYHOLDER, _COHORT = "keyholder", 3
_WORKERS, _ROWS, _LATER = 10, 40, 10
_PEOPLE = (_ERASED, "bob", "carol", "dave", "eve", "frank", "grace", "heidi")
_PIXELS = 64

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Proof:
    """The digests that a demonstration compares."""

    federated: str
    central: str
    erased: int
    examples: int
    elapsed_s: float

    @property
    def holds(self) -> bool:
        """Whether the digests are equal."""
        return self.federated == self.central


def run_demo(
    say: Say,
    timeout_s: float = 120.0,
    *,
    workers: int = _WORKERS,
    interpreters: Mapping[str, Sequence[str]] = MappingProxyType({}),
    private: bool = False,
) -> Proof:
    """Run the demonstration; all its processes and files are gone when it ends.

    A worker may have an interpreter of its own, for example of another machine. A private one has a
    keyholder: the server sees sums of cohorts only.
    """
    start_s = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="dealfl-demo-") as folder,
        _Demo(Path(folder), say, timeout_s, workers, interpreters, private).running() as demo,
    ):
        demo.learn()
        demo.kill_a_worker()
        erased = demo.erase()
        demo.open_rest()
        central, examples = demo.train_centrally()
        federated = str(demo.status()["statistics_digest"])
    return Proof(federated, central, erased, examples, time.monotonic() - start_s)


class _Demo:
    """The processes of a demonstration, and what it does with them."""

    def __init__(
        self,
        folder: Path,
        say: Say,
        timeout_s: float,
        workers: int,
        interpreters: Mapping[str, Sequence[str]],
        private: bool,
    ) -> None:
        self._private = private
        self._folder, self._say, self._timeout_s = folder, say, timeout_s
        self._workers, self._interpreters = workers, interpreters
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        examples = load("digits")
        targets = examples.targets
        assert targets is not None, "digits have labels"
        self._rows = [
            [_PEOPLE[index % len(_PEOPLE)], int(target), *map(int, row)]
            for index, (row, target) in enumerate(zip(examples.features, targets, strict=True))
        ]
        self._given = 0
        self._turn = 0
        self._job = folder / "job.toml"
        tables = _job_tables()
        if private:
            tables["privacy"] = {"keyholder": _KEYHOLDER, "cohort": _COHORT, "max_workers": 100}
        self._job.write_text(toml_document(tables), encoding="utf-8")

    @contextmanager
    def running(self) -> Iterator[_Demo]:
        """Start broker, server and workers; stop all of them at the end."""
        try:
            self._start()
            yield self
        finally:
            for process in self._processes.values():
                process.send_signal(signal.SIGTERM)
            for process in self._processes.values():
                try:
                    process.wait(5.0)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def _start(self) -> None:
        from dealfl.network import BrokerSettings, create_broker, write_credentials

        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        settings = BrokerSettings(job=_JOB, host="127.0.0.1", port=port, tls=True)
        broker = create_broker(self._folder / "broker", settings)
        names = [f"w{number}" for number in range(1, self._workers + 1)]
        users = [*names, *([_KEYHOLDER] if self._private else [])]
        self._operator = broker.enrol([_OPERATOR], operator=True)[0]
        for credentials in (self._operator, broker.admit_server(), *broker.enrol(users)):
            write_credentials(self._folder / f"{credentials.user}.toml", credentials)
        self._processes["broker"] = broker.start()
        self._say(f"broker: mosquitto on 127.0.0.1:{port}, TLS, {self._workers} devices enrolled")
        if self._private:
            self._start_keyholder(names)
        self._launch("server", "serve", "--trust", _OPERATOR, *self._enrolment("server"))
        for name in names:
            self._add_rows(name, _ROWS)
            self._launch(name, "work", "--data", str(self._data(name)), *self._enrolment(name))
        self._say(f"server and {self._workers} workers: started, each a process of its own")

    def _start_keyholder(self, names: Sequence[str]) -> None:
        from dealfl.keyholder import SERVER_NAME, KeyholderFolder, KeyholderSettings

        vault = KeyholderFolder(self._folder / "vault")
        vault.create(KeyholderSettings(name=_KEYHOLDER, cohort=_COHORT))
        vault.enrol([SERVER_NAME], server=True, again=False)
        vault.enrol(names, server=False, again=False)
        self._launch_keyholder()
        self._say(
            f"keyholder: started; it sees no update, and opens sums of {_COHORT} workers or more"
        )

    def _launch_keyholder(self) -> None:
        vault, credentials = self._folder / "vault", self._folder / f"{_KEYHOLDER}.toml"
        self._launch_words(_KEYHOLDER, "keyholder", "run", str(vault), "--broker", str(credentials))

    def _enrolment(self, name: str) -> tuple[str, ...]:
        path = self._folder / "vault" / "enrolments" / f"{name}.enrolment"
        return ("--keyholder", str(path)) if path.exists() else ()

    def _launch(self, name: str, command: str, *options: str) -> None:
        credentials = str(self._folder / f"{name}.toml")
        out = str(self._folder / name)
        self._launch_words(
            name, command, str(self._job), "--broker", credentials, "--out", out, *options
        )

    def _launch_words(self, name: str, *options: str) -> None:
        words = [*self._interpreters.get(name, (sys.executable,)), "-m", "dealfl"]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(  # noqa: S603 - our own program
                [*words, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _data(self, name: str) -> Path:
        return self._folder / f"{name}.csv"

    def _add_rows(self, name: str, count: int) -> None:
        path = self._data(name)
        rows = self._rows[self._given : self._given + count]
        self._given += count
        fresh = not path.exists()
        with path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            if fresh:
                writer.writerow(["owner", "digit", *_columns()])
            writer.writerows(rows)

    def status(self) -> dict[str, Any]:
        """Ask the server for its status."""
        answer: dict[str, Any] = self._ask("status", {})
        return answer

    def _ask(self, verb: str, arguments: dict[str, object]) -> Any:  # noqa: ANN401
        from dealfl.network import ask

        return ask(self._operator, verb, arguments, self._timeout_s)

    def _wait(self, reached: Callable[[dict[str, Any]], bool], describe: str) -> dict[str, Any]:
        until_s, last_s = time.monotonic() + self._timeout_s, time.monotonic()
        while True:
            for name, process in self._processes.items():
                if process.poll() is not None:
                    raise DealError(f"{name} ended: {self._last_line(name)}")
            status = self.status()
            if reached(status):
                return status
            if time.monotonic() > until_s:
                raise DealError(f"{describe}: not reached within {self._timeout_s:g} s")
            if time.monotonic() - last_s > 2.0:
                last_s = time.monotonic()
                self._say(
                    f"  round {status['rounds_closed']}: {status['examples_learned']} learned"
                )
            time.sleep(0.2)

    def _last_line(self, name: str) -> str:
        lines = (self._folder / f"{name}.log").read_text(errors="replace").splitlines()
        return lines[-1] if lines else "no output"

    def learn(self) -> None:
        """Wait until the server has counted all rows."""
        rows = self._given
        status = self._wait(lambda now: now["examples_learned"] >= rows, "learning")
        self._say(f"learned: {rows} rows in {status['rounds_closed']} rounds")

    def kill_a_worker(self) -> None:
        """Kill a worker −9 while it works, and start it again."""
        name = "w3"
        self._add_rows(name, _LATER)
        time.sleep(0.5)
        self._processes[name].kill()
        self._processes[name].wait()
        self._add_rows(name, _LATER)
        self._say(f"killed {name} (kill −9) with new rows; started again")
        self._launch(name, "work", "--data", str(self._data(name)))
        if self._private:
            self._processes[_KEYHOLDER].kill()
            self._processes[_KEYHOLDER].wait()
            self._say("killed the keyholder (kill −9); started again")
            self._launch_keyholder()
        self.learn()

    def erase(self) -> int:
        """Erase a person on all devices; return the number of her rows."""
        self._say(f"erase {_ERASED}: sent to all workers as a keyed hash")
        server = RunningServer(self._folder / f"{_OPERATOR}.toml")
        erased = sum(row[0] == _ERASED for row in self._rows[: self._given])
        with self._bringing_rows():
            made = server.erase(
                [_ERASED], _OPERATOR, self._folder / "certificates", self._timeout_s
            )
        if not made.erasure.final:
            raise DealError(f"the demonstration waited {self._timeout_s:g} s for the erasure")
        size = made.certificate.stat().st_size
        self._say(
            f"erased: all {self._workers} workers answered, a version without her is published"
        )
        self._say(f"certificate: signed, {size:,} bytes, verified")
        return erased

    @contextmanager
    def _bringing_rows(self) -> Iterator[None]:
        """Under masks, let workers bring new rows meanwhile: a sum needs fresh ones."""
        if not self._private:
            yield
            return
        ended = threading.Event()

        def bring() -> None:
            while not ended.wait(1.5):
                self._bring_rows(2 * _COHORT)

        thread = threading.Thread(target=bring, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _bring_rows(self, count: int) -> None:
        """Give one row, not hers, to each of the next workers in turn."""
        for _ in range(count):
            self._turn = self._turn % self._workers + 1
            while self._rows[self._given][0] == _ERASED:
                del self._rows[self._given]
            self._add_rows(f"w{self._turn}", 1)

    def open_rest(self) -> None:
        """Under masks, bring rows until no update waits for a cohort."""
        if not self._private:
            return
        until_s = time.monotonic() + self._timeout_s
        while time.monotonic() < until_s:
            self._bring_rows(_COHORT - 1)
            time.sleep(2.0)
            status = self.status()
            is_opened = not status["updates_waiting"]
            if is_opened and status["statistics_digest"] == self.train_centrally()[0]:
                break  # else a worker has not sent its last row yet
        privacy = status["privacy"]
        self._say(
            f"opened: {privacy['openings']} sums, each of {privacy['smallest']} workers or more; "
            "the server saw nothing else"
        )

    def train_centrally(self) -> tuple[str, int]:
        """Train in one process on all rows but hers; return the digest and the number of rows."""
        rows = [row for row in self._rows[: self._given] if row[0] != _ERASED]
        path = self._folder / "central.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["owner", "digit", *_columns()])
            writer.writerows(rows)
        document = Document.parse(toml_document(_job_tables("central.csv")), "demo", self._folder)
        plan = read_plan(document, read_job(document))
        reading, features = plan.read()
        learner: Any = plan.make()
        learner.learn(features, reading.examples.targets)
        return str(learner.digest()), len(rows)


def _columns() -> list[str]:
    return [f"pixel{index}" for index in range(_PIXELS)]


def _job_tables(file: str = "data.csv") -> dict[str, Any]:
    return {
        "job": {
            "name": _JOB,
            "rounds": 10_000,
            "workers_per_round": 5,
            "ttl_s": 5.0,
            "retry_after_s": 1.0,
            "publish_every_s": 1.0,
            "forget_fraction": "0",
        },
        "source": {
            "file": file,
            "format": "csv",
            "owner": "owner",
            "target": "digit",
            "classes": list(range(10)),
            "columns": {name: {"low": 0, "high": 16} for name in _columns()},
        },
    }
