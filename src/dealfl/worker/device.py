"""The device under a worker: what it says of itself, and what work costs it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dealfl.errors import DealError
from dealfl.learners import Work
from dealfl.power import PhoneSpending, Spent, Training
from dealfl.power.meters import Meter as PowerMeter
from dealfl.power.meters import Reading

__all__ = [
    "MIN_BATTERY",
    "Cost",
    "Device",
    "DeviceNow",
    "Done",
    "MeasuredMeter",
    "Meter",
    "PhoneMeter",
    "always",
]

MIN_BATTERY = 0.15
_NO_WORK = Work(0, 0)


@dataclass(frozen=True, slots=True)
class Device:
    """What a worker says of the device it runs on, at one moment."""

    name: str = ""
    capacity_j: float = 0.0
    battery: float = 1.0
    charging: bool = False
    metered: bool = False
    hot: bool = False
    busy: bool = False

    def reason_to_decline(self, min_battery: float = MIN_BATTERY) -> str:
        """Return why it should not train now; nothing if it may.

        >>> Device(battery=0.1).reason_to_decline()
        'low battery'
        >>> Device(battery=0.1, charging=True).reason_to_decline()
        ''
        """
        reasons = {
            "low battery": self.battery < min_battery and not self.charging,
            "metered network": self.metered,
            "hot": self.hot,
            "busy": self.busy,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")


DeviceNow = Callable[[float], Device]  # what a device says at a time


def always(device: Device | DeviceNow | None) -> DeviceNow:
    """Return a device that says the same at all times, unless it can be asked."""
    if device is None or isinstance(device, Device):
        fixed = device or Device()
        return lambda now_s: fixed  # noqa: ARG005
    return device


# -- what work costs ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a worker did: the work, the records behind it, and the bytes over the air.

    `examples` were learned from, `held` are held now. What is done while the worker is awake
    anyway is no wake-up of its own.
    """

    learned: Work = _NO_WORK
    forgotten: Work = _NO_WORK
    examples: int = 0
    held: int = 0
    fetched_bytes: int = 0
    sent_bytes: int = 0
    wakes: bool = True

    @property
    def work(self) -> Work:
        """All work together."""
        return self.learned + self.forgotten


@dataclass(frozen=True, slots=True)
class Cost:
    """What a training cost; the energy is measured or modelled, as `source` says.

    `elapsed_s` is the training alone. `transfer_s` is the time over the air where that is
    modelled; where it is real, it passes by itself.
    """

    elapsed_s: float
    energy_j: float
    source: str = "modelled"
    transfer_s: float = 0.0


class Meter(Protocol):
    """Says what work cost, measured or modelled."""

    def start(self) -> None:
        """Take note that work begins."""

    def cost(self, done: Done) -> Cost:
        """Return the cost of what was done since the start."""


class PhoneMeter:
    """Models what each training costs a phone, and adds up what was spent.

    >>> from dealfl.learners import Work, cycles_of
    >>> from dealfl.power import phone
    >>> meter = PhoneMeter(PhoneSpending(phone("honor"), cycles_of("naive_bayes")))
    >>> cost = meter.cost(Done(learned=Work(10**6, 0), sent_bytes=10_000))
    >>> cost.source, cost.energy_j == meter.spent.whole.total_j
    ('modelled', True)
    """

    def __init__(self, spending: PhoneSpending) -> None:
        self.spent = Spent()
        self._spending = spending

    def start(self) -> None:
        """Do nothing: a model needs no beginning."""

    def cost(self, done: Done) -> Cost:
        """Return what was done costs this phone."""
        spent = self._spending.of(_training(done))
        self.spent = self.spent + spent
        transfer_s = spent.radio.elapsed_s
        return Cost(spent.compute.elapsed_s, spent.whole.total_j, transfer_s=transfer_s)


def _training(done: Done) -> Training:
    scratch = done.learned.operations * done.held / done.examples if done.examples else 0.0
    return Training(
        learned_operations=done.learned.operations,
        forgotten_operations=done.forgotten.operations,
        scratch_operations=scratch,
        fetched_bytes=done.fetched_bytes,
        sent_bytes=done.sent_bytes,
        wakes=done.wakes,
    )


class MeasuredMeter:
    """Measures how long work takes here, and its energy where a meter of power can tell.

    Where none can (a gauge steps by joules, a charger hides what is drawn), a model says what
    the energy was; without one it is 0, and its source says so.
    """

    def __init__(
        self,
        power: PowerMeter | None = None,
        model: PhoneMeter | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._power, self._model, self._clock = power, model, clock
        self._started_s = clock()
        self._metering = False

    def start(self) -> None:
        """Take note of the time, and begin to count energy."""
        self._metering = self._power is not None
        if self._power is not None:
            try:
                self._power.start()
            except DealError:
                self._metering = False
        self._started_s = self._clock()

    def cost(self, done: Done) -> Cost:
        """Return what was done since the start took."""
        elapsed_s = max(self._clock() - self._started_s, 0.0)
        modelled = self._model.cost(done) if self._model else None
        reading = self._reading()
        if reading is not None and reading.energy_j > 0.0:
            return Cost(elapsed_s, reading.energy_j, reading.source.kind.value)
        if modelled is not None:
            return Cost(elapsed_s, modelled.energy_j)
        return Cost(elapsed_s, 0.0, "not known")

    def _reading(self) -> Reading | None:
        if not self._metering or self._power is None:
            return None
        try:
            return self._power.read()
        except DealError:
            return None
