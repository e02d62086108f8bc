"""What every meter is: started before some work, and read to know what that work took."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

__all__ = ["JOULES_PER_WATT_HOUR", "Kind", "Meter", "Reading", "Source", "charge_at", "energy_at"]

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
