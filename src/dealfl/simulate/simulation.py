"""The event loop: server and workers under a virtual clock, and a network with faults.

Events are plain records, so that a simulation can be saved and resumed.
"""

from __future__ import annotations

import copy
import heapq
import random
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from dealfl.keyholder import Keyholder
from dealfl.protocol import Assignment, Message, Published, Pump, Step
from dealfl.server import Server
from dealfl.simulate.traffic import Askers, RadioKeys, Traffic, TrafficState
from dealfl.worker import Accepted

Draws = tuple[int, tuple[int, ...], float | None]  # state of a random generator
Item = TypeVar("Item")
_MOST_LIVE = 4096  # a random generator takes 2.5 KB


class Recalled(Generic[Item]):
    """Seeded sequences of many workers, of which a limited number is in memory.

    `begin` returns a sequence after its first items. One that was not used for long is dropped, and
    begun again where it was.

    Examples
    --------
    >>> letters = Recalled(lambda name, first: iter(name[first:]), most_live=1)
    >>> letters.take("abc", 2), letters.take("xyz", 1), letters.take("abc", 2)
    (['a', 'b'], ['x'], ['c'])
    """

    def __init__(
        self, begin: Callable[[str, int], Iterator[Item]], most_live: int = _MOST_LIVE
    ) -> None:
        self._begin = begin
        self._most_live = most_live
        self._live: OrderedDict[str, Iterator[Item]] = OrderedDict()  # least recently used first
        self.taken: dict[str, int] = {}

    def take(self, name: str, count: int) -> list[Item]:
        """Return the next items, fewer at the end."""
        taken = self.taken.get(name, 0)
        items = self._live.pop(name, None) or self._begin(name, taken)
        given = list(islice(items, count))
        self.taken[name] = taken + len(given)
        if len(given) == count:
            self._live[name] = items
            if len(self._live) > self._most_live:
                self._live.popitem(last=False)
        return given

    def resume(self, taken: Mapping[str, int]) -> None:
        """Continue after numbers of items."""
        self._live.clear()
        self.taken = dict(taken)


@dataclass(slots=True)
class Network:
    """A network that delays, loses and repeats messages; the same seed gives the same faults.

    Examples
    --------
    >>> Network(seed=1).delays_s()
    [0.0]
    """

    loss: float = 0.0
    repetition: float = 0.0
    min_delay_s: float = 0.0
    max_delay_s: float = 0.0
    seed: int = 0
    _random: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Seed the random generator."""
        self._random = random.Random(self.seed)  # noqa: S311

    def delays_s(self) -> list[float]:
        """Return the delay of each copy of a message, in seconds; empty if it is lost."""
        copies = 1 + (self._random.random() < self.repetition)
        arriving = [copy for copy in range(copies) if self._random.random() >= self.loss]
        return [self._random.uniform(self.min_delay_s, self.max_delay_s) for _ in arriving]

    def state(self) -> Draws:
        """Return the state of the random generator."""
        version, numbers, spare = self._random.getstate()
        return version, numbers, spare

    def restore(self, state: Draws) -> None:
        """Resume from a state of the random generator."""
        self._random.setstate(state)


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
    """A reason for being absent ends."""

    reason: str


class Leaves(_Event, frozen=True):
    """A worker is absent until its next interval begins."""


class Arrives(_Event, frozen=True):
    """New examples reach a worker."""

    count: int


class Uses(_Event, frozen=True):
    """A worker uses the shared model."""


class OwnTrafficBegins(_Event, frozen=True):
    """A worker notices that own traffic of its phone has the radio on."""


Event = Wake | Deliver | Returns | Leaves | Arrives | Uses | OwnTrafficBegins


class SimulationState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a simulation; server and workers have their own stores."""

    now_s: float
    order: int
    queue: list[tuple[float, int, Event]]
    wake_at_s: dict[str, float]
    asleep: list[str]
    published: Published | None
    draws: Draws


class AnyWorker(Protocol):
    """A worker as an event loop calls it: a `Worker`, or a member of a `Crew`."""

    name: str

    @property
    def is_asleep(self) -> bool:
        """Whether it needs no connection until it calls."""

    @property
    def model_version(self) -> int:
        """The version of the published model that it holds."""

    def handle(self, messages: Iterable[Message], now_s: float) -> Step:
        """Process messages."""

    def ingest(self, rows: Sequence[tuple[str, bytes]]) -> Accepted:
        """Store new records."""

    def note_disconnect(self) -> None:
        """Note that the connection was lost."""

    def note_traffic(self, is_on: bool, now_s: float) -> bool:
        """Note whether other traffic has the radio on; return whether a call now is worth it."""

    def note_use(self, owner: str) -> None:
        """Count what a prediction for an owner reads as used now."""


class Simulation:
    """An event loop that delivers messages and calls server and workers in virtual time.

    Sleeping workers receive nothing. The last published model is kept, and a worker receives it
    with its next assignment.
    """

    def __init__(
        self,
        server: Server,
        workers: Iterable[AnyWorker],
        network: Network | None = None,
        start_s: float = 0.0,
        keyholder: Keyholder | None = None,
    ) -> None:
        self.server = server
        self.workers = {worker.name: worker for worker in workers}
        self.keyholder = keyholder
        self.network = network or Network()
        self.now_s = start_s
        self.asleep: set[str] = set()
        self.fetches_eagerly = True
        self._published: Published | None = None
        self._queue: list[tuple[float, int, Event]] = []
        self._order = 0
        self._pumps: dict[str, Pump] = {}
        self._actions: dict[type, Callable[[Any], None]] = {
            Wake: self._wake_due,
            Deliver: self._deliver,
        }
        for name in (*self.workers, *([keyholder.name] if keyholder else [])):
            self.wake(name, start_s)

    def _find_end(self, name: str) -> Server | AnyWorker | Keyholder | None:
        if name == SERVER:
            return self.server
        if self.keyholder is not None and name == self.keyholder.name:
            return self.keyholder
        return self.workers.get(name)

    def _pump(self, name: str) -> Pump:
        pump = self._pumps.get(name)
        if pump is None:
            handle, carry = partial(self._handle, name), partial(self.carry, name)
            pump = self._pumps[name] = Pump(handle, carry, partial(self._expect_call, name))
        return pump

    def _handle(self, name: str, messages: Iterable[Message], now_s: float) -> Step:
        end = self._find_end(name)
        assert end is not None, "only ends that exist are called"
        return end.handle(messages, now_s)

    def _expect_call(self, name: str, moment_s: float) -> None:
        self.schedule(moment_s, Wake(name, moment_s))

    def set_action(self, kind: type[Event], action: Callable[[Any], None]) -> None:
        """Set the function that handles a kind of event."""
        self._actions[kind] = action

    def schedule(self, moment_s: float, event: Event) -> None:
        """Schedule an event."""
        self._order += 1
        heapq.heappush(self._queue, (max(moment_s, self.now_s), self._order, event))

    def run(self, until_s: float, stopped: Callable[[], bool] = lambda: False) -> None:
        """Process events until a time, or until `stopped` returns True between two events."""
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
        """Hand messages to the server, the keyholder or an awake worker, and send the replies."""
        if name not in self.asleep and self._find_end(name) is not None:
            self._pump(name).turn(messages, self.now_s)

    def wake(self, name: str, moment_s: float) -> None:
        """Schedule a call of a worker or the server, unless an earlier call is scheduled."""
        self._pump(name).wake(moment_s)

    def send(self, sender: str, step: Step) -> None:
        """Send the messages of a step that was made outside of the simulation."""
        self._pump(sender).emit(step, self.now_s)

    def carry(self, sender: str, messages: Sequence[Message]) -> None:
        """Carry messages over the network."""
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
        worker = self.workers.get(event.name)
        if worker is None or not worker.is_asleep:  # else it is lost
            self.call(event.name, messages)

    def state(self) -> SimulationState:
        """Return the state between two events."""
        queue = sorted(self._queue, key=lambda entry: entry[:2])
        due_s = {n: pump.due_s for n, pump in self._pumps.items() if pump.due_s < float("inf")}
        return SimulationState(
            now_s=self.now_s,
            order=self._order,
            queue=queue,
            wake_at_s=due_s,
            asleep=sorted(self.asleep),
            published=self._published,
            draws=self.network.state(),
        )

    def restore(self, state: SimulationState) -> None:
        """Resume from a state."""
        self.now_s = state.now_s
        self._order = state.order
        self._queue = list(state.queue)  # a sorted list is a heap
        for name in (SERVER, *self.workers, *([self.keyholder.name] if self.keyholder else [])):
            self._pump(name).due_s = state.wake_at_s.get(name, float("inf"))
        self.asleep = set(state.asleep)
        self._published = state.published
        self.network.restore(state.draws)


Notice = Callable[[], None]


class FleetState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a fleet's event loop."""

    simulation: SimulationState
    reasons: dict[str, list[str]]
    intervals: dict[str, int]
    healed: bool
    traffic: TrafficState


class FleetSimulation(Simulation):
    """An event loop that puts workers to sleep; a worker without a reason to be absent is awake.

    A worker that drops out of a round never sees its assignment, and is absent until the deadline.
    """

    def __init__(
        self,
        server: Server,
        workers: Iterable[AnyWorker],
        network: Network,
        *,
        dropout_share: float,
        seed: int,
        opened: Notice,
        published: Notice,
        traffic: Traffic,
        keys: RadioKeys,
        askers: Mapping[str, Askers],
        awake: Callable[[str, int], Iterator[tuple[float, float]]],
        keyholder: Keyholder | None,
    ) -> None:
        super().__init__(server, workers, network, keyholder=keyholder)
        self._dropout_share = dropout_share
        self._seed = seed
        self._opened = opened
        self._published_now = published
        self.traffic = traffic
        self._askers = askers
        self.fetches_eagerly = keys.fetch == "eager"
        self._uses_per_day = keys.uses_per_day
        self._notice_s = keys.notice_s
        self._fetches_with_calls = keys.fetch == "calls"
        self._reasons: dict[str, set[str]] = {}  # of those that are absent
        self.touched: set[str] = set()  # workers that may have spent energy
        self._intervals = Recalled(awake)
        self.healed = False
        self.over = False  # what is sent after the last round belongs to no round
        self.set_action(Returns, lambda event: self._return(event.name, event.reason))
        self.set_action(Leaves, self._leaves)
        self.set_action(Uses, self._use)
        self.set_action(OwnTrafficBegins, self._ride)

    def call(self, name: str, messages: Iterable[Message]) -> None:
        """Hand messages over, unless the worker drops out at this moment."""
        given = list(messages)
        self.touched.add(name)
        for message in given:
            if isinstance(message, Assignment) and self._drops_out(name, message.round):
                self._leave(name, "dropped out")
                back_s = max(message.deadline_s, self.now_s)
                self.schedule(back_s, Returns(name, "dropped out"))
        if name in self.workers and name not in self.asleep and not self.over:
            for message in given:
                self.traffic.receive(name, message, self.now_s)
        super().call(name, given)
        if name in self.traffic.state.wanted and any(isinstance(m, Assignment) for m in given):
            self._fetch(name)
        if name in self.workers and self.workers[name].is_asleep:
            self.traffic.disconnect(name, self.now_s)

    def carry(self, sender: str, messages: Sequence[Message]) -> None:
        """Carry messages, and report new rounds and versions."""
        super().carry(sender, messages)
        self.touched.add(sender)
        if sender in self.workers and not self.over:
            self.traffic.send(sender, messages, self.now_s)
        if sender == SERVER:
            if any(isinstance(message, Published) for message in messages):
                self._published_now()
            if any(isinstance(message, Assignment) for message in messages):
                self._opened()

    def _drops_out(self, name: str, round_number: int) -> bool:
        if self.healed or name in self.asleep:
            return False
        draw = random.Random(f"{self._seed}/dropout/{name}/{round_number}")  # noqa: S311
        return draw.random() < self._dropout_share

    def follow(self, name: str) -> None:
        """Keep a worker awake only during its intervals."""
        self._leave(name, "away")
        self._next_interval(name)

    def _leaves(self, event: Leaves) -> None:
        self._leave(event.name, "away")
        self._next_interval(event.name)

    def _next_interval(self, name: str) -> None:
        for from_s, to_s in self._intervals.take(name, 1):
            self.schedule(from_s, Returns(name, "away"))
            if to_s != float("inf"):
                self.schedule(to_s, Leaves(name))

    def heal(self) -> None:
        """Wake all workers permanently, and lose no more messages."""
        self.healed = self.over = True
        self.network.loss = 0.0
        for name in self.workers:
            self._reasons.pop(name, None)
            self._return(name, "")

    def _leave(self, name: str, reason: str) -> None:
        if not self.healed:
            self._reasons.setdefault(name, set()).add(reason)
            self.asleep.add(name)
            self.touched.add(name)
            self.traffic.disconnect(name, self.now_s)
            self.workers[name].note_disconnect()

    def expect_use(self, name: str) -> None:
        """Schedule the next use of the shared model by a worker."""
        if self._uses_per_day and not self.healed:
            draw = random.Random(f"{self._seed}/use/{name}/{self.now_s}")  # noqa: S311
            gap_s = draw.expovariate(self._uses_per_day / 86_400.0)
            self.schedule(self.now_s + gap_s, Uses(name))

    def _use(self, event: Uses) -> None:
        """Let an owner ask a worker, which fetches the last version for it, if it is new.

        The examples of the owner on the phone count as used. A phone needs no connection to answer,
        and the energy of an answer is not modelled.
        """
        self.expect_use(event.name)
        if self._fetches_with_calls:
            self.traffic.state.wanted.add(event.name)
        else:
            self._fetch(event.name)
        if event.name in self._askers and not self.healed:
            owner = self._askers[event.name].draw(self.now_s)
            self.workers[event.name].note_use(owner)

    def _fetch(self, name: str) -> None:
        whole, worker = self._published, self.workers[name]
        if whole is None or name in self.asleep or self.fetches_eagerly or self.over:
            return
        message = self.traffic.fetch(name, worker.model_version, whole, self.now_s)
        if message is not None:
            self.send(name, worker.handle([message], self.now_s))

    def expect_own_traffic(self, name: str) -> None:
        """Schedule when a worker notices own traffic of its phone next."""
        start_s = self.traffic.next_own_s(name, self.now_s)
        if start_s is not None and not self.healed:
            self.schedule(start_s + self._notice_s, OwnTrafficBegins(name))

    def _ride(self, event: OwnTrafficBegins) -> None:
        """Let a sleeping worker call, if own traffic or its tail still has the radio on."""
        name = event.name
        worker = self.workers[name]
        self.expect_own_traffic(name)
        is_on = self.traffic.own_is_on(name, self.now_s) and name not in self.asleep
        if worker.note_traffic(is_on, self.now_s):
            self.call(name, ())
        elif worker.is_asleep:
            worker.note_traffic(False, self.now_s)

    def _return(self, name: str, reason: str) -> None:
        reasons = self._reasons.get(name, set())
        reasons.discard(reason)
        if not reasons:
            self._reasons.pop(name, None)
            self.asleep.discard(name)
            self.wake(name, self.now_s)

    def fleet_state(self) -> FleetState:
        """Return the state between two events."""
        return FleetState(
            simulation=self.state(),
            reasons={name: sorted(reasons) for name, reasons in self._reasons.items()},
            intervals=dict(self._intervals.taken),
            healed=self.healed,
            traffic=self.traffic.state,
        )

    def restore_fleet(self, state: FleetState) -> None:
        """Resume from a state."""
        self.restore(state.simulation)
        self._reasons = {name: set(reasons) for name, reasons in state.reasons.items()}
        self.healed = state.healed
        self.traffic.state = copy.deepcopy(state.traffic)
        self._intervals.resume(state.intervals)
