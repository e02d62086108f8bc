"""The clock of a simulated phone: under DEAL's control, set by a governor, or fixed."""

import math
from collections.abc import Iterator, Sequence

from dealfl.errors import unknown_name
from dealfl.power.frequency import END, FrequencyControl, no_such_frequency
from dealfl.power.governors import GOVERNORS, governor
from dealfl.power.profiles import BaseLoad, OperatingPoint, Phone

CONTROLLED = "deal"
CLOCKS = (CONTROLLED, *GOVERNORS)


class PhoneClock:
    """The clock of a simulated phone: the operating point at which it works, here a fixed one."""

    wait_s = math.inf  # until the clock can change without a signal

    def __init__(self, point: OperatingPoint) -> None:
        self._point = point

    @property
    def point(self) -> OperatingPoint:
        """The current operating point."""
        return self._point

    def wake(self, base: BaseLoad, tail_s: float = 0.0, cycles: float = math.inf) -> None:
        """Start a training; wifi stays on for `tail_s` unless the training ends before."""

    def signal(self, signal: int) -> None:
        """Take a worker's signal."""

    def spend(self, elapsed_s: float, *, busy: bool = True) -> None:
        """Let time pass, at most `wait_s`."""

    def run(self, cycles: float) -> Iterator[tuple[float, OperatingPoint]]:
        """Do work at the pace of the clock; yield the cycles done at each operating point."""
        while cycles > 0.0:
            point = self.point
            wait_s = self.wait_s
            done = min(cycles, wait_s * point.frequency_hz)
            yield done, point
            self.spend(done / point.frequency_hz if done == cycles else wait_s)
            cycles -= done


class _ControlledClock(PhoneClock):
    """A clock that `FrequencyControl` steps by the signals of the worker."""

    def __init__(self, phone: Phone) -> None:
        super().__init__(phone.fastest)
        self._control = FrequencyControl(phone)

    @property
    def point(self) -> OperatingPoint:
        return self._control.setting.point or self._point

    def wake(self, base: BaseLoad, tail_s: float = 0.0, cycles: float = math.inf) -> None:
        self._control.signal(END)
        self._control.load(base, tail_s, cycles)

    def signal(self, signal: int) -> None:
        self._control.signal(signal)


class _GovernedClock(PhoneClock):
    """A clock that a governor sets, tick by tick; it starts each training from its idle state."""

    def __init__(self, name: str, points: Sequence[OperatingPoint]) -> None:
        self._name = name
        self._points = {point.frequency_hz: point for point in points}
        self.wake(BaseLoad.AWAKE)

    @property
    def point(self) -> OperatingPoint:
        return self._points[self._governor.frequency_hz]

    def wake(self, base: BaseLoad, tail_s: float = 0.0, cycles: float = math.inf) -> None:
        del base, tail_s, cycles  # a governor sees only the load of the cores
        self._governor = governor(self._name, self._points)
        self._now_s = self._busy_s = self._sampled_s = 0.0
        self.wait_s = self._governor.wait_s

    def spend(self, elapsed_s: float, *, busy: bool = True) -> None:
        self._now_s += elapsed_s
        self._busy_s += elapsed_s if busy else 0.0
        self.wait_s -= elapsed_s
        if self.wait_s <= 0.0:
            load = min(self._busy_s / (self._now_s - self._sampled_s), 1.0)
            self._governor.step(load, self._now_s)
            self._busy_s = 0.0
            self._sampled_s = self._now_s
            self.wait_s = self._governor.wait_s


def phone_clock(phone: Phone, name: str = CONTROLLED, frequency_hz: int = 0) -> PhoneClock:
    """Return the clock of a simulated phone: controlled by signals, by a governor, or fixed.

    Governors set the clock of the fastest cluster, on which the work then runs.

    Examples
    --------
    >>> from dealfl.power import phone
    >>> phone_clock(phone("honor"), frequency_hz=1402 * 10**6).point.cluster
    1
    """
    if frequency_hz:
        points = [point for point in phone.points if point.frequency_hz == frequency_hz]
        if not points:
            table = (point.frequency_hz for point in phone.points)
            raise no_such_frequency(phone.name, frequency_hz, table)
        return PhoneClock(min(points, key=phone.current_a))
    if name == CONTROLLED:
        return _ControlledClock(phone)
    if name not in GOVERNORS:
        raise unknown_name("governor", name, CLOCKS)
    return _GovernedClock(name, phone.clusters[phone.fastest.cluster].points)
