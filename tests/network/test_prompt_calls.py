"""A worker that calls again does not wait for the broker before it announces itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from msgspec.structs import replace

from dealfl.network import Credentials, ServerEnd, WorkerEnd
from dealfl.network.topics import Topics
from dealfl.server import Ledger, Rules, Server
from dealfl.server.selection import Everyone
from dealfl.storage.logs import LOG
from dealfl.worker import Journal, Worker
from tests.federation.parts import KEY, FixedMeter, bayes, row
from tests.network.brokers import JOB, RunningBroker, free_port

PATIENT_S = 120.0
_HELD_S = 5.0  # after which a worker gets the answers that it waits for
_SUBSCRIBE, _PUBLISH = 8, 3  # types of packets


class Relay:
    """Passes on what a broker and a worker send; if it holds, the broker's part waits.

    It then waits until the worker has subscribed and published, which a worker that waits for the
    broker's answer does not do; it gets the answer later.
    """

    def __init__(self, target: Credentials) -> None:
        self._target = target
        self.port = free_port()
        self.holds = self.refuses = False
        self.connections = self.open = 0
        self.prompt: list[bool] = []  # for each that was held: did the worker not wait

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            writer.close()
            return
        self.connections += 1
        self.open += 1
        came, went = await asyncio.open_connection(self._target.host, self._target.port)
        held = asyncio.Event() if self.holds else None
        await asyncio.gather(self._up(reader, went, held), self._down(came, writer, held))
        self.open -= 1

    async def _up(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: asyncio.Event | None
    ) -> None:
        seen = b""
        while data := await reader.read(65_536):
            seen += data
            if held is not None and {_SUBSCRIBE, _PUBLISH} <= set(types_of(seen)):
                held.set()
            writer.write(data)
        await close(writer)

    async def _down(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: asyncio.Event | None
    ) -> None:
        if held is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(held.wait(), _HELD_S)
            self.prompt.append(held.is_set())
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
        await close(writer)


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def types_of(stream: bytes) -> list[int]:
    """Return the types of the packets in what a client has sent."""
    types, at = [], 0
    while at + 1 < len(stream):
        types.append(stream[at] >> 4)
        length = shift = 0
        while True:
            at += 1
            if at >= len(stream):
                return types[:-1]
            length |= (stream[at] & 0x7F) << shift
            shift += 7
            if stream[at] < 0x80:
                break
        at += 1 + length
    return types if at <= len(stream) else types[:-1]


class Sleeping:
    """A server, and a worker behind a relay that sleeps until three examples wait."""

    def __init__(self, broker: RunningBroker) -> None:
        rules = Rules(rounds=1000, min_waiting=3, max_wait_s=3600.0)
        self.ledger = Ledger()
        self.server = Server(JOB, bayes, self.ledger, rules, Everyone())
        self.journal = Journal()
        sleeps = rules.make_sleep(JOB, "w", 3, 3600.0)
        self.worker = Worker(
            JOB, "w", bayes, self.journal, FixedMeter(), key=KEY, sleeps=sleeps, retry_after_s=1.0
        )
        where = broker.enrol("w")
        self.relay = Relay(where)
        self.end = WorkerEnd(JOB, [replace(where, port=self.relay.port)], {"w": self.worker})
        self.server_end = ServerEnd(self.server, [broker.server])

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        stopped = asyncio.Event()
        listener = await asyncio.start_server(self.relay.take, "127.0.0.1", self.relay.port)
        ends: list[Any] = [self.end, self.server_end]
        tasks = [asyncio.ensure_future(end.run(stopped)) for end in ends]
        try:
            yield
        finally:
            stopped.set()
            await asyncio.gather(*tasks)
            listener.close()
            while self.relay.open:
                await asyncio.sleep(0.005)

    async def call(self) -> None:
        """Let the worker call because examples wait, and wait until it sleeps again."""
        learned = self.learned
        self.worker.ingest([("ann", row(1, 0, 1))] * 3)
        self.end.wake("w")
        async with asyncio.timeout(PATIENT_S):
            while self.learned < learned + 3 or not self.end.connection.is_resting:
                await asyncio.sleep(0.005)

    @property
    def learned(self) -> int:
        found = self.server.workers.get("w")
        return 0 if found is None else found.learned


def sleeping(
    broker: RunningBroker, test: Callable[[Sleeping], Coroutine[Any, Any, None]]
) -> Sleeping:
    async def run() -> Sleeping:
        one = Sleeping(broker)
        async with one.run():
            await test(one)
        return one

    return asyncio.run(run())


def test_a_call_does_not_wait_for_the_brokers_answers(broker: RunningBroker) -> None:
    async def test(one: Sleeping) -> None:
        await one.call()  # it does not know the server yet
        one.relay.holds = True
        await one.call()
        await one.call()
        assert any(one.relay.prompt), "a connection that was lost makes the next one wait, not all"

    one = sleeping(broker, test)
    assert one.learned == 9


def test_a_worker_logs_what_it_does_in_a_call(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, LOG.name):
        sleeping(broker, Sleeping.call)
    told = [record.getMessage() for record in caplog.records]
    steps = [each for each in told if "connect" not in each]
    assert steps == ["selected", "update sent", "update counted"]


def test_it_is_known_whether_a_call_is_over(broker: RunningBroker) -> None:
    """A process that lives for one call ends then."""

    async def test(one: Sleeping) -> None:
        await one.call()
        assert one.end.asleep.is_set()
        calling = asyncio.ensure_future(one.call())
        async with asyncio.timeout(PATIENT_S):
            while one.end.asleep.is_set():
                await asyncio.sleep(0)
        await calling
        assert one.end.asleep.is_set()

    sleeping(broker, test)


@pytest.mark.parametrize("what", ["epoch", "connection"])
def test_a_server_that_is_not_where_it_was_is_found(broker: RunningBroker, what: str) -> None:
    async def test(one: Sleeping) -> None:
        await one.call()
        link = one.end._link
        assert link.state is not None
        link.state = replace(link.state, **{what: "ab" * 16})
        if what == "epoch":
            link.topics = Topics(JOB, "ab" * 16)
        await one.call()
        assert link.state is not None
        assert link.state.epoch == one.server.epoch

    assert sleeping(broker, test).learned == 6


def test_after_a_failure_a_worker_looks_for_its_server_first(broker: RunningBroker) -> None:
    async def test(one: Sleeping) -> None:
        await one.call()
        assert one.end._link.state is not None
        assert one.end._link.state.online
        one.relay.refuses = True
        one.worker.ingest([("ann", row(1, 0, 1))] * 3)
        one.end.wake("w")
        async with asyncio.timeout(PATIENT_S):
            while one.end._link.state.online:
                await asyncio.sleep(0.005)
        one.relay.refuses = False
        async with asyncio.timeout(PATIENT_S):
            while one.learned < 6:
                await asyncio.sleep(0.005)

    sleeping(broker, test)
