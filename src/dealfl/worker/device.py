"""The device of a worker: its state, its clock, and the time and energy that work costs on it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from dealfl.errors import DealError
from dealfl.power import Meter as PowerMeter
from dealfl.power import PhoneSpending, Reading, Signalled, Spent, Training

MIN_BATTERY = 0.15
_NOTHING = Spent()

_log = logging.getLogger("dealfl.worker")


@dataclass(frozen=True, slots=True)
class Device:
    """The state of a device at one moment."""

    name: str = ""  # device model, e.g. "honor"
    capacity_j: float = 0.0  # energy in a full battery; 0 if unknown
    battery: float = 1.0  # from 0 to 1
    charging: bool = False
    metered: bool = False  # the network bills by volume
    hot: bool = False
    busy: bool = False

    def reason_to_decline(self, min_battery: float = MIN_BATTERY) -> str:
        """Return the first reason not to train now; empty if the device can train.

        Examples
        --------
        >>> Device(battery=0.1).reason_to_decline()
        'low battery'
        >>> Device(battery=0.1, charging=True).reason_to_decline()
        ''
        """
        if self.battery < min_battery and not self.charging:
            return "low battery"
        if self.metered:
            return "metered network"
        if self.hot:
            return "hot"
        return "busy" if self.busy else ""


DeviceNow = Callable[[float], Device]  # the state of a device at a time in seconds


def always(device: Device | DeviceNow | None) -> DeviceNow:
    """Return a function from the time to the device; a fixed device never changes."""
    if device is None or isinstance(device, Device):
        fixed = device or Device()
        return lambda now_s: fixed  # noqa: ARG005
    return device


class NoSignals:
    """The clock of a device that nobody controls."""

    def signal(self, signal: int, /) -> None:
        """Do nothing."""


@contextmanager
def signalled(clock: Signalled, *, learns: bool, forgets: bool) -> Iterator[None]:
    """Signal to a clock that its device learns (+1), forgets (-1), and is done (0)."""
    try:
        if learns:
            clock.signal(1)
        if forgets:
            clock.signal(-1)
        yield
    finally:
        clock.signal(0)


# -- what a training costs ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cost:
    """The time and energy of one training."""

    elapsed_s: float  # without the transfer
    energy_j: float
    source: str = "modelled"  # of the energy; else the kind of a power meter, or "unknown"
    transfer_s: float = 0.0  # modelled; 0 if the transfer is real
    is_measured: bool = False  # whether the duration was measured

    @property
    def delay_s(self) -> float:
        """Time until the update leaves, in seconds: measured time has passed already."""
        return 0.0 if self.is_measured else self.elapsed_s + self.transfer_s


class Meter(Protocol):
    """Interface of the meters that measure or model the cost of work."""

    def start(self) -> None:
        """Start to measure."""

    def cost(self, training: Training) -> Cost:
        """Return the cost of the work since the start."""


class PhoneMeter:
    """A meter that models the cost of each training on a phone, and adds up the energy.

    Examples
    --------
    >>> from dealfl.learners import cycles_of
    >>> from dealfl.power import phone
    >>> meter = PhoneMeter(PhoneSpending(phone("honor"), cycles_of("naive_bayes")))
    >>> cost = meter.cost(Training(learned_operations=10**6, sent_bytes=10_000))
    >>> cost.source, cost.energy_j == meter.spent.whole.total_j
    ('modelled', True)
    """

    __slots__ = ("_signals", "_spending", "spent")

    def __init__(self, spending: PhoneSpending) -> None:
        self.spent = _NOTHING
        self._spending = spending
        self._signals: tuple[int, ...] = ()

    def start(self) -> None:
        """Start with a clock that has no signal yet."""
        self._signals = ()

    def signal(self, signal: int, /) -> None:
        """Take a worker's signal; the phone's clock follows it in the next `cost`."""
        self._signals += (signal,)

    def cost(self, training: Training) -> Cost:
        """Return the modelled cost of work on this phone, and add it to the total."""
        spent = self._spending.of(replace(training, signals=self._signals))
        self.spent = self.spent + spent
        return Cost(spent.compute.elapsed_s, spent.whole.total_j, transfer_s=spent.radio.elapsed_s)


class MeasuredMeter:
    """A meter that measures the duration of work, and its energy if a power meter can.

    A power meter may have no reading: its steps can be larger than the energy of one training,
    and a charger hides the energy drawn. The model then gives the energy. Without a model the
    energy is 0 and its source is "unknown".
    """

    def __init__(
        self,
        power: PowerMeter | None = None,
        model: PhoneMeter | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._power = power
        self._model = model
        self._clock = clock
        self._started_s = clock()
        self._metering = False
        self._warned: set[str] = set()

    def start(self) -> None:
        """Record the start time, and start the power meter."""
        self._metering = self._power is not None
        if self._power is not None:
            try:
                self._power.start()
            except DealError as error:
                self._metering = False
                self._warn(str(error))
        self._started_s = self._clock()

    def cost(self, training: Training) -> Cost:
        """Return the measured duration since the start, and measured or modelled energy."""
        elapsed_s = max(self._clock() - self._started_s, 0.0)
        modelled = self._model.cost(training) if self._model else None
        reading = self._reading()
        if reading is not None and reading.energy_j > 0.0:
            kind = reading.source.kind.value
            return Cost(elapsed_s, reading.energy_j, kind, is_measured=True)
        if modelled is not None:
            return Cost(elapsed_s, modelled.energy_j, is_measured=True)
        return Cost(elapsed_s, 0.0, "unknown", is_measured=True)

    def _reading(self) -> Reading | None:
        if not self._metering or self._power is None:
            return None
        try:
            return self._power.read()
        except DealError as error:
            self._warn(str(error))
            return None

    def _warn(self, reason: str) -> None:
        """Log once why the meter has no reading; training continues without it."""
        if reason not in self._warned:
            self._warned.add(reason)
            _log.warning("energy is not measured: %s; training continues", reason)
