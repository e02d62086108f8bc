"""Server and workers pumped from one queue of events under a virtual clock."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from dealfl.messages import Assignment, Message, Published, Step
from dealfl.server import Server
from dealfl.simulate.events import Deliver, Event, Wake
from dealfl.simulate.network import Network
from dealfl.worker import Worker

__all__ = ["Simulation", "SimulationState"]

SERVER = ""


class SimulationState(msgspec.Struct, frozen=True, kw_only=True):
    """All that a simulation must know to go on; server and workers have their own stores."""

    now_s: float
    order: int
    queue: list[tuple[float, int, Event]]
    wake_at_s: dict[str, float]
    asleep: list[str]
    published: Published | None
    draws: tuple[int, tuple[int, ...], float | None]


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
        self.interrupted = False
        self._published: Published | None = None
        self._queue: list[tuple[float, int, Event]] = []
        self._order = 0
        self._wake_at_s: dict[str, float] = {}
        self._actions: dict[type, Callable[[Any], None]] = {}
        self.on(Wake, self._woken)
        self.on(Deliver, self._delivered)
        for name in self.workers:
            self.wake(name, 0.0)

    def on(self, kind: type[Event], action: Callable[[Any], None]) -> None:
        """Say what is to be done when such an event happens."""
        self._actions[kind] = action

    def at(self, moment_s: float, event: Event) -> None:
        """Let something happen at a moment of virtual time."""
        self._order += 1
        heapq.heappush(self._queue, (max(moment_s, self.now_s), self._order, event))

    def run(self, until_s: float) -> None:
        """Let virtual time pass; between two events it can be `interrupted`."""
        while self._queue and self._queue[0][0] <= until_s:
            if self.interrupted:
                return
            self.now_s, _, event = heapq.heappop(self._queue)
            self._actions[type(event)](event)
        self.now_s = until_s

    def wake(self, name: str, moment_s: float) -> None:
        """Call a worker (or the server, "") at a moment; an earlier call already due suffices."""
        if self._wake_at_s.get(name, float("inf")) <= moment_s:
            return
        self._wake_at_s[name] = moment_s
        self.at(moment_s, Wake(name, moment_s))

    def _woken(self, event: Wake) -> None:
        if self._wake_at_s.get(event.name) == event.moment_s:
            del self._wake_at_s[event.name]
            self.call(event.name, ())

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
                    self.at(self.now_s + delay_s, Deliver(receiver, message))
        if step.wake_at_s is not None:
            self.wake(sender, max(step.wake_at_s, self.now_s))

    def _receivers(self, sender: str, message: Message) -> list[str]:
        if sender != SERVER:
            return [SERVER]
        return [message.worker] if message.worker else list(self.workers)

    def _delivered(self, event: Deliver) -> None:
        messages: list[Message] = [event.message]
        if isinstance(event.message, Assignment) and self._published is not None:
            messages.insert(0, self._published)
        self.call(event.name, messages)

    # -- going on later -------------------------------------------------------------------------

    def state(self) -> SimulationState:
        """Return where it stands, between two events."""
        return SimulationState(
            now_s=self.now_s,
            order=self._order,
            queue=sorted(self._queue, key=lambda entry: entry[:2]),
            wake_at_s=dict(self._wake_at_s),
            asleep=sorted(self.asleep),
            published=self._published,
            draws=self.network.state(),
        )

    def restore(self, state: SimulationState) -> None:
        """Go on from where another one stood."""
        self.now_s, self._order = state.now_s, state.order
        self._queue = list(state.queue)  # sorted is a heap
        self._wake_at_s = dict(state.wake_at_s)
        self.asleep = set(state.asleep)
        self._published = state.published
        self.network.restore(state.draws)
