"""Processes that stand still, and a broker that restarts in a loop: nothing is lost afterwards."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.network.brokers import RunningBroker
from tests.network.federations import Federation
from tests.network.feeding import HEADER, row
from tests.network.forks import Forks

pytestmark = pytest.mark.soak
SERVED_WITHIN_S = 10.0  # on a free machine, with the pause of a client that lost its broker


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    processes = Forks()
    yield processes
    processes.close()


@pytest.fixture
def fed(tmp_path: Path, forks: Forks, broker: RunningBroker) -> Iterator[Federation]:
    federation = Federation(tmp_path, forks, broker)
    federation.enrol("w1")
    yield federation
    forks.end_all()


def append(path: Path, first: int, count: int) -> None:
    with path.open("a") as file:
        file.write(HEADER * (file.tell() == 0) + "".join(row(first + n) for n in range(count)))


def finish(fed: Federation, rows: int) -> float:
    """Wait until all rows count, compare with training on them, and return the seconds."""
    began_s = time.monotonic()
    fed.wait_until_learned(rows)
    spent_s = time.monotonic() - began_s
    assert fed.status["statistics_digest"] == fed.central_digest(range(rows))
    return spent_s


def stand_still(fed: Federation, stopped: str) -> float:
    """Stop a process while rows arrive; return the seconds until all count after it continues."""
    data = fed.folder / "data.csv"
    append(data, 0, 20)
    worker = fed.work("w1", "--data", data)
    fed.wait_until_learned(20)
    victim = fed.server if stopped == "server" else worker
    os.kill(victim, signal.SIGSTOP)
    try:
        append(data, 20, 20)
        time.sleep(5.0)  # longer than a round and many retries
    finally:
        os.kill(victim, signal.SIGCONT)
    return finish(fed, 40)


def restart_broker_in_a_loop(fed: Federation) -> float:
    """Kill and start the broker while rows arrive; return the seconds until all count."""
    data = fed.folder / "data.csv"
    append(data, 0, 20)
    fed.work("w1", "--data", data)
    for number in range(1, 6):
        time.sleep(0.5)
        append(data, 20 * number, 20)
        fed.broker.restart()
    return finish(fed, 120)


@pytest.mark.parametrize("stopped", ["server", "worker"])
def test_a_process_that_stood_still_continues(fed: Federation, stopped: str) -> None:
    stand_still(fed, stopped)


def test_a_broker_that_restarts_in_a_loop_loses_nothing(fed: Federation) -> None:
    restart_broker_in_a_loop(fed)
