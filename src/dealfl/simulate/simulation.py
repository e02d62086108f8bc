"""Server and workers pumped from one queue of events under a virtual clock."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import count

from dealfl.messages import Assignment, Message, Published, Step
from dealfl.server import Server
from dealfl.simulate.network import Network
from dealfl.worker import Worker

__all__ = ["Simulation"]

SERVER = ""


class Simulation:
    """Delivers messages and wakes whoever asked for it, in the order of virtual time.

    Workers that are asleep receive nothing and do nothing. The published model is kept like a
    retained message: it reaches a worker with its next assignment.
    """

    def __init__(
        self, server: Server, workers: Iterable[Worker], network: Network | None = None
    ) -> None:
        self.server = server
        self.workers = {worker.name: worker for worker in workers}
        self.network = network or Network()
        self.now_s = 0.0
        self.asleep: set[str] = set()
        self._published: Published | None = None
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._wake_at_s: dict[str, float] = {}
        for name in self.workers:
            self.wake(name, 0.0)

    def at(self, moment_s: float, action: Callable[[], None]) -> None:
        """Do something at a moment of virtual time."""
        heapq.heappush(self._queue, (max(moment_s, self.now_s), next(self._order), action))

    def run(self, until_s: float) -> None:
        """Let virtual time pass."""
        while self._queue and self._queue[0][0] <= until_s:
            self.now_s, _, action = heapq.heappop(self._queue)
            action()
        self.now_s = until_s

    def wake(self, name: str, moment_s: float) -> None:
        """Call a worker (or the server, "") at a moment; an earlier call already due suffices."""
        if self._wake_at_s.get(name, float("inf")) <= moment_s:
            return
        self._wake_at_s[name] = moment_s
        self.at(moment_s, lambda: self._woken(name, moment_s))

    def _woken(self, name: str, moment_s: float) -> None:
        if self._wake_at_s.get(name) == moment_s:
            del self._wake_at_s[name]
            self.call(name, ())

    def call(self, name: str, messages: Iterable[Message]) -> None:
        """Hand messages to the server or a worker, and send what comes back."""
        if name == SERVER:
            self.sent(SERVER, self.server.handle(messages, self.now_s))
        elif name in self.workers and name not in self.asleep:
            self.sent(name, self.workers[name].handle(messages, self.now_s))

    def sent(self, sender: str, step: Step) -> None:
        """Put the messages of a step on their way."""
        for message in step.messages:
            if isinstance(message, Published):
                self._published = message
                continue
            for receiver in self._receivers(sender, message):
                for delay_s in self.network.delays_s():
                    self.at(self.now_s + delay_s, self._delivery(receiver, message))
        if step.wake_at_s is not None:
            self.wake(sender, max(step.wake_at_s, self.now_s))

    def _receivers(self, sender: str, message: Message) -> list[str]:
        if sender != SERVER:
            return [SERVER]
        return [message.worker] if message.worker else list(self.workers)

    def _delivery(self, receiver: str, message: Message) -> Callable[[], None]:
        def deliver() -> None:
            retained = isinstance(message, Assignment) and self._published is not None
            self.call(receiver, [self._published, message] if retained else [message])  # type: ignore[list-item]

        return deliver
