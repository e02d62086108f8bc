"""Workers that live for one call: exact whenever they are killed; a restored journal is noticed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dealfl.cli import main
from dealfl.server import LedgerReader
from dealfl.worker import Journal
from tests.network.brokers import RunningBroker
from tests.network.federations import JOB, Federation
from tests.network.feeding import HEADER, row
from tests.network.forks import Forks, is_alive, wait_for

SOON = JOB.replace("ttl_s", "publish_every_s = 0.1\nttl_s")


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    processes = Forks()
    yield processes
    processes.close()


class Callers(Federation):
    """A federation with a worker that lives for one call, and an ordinary one."""

    written = 0

    def append(self, name: str, count: int) -> None:
        """Append rows that nobody else has to the file of a worker."""
        with (self.folder / f"{name}.csv").open("a") as file:
            text = "".join(row(self.written + number) for number in range(count))
            file.write(HEADER * (file.tell() == 0) + text)
        self.written += count

    def start_call(self) -> int:
        return self.work("w1", "--data", self.folder / "w1.csv", "--once", "--json")

    def call(self) -> dict[str, Any]:
        """Let the worker call, and return its result."""
        log = self.folder / "w1.log"
        before = log.stat().st_size if log.exists() else 0
        pid = self.start_call()
        wait_for(lambda: not is_alive(pid), "the end of the call")
        text = log.read_bytes()[before:].decode()
        (line,) = (line for line in text.splitlines() if line.startswith("{"))
        result = json.loads(line)
        (call,) = result["calls"]
        return {**call, "cpu_s": result["cpu_s"]}

    @property
    def session(self) -> int:
        with closing(Journal(self.folder / "w1" / "journal.db")) as journal:
            return journal.state.session

    @property
    def incarnations(self) -> dict[str, int]:
        with LedgerReader.open(self.folder / "run" / "ledger.db") as reader:
            return {one.row.name: one.row.incarnation for one in reader.workers()}

    def finish(self) -> None:
        """Call until everything is learned, and compare."""

        def is_learned() -> bool:
            self.call()
            return self._learned() >= self.written

        wait_for(is_learned, f"{self.written} rows", 60.0)
        assert self.status["statistics_digest"] == self.central_digest(range(self.written))


@pytest.fixture
def fed(tmp_path: Path, forks: Forks, broker: RunningBroker) -> Iterator[Callers]:
    one = Callers(tmp_path, forks, broker, SOON)
    one.enrol("w1")
    one.enrol("w2")
    yield one
    forks.end_all()


def test_a_call_trains_delivers_hears_of_erasures_and_continues_the_session(fed: Callers) -> None:
    fed.append("w1", 3)
    first = fed.call()
    assert first["outcome"] == "done", first
    assert (first["trained"], first["delivered"], first["undelivered"]) == (3, 1, 0)
    fed.wait_until_learned(3)
    session = fed.session
    fed.append("w1", 2)
    assert fed.call()["trained"] == 2
    assert fed.session == session
    shutil.copy(fed.folder / "w1" / "journal.db", fed.folder / "backup.db")
    nothing = fed.call()
    assert (nothing["outcome"], nothing["trained"], nothing["waiting"]) == ("done", 0, 0)

    fed.append("w1", 4)
    assert fed.call()["trained"] == 4
    assert fed.session == session
    for path in (fed.folder / "w1").glob("journal.db-*"):
        path.unlink()
    shutil.copy(fed.folder / "backup.db", fed.folder / "w1" / "journal.db")
    fed.append("w1", 1)
    fed.finish()
    assert fed.session != session, "the journal was restored"
    assert fed.incarnations == {"w1": 2}

    fed.erase("w1")
    wait_for(lambda: fed.status["erasures"] == 1, "the request")
    assert fed.call()["erasures"] == 1
    wait_for(lambda: fed.status["erasures_pending"] == 0, "the erasure")
    assert fed.status["statistics_digest"] == fed.central_digest(range(0))


def call_and_kill(fed: Callers, times: int, seed: int) -> None:
    """Let a worker call many times, and kill it at random moments, beside an ordinary worker."""
    draw = random.Random(seed)
    fed.append("w2", 1)
    fed.work("w2", "--data", fed.folder / "w2.csv", change="hurry")
    for _ in range(times):
        fed.append("w1", draw.choice([1, 20]))
        fed.append("w2", draw.choice([0, 3]))
        pid = fed.start_call()
        time.sleep(draw.uniform(0.0, 0.4))
        fed.forks.end(pid, signal.SIGKILL)
    fed.finish()
    assert fed.incarnations == {"w1": 1, "w2": 1}, "no journal was restored"


def test_calls_that_are_killed_at_random_moments_end_exact(fed: Callers) -> None:
    call_and_kill(fed, 5, seed=1)


@pytest.mark.soak
def test_two_hundred_calls_that_are_killed_at_random_moments_end_exact(fed: Callers) -> None:
    call_and_kill(fed, 200, seed=int(os.environ.get("SOAK_SEED", "0")))


def test_a_call_without_a_server_fails_and_says_why(
    fed: Callers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dealfl.network.working._SILENCE_S", 0.3)
    fed.append("w1", 3)
    fed.forks.end(fed.server)
    files = [str(fed.folder / name) for name in ("job.toml", "w1.toml", "w1.csv", "w1")]
    job, own, data, out = files
    words = ["work", job, "--broker", own, "--data", data, "--out", out, "--once"]
    assert main(words) == 1
    said = capsys.readouterr().out
    assert said.startswith(
        "w1: failed (the server is not at this broker); examples: 0 trained, 3 waiting"
    )
    assert "s of CPU" in said
    fed.serve()
    fed.finish()


def test_a_call_that_is_not_due_opens_no_connection(
    tmp_path: Path, forks: Forks, broker: RunningBroker
) -> None:
    sleeping = JOB.replace("[source]", "sleep = true\nmin_waiting = 3\n\n[source]", 1)
    fed = Callers(tmp_path, forks, broker, sleeping)
    fed.enrol("w1")
    fed.append("w1", 2)
    early = fed.call()
    assert (early["outcome"], early["waiting"]) == ("not due", 2)
    assert early["call_by_s"] - time.time() == pytest.approx(86_400, abs=60)
    assert fed.incarnations == {}
    fed.append("w1", 1)
    assert fed.call()["outcome"] == "done"
    fed.wait_until_learned(3)
    forks.end_all()


def test_options_that_contradict_each_other_are_refused(
    fed: Callers, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["work", str(fed.job), "--broker", str(fed.folder / "w1.toml")]
    assert main([*words, "--json"]) == 2
    assert "add --once" in capsys.readouterr().err
    assert main([*words, "--once", "--predict-socket", "p"]) == 2
    assert "remove it or --once" in capsys.readouterr().err
