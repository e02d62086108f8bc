"""The real clock: calls `handle` when messages arrive or a wake-up is due, and sends the replies.

One call is one commit. Replies are sent, and what arrived is acknowledged, after it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dealfl.messages import Message, Step
from dealfl.network.connection import Connection

__all__ = ["Pump", "carry"]

_BATCH = 200  # packets in one commit

Handle = Callable[[Iterable[Message], float], Step]


class Pump:
    """The messages of one server or worker, in and out; an error of a call ends `failed`."""

    def __init__(
        self,
        handle: Handle,
        send: Callable[[Sequence[Message]], None],
        failed: asyncio.Future[None],
    ) -> None:
        self._handle, self._send, self._failed = handle, send, failed
        self._inbox: deque[tuple[Sequence[Message], Callable[[], None]]] = deque()
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Handle | None = None
        self._next_s = float("inf")  # by the loop's clock

    def put(self, messages: Sequence[Message], done: Callable[[], None] = lambda: None) -> None:
        """Take messages; `done` is called after they are durable."""
        self._inbox.append((messages, done))
        self.wake()

    def wake(self, delay_s: float = 0.0) -> None:
        """Call `handle` after a delay, unless an earlier call is due."""
        moment_s = self._loop.time() + max(delay_s, 0.0)
        if self._failed.done() or self._next_s <= moment_s:
            return
        if self._next is not None:
            self._next.cancel()
        self._next_s = moment_s
        self._next = self._loop.call_at(moment_s, self._turn)

    def stop(self) -> None:
        """Call `handle` no more."""
        if self._next is not None:
            self._next.cancel()
        self._next_s = float("-inf")

    def _turn(self) -> None:
        """Handle what has arrived, in one commit."""
        self._next, self._next_s = None, float("inf")
        taken = [self._inbox.popleft() for _ in range(min(len(self._inbox), _BATCH))]
        try:
            given = [one for messages, _ in taken for one in messages]
            step = self._handle(given, time.time())
            self._send(step.messages)
            for _, done in taken:
                done()
        except Exception as error:
            if not self._failed.done():
                self._failed.set_exception(error)
            return
        if self._inbox:
            self.wake()
        elif step.wake_at_s is not None:
            self.wake(step.wake_at_s - time.time())


async def carry(
    connections: Iterable[Connection],
    pumps: Iterable[Pump],
    failed: asyncio.Future[None],
    stopped: asyncio.Event,
) -> None:
    """Run connections and pumps until stopped; raise the error that ended a pump."""
    tasks = [asyncio.ensure_future(one.run(stopped)) for one in connections]
    waits: asyncio.Future[Any] = asyncio.ensure_future(stopped.wait())
    for pump in pumps:
        pump.wake()
    try:
        await asyncio.wait([failed, waits], return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            failed.result()
    finally:
        for pump in pumps:
            pump.stop()
        stopped.set()
        await asyncio.gather(waits, *tasks, return_exceptions=True)
