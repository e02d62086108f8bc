"""The fuel gauge of the battery: the charge that really left it, coarsely."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from dealfl.errors import DealError
from dealfl.power.meters.base import Kind, Reading, Source, charge_at, energy_at
from dealfl.power.meters.sysfs import (
    read_integer,
    read_text,
    readable_integer,
    readable_text,
)

__all__ = ["BatteryMeter"]

_CHARGES = ("charge_counter", "charge_now")  # µAh
_ENERGY = "energy_now"  # µWh
_CURRENT = "current_now"  # µA
_VOLTAGES = ("voltage_now", "voltage_avg", "voltage_min_design")  # µV
_JOULES_PER_UWH = 3.6e-3
_SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class _Sample:
    value: int
    voltage_v: float
    now_s: float


class BatteryMeter:
    """What the battery gave since the start, while it discharges.

    A gauge steps by about 1 mAh and is renewed every few seconds: repeat small work until it
    takes several steps. Drivers do not agree on signs, so the direction comes from `status`
    alone, and all differences and currents count by their size. Where a gauge tells only its
    current, every read adds the time since the one before.
    """

    def __init__(self, root: str | Path = "/sys", clock: Callable[[], float] = monotonic) -> None:
        """Find the battery, or raise the reason why there is nothing to read."""
        self._supply = _battery(Path(root) / "class" / "power_supply")
        self._file = _gauge(self._supply)
        self._clock = clock
        self._source = Source(Kind.MEASURED, f"battery gauge ({self._supply.name}/{self._file})")
        self.start()

    def start(self) -> None:
        """Begin anew from zero."""
        self._integrated_uah = 0.0
        self._started = self._last = self._sample()

    def read(self) -> Reading:
        """Return charge and energy since the start."""
        now = self._sample()
        voltage_v = (self._started.voltage_v + now.voltage_v) / 2
        if self._file == _CURRENT:
            mean_ua = (abs(self._last.value) + abs(now.value)) / 2
            self._integrated_uah += mean_ua * (now.now_s - self._last.now_s) / _SECONDS_PER_HOUR
        self._last = now
        if self._file == _ENERGY:
            energy_j = abs(now.value - self._started.value) * _JOULES_PER_UWH
            return Reading(energy_j, charge_at(energy_j, voltage_v), self._source)
        charge_uah = self._integrated_uah
        if self._file in _CHARGES:
            charge_uah = float(abs(now.value - self._started.value))
        return Reading(energy_at(charge_uah, voltage_v), charge_uah, self._source)

    def _sample(self) -> _Sample:
        status = read_text(self._supply / "status")
        if status.lower() != "discharging":
            raise DealError(
                f"the battery {self._supply.name} is {status.lower() or 'of unknown status'}, "
                f"not discharging: its gauge does not show what work takes; unplug the charger"
            )
        value = read_integer(self._supply / self._file)
        return _Sample(value, _voltage_v(self._supply), self._clock())


def _battery(directory: Path) -> Path:
    """Return the battery that feeds the device, the discharging one of several."""
    supplies = sorted(directory.iterdir()) if directory.is_dir() else []
    batteries = [supply for supply in supplies if _feeds_the_device(supply)]
    if not batteries:
        found = ", ".join(supply.name for supply in supplies) or "nothing"
        raise DealError(f"no battery in {directory}, which holds {found}")
    return min(batteries, key=lambda supply: not _discharges(supply))


def _feeds_the_device(supply: Path) -> bool:
    is_battery = (readable_text(supply / "type") or "").lower() == "battery"
    of_a_mouse = (readable_text(supply / "scope") or "").lower() == "device"
    absent = readable_integer(supply / "present") == 0
    return is_battery and not of_a_mouse and not absent


def _discharges(supply: Path) -> bool:
    return (readable_text(supply / "status") or "").lower() == "discharging"


def _gauge(supply: Path) -> str:
    """Return the best file that tells what the battery gave, or raise why there is none."""
    reasons = []
    for name in (*_CHARGES, _ENERGY, _CURRENT):
        try:
            read_integer(supply / name)
        except DealError as reason:
            reasons.append(str(reason))
        else:
            return name
    raise DealError(f"the battery {supply.name} tells no charge: {'; '.join(reasons)}")


def _voltage_v(supply: Path) -> float:
    for name in _VOLTAGES:
        voltage_uv = readable_integer(supply / name)
        if voltage_uv is not None and voltage_uv > 0:
            return voltage_uv / 1e6
    raise DealError(f"the battery {supply.name} tells no voltage in {', '.join(_VOLTAGES)}")
