"""The protocol of meters and their readings, and a meter that reads a model."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from dealfl.errors import BadInput

__all__ = ["Kind", "Meter", "ModelledMeter", "Reading", "Source", "charge_at", "energy_at"]


_JOULES_PER_WATT_HOUR = 3600.0
_UAH_PER_AH = 1e6


class Kind(StrEnum):
    """Whether a figure is measured or modelled."""

    MEASURED = "measured"
    MODELLED = "modelled"


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a figure; it is shown with every figure.

    Parameters
    ----------
    kind : Kind
        Measured or modelled.
    by : str
        Name of the meter or model.

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
    """A reading of a meter: the energy since its start.

    Parameters
    ----------
    energy_j : float
        Energy, in joules.
    charge_uah : float or None
        Battery charge, in µAh; None if the meter does not know it.
    source : Source
        Kind and name of the meter.
    """

    energy_j: float
    charge_uah: float | None
    source: Source

    def as_dict(self) -> dict[str, object]:
        """Return the reading, for JSON.

        Returns
        -------
        dict
            JSON values by name.
        """
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
        """Return the energy since the start.

        Returns
        -------
        Reading
            Energy in joules, and charge in µAh if known.
        """


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


class ModelledMeter:
    """A meter that reads a model.

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
            raise BadInput(f"voltage_v is {voltage_v}; it must be a number above 0, such as 3.82")
        self._counted_j = energy_j
        self._source = Source(Kind.MODELLED, by)
        self._voltage_v = voltage_v
        self._started_j = 0.0

    def start(self) -> None:
        """Restart from zero."""
        self._started_j = self._counted_j()

    def read(self) -> Reading:
        """Return the modelled energy since the start."""
        energy_j = self._counted_j() - self._started_j
        charge_uah = None if self._voltage_v is None else charge_at(energy_j, self._voltage_v)
        return Reading(energy_j, charge_uah, self._source)
