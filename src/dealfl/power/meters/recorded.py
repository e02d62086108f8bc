"""A meter that replays what another one read: tests and replays need no hardware."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from dealfl.errors import BadInput, DealError
from dealfl.power.meters.base import Kind, Reading, Source

__all__ = ["RecordedMeter"]


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
