"""Which clock frequencies pay, and the paper's CPU_Freq: a worker's signals step along them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from dealfl.errors import BadInput
from dealfl.power.clocks import Clock, SimulatedClock
from dealfl.power.hardware import BaseLoad, OperatingPoint, Phone

__all__ = [
    "END",
    "FORGET",
    "LEARN",
    "FrequencyControl",
    "Setting",
    "charge_per_cycle_c",
    "critical_point",
    "efficient_frontier",
    "saving",
]


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


LEARN, FORGET, END = 1, -1, 0


@dataclass(frozen=True, slots=True)
class Setting:
    """Where the clock stands, and what that means for the same work at the fastest clock.

    `added_latency` is the extra time as a fraction of the time at the fastest clock;
    `charge_ratio` is the charge as a fraction of what the fastest clock draws, where a profile
    tells. `point` is None where the clock is not ours to set, or no profile is known.
    """

    frequency_hz: int | None = None
    added_latency: float = 0.0
    charge_ratio: float | None = None
    point: OperatingPoint | None = None


_Ladder = tuple[Setting, ...]
_UNCONTROLLED: _Ladder = (Setting(),)


class FrequencyControl:
    """Steps a clock up when its worker learns, down when it forgets; never below what pays.

    It begins, and ends, at the fastest clock. A step down goes to the next slower point of the
    efficient frontier and stays at its slowest, the critical operating point: so no sequence of
    signals draws more charge than the fastest clock does for the same work.

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
        """Return the control of a phone, along the frontier of what its clock offers.

        Points of several clusters may follow one another on it: a step then also says where to
        run (`setting.point.cluster`). `among` keeps it to some, as where work can not be moved.
        """
        clock = clock or SimulatedClock(point.frequency_hz for point in phone.points)
        offered = set(clock.frequencies_hz)
        wanted = phone.points if among is None else among
        points = [point for point in wanted if point.frequency_hz in offered]
        return cls(clock, lambda load: _frontier_ladder(phone, points, load), base)

    @classmethod
    def for_clock(cls, clock: Clock) -> "FrequencyControl":
        """Return the control of a clock without a profile: every frequency is a step.

        Nothing is known of what they draw, so nothing is claimed of the charge.
        """
        return cls(clock, lambda _: _plain_ladder(clock.frequencies_hz))

    @property
    def setting(self) -> Setting:
        """Where the clock stands."""
        return self._ladder[self._position]

    def signal(self, signal: int) -> Setting:
        """Take a worker's signal: +1 it learns, -1 it forgets, 0 it has ended."""
        if signal == 1:
            position = min(self._position + 1, self._top)
        elif signal == -1:
            position = max(self._position - 1, 0)
        elif signal == 0:
            return self._end()
        else:
            raise BadInput(f"signal {signal!r}; use +1 (learn), -1 (forget) or 0 (end)")
        if position != self._position:
            self._move(position)
        return self._ladder[position]

    def load(self, base: BaseLoad) -> Setting:
        """Take note of a new base load; the clock moves only if its point does not pay any more.

        It then runs at the next faster point that does.
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
