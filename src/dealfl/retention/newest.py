"""Only what is new is kept."""

from fractions import Fraction

from dealfl.retention.base import Eviction

__all__ = ["Newest"]


class Newest:
    """Evicts everything that was there before, whatever θ is.

    >>> Newest().evict(100, Fraction(0), Fraction(0)).count
    100
    """

    def evict(self, held: int, forget_fraction: Fraction, carry: Fraction) -> Eviction:  # noqa: ARG002
        """Return that all of the old goes."""
        return Eviction(held)
