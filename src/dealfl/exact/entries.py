"""The canonical form of an array of integers: its non-zero values, by ascending index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import OutOfBounds
from dealfl.exact.compiled import is_compiled
from dealfl.exact.integers import Integers, unset

__all__ = ["Entries"]

Int64s = NDArray[np.int64]
_FEW = 8  # cells per entry from which on zeros are skipped
_MAX_SPREAD = 8  # cells per entry up to which entries are added as whole arrays


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """The non-zero values of an array of integers, by ascending index: its canonical form.

    Parameters
    ----------
    indices : ndarray of int64
        Ascending indices.
    values : Integers
        One non-zero value per index.

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
        """Create entries from a dict.

        Parameters
        ----------
        pairs : dict of int to int
            Values by index, in any order; zeros are left out.
        wide : bool, default False
            Whether the values are wide.

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
        """Return the non-zero values of a whole array or of a part of it.

        Parameters
        ----------
        values : Integers
            Consecutive values of the array.
        first : int, default 0
            Index of the first value.

        Returns
        -------
        Entries
            The entries.
        """
        if is_compiled(len(values) >> 4):  # numpy needs little time for a zero
            return cls._compressed(values, first)
        where = values.nonzero()
        indices = where + first if first else where
        kept = values if len(where) == len(values) else values[where]
        return cls(indices, Integers(kept.low.astype(np.int64, copy=False), kept.high))

    @classmethod
    def _compressed(cls, values: Integers, first: int) -> Entries:
        from dealfl.exact.exact_loops import count_nonzero, take_few, take_nonzero

        count, (low, high) = count_nonzero(*values.parts), values.parts
        if count == len(values):
            whole = Integers(low.astype(np.int64, copy=False), values.high)
            return cls(np.arange(first, first + count), whole)
        indices, kept = np.empty(count, dtype=np.int64), unset(count, values.wide)
        if not values.wide and _FEW * count < len(low) and low.ctypes.data % 8 == 0:
            cells = len(low) - len(low) % (64 // low.itemsize)
            take_few(low, low[:cells].view(np.int64), first, indices, kept.low)
        else:
            take_nonzero(low, high, first, indices, *kept.parts)
        return cls(indices, kept)

    @classmethod
    def summed(cls, indices: Int64s, values: Integers) -> Entries:
        """Return the entries of indices in any order; values of equal indices are added.

        Parameters
        ----------
        indices : ndarray of int64
            Indices, in any order.
        values : Integers
            One value per index.

        Returns
        -------
        Entries
            The entries.

        Raises
        ------
        OutOfBounds
            A sum does not fit its width.
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
        """Return the sum of several entries.

        Parameters
        ----------
        parts : sequence of Entries
            At least one; all of the same width.

        Returns
        -------
        Entries
            The sum.

        Raises
        ------
        OutOfBounds
            A sum does not fit its width.
        """
        together = cls.chained(parts, parts[0].values.wide)
        return cls.summed(together.indices, together.values)

    @classmethod
    def chained(cls, parts: Sequence[Entries], wide: bool) -> Entries:
        """Return the entries of consecutive ranges of an array as one.

        Parameters
        ----------
        parts : sequence of Entries
            Entries, in the order of their ranges.
        wide : bool
            Whether the values are wide.

        Returns
        -------
        Entries
            All of them.
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
        """Return the entries of a range of indices.

        Parameters
        ----------
        start, stop : int
            First index of the range, and the index after the last one.

        Returns
        -------
        Entries
            Those with start ≤ index < stop; not a copy.
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
        if is_compiled(len(self) + len(other)):
            return self._merged(other)
        if np.array_equal(self.indices, other.indices):
            total = self.values + other.values
            kept = total.nonzero()
            return Entries(self.indices[kept], total[kept])
        ends = [int(one.indices[end]) for one in (self, other) if len(one) for end in (0, -1)]
        start, stop = min(ends), max(ends) + 1
        if stop - start > _MAX_SPREAD * (len(self) + len(other)):
            return Entries.joined([self, other])
        return Entries.of_dense(self._span(start, stop) + other._span(start, stop), start)

    def _span(self, start: int, stop: int) -> Integers:
        """Return all values of a range of indices that includes every entry."""
        return Entries(self.indices - start, self.values).dense(stop - start)

    def _merged(self, other: Entries) -> Entries:
        from dealfl.exact.exact_loops import add_sorted

        count = len(self) + len(other)
        if len(self) and len(other):  # not more than there are cells
            first = min(self.indices[0], other.indices[0])
            count = min(count, int(max(self.indices[-1], other.indices[-1]) - first) + 1)
        indices, total = np.empty(count, np.int64), unset(count, self.values.wide)
        ours, theirs = self.values.parts, other.values.parts
        kept = add_sorted(self.indices, *ours, other.indices, *theirs, indices, *total.parts)
        if kept < 0:
            raise OutOfBounds("a sum of statistics does not fit its width")
        return Entries(indices[:kept], total[:kept])

    @property
    def place(self) -> Any:  # noqa: ANN401 - an array or a slice
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
        """Return whether two entries are equal.

        Parameters
        ----------
        other : Entries
            Entries to compare with.

        Returns
        -------
        bool
            True if indices and values are equal.
        """
        return np.array_equal(self.indices, other.indices) and self.values.same(other.values)

    def to_dict(self) -> dict[int, int]:
        """Return the values by index, as a dict."""
        return dict(zip(self.indices.tolist(), self.values.tolist(), strict=True))

    def dense(self, size: int) -> Integers:
        """Return all values of the array, zeros included.

        Parameters
        ----------
        size : int
            Number of values of the array.

        Returns
        -------
        Integers
            `size` values; not a copy if none of them is zero.
        """
        if len(self) == size:
            return self.values
        whole = Integers.zeros(size, self.values.wide)
        whole.put(self.indices, self.values)
        return whole
