"""Energy counters of this machine in /sys: RAPL, the battery's gauge, and the better of the two."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from dealfl.errors import DealError
from dealfl.power.meters.base import Kind, Meter, Reading, Source, charge_at, energy_at

__all__ = [
    "BatteryMeter", "MeterChoice", "RaplMeter", "best_meter", "find_battery", "read_voltage_v",
    "try_integer", "try_text",
]  # fmt: skip

# A second colon marks a child zone (core, uncore, dram); intel-rapl-mmio is a second view of the
# same packages. Adding either would count energy twice.
_ZONE = re.compile(r"intel-rapl:\d+")
_PACKAGE = re.compile(r"package-\d+(-die-\d+)?")

_CHARGES = ("charge_counter", "charge_now")  # µAh
_ENERGY = "energy_now"  # µWh
_CURRENT = "current_now"  # µA
_VOLTAGES = ("voltage_now", "voltage_avg", "voltage_min_design")  # µV
_JOULES_PER_UWH = 3.6e-3
_SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class _Package:
    name: str
    counter: Path
    range_uj: int | None


class RaplMeter:
    """The energy of all processor packages together, without memory, screen and radio.

    A counter wraps around at `max_energy_range_uj`. Each read detects one wrap, so read long
    measurements regularly: every 20 minutes is enough for a range of 262 kJ at 200 W.
    """

    def __init__(self, root: str | Path = "/sys") -> None:
        self._packages = _packages(Path(root) / "class" / "powercap")
        names = ", ".join(package.name for package in self._packages)
        self._source = Source(Kind.MEASURED, f"RAPL ({names})")
        self.start()

    def start(self) -> None:
        """Restart from zero."""
        self._taken_uj = 0
        self._last_uj = [_read_integer(package.counter) for package in self._packages]

    def read(self) -> Reading:
        """Return the energy since the start."""
        now_uj = [_read_integer(package.counter) for package in self._packages]
        for package, before, after in zip(self._packages, self._last_uj, now_uj, strict=True):
            self._taken_uj += _difference(package, before, after)
        self._last_uj = now_uj
        return Reading(self._taken_uj / 1e6, None, self._source)


def _packages(directory: Path) -> list[_Package]:
    if not directory.is_dir():
        raise DealError(f"{directory} does not exist: no RAPL driver, or a container hides it")
    zones = sorted(path for path in directory.iterdir() if _ZONE.fullmatch(path.name))
    named = [(zone, try_text(zone / "name") or "") for zone in zones]
    packages = [
        _Package(name, zone / "energy_uj", try_integer(zone / "max_energy_range_uj"))
        for zone, name in named
        if _PACKAGE.fullmatch(name)
    ]
    if not packages:
        found = ", ".join(name or zone.name for zone, name in named) or "nothing"
        raise DealError(f"{directory} has no processor package; found: {found}")
    return packages


def _difference(package: _Package, before_uj: int, after_uj: int) -> int:
    if after_uj >= before_uj:
        return after_uj - before_uj
    if package.range_uj is None or package.range_uj < before_uj:
        raise DealError(
            f"{package.counter} fell from {before_uj} to {after_uj} µJ, and max_energy_range_uj "
            "in the same folder does not state where it wraps around"
        )
    return after_uj - before_uj + package.range_uj


@dataclass(frozen=True, slots=True)
class _Sample:
    value: int
    voltage_v: float
    now_s: float


class BatteryMeter:
    """Charge and energy from the battery while it discharges.

    A gauge has steps of about 1 mAh and is updated every few seconds, so repeat short work until
    it takes several steps. Signs differ between drivers: the direction comes from `status`, and
    currents and the changes of a counter count by their absolute value. A gauge that turns round
    while the battery discharges is refused, and so is one of the remaining charge that rises. If a
    gauge reports only the current, each read integrates it since the previous read.
    """

    def __init__(self, root: str | Path = "/sys", clock: Callable[[], float] = monotonic) -> None:
        self._supply = find_battery(Path(root) / "class" / "power_supply")
        self._file = _gauge(self._supply)
        self._clock = clock
        self._source = Source(Kind.MEASURED, f"battery gauge ({self._supply.name}/{self._file})")
        self.start()

    def start(self) -> None:
        """Restart from zero."""
        self._integrated_uah = 0.0
        self._started = self._last = self._sample()

    def read(self) -> Reading:
        """Return charge and energy since the start."""
        now = self._sample()
        self._check_direction(now)
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

    def _check_direction(self, now: _Sample) -> None:
        """Refuse a gauge that runs backwards."""
        if self._file == _CURRENT:
            return
        start, before, after = (abs(one.value) for one in (self._started, self._last, now))
        rises = before > start  # only a counter may, as some drivers have it
        if self._file == "charge_counter" and before == start:
            return
        if (after < before) if rises else (after > before):
            raise DealError(
                f"{self._supply / self._file} runs backwards: it went from {before} to {after} "
                "while the battery discharges, so it does not show consumption"
            )

    def _sample(self) -> _Sample:
        status = _read_text(self._supply / "status")
        if status.lower() != "discharging":
            raise DealError(
                f"the battery {self._supply.name} is {status.lower() or 'in an unknown state'}, "
                f"not discharging, so its gauge does not show consumption; unplug the charger"
            )
        value = _read_integer(self._supply / self._file)
        return _Sample(value, read_voltage_v(self._supply), self._clock())


def find_battery(directory: Path) -> Path:
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
            _read_integer(supply / name)
        except DealError as reason:
            reasons.append(str(reason))
        else:
            return name
    raise DealError(f"the battery {supply.name} reports no charge: {'; '.join(reasons)}")


def read_voltage_v(supply: Path) -> float:
    """Return the voltage of a battery."""
    for name in _VOLTAGES:
        voltage_uv = try_integer(supply / name)
        if voltage_uv is not None and voltage_uv > 0:
            return voltage_uv / 1e6
    raise DealError(f"the battery {supply.name} reports no voltage in {', '.join(_VOLTAGES)}")


# RAPL resolves microjoules; a battery gauge has steps of several joules
_BY_QUALITY: Mapping[str, Callable[[Path], Meter]] = {
    "RAPL": RaplMeter,
    "battery gauge": BatteryMeter,
}


@dataclass(frozen=True, slots=True)
class MeterChoice:
    """The best meter that works on this machine."""

    meter: Meter | None
    refused: Mapping[str, str]


def best_meter(root: str | Path = "/sys") -> MeterChoice:
    """Return the best meter of this machine.

    Examples
    --------
    >>> choice = best_meter("/nowhere")
    >>> choice.meter, sorted(choice.refused)
    (None, ['RAPL', 'battery gauge'])
    """
    refused: dict[str, str] = {}
    for name, made in _BY_QUALITY.items():
        try:
            return MeterChoice(made(Path(root)), refused)
        except DealError as reason:
            refused[name] = str(reason)
    return MeterChoice(None, refused)


def _read_text(path: Path) -> str:
    """Return the text of a file, or raise DealError with the reason."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except PermissionError:
        raise DealError(f"{path} is not readable by this user; run as root") from None
    except FileNotFoundError:
        raise DealError(f"{path} does not exist") from None
    except OSError as error:  # a driver can return any error, such as ENODATA
        raise DealError(f"{path} cannot be read: {error.strerror}") from None


def _read_integer(path: Path) -> int:
    """Return the number in a file, or raise DealError with the reason."""
    text = _read_text(path)
    try:
        return int(text)
    except ValueError:
        raise DealError(f"{path} contains {text[:40]!r}, not a whole number") from None


def try_text(path: Path) -> str | None:
    """Return the text of a file; None if it cannot be read."""
    try:
        return _read_text(path)
    except DealError:
        return None


def try_integer(path: Path) -> int | None:
    """Return the number in a file; None if it cannot be read."""
    try:
        return _read_integer(path)
    except DealError:
        return None
