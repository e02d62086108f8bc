"""Energy meters with one protocol, and what /sys shows of this machine: battery, charger, heat."""

import csv
import math
import re
import resource
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from dealfl.errors import BadInput, DealError, unknown_name

_JOULES_PER_WATT_HOUR = 3600.0
_UAH_PER_AH = 1e6
_TIME = "Time(ms)"
_VOLTAGE_OF = {
    "Main(mA)": "Main Voltage(V)",
    "USB(mA)": "USB Voltage(V)",
    "Aux(mA)": "",
}  # Aux has none
_COLUMNS = (_TIME, *_VOLTAGE_OF, "Main Voltage(V)", "USB Voltage(V)")
_MA_MS_PER_UAH = 3600.0
_J_PER_MW_MS = 1e-6


class Kind(StrEnum):
    """Whether a figure is measured or modelled."""

    MEASURED = "measured"
    MODELLED = "modelled"


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a figure; it is shown with every figure.

    Examples
    --------
    >>> print(Source(Kind.MEASURED, "RAPL"))
    measured by RAPL
    """

    kind: Kind
    by: str

    def __str__(self) -> str:
        return f"{self.kind} by {self.by}"


@dataclass(frozen=True, slots=True)
class Reading:
    """A reading of a meter: the energy since its start."""

    energy_j: float
    charge_uah: float | None
    source: Source

    def as_dict(self) -> dict[str, object]:
        """Return the reading, for JSON."""
        return {
            "energy_j": self.energy_j,
            "charge_uah": self.charge_uah,
            "source": self.source.kind.value,
            "by": self.source.by,
        }


class Meter(Protocol):
    """An energy meter: start it, do some work, read it. Each read counts from the same start."""

    def start(self) -> None:
        """Restart from zero."""

    def read(self) -> Reading:
        """Return the energy since the start."""


def energy_at(charge_uah: float, voltage_v: float) -> float:
    """Return the energy, in joules, of a charge at a voltage.

    >>> energy_at(charge_uah=1000.0, voltage_v=4.0)
    14.4
    """
    return charge_uah / _UAH_PER_AH * voltage_v * _JOULES_PER_WATT_HOUR


def charge_at(energy_j: float, voltage_v: float) -> float:
    """Return the charge, in µAh, of an energy at a voltage.

    >>> charge_at(energy_j=14.4, voltage_v=4.0)
    1000.0
    """
    return energy_j / _JOULES_PER_WATT_HOUR / voltage_v * _UAH_PER_AH


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of the file: the current and the power of all enabled channels together."""

    time_ms: float
    current_ma: float
    power_mw: float


class MonsoonMeter:
    """The charge and energy of a recording, over all enabled channels.

    It counts from the last sample before the start, or as a whole if it was not started.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._start_ms = -math.inf
        self._source = Source(Kind.MEASURED, f"Monsoon ({self._path.name})")

    def start(self) -> None:
        """Start at the last sample."""
        self._start_ms = max(sample.time_ms for sample in self._samples())

    def read(self) -> Reading:
        """Return the charge and energy since the start."""
        charge_uah = energy_j = 0.0
        samples = (each for each in self._samples() if each.time_ms >= self._start_ms)
        last = next(samples)
        for sample in samples:
            lasted_ms = sample.time_ms - last.time_ms
            charge_uah += (last.current_ma + sample.current_ma) / 2 * lasted_ms / _MA_MS_PER_UAH
            energy_j += (last.power_mw + sample.power_mw) / 2 * lasted_ms * _J_PER_MW_MS
            last = sample
        return Reading(energy_j, charge_uah, self._source)

    def _samples(self) -> Iterator[_Row]:
        try:
            with self._path.open(newline="", encoding="utf-8", errors="replace") as file:
                yield from self._parse(csv.reader(file))
        except OSError as error:
            raise BadInput(f"{self._path}: {error.strerror}") from None

    def _parse(self, lines: Iterator[list[str]]) -> Iterator[_Row]:
        header = [name.strip() for name in next(lines, [])]
        self._check_header(header)
        time_ms = -math.inf
        for number, cells in enumerate(lines, 2):
            sample = self._sample(header, cells, number)
            if sample.time_ms < time_ms:
                raise self._bad(number, f"goes back in time, from {time_ms} to {sample.time_ms} ms")
            time_ms = sample.time_ms
            yield sample
        if time_ms == -math.inf:
            raise self._bad(2, "is missing: the recording has no samples")

    def _check_header(self, header: list[str]) -> None:
        wrong = [name for name in header if name not in _COLUMNS]
        if wrong or _TIME not in header:
            names = ",".join(header)[:80]
            expected = ",".join(_COLUMNS)
            raise self._bad(1, f"must name columns out of {expected}; it contains {names!r}")
        channels = [name for name in header if name in _VOLTAGE_OF]
        if not channels:
            raise self._bad(1, "has no current column: no channel was enabled")
        for channel in channels:
            if _VOLTAGE_OF[channel] not in header:
                raise self._bad(1, f"has {channel} without its voltage")

    def _sample(self, header: list[str], cells: list[str], number: int) -> _Row:
        try:
            values = {name: float(cell) for name, cell in zip(header, cells, strict=True)}
        except ValueError as error:
            raise self._bad(number, f"cannot be read: {error}") from None
        if not all(map(math.isfinite, values.values())):
            raise self._bad(number, f"contains a value that is not finite: {','.join(cells)[:80]}")
        currents = {name: value for name, value in values.items() if name in _VOLTAGE_OF}
        power_mw = sum(ma * values[_VOLTAGE_OF[name]] for name, ma in currents.items())
        return _Row(values[_TIME], sum(currents.values()), power_mw)

    def _bad(self, line: int, what: str) -> BadInput:
        return BadInput(f"{self._path} line {line} {what}")


METERS = ("auto", "rapl", "battery", "model")

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
_POSSIBLE_C = range(-40, 150)  # other values are those of sensors that do not work
_ON_POWER = ("charging", "full", "not charging")  # states of a battery
_READ_EVERY_S = 10.0  # an energy counter can wrap around; each read detects one wrap
_SIGNALLED = 128  # a shell returns 128 + the number of the signal that ended a command


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

    def __init__(self, root: str | Path) -> None:
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
    named = [(zone, _try_text(zone / "name")) for zone in zones]
    packages = [
        _Package(name, zone / "energy_uj", _try_integer(zone / "max_energy_range_uj"))
        for zone, name in named
        if _PACKAGE.fullmatch(name)
    ]
    if not packages:
        others = ", ".join(name or zone.name for zone, name in named) or "nothing"
        raise DealError(f"{directory} has no processor package; found: {others}")
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

    def __init__(self, root: str | Path, now_s: Callable[[], float] = time.monotonic) -> None:
        self._supply = _find_battery(Path(root) / "class" / "power_supply")
        self._file = _gauge(self._supply)
        self._now_s = now_s
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
        start, before, after = (abs(each.value) for each in (self._started, self._last, now))
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
        return _Sample(value, _read_voltage_v(self._supply), self._now_s())


def _find_battery(directory: Path) -> Path:
    """Return the battery of the device; prefer one that discharges."""
    supplies = sorted(directory.iterdir()) if directory.is_dir() else []
    batteries = [supply for supply in supplies if _feeds_the_device(supply)]
    if not batteries:
        others = ", ".join(supply.name for supply in supplies) or "nothing"
        raise DealError(f"{directory} has no battery; found: {others}")
    return min(batteries, key=lambda supply: not _discharges(supply))


def _feeds_the_device(supply: Path) -> bool:
    is_battery = _try_text(supply / "type").lower() == "battery"
    of_a_mouse = _try_text(supply / "scope").lower() == "device"
    absent = _try_integer(supply / "present") == 0
    return is_battery and not of_a_mouse and not absent


def _discharges(supply: Path) -> bool:
    return _try_text(supply / "status").lower() == "discharging"


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


def _read_voltage_v(supply: Path) -> float:
    """Return the voltage of a battery."""
    for name in _VOLTAGES:
        voltage_uv = _try_integer(supply / name)
        if voltage_uv is not None and voltage_uv > 0:
            return voltage_uv / 1e6
    raise DealError(f"the battery {supply.name} reports no voltage in {', '.join(_VOLTAGES)}")


# RAPL resolves microjoules; a battery gauge has steps of several joules
_BY_QUALITY: Mapping[str, Callable[[Path], Meter]] = {
    "RAPL": RaplMeter,
    "battery gauge": BatteryMeter,
}


def best_meter(root: str | Path) -> tuple[Meter | None, dict[str, str]]:
    """Return the best meter that works on this machine, and why better ones do not.

    Examples
    --------
    >>> meter, refused = best_meter("/nowhere")
    >>> meter, sorted(refused)
    (None, ['RAPL', 'battery gauge'])
    """
    refused: dict[str, str] = {}
    for name, make in _BY_QUALITY.items():
        try:
            return make(Path(root)), refused
        except DealError as reason:
            refused[name] = str(reason)
    return None, refused


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


def _try_text(path: Path) -> str:
    """Return the text of a file; '' if it cannot be read."""
    try:
        return _read_text(path)
    except DealError:
        return ""


def _try_integer(path: Path) -> int | None:
    """Return the number in a file; None if it cannot be read."""
    try:
        return _read_integer(path)
    except DealError:
        return None


@dataclass(frozen=True, slots=True)
class MachineState:
    """The state of this machine; a machine without a battery counts as charged and charging."""

    battery: float | None = None  # level, from 0 to 1
    charging: bool = True
    capacity_j: float = 0.0  # 0 if unknown
    temperature_c: float | None = None  # of the hottest sensor


def read_machine(root: str | Path) -> MachineState:
    """Return the state of this machine, as far as the kernel shows it.

    Examples
    --------
    >>> read_machine("/nowhere")
    MachineState(battery=None, charging=True, capacity_j=0.0, temperature_c=None)
    """
    supplies = Path(root) / "class/power_supply"
    temperature_c = _temperature_c(Path(root))
    try:
        battery = _find_battery(supplies)
    except DealError:
        return MachineState(temperature_c=temperature_c)
    status = _try_text(battery / "status").lower()
    others = (path for path in supplies.iterdir() if _try_text(path / "type") != "Battery")
    charging = status in _ON_POWER or any(_try_integer(path / "online") == 1 for path in others)
    return MachineState(_level(battery), charging, _capacity_j(battery), temperature_c)


def _level(battery: Path) -> float | None:
    """Return the level of a battery: its gauge's, or the charge as a share of a full one."""
    percent = _try_integer(battery / "capacity")
    if percent is not None:
        return min(max(percent / 100, 0.0), 1.0)
    for kind in ("charge", "energy"):
        now = _try_integer(battery / f"{kind}_now")
        full = _try_integer(battery / f"{kind}_full")
        if now is not None and full:
            return min(max(now / full, 0.0), 1.0)
    return None


def _capacity_j(battery: Path) -> float:
    energy_uwh = _try_integer(battery / "energy_full")
    charge_uah = _try_integer(battery / "charge_full")
    if energy_uwh:
        return energy_uwh * _JOULES_PER_UWH
    try:
        return (charge_uah or 0) * _JOULES_PER_UWH * _read_voltage_v(battery)
    except DealError:
        return 0.0


def _temperature_c(root: Path) -> float | None:
    zones = root.glob("class/thermal/thermal_zone*/temp")  # in m°C
    batteries = root.glob("class/power_supply/*/temp")  # in 0.1 °C
    read = [(_try_integer(path), 1000) for path in zones]
    read += [(_try_integer(path), 10) for path in batteries]
    temperatures_c = (value / unit for value, unit in read if value is not None)
    return max((celsius for celsius in temperatures_c if int(celsius) in _POSSIBLE_C), default=None)


def make_meter(name: str, root: str | Path = "/sys") -> Meter | None:
    """Return the meter of a name in `METERS`, or of a CSV file that a Monsoon monitor writes.

    There is none for "model", and for "auto" on a machine without a meter.
    """
    if name.endswith(".csv"):
        return MonsoonMeter(name)
    if name not in METERS:
        raise unknown_name("meter", name, (*METERS, "FILE.csv"))
    if name == "model":
        return None
    if name == "auto":
        return best_meter(root)[0]
    try:
        return RaplMeter(root) if name == "rapl" else BatteryMeter(root)
    except DealError as error:
        raise BadInput(f"the meter {name!r} does not work here: {error}") from None


@dataclass(frozen=True, slots=True)
class MeasuredCommand:
    """Time and energy of one command."""

    exit_code: int
    elapsed_s: float
    cpu_s: float
    reading: Reading | None
    refused: dict[str, str]

    def as_dict(self) -> dict[str, object]:
        """Return all values, for JSON."""
        return asdict(self) | {"reading": self.reading.as_dict() if self.reading else None}


def measure_command(words: Sequence[str], root: str, output: Any) -> MeasuredCommand:  # noqa: ANN401
    """Run a command and measure its time and energy."""
    meter, refused = best_meter(root)
    before_s = _children_s()
    start_s = time.perf_counter()
    if meter:
        meter.start()
    exit_code, failure = _wait(_start(words, output), meter)
    elapsed_s = time.perf_counter() - start_s
    reading: Reading | None = None
    if meter and not failure:
        reading, failure = _read(meter)
    if failure:
        refused["the selected meter"] = failure
    return MeasuredCommand(exit_code, elapsed_s, _children_s() - before_s, reading, refused)


def _start(words: Sequence[str], output: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401
    try:
        return subprocess.Popen(list(words), stdout=output)  # noqa: S603 - the user's own command
    except OSError as error:
        raise BadInput(f"{words[0]!r} cannot be run: {error.strerror}") from None


def _wait(process: subprocess.Popen[bytes], meter: Meter | None) -> tuple[int, str]:
    """Return the exit code, and why the meter failed; a failing meter does not stop the command."""
    failure = ""
    while True:
        try:
            code = process.wait(_READ_EVERY_S)
        except subprocess.TimeoutExpired:
            if meter and not failure:
                failure = _read(meter)[1]
        except KeyboardInterrupt:
            continue  # the command receives it too and decides
        else:
            return (code if code >= 0 else _SIGNALLED - code), failure


def _read(meter: Meter) -> tuple[Reading | None, str]:
    try:
        return meter.read(), ""
    except DealError as error:
        return None, str(error)


def _children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
