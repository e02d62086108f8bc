"""Signatures: where an example lies along seeded random directions, as one key per table.

A key holds the binary digits of several projections, the first digits of all of them before the
second ones. So a prefix of a key is a cell of a randomly turned and shifted grid, and every further
bit halves the cell. All numbers are integers: features on their grid, entries of directions, and
projections, which a float64 product computes exactly while |feature| · 510 · columns < 2^52. The
bits are the same on every machine and for every batch size; otherwise forgetting would look in the
wrong bucket.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.errors import BadInput
from dealfl.exact import Setting, seeded_bytes, seeded_sums
from dealfl.learners.inputs import require_integer
from dealfl.settings import Count, Whole

__all__ = [
    "Digits", "DirectionFeatures", "DirectionSeed", "SignatureBits", "Signatures", "TableCount",
    "VoteBits", "bit_lengths", "prefix_mask",
]  # fmt: skip

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
_BUCKET_BITS = 62  # of the number of a bucket and a class
_DRAW_BYTES = 6
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
        places = np.cumsum(limits)
        features = np.searchsorted(places, numbers % places[-1], side="right")
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
            places = (projections.astype(np.int64) - self._starts) >> self._shifts
            cells = np.clip(places, 0, (1 << self.digits) - 1)
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
