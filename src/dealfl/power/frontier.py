"""Which clock frequencies are worth choosing: charge per cycle, and who is beaten by whom."""

from collections.abc import Iterable

from dealfl.power.device import BaseLoad, OperatingPoint, Phone

__all__ = ["charge_per_cycle_c", "critical_point", "efficient_frontier", "saving"]


def charge_per_cycle_c(
    phone: Phone, point: OperatingPoint, base: BaseLoad = BaseLoad.AWAKE, busy_cores: int = 1
) -> float:
    """Return the charge, in coulombs, that one cycle of work costs the whole device.

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
    """Return the operating points that no point as fast or faster undercuts, slowest first.

    Along it charge per cycle rises with speed: its first point is the cheapest of all, its last
    the fastest. Everything else wastes time, charge, or both.

    >>> from dealfl.power import PHONES
    >>> [point.frequency_hz // 10**6 for point in efficient_frontier(PHONES["honor"])]
    [1402, 1805, 2112]
    """
    cost = {
        p: charge_per_cycle_c(phone, p, base) for p in (phone.points if among is None else among)
    }
    frontier: list[OperatingPoint] = []
    for point in sorted(cost, key=lambda p: (-p.frequency_hz, cost[p])):
        if not frontier or cost[point] < cost[frontier[-1]]:
            frontier.append(point)
    return tuple(reversed(frontier))


def critical_point(phone: Phone, base: BaseLoad = BaseLoad.AWAKE) -> OperatingPoint:
    """Return the operating point at which a cycle costs least; slower is never cheaper."""
    return efficient_frontier(phone, base)[0]


def saving(phone: Phone, point: OperatingPoint, base: BaseLoad = BaseLoad.AWAKE) -> float:
    """Return the fraction of charge saved for the same work, against the fastest point.

    >>> from dealfl.power import PHONES
    >>> honor = PHONES["honor"]
    >>> round(saving(honor, critical_point(honor)), 3)
    0.097
    """
    fastest = charge_per_cycle_c(phone, phone.fastest, base)
    return 1.0 - charge_per_cycle_c(phone, point, base) / fastest
