"""Efficient operating points of a phone, and the steps along them for an expected load."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dealfl.power.hardware import BaseLoad, OperatingPoint, Phone

__all__ = [
    "Demand", "Ladder", "Setting", "charge_per_cycle_c", "efficient_frontier", "frontier_ladder",
    "plain_ladder",
]  # fmt: skip

_SLACK = 1.03  # control uses points that draw at most this factor of the cheapest point's charge


def charge_per_cycle_c(
    phone: Phone, point: OperatingPoint, base: BaseLoad = BaseLoad.AWAKE, busy_cores: int = 1
) -> float:
    """Return the charge that the whole device draws for one cycle of work.

    Parameters
    ----------
    phone : Phone
        Profile of the phone.
    point : OperatingPoint
        Frequency and current of the cores.
    base : BaseLoad, default AWAKE
        Other parts of the device that draw current.
    busy_cores : int, default 1
        Number of cores that share the work.

    Returns
    -------
    float
        Charge per cycle, in coulombs.

    Examples
    --------
    >>> from dealfl.power import PHONES
    >>> charge_c = charge_per_cycle_c(PHONES["honor"], PHONES["honor"].fastest)
    >>> round(charge_c * 1e9 / 3.6e-3, 2)  # µAh for 10⁹ cycles
    18.67
    """
    current_a = phone.base_a(base) + phone.current_a(point, busy_cores)
    return current_a / (busy_cores * point.frequency_hz)


def efficient_frontier(
    phone: Phone,
    base: BaseLoad = BaseLoad.AWAKE,
    among: Iterable[OperatingPoint] | None = None,
) -> tuple[OperatingPoint, ...]:
    """Return the operating points for which no equally fast or faster point needs less charge.

    Along the frontier the charge per cycle rises with the speed. Its first point needs the least
    charge (the critical operating point), its last point is the fastest.

    Parameters
    ----------
    phone : Phone
        Profile of the phone.
    base : BaseLoad, default AWAKE
        Parts of the device that draw current beside the CPU.
    among : iterable of OperatingPoint, optional
        Points to choose from; by default all points of the phone.

    Returns
    -------
    tuple of OperatingPoint
        The frontier, slowest first.

    Examples
    --------
    >>> from dealfl.power import PHONES
    >>> [point.frequency_hz // 10**6 for point in efficient_frontier(PHONES["honor"])]
    [1402, 1805, 2112]
    """
    points = phone.points if among is None else among
    return tuple(_frontier({point: charge_per_cycle_c(phone, point, base) for point in points}))


def _frontier(costs_c: dict[OperatingPoint, float]) -> list[OperatingPoint]:
    frontier: list[OperatingPoint] = []
    for point in sorted(costs_c, key=lambda p: (-p.frequency_hz, costs_c[p])):
        if not frontier or costs_c[point] < costs_c[frontier[-1]]:
            frontier.append(point)
    return frontier[::-1]


@dataclass(frozen=True, slots=True)
class Demand:
    """What the clock is chosen for: the base load, and the expected work in a radio's tail."""

    base: BaseLoad = BaseLoad.AWAKE
    tail_s: float = 0.0  # the end of the work cuts it short
    cycles: float = math.inf

    def cost_c(self, phone: Phone, point: OperatingPoint) -> float:
        """Return the charge per cycle at an operating point, with the radio that waits for it."""
        on_s = min(self.tail_s / self.cycles, 1.0 / point.frequency_hz)
        return charge_per_cycle_c(phone, point, self.base) + phone.wifi.active_a * on_s

    def outlasts_tail(self, point: OperatingPoint) -> bool:
        """Return whether the work ends after the tail."""
        return self.cycles > self.tail_s * point.frequency_hz


@dataclass(frozen=True, slots=True)
class Setting:
    """The current clock frequency, compared with the fastest clock for the same work.

    Frequency and point are None if the clock cannot be set, the point and the ratio of charges
    also without a profile.
    """

    frequency_hz: int | None = None
    added_latency: float = 0.0
    charge_ratio: float | None = None
    point: OperatingPoint | None = None


@dataclass(frozen=True, slots=True)
class Ladder:
    """The steps of control, slowest first, and the setting without control."""

    steps: tuple[Setting, ...] = (Setting(),)
    free: Setting = Setting()


def frontier_ladder(phone: Phone, points: list[OperatingPoint], demand: Demand) -> Ladder:
    """Return the steps of control: points of the frontier at nearly the least charge."""
    costs_c = {point: demand.cost_c(phone, point) for point in points}
    frontier = _frontier(costs_c)
    if not frontier:
        return Ladder()
    cheapest, fastest = frontier[0], frontier[-1]
    settings = {
        point: Setting(
            point.frequency_hz,
            fastest.frequency_hz / point.frequency_hz - 1.0,
            costs_c[point] / costs_c[fastest],
            point,
        )
        for point in frontier
    }
    steps = (
        setting
        for point, setting in settings.items()
        if costs_c[point] <= _SLACK * costs_c[cheapest]
        and demand.outlasts_tail(point) == demand.outlasts_tail(cheapest)
    )
    return Ladder(tuple(steps), settings[fastest])


def plain_ladder(frequencies_hz: tuple[int, ...]) -> Ladder:
    """Return a step for each frequency of a clock without a profile."""
    if not frequencies_hz:
        return Ladder()
    highest = frequencies_hz[-1]
    steps = tuple(Setting(hz, highest / hz - 1.0) for hz in frequencies_hz)
    return Ladder(steps, steps[-1])
