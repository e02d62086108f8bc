"""The section [radio]: the price of every message for the radios of a fleet, delays, and uses."""

from __future__ import annotations

import hashlib
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from dealfl.power import Radio
from dealfl.protocol import (
    Announce,
    Asleep,
    Assignment,
    Declined,
    Erase,
    MaskedUpdate,
    Message,
    Published,
    Receipt,
    Refusal,
    Sleep,
    Update,
    Welcome,
    pack,
)
from dealfl.server import shorten
from dealfl.settings import Amount, OneOf, Positive, Whole

_ENVELOPE_BYTES = 512  # of a packet, with the headers of MQTT, TLS and TCP
_CAUSES: dict[type, str] = {
    Assignment: "training",
    Update: "training",
    MaskedUpdate: "training",
    Declined: "training",
    Announce: "announcement",
    Asleep: "announcement",
    Welcome: "announcement",
    Receipt: "receipt",
    Refusal: "receipt",
    Sleep: "receipt",
    Published: "model",
}


class RadioKeys(Struct, frozen=True, kw_only=True):
    """What a connection costs beside the messages, and when a phone fetches the model."""

    keep_alive_s: Annotated[
        Amount,
        Meta(
            description="time after which an idle connection is kept alive by a burst; "
            "0: the push channel of the system is shared"
        ),
    ] = 0.0
    handshake_bytes: Annotated[
        Whole, Meta(description="bytes to open a connection, beside three round trips")
    ] = 4_000
    rtt_s: Annotated[
        Amount | None,
        Meta(description="round-trip time to the server; by default 0.05 for wifi, 0.07 for lte"),
    ] = None
    tail_s: Annotated[
        Amount | None,
        Meta(description="time for which a radio stays on after a transfer; by default its own"),
    ] = None
    own_per_hour: Annotated[
        Amount,
        Meta(
            description="times an hour by day at which a phone's own traffic uses its radio, a "
            "quarter of it at night; 0: never"
        ),
    ] = 0.0
    own_scale: Annotated[
        Positive,
        Meta(description="factor of the lengths of own traffic: sessions of 25 s, others 0.5 s"),
    ] = 1.0
    notice_s: Annotated[
        Amount, Meta(description="time until a worker notices that own traffic uses the radio")
    ] = 0.1
    fetch: Annotated[
        str,
        OneOf({"lazy": None, "eager": None, "calls": None}),
        Meta(
            description="the model is fetched when it is used, with every assignment, or with the "
            "next assignment after it was used (until then the last one is used, if there is any)"
        ),
    ] = "lazy"
    uses_per_day: Annotated[
        Amount, Meta(description="times a day at which an owner uses the model of each phone")
    ] = 0.0
    uses_zipf: Annotated[
        Amount,
        Meta(description="exponent of Zipf's law by which few owners ask often; 0: equally"),
    ] = 1.0


class Delays(NamedTuple):
    """How long examples wait until their updates leave."""

    median_s: float
    mean_s: float
    p90_s: float


class TrafficState(Struct):
    """What each worker has said, the version that it holds, and how long its examples wait."""

    said: dict[str, str] = {}
    sequences: dict[str, tuple[int, int]] = {}  # incarnation and number of an update
    versions: dict[str, int] = {}
    held: dict[int, bytes] = {}  # the versions that some phone holds
    wanted: set[str] = set()  # workers that fetch the model with their next assignment
    waiting: dict[str, list[tuple[float, int]]] = {}  # time of arrival, and number
    delays: dict[str, list[tuple[float, int]]] = {}


class Traffic:
    """Prices the messages of a fleet, and notes how long examples wait until they are learned.

    A phone without a radio model pays for trainings only.
    """

    def __init__(self, radios: Mapping[str, Radio], *, announced: bool = True) -> None:
        self._radios = radios
        self._announced = announced  # False if no round needs announcements
        self.state = TrafficState()
        self._counted: TrafficState | None = None  # whose phones `_holders` counts by version
        self._holders: Counter[int] = Counter()

    def arrive(self, name: str, count: int, now_s: float) -> None:
        """Note that examples have reached a worker."""
        self.state.waiting.setdefault(name, []).append((now_s, count))

    @property
    def delays(self) -> Delays | None:
        """Times from the arrival of examples until their updates leave; None without any."""
        delays = sorted(delay for delays in self.state.delays.values() for delay in delays)
        reached = list(accumulate(count for _, count in delays))
        if not reached:
            return None

        def find(share: float) -> float:
            return delays[bisect_left(reached, share * reached[-1])][0]

        total_s = sum(delay_s * count for delay_s, count in delays)
        return Delays(find(0.5), total_s / reached[-1], find(0.9))

    def mean_delay_s(self, name: str) -> float | None:
        """Mean time from the arrival of a worker's examples until their updates leave."""
        delays = self.state.delays.get(name, [])
        count = sum(number for _, number in delays)
        return sum(delay_s * number for delay_s, number in delays) / count if count else None

    def send(self, name: str, messages: Iterable[Message], now_s: float) -> None:
        """Price what a worker sends."""
        radio = self._radios.get(name)
        for message in messages:
            cause = self._cause(name, message, now_s)
            if radio is not None and cause:
                radio.connect(now_s)
                radio.transfer(now_s, cause, sent=_size(message))

    def receive(self, name: str, message: Message, now_s: float) -> None:
        """Price what a worker receives."""
        radio = self._radios.get(name)
        if radio is None or (isinstance(message, Published) and not self._is_new(name, message)):
            return
        radio.connect(now_s)
        radio.transfer(now_s, _CAUSES.get(type(message), "erasure"), received=_size(message))

    def disconnect(self, name: str, now_s: float) -> None:
        """Note that a worker has closed or lost its connection."""
        self.state.said.pop(name, None)
        if name in self._radios:
            self._radios[name].disconnect(now_s)

    def _cause(self, name: str, message: Message, now_s: float) -> str:
        """Return what a message is sent for; empty if it only stands for an open connection."""
        if isinstance(message, Announce):
            said = f"{message.waiting > 0} {message.incarnation} {message.epoch}"
            said += f" {message.erased[:1]}"
            before = self.state.said.get(name, "")
            self.state.said[name] = said
            return "announcement" if said != before and self._announced else ""
        if isinstance(message, Update):
            key = (message.incarnation, message.sequence)
            last = self.state.sequences.get(name, (0, 0))
            self.state.sequences[name] = key
            if key <= last:
                return "retry"
            if message.round is None:
                return "erasure"
            waited = self.state.waiting.pop(name, [])
            self.state.delays.setdefault(name, []).extend((now_s - at_s, n) for at_s, n in waited)
            return "training"
        return _CAUSES.get(type(message), "erasure")

    def next_own_s(self, name: str, now_s: float) -> float | None:
        """Return when own traffic of a phone begins next; None if it has none."""
        own = self._radios[name].own if name in self._radios else None
        return own.next_start_s(now_s) if own is not None else None

    def own_is_on(self, name: str, now_s: float) -> bool:
        """Return whether own traffic of a phone, or its tail, has the radio on."""
        own = self._radios[name].own if name in self._radios else None
        return own is not None and own.is_on(now_s)

    # -- the model ------------------------------------------------------------------------------

    def _is_new(self, name: str, message: Published) -> bool:
        if self.state.versions.get(name, 0) >= message.version:
            return False
        self._note(name, message)
        return True

    def _note(self, name: str, message: Published) -> None:
        """Note the version that a worker holds now; drop versions that nobody holds."""
        state = self.state
        if self._counted is not state:
            self._counted, self._holders = state, Counter(state.versions.values())
        before = state.versions.get(name, 0)
        state.versions[name] = message.version
        state.held[message.version] = message.statistics
        self._holders[message.version] += 1
        self._holders[before] -= 1
        if self._holders[before] <= 0:
            del self._holders[before]
            state.held.pop(before, None)

    def fetch(self, name: str, version: int, whole: Published, now_s: float) -> Published | None:
        """Price a new version that a worker uses, and return it, as a difference if shorter."""
        if version >= whole.version:
            return None
        content = self.state.held.get(version)
        message = whole if content is None else shorten(whole, version, content)
        self._note(name, whole)
        self.state.wanted.discard(name)
        if name in self._radios:
            self._radios[name].transfer(now_s, "model", received=_size(message))
        return message


def _size(message: Message) -> int:
    """Return the bytes of a message as it is sent, compressed."""
    content = b""
    if isinstance(message, Update):
        content = message.delta
    elif isinstance(message, Published):
        content = message.statistics
    elif isinstance(message, Erase):
        content = b"".join(message.owners)
    return _ENVELOPE_BYTES + (len(pack(content)) if content else 0)


class Askers:
    """The owners on one phone, a few of whom ask for most predictions (Zipf's law).

    Who is how popular depends only on the seed, not on the time of arrival.

    Examples
    --------
    >>> askers = Askers(["anna", "ben", "carl"], exponent=1.0, seed="0/w1")
    >>> sorted({askers.draw(float(moment)) for moment in range(50)})
    ['anna', 'ben', 'carl']
    """

    def __init__(self, owners: Iterable[str], exponent: float, seed: str) -> None:
        def draw_rank(owner: str) -> bytes:
            return hashlib.blake2b(f"{seed}/{owner}".encode(), digest_size=8).digest()

        self._by_popularity = sorted(set(owners), key=draw_rank)
        self._exponent = exponent
        self._seed = seed

    def draw(self, moment_s: float) -> str:
        """Return who asks at a moment."""
        share = random.Random(f"{self._seed}/asks/{moment_s}").random()  # noqa: S311
        rank = int(_invert(share, len(self._by_popularity), self._exponent))
        return self._by_popularity[min(rank, len(self._by_popularity)) - 1]


def _invert(share: float, count: int, exponent: float) -> float:
    """Return the rank, ≥ 1 and ≤ count + 1, below which a share of all uses fall."""
    end = count + 1.0
    if exponent == 1.0:
        return float(end**share)
    power = 1.0 - exponent
    return float((share * (end**power - 1.0) + 1.0) ** (1.0 / power))
