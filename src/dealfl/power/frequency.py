"""Clock frequencies: tables, limits, the efficient ones of a phone, and control by signals."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from dealfl.errors import BadInput
from dealfl.power.profiles import BaseLoad, OperatingPoint, Phone

LEARN = 1
FORGET = -1
END = 0
_SLACK = 1.03  # control uses points that draw at most this factor of the cheapest point's charge


class Frequencies(tuple[int, ...]):
    """The available frequencies of a clock, in hertz, slowest first.

    Examples
    --------
    >>> table = Frequencies([300, 200, 100])
    >>> table.at_least(150), table.at_least(999), table.at_most(150), table.at_most(1)
    (200, 300, 100, 100)
    """

    __slots__ = ()

    def __new__(cls, frequencies_hz: Iterable[int]) -> "Frequencies":
        """Sort the frequencies and remove duplicates."""
        table = sorted(set(frequencies_hz))
        if not table or table[0] <= 0:
            raise BadInput(f"frequencies_hz is {table}; give at least one, each above 0 Hz")
        return super().__new__(cls, table)

    @property
    def lowest(self) -> int:
        """The lowest frequency, in hertz."""
        return self[0]

    @property
    def highest(self) -> int:
        """The highest frequency, in hertz."""
        return self[-1]

    def at_least(self, frequency_hz: float) -> int:
        """Return the lowest frequency that is not below a target, else the highest.

        This is CPUFREQ_RELATION_L of the kernel.
        """
        return self[min(bisect_left(self, frequency_hz), len(self) - 1)]

    def at_most(self, frequency_hz: float) -> int:
        """Return the highest frequency that is not above a target, else the lowest.

        This is CPUFREQ_RELATION_H of the kernel.
        """
        return self[max(bisect_right(self, frequency_hz) - 1, 0)]


def no_such_frequency(owner: str, frequency_hz: int, table_hz: Iterable[int]) -> BadInput:
    """Return the error for a frequency that a device does not have."""
    table = ", ".join(f"{hz / 1e6:g}" for hz in sorted(set(table_hz)))
    return BadInput(f"{owner} has no clock frequency of {frequency_hz / 1e6:g} MHz; it has {table}")


class FrequencyLimit(Protocol):
    """The highest frequency that a device may use, if the device allows to set it."""

    @property
    def frequencies_hz(self) -> tuple[int, ...]:
        """The available limits in hertz, slowest first; empty if none can be set."""

    def set(self, frequency_hz: int) -> None:
        """Limit the device to a frequency."""

    def release(self) -> None:
        """Remove the limit."""


class NoLimit:
    """The limit of a device that does not allow to set one; every call does nothing."""

    frequencies_hz: tuple[int, ...] = ()

    def set(self, frequency_hz: int) -> None:
        """Do nothing."""

    def release(self) -> None:
        """Do nothing."""


def charge_per_cycle_c(
    phone: Phone, point: OperatingPoint, base: BaseLoad = BaseLoad.AWAKE
) -> float:
    """Return the charge that the whole device draws for one cycle of work, in coulombs.

    Examples
    --------
    >>> from dealfl.power import PHONES
    >>> charge_c = charge_per_cycle_c(PHONES["honor"], PHONES["honor"].fastest)
    >>> round(charge_c * 1e9 / 3.6e-3, 2)  # µAh for 10⁹ cycles
    18.67
    """
    return (phone.base_a(base) + phone.current_a(point)) / point.frequency_hz


def efficient_frontier(phone: Phone, base: BaseLoad = BaseLoad.AWAKE) -> tuple[OperatingPoint, ...]:
    """Return the operating points for which no equally fast or faster point needs less charge.

    Along the frontier the charge per cycle rises with the speed. Its first point needs the least
    charge (the critical operating point), its last point is the fastest.

    Examples
    --------
    >>> from dealfl.power import PHONES
    >>> [point.frequency_hz // 10**6 for point in efficient_frontier(PHONES["honor"])]
    [1402, 1805, 2112]
    """
    costs_c = {point: charge_per_cycle_c(phone, point, base) for point in phone.points}
    return tuple(_frontier(costs_c))


def _frontier(costs_c: dict[OperatingPoint, float]) -> list[OperatingPoint]:
    frontier: list[OperatingPoint] = []
    for point in sorted(costs_c, key=lambda p: (-p.frequency_hz, costs_c[p])):
        if not frontier or costs_c[point] < costs_c[frontier[-1]]:
            frontier.append(point)
    return frontier[::-1]


@dataclass(frozen=True, slots=True)
class _Demand:
    """What the frequency is chosen for: the base load, and the expected work in a radio's tail."""

    base: BaseLoad = BaseLoad.AWAKE
    tail_s: float = 0.0  # the end of the work cuts it short
    cycles: float = math.inf

    def cost_c(self, phone: Phone, point: OperatingPoint) -> float:
        """Return the charge per cycle at an operating point, with the radio that waits for it."""
        on_s = min(self.tail_s / self.cycles, 1.0 / point.frequency_hz)
        return charge_per_cycle_c(phone, point, self.base) + phone.link.on_a * on_s

    def outlasts_tail(self, point: OperatingPoint) -> bool:
        """Return whether the work ends after the tail."""
        return self.cycles > self.tail_s * point.frequency_hz


@dataclass(frozen=True, slots=True)
class Setting:
    """A clock frequency; None if none can be set. The point is None without a profile."""

    frequency_hz: int | None = None
    point: OperatingPoint | None = None


@dataclass(frozen=True, slots=True)
class _Ladder:
    """The steps of control, slowest first, and the setting without control."""

    steps: tuple[Setting, ...] = (Setting(),)
    free: Setting = Setting()


class FrequencyControl:
    """Steps a clock up when its worker learns and down when it forgets.

    The steps are the points of the efficient frontier that draw at most 3 % more charge per cycle
    than its first, the critical operating point. No sequence of signals therefore draws more than
    the fastest clock, or 3 % more than the best fixed clock, for the same work and base load.
    Control starts from the fastest step. Before and after it, the clock is free. The frontier can
    contain points of several clusters; a step then also selects the cluster to run on. Without a
    profile the currents are unknown, and every frequency of the limit is a step.

    A radio that stays on until the work ends favours a faster clock, but only if the work ends
    within the radio's tail. The worker knows its work before it starts (`load`), so all steps are
    on the same side of the tail's end.

    Examples
    --------
    >>> from dealfl.power import phone
    >>> control = FrequencyControl(phone("honor"))
    >>> control.signal(FORGET).frequency_hz, control.signal(LEARN).frequency_hz
    (1402000000, 1805000000)
    """

    def __init__(self, profile: Phone | None, limit: FrequencyLimit | None = None) -> None:
        self._profile = profile
        self._limit = limit or NoLimit()
        self._points = profile.points if profile else ()
        if limit:
            offered = limit.frequencies_hz
            self._points = tuple(point for point in self._points if point.frequency_hz in offered)
        self._ladder_for = lru_cache(maxsize=64)(self._make_ladder)
        self._ladder = self._ladder_for(_Demand())
        self._free = True
        self._position = self._top

    @property
    def setting(self) -> Setting:
        """The current setting of the clock."""
        return self._ladder.free if self._free else self._ladder.steps[self._position]

    @property
    def _top(self) -> int:
        return len(self._ladder.steps) - 1

    def signal(self, signal: int, /) -> Setting:
        """Apply a worker's signal, `LEARN`, `FORGET` or `END`; return the new setting."""
        if signal == LEARN:
            position = min(self._position + 1, self._top)
        elif signal == FORGET:
            position = max(self._position - 1, 0)
        elif signal == END:
            self._free = True
            self._position = self._top
            self._limit.release()
            return self.setting
        else:
            raise BadInput(f"signal is {signal!r}; use +1 (learn), -1 (forget) or 0 (end)")
        if self._free or position != self._position:
            self._move(position)
        return self.setting

    def load(self, base: BaseLoad, tail_s: float = 0.0, cycles: float = math.inf) -> Setting:
        """Change the base load and the expected work; return the new setting.

        Wifi stays on for `tail_s` unless the work ends before. If the current point is no longer a
        step, the clock moves to the next faster step.
        """
        present_hz = self.setting.frequency_hz or 0
        demand = _Demand(base, tail_s, cycles if tail_s and cycles else math.inf)
        self._ladder = self._ladder_for(demand)
        steps = enumerate(self._ladder.steps)
        fast_enough = (index for index, step in steps if (step.frequency_hz or 0) >= present_hz)
        self._position = next(fast_enough, self._top)
        if self.setting.frequency_hz not in (None, present_hz):
            self._move(self._position)
        return self.setting

    def _move(self, position: int) -> None:
        self._position = position
        self._free = False
        if self.setting.frequency_hz is not None:
            self._limit.set(self.setting.frequency_hz)

    def _make_ladder(self, demand: _Demand) -> _Ladder:
        """Return the points of the frontier at nearly the least charge, or all frequencies."""
        phone = self._profile
        if phone is None:
            plain = tuple(Setting(hz) for hz in self._limit.frequencies_hz)
            return _Ladder(plain, plain[-1]) if plain else _Ladder()
        costs_c = {point: demand.cost_c(phone, point) for point in self._points}
        frontier = _frontier(costs_c)
        if not frontier:
            return _Ladder()
        cheapest = frontier[0]
        settings = {point: Setting(point.frequency_hz, point) for point in frontier}
        steps = (
            setting
            for point, setting in settings.items()
            if costs_c[point] <= _SLACK * costs_c[cheapest]
            and demand.outlasts_tail(point) == demand.outlasts_tail(cheapest)
        )
        return _Ladder(tuple(steps), settings[frontier[-1]])
