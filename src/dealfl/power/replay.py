"""Replay of a worker's learning and forgetting on a phone, under a governor or under control."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dealfl.power.energy import Energy, EnergyModel
from dealfl.power.frequency import END, FrequencyControl
from dealfl.power.governors import Governor
from dealfl.power.hardware import BaseLoad, OperatingPoint, Phone

__all__ = ["Phase", "at_point", "under_control", "under_governor"]


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


def at_point(
    phone: Phone, phases: Iterable[Phase], point: OperatingPoint, base: BaseLoad = BaseLoad.AWAKE
) -> Energy:
    """Return the energy of phases at one operating point.

    Parameters
    ----------
    phone : Phone
        Profile of the phone.
    phases : iterable of Phase
        The work.
    point : OperatingPoint
        Frequency and current of the cores.
    base : BaseLoad, default AWAKE
        Parts of the device that draw current beside the CPU.

    Returns
    -------
    Energy
        Total energy, charge and duration.
    """
    model = EnergyModel(phone)
    return sum((_spent(model, phase, point, base) for phase in phases), Energy())


def under_control(phone: Phone, phases: Iterable[Phase], control: FrequencyControl) -> Energy:
    """Return the energy of phases whose signals step the clock.

    Parameters
    ----------
    phone : Phone
        Profile of the phone.
    phases : iterable of Phase
        The work.
    control : FrequencyControl
        Control of the phone's clock; it ends at the fastest clock.

    Returns
    -------
    Energy
        Total energy, charge and duration.

    Examples
    --------
    >>> from dealfl.power import FrequencyControl, phone
    >>> honor = phone("honor")
    >>> forgetting = [Phase(-1, 1e9), Phase(-1, 1e9)]
    >>> spent = under_control(honor, forgetting, FrequencyControl.for_phone(honor))
    >>> fixed = at_point(honor, forgetting, honor.fastest)
    >>> round(spent.charge_uah, 2), round(fixed.charge_uah, 2)
    (34.03, 37.34)
    >>> round(spent.elapsed_s - fixed.elapsed_s, 2)  # added latency
    0.32
    """
    model, total = EnergyModel(phone), Energy()
    for phase in phases:
        point = control.signal(phase.signal).point or phone.fastest
        total += _spent(model, phase, point, control.base)
    control.signal(END)
    return total


def under_governor(
    phone: Phone,
    phases: Sequence[Phase],
    governor: Governor,
    cluster: int,
    base: BaseLoad = BaseLoad.AWAKE,
) -> Energy:
    """Return the energy of phases while a governor sets the clock of one cluster, tick by tick.

    Parameters
    ----------
    phone : Phone
        Profile of the phone.
    phases : sequence of Phase
        The work; its signals are ignored.
    governor : Governor
        Governor of the cluster.
    cluster : int
        Index of the cluster in `Phone.clusters`.
    base : BaseLoad, default AWAKE
        Parts of the device that draw current beside the CPU.

    Returns
    -------
    Energy
        Total energy, charge and duration.
    """
    run = _Governed(phone, governor, cluster, base)
    for phase in phases:
        run.work(phase.cycles)
        run.pause(phase.pause_s)
    return run.total


class _Governed:
    """The state between two ticks of a governor."""

    def __init__(self, phone: Phone, governor: Governor, cluster: int, base: BaseLoad) -> None:
        self.total = Energy()
        self._model = EnergyModel(phone)
        self._governor = governor
        self._base = base
        self._points = {point.frequency_hz: point for point in phone.clusters[cluster].points}
        self._frequency_hz = governor.frequency_hz
        self._now_s = self._busy_s = self._sampled_s = 0.0
        self._tick_s = governor.wait_s

    def work(self, cycles: float) -> None:
        while cycles > 0:
            left_s = self._tick_s - self._now_s
            done = min(cycles, left_s * self._frequency_hz)
            point = self._points[self._frequency_hz]
            self.total += self._model.compute(done, point, self._base)
            last = done == cycles
            self._busy_s += done / self._frequency_hz
            self._pass(done / self._frequency_hz if last else left_s)
            cycles = 0.0 if last else cycles - done

    def pause(self, pause_s: float) -> None:
        while pause_s > 0:
            passed_s = min(pause_s, self._tick_s - self._now_s)
            self.total += self._model.wait(passed_s, self._base)
            self._pass(passed_s)
            pause_s -= passed_s

    def _pass(self, passed_s: float) -> None:
        self._now_s += passed_s
        if self._now_s < self._tick_s:
            return
        load = min(self._busy_s / (self._now_s - self._sampled_s), 1.0)
        self._frequency_hz = self._governor.step(load, self._now_s)
        self._busy_s, self._sampled_s = 0.0, self._now_s
        self._tick_s = self._now_s + self._governor.wait_s


def _spent(model: EnergyModel, phase: Phase, point: OperatingPoint, base: BaseLoad) -> Energy:
    return model.compute(phase.cycles, point, base) + model.wait(phase.pause_s, base)
