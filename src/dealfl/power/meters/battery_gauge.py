"""The gauge of this machine's battery."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from dealfl.errors import DealError
from dealfl.power.meters.base import Kind, Reading, Source, charge_at, energy_at
from dealfl.power.meters.sysfs_files import (
    read_integer,
    read_text_file,
    try_integer,
    try_text,
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
    """Charge and energy from the battery while it discharges.

    A gauge has steps of about 1 mAh and is updated every few seconds, so repeat short work until
    it takes several steps. Signs differ between drivers: the direction comes from `status`, and
    differences and currents count by their absolute value. If a gauge reports only the current,
    each read integrates it since the previous read.

    Parameters
    ----------
    root : str or Path, default "/sys"
        Mount point of sysfs.
    clock : callable, default time.monotonic
        Returns the time in seconds.

    Raises
    ------
    DealError
        If there is no battery that can be read, or it is not discharging.

    References
    ----------
    Linux kernel, Documentation/ABI/testing/sysfs-class-power.
    """

    def __init__(self, root: str | Path = "/sys", clock: Callable[[], float] = monotonic) -> None:
        self._supply = _battery(Path(root) / "class" / "power_supply")
        self._file = _gauge(self._supply)
        self._clock = clock
        self._source = Source(Kind.MEASURED, f"battery gauge ({self._supply.name}/{self._file})")
        self.start()

    def start(self) -> None:
        """Restart from zero."""
        self._integrated_uah = 0.0
        self._started = self._last = self._sample()

    def read(self) -> Reading:
        """Return charge and energy since the start.

        Returns
        -------
        Reading
            Energy in joules and charge in µAh.

        Raises
        ------
        DealError
            If the gauge cannot be read or the battery is not discharging.
        """
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
        status = read_text_file(self._supply / "status")
        if status.lower() != "discharging":
            raise DealError(
                f"the battery {self._supply.name} is {status.lower() or 'in an unknown state'}, "
                f"not discharging, so its gauge does not show consumption; unplug the charger"
            )
        value = read_integer(self._supply / self._file)
        return _Sample(value, _voltage_v(self._supply), self._clock())


def _battery(directory: Path) -> Path:
    """Return the battery of the device; prefer one that discharges."""
    supplies = sorted(directory.iterdir()) if directory.is_dir() else []
    batteries = [supply for supply in supplies if _feeds_the_device(supply)]
    if not batteries:
        found = ", ".join(supply.name for supply in supplies) or "nothing"
        raise DealError(f"{directory} has no battery; found: {found}")
    return min(batteries, key=lambda supply: not _discharges(supply))


def _feeds_the_device(supply: Path) -> bool:
    is_battery = (try_text(supply / "type") or "").lower() == "battery"
    of_a_mouse = (try_text(supply / "scope") or "").lower() == "device"
    absent = try_integer(supply / "present") == 0
    return is_battery and not of_a_mouse and not absent


def _discharges(supply: Path) -> bool:
    return (try_text(supply / "status") or "").lower() == "discharging"


def _gauge(supply: Path) -> str:
    """Return the name of the best gauge file, or raise DealError with the reasons."""
    reasons = []
    for name in (*_CHARGES, _ENERGY, _CURRENT):
        try:
            read_integer(supply / name)
        except DealError as reason:
            reasons.append(str(reason))
        else:
            return name
    raise DealError(f"the battery {supply.name} reports no charge: {'; '.join(reasons)}")


def _voltage_v(supply: Path) -> float:
    for name in _VOLTAGES:
        voltage_uv = try_integer(supply / name)
        if voltage_uv is not None and voltage_uv > 0:
            return voltage_uv / 1e6
    raise DealError(f"the battery {supply.name} reports no voltage in {', '.join(_VOLTAGES)}")
