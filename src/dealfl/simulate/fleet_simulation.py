"""The event loop of a fleet, in which workers sleep and drop out, and the state of a run."""

from __future__ import annotations

import hashlib
import random
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from dealfl.errors import BadBytes, BadInput
from dealfl.protocol import Assignment, Message, Published
from dealfl.server import Server
from dealfl.simulate.building import DeviceState
from dealfl.simulate.lossy_network import Network
from dealfl.simulate.outcome import Round
from dealfl.simulate.simulation import SERVER, Leaves, Returns, Simulation, SimulationState, Uses
from dealfl.simulate.traffic import RadioKeys, Traffic, TrafficState
from dealfl.storage import replace_file
from dealfl.worker import Worker

__all__ = ["FleetSimulation", "FleetState", "RunState"]

_MAGIC = b"DEALRUN\x03"
_MAX_BYTES = 1 << 31

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
        workers: Iterable[Worker],
        network: Network,
        *,
        dropout_share: float,
        seed: int,
        opened: Notice,
        published: Notice,
        traffic: Traffic,
        keys: RadioKeys,
    ) -> None:
        super().__init__(server, workers, network)
        self._dropout_share, self._seed = dropout_share, seed
        self._opened, self._published_now, self.traffic = opened, published, traffic
        self._reasons: dict[str, set[str]] = {name: set() for name in self.workers}
        self._intervals: dict[str, Iterator[tuple[float, float]]] = {}
        self._taken: dict[str, int] = {}  # number of intervals that were scheduled
        self.healed = False
        self.over = False  # what is sent after the last round belongs to no round
        self.set_action(Returns, lambda event: self._return(event.name, event.reason))
        self.set_action(Leaves, self._leaves)
        self.fetches_eagerly, self._uses_per_day = keys.fetch == "eager", keys.uses_per_day

    def call(self, name: str, messages: Iterable[Message]) -> None:
        """Hand messages over, unless the worker drops out at this moment."""
        given = list(messages)
        for message in given:
            if isinstance(message, Assignment) and self._drops_out(name, message.round):
                self._leave(name, "dropped out")
                back_s = max(message.deadline_s, self.now_s)
                self.schedule(back_s, Returns(name, "dropped out"))
        if name != SERVER and name not in self.asleep and not self.over:
            for message in given:
                self.traffic.receive(name, message, self.now_s)
        super().call(name, given)
        if name != SERVER and self.workers[name].is_asleep:
            self.traffic.disconnect(name, self.now_s)

    def carry(self, sender: str, messages: Sequence[Message]) -> None:
        """Carry messages, and report new rounds and versions."""
        super().carry(sender, messages)
        if sender != SERVER and not self.over:
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

    def follow(self, name: str, intervals: Iterator[tuple[float, float]]) -> None:
        """Keep a worker awake only during these intervals."""
        self._intervals[name], self._taken[name] = intervals, 0
        self._leave(name, "away")
        self._next_interval(name)

    def _leaves(self, event: Leaves) -> None:
        self._leave(event.name, "away")
        self._next_interval(event.name)

    def _next_interval(self, name: str) -> None:
        interval = next(self._intervals[name], None)
        if interval is None:
            return
        self._taken[name] += 1
        from_s, to_s = interval
        self.schedule(from_s, Returns(name, "away"))
        if to_s != float("inf"):
            self.schedule(to_s, Leaves(name))

    def heal(self) -> None:
        """Wake all workers permanently, and lose no more messages."""
        self.healed = self.over = True
        self.network.loss = 0.0
        for name in self.workers:
            self._reasons[name].clear()
            self._return(name, "")

    def _leave(self, name: str, reason: str) -> None:
        if not self.healed:
            self._reasons[name].add(reason)
            self.asleep.add(name)
            self.traffic.disconnect(name, self.now_s)

    def expect_use(self, name: str) -> None:
        """Schedule the next use of the shared model by a worker."""
        if self._uses_per_day and not self.healed:
            draw = random.Random(f"{self._seed}/use/{name}/{self.now_s}")  # noqa: S311
            gap_s = draw.expovariate(self._uses_per_day / 86_400.0)
            self.schedule(self.now_s + gap_s, Uses(name))

    def use_model(self, event: Uses) -> None:
        """Let a worker fetch the last version, if it is new."""
        name, whole, worker = event.name, self._published, self.workers[event.name]
        self.expect_use(name)
        if whole is None or name in self.asleep or self.fetches_eagerly or self.over:
            return
        message = self.traffic.fetch(name, worker.model_version, whole, self.now_s)
        if message is not None:
            self.send(name, worker.handle([message], self.now_s))

    def _return(self, name: str, reason: str) -> None:
        self._reasons[name].discard(reason)
        if not self._reasons[name]:
            self.asleep.discard(name)
            self.wake(name, self.now_s)

    def fleet_state(self) -> FleetState:
        """Return the state between two events."""
        return FleetState(
            simulation=self.state(),
            reasons={name: sorted(reasons) for name, reasons in self._reasons.items()},
            intervals=dict(self._taken),
            healed=self.healed,
            traffic=self.traffic.state(),
        )

    def restore_fleet(self, state: FleetState) -> None:
        """Resume from a state; skip the intervals that have passed."""
        self.restore(state.simulation)
        self._reasons = {name: set(reasons) for name, reasons in state.reasons.items()}
        self.healed = state.healed
        self.traffic.restore(state.traffic)
        for name, taken in state.intervals.items():
            for _ in islice(self._intervals[name], taken - self._taken[name]):
                self._taken[name] += 1


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run between two events.

    Parameters
    ----------
    fleet : str
        Fingerprint of the fleet, its data and its base.
    owners_key : bytes
        Key for the hashes of owners.
    simulation : FleetState
        State of the clock, the queue of events and the sleeping workers.
    contents : dict of str to callable
        Functions that return the content of each worker's journal, and of the ledger, by name.
    devices : dict of str to DeviceState
        State of each worker's device.
    rounds : list of Round
        Closed rounds.
    left : dict of str to int
        Number of examples that have not reached each worker yet.
    arrivals : dict of str to int
        Number of arrival times drawn for each worker.
    opened_at_s : float
        Virtual time at which the last round opened.
    wake_ups_of_everyone : int
        Number of wake-ups if every worker with examples were woken.
    """

    fleet: str
    owners_key: bytes
    simulation: FleetState
    contents: dict[str, Any]
    devices: dict[str, DeviceState]
    rounds: list[Round]
    left: dict[str, int]
    arrivals: dict[str, int]
    opened_at_s: float
    wake_ups_of_everyone: int

    def write(self, path: Path) -> None:
        """Write the state to a file atomically: after a crash, the old or the new state exists.

        Only one of the contents is in memory at a time.

        Parameters
        ----------
        path : Path
            File to create or replace.
        """
        replace_file(path, self._parts())

    def _parts(self) -> Iterator[bytes]:
        """Yield the file: compressed records, each after its length, and their hash."""
        hashed, packer = hashlib.sha256(), zlib.compressobj(1)
        head = msgspec.structs.replace(self, contents=dict.fromkeys(self.contents))
        yield _MAGIC
        for content in (lambda: msgspec.msgpack.encode(head), *self.contents.values()):
            record = content()
            packed = packer.compress(len(record).to_bytes(8, "little")) + packer.compress(record)
            hashed.update(packed)
            yield packed
        hashed.update(end := packer.flush())
        yield end + hashed.digest()

    @classmethod
    def read(cls, path: Path) -> RunState:
        """Read the state in a file.

        Parameters
        ----------
        path : Path
            File that `write` wrote.

        Returns
        -------
        RunState
            The state.

        Raises
        ------
        BadInput
            If the file cannot be read.
        BadBytes
            If the file is damaged or has another version.
        """
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BadInput(
                f"{path} cannot be read ({error.strerror}); start again with --restart"
            ) from error
        body = memoryview(content)[len(_MAGIC) : -32]
        if content[: len(_MAGIC)] + content[-32:] != _MAGIC + hashlib.sha256(body).digest():
            raise BadBytes(f"{path} is damaged or has another version; start again with --restart")
        head, *contents = _split(memoryview(zlib.decompressobj().decompress(body, _MAX_BYTES)))
        try:
            state = msgspec.msgpack.decode(head, type=cls)
        except msgspec.MsgspecError as error:
            raise BadBytes(
                f"{path} cannot be used ({error}); start again with --restart"
            ) from error
        named = zip(state.contents, contents, strict=True)
        return msgspec.structs.replace(state, contents={n: partial(bytes, one) for n, one in named})


def _split(plain: memoryview) -> Iterator[memoryview]:
    """Yield records that follow their lengths."""
    while plain:
        end = 8 + int.from_bytes(plain[:8], "little")
        yield plain[8:end]
        plain = plain[end:]
