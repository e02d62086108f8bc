"""The pump in real time: calls `handle` for messages and wake-ups, and sends the replies.

One call is one commit. Replies are sent, and what arrived is acknowledged, after it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence

from dealfl.errors import WriteFailed
from dealfl.network.connection import Connection
from dealfl.protocol import Message, Pump, Step

_LOG = logging.getLogger("dealfl.network")
_PAUSE_S = 1.0  # after the disk was full
_MAX_DOZE_S = 60.0  # between two looks at the clock
_BATCH = 200  # senders in one commit
_SHARE = 200  # messages of one sender in one commit: nobody waits for who sends many


class RealPump(Pump):
    """The pump of one server or worker in real time; an error of a call ends `failed`.

    While the disk is full, nothing is acknowledged: the same messages are handled again later.
    """

    problem = ""  # why nothing can be written now

    def __init__(
        self,
        handle: Callable[[Iterable[Message], float], Step],
        send: Callable[[Sequence[Message]], None],
        failed: asyncio.Future[None],
    ) -> None:
        super().__init__(handle, send, self._call_at)
        self._failed = failed
        self._inbox: dict[str, deque[Message | Callable[[], None]]] = {}  # by sender, in turn
        self._next: asyncio.Handle | None = None
        self._messages: list[Message] = []  # of the present commit
        self._finished: list[Callable[[], None]] = []
        self._changes: deque[Callable[[], None]] = deque()  # beside the messages

    def put(
        self,
        messages: Sequence[Message],
        done: Callable[[], None] = lambda: None,
        sender: str = "",
    ) -> None:
        """Take messages of a sender; `done` is called after they are durable."""
        self._inbox.setdefault(sender, deque()).extend((*messages, done))
        self.call()

    def change(self, change: Callable[[], None]) -> None:
        """Make a change that is no message before the next commit; again if the disk is full."""
        self._changes.append(change)
        self.call()

    def call(self) -> None:
        """Call `handle` at once; while the disk is full, after a pause."""
        if not self.problem:
            self.wake(float("-inf"))

    def stop(self) -> None:
        """Call `handle` no more."""
        if self._next is not None:
            self._next.cancel()
        self.due_s = float("-inf")

    def _call_at(self, moment_s: float) -> None:
        if self._failed.done():
            return
        if self._next is not None:
            self._next.cancel()
        self._wait(moment_s, time.time())

    def _wait(self, moment_s: float, last_s: float) -> None:
        """Call at a time of the clock on the wall, or when it has jumped back.

        The timers of the event loop stand still while a phone is suspended.
        """
        now_s = time.time()
        if last_s <= now_s < moment_s:
            delay_s = min(moment_s - now_s, _MAX_DOZE_S)
            loop = asyncio.get_running_loop()
            self._next = loop.call_later(delay_s, self._wait, moment_s, now_s)
        else:
            self._next = asyncio.get_running_loop().call_soon(self._call)

    def _call(self) -> None:
        """Handle what has arrived, in one commit."""
        self._next = None
        self.due_s = float("inf")
        if not self.problem:
            for sender in list(self._inbox)[:_BATCH]:
                self._take(sender, self._messages, self._finished)
        try:
            self._make_changes()
            self.turn(self._messages, time.time())
            finished = self._finished
            self._messages = []
            self._finished = []
            self._note_problem("")
            for done in finished:
                done()
        except WriteFailed as error:
            self._note_problem(str(error))
            self.wake(time.time() + _PAUSE_S)
            return
        except Exception as error:
            if not self._failed.done():
                self._failed.set_exception(error)
            return
        if self._inbox:
            self.call()

    def _make_changes(self) -> None:
        while self._changes:
            self._changes[0]()
            self._changes.popleft()

    def _note_problem(self, problem: str) -> None:
        """Log why nothing can be written, and when it can again."""
        if problem and not self.problem:
            extra = {"deal_event": "waiting", "deal_reason": problem}
            _LOG.warning("%s; waiting", problem, extra=extra)
        if self.problem and not problem:
            _LOG.warning("the disk can be written again", extra={"deal_reason": "disk writable"})
        self.problem = problem

    def _take(
        self, sender: str, messages: list[Message], finished: list[Callable[[], None]]
    ) -> None:
        """Take the share of a sender; who has more comes after all others in the next commit."""
        waiting = self._inbox.pop(sender)
        until = len(messages) + _SHARE
        while waiting and (len(messages) < until or callable(waiting[0])):
            item = waiting.popleft()
            if callable(item):
                finished.append(item)
            else:
                messages.append(item)
        if waiting:
            self._inbox[sender] = waiting


async def carry(
    connections: Iterable[Connection],
    pumps: Collection[RealPump],
    failed: asyncio.Future[None],
    stopped: asyncio.Event,
) -> None:
    """Run connections and pumps until stopped; raise the error of a call."""
    failed.add_done_callback(lambda _: stopped.set())
    tasks = [asyncio.ensure_future(connection.run(stopped)) for connection in connections]
    for pump in pumps:
        pump.call()
    try:
        await stopped.wait()
    finally:
        for pump in pumps:
            pump.stop()
        stopped.set()
        await asyncio.gather(*tasks, return_exceptions=True)
    if failed.done():
        failed.result()
