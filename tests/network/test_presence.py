"""Who is there: last wills, returning workers, servers that restart or begin a new epoch."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dealfl.network import Credentials, ServerEnd, ServerState, WorkerEnd
from dealfl.protocol.messages import Asleep, Assignment, Message, Step, Welcome
from dealfl.server import Ledger
from dealfl.worker import Journal, Worker
from tests.federation.parts import KEY, FixedMeter, announce, bayes, joined, row, server, update
from tests.network.brokers import RunningBroker, start_broker
from tests.network.serving import TOP, Phone, Served, serve
from tests.network.strangers import Stranger


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningBroker]:
    broker = start_broker(tmp_path / "broker", job="job")
    yield broker
    broker.kill()


@asynccontextmanager
async def working(where: Credentials, journal: Journal) -> Any:
    """Run a worker with one waiting example."""
    worker = Worker("job", where.user, bayes, journal, FixedMeter(), key=KEY)
    worker.ingest([("ann", row(1, 0, 1))])
    stopped, end = asyncio.Event(), WorkerEnd("job", [where], {where.user: worker})
    task = asyncio.ensure_future(end.run(stopped))
    try:
        yield end
    finally:
        stopped.set()
        await task


async def wait(until: Callable[[], bool]) -> None:
    async with asyncio.timeout(20.0):
        while not until():
            await asyncio.sleep(0.02)


def assignments(step: Step) -> list[Message]:
    return [one for one in step.messages if isinstance(one, Assignment)]


def examples_of(served: Served) -> int:
    return served.do(lambda: sum(one.held for one in served.server.workers.values()))


def test_an_idle_worker_sends_nothing(running: RunningBroker, tmp_path: Path) -> None:
    async def idle(served: Served, journal: Journal) -> None:
        async with working(running.enrol("w1"), journal) as end:
            await wait(lambda: examples_of(served) == 1)
            await asyncio.sleep(0.5)  # the last receipt
            before = end.connection.traffic.sent_packets
            await asyncio.sleep(3.0)
            assert end.connection.traffic.sent_packets == before

    with serve(running.server, make=server) as served, closing(Journal()) as journal:
        asyncio.run(idle(served, journal))


def test_a_worker_that_returns_gets_the_assignment_that_it_missed() -> None:
    one, left = server(), [Asleep(job="job", worker="w")]
    first = assignments(one.handle([announce("w", 0)], 0.0))
    assert len(first) == 1
    known = announce("w", waiting=5, epoch=one.epoch)
    assert not one.handle([known], 2.0).messages  # under way
    one.handle(left, 3.0)
    assert one.workers["w"].asleep
    assert assignments(one.handle([known], 4.0)) == first
    assert not one.workers["w"].asleep
    one.handle(left, 5.0)
    received = announce("w", waiting=0, epoch=one.epoch, round=1)
    assert not one.handle([received], 6.0).messages  # it knows of it


def test_a_worker_whose_welcome_was_lost_gets_it_with_the_assignment() -> None:
    one = server()
    first = assignments(one.handle([announce("w", 0)], 0.0))
    one.handle([Asleep(job="job", worker="w")], 1.0)  # the server's process has ended meanwhile
    again = one.handle([announce("w", 0)], 2.0)
    assert [type(message) for message in again.messages] == [Welcome, Assignment]
    assert assignments(again) == first
    assert not assignments(one.handle([announce("w", epoch=one.epoch, round=1)], 3.0))


@pytest.mark.parametrize("asleep", [True, False])
def test_a_sleeping_worker_is_not_selected(asleep: bool) -> None:
    one = joined("w")
    one.handle([update(1, round=1)], 1.0)
    left = [Asleep(job="job", worker="w")] * asleep
    assert bool(assignments(one.handle([announce("w", waiting=5), *left], 2.0))) != asleep


def retained(running: RunningBroker, epoch: str) -> dict[str, bytes]:
    """Return what the broker retains for the devices."""
    listener = Stranger(running.enrol("listener")).connect()
    listener.subscribe(f"{TOP}/state", f"{TOP}/{epoch}/model/#")
    listener.wait(lambda: False, 0.3)
    listener.leave()
    return dict(listener.received)


@pytest.mark.parametrize("server_restarts", [True, False])
def test_the_model_is_published_again_after_a_restart(
    running: RunningBroker, tmp_path: Path, server_restarts: bool
) -> None:
    with closing(Ledger(tmp_path / "ledger.db")) as ledger:
        one = joined("w", ledger=ledger)
        one.handle([announce("w", waiting=5)], 1.0)
        one.handle([update(1, name="w")], 2.0)
        epoch = one.epoch
        makes = [lambda: one, lambda: server(ledger)]
        with serve(running.server, make=makes[0]):
            assert retained(running, epoch)[f"{TOP}/{epoch}/model/version"] == b"1"
            if not server_restarts:
                running.restart()
                for _ in range(40):
                    with suppress(OSError):
                        if f"{TOP}/{epoch}/model/version" in retained(running, epoch):
                            return
                pytest.fail("the server does not publish its model again")
        running.restart()
        with serve(running.server, make=makes[1]):
            assert retained(running, epoch)[f"{TOP}/{epoch}/model/version"] == b"1"


def test_workers_follow_a_new_epoch_of_a_running_server(
    running: RunningBroker, tmp_path: Path
) -> None:
    async def follow(served: Served, journal: Journal) -> None:
        async with working(running.enrol("w1"), journal) as end:
            await wait(lambda: examples_of(served) == 1)
            old = served.epoch
            ahead = Phone(running.enrol("w2"), served.epoch)
            ahead.join()
            ahead.say(announce("w2", epoch=old, round=10**6))  # proves that the ledger is old
            await wait(lambda: served.epoch != old)
            new = served.epoch
            await wait(lambda: f"/{new}/" in str(end._link.subscriptions))
            state = json.loads(retained(running, new)[f"{TOP}/state"])
            assert (state["epoch"], state["online"]) == (new, True)
            assert not [one for one in retained(running, old) if "/model/" in one]
            await wait(lambda: journal.state.epoch == new)

    with serve(running.server, make=server) as served, closing(Journal()) as journal:
        asyncio.run(follow(served, journal))


def credentials() -> Credentials:
    return Credentials(host="127.0.0.1", port=1, job="job", user="w", password="x")


def test_a_larger_fleet_is_asked_to_return_more_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[float]:
        end = ServerEnd(server(), [credentials()])
        (connection,) = end.connections
        states: list[bytes] = []
        end._numbers[connection] = "1"
        monkeypatch.setattr(connection, "is_up", True)
        monkeypatch.setattr(connection, "publish", lambda topic, state, **_: states.append(state))
        for number in range(400):
            end._route(f"w{number}", connection, "")
        return [ServerState.decode(state).spread_s for state in states]

    assert asyncio.run(run()) == [0.75, 1.125, 1.69]


def test_a_ride_is_over_when_the_worker_sleeps_again() -> None:
    """A connection that is lost later wakes nobody who has called."""

    async def run() -> list[str]:
        sleeping: Any = SimpleNamespace(is_asleep=True, handle=lambda *_, **__: Step(()))
        end = WorkerEnd("job", [credentials()], {"w": sleeping})
        end.rides.begin("w", 0.0)
        end._send("w", [])
        return end.rides.fail()

    assert asyncio.run(run()) == []
