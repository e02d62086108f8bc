"""Signatures: where an example lies along seeded random directions, as one key per table.

A key holds the binary digits of several projections, the first digits of all of them before the
second ones. So a prefix of a key is a cell of a randomly turned and shifted grid, and every further
bit halves the cell. All numbers are integers: features on their grid, entries of directions, and
projections, which a float64 product computes exactly while |feature| · 510 · columns < 2^52. The
bits are the same on every machine and for every batch size; otherwise forgetting would look in the
wrong bucket.

A bucket is a cell of the first `vote_bits` bits. Its number is that of its table, followed by these
bits, so buckets of a table that share a prefix are adjacent.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.errors import BadInput
from dealfl.exact import Entries, Integers, Setting, seeded_bytes, seeded_sums
from dealfl.learners.inputs import require_integer
from dealfl.settings import Count, Whole

Int64s = NDArray[np.int64]
Keys = NDArray[np.uint64]

TableCount = Annotated[Count, Meta(description="number of hash tables")]
SignatureBits = Annotated[Count, Meta(description="length of a signature")]
VoteBits = Annotated[
    Count, Meta(description="leading bits of a signature that are counted, or all")
]
DirectionSeed = Annotated[
    Whole, Meta(description="seed of the directions, the same on every device")
]
DirectionFeatures = Annotated[
    Whole, Meta(description="features that each direction depends on; 0: all of them")
]
Digits = Annotated[Count, Meta(description="binary digits of the projection on each direction")]

_BLOCK_VALUES = 1 << 19
_MAX_ENTRIES = 1 << 25  # of directions; they are held in memory
_BUCKET_BITS = 62  # of the number of a bucket and a class
_DRAW_BYTES = 6
_CLEAR_GAP = 1e-9  # relative; float votes that differ by less are compared as fractions
_LIMIT_BITS = 12  # of the limits that decide about the width of a cell


class Signatures:
    """One key of `bits` bits per table; its first `vote_bits` bits are counted.

    A direction depends on all features, or on a few that are drawn in proportion to their limits.
    Its origin is at most a quarter of the limits away from the centre.

    Examples
    --------
    >>> signatures = Signatures(np.array([8, 8]), tables=1, bits=4, vote_bits=2, seed=0, digits=1)
    >>> near, far = signatures.of(np.array([[8, 8], [-8, -8]]))[:, 0].tolist()
    >>> f"{near ^ far:b}"  # on opposite sides in all four directions
    '1111'
    """

    def __init__(
        self,
        limits: Int64s,
        tables: int,
        bits: int,
        vote_bits: int,
        seed: int,
        digits: int,
        direction_features: int = 0,
    ) -> None:
        self.tables = require_integer(tables, "tables", 1, 1024)
        self.bits = require_integer(bits, "bits", 1, 63)
        self.vote_bits = min(require_integer(vote_bits, "vote_bits", 1, 63), self.bits)
        self.seed = require_integer(seed, "seed", 0, (1 << 63) - 1)
        self.digits = require_integer(digits, "digits", 1, 32)
        self.direction_features = require_integer(
            direction_features, "direction_features", 0, 1 << 15
        )
        self.directions = self.tables * -(-self.bits // self.digits)
        if self.directions * len(limits) > _MAX_ENTRIES:
            raise BadInput(
                f"{self.directions} directions of {len(limits)} features exceed 2^25 numbers; "
                "lower tables or bits"
            )
        self.limits = limits
        entries = self._draw_entries(limits)
        points = seeded_bytes(self.seed, "points", entries.size).astype(np.int64)
        origins = (2 * points.reshape(entries.shape) - 255) * limits // 1020
        reduced = max(0, int(limits.max()).bit_length() - _LIMIT_BITS)
        lengths = np.square(entries * (limits >> reduced)).sum(axis=1)
        width_bits = (bit_lengths(lengths.astype(np.uint64)) + 1) // 2 + reduced
        self._shifts = np.maximum(width_bits - self.digits, 0).astype(np.int64)
        self._starts = (entries * origins).sum(axis=1) - (1 << self._shifts + self.digits - 1)
        self._entries = entries.T.astype(np.float64)

    def _draw_entries(self, limits: Int64s) -> Int64s:
        """Return the entries of the directions, one row each."""
        columns = len(limits)
        if not 0 < self.direction_features < columns:
            return seeded_sums(self.seed, "directions", (self.directions, columns))
        shape = (self.directions, self.direction_features)
        drawn = seeded_bytes(self.seed, "features", _DRAW_BYTES * shape[0] * shape[1])
        powers = 1 << (8 * np.arange(_DRAW_BYTES, dtype=np.int64))
        numbers = drawn.reshape(*shape, _DRAW_BYTES).astype(np.int64) @ powers
        bounds = np.cumsum(limits)
        features = np.searchsorted(bounds, numbers % bounds[-1], side="right")
        entries = np.zeros((self.directions, columns), dtype=np.int64)
        weights = seeded_sums(self.seed, "directions", shape)
        np.add.at(entries, (np.arange(self.directions)[:, None], features), weights)
        return entries

    def settings(self) -> dict[str, Setting]:
        """Return the settings that produce the same signatures for the same limits."""
        names = ("tables", "bits", "vote_bits", "seed", "digits", "direction_features")
        return {name: getattr(self, name) for name in names}

    def cells(self, classes: int) -> int:
        """Return the number of buckets of all tables, times classes."""
        size = (self.tables << self.vote_bits) * classes
        if size > 1 << _BUCKET_BITS:
            raise BadInput(
                f"{self.tables} tables of 2^{self.vote_bits} buckets for {classes} classes exceed "
                f"2^{_BUCKET_BITS}; lower vote_bits"
            )
        return size

    def of(self, vectors: NDArray[np.integer]) -> Keys:
        """Return the keys of quantised vectors, one row per vector and one column per table."""
        keys = np.empty((len(vectors), self.tables), dtype=np.uint64)
        step = max(1, _BLOCK_VALUES // self.directions)
        for first in range(0, len(vectors), step):
            projections = vectors[first : first + step].astype(np.float64) @ self._entries
            cells = (projections.astype(np.int64) - self._starts) >> self._shifts
            cells = np.clip(cells, 0, (1 << self.digits) - 1)
            keys[first : first + step] = self._packed(cells.reshape(len(cells), self.tables, -1))
        return keys

    def _packed(self, cells: Int64s) -> Keys:
        """Return the digits of cells[row, table, direction] as keys."""
        weights = np.arange(self.digits - 1, -1, -1)[:, None]
        digits = (cells[:, :, None, :] >> weights & 1).reshape(*cells.shape[:2], -1)
        padded = np.zeros((*cells.shape[:2], 64), dtype=np.bool_)
        padded[:, :, 64 - self.bits :] = digits[:, :, : self.bits]
        whole = np.packbits(padded, axis=2).view(">u8")
        return whole[:, :, 0].astype(np.uint64)

    def buckets_of(self, keys: Keys) -> Keys:
        """Return the bucket of each key, numbered across all tables."""
        within = keys >> np.uint64(self.bits - self.vote_bits)
        tables = np.arange(self.tables, dtype=np.uint64) << np.uint64(self.vote_bits)
        return within + tables


def prefix_mask(free_bits: Int64s) -> Keys:
    """Return a mask of the last bits of a key, those that do not belong to its prefix."""
    return (np.uint64(1) << free_bits.astype(np.uint64)) - np.uint64(1)


def bit_lengths(numbers: Keys) -> NDArray[np.int32]:
    """Return the bit length of each number; the second bit is cleared, so no float rounds up."""
    return np.frexp((numbers & ~(numbers >> np.uint64(1))).astype(np.float64))[1]


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
            enough = self._count(numbers, middle) >= min_bucket
            shortest = np.where(enough, middle, shortest)
            longest = np.where(enough, longest, np.maximum(middle - 1, shortest))
        return shortest

    def merged(self, min_bucket: int) -> Entries:
        """Return class counts of the longest prefixes that have at least `min_bucket` examples.

        The number of a prefix ends in zeros. An example whose own side of a split has too few
        examples is counted on the other side. A table with fewer examples is left out.
        """
        everything = self._count(self._numbers, np.zeros(len(self._numbers), np.int64))
        kept = np.flatnonzero(everything >= min_bucket)
        prefixes = self._numbers.copy()
        moving = kept  # entries whose prefix is not decided yet
        numbers = self._numbers[moving]
        for _ in range(self._bits + 1):
            lengths = self._longest(numbers, min_bucket)
            other = numbers ^ self._next_bit(lengths)
            splits = (lengths < self._bits) & (
                self._count(other, np.minimum(lengths + 1, self._bits)) >= min_bucket
            )
            ended = moving[~splits]
            prefixes[ended] = (numbers & ~prefix_mask(self._bits - lengths))[~splits]
            moving = moving[splits]
            numbers = other[splits]
            if not len(moving):
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
