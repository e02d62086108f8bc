"""What a meter is: started before some work, and read to know what that work took.

Two need no hardware: one reads a model, one replays what another meter read.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol, Self

from dealfl.errors import BadInput, DealError

__all__ = [
    "JOULES_PER_WATT_HOUR",
    "Kind",
    "Meter",
    "ModelledMeter",
    "Reading",
    "RecordedMeter",
    "Source",
    "charge_at",
    "energy_at",
]


JOULES_PER_WATT_HOUR = 3600.0
_UAH_PER_AH = 1e6


class Kind(StrEnum):
    """Whether a figure was measured or comes from a model."""

    MEASURED = "measured"
    MODELLED = "modelled"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a figure comes from: no figure is shown without it.

    >>> print(Source(Kind.MEASURED, "RAPL"))
    measured by RAPL
    """

    kind: Kind
    by: str

    def __str__(self) -> str:
        return f"{self.kind} by {self.by}"


@dataclass(frozen=True, slots=True)
class Reading:
    """The energy taken since a meter was started; the charge only where a battery gave it."""

    energy_j: float
    charge_uah: float | None
    source: Source

    def as_dict(self) -> dict[str, object]:
        """Return all of it for a JSON file."""
        return {
            "energy_j": self.energy_j,
            "charge_uah": self.charge_uah,
            "source": self.source.kind.value,
            "by": self.source.by,
        }


class Meter(Protocol):
    """Start it, work, read it; read it again to know what was taken since the same start."""

    def start(self) -> None:
        """Begin anew from zero."""

    def read(self) -> Reading:
        """Return what was taken since the start."""


def energy_at(charge_uah: float, voltage_v: float) -> float:
    """Return the joules of a charge.

    >>> energy_at(charge_uah=1000.0, voltage_v=4.0)
    14.4
    """
    return charge_uah / _UAH_PER_AH * voltage_v * JOULES_PER_WATT_HOUR


def charge_at(energy_j: float, voltage_v: float) -> float:
    """Return the µAh of an energy.

    >>> charge_at(energy_j=14.4, voltage_v=4.0)
    1000.0
    """
    return energy_j / JOULES_PER_WATT_HOUR / voltage_v * _UAH_PER_AH


class ModelledMeter:
    """Joules that a callable has counted so far; µAh if the battery's voltage is known.

    Examples
    --------
    >>> counted = iter([10.0, 24.4])
    >>> meter = ModelledMeter(lambda: next(counted), by="the Honor's profile", voltage_v=4.0)
    >>> meter.start()
    >>> reading = meter.read()
    >>> round(reading.energy_j, 6), round(reading.charge_uah, 6), str(reading.source)
    (14.4, 1000.0, "modelled by the Honor's profile")
    """

    def __init__(
        self, energy_j: Callable[[], float], by: str, voltage_v: float | None = None
    ) -> None:
        if voltage_v is not None and not voltage_v > 0.0:
            raise BadInput(f"voltage_v={voltage_v}: give a number above 0, such as 3.82")
        self._counted_j = energy_j
        self._source = Source(Kind.MODELLED, by)
        self._voltage_v = voltage_v
        self._started_j = 0.0

    def start(self) -> None:
        """Begin anew from zero."""
        self._started_j = self._counted_j()

    def read(self) -> Reading:
        """Return what the model counted since the start."""
        energy_j = self._counted_j() - self._started_j
        charge_uah = None if self._voltage_v is None else charge_at(energy_j, self._voltage_v)
        return Reading(energy_j, charge_uah, self._source)


class RecordedMeter:
    """Readings in the order they were made, with the source they had then.

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
        """Read a file with one reading a line, each a JSON object as `Reading.as_dict` makes it."""
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        return cls(_parsed(line, f"{path} line {number}") for number, line in enumerate(lines, 1))

    def start(self) -> None:
        """Go on: the readings were made after one start or after many."""

    def read(self) -> Reading:
        """Return the next reading of the record."""
        if self._next == len(self._readings):
            raise DealError(f"the record ends after {len(self._readings)} readings")
        self._next += 1
        return self._readings[self._next - 1]


def _parsed(line: str, where: str) -> Reading:
    try:
        row = json.loads(line)
        charge = row["charge_uah"]
        charge_uah = None if charge is None else float(charge)
        source = Source(Kind(row["source"]), str(row["by"]))
        return Reading(float(row["energy_j"]), charge_uah, source)
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{where} is no reading: {error!r}") from None
