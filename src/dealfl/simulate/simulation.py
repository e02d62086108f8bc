"""The event loop: server and workers under a virtual clock.

Events are plain records, so that a simulation can be saved and resumed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from dealfl.protocol import Assignment, Message, Published, Pump, Step
from dealfl.server import Server
from dealfl.simulate.lossy_network import Draws, Network
from dealfl.worker import Worker

__all__ = ["SERVER", "Arrives", "Leaves", "Returns", "Simulation", "SimulationState", "Uses"]

SERVER = ""


class _Event(msgspec.Struct, frozen=True, tag=True):
    """An event of a worker, or of the server, whose name is empty."""

    name: str


class Wake(_Event, frozen=True):
    """A requested call, unless an earlier one replaced it."""

    moment_s: float


class Deliver(_Event, frozen=True):
    """A message arrives."""

    message: Message


class Returns(_Event, frozen=True):
    """A reason for being absent ends.

    Parameters
    ----------
    name, reason : str
        Name of the worker, and the reason.
    """

    reason: str


class Leaves(_Event, frozen=True):
    """A worker is absent until its next interval begins."""


class Arrives(_Event, frozen=True):
    """New examples reach a worker."""

    count: int


class Uses(_Event, frozen=True):
    """A worker uses the shared model."""


Event = Wake | Deliver | Returns | Leaves | Arrives | Uses


class SimulationState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a simulation; server and workers have their own stores."""

    now_s: float
    order: int
    queue: list[tuple[float, int, Event]]
    wake_at_s: dict[str, float]
    asleep: list[str]
    published: Published | None
    draws: Draws


class Simulation:
    """An event loop that delivers messages and calls server and workers in virtual time.

    Sleeping workers receive nothing. The last published model is kept, and a worker receives it
    with its next assignment.

    Parameters
    ----------
    server : Server
        The server.
    workers : iterable of Worker
        All workers.
    network : Network or None
        Network between them; None for one without faults.
    start_s : float
        Virtual time at the start, in seconds.
    """

    def __init__(
        self, server: Server, workers: Iterable[Worker], network: Network | None = None,
        start_s: float = 0.0,
    ) -> None:  # fmt: skip
        self.server = server
        self.workers = {worker.name: worker for worker in workers}
        self.network = network or Network()
        self.now_s = start_s
        self.asleep: set[str] = set()
        self.fetches_eagerly = True
        self._published: Published | None = None
        self._queue: list[tuple[float, int, Event]] = []
        self._order = 0
        self._pumps: dict[str, Pump] = {}
        self._actions: dict[type, Callable[[Any], None]] = {
            Wake: self._wake_due, Deliver: self._deliver,
        }  # fmt: skip
        for name in self.workers:
            self.wake(name, start_s)

    def _pump(self, name: str) -> Pump:
        if name in self._pumps:
            return self._pumps[name]

        def handle(messages: Iterable[Message], now_s: float) -> Step:
            one = self.server if name == SERVER else self.workers[name]
            return one.handle(messages, now_s)

        def expect_call(moment_s: float) -> None:
            self.schedule(moment_s, Wake(name, moment_s))

        return self._pumps.setdefault(name, Pump(handle, partial(self.carry, name), expect_call))

    def set_action(self, kind: type[Event], action: Callable[[Any], None]) -> None:
        """Set the function that handles a kind of event.

        Parameters
        ----------
        kind : type
            Class of the event.
        action : callable
            Function that takes the event.
        """
        self._actions[kind] = action

    def schedule(self, moment_s: float, event: Event) -> None:
        """Schedule an event.

        Parameters
        ----------
        moment_s : float
            Virtual time in seconds; a past time means now.
        event : Event
            The event.
        """
        self._order += 1
        heapq.heappush(self._queue, (max(moment_s, self.now_s), self._order, event))

    def run(self, until_s: float, stopped: Callable[[], bool] = lambda: False) -> None:
        """Process events until a time, or until `stopped` returns True between two events.

        Parameters
        ----------
        until_s : float
            Virtual time in seconds.
        stopped : callable
            Function without arguments that returns whether to stop.
        """
        while self._queue and self._queue[0][0] <= until_s:
            if stopped():
                return
            self.now_s, _, event = heapq.heappop(self._queue)
            self._actions[type(event)](event)
        self.now_s = until_s

    def _wake_due(self, event: Wake) -> None:
        pump = self._pump(event.name)
        if pump.due_s == event.moment_s:
            pump.due_s = float("inf")
            self.call(event.name, ())

    def call(self, name: str, messages: Iterable[Message]) -> None:
        """Hand messages to the server or an awake worker, and send the replies.

        Parameters
        ----------
        name : str
            Name of the worker; empty for the server.
        messages : iterable of Message
            The messages; may be empty.
        """
        if name == SERVER or (name in self.workers and name not in self.asleep):
            self._pump(name).turn(messages, self.now_s)

    def wake(self, name: str, moment_s: float) -> None:
        """Schedule a call of a worker or the server, unless an earlier call is scheduled.

        Parameters
        ----------
        name : str
            Name of the worker; empty for the server.
        moment_s : float
            Virtual time in seconds.
        """
        self._pump(name).wake(moment_s)

    def send(self, sender: str, step: Step) -> None:
        """Send the messages of a step that was made outside of the simulation.

        Parameters
        ----------
        sender : str
            Name of the worker; empty for the server.
        step : Step
            Messages, and the time of the next call.
        """
        self._pump(sender).emit(step, self.now_s)

    def carry(self, sender: str, messages: Sequence[Message]) -> None:
        """Carry messages over the network.

        Parameters
        ----------
        sender : str
            Name of the worker; empty for the server.
        messages : sequence of Message
            The messages.
        """
        for message in messages:
            if isinstance(message, Published):
                self._published = message
                continue
            receivers = [message.worker] if message.worker else list(self.workers)
            for receiver in receivers if sender == SERVER else [SERVER]:
                for delay_s in self.network.delays_s():
                    self.schedule(self.now_s + delay_s, Deliver(receiver, message))

    def _deliver(self, event: Deliver) -> None:
        messages: list[Message] = [event.message]
        fetches = self.fetches_eagerly and isinstance(event.message, Assignment)
        if fetches and self._published is not None:
            messages.insert(0, self._published)
        if event.name == SERVER or not self.workers[event.name].is_asleep:  # else it is lost
            self.call(event.name, messages)

    def state(self) -> SimulationState:
        """Return the state between two events."""
        queue = sorted(self._queue, key=lambda entry: entry[:2])
        due_s = {n: one.due_s for n, one in self._pumps.items() if one.due_s < float("inf")}
        return SimulationState(
            now_s=self.now_s, order=self._order, queue=queue, wake_at_s=due_s,
            asleep=sorted(self.asleep), published=self._published, draws=self.network.state(),
        )  # fmt: skip

    def restore(self, state: SimulationState) -> None:
        """Resume from a state.

        Parameters
        ----------
        state : SimulationState
            Result of `state`.
        """
        self.now_s, self._order = state.now_s, state.order
        self._queue = list(state.queue)  # a sorted list is a heap
        for name in (SERVER, *self.workers):
            self._pump(name).due_s = state.wake_at_s.get(name, float("inf"))
        self.asleep = set(state.asleep)
        self._published = state.published
        self.network.restore(state.draws)
