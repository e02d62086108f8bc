"""Arithmetic on arrays of 64-bit integers that detects overflow."""

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import OutOfBounds

__all__ = ["LOW_BITS", "LOW_MASK", "checked_negative", "checked_sum", "joined"]

Int64s = NDArray[np.int64]

LOW_BITS = np.int64(32)
LOW_MASK = np.int64(0xFFFF_FFFF)


def joined(low: Int64s, high: Int64s) -> Int64s:
    """Return high·2^32 + low, where low can be longer than 32 bits."""
    upper = high + (low >> LOW_BITS)
    if np.any(upper != upper.astype(np.int32)):
        raise OutOfBounds("a sum of statistics does not fit its width")
    return (upper << LOW_BITS) | (low & LOW_MASK)


def checked_negative(values: Int64s) -> Int64s:
    """Return the negatives, or raise `OutOfBounds` if one does not fit 64 bits."""
    if np.any(values == np.iinfo(np.int64).min):
        raise OutOfBounds("the negative of the smallest value does not fit its width")
    return -values


def checked_sum(first: Int64s, second: Int64s) -> Int64s:
    """Return the sums, or raise `OutOfBounds` if one does not fit 64 bits."""
    total = first + second
    overflow = first ^ total  # negative where both signs differ from that of the sum
    overflow &= second ^ total
    if overflow.min(initial=0) < 0:
        raise OutOfBounds("a sum of statistics does not fit its width")
    return total
