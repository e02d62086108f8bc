"""The protocol: how many of the old examples go when a worker trains on new ones.

Which ones go is the same for all: the least recently used, then the earliest, then the smallest id.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

__all__ = ["Eviction", "Retention"]


@dataclass(frozen=True, slots=True)
class Eviction:
    """How many examples go now, and the fraction of one that is carried on."""

    count: int
    carry: Fraction = Fraction(0)


class Retention(Protocol):
    """Decides how much of the old is evicted."""

    def evict(self, held: int, forget_fraction: Fraction, carry: Fraction) -> Eviction:
        """Return the eviction of a worker that held so many examples before the new ones."""
