"""A real server on a broker, in a thread of the test, and devices that send what a test wants."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import TypeVar

from dealfl.network import Credentials, ServerEnd, ServerState
from dealfl.protocol.messages import Message
from dealfl.protocol.transport import MAX_BYTES, decode, encode
from dealfl.server import Server
from tests.federation.parts import announce, joined, kinds
from tests.network.strangers import PATIENT_S, Stranger

T = TypeVar("T")
TOP = "dealfl/v1/job"


class Served:
    """A server and its end of the network; both are touched in their own thread only."""

    server: Server
    end: ServerEnd

    def __init__(self, brokers: Sequence[Credentials], ready: Event) -> None:
        self._brokers, self._ready = brokers, ready
        self._over, self._thread_over = asyncio.Event(), Event()

    async def run(self, make: Callable[[], Server], max_bytes: int, **options: object) -> None:
        self._loop = asyncio.get_running_loop()
        self.server = make()
        limits = ServerState(max_bytes=max_bytes)
        self.end = ServerEnd(self.server, self._brokers, limits=limits, **options)  # type: ignore[arg-type]
        task = asyncio.ensure_future(self.end.run(self._over))
        while not any(one.is_up for one in self.end.connections) and not task.done():
            await asyncio.sleep(0.01)
        self._ready.set()
        try:
            await task
        finally:
            self._thread_over.set()

    @property
    def epoch(self) -> str:
        """Epoch in the topics."""
        return self.do(lambda: self.end.topics.epoch)

    def do(self, call: Callable[[], T]) -> T:
        """Call something in the server's thread."""

        async def run() -> T:
            return call()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENT_S)

    def wait(self, until: Callable[[], bool], timeout_s: float = PATIENT_S) -> bool:
        """Wait until something holds in the server's thread; return whether it does."""
        end_s = time.monotonic() + timeout_s
        while not self.do(until) and time.monotonic() < end_s:
            time.sleep(0.01)
        return self.do(until)

    def stop(self) -> None:
        if not self._thread_over.is_set():
            self.do(self._over.set)
            self._thread_over.wait(PATIENT_S)


@contextmanager
def serve(
    *brokers: Credentials,
    make: Callable[[], Server] = joined,
    max_bytes: int = MAX_BYTES,
    **options: object,
) -> Iterator[Served]:
    """Serve the job `job` while a test runs."""
    ready = Event()
    served = Served(brokers, ready)
    thread = Thread(target=lambda: asyncio.run(served.run(make, max_bytes, **options)))
    thread.start()
    try:
        assert ready.wait(PATIENT_S)
        yield served
    finally:
        served.stop()
        thread.join(PATIENT_S)


class Phone(Stranger):
    """A device with its own topics, which sends what a test wants."""

    def __init__(self, where: Credentials, epoch: str, worker: str = "") -> None:
        super().__init__(where)
        self.worker = worker or where.user
        top, way = f"{TOP}/{epoch}", f"{where.user}/{self.worker}"
        self.up, self.down = f"{top}/up/{way}", f"{top}/down/{way}"
        self.connect()
        self.subscribe(self.down, f"{top}/all")

    def say(self, *messages: Message) -> str:
        return self.publish(self.up, encode(messages))

    def hear(self, count: int) -> list[Message]:
        """Return the next messages of the server, which takes no more than this."""

        def heard() -> list[Message]:
            return [one for _, packet in self.received for one in decode(packet)]

        assert self.wait(lambda: len(heard()) >= count), kinds(tuple(heard()))
        messages = heard()
        self.received.clear()
        return messages

    def join(self) -> None:
        """Join, and wait for the welcome."""
        self.say(announce(self.worker, 0))
        assert kinds(tuple(self.hear(1)))[0] == "Welcome"
