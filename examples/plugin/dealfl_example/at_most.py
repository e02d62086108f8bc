"""A worker holds at most so many old examples."""

from fractions import Fraction

from dealfl.retention import Eviction

__all__ = ["AtMost"]

_MOST = 8


class AtMost:
    """Evicts what is more than eight, whatever θ is.

    >>> AtMost().evict(11, Fraction(0), Fraction(0)).count
    3
    """

    def evict(self, held: int, forget_fraction: Fraction, carry: Fraction) -> Eviction:  # noqa: ARG002
        """Return what is too much."""
        return Eviction(max(held - _MOST, 0))
