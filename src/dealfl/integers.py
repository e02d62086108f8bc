"""Vectors of exact signed integers, and their sparse canonical form.

Counts fit 64 bits. Sums of products of 30-bit numbers do not: they are *wide*, kept as
high·2^32 + low with 0 ≤ low < 2^32, which numpy can add a whole vector at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import OutOfBounds

__all__ = ["WORD_BYTES", "Entries", "Integers"]

Int64s = NDArray[np.int64]

WORD_BYTES = 16  # every value can be written as a two's complement integer of this size
_LOW_BITS = np.int64(32)
_LOW_MASK = np.int64(0xFFFF_FFFF)


@dataclass(frozen=True, slots=True, eq=False)
class Integers:
    """A vector of exact integers, 64 bits each or wide (96 bits).

    >>> (Integers.wide_of([2**70, -1]) + Integers.wide_of([1, 1])).tolist()
    [1180591620717411303425, 0]
    """

    low: Int64s
    high: Int64s | None = None

    @classmethod
    def of(cls, values: Iterable[int]) -> Integers:
        """Return a vector of 64-bit integers."""
        return cls(np.array(list(values), dtype=np.int64))

    @classmethod
    def wide_of(cls, values: Iterable[int]) -> Integers:
        """Return a vector of wide integers."""
        parts = [divmod(int(value), 1 << 32) for value in values]
        high = np.array([part[0] for part in parts], dtype=np.int64)
        return cls(np.array([part[1] for part in parts], dtype=np.int64), high)

    @classmethod
    def zeros(cls, count: int, wide: bool) -> Integers:
        """Return `count` zeros."""
        low = np.zeros(count, dtype=np.int64)
        return cls(low, np.zeros(count, dtype=np.int64) if wide else None)

    @classmethod
    def from_words(cls, words: NDArray[np.uint8], wide: bool) -> Integers:
        """Return the integers written in `words`, one row of WORD_BYTES each."""
        halves = np.ascontiguousarray(words).view("<i8").reshape(-1, 2).astype(np.int64)
        first, second = halves[:, 0], halves[:, 1]
        if wide:
            upper = ((first >> _LOW_BITS) & _LOW_MASK) + (second << _LOW_BITS)
            if np.any(second != upper >> _LOW_BITS):
                raise OutOfBounds("a value of more than 96 bits")
            return cls(first & _LOW_MASK, upper)
        if np.any(second != first >> np.int64(63)):
            raise OutOfBounds("a value of more than 64 bits in a 64-bit array")
        return cls(np.ascontiguousarray(first))

    def words(self) -> NDArray[np.uint8]:
        """Return one row of WORD_BYTES for each value: little-endian two's complement.

        >>> Integers.of([-2]).words().tolist() == [[254] + [255] * 15]
        True
        """
        halves = np.empty((len(self), 2), dtype="<i8")
        if self.high is None:
            halves[:, 0] = self.low
            halves[:, 1] = self.low >> np.int64(63)
        else:
            halves[:, 0] = self.low | (self.high << _LOW_BITS)
            halves[:, 1] = self.high >> _LOW_BITS
        return halves.view(np.uint8).reshape(-1, WORD_BYTES)

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, index: slice | Int64s) -> Integers:
        return Integers(self.low[index], None if self.high is None else self.high[index])

    def __neg__(self) -> Integers:
        if self.high is None:
            return Integers(_checked_negative(self.low))
        opposite = ~self.high  # -(h·2^32 + l) = ~h·2^32 + (2^32 - l)
        return _wide((1 << 32) - self.low, opposite & _LOW_MASK, opposite >> _LOW_BITS)

    def __add__(self, other: Integers) -> Integers:
        assert self.wide == other.wide, "values of one array have one width"
        if self.high is None or other.high is None:
            return Integers(_checked_sum(self.low, other.low))
        middle = (self.high & _LOW_MASK) + (other.high & _LOW_MASK)
        upper = (self.high >> _LOW_BITS) + (other.high >> _LOW_BITS)
        return _wide(self.low + other.low, middle, upper)

    def __sub__(self, other: Integers) -> Integers:
        return self + -other

    @property
    def wide(self) -> bool:
        """Whether the values may have more than 64 bits."""
        return self.high is not None

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.low.nbytes + (0 if self.high is None else self.high.nbytes)

    @property
    def negative(self) -> NDArray[np.bool_]:
        """Where the values are below zero."""
        top = self.low if self.high is None else self.high
        return top < 0

    def nonzero(self) -> Int64s:
        """Return the positions of the values that are not zero."""
        if self.high is None:
            return np.flatnonzero(self.low)
        return np.flatnonzero(self.low | self.high)

    def exceeds(self, limit: int) -> NDArray[np.bool_]:
        """Return where the values are above `limit`, an integer of any size."""
        if self.high is None:
            return self.low > min(limit, np.iinfo(np.int64).max)
        high, low = divmod(limit, 1 << 32)
        above: NDArray[np.bool_] = (self.high > high) | ((self.high == high) & (self.low > low))
        return above

    def same(self, other: Integers) -> bool:
        """Whether both hold the same values in the same order."""
        if not np.array_equal(self.low, other.low):
            return False
        if self.high is None or other.high is None:
            return self.high is other.high
        return np.array_equal(self.high, other.high)

    def to_float(self) -> NDArray[np.float64]:
        """Return floats: the nearest ones for all values up to 2^84 in size."""
        if self.high is None:
            return self.low.astype(np.float64)
        return self.high.astype(np.float64) * float(1 << 32) + self.low.astype(np.float64)

    def tolist(self) -> list[int]:
        """Return Python integers."""
        if self.high is None:
            return [int(value) for value in self.low]
        return [(int(h) << 32) + int(v) for h, v in zip(self.high, self.low, strict=True)]

    def sum_runs(self, starts: Int64s) -> Integers:
        """Return the sums of the runs that begin at `starts`."""
        low = np.add.reduceat(self.low & _LOW_MASK, starts)
        if self.high is None:
            upper = np.add.reduceat(self.low >> _LOW_BITS, starts)
            return Integers(_joined(low, upper))
        middle = np.add.reduceat(self.high & _LOW_MASK, starts)
        return _wide(low, middle, np.add.reduceat(self.high >> _LOW_BITS, starts))


def _wide(low: Int64s, middle: Int64s, upper: Int64s) -> Integers:
    """Return upper·2^64 + middle·2^32 + low, where each may be longer than 32 bits."""
    return Integers(low & _LOW_MASK, _joined(middle + (low >> _LOW_BITS), upper))


def _joined(low: Int64s, high: Int64s) -> Int64s:
    """Return high·2^32 + low, where low may be longer than 32 bits."""
    upper = high + (low >> _LOW_BITS)
    if np.any(upper != upper.astype(np.int32)):
        raise OutOfBounds("a sum of statistics does not fit its width")
    return (upper << _LOW_BITS) | (low & _LOW_MASK)


def _checked_negative(values: Int64s) -> Int64s:
    if np.any(values == np.iinfo(np.int64).min):
        raise OutOfBounds("the negative of the least value does not fit its width")
    return -values


def _checked_sum(first: Int64s, second: Int64s) -> Int64s:
    total = first + second
    overflow = first ^ total  # negative where both signs differ from that of the sum
    overflow &= second ^ total
    if overflow.min(initial=0) < 0:
        raise OutOfBounds("a sum of statistics does not fit its width")
    return total


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """The non-zero values of an array of integers, by ascending index: its canonical form.

    >>> both = Entries.of({3: 5, 1: 2}) + Entries.of({3: -5})
    >>> both.to_dict()
    {1: 2}
    """

    indices: Int64s
    values: Integers

    @classmethod
    def of(cls, pairs: dict[int, int], wide: bool = False) -> Entries:
        """Return the entries of a dict from index to value."""
        kept = sorted((index, value) for index, value in pairs.items() if value)
        make = Integers.wide_of if wide else Integers.of
        indices = np.array([index for index, _ in kept], dtype=np.int64)
        return cls(indices, make(value for _, value in kept))

    @classmethod
    def of_dense(cls, values: Integers, first: int = 0) -> Entries:
        """Return the non-zeros of a whole array, or of the part that begins at `first`."""
        where = values.nonzero()
        if len(where) == len(values):
            return cls(where + first, values)
        return cls(where + first, values[where])

    @classmethod
    def summed(cls, indices: Int64s, values: Integers) -> Entries:
        """Return the entries of indices in any order; values of equal indices are added."""
        if not len(indices):
            return cls(indices, values)
        order = np.argsort(indices, kind="stable")
        ordered = indices[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        totals = values[order].sum_runs(starts)
        kept = totals.nonzero()
        return cls(ordered[starts][kept], totals[kept])

    @classmethod
    def joined(cls, parts: Sequence[Entries]) -> Entries:
        """Return the sum of several parts."""
        wide = parts[0].values.wide
        indices = np.concatenate([part.indices for part in parts])
        low = np.concatenate([part.values.low for part in parts])
        high = [part.values.high for part in parts if part.values.high is not None]
        return cls.summed(indices, Integers(low, np.concatenate(high) if wide else None))

    def __len__(self) -> int:
        return len(self.indices)

    def __neg__(self) -> Entries:
        return Entries(self.indices, -self.values)

    def __add__(self, other: Entries) -> Entries:
        if np.array_equal(self.indices, other.indices):
            total = self.values + other.values
            kept = total.nonzero()
            return Entries(self.indices[kept], total[kept])
        return Entries.joined([self, other])

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.indices.nbytes + self.values.nbytes

    def same(self, other: Entries) -> bool:
        """Whether both hold the same values at the same indices."""
        return np.array_equal(self.indices, other.indices) and self.values.same(other.values)

    def to_dict(self) -> dict[int, int]:
        """Return a dict from index to value."""
        return dict(zip(self.indices.tolist(), self.values.tolist(), strict=True))

    def dense(self, size: int) -> Integers:
        """Return all `size` values, zeros included."""
        whole = Integers.zeros(size, self.values.wide)
        whole.low[self.indices] = self.values.low
        if whole.high is not None and self.values.high is not None:
            whole.high[self.indices] = self.values.high
        return whole
