"""A fraction θ of the old is evicted; what rounding leaves is carried on."""

from fractions import Fraction

from dealfl.retention.base import Eviction

__all__ = ["Theta"]


class Theta:
    """Evicts ⌊θ·held + carry⌋ examples.

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
