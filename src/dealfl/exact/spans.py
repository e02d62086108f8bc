"""Entries of a range with few zeros, held as the whole range: no indices, and fewer passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.exact.compiled import is_compiled
from dealfl.exact.entries import Entries
from dealfl.exact.integers import Integers

__all__ = ["Span", "chain_entries", "cut_entries", "make_entries", "spread_entries"]

Int64s = NDArray[np.int64]
_MIN_CELLS = 1 << 12  # a shorter range is listed at once


class Span(Entries):
    """The entries of a range of cells, held with the zeros among them.

    Indices and values are listed when they are first read.

    Parameters
    ----------
    cells : Integers
        All values of the range.
    first : int
        Index of the first value.
    count : int
        How many of the values are not zero.

    Examples
    --------
    >>> span = Span(Integers.of([4, 0, 5]), 10, 2)
    >>> (span + span).to_dict()
    {10: 8, 12: 10}
    """

    __slots__ = ("_count", "_listed", "cells", "first")

    cells: Integers
    first: int
    _count: int
    _listed: Entries | None

    def __init__(self, cells: Integers, first: int, count: int) -> None:
        fields = {"cells": cells, "first": first, "_count": count, "_listed": None}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[type[Span], tuple[Integers, int, int]]:
        return Span, (self.cells, self.first, self._count)

    def _list(self) -> Entries:
        if self._listed is None:
            object.__setattr__(self, "_listed", Entries.of_dense(self.cells, self.first))
        assert self._listed is not None
        return self._listed

    @property
    def indices(self) -> Int64s:
        """Ascending indices of the values that are not zero."""
        return self._list().indices

    @property
    def values(self) -> Integers:
        """The values that are not zero."""
        return self._list().values

    @property
    def stop(self) -> int:
        """The index after the last one of the range."""
        return self.first + len(self.cells)

    @property
    def place(self) -> Any:  # noqa: ANN401 - a slice
        """The range as a slice."""
        return slice(self.first, self.stop)

    @property
    def placed(self) -> Integers:
        """The values of the range, zeros included."""
        return self.cells

    @property
    def nbytes(self) -> int:
        """Size in memory when listed, in bytes."""
        return self._count * (8 + self.cells.nbytes // len(self.cells))

    def __len__(self) -> int:
        return self._count

    def __neg__(self) -> Entries:
        return Span(-self.cells, self.first, self._count)

    def __add__(self, other: Entries) -> Entries:
        if isinstance(other, Span) and other.place == self.place:
            return make_entries(self.cells + other.cells, self.first)
        return super().__add__(other)

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
        if start <= self.first and self.stop <= stop:
            return self
        begin = max(start, self.first)
        return make_entries(self.cells[begin - self.first : max(stop - self.first, 0)], begin)

    def dense(self, size: int) -> Integers:
        """Return all values of the array, zeros included.

        Parameters
        ----------
        size : int
            Number of values of the array.

        Returns
        -------
        Integers
            `size` values; not a copy if the range is the whole array.
        """
        if len(self.cells) == size:
            return self.cells
        whole = Integers.zeros(size, self.cells.wide)
        whole.put(self.place, self.cells)
        return whole


def make_entries(cells: Integers, first: int = 0, count: int | None = None) -> Entries:
    """Return the entries of a range: a span if few of its values are zero.

    Parameters
    ----------
    cells : Integers
        All values of the range.
    first : int, default 0
        Index of the first value.
    count : int, optional
        How many of the values are not zero, if it is known.

    Returns
    -------
    Entries
        The non-zero values; not a copy of `cells` if it is a span.
    """
    if len(cells) < _MIN_CELLS:
        return Entries.of_dense(cells, first)
    count = _count_nonzero(cells) if count is None else count
    if 2 * count < len(cells):
        return Entries.of_dense(cells, first)
    return Span(Integers(cells.low.astype(np.int64, copy=False), cells.high), first, count)


def spread_entries(entries: Entries, size: int) -> Entries:
    """Return the entries of an array: as a span if few of its values are zero.

    Parameters
    ----------
    entries : Entries
        The non-zero values.
    size : int
        Number of values of the array.

    Returns
    -------
    Entries
        The same entries.
    """
    is_full = size >= _MIN_CELLS and 2 * len(entries) >= size
    return Span(entries.dense(size), 0, len(entries)) if is_full else entries


def _count_nonzero(cells: Integers) -> int:
    if is_compiled(len(cells) >> 4):  # numpy needs little time for a zero
        from dealfl.exact.exact_loops import count_nonzero

        return int(count_nonzero(*cells.parts))
    return int(np.count_nonzero(cells.low if cells.high is None else cells.low | cells.high))


def cut_entries(entries: Entries, most: int) -> Iterator[tuple[int, int, Entries]]:
    """Cut entries into consecutive parts of about the same size.

    Parameters
    ----------
    entries : Entries
        What is cut.
    most : int
        Maximum number of entries of a part; of a span, of cells.

    Yields
    ------
    tuple of int, int and Entries
        Index of the first entry of a part, the number of cells up to its last one, and the
        part, whose indices are counted from the first.
    """
    size = len(entries.placed)
    count = -(-size // most)
    for number in range(count):
        part = slice(size * number // count, size * (number + 1) // count)
        if isinstance(entries, Span):
            start, stop = _trimmed(entries.cells, part)
            if start < stop:
                cells = entries.cells[start:stop]
                yield entries.first + start, stop - start, make_entries(cells)
        else:
            indices = entries.indices[part]
            inside = Entries(indices - indices[0], entries.values[part])
            yield int(indices[0]), int(inside.indices[-1]) + 1, inside


def _trimmed(cells: Integers, part: slice) -> tuple[int, int]:
    """Return the part from its first to its last value that is not zero."""
    ends = cells[np.array([part.start, part.stop - 1])]
    if len(ends.nonzero()) == len(ends):
        return part.start, part.stop
    held = cells[part].nonzero() + part.start
    return (int(held[0]), int(held[-1]) + 1) if len(held) else (0, 0)


def chain_entries(
    parts: Sequence[tuple[int, Entries]], start: int, stop: int, *, wide: bool
) -> Entries:
    """Return consecutive parts of a range as one.

    Parameters
    ----------
    parts : sequence of tuples of int and Entries
        The index from which a part is counted, and the part, in their order.
    start, stop : int
        The range.
    wide : bool
        Whether the values are wide.

    Returns
    -------
    Entries
        All of them; a span of the whole range if few of its values are zero.
    """
    count = sum(len(part) for _, part in parts)
    if stop - start < _MIN_CELLS or 2 * count < stop - start:
        return Entries.chained([Entries(one.indices + n, one.values) for n, one in parts], wide)
    whole = Integers.zeros(stop - start, wide)
    for first, part in parts:
        place, offset = part.place, first - start
        where = place + offset if isinstance(place, np.ndarray) else _moved(place, offset)
        whole.put(where, part.placed)
    return Span(whole, start, count)


def _moved(place: slice, offset: int) -> slice:
    return slice(place.start + offset, place.stop + offset)
