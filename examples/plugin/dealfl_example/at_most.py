"""A retention: a worker keeps at most eight old examples."""

from fractions import Fraction

from dealfl.plugins import Eviction

__all__ = ["AtMost"]

_MOST = 8


class AtMost:
    """Keeps at most eight old examples, for any θ.

    >>> AtMost().evict(11, Fraction(0), Fraction(0)).count
    3
    """

    def evict(self, held: int, forget_fraction: Fraction, carry: Fraction) -> Eviction:  # noqa: ARG002
        """Return the number of examples above the limit."""
        return Eviction(max(held - _MOST, 0))
