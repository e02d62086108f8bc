"""Buckets of signatures with class counts: longest prefixes, and merging of small buckets.

A bucket has a number: that of its table, followed by the counted bits of a signature. So buckets of
a table that share a prefix are adjacent.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dealfl.exact import Entries, Integers
from dealfl.learners.signatures import prefix_mask

__all__ = ["Buckets", "winners"]

Int64s = NDArray[np.int64]
Keys = NDArray[np.uint64]

_CLEAR_GAP = 1e-9  # relative; float votes that differ by less are compared as fractions


class Buckets:
    """Class counts of buckets, from statistics: the index is bucket · classes + class.

    Examples
    --------
    >>> votes = Entries.of({0b0000: 3, 0b0001: 2, 0b1100: 1})
    >>> Buckets(votes, classes=1, bits=4).merged(min_bucket=2).to_dict()  # 1100 joins a sibling
    {0: 4, 1: 2}
    """

    def __init__(self, votes: Entries, classes: int, bits: int) -> None:
        self._classes, self._bits = classes, bits
        self._numbers = (votes.indices // classes).astype(np.uint64)
        self._codes = votes.indices % classes
        self._values = votes.values.low
        self._totals = np.concatenate(([0], np.cumsum(self._values)))

    def _range(self, numbers: Keys, lengths: Int64s) -> tuple[Int64s, Int64s]:
        """Return where the entries with the same prefixes of some lengths start and stop."""
        free = prefix_mask(self._bits - lengths)
        start = np.searchsorted(self._numbers, numbers & ~free)
        return start, np.searchsorted(self._numbers, numbers | free, side="right")

    def _count(self, numbers: Keys, lengths: Int64s) -> Int64s:
        start, stop = self._range(numbers, lengths)
        return np.asarray(self._totals[stop] - self._totals[start])

    def _longest(self, numbers: Keys, min_bucket: int) -> Int64s:
        """Return the length of the longest prefix with enough examples; 0 is the whole table."""
        shortest = np.zeros(len(numbers), dtype=np.int64)
        longest = np.full(len(numbers), self._bits, dtype=np.int64)
        for _ in range(self._bits.bit_length()):
            middle = (shortest + longest + 1) // 2
            held = self._count(numbers, middle) >= min_bucket
            shortest = np.where(held, middle, shortest)
            longest = np.where(held, longest, np.maximum(middle - 1, shortest))
        return shortest

    def merged(self, min_bucket: int) -> Entries:
        """Return class counts of the longest prefixes that have at least `min_bucket` examples.

        The number of a prefix ends in zeros. An example whose own side of a split has too few
        examples is counted on the other side. A table with fewer examples is left out.
        """
        everything = self._count(self._numbers, np.zeros(len(self._numbers), np.int64))
        places = np.flatnonzero(everything >= min_bucket)
        numbers, prefixes = self._numbers[places], self._numbers.copy()
        kept = places
        for _ in range(self._bits + 1):
            lengths = self._longest(numbers, min_bucket)
            other = numbers ^ self._next_bit(lengths)
            splits = (lengths < self._bits) & (
                self._count(other, np.minimum(lengths + 1, self._bits)) >= min_bucket
            )
            ended = places[~splits]
            prefixes[ended] = (numbers & ~prefix_mask(self._bits - lengths))[~splits]
            places, numbers = places[splits], other[splits]
            if not len(places):
                break
        indices = prefixes[kept].astype(np.int64) * self._classes + self._codes[kept]
        return Entries.summed(indices, Integers(self._values[kept]))

    def _next_bit(self, lengths: Int64s) -> Keys:
        """Return the bit that follows each prefix, if there is one."""
        after = np.maximum(self._bits - 1 - lengths, 0).astype(np.uint64)
        return np.uint64(1) << after

    def votes(self, numbers: Keys, min_bucket: int) -> Int64s:
        """Return the class counts of the longest prefix of each number with enough examples."""
        start, stop = self._range(numbers, self._longest(numbers, min_bucket))
        votes = np.empty((len(numbers), self._classes), dtype=np.int64)
        for code in range(self._classes):
            totals = np.cumsum(np.where(self._codes == code, self._values, 0))
            totals = np.concatenate(([0], totals))
            votes[:, code] = totals[stop] - totals[start]
        return votes


def winners(votes: Int64s, commonest: int) -> Int64s:
    """Return the winning class of each row of votes[row, table, class], computed exactly.

    A table adds the share of a class, divided by the number of examples: small buckets are near.
    If all buckets of a row are empty, the most common class wins.
    """
    totals = votes.sum(axis=2, keepdims=True)
    sizes = np.square(totals.astype(np.float64))
    shares = np.divide(votes, sizes, out=np.zeros(votes.shape), where=totals > 0).sum(axis=1)
    best_class = np.argmax(shares, axis=1)
    best = shares.max(axis=1, keepdims=True)
    for row in np.flatnonzero(np.sum(shares >= best * (1 - _CLEAR_GAP), axis=1) > 1):
        exact = [_score(votes[row, :, code], totals[row, :, 0]) for code in range(votes.shape[2])]
        best_class[row] = exact.index(max(exact))
    return np.where(best[:, 0] > 0, best_class, commonest)


def _score(votes: Int64s, totals: Int64s) -> Fraction:
    pairs = zip(votes.tolist(), totals.tolist(), strict=True)
    return sum((Fraction(vote, total * total) for vote, total in pairs if total), Fraction())
