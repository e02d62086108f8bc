"""The real clock: calls `handle` when messages arrive or a wake-up is due, and sends the replies.

One call is one commit. Replies are sent, and what arrived is acknowledged, after it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from dealfl.messages import Message, Step

__all__ = ["Pump"]

_BATCH = 200  # packets in one commit

Handle = Callable[[Iterable[Message], float], Step]


class Pump:
    """The messages of one server or worker, in and out."""

    def __init__(
        self,
        handle: Handle,
        send: Callable[[Sequence[Message]], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._handle, self._send, self._clock = handle, send, clock
        self._inbox: deque[tuple[Sequence[Message], Callable[[], None]]] = deque()
        self._arrived = asyncio.Event()
        self._wake_at_s: float | None = None

    def put(self, messages: Sequence[Message], done: Callable[[], None] = lambda: None) -> None:
        """Take messages; `done` is called after they are durable."""
        self._inbox.append((messages, done))
        self._arrived.set()

    def wake(self) -> None:
        """Call `handle` soon, also without a message."""
        self._arrived.set()

    async def run(self, stopped: asyncio.Event) -> None:
        """Call `handle` until stopped; what has arrived by then is handled."""
        self.turn()
        while not stopped.is_set():
            await self._wait()
            self.turn()

    def turn(self) -> None:
        """Handle what has arrived, in one commit."""
        taken = [self._inbox.popleft() for _ in range(min(len(self._inbox), _BATCH))]
        if not self._inbox:
            self._arrived.clear()
        step = self._handle([one for messages, _ in taken for one in messages], self._clock())
        self._wake_at_s = step.wake_at_s
        self._send(step.messages)
        for _, done in taken:
            done()

    async def _wait(self) -> None:
        timeout_s = None
        if self._wake_at_s is not None:
            timeout_s = max(self._wake_at_s - self._clock(), 0.0)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._arrived.wait(), timeout_s)
