"""The workers' end of the network: one connection for one worker, or for all of a gateway."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial, singledispatchmethod
from typing import Any, TypeVar

from dealfl.errors import BadBytes
from dealfl.network.connection import Delivery
from dealfl.network.credentials import Credentials
from dealfl.network.pump import RealPump, carry
from dealfl.network.server_link import RETAINED_S, ServerLink
from dealfl.network.topics import ServerState
from dealfl.protocol import (
    Assignment,
    Declined,
    Erased,
    Fetch,
    Message,
    Published,
    Receipt,
    Refusal,
    Update,
)
from dealfl.storage import log
from dealfl.worker import Worker

_REMEMBERED = 1_000  # messages, which are repeated until they are answered
Fetched = TypeVar("Fetched", int, Published)

_KEPT_RIDES = 1_000  # delays
_MAX_PAUSE_S = 120.0  # after rides without a server


class Rides:
    """The rides of the workers of one connection, and how soon each called.

    >>> rides = Rides()
    >>> rides.begin("w", time.monotonic() - 0.25)
    >>> rides.note_call("w")
    >>> str(rides)[:17]
    '1 ride, announced'
    """

    def __init__(self) -> None:
        self.count = 0
        self.delays_s: list[float] = []  # from other traffic to an announcement
        self._since_s: dict[str, float | None] = {}  # None: it has announced itself
        self._failed = 0  # one after the other
        self._next_s = 0.0

    @property
    def can_begin(self) -> bool:
        """Whether it is not too soon after rides on which no server was reached."""
        return time.monotonic() >= self._next_s

    def begin(self, worker: str, since_s: float) -> None:
        """Note that a worker is about to call."""
        self._since_s[worker] = since_s

    def note_call(self, worker: str) -> None:
        """Note that a worker sends messages; the first are its announcement."""
        since_s = self._since_s.get(worker)
        if since_s is not None:
            self._since_s[worker] = None
            self._failed = 0
            self.count += 1
            delay_s = time.monotonic() - since_s
            self.delays_s = [*self.delays_s[1 - _KEPT_RIDES :], delay_s]
            log("announced after other traffic began", worker=worker, delay_s=delay_s)

    def end(self, worker: str) -> None:
        """Note that a worker sleeps again."""
        self._since_s.pop(worker, None)

    def fail(self) -> list[str]:
        """Return the workers whose connection is lost; the next ride waits, ever longer."""
        riding = list(self._since_s)
        self._since_s.clear()
        if riding:
            self._next_s = time.monotonic() + min(2.0**self._failed, _MAX_PAUSE_S)
            self._failed += 1
        return riding

    def __str__(self) -> str:
        """Return the number of rides and their delay; empty without any."""
        if not self.count:
            return ""
        median_s = sorted(self.delays_s)[len(self.delays_s) // 2]
        return (
            f"{self.count} ride{'s' * (self.count > 1)}, announced {median_s:.2f} s "
            f"after other traffic began (median; longest {max(self.delays_s):.2f} s)"
        )


class WorkerEnd:
    """Carries messages between workers and the server."""

    def __init__(
        self,
        job: str,
        brokers: Sequence[Credentials],
        workers: Mapping[str, Worker],
    ) -> None:
        self._link = ServerLink(
            job, brokers, list(workers), self._take, self._meet, lost=self._note_loss
        )
        self.connection = self._link.connection
        self._retains = True  # until only the server has a version
        self._workers = workers
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pumps = {
            name: RealPump(
                partial(worker.handle, decoded=True), partial(self._send, name), self._failed
            )
            for name, worker in workers.items()
        }
        self._fetched: tuple[type, asyncio.Future[Any]] | None = None
        self._met = asyncio.Event()
        self._in_use = False
        self.asleep = asyncio.Event()  # all workers are
        self.rides = Rides()
        self._log = MessageLog()
        self.connection.rest()  # until a worker has something to say

    @property
    def problem(self) -> str:
        """Why a worker can write nothing now; empty if all can."""
        return next((pump.problem for pump in self._pumps.values() if pump.problem), "")

    @property
    def is_served(self) -> bool:
        """Whether the server is at this broker."""
        return self._link.is_served

    async def run(self, stopped: asyncio.Event) -> None:
        """Work until stopped."""
        await carry([self.connection], self._pumps.values(), self._failed, stopped)

    def wake(self, worker: str) -> None:
        """Call a worker soon, e.g. because it has new records."""
        self._pumps[worker].call()

    def ride(self, worker: str, since_s: float) -> None:
        """Let a sleeping worker call: other traffic has the radio on, since a monotonic time."""
        if self.rides.can_begin and self._workers[worker].note_traffic(True, time.time()):
            self.rides.begin(worker, since_s)
            self.wake(worker)

    async def update_model(self, name: str, timeout_s: float) -> None:
        """Give a worker the last version, as a difference to its own if the server has that."""
        worker = self._workers[name]
        self._in_use = True
        if not self.connection.is_up:
            self._met.clear()
            self.connection.resume()
        try:
            async with asyncio.timeout(timeout_s):
                await self._met.wait()
                newest = await self._find_newest()
                if newest is None:
                    await self._take_from_server(name)
                    return
                if 0 < worker.model_version < newest:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(timeout_s / 2):
                            await self._store(name, await self._ask(worker))
                if worker.model_version < newest:
                    await self._store(name, await self._fetch("#", Published))
        finally:
            self._in_use = False
            self.wake(name)

    async def _find_newest(self) -> int | None:
        """Return the number of the version that the broker retains; None if it retains none."""
        if self._retains:
            with suppress(TimeoutError):
                async with asyncio.timeout(RETAINED_S):
                    return await self._fetch("version", int)
        return None

    async def _store(self, name: str, message: Published) -> None:
        stored = asyncio.Event()
        self._pumps[name].put([message], stored.set)
        await stored.wait()

    async def _take_from_server(self, name: str) -> None:
        """Store the last version from the server: the broker does not retain it."""
        worker = self._workers[name]
        published = await self._ask(worker)
        self._retains = False
        await self._store(name, published)
        if worker.model_version < published.version:  # the difference was to another model
            await self._store(name, await self._ask(worker, 0))

    async def _ask(self, worker: Worker, version: int | None = None) -> Published:
        """Return the server's answer: what changed since the worker's version, or all of it."""
        fetch = Fetch(
            job=worker.job,
            worker=worker.name,
            epoch=self._link.topics.epoch,
            version=worker.model_version if version is None else version,
        )
        answer = self._await(Published)
        self._send(worker.name, [fetch])
        return await answer

    async def _fetch(self, part: str, kind: type[Fetched]) -> Fetched:
        """Return what the broker retains: the number of the version, or the version itself."""
        fetched = self._await(kind)
        self._link.drop_pieces(self._link.topics.model)
        topics = [f"{self._link.topics.model}/{part}"]
        self.connection.subscribe(topics)
        try:
            return await fetched
        finally:
            self.connection.unsubscribe(topics)

    def _await(self, kind: type[Fetched]) -> asyncio.Future[Fetched]:
        fetched: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
        self._fetched = (kind, fetched)
        return fetched

    def _deliver(self, part: object) -> None:
        """Take a part of the model; it may come when nobody waits for it."""
        if self._fetched is not None:
            kind, fetched = self._fetched
            if isinstance(part, kind) and not fetched.done():
                fetched.set_result(part)

    # -- the link's listener --------------------------------------------------------------------

    def _take(self, delivery: Delivery) -> bool:
        """Take a packet of this epoch; return whether it is acknowledged later."""
        topic = delivery.topic
        topics = self._link.topics
        if topic == f"{topics.model}/version":
            self._deliver(_version(delivery.payload))
            return False
        messages = self._link.read(delivery)
        self._log.note(messages)
        if topic == topics.all:
            for pump in self._pumps.values():
                pump.put(messages)
            return False
        for message in messages:
            self._deliver(message)
        worker = topic.rpartition("/")[2]
        if not messages or topic != topics.down(self._link.gateway, worker):
            return False
        self._pumps[worker].put(messages, partial(self.connection.acknowledge, delivery))
        return True

    def _meet(self, _: ServerState, is_unknown: bool) -> None:
        """Announce the workers to a server that may not know of them."""
        self._met.set()
        if is_unknown:
            for name, pump in self._pumps.items():
                self._workers[name].reconnect()
                pump.call()

    def _send(self, worker: str, messages: Sequence[Message]) -> None:
        """Send messages; the connection rests while all workers sleep and none uses the model."""
        is_asleep = all(w.is_asleep for w in self._workers.values())
        (self.asleep.set if is_asleep else self.asleep.clear)()
        if is_asleep and not self._in_use:
            self.connection.rest()
        else:
            self.connection.resume()
        if self._workers[worker].is_asleep:
            self.rides.end(worker)
        if not messages or self._link.state is None:
            return
        if self.connection.is_open:
            self.rides.note_call(worker)
            self._log.note(messages)
        self._link.send(worker, messages)
        trained = any(isinstance(m, Update) and m.learned for m in messages)
        if trained and self.connection.is_up:
            self.connection.traffic.count_training()

    def _note_loss(self) -> None:
        """Let workers that ride along wait for their next ride."""
        for name in self.rides.fail():
            self._pumps[name].change(self._workers[name].note_disconnect)


def _version(payload: bytes) -> int:
    if not payload.isdigit() or len(payload) > 18:
        raise BadBytes("the number of the version is no number")
    return int(payload)


class MessageLog:
    """Logs the messages of the workers of one process; repetitions are left out."""

    def __init__(self) -> None:
        self._told: dict[tuple[object, ...], None] = {}

    def note(self, messages: Iterable[Message]) -> None:
        """Log messages that were sent or have arrived."""
        for message in messages:
            self._note(message)

    @singledispatchmethod
    def _note(self, message: Message) -> None:
        """Log nothing: most messages repeat what others say."""

    @_note.register
    def _(self, message: Assignment) -> None:
        if self._is_new("selected", message.worker, message.epoch, message.round):
            log("selected", worker=message.worker, round=message.round)

    @_note.register
    def _(self, message: Declined) -> None:
        if self._is_new("declined", message.worker, message.epoch, message.round):
            log("declined", worker=message.worker, round=message.round, reason=message.reason)

    @_note.register
    def _(self, message: Update) -> None:
        if self._is_new("sent", message.worker, message.incarnation, message.sequence):
            log(
                "update sent",
                worker=message.worker,
                round=message.round,
                sequence=message.sequence,
                learned=message.learned,
                evicted=message.evicted,
                energy_j=message.energy_j,
                size_bytes=len(message.delta),
            )

    @_note.register
    def _(self, message: Receipt) -> None:
        if self._is_new("counted", message.worker, message.incarnation, message.sequence):
            log("update counted", worker=message.worker, sequence=message.sequence)

    @_note.register
    def _(self, message: Refusal) -> None:
        if self._is_new("refused", message.worker, message.incarnation, message.sequence):
            log(
                "update refused",
                worker=message.worker,
                reason=message.reason,
                level="warning",
                sequence=message.sequence,
            )

    @_note.register
    def _(self, message: Erased) -> None:
        if self._is_new("erased", message.worker, message.request, message.hash):
            log("erased", worker=message.worker, examples=message.examples)

    def _is_new(self, *key: object) -> bool:
        if key in self._told:
            return False
        self._told[key] = None
        if len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]
        return True
