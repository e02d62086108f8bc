"""Vectors of exact signed integers.

Counts fit 64 bits. Sums of products of 30-bit numbers do not. They are *wide*: stored as
high·2^32 + low with 0 ≤ low < 2^32, so that numpy adds whole vectors at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import OutOfBounds
from dealfl.exact.compiled import twin

Int64s = NDArray[np.int64]

LOW_BITS = np.int64(32)
LOW_MASK = np.int64(0xFFFF_FFFF)
WORD_BYTES = 16  # size of a value as a two's complement integer
TOO_LONG = "a sum of statistics does not fit its width"
_MIN = np.iinfo(np.int64).min
_NO_HIGH = np.empty(0, dtype=np.int64)


@twin
def add_values(
    low: Int64s, high: Int64s, other_low: Int64s, other_high: Int64s, below: Int64s, above: Int64s
) -> bool:
    """Write the low and high parts of sums; return whether all sums fit their width."""
    np.add(low, other_low, out=below)
    if not len(high):
        return _fits(low, other_low, below)
    np.add(high, other_high, out=above)
    above += below >> LOW_BITS
    below &= LOW_MASK
    return _fits(high, other_high, above)


def _fits(first: Int64s, second: Int64s, total: Int64s) -> bool:
    """Return whether no sum overflowed: the sign of one differs from those of both addends."""
    overflow = first ^ total
    overflow &= second ^ total
    return bool(overflow.min(initial=0) >= 0)


@dataclass(frozen=True, slots=True, eq=False)
class Integers:
    """A vector of exact integers of 64 bits, or wide ones of 96 bits.

    Of wide integers, `low` has the low 32 bits and `high` the rest.

    Examples
    --------
    >>> (Integers.of([2**70, -1], wide=True) + Integers.of([1, 1], wide=True)).tolist()
    [1180591620717411303425, 0]
    """

    low: Int64s
    high: Int64s | None = None

    @classmethod
    def of(cls, values: Iterable[int], wide: bool = False) -> Integers:
        """Create a vector from Python integers.

        Parameters
        ----------
        values
            The integers.
        wide
            Whether they may need more than 64 bits.

        Returns
        -------
        Integers
            The vector.
        """
        if not wide:
            return cls(np.array(list(values), dtype=np.int64))
        parts = np.array([divmod(int(value), 1 << 32) for value in values], dtype=np.int64)
        high, low = parts.reshape(-1, 2).T
        return cls(low, high)

    @classmethod
    def zeros(cls, count: int, wide: bool) -> Integers:
        """Create a vector of zeros.

        Parameters
        ----------
        count
            Number of zeros.
        wide
            Whether values may need more than 64 bits.

        Returns
        -------
        Integers
            The vector.
        """
        low = np.zeros(count, dtype=np.int64)
        return cls(low, np.zeros(count, dtype=np.int64) if wide else None)

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, index: slice | Int64s) -> Integers:
        return Integers(self.low[index], None if self.high is None else self.high[index])

    def put(self, index: slice | Int64s, values: Integers) -> None:
        """Replace the values at some positions.

        Parameters
        ----------
        index
            The positions.
        values
            The new values.
        """
        self.low[index] = values.low
        if self.high is not None and values.high is not None:
            self.high[index] = values.high

    def __neg__(self) -> Integers:
        if self.high is None:
            if np.any(self.low == _MIN):
                raise OutOfBounds("the negative of the smallest value does not fit its width")
            return Integers(-self.low)
        carry = self.low == 0  # -(h·2^32 + l) = ~h·2^32 + (2^32 - l)
        if np.any(carry & (self.high == _MIN)):
            raise OutOfBounds(TOO_LONG)
        return Integers(-self.low & LOW_MASK, ~self.high + carry)

    def __add__(self, other: Integers) -> Integers:
        assert self.wide == other.wide, "values of one array have one width"
        total = unset(len(self), self.wide)
        if not add_values(*self.parts, *other.parts, *total.parts):
            raise OutOfBounds(TOO_LONG)
        return total

    def __sub__(self, other: Integers) -> Integers:
        return ~(~self + other)  # ~a is -1 - a, which always fits; -a may not

    def __invert__(self) -> Integers:
        if self.high is None:
            return Integers(~self.low)
        return Integers(~self.low & LOW_MASK, ~self.high)

    @property
    def wide(self) -> bool:
        """Whether the values are wide, so can have more than 64 bits."""
        return self.high is not None

    @property
    def parts(self) -> tuple[Int64s, Int64s]:
        """Low and high parts as contiguous arrays, for twins; no high part is empty."""
        high = _NO_HIGH if self.high is None else np.ascontiguousarray(self.high)
        return np.ascontiguousarray(self.low), high

    @property
    def nbytes(self) -> int:
        """Size in memory, in bytes."""
        return self.low.nbytes + (0 if self.high is None else self.high.nbytes)

    @property
    def negative(self) -> NDArray[np.bool_]:
        """Mask of the values below zero."""
        top = self.low if self.high is None else self.high
        return top < 0

    def nonzero(self) -> Int64s:
        """Return the ascending positions of the values that are not zero."""
        positions: Int64s = (self.low if self.high is None else self.low | self.high).nonzero()[0]
        return positions

    def same(self, other: Integers) -> bool:
        """Return whether width, values and order are equal.

        Parameters
        ----------
        other
            A vector to compare with.

        Returns
        -------
        bool
            Whether they are equal.
        """
        pairs = zip(self.parts, other.parts, strict=True)
        return self.wide == other.wide and all(np.array_equal(*pair) for pair in pairs)

    def to_float(self) -> NDArray[np.float64]:
        """Return the nearest floats, for all values with a magnitude up to 2^84."""
        if self.high is None:
            return self.low.astype(np.float64)
        return self.high.astype(np.float64) * float(1 << 32) + self.low.astype(np.float64)

    def tolist(self) -> list[int]:
        """Return the values as Python integers."""
        if self.high is None:
            return [int(value) for value in self.low]
        return [(int(h) << 32) + int(v) for h, v in zip(self.high, self.low, strict=True)]

    def sum_runs(self, starts: Int64s) -> Integers:
        """Return the sums of consecutive runs of values; a sum that does not fit is an error.

        Parameters
        ----------
        starts
            Where each run begins.

        Returns
        -------
        Integers
            One sum for each run.
        """
        low = np.add.reduceat(self.low & LOW_MASK, starts)
        if self.high is None:
            return Integers(_joined(low, np.add.reduceat(self.low >> LOW_BITS, starts)))
        middle = np.add.reduceat(self.high & LOW_MASK, starts) + (low >> LOW_BITS)
        upper = np.add.reduceat(self.high >> LOW_BITS, starts)
        return Integers(low & LOW_MASK, _joined(middle, upper))


def _joined(low: Int64s, high: Int64s) -> Int64s:
    """Return high·2^32 + low, where low can be longer than 32 bits."""
    upper = high + (low >> LOW_BITS)
    if np.any(upper != upper.astype(np.int32)):
        raise OutOfBounds(TOO_LONG)
    return (upper << LOW_BITS) | (low & LOW_MASK)


def to_words(low: Int64s, high: Int64s) -> NDArray[np.uint8]:
    """Return values as little-endian two's complement, one row of `WORD_BYTES` bytes per value.

    Examples
    --------
    >>> to_words(*Integers.of([-2]).parts).tolist() == [[254] + [255] * 15]
    True
    """
    halves = np.empty((len(low), 2), dtype="<i8")
    if len(high):
        halves[:, 0] = low | (high << LOW_BITS)
        halves[:, 1] = high >> LOW_BITS
    else:
        halves[:, 0] = low
        halves[:, 1] = low >> np.int64(63)
    return halves.view(np.uint8).reshape(-1, WORD_BYTES)


def unset(count: int, wide: bool) -> Integers:
    """Return a vector for a loop that sets all values."""
    low = np.empty(count, dtype=np.int64)
    return Integers(low, np.empty(count, dtype=np.int64) if wide else None)
