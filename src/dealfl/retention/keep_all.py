"""Everything is kept."""

from fractions import Fraction

from dealfl.retention.base import Eviction

__all__ = ["KeepAll"]


class KeepAll:
    """Evicts nothing, whatever θ is.

    >>> KeepAll().evict(100, Fraction(1, 2), Fraction(0)).count
    0
    """

    def evict(self, held: int, forget_fraction: Fraction, carry: Fraction) -> Eviction:  # noqa: ARG002
        """Return that nothing goes."""
        return Eviction(0)
