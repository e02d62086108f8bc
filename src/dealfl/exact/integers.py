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
from dealfl.exact.compiled import is_compiled

__all__ = ["WORD_BYTES", "Integers", "checked_sum"]

Int64s = NDArray[np.int64]

LOW_BITS = np.int64(32)
LOW_MASK = np.int64(0xFFFF_FFFF)
_TOO_LONG = "a sum of statistics does not fit its width"
_NO_HIGH = np.empty(0, dtype=np.int64)


def joined(low: Int64s, high: Int64s) -> Int64s:
    """Return high·2^32 + low, where low can be longer than 32 bits."""
    upper = high + (low >> LOW_BITS)
    if np.any(upper != upper.astype(np.int32)):
        raise OutOfBounds(_TOO_LONG)
    return (upper << LOW_BITS) | (low & LOW_MASK)


def checked_sum(first: Int64s, second: Int64s) -> Int64s:
    """Return sums of 64-bit integers.

    Parameters
    ----------
    first, second : ndarray of int64
        Integers to add.

    Returns
    -------
    ndarray of int64
        The sums; one that does not fit 64 bits is an error.
    """
    total = first + second
    overflow = first ^ total  # negative where both signs differ from that of the sum
    overflow &= second ^ total
    if overflow.min(initial=0) < 0:
        raise OutOfBounds(_TOO_LONG)
    return total


WORD_BYTES = 16  # size of a value as a two's complement integer


@dataclass(frozen=True, slots=True, eq=False)
class Integers:
    """A vector of exact integers of 64 bits, or wide ones of 96 bits.

    Parameters
    ----------
    low : ndarray of int64
        The values; of wide integers, the low 32 bits.
    high : ndarray of int64, optional
        The high bits of wide integers.

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
        values, wide
            The values, and whether they are wide.

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
        count, wide
            Number of values, and whether they are wide.

        Returns
        -------
        Integers
            The vector.
        """
        low = np.zeros(count, dtype=np.int64)
        return cls(low, np.zeros(count, dtype=np.int64) if wide else None)

    @classmethod
    def from_words(cls, words: NDArray[np.uint8], wide: bool) -> Integers:
        """Read integers that `words` wrote.

        Parameters
        ----------
        words, wide
            One row of `WORD_BYTES` bytes per value, and whether the values are wide.

        Returns
        -------
        Integers
            The vector.

        Raises
        ------
        OutOfBounds
            A value needs more than 64 bits, or 96 if wide.
        """
        halves = np.ascontiguousarray(words).view("<i8").reshape(-1, 2).astype(np.int64)
        first, second = halves[:, 0], halves[:, 1]
        if wide:
            upper = ((first >> LOW_BITS) & LOW_MASK) + (second << LOW_BITS)
            if np.any(second != upper >> LOW_BITS):
                raise OutOfBounds("a value needs more than 96 bits")
            return cls(first & LOW_MASK, upper)
        if np.any(second != first >> np.int64(63)):
            raise OutOfBounds("a value of a 64-bit array needs more than 64 bits")
        return cls(np.ascontiguousarray(first))

    def words(self) -> NDArray[np.uint8]:
        """Return the values as little-endian two's complement, one row of bytes per value.

        Examples
        --------
        >>> Integers.of([-2]).words().tolist() == [[254] + [255] * 15]
        True
        """
        halves = np.empty((len(self), 2), dtype="<i8")
        if self.high is None:
            halves[:, 0] = self.low
            halves[:, 1] = self.low >> np.int64(63)
        else:
            halves[:, 0] = self.low | (self.high << LOW_BITS)
            halves[:, 1] = self.high >> LOW_BITS
        return halves.view(np.uint8).reshape(-1, WORD_BYTES)

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, index: slice | Int64s) -> Integers:
        return Integers(self.low[index], None if self.high is None else self.high[index])

    def put(self, index: slice | Int64s, values: Integers) -> None:
        """Replace some values.

        Parameters
        ----------
        index, values
            Positions of the values, and the new ones.
        """
        self.low[index] = values.low
        if self.high is not None and values.high is not None:
            self.high[index] = values.high

    def __neg__(self) -> Integers:
        if self.high is None:
            if np.any(self.low == np.iinfo(np.int64).min):
                raise OutOfBounds("the negative of the smallest value does not fit its width")
            return Integers(-self.low)
        opposite = ~self.high  # -(h·2^32 + l) = ~h·2^32 + (2^32 - l)
        return _wide((1 << 32) - self.low, opposite & LOW_MASK, opposite >> LOW_BITS)

    def __add__(self, other: Integers) -> Integers:
        assert self.wide == other.wide, "values of one array have one width"
        if is_compiled(len(self)):
            return self._added(other)
        if self.high is None or other.high is None:
            return Integers(checked_sum(self.low, other.low))
        middle = (self.high & LOW_MASK) + (other.high & LOW_MASK)
        upper = (self.high >> LOW_BITS) + (other.high >> LOW_BITS)
        return _wide(self.low + other.low, middle, upper)

    def _added(self, other: Integers) -> Integers:
        from dealfl.exact.exact_loops import add_values

        total = unset(len(self), self.wide)
        if not add_values(*self.parts, *other.parts, *total.parts):
            raise OutOfBounds(_TOO_LONG)
        return total

    def __sub__(self, other: Integers) -> Integers:
        return self + -other

    @property
    def wide(self) -> bool:
        """Whether the values are wide, so can have more than 64 bits."""
        return self.high is not None

    @property
    def parts(self) -> tuple[Int64s, Int64s]:
        """Low and high parts as contiguous arrays, for compiled loops; no high part is empty."""
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
        held: Int64s = (self.low if self.high is None else self.low | self.high).nonzero()[0]
        return held

    def same(self, other: Integers) -> bool:
        """Return whether two vectors are equal.

        Parameters
        ----------
        other : Integers
            Vector to compare with.

        Returns
        -------
        bool
            True if width, values and order are equal.
        """
        pairs = zip(self.parts, other.parts, strict=True)
        return self.wide == other.wide and all(np.array_equal(one, two) for one, two in pairs)

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
        """Return the sums of consecutive runs of values.

        Parameters
        ----------
        starts : ndarray of int64
            Ascending positions at which the runs start.

        Returns
        -------
        Integers
            One sum per run; one that does not fit its width is an error.
        """
        low = np.add.reduceat(self.low & LOW_MASK, starts)
        if self.high is None:
            upper = np.add.reduceat(self.low >> LOW_BITS, starts)
            return Integers(joined(low, upper))
        middle = np.add.reduceat(self.high & LOW_MASK, starts)
        return _wide(low, middle, np.add.reduceat(self.high >> LOW_BITS, starts))


def _wide(low: Int64s, middle: Int64s, upper: Int64s) -> Integers:
    """Return upper·2^64 + middle·2^32 + low, where each can be longer than 32 bits."""
    return Integers(low & LOW_MASK, joined(middle + (low >> LOW_BITS), upper))


def unset(count: int, wide: bool) -> Integers:
    """Return a vector for a loop that sets all values."""
    low = np.empty(count, dtype=np.int64)
    return Integers(low, np.empty(count, dtype=np.int64) if wide else None)
