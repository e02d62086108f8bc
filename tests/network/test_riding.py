"""Real workers that ride along: they call while other traffic of their machine has the radio on."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dealfl.server import LedgerReader
from tests.network.brokers import start_broker
from tests.network.forks import Forks, wait_for
from tests.network.net_tree import NetTree
from tests.network.test_sleep import SLEEPING, Sleepers, log_connections

# enough examples wait an hour for a ride, and nobody calls without one for an hour
RIDING = re.sub("max_wait_s = .*", "max_wait_s = 3600\nride_along = true", SLEEPING)


class Riders(Sleepers):
    """A federation with one worker that rides along, on a machine whose counters a test sets."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.net = NetTree(self.folder / "sys")
        self.net.add("wlan0")
        self.events = self.folder / "events"
        self.enrol("w1")

    def work_along(self, *options: object) -> int:
        """Start the worker."""
        data = ("--data", self.folder / "data.csv")
        return self.work("w1", *data, *options, change=f"sysfs={self.net.sysfs}")

    def tell(self, text: str) -> None:
        with self.events.open("a") as file:
            file.write(text + "\n")

    @property
    def command(self) -> str:
        return f"tail -n +1 -s 0.01 -f {self.events}"

    @property
    def log(self) -> list[dict[str, object]]:
        path = self.folder / "w1" / "log.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def rides(self) -> list[float]:
        """Return the delays of the rides in the worker's log."""
        event = "announced after other traffic began"
        return [one["figures"]["delay_s"] for one in self.log if one["event"] == event]  # type: ignore[index]

    @property
    def last_call_was_a_ride(self) -> bool:
        with LedgerReader.open(self.folder / "run" / "ledger.db") as reader:
            return reader.workers()[0].row.rides

    def carry_until_learned(self, rows: int) -> None:
        """Carry other traffic until the server has counted so many rows."""

        def is_learned() -> bool:
            self.net.carry("wlan0", 5_000, 1_000)
            return self._learned() >= rows

        wait_for(is_learned, f"{rows} rows")

    def stays_asleep(self, calls: int) -> None:
        time.sleep(0.6)  # three looks
        assert self.connections() == (calls, calls)

    def wait_for_line(self, words: str) -> None:
        path = self.folder / "w1.log"
        wait_for(lambda: path.exists() and words in path.read_text(), words)


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    processes = Forks()
    yield processes
    processes.close()


@pytest.fixture
def fed(tmp_path: Path, forks: Forks) -> Iterator[Riders]:
    running = start_broker(tmp_path / "broker")
    log_connections(running)
    yield Riders(tmp_path, forks, running, RIDING)
    forks.end_all()
    running.kill()


def test_a_worker_rides_when_the_counters_of_an_interface_rise(fed: Riders) -> None:
    fed.append(0, 1, 2)
    pid = fed.work_along()
    wait_for((fed.folder / "w1" / "journal.db").exists, "the journal")
    fed.stays_asleep(calls=0)
    fed.net.carry("lo", 10**6, 10**6)
    fed.stays_asleep(calls=0)
    fed.carry_until_learned(3)
    assert fed.wait_until_asleep() == 1
    assert fed.last_call_was_a_ride

    fed.append(3)  # too few for a ride
    fed.net.carry("wlan0", 5_000, 1_000)
    fed.stays_asleep(calls=1)
    fed.append(4, 5)
    fed.stays_asleep(calls=1)
    fed.net.show("wlan0", 0, 0)  # the interface was reset
    fed.stays_asleep(calls=1)
    fed.carry_until_learned(6)
    assert fed.status["statistics_digest"] == fed.central_digest(range(6))
    assert fed.wait_until_asleep() == 2
    assert len(fed.rides()) == 2
    assert max(fed.rides()) < 5.0
    fed.forks.end(pid, signal.SIGTERM)
    assert re.search("2 rides, announced .* s after", (fed.folder / "w1.log").read_text())


def test_a_worker_rides_on_an_event_and_waits_for_the_next_if_the_broker_is_gone(
    fed: Riders,
) -> None:
    fed.append(0, 1, 2)
    fed.tell('{"network_active": false}')
    fed.work_along("--device-command", fed.command)
    wait_for((fed.folder / "w1" / "journal.db").exists, "the journal")
    fed.net.carry("wlan0", 5_000, 1_000)  # the command knows better
    fed.stays_asleep(calls=0)
    fed.broker.kill()
    fed.tell('{"network_active": true}\nrubbish')
    fed.wait_for_line("no connection to 127.0.0.1")
    fed.tell('{"network_active": false}')
    fed.broker.restart()
    time.sleep(1.2)  # the first pause after a ride without a broker
    assert fed.connections() == (0, 0), "it waits for the next ride"
    fed.tell('{"network_active": true}')
    fed.wait_until_learned(3)
    assert fed.wait_until_asleep() == 1
    assert len(fed.rides()) == 1
    assert (fed.folder / "w1.log").read_text().count("is ignored") == 1
