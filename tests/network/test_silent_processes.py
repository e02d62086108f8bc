"""Processes that stand still, brokers that restart, a ledger put back: nothing is lost."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.network.brokers import RunningBroker
from tests.network.federations import Federation
from tests.network.feeding import HEADER, row
from tests.network.forks import Forks, wait_for

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


def stand_still(fed: Federation, stopped: str, *, cut: bool = False) -> float:
    """Stop a process while rows arrive; return the seconds until all count after it continues.

    `cut`: the broker forgets its connection, as it does after an hour.
    """
    data = fed.folder / "data.csv"
    append(data, 0, 20)
    worker = fed.work("w1", "--data", data)
    fed.wait_until_learned(20)
    victim = fed.server if stopped == "server" else worker
    os.kill(victim, signal.SIGSTOP)
    try:
        append(data, 20, 20)
        time.sleep(5.0)  # longer than a round and many retries
        if cut:
            fed.broker.restart()
            time.sleep(2.0)  # the other process is connected again
    finally:
        os.kill(victim, signal.SIGCONT)
    return finish(fed, 40)


def put_ledger_back(fed: Federation) -> float:
    """Put an older ledger back while workers live; return the seconds until all count again.

    No row arrives after it. While one of the workers stands still, it is known to catch up.
    """
    fed.enrol("w2")
    files = {name: fed.folder / f"{name}.csv" for name in ("w1", "w2")}
    append(files["w1"], 0, 20)
    append(files["w2"], 20, 20)
    workers = {name: fed.work(name, "--data", path) for name, path in files.items()}
    fed.wait_until_learned(40)
    fed.forks.end(fed.server)
    run, older = fed.folder / "run", fed.folder / "older"
    shutil.copytree(run, older)
    fed.server = fed.serve()
    append(files["w1"], 40, 20)
    append(files["w2"], 60, 20)
    fed.wait_until_learned(80)
    fed.forks.end(fed.server)
    shutil.rmtree(run)
    shutil.copytree(older, run)
    os.kill(workers["w2"], signal.SIGSTOP)
    try:
        fed.server = fed.serve()
        wait_for(lambda: fed.status["catching_up"] == 1, "the sum of the first worker")
    finally:
        os.kill(workers["w2"], signal.SIGCONT)
    began_s, digest = time.monotonic(), fed.central_digest(range(80))
    wait_for(lambda: fed.status["published_digest"] == digest, "a version with all rows")
    assert fed.status["catching_up"] == 0
    return time.monotonic() - began_s


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


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("stopped", ["server", "worker"])
def test_a_process_that_stood_still_continues(fed: Federation, stopped: str, cut: bool) -> None:
    stand_still(fed, stopped, cut=cut)


def test_a_broker_that_restarts_in_a_loop_loses_nothing(fed: Federation) -> None:
    restart_broker_in_a_loop(fed)


def test_a_ledger_that_is_put_back_under_live_workers_is_exact_without_new_rows(
    fed: Federation,
) -> None:
    put_ledger_back(fed)
