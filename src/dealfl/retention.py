"""Which examples a worker keeps: how many of the old ones go when it trains on new ones.

Which ones go is the same for all: the least recently used, then the earliest, then the smallest id.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

__all__ = ["Eviction", "KeepAll", "Newest", "Retention", "Theta"]


@dataclass(frozen=True, slots=True)
class Eviction:
    """How many examples go now, and the fraction of one that is carried over."""

    count: int
    carry: Fraction = Fraction(0)


class Retention(Protocol):
    """Decides how much of the old is evicted."""

    def evict(self, held: int, forget_fraction: Fraction, carry: Fraction) -> Eviction:
        """Return the eviction of a worker that held this many examples before the new ones."""


class KeepAll:
    """Evicts nothing, whatever θ is.

    >>> KeepAll().evict(100, Fraction(1, 2), Fraction(0)).count
    0
    """

    def evict(self, held: int, forget_fraction: Fraction, carry: Fraction) -> Eviction:  # noqa: ARG002
        """Return that nothing goes."""
        return Eviction(0)


class Newest:
    """Evicts everything that was there before, whatever θ is.

    >>> Newest().evict(100, Fraction(0), Fraction(0)).count
    100
    """

    def evict(self, held: int, forget_fraction: Fraction, carry: Fraction) -> Eviction:  # noqa: ARG002
        """Return that all of the old goes."""
        return Eviction(held)


class Theta:
    """Evicts ⌊θ·held + carry⌋ examples; the remainder is carried over to the next training.

    Rounding up instead would leave a worker that gets one example at a time with just one.

    >>> Theta().evict(30, Fraction("0.02"), Fraction(0))
    Eviction(count=0, carry=Fraction(3, 5))
    >>> Theta().evict(31, Fraction("0.02"), Fraction(3, 5))
    Eviction(count=1, carry=Fraction(11, 50))
    """

    def evict(self, held: int, forget_fraction: Fraction, carry: Fraction) -> Eviction:
        """Return the whole part of θ·held + carry, and the rest as the new carry."""
        due = forget_fraction * held + carry
        count = min(int(due), held)
        return Eviction(count, due - int(due))
