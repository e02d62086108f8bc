"""Efficient clock frequencies: the points that save charge for the same work."""

from collections.abc import Iterable

from dealfl.power.hardware import BaseLoad, OperatingPoint, Phone

__all__ = ["charge_per_cycle_c", "critical_point", "efficient_frontier", "saving"]


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
    charge, its last point is the fastest.

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
    cost = {
        p: charge_per_cycle_c(phone, p, base) for p in (phone.points if among is None else among)
    }
    frontier: list[OperatingPoint] = []
    for point in sorted(cost, key=lambda p: (-p.frequency_hz, cost[p])):
        if not frontier or cost[point] < cost[frontier[-1]]:
            frontier.append(point)
    return tuple(reversed(frontier))


def critical_point(phone: Phone, base: BaseLoad = BaseLoad.AWAKE) -> OperatingPoint:
    """Return the operating point with the least charge per cycle.

    Parameters
    ----------
    phone : Phone
        Profile of the phone.
    base : BaseLoad, default AWAKE
        Parts of the device that draw current beside the CPU.

    Returns
    -------
    OperatingPoint
        The first point of the efficient frontier.

    References
    ----------
    R. Jejurikar, C. Pereira, R. Gupta: Leakage aware dynamic voltage scaling for real-time
    embedded systems. DAC 2004 ("critical speed").
    """
    return efficient_frontier(phone, base)[0]


def saving(phone: Phone, point: OperatingPoint, base: BaseLoad = BaseLoad.AWAKE) -> float:
    """Return the fraction of charge saved for the same work, relative to the fastest point.

    Parameters
    ----------
    phone : Phone
        Profile of the phone.
    point : OperatingPoint
        Frequency and current of the cores.
    base : BaseLoad, default AWAKE
        Parts of the device that draw current beside the CPU.

    Returns
    -------
    float
        Fraction saved; negative if the point needs more charge.

    Examples
    --------
    >>> from dealfl.power import PHONES
    >>> honor = PHONES["honor"]
    >>> round(saving(honor, critical_point(honor)), 3)
    0.097
    """
    fastest = charge_per_cycle_c(phone, phone.fastest, base)
    return 1.0 - charge_per_cycle_c(phone, point, base) / fastest
