"""Workers that sleep: the broker sees their connections end, and begin when a call is due."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.runs import RunFolder, WorkerStatus, read_workers
from tests.network.brokers import RunningBroker, start_broker
from tests.network.federations import JOB, Federation
from tests.network.feeding import HEADER, row
from tests.network.forks import Forks, wait_for

MAX_WAIT_S = 2.0
SLEEPING = JOB.replace(
    "[source]", f"sleep = true\nmin_waiting = 3\nmax_wait_s = {MAX_WAIT_S}\n\n[source]", 1
).replace("ttl_s", "publish_every_s = 0.1\nttl_s")


class Sleepers(Federation):
    """A federation whose workers sleep, and the connections in the log of its broker."""

    def append(self, *numbers: int) -> None:
        path = self.folder / "data.csv"
        with path.open("a") as file:
            file.write(HEADER * (file.tell() == 0) + "".join(map(row, numbers)))

    def connections(self) -> tuple[int, int]:
        """Return how often the worker opened a connection, and how often one ended."""
        log = (self.folder / "broker" / "mosquitto.log").read_text()
        opened = len(re.findall(r"New client connected .* as w1 ", log))
        return opened, len(re.findall(r"Client w1 (?:disconnected|closed|has exceeded)", log))

    @property
    def worker(self) -> WorkerStatus:
        return read_workers(RunFolder(self.folder / "run"))[0]

    def wait_until_asleep(self) -> int:
        """Wait until the worker's connection has ended; return how many there were."""

        def is_asleep() -> bool:
            opened, ended = self.connections()
            return opened == ended and self.worker.state == "asleep"

        wait_for(is_asleep, "the worker to sleep")
        return self.connections()[0]


@pytest.fixture
def fed(tmp_path: Path) -> Iterator[Sleepers]:
    forks, running = Forks(), start_broker(tmp_path / "broker")
    log_connections(running)
    one = Sleepers(tmp_path, forks, running, SLEEPING)
    one.enrol("w1")
    yield one
    forks.close()
    running.kill()


def log_connections(running: RunningBroker) -> None:
    """Let a broker write connections into its log."""
    path = running.broker.folder / "mosquitto.conf"
    path.write_text(path.read_text().replace("connection_messages false", ""))
    running.restart()


def test_a_worker_sleeps_calls_and_hears_of_an_erasure_in_time(
    fed: Sleepers, capsys: pytest.CaptureFixture[str]
) -> None:
    """One test, because each step takes a sleep."""
    fed.append(0, 1, 2)
    predict = fed.folder / "predict.sock"
    pid = fed.work("w1", "--data", fed.folder / "data.csv", "--predict-socket", predict)
    fed.wait_until_learned(3)
    slept = fed.wait_until_asleep()
    assert fed.worker.call_by_s is not None
    assert fed.worker.call_by_s - time.time() <= MAX_WAIT_S
    assert fed.status["workers"]["asleep"] == 1
    assert main(["workers", "list", str(fed.folder / "run")]) == 0
    assert "asleep until" in capsys.readouterr().out
    assert fed.status["rounds_by_reason"]["booked"] >= 1, "an assignment waits for it"

    fed.append(3, 4, 5)  # enough for a call
    fed.wait_until_learned(6)
    assert fed.wait_until_asleep() > slept

    fed.append(6)  # not enough: it calls when its time is over
    fed.wait_until_learned(7)
    assert fed.status["statistics_digest"] == fed.central_digest(range(7))
    fed.wait_until_asleep()

    (answer,) = fed.ask(predict, {"features": [[3.0]]})  # it fetches the model for that
    assert answer["version"] >= 1
    assert answer["predictions"] == [pytest.approx(3.5, abs=0.5)]
    slept = fed.wait_until_asleep()

    fed.erase("w1")
    wait_for(lambda: fed.status["erasures"] == 1, "the request")
    wait_for(lambda: fed.status["erasures_pending"] == 0, "the erasure")
    assert fed.status["statistics_digest"] == fed.central_digest(range(0))
    assert fed.wait_until_asleep() > slept
    fed.forks.end(pid, signal.SIGTERM)
    line = (fed.folder / "w1.log").read_text().splitlines()[-1]
    assert re.search(r"w1: asleep, .* bursts, \d+ of them without a training \(\d\.\d\d ", line)
