"""Nobody needs a retained message: workers ask the server for its state, and for the model."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from msgspec.structs import replace

from dealfl.network import ServerEnd
from dealfl.network.connection import Connection
from tests.network.brokers import RunningBroker, start_broker
from tests.network.test_work_model import PATIENT_S, Damaging, Federation, federate


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker that retains nothing, as a node of a cluster for which another one retains."""
    running = start_broker(tmp_path_factory.mktemp("broker") / "broker")
    running.kill()
    file = running.broker.folder / "mosquitto.conf"
    file.write_text(f"{file.read_text()}retain_available false\n")
    running.restart()
    yield running
    running.kill()


async def _until(reached: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENT_S):
        while not reached():
            await asyncio.sleep(0.01)


def test_workers_meet_the_server_and_get_its_model(forgetful: RunningBroker) -> None:
    async def test(one: Federation) -> None:
        await one.train(persons=20)
        whole = await one.use(one.end)
        assert one.has_last(one.journal), "version 0 is answered by the whole"
        assert await one.use(one.end) < 300, "nothing changed"
        await one.train(2)
        assert await one.use(one.end) < whole / 2, "a difference"
        assert one.has_last(one.journal)
        _, late, end = one.join("late")
        await _until(lambda: end.is_served)
        await one.use(end, "late")
        assert late.model_version == one.version

    federate(forgetful, test, inline_bytes=700)


def test_a_wrong_difference_is_replaced_by_the_whole(forgetful: RunningBroker) -> None:
    async def test(one: Federation) -> None:
        for _ in range(2):
            await one.train()
            await one.use(one.end)
        assert "does not have its hash" in one.journal.state.refused
        assert one.has_last(one.journal)

    federate(forgetful, test, Damaging)


@pytest.mark.parametrize("stale", ["epoch", "offline"])
def test_a_state_that_is_out_of_date_is_replaced(broker: RunningBroker, stale: str) -> None:
    """A node of a cluster may retain what the server published there before it moved."""

    async def test(one: Federation) -> None:
        await one.train()
        state = one.end._link.state
        assert state is not None
        changed = {"epoch": "ab" * 16} if stale == "epoch" else {"online": False}
        one.end._link.meet(replace(state, connection="another", **changed))
        await one.train()
        assert one.end._link.topics.epoch == one.server.epoch
        await _until(lambda: one.end.is_served)

    federate(broker, test)


def test_workers_announce_themselves_when_the_server_has_moved(broker: RunningBroker) -> None:
    """A node that is killed says nothing of the server: no will is published."""

    async def test(one: Federation) -> None:
        await one.train()
        server: ServerEnd = one._ends[0]
        server._forget_routes(server.connections[0])
        await _until(lambda: not server._routes)
        assert one.end._link.state is not None
        one.end._link.meet(replace(one.end._link.state, connection="another"))
        await _until(lambda: server._routes)

    federate(broker, test)


def test_a_dead_node_of_a_cluster_is_passed_over(broker: RunningBroker) -> None:
    node = f"{broker.broker.settings.host}:{broker.broker.settings.port}"

    async def run() -> None:
        stopped, up = asyncio.Event(), asyncio.Event()
        dead = replace(broker.enrol("w1"), port=9, others=(node,))
        assert [each.port for each in dead.nodes()] == [9, broker.broker.settings.port]
        connection = Connection(dead.nodes(), up.set, lambda _: None)
        task = asyncio.ensure_future(connection.run(stopped))
        async with asyncio.timeout(PATIENT_S):
            await up.wait()
        stopped.set()
        await task

    asyncio.run(run())


def test_a_topic_that_the_broker_refuses_is_named(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic, own = "dealfl/v1/other/0/up/w1/w1", "dealfl/v1/test/0/up/w1/w1"

    async def run() -> None:
        stopped = asyncio.Event()
        done: list[str] = []

        def connected() -> None:
            for each in (topic, own, topic):
                connection.publish(each, b"", done=partial(done.append, each))

        connection = Connection([broker.enrol("w1")], connected, lambda _: None)
        task = asyncio.ensure_future(connection.run(stopped))
        await _until(lambda: not connection._topics and connection.refused)
        stopped.set()
        await task
        assert connection.refused == {topic: "Not authorized"}
        assert done == [own], "the broker does not have the others"

    with caplog.at_level(logging.WARNING, "dealfl.network"):
        asyncio.run(run())
    (line,) = (record.getMessage() for record in caplog.records if "refuses" in record.message)
    assert f"w1: the broker 127.0.0.1 refuses the topic {topic} (Not authorized)" in line
