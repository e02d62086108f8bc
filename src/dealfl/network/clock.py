"""The real clock: calls `handle` when messages arrive or a wake-up is due, and sends the replies.

One call is one commit. Replies are sent, and what arrived is acknowledged, after it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dealfl.network.connection import Connection
from dealfl.protocol import Message, Pump, Step

__all__ = ["Clock", "carry"]

_BATCH = 200  # packets in one commit

Handle = Callable[[Iterable[Message], float], Step]


class Clock:
    """The real clock of one server or worker; an error of a call ends `failed`."""

    def __init__(
        self,
        handle: Handle,
        send: Callable[[Sequence[Message]], None],
        failed: asyncio.Future[None],
    ) -> None:
        self._pump, self._failed = Pump(handle, send, self._call_at), failed
        self._inbox: deque[tuple[Sequence[Message], Callable[[], None]]] = deque()
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Handle | None = None

    def put(self, messages: Sequence[Message], done: Callable[[], None] = lambda: None) -> None:
        """Take messages; `done` is called after they are durable."""
        self._inbox.append((messages, done))
        self.wake()

    def wake(self) -> None:
        """Call `handle` at once."""
        self._pump.wake(float("-inf"))

    def stop(self) -> None:
        """Call `handle` no more."""
        if self._next is not None:
            self._next.cancel()
        self._pump.due_s = float("-inf")

    def _call_at(self, moment_s: float) -> None:
        if self._failed.done():
            return
        if self._next is not None:
            self._next.cancel()
        self._next = self._loop.call_later(max(moment_s - time.time(), 0.0), self._turn)

    def _turn(self) -> None:
        """Handle what has arrived, in one commit."""
        self._next, self._pump.due_s = None, float("inf")
        taken = [self._inbox.popleft() for _ in range(min(len(self._inbox), _BATCH))]
        try:
            self._pump.turn([one for messages, _ in taken for one in messages], time.time())
            for _, done in taken:
                done()
        except Exception as error:
            if not self._failed.done():
                self._failed.set_exception(error)
            return
        if self._inbox:
            self.wake()


async def carry(
    connections: Iterable[Connection],
    clocks: Iterable[Clock],
    failed: asyncio.Future[None],
    stopped: asyncio.Event,
) -> None:
    """Run connections and clocks until stopped; raise the error of a call."""
    tasks = [asyncio.ensure_future(one.run(stopped)) for one in connections]
    waits: asyncio.Future[Any] = asyncio.ensure_future(stopped.wait())
    for clock in clocks:
        clock.wake()
    try:
        await asyncio.wait([failed, waits], return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            failed.result()
    finally:
        for clock in clocks:
            clock.stop()
        stopped.set()
        await asyncio.gather(waits, *tasks, return_exceptions=True)
