"""The canonical form of an array of integers: its non-zero values, by ascending index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from dealfl.errors import OutOfBounds
from dealfl.exact.compiled import twin
from dealfl.exact.integers import TOO_LONG, Int64s, Integers, unset

_MAX_SPREAD = 8  # cells per entry up to which entries are added as whole arrays


class ArraySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Name, size and width of one array of integers."""

    name: str
    size: int
    bits: int = 64

    @property
    def wide(self) -> bool:
        """Whether a value can need more than 64 bits."""
        return self.bits > 64

    def require_fit(self, values: Integers) -> None:
        """Check that values fit the width of a 32-bit array; wider vectors check themselves.

        Parameters
        ----------
        values
            Values for the array.
        """
        if self.bits == 32 and np.any(values.low != values.low.astype(np.int32)):
            raise OutOfBounds(f"a count in array {self.name!r} does not fit 32 bits")


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """The non-zero values of an array of integers, by ascending index: its canonical form.

    Examples
    --------
    >>> both = Entries.of({3: 5, 1: 2}) + Entries.of({3: -5})
    >>> both.to_dict()
    {1: 2}
    """

    indices: Int64s
    values: Integers

    @classmethod
    def of(cls, pairs: dict[int, int], wide: bool = False) -> Entries:
        """Create entries from a dict of values by index; zeros are left out.

        Parameters
        ----------
        pairs
            Values by index.
        wide
            Whether values may need more than 64 bits.

        Returns
        -------
        Entries
            The entries.
        """
        kept = sorted((index, value) for index, value in pairs.items() if value)
        indices = np.array([index for index, _ in kept], dtype=np.int64)
        return cls(indices, Integers.of((value for _, value in kept), wide))

    @classmethod
    def of_dense(cls, values: Integers, first: int = 0) -> Entries:
        """Return the non-zeros of consecutive values, of which the first has index `first`.

        The values are not copied if none of them is zero.

        Parameters
        ----------
        values
            Consecutive values.
        first
            Index of the first value.

        Returns
        -------
        Entries
            The entries.
        """
        count = count_nonzero(*values.parts)
        if count == len(values):
            whole = Integers(values.low.astype(np.int64, copy=False), values.high)
            return cls(np.arange(first, first + count), whole)
        indices = np.empty(count, dtype=np.int64)
        kept = unset(count, values.wide)
        take_nonzero(*values.parts, first, indices, *kept.parts)
        return cls(indices, kept)

    @classmethod
    def summed(cls, indices: Int64s, values: Integers) -> Entries:
        """Return the entries of indices in any order; values of equal indices are added.

        Parameters
        ----------
        indices
            Indices in any order.
        values
            The value of each index.

        Returns
        -------
        Entries
            The entries.
        """
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
        """Return the sum of one or more entries of the same width.

        Parameters
        ----------
        parts
            Entries of the same width.

        Returns
        -------
        Entries
            Their sum.
        """
        together = cls.chained(parts, parts[0].values.wide)
        return cls.summed(together.indices, together.values)

    @classmethod
    def chained(cls, parts: Sequence[Entries], wide: bool) -> Entries:
        """Return the entries of consecutive ranges of an array as one.

        Parameters
        ----------
        parts
            Entries of consecutive ranges.
        wide
            Whether values may need more than 64 bits.

        Returns
        -------
        Entries
            The entries of all ranges.
        """
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.of({}, wide)
        high = [part.values.high for part in parts if part.values.high is not None]
        low = np.concatenate([part.values.low for part in parts])
        values = Integers(low, np.concatenate(high) if wide else None)
        return cls(np.concatenate([part.indices for part in parts]), values)

    def between(self, start: int, stop: int) -> Entries:
        """Return the entries with start ≤ index < stop, not copied.

        Parameters
        ----------
        start
            First index.
        stop
            Index after the last.

        Returns
        -------
        Entries
            These entries.
        """
        if not len(self) or (start <= self.indices[0] and self.indices[-1] < stop):
            return self
        part = slice(*np.searchsorted(self.indices, [start, stop]))
        return Entries(self.indices[part], self.values[part])

    def __len__(self) -> int:
        return len(self.indices)

    def __neg__(self) -> Entries:
        return Entries(self.indices, -self.values)

    def __add__(self, other: Entries) -> Entries:
        if not (len(self) and len(other)):
            return self if len(self) else other
        count = min(len(self) + len(other), _range_of(self, other)[1])
        indices = np.empty(count, dtype=np.int64)
        total = unset(count, self.values.wide)
        ours = self.indices, *self.values.parts
        theirs = other.indices, *other.values.parts
        kept = add_sorted(*ours, *theirs, indices, *total.parts)
        if kept < 0:
            raise OutOfBounds(TOO_LONG)
        return Entries(indices[:kept], total[:kept])

    def _spread(self, start: int, cells: int) -> Integers:
        """Return all values of a range of cells that includes every entry."""
        return Entries(self.indices - start, self.values).dense(cells)

    @property
    def span(self) -> Int64s | slice:
        """The indices, as a slice if they have no gaps: arrays in memory read it faster."""
        if not len(self):
            return self.indices
        whole = slice(int(self.indices[0]), int(self.indices[-1]) + 1)
        return whole if whole.stop - whole.start == len(self) else self.indices

    @property
    def nbytes(self) -> int:
        """Size in memory, in bytes."""
        return self.indices.nbytes + self.values.nbytes

    def same(self, other: Entries) -> bool:
        """Return whether indices and values are equal.

        Parameters
        ----------
        other
            Entries to compare with.

        Returns
        -------
        bool
            Whether they are equal.
        """
        return np.array_equal(self.indices, other.indices) and self.values.same(other.values)

    def to_dict(self) -> dict[int, int]:
        """Return the values by index, as a dict."""
        return dict(zip(self.indices.tolist(), self.values.tolist(), strict=True))

    def dense(self, size: int) -> Integers:
        """Return all `size` values of the array, not copied if none of them is zero.

        Parameters
        ----------
        size
            Number of values of the array.

        Returns
        -------
        Integers
            All values, zeros included.
        """
        if len(self) == size:
            return self.values
        whole = Integers.zeros(size, self.values.wide)
        whole.put(self.indices, self.values)
        return whole


@twin
def count_nonzero(low: NDArray[np.integer], high: Int64s) -> int:
    """Return how many values are not zero."""
    return int(np.count_nonzero(low | high if len(high) else low))


@twin
def take_nonzero(
    low: NDArray[np.integer],
    high: Int64s,
    first: int,
    indices: Int64s,
    kept_low: Int64s,
    kept_high: Int64s,
) -> None:
    """Write indices and parts of the values that are not zero; indices start at `first`."""
    positions = np.flatnonzero(low | high if len(high) else low)
    indices[:] = positions + first
    kept_low[:] = low[positions]
    if len(high):
        kept_high[:] = high[positions]


@twin
def add_sorted(
    first: Int64s,
    first_low: Int64s,
    first_high: Int64s,
    second: Int64s,
    second_low: Int64s,
    second_high: Int64s,
    indices: Int64s,
    low: Int64s,
    high: Int64s,
) -> int:
    """Write indices and parts of the sum of two entries; return their number, -1 if one is long."""
    wide = len(high) > 0
    ours = Entries(first, Integers(first_low, first_high if wide else None))
    theirs = Entries(second, Integers(second_low, second_high if wide else None))
    start, cells = _range_of(ours, theirs)
    try:
        if cells > _MAX_SPREAD * (len(ours) + len(theirs)):
            total = Entries.joined([ours, theirs])
        else:
            total = Entries.of_dense(
                ours._spread(start, cells) + theirs._spread(start, cells), start
            )
    except OutOfBounds:
        return -1
    count = len(total)
    indices[:count] = total.indices
    Integers(low, high if wide else None).put(slice(count), total.values)
    return count


def _range_of(ours: Entries, theirs: Entries) -> tuple[int, int]:
    """Return the first index of two entries, and the number of cells up to the last one."""
    start = min(ours.indices[0], theirs.indices[0])
    return int(start), int(max(ours.indices[-1], theirs.indices[-1]) - start) + 1
