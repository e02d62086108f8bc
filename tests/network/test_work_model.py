"""The published model reaches a worker when it is used, as a difference to the version it has."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from dealfl.learners import PersonalizedPageRank
from dealfl.network import ServerEnd, ServerState, WorkerEnd
from dealfl.protocol.messages import Message, Published, Step
from dealfl.server import Ledger, Rules, Server
from dealfl.server.selection import Everyone
from dealfl.worker import Journal, Worker
from tests.federation.parts import KEY, FixedMeter, item
from tests.network.brokers import JOB, RunningBroker

PATIENT_S = 60.0
ITEMS = 300


def ranks() -> PersonalizedPageRank:
    return PersonalizedPageRank(ITEMS)


class Damaging(Server):
    """A server whose differences are wrong."""

    def handle(self, messages: Iterable[Message], now_s: float, *, decoded: bool = False) -> Step:
        step = super().handle(messages, now_s, decoded=decoded)
        wrong = ranks().learn([{1, 2}]).to_bytes()
        return Step(tuple(_damage(one, wrong) for one in step.messages), step.wake_at_s)


def _damage(message: Message, wrong: bytes) -> Message:
    is_difference = isinstance(message, Published) and message.base
    return replace(message, statistics=wrong) if is_difference else message


class Federation:
    """A server and a worker in one process, over a real broker."""

    def __init__(self, broker: RunningBroker, kind: type[Server], inline_bytes: int) -> None:
        self._broker, self.ledger = broker, Ledger()
        self.server = kind(JOB, ranks, self.ledger, Rules(rounds=1000), Everyone())
        limits = ServerState(inline_bytes=inline_bytes)
        self._ends: list[Any] = [ServerEnd(self.server, [broker.server], limits=limits)]
        self.stopped, self._persons = asyncio.Event(), 0
        self._tasks = [asyncio.ensure_future(self._ends[0].run(self.stopped))]
        self.journal, self.worker, self.end = self.join("w")

    def join(self, name: str) -> tuple[Journal, Worker, WorkerEnd]:
        """Let a worker with an empty journal join."""
        journal = Journal()
        one = Worker(JOB, name, ranks, journal, FixedMeter(), key=KEY, scheme_name="incremental")
        end = WorkerEnd(JOB, [self._broker.enrol(name)], {name: one})
        self._tasks.append(asyncio.ensure_future(end.run(self.stopped)))
        return journal, one, end

    async def train(self, rounds: int = 1, persons: int = 1) -> None:
        """Let the worker learn histories; each round publishes a version."""
        for _ in range(rounds):
            version = self.version
            for _ in range(persons):
                self._persons += 1
                draw = random.Random(self._persons)
                items = draw.sample(range(ITEMS), 15)
                self.worker.ingest([(f"person {self._persons}", item(one)) for one in items])
            self.end.wake("w")
            async with asyncio.timeout(PATIENT_S):
                while self.version == version or not self.is_calm:
                    await asyncio.sleep(0.002)

    @property
    def version(self) -> int:
        found = self.server.reader.last_version()
        return found.number if found else 0

    @property
    def is_calm(self) -> bool:
        return self.ledger.rounds.find_open() is None and not self.journal.outgoing

    async def use(self, end: WorkerEnd, name: str = "w", timeout_s: float = PATIENT_S) -> int:
        """Let a worker use the model; return the bytes that came down for it."""
        traffic = end.connection.traffic
        before = traffic.received_bytes
        await end.update_model(name, timeout_s)
        return traffic.received_bytes - before

    def has_last(self, journal: Journal) -> bool:
        """Return whether a journal has what the server has published, byte by byte."""
        return journal.published() == (self.version, self.server.model.publish().to_bytes())

    async def stop(self) -> None:
        self.stopped.set()
        await asyncio.gather(*self._tasks)


def federate(
    broker: RunningBroker,
    test: Callable[[Federation], Coroutine[Any, Any, None]],
    kind: type[Server] = Server,
    inline_bytes: int = 100_000,
) -> None:
    """Run a test in a federation."""

    async def run() -> None:
        one = Federation(broker, kind, inline_bytes)
        try:
            await test(one)
        finally:
            await one.stop()

    asyncio.run(run())


@pytest.mark.parametrize("inline_bytes", [100_000, 700])  # whole, and in pieces
def test_a_model_comes_when_it_is_used_first_whole_then_as_a_difference(
    broker: RunningBroker, inline_bytes: int
) -> None:
    async def test(one: Federation) -> None:
        with pytest.raises(TimeoutError):  # nothing is published
            await one.use(one.end, timeout_s=0.3)
        await one.train(persons=20)
        assert one.worker.model_version == 0  # it is not broadcast
        whole = await one.use(one.end)
        assert one.has_last(one.journal)
        assert await one.use(one.end) == len(str(one.version))  # nothing but the number
        await one.train(2)
        assert not one.has_last(one.journal)
        assert await one.use(one.end) < whole / 2
        assert one.has_last(one.journal)

    federate(broker, test, inline_bytes=inline_bytes)


def test_a_wrong_difference_is_not_applied_and_the_whole_is_fetched(
    broker: RunningBroker,
) -> None:
    async def test(one: Federation) -> None:
        await one.train()
        await one.use(one.end)
        await one.train()
        await one.use(one.end)
        assert "does not have its hash" in one.journal.state.refused
        assert one.has_last(one.journal)

    federate(broker, test, Damaging)


def test_a_model_that_is_used_sometimes_takes_far_fewer_bytes(broker: RunningBroker) -> None:
    async def test(one: Federation) -> None:
        lazy = eager = 0
        for number in range(1, 10):
            await one.train(persons=20 if number == 1 else 1)
            journal, _, end = one.join(f"eager{number}")  # has no version that it could build on
            eager += await one.use(end, f"eager{number}")
            assert one.has_last(journal)
            if number % 3 == 0:
                lazy += await one.use(one.end)
                assert one.has_last(one.journal)
        assert lazy <= 0.3 * eager, f"{lazy} of {eager} bytes"

    federate(broker, test)
