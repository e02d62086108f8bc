"""The turns of a server or a worker: messages in, one commit, messages out, the next wake-up.

The network runs a pump under the real clock, the simulation under a virtual one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dealfl.protocol.messages import Message, Step


class Pump:
    """Calls `handle`, sends the replies after its commit, and asks the clock for the next call.

    Examples
    --------
    >>> sent, calls = [], []
    >>> pump = Pump(lambda messages, now_s: Step((), now_s + 5.0), sent.extend, calls.append)
    >>> pump.turn((), 1.0)
    >>> pump.wake(9.0)
    >>> calls, pump.due_s
    ([6.0], 6.0)
    """

    __slots__ = ("_handle", "_schedule", "_send", "due_s")  # a simulation has one per worker

    def __init__(
        self,
        handle: Callable[[Iterable[Message], float], Step],
        send: Callable[[Sequence[Message]], None],
        schedule: Callable[[float], None],
    ) -> None:
        self._handle, self._send, self._schedule = handle, send, schedule
        self.due_s = float("inf")

    def wake(self, moment_s: float) -> None:
        """Ask for a call at a time, unless an earlier one is scheduled."""
        if moment_s < self.due_s:
            self.due_s = moment_s
            self._schedule(moment_s)

    def turn(self, messages: Iterable[Message], now_s: float) -> None:
        """Handle messages in one commit."""
        self.emit(self._handle(messages, now_s), now_s)

    def emit(self, step: Step, now_s: float) -> None:
        """Send the messages of a step, and schedule the next call."""
        self._send(step.messages)
        if step.wake_at_s is not None:
            self.wake(max(step.wake_at_s, now_s))
