"""Efficient clock frequencies, and control of a clock along them by a worker's signals."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from dealfl.errors import BadInput
from dealfl.power.clocks import Clock, SimulatedClock
from dealfl.power.hardware import BaseLoad, OperatingPoint, Phone

__all__ = [
    "END", "FORGET", "LEARN", "FrequencyControl", "Setting", "charge_per_cycle_c",
    "efficient_frontier",
]  # fmt: skip

LEARN, FORGET, END = 1, -1, 0


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
    cost = {
        p: charge_per_cycle_c(phone, p, base) for p in (phone.points if among is None else among)
    }
    frontier: list[OperatingPoint] = []
    for point in sorted(cost, key=lambda p: (-p.frequency_hz, cost[p])):
        if not frontier or cost[point] < cost[frontier[-1]]:
            frontier.append(point)
    return tuple(reversed(frontier))


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


_Ladder = tuple[Setting, ...]
_UNCONTROLLED: _Ladder = (Setting(),)


class FrequencyControl:
    """Steps a clock up when its worker learns and down when it forgets.

    Control starts and ends at the fastest clock. A step down selects the next slower point of the
    efficient frontier; the slowest is the critical operating point. No sequence of signals
    therefore draws more charge than the fastest clock for the same work.

    Parameters
    ----------
    clock : Clock
        Clock to set.
    ladder : callable
        Function from a `BaseLoad` to the settings, slowest first.
    base : BaseLoad, default AWAKE
        Parts of the device that draw current beside the CPU.

    Examples
    --------
    >>> from dealfl.power import phone
    >>> control = FrequencyControl.for_phone(phone("honor"))
    >>> setting = control.signal(FORGET)
    >>> setting.frequency_hz, round(setting.added_latency, 2), round(setting.charge_ratio, 2)
    (1805000000, 0.17, 0.92)
    >>> control.signal(LEARN).frequency_hz
    2112000000
    """

    def __init__(
        self,
        clock: Clock,
        ladder: Callable[[BaseLoad], _Ladder],
        base: BaseLoad = BaseLoad.AWAKE,
    ) -> None:
        self.base = base
        self._clock = clock
        self._ladder_of = cache(ladder)
        self._ladder = self._ladder_of(base)
        self._top = self._position = len(self._ladder) - 1

    @classmethod
    def for_phone(
        cls,
        phone: Phone,
        clock: Clock | None = None,
        base: BaseLoad = BaseLoad.AWAKE,
        among: Iterable[OperatingPoint] | None = None,
    ) -> "FrequencyControl":
        """Return the control of a phone, along the efficient frontier of its clock.

        The frontier can contain points of several clusters. A step then also selects the cluster
        to run on (`setting.point.cluster`).

        Parameters
        ----------
        phone : Phone
            Profile of the phone.
        clock : Clock, optional
            Clock to set; by default a `SimulatedClock` with all frequencies of the phone.
        base : BaseLoad, default AWAKE
            Parts of the device that draw current beside the CPU.
        among : iterable of OperatingPoint, optional
            Points to use, for example of one cluster if work cannot be moved; by default all.

        Returns
        -------
        FrequencyControl
            A control that starts at the fastest point.
        """
        clock = clock or SimulatedClock(point.frequency_hz for point in phone.points)
        offered = set(clock.frequencies_hz)
        wanted = phone.points if among is None else among
        points = [point for point in wanted if point.frequency_hz in offered]
        return cls(clock, lambda load: _frontier_ladder(phone, points, load), base)

    @classmethod
    def for_clock(cls, clock: Clock) -> "FrequencyControl":
        """Return the control of a clock without a profile: every frequency is a step.

        The currents are unknown, so the settings have no `charge_ratio`.

        Parameters
        ----------
        clock : Clock
            Clock to set.

        Returns
        -------
        FrequencyControl
            A control that starts at the fastest frequency.
        """
        return cls(clock, lambda _: _plain_ladder(clock.frequencies_hz))

    @property
    def setting(self) -> Setting:
        """The current setting of the clock."""
        return self._ladder[self._position]

    def signal(self, signal: int) -> Setting:
        """Apply a worker's signal.

        Parameters
        ----------
        signal : {1, -1, 0}
            `LEARN` (+1), `FORGET` (-1) or `END` (0).

        Returns
        -------
        Setting
            The new setting of the clock.

        Raises
        ------
        BadInput
            If the signal is another value.
        """
        if signal == 1:
            position = min(self._position + 1, self._top)
        elif signal == -1:
            position = max(self._position - 1, 0)
        elif signal == 0:
            return self._end()
        else:
            raise BadInput(f"signal is {signal!r}; use +1 (learn), -1 (forget) or 0 (end)")
        if position != self._position:
            self._move(position)
        return self._ladder[position]

    def load(self, base: BaseLoad) -> Setting:
        """Change the base load.

        If the current point is no longer efficient, the clock moves to the next faster
        efficient point.

        Parameters
        ----------
        base : BaseLoad
            Parts of the device that draw current beside the CPU.

        Returns
        -------
        Setting
            The new setting of the clock.
        """
        present = self.setting.frequency_hz or 0
        self.base = base
        self._ladder = self._ladder_of(base)
        self._top = len(self._ladder) - 1
        fast_enough = (i for i, s in enumerate(self._ladder) if (s.frequency_hz or 0) >= present)
        self._position = next(fast_enough, self._top)
        if self.setting.frequency_hz not in (None, present):
            self._move(self._position)
        return self.setting

    def _move(self, position: int) -> None:
        self._position = position
        frequency_hz = self._ladder[position].frequency_hz
        if frequency_hz is not None:
            self._clock.set_frequency(frequency_hz)

    def _end(self) -> Setting:
        self._position = self._top
        self._clock.release()
        return self.setting


def _frontier_ladder(phone: Phone, points: list[OperatingPoint], base: BaseLoad) -> _Ladder:
    frontier = efficient_frontier(phone, base, points)
    if not frontier:
        return _UNCONTROLLED
    fastest = frontier[-1]
    most_c = charge_per_cycle_c(phone, fastest, base)
    return tuple(
        Setting(
            point.frequency_hz,
            fastest.frequency_hz / point.frequency_hz - 1.0,
            charge_per_cycle_c(phone, point, base) / most_c,
            point,
        )
        for point in frontier
    )


def _plain_ladder(frequencies_hz: tuple[int, ...]) -> _Ladder:
    if not frequencies_hz:
        return _UNCONTROLLED
    highest = frequencies_hz[-1]
    return tuple(Setting(hz, highest / hz - 1.0) for hz in frequencies_hz)
