"""Retention: the number of old examples that a worker evicts when it trains on new ones.

All policies evict in the same order: least recently used, then earliest, then smallest id.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

__all__ = ["Eviction", "KeepAll", "Newest", "Retention", "Theta"]


@dataclass(frozen=True, slots=True)
class Eviction:
    """The number of examples to evict now.

    Parameters
    ----------
    count : int
        Number of examples to evict.
    carry : Fraction
        Fraction of an example to add to the next eviction.
    """

    count: int
    carry: Fraction = Fraction(0)


class Retention(Protocol):
    """A policy for how many old examples to evict."""

    def evict(self, held: int, forget_fraction: Fraction, carry: Fraction) -> Eviction:
        """Return how many examples to evict.

        Parameters
        ----------
        held : int
            Number of examples learned before the new ones.
        forget_fraction : Fraction
            θ, the share of the held examples to evict in a training.
        carry : Fraction
            Carry of the previous eviction.

        Returns
        -------
        Eviction
            The number of examples to evict, and the new carry.
        """


class KeepAll:
    """Evict nothing, for any θ.

    Examples
    --------
    >>> KeepAll().evict(100, Fraction(1, 2), Fraction(0)).count
    0
    """

    def evict(self, held: int, forget_fraction: Fraction, carry: Fraction) -> Eviction:  # noqa: ARG002
        """Return an eviction of no examples.

        Parameters
        ----------
        held : int
            Number of examples learned before the new ones.
        forget_fraction : Fraction
            Ignored.
        carry : Fraction
            Ignored.

        Returns
        -------
        Eviction
            Always 0 examples.
        """
        return Eviction(0)


class Newest:
    """Evict all old examples, for any θ.

    Examples
    --------
    >>> Newest().evict(100, Fraction(0), Fraction(0)).count
    100
    """

    def evict(self, held: int, forget_fraction: Fraction, carry: Fraction) -> Eviction:  # noqa: ARG002
        """Return an eviction of all old examples.

        Parameters
        ----------
        held : int
            Number of examples learned before the new ones.
        forget_fraction : Fraction
            Ignored.
        carry : Fraction
            Ignored.

        Returns
        -------
        Eviction
            Always `held` examples.
        """
        return Eviction(held)


class Theta:
    """Evict ⌊θ·held + carry⌋ examples and carry the remainder over to the next training.

    Without the carry, rounding up would leave only one example on a worker that receives one
    example at a time.

    Examples
    --------
    >>> Theta().evict(30, Fraction("0.02"), Fraction(0))
    Eviction(count=0, carry=Fraction(3, 5))
    >>> Theta().evict(31, Fraction("0.02"), Fraction(3, 5))
    Eviction(count=1, carry=Fraction(11, 50))
    """

    def evict(self, held: int, forget_fraction: Fraction, carry: Fraction) -> Eviction:
        """Return the whole part of θ·held + carry, and the remainder as the new carry.

        Parameters
        ----------
        held : int
            Number of examples learned before the new ones.
        forget_fraction : Fraction
            θ, in [0, 1].
        carry : Fraction
            Carry of the previous eviction, in [0, 1).

        Returns
        -------
        Eviction
            At most `held` examples, and the new carry.
        """
        due = forget_fraction * held + carry
        whole, rest = divmod(due.numerator, due.denominator)
        return Eviction(min(whole, held), Fraction(rest, due.denominator))
