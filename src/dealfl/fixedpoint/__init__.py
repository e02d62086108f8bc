"""Real numbers on a fixed grid: the step from floats to exact integers.

A feature with bound b is multiplied by 2^(fraction_bits − ⌈log2 b⌉) and rounded half to even. The
multiplication is exact, so the same value gives the same integer on every machine.
"""

from dealfl.fixedpoint.grid import FixedPoint, bounds_from, exponents_of
from dealfl.fixedpoint.numbers import require_finite

__all__ = ["FixedPoint", "bounds_from", "exponents_of", "require_finite"]
