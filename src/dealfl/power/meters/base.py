"""The protocol of meters and their readings, and the recordings of a Monsoon power monitor."""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from dealfl.errors import BadInput

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
class _Sample:
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

    def _samples(self) -> Iterator[_Sample]:
        try:
            with self._path.open(newline="", encoding="utf-8", errors="replace") as file:
                yield from self._parse(csv.reader(file))
        except OSError as error:
            raise BadInput(f"{self._path}: {error.strerror}") from None

    def _parse(self, lines: Iterator[list[str]]) -> Iterator[_Sample]:
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

    def _sample(self, header: list[str], cells: list[str], number: int) -> _Sample:
        try:
            values = {name: float(cell) for name, cell in zip(header, cells, strict=True)}
        except ValueError as error:
            raise self._bad(number, f"cannot be read: {error}") from None
        if not all(map(math.isfinite, values.values())):
            raise self._bad(number, f"contains a value that is not finite: {','.join(cells)[:80]}")
        currents = {name: value for name, value in values.items() if name in _VOLTAGE_OF}
        power_mw = sum(ma * values[_VOLTAGE_OF[name]] for name, ma in currents.items())
        return _Sample(values[_TIME], sum(currents.values()), power_mw)

    def _bad(self, line: int, what: str) -> BadInput:
        return BadInput(f"{self._path} line {line} {what}")
