"""The radio of a phone: its bursts, beside the phone's own traffic, and the energy they add.

The price of a transfer is what it adds: the time for which the radio is on because of our traffic
or the phone's own, less the time for which it would be on without ours. While both use the link,
the own transfer ends later by the time that ours takes, and that time counts as well. Own traffic
thus pays for its own tails, and ours for every second that it adds.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from dealfl.power.energy import COULOMBS_PER_UAH, Energy
from dealfl.power.profiles import Phone

_TRAINING = "training"
_KEEP_ALIVE_BYTES = 128  # a ping and its answer, with the headers of TCP and TLS
_CONNECTING = 3  # round trips: TCP, TLS 1.3, CONNECT of MQTT
_NEVER_S = -math.inf


# -- the phone's own traffic -----------------------------------------------------------------------

_DAY_FROM_H, _DAY_TO_H = 7.0, 23.0
_START_H = 8.0  # hour of the day at which virtual time begins
_AT_NIGHT = 0.25  # of the activations by day
_SESSIONS = 0.3  # share of the activations; the others are short transfers
_SESSION_S = 25.0  # medians of log-normal lengths
_TRANSFER_S = 0.5
_SIGMA = 1.0


class OwnTraffic:
    """When a phone's own traffic uses the radio: a seeded process by day and night.

    Activations are a Poisson process from 7 to 23 o'clock, with a quarter of its rate at night;
    virtual time begins at 8 o'clock. Three of ten are sessions, with a median of 25 s, the others
    transfers, with a median of 0.5 s, all log-normal. It is assumed, not fitted to a trace.

    Examples
    --------
    >>> own = OwnTraffic(per_hour=15.0, tail_s=0.25, seed="0/w1")
    >>> first_s = own.next_start_s(0.0)
    >>> own.is_on(first_s), own.count_starts(0.0, first_s + 1.0) >= 1
    (True, True)
    """

    def __init__(self, per_hour: float, tail_s: float, seed: str, scale: float = 1.0) -> None:
        self._per_s = per_hour / 3600.0
        self._tail_s = tail_s
        self._scale = scale
        self._draw = random.Random(f"{seed}/own traffic")  # noqa: S311
        self._drawn_s = 0.0  # all activations until then are drawn
        self._transfers = _Intervals()
        self._on = _Intervals()

    def next_start_s(self, after_s: float) -> float:
        """Return when own traffic begins to use the link next."""
        self._draw_until(after_s)
        while True:
            start_s = self._transfers.next_start(after_s)
            if start_s < math.inf:
                return start_s
            self._draw_until(self._drawn_s + 3600.0)

    def is_on(self, moment_s: float) -> bool:
        """Return whether own traffic or its tail has the radio on."""
        self._draw_until(moment_s)
        return self._on.contains(moment_s)

    def on_s(self, from_s: float, to_s: float) -> float:
        """Return for how long own traffic and its tails have the radio on."""
        self._draw_until(to_s)
        return self._on.overlap(from_s, to_s)

    def active_s(self, from_s: float, to_s: float) -> float:
        """Return for how long own traffic uses the link."""
        self._draw_until(to_s)
        return self._transfers.overlap(from_s, to_s)

    def count_starts(self, from_s: float, to_s: float) -> int:
        """Return how often own traffic switches the radio on, after `from_s` and before `to_s`."""
        self._draw_until(to_s)
        return self._on.count_starts(from_s, to_s)

    def _draw_until(self, moment_s: float) -> None:
        draw = self._draw
        while self._drawn_s <= moment_s:
            self._drawn_s += draw.expovariate(self._per_s)
            hour = (_START_H + self._drawn_s / 3600.0) % 24.0
            by_day = _DAY_FROM_H <= hour < _DAY_TO_H
            if not by_day and draw.random() >= _AT_NIGHT:
                continue
            median_s = _SESSION_S if draw.random() < _SESSIONS else _TRANSFER_S
            length_s = self._scale * draw.lognormvariate(math.log(median_s), _SIGMA)
            end_s = self._drawn_s + length_s
            self._transfers.add(self._drawn_s, end_s)
            self._on.add(self._drawn_s, end_s + self._tail_s)


class _Intervals:
    """Disjoint intervals, added in the order of their starts; those that meet are one."""

    def __init__(self) -> None:
        self._starts: list[float] = []
        self._ends: list[float] = []

    def add(self, start_s: float, end_s: float) -> None:
        if self._ends and start_s <= self._ends[-1]:
            self._ends[-1] = max(self._ends[-1], end_s)
        else:
            self._starts.append(start_s)
            self._ends.append(end_s)

    def contains(self, moment_s: float) -> bool:
        index = bisect_right(self._starts, moment_s) - 1
        return index >= 0 and moment_s < self._ends[index]

    def next_start(self, after_s: float) -> float:
        index = bisect_right(self._starts, after_s)
        return self._starts[index] if index < len(self._starts) else math.inf

    def overlap(self, from_s: float, to_s: float) -> float:
        total_s = 0.0
        for index in range(bisect_right(self._ends, from_s), len(self._starts)):
            if self._starts[index] >= to_s:
                break
            total_s += min(self._ends[index], to_s) - max(self._starts[index], from_s)
        return total_s

    def count_starts(self, from_s: float, to_s: float) -> int:
        return bisect_left(self._starts, to_s) - bisect_right(self._starts, from_s)


# -- ours ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Traffic:
    """The traffic of a phone so far: its time, its bytes, and its bursts by cause."""

    active_s: float = 0.0  # bytes travel, or an answer is awaited
    added_s: float = 0.0  # for which the radio is on because of it, transfers and tails
    adding_s: float = 0.0  # part of `active_s` that is in `added_s`
    promotions: int = 0  # less those that own traffic is spared
    up_bytes: int = 0
    down_bytes: int = 0
    bursts: dict[str, int] = field(default_factory=dict)
    rides: int = 0  # bursts that began while own traffic had the radio on
    busy_until_s: float = _NEVER_S  # end of the last transfer
    quiet_at_s: float = _NEVER_S  # end of the last tail
    last_s: float = _NEVER_S  # of the last transfer over an open connection
    awaits: bool = False  # an answer to what was sent
    cause: str = ""  # of the last burst

    @property
    def tail_s(self) -> float:
        """Time for which the radio is on because of it, without transfers."""
        return self.added_s - self.adding_s

    @property
    def own_bursts(self) -> int:
        """Number of bursts without a training."""
        return sum(self.bursts.values()) - self.bursts.get(_TRAINING, 0)


class Radio:
    """Counts what a phone sends and receives, and models the energy that it adds.

    After a transfer the radio stays on for the tail of its link. A transfer within this tail
    continues the burst and cuts the tail short; any other transfer begins a burst. A burst in which
    a worker trains has the cause "training". A new connection takes three round trips, and the
    first answer to what was sent takes one. An idle connection is kept alive after `keep_alive_s`,
    unless that is 0: another application's connection is shared.

    Examples
    --------
    >>> from dealfl.power import phone
    >>> radio = Radio(phone("honor"))
    >>> radio.transfer(0.0, "announcement", sent=500)
    >>> radio.transfer(0.1, "training", received=500)
    >>> radio.transfer(900.0, "receipt", received=500)
    >>> radio.traffic.bursts
    {'training': 1, 'receipt': 1}
    """

    __slots__ = ("_handshake_bytes", "_keep_alive_s", "_link", "_phone", "own", "traffic")

    def __init__(
        self,
        phone: Phone,
        *,
        keep_alive_s: float = 0.0,
        handshake_bytes: int = 0,
        own: OwnTraffic | None = None,
    ) -> None:
        self._link = phone.link
        self.own = own
        self._phone = phone
        self._keep_alive_s = keep_alive_s
        self._handshake_bytes = handshake_bytes
        self.traffic = Traffic()

    @property
    def energy(self) -> Energy:
        """Energy that all traffic so far has added."""
        traffic = self.traffic
        link = self._link
        voltage_v = self._phone.battery.voltage_v
        on_w = link.on_a * voltage_v
        joules = {
            "awake_j": self._phone.awake_a * voltage_v * traffic.active_s,
            "radio_active_j": on_w * traffic.adding_s
            + link.active_w * traffic.active_s
            + link.up_j_per_byte * traffic.up_bytes
            + link.down_j_per_byte * traffic.down_bytes,
            "radio_tail_j": on_w * traffic.tail_s + link.promotion_j * traffic.promotions,
        }
        charge_uah = math.fsum(joules.values()) / voltage_v / COULOMBS_PER_UAH
        return Energy(**joules, charge_uah=charge_uah, elapsed_s=traffic.active_s)

    def connect(self, now_s: float) -> None:
        """Open a connection, unless one is open."""
        if self.traffic.last_s == _NEVER_S:
            self.traffic.last_s = now_s
            half = self._handshake_bytes // 2
            waits_s = _CONNECTING * self._link.rtt_s
            if half or waits_s:
                self._add(now_s, "handshake", half, half, waits_s)

    def disconnect(self, now_s: float) -> None:
        """Close the connection."""
        self.keep_alive(now_s)
        self.traffic.last_s = _NEVER_S

    def keep_alive(self, now_s: float) -> None:
        """Add the messages that kept an idle connection alive until now."""
        traffic = self.traffic
        while self._keep_alive_s and traffic.last_s + self._keep_alive_s <= now_s:
            if traffic.last_s == _NEVER_S:
                return
            due_s = traffic.last_s + self._keep_alive_s
            half = _KEEP_ALIVE_BYTES // 2
            self._add(due_s, "keep-alive", half, half, self._link.rtt_s)

    def transfer(self, now_s: float, cause: str, *, sent: int = 0, received: int = 0) -> None:
        """Add a transfer, with the bytes of the protocol."""
        self.keep_alive(now_s)
        waits_s = self._link.rtt_s if received and self.traffic.awaits else 0.0
        self.traffic.awaits = bool(sent)
        self._add(now_s, cause, sent, received, waits_s)

    def _add(self, now_s: float, cause: str, sent: int, received: int, waits_s: float) -> None:
        traffic = self.traffic
        link = self._link
        self._count_burst(cause, begins=now_s > traffic.quiet_at_s)
        begin_s = max(now_s, traffic.busy_until_s)  # transfers do not overlap
        length_s = sent / link.up_bytes_per_s + received / link.down_bytes_per_s + waits_s
        end_s = begin_s + length_s
        covered_s = max(begin_s, traffic.quiet_at_s)  # until then the radio is on anyway
        quiet_at_s = end_s + link.tail_s
        begins = begin_s > traffic.quiet_at_s
        traffic.active_s += length_s
        traffic.added_s += quiet_at_s - covered_s
        traffic.adding_s += length_s
        if self.own is not None:
            shared_s = self.own.active_s(begin_s, end_s)
            traffic.added_s += shared_s - self.own.on_s(covered_s, quiet_at_s)
            traffic.adding_s += shared_s - self.own.on_s(begin_s, end_s)
            rides = begins and self.own.is_on(begin_s)
            traffic.rides += rides
            traffic.promotions += (begins and not rides) - self.own.count_starts(
                covered_s, quiet_at_s
            )
        else:
            traffic.promotions += begins
        traffic.busy_until_s = end_s
        traffic.quiet_at_s = quiet_at_s
        traffic.up_bytes += sent
        traffic.down_bytes += received
        if traffic.last_s != _NEVER_S:
            traffic.last_s = max(now_s, traffic.last_s)

    def _count_burst(self, cause: str, *, begins: bool) -> None:
        traffic = self.traffic
        bursts = traffic.bursts
        begins_training = cause == _TRAINING != traffic.cause
        if not begins and begins_training:
            bursts[traffic.cause] -= 1
            if not bursts[traffic.cause]:
                del bursts[traffic.cause]
        if begins or begins_training:
            bursts[cause] = bursts.get(cause, 0) + 1
            traffic.cause = cause
