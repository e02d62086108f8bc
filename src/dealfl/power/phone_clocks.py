"""The clock of a simulated phone, under DEAL's control, a governor or fixed; replay of work."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

from dealfl.errors import BadInput, unknown_name
from dealfl.power.energy import Energy, EnergyModel
from dealfl.power.frequency import END, FrequencyControl
from dealfl.power.governors import GOVERNORS, Governor, governor
from dealfl.power.hardware import BaseLoad, OperatingPoint, Phone

__all__ = ["CLOCKS", "Phase", "PhoneClock", "phone_clock", "replay", "run"]

CONTROLLED = "deal"
CLOCKS = (CONTROLLED, *GOVERNORS)


class PhoneClock(Protocol):
    """A clock that tells at which operating point a simulated phone works."""

    @property
    def point(self) -> OperatingPoint:
        """The current operating point."""

    @property
    def wait_s(self) -> float:
        """Time until the clock can change without a signal, in seconds.

        Returns
        -------
        float
            Seconds, above 0; inf if it never does.
        """

    def wake(self, base: BaseLoad, tail_s: float = 0.0, cycles: float = math.inf) -> None:
        """Start a training.

        Parameters
        ----------
        base : BaseLoad
            Parts of the device that draw current beside the CPU.
        tail_s : float, default 0
            Seconds for which wifi stays on if the work does not end before.
        cycles : float, default inf
            Cycles of the training.
        """

    def signal(self, signal: int) -> None:
        """Take a worker's signal.

        Parameters
        ----------
        signal : {1, -1, 0}
            `LEARN`, `FORGET` or `END`.
        """

    def spend(self, elapsed_s: float, *, busy: bool = True) -> None:
        """Let time pass, at most `wait_s`.

        Parameters
        ----------
        elapsed_s : float
            Duration, in seconds.
        busy : bool, default True
            Whether a core was busy.
        """


@dataclass(frozen=True, slots=True)
class _FixedClock:
    """A clock that stays at one operating point."""

    point: OperatingPoint
    wait_s: ClassVar[float] = math.inf

    def wake(self, base: BaseLoad, tail_s: float = 0.0, cycles: float = math.inf) -> None:
        pass

    def signal(self, signal: int) -> None:
        pass

    def spend(self, elapsed_s: float, *, busy: bool = True) -> None:
        pass


class _ControlledClock:
    """A clock that `FrequencyControl` steps by the signals of the worker."""

    wait_s = math.inf

    def __init__(self, control: FrequencyControl, fastest: OperatingPoint) -> None:
        self._control, self._fastest = control, fastest

    @property
    def point(self) -> OperatingPoint:
        return self._control.setting.point or self._fastest

    def wake(self, base: BaseLoad, tail_s: float = 0.0, cycles: float = math.inf) -> None:
        self._control.signal(END)
        self._control.load(base, tail_s, cycles)

    def signal(self, signal: int) -> None:
        self._control.signal(signal)

    def spend(self, elapsed_s: float, *, busy: bool = True) -> None:
        pass


class _GovernedClock:
    """A clock that a governor sets, tick by tick; it starts each training from its idle state."""

    def __init__(self, make: Callable[[], Governor], points: Iterable[OperatingPoint]) -> None:
        self._make = make
        self._points = {point.frequency_hz: point for point in points}
        self.wake(BaseLoad.AWAKE)

    @property
    def point(self) -> OperatingPoint:
        return self._points[self._governor.frequency_hz]

    def wake(self, base: BaseLoad, tail_s: float = 0.0, cycles: float = math.inf) -> None:
        del base, tail_s, cycles  # a governor sees only the load of the cores
        self._governor = self._make()
        self._now_s = self._busy_s = self._sampled_s = 0.0
        self.wait_s = self._governor.wait_s

    def signal(self, signal: int) -> None:
        pass

    def spend(self, elapsed_s: float, *, busy: bool = True) -> None:
        self._now_s += elapsed_s
        self._busy_s += elapsed_s if busy else 0.0
        self.wait_s -= elapsed_s
        if self.wait_s <= 0.0:
            load = min(self._busy_s / (self._now_s - self._sampled_s), 1.0)
            self._governor.step(load, self._now_s)
            self._busy_s, self._sampled_s = 0.0, self._now_s
            self.wait_s = self._governor.wait_s


def phone_clock(phone: Phone, name: str = CONTROLLED, frequency_hz: int = 0) -> PhoneClock:
    """Return the clock of a simulated phone.

    Parameters
    ----------
    phone : Phone
        Profile of the phone.
    name : str, default "deal"
        "deal" for control by the worker's signals, or the name of a governor. Governors set the
        clock of the fastest cluster, on which the work then runs.
    frequency_hz : int, default 0
        A fixed frequency instead, in hertz; 0 for none.

    Returns
    -------
    PhoneClock
        The clock.

    Raises
    ------
    BadInput
        If the phone does not have the frequency.
    UnknownName
        If there is no governor of that name.

    Examples
    --------
    >>> from dealfl.power import phone
    >>> phone_clock(phone("honor"), frequency_hz=1402 * 10**6).point.cluster
    1
    """
    if frequency_hz:
        points = [point for point in phone.points if point.frequency_hz == frequency_hz]
        if not points:
            table = ", ".join(
                f"{hz / 1e6:g}" for hz in sorted({p.frequency_hz for p in phone.points})
            )
            raise BadInput(
                f"{phone.name} has no clock frequency of {frequency_hz / 1e6:g} MHz; it has {table}"
            )
        return _FixedClock(min(points, key=phone.current_a))
    if name == CONTROLLED:
        return _ControlledClock(FrequencyControl.for_phone(phone), phone.fastest)
    if name not in GOVERNORS:
        raise unknown_name("governor", name, CLOCKS)
    cluster = phone.clusters[phone.fastest.cluster].points
    table_hz = [point.frequency_hz for point in cluster]
    return _GovernedClock(lambda: governor(name, table_hz), cluster)


def run(clock: PhoneClock, cycles: float) -> Iterator[tuple[float, OperatingPoint]]:
    """Do work at the pace of a clock; yield the cycles done at each operating point."""
    while cycles > 0.0:
        point, until_s = clock.point, clock.wait_s
        done = min(cycles, until_s * point.frequency_hz)
        yield done, point
        clock.spend(done / point.frequency_hz if done == cycles else until_s)
        cycles -= done


@dataclass(frozen=True, slots=True)
class Phase:
    """A piece of work, the worker's signal before it, and a pause after it.

    Parameters
    ----------
    signal : {1, -1, 0}
        `LEARN`, `FORGET` or `END`, given before the work.
    cycles : float
        Cycles of work.
    pause_s : float, default 0
        Seconds for which the device is awake and idle afterwards, at any frequency.
    """

    signal: int
    cycles: float
    pause_s: float = 0.0


def replay(
    phone: Phone, phases: Iterable[Phase], clock: PhoneClock, base: BaseLoad = BaseLoad.AWAKE
) -> Energy:
    """Return the energy of phases of work; their signals go to the clock.

    Parameters
    ----------
    phone : Phone
        Profile of the phone.
    phases : iterable of Phase
        The work.
    clock : PhoneClock
        Clock of the phone, from `phone_clock`.
    base : BaseLoad, default AWAKE
        Parts of the device that draw current beside the CPU.

    Returns
    -------
    Energy
        Total energy, charge and duration.

    Examples
    --------
    >>> from dealfl.power import phone, phone_clock
    >>> honor = phone("honor")
    >>> forgetting = [Phase(-1, 1e9), Phase(-1, 1e9)]
    >>> spent = replay(honor, forgetting, phone_clock(honor))
    >>> fixed = replay(honor, forgetting, phone_clock(honor, "performance"))
    >>> round(spent.charge_uah, 2), round(fixed.charge_uah, 2)
    (33.72, 37.34)
    >>> round(spent.elapsed_s - fixed.elapsed_s, 2)  # added latency
    0.48
    """
    model, total = EnergyModel(phone), Energy()
    clock.wake(base)
    for phase in phases:
        clock.signal(phase.signal)
        for cycles, point in run(clock, phase.cycles):
            total += model.compute(cycles, point, base)
        total += model.wait(phase.pause_s, base)
        _pause(clock, phase.pause_s)
    clock.signal(END)
    return total


def _pause(clock: PhoneClock, pause_s: float) -> None:
    while pause_s > 0.0:
        passed_s = min(pause_s, clock.wait_s)
        clock.spend(passed_s, busy=False)
        pause_s -= passed_s
