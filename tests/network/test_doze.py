"""A phone that stands still, whose clock jumps, or that ends its processes: nothing is lost."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dealfl.network.pump import RealPump
from dealfl.protocol import Step
from tests.network.brokers import start_broker
from tests.network.forks import Forks
from tests.network.test_sleep import MAX_WAIT_S, SLEEPING, Sleepers, log_connections

HOUR_S = 3600.0


@pytest.mark.parametrize("jump_s", [2 * HOUR_S, -2 * HOUR_S])
def test_a_call_is_not_late_by_the_hours_that_a_phone_was_suspended(
    jump_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timers of an event loop stand still meanwhile, but not the clock on the wall."""
    monkeypatch.setattr("dealfl.network.pump._MAX_DOZE_S", 0.01)
    ahead_s = 0.0
    monkeypatch.setattr("dealfl.network.pump.time.time", lambda: time.monotonic() + ahead_s)
    calls: list[float] = []

    def handle(_: object, now_s: float) -> Step:
        calls.append(now_s)
        return Step((), now_s + HOUR_S)

    async def run() -> None:
        nonlocal ahead_s
        pump = RealPump(handle, lambda _: None, asyncio.get_running_loop().create_future())
        pump.call()
        await asyncio.sleep(0.1)
        assert len(calls) == 1
        ahead_s = jump_s
        while len(calls) < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert len(calls) == 2
        pump.stop()

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.fixture
def fed(tmp_path: Path) -> Iterator[Sleepers]:
    forks, running = Forks(), start_broker(tmp_path / "broker")
    log_connections(running)
    one = Sleepers(tmp_path, forks, running, SLEEPING)
    one.enrol("w1")
    yield one
    forks.close()
    running.kill()


def test_a_worker_that_is_stopped_and_ended_by_sigterm_loses_nothing(fed: Sleepers) -> None:
    """One test, because each step takes a sleep."""
    data = ("--data", fed.folder / "data.csv")
    fed.append(0, 1, 2)
    worker = fed.work("w1", *data, change="hurry")
    fed.wait_until_learned(3)
    fed.wait_until_asleep()
    os.kill(worker, signal.SIGSTOP)  # beyond the time of its next call
    fed.append(3)
    time.sleep(MAX_WAIT_S + 0.2)
    os.kill(worker, signal.SIGCONT)
    fed.wait_until_learned(4)

    for first in (4, 8):  # ended at any moment, with a word to the broker
        fed.append(*range(first, first + 4))
        time.sleep(0.1)
        fed.forks.end(worker, signal.SIGTERM)
        worker = fed.work("w1", *data, change="hurry")
        time.sleep(0.02 * first)
    fed.wait_until_learned(12)
    assert fed.status["statistics_digest"] == fed.central_digest(range(12))
    fed.wait_until_asleep()
    log = (fed.folder / "broker" / "mosquitto.log").read_text()
    assert not re.findall(r"Client w1 (?!disconnected).*", log)
