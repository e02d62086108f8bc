"""A meter that reads a model instead of hardware: simulated devices go through the same door."""

from collections.abc import Callable

from dealfl.errors import BadInput
from dealfl.power.meters.base import Kind, Reading, Source, charge_at

__all__ = ["ModelledMeter"]


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
