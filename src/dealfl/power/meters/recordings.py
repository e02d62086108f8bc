"""Recordings as meters: readings in a JSON file, and CSV files of a Monsoon power monitor."""

import csv
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dealfl.errors import BadInput, DealError
from dealfl.power.meters.base import Kind, Reading, Source

__all__ = ["MonsoonMeter", "RecordedMeter"]

_TIME = "Time(ms)"
_VOLTAGE_OF = {"Main(mA)": "Main Voltage(V)", "USB(mA)": "USB Voltage(V)", "Aux(mA)": None}
_COLUMNS = (_TIME, *_VOLTAGE_OF, "Main Voltage(V)", "USB Voltage(V)")
_MA_MS_PER_UAH = 3600.0
_J_PER_MW_MS = 1e-6


class RecordedMeter:
    """A meter that replays readings in their original order.

    Examples
    --------
    >>> meter = RecordedMeter([Reading(1.5, None, Source(Kind.MEASURED, "RAPL"))])
    >>> meter.start()
    >>> meter.read().energy_j
    1.5
    """

    def __init__(self, readings: Iterable[Reading]) -> None:
        self._readings = tuple(readings)
        self._next = 0

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file with one reading per line."""
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        return cls(_parse(line, f"{path} line {number}") for number, line in enumerate(lines, 1))

    def start(self) -> None:
        """Do nothing: the recording continues with its next reading."""

    def read(self) -> Reading:
        """Return the next reading of the recording."""
        if self._next == len(self._readings):
            raise DealError(f"the recording ends after {len(self._readings)} readings")
        self._next += 1
        return self._readings[self._next - 1]


def _parse(line: str, where: str) -> Reading:
    try:
        row = json.loads(line)
        charge = row["charge_uah"]
        charge_uah = None if charge is None else float(charge)
        source = Source(Kind(row["source"]), str(row["by"]))
        return Reading(float(row["energy_j"]), charge_uah, source)
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{where} is not a reading: {error!r}") from None


@dataclass(frozen=True, slots=True)
class _Sample:
    """One row of the file: the current and the power of all enabled channels together."""

    time_ms: float
    current_ma: float
    power_mw: float


class MonsoonMeter:
    """The charge and energy of a recording, over all enabled channels.

    A finished recording counts as a whole. One that is still being written (`live`) counts from
    the last sample before the start.
    """

    def __init__(
        self, path: str | Path, aux_voltage_v: float | None = None, *, live: bool = False
    ) -> None:
        self._path, self._live = Path(path), live
        self._start_ms = -math.inf
        self._aux_voltage_v = aux_voltage_v
        self._source = Source(Kind.MEASURED, f"Monsoon ({self._path.name})")

    def start(self) -> None:
        """Start at the last sample if the recording is live; else it has its own start."""
        if self._live:
            self._start_ms = max(sample.time_ms for sample in self._samples())

    def read(self) -> Reading:
        """Return the charge and energy since the start."""
        charge_uah = energy_j = 0.0
        samples = (one for one in self._samples() if one.time_ms >= self._start_ms)
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
            found = ",".join(header)[:80]
            expected = ",".join(_COLUMNS)
            raise self._bad(1, f"must name columns out of {expected}; it contains {found!r}")
        channels = [name for name in header if name in _VOLTAGE_OF]
        if not channels:
            raise self._bad(1, "has no current column: no channel was enabled")
        for channel in channels:
            if _VOLTAGE_OF[channel] not in header and not self._is_given(channel):
                raise self._bad(1, f"has {channel} without its voltage")

    def _is_given(self, channel: str) -> bool:
        return channel == "Aux(mA)" and self._aux_voltage_v is not None

    def _sample(self, header: list[str], cells: list[str], number: int) -> _Sample:
        try:
            values = {name: float(cell) for name, cell in zip(header, cells, strict=True)}
        except ValueError as error:
            raise self._bad(number, f"cannot be read: {error}") from None
        if not all(map(math.isfinite, values.values())):
            raise self._bad(number, f"contains a value that is not finite: {','.join(cells)[:80]}")
        currents = {name: value for name, value in values.items() if name in _VOLTAGE_OF}
        power_mw = sum(ma * self._voltage_v(values, name) for name, ma in currents.items())
        return _Sample(values[_TIME], sum(currents.values()), power_mw)

    def _voltage_v(self, values: dict[str, float], channel: str) -> float:
        column = _VOLTAGE_OF[channel]
        voltage_v = values[column] if column else self._aux_voltage_v
        assert voltage_v is not None  # the header was checked
        return voltage_v

    def _bad(self, line: int, what: str) -> BadInput:
        return BadInput(f"{self._path} line {line} {what}")
