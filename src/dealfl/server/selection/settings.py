"""Settings of the selectors, checked before they are used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

from dealfl.errors import BadInput

__all__ = ["OTHERS", "Fairness", "number"]

OTHERS = "*"


def number(
    key: str, value: object, least: float, most: float = math.inf, *, above: bool = False
) -> float:
    """Return a number between two others, or refuse it by its key; `above` leaves `least` out.

    >>> number("eta", 0, 0.0, above=True)
    Traceback (most recent call last):
    dealfl.errors.BadInput: eta=0: give a number above 0
    """
    if isinstance(value, Real) and not isinstance(value, bool):
        plain = float(value)
        if (plain > least if above else plain >= least) and plain <= most:
            return plain
    start = f"above {least:g}" if above else f"from {least:g}"
    end = f" to {most:g}" if math.isfinite(most) else "" if above else " on"
    raise BadInput(f"{key}={value!r}: give a number {start}{end}")


@dataclass(frozen=True, slots=True)
class Fairness:
    """The least fraction of rounds for each worker: one for all, or by name and "*" for others.

    >>> Fairness.of({"phone": 0.25, "*": 0.01}).rate("tablet")
    0.01
    """

    named: Mapping[str, float]
    others: float

    @classmethod
    def of(cls, value: float | Mapping[str, float]) -> Fairness:
        """Check what was given."""
        if not isinstance(value, Mapping):
            return cls({}, number("fairness", value, 0.0, 1.0))
        named = {name: number(f"fairness.{name}", one, 0.0, 1.0) for name, one in value.items()}
        return cls(named, named.pop(OTHERS, 0.0))

    def rate(self, name: str) -> float:
        """Return a worker's fraction."""
        return self.named.get(name, self.others)
