"""Signatures: on which side of seeded hyperplanes does an example lie?

Everything is an integer: features on their grid, plane entries, and so the projections, which a
float64 product gives exactly while |feature| · 510 · columns < 2^53. The bits are the same on every
machine and for every batch size, or forgetting would look in the wrong bucket.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadInput
from dealfl.learners.inputs import require_integer
from dealfl.seeded import seeded_sums

__all__ = ["Signatures"]

Int64s = NDArray[np.int64]
Keys = NDArray[np.uint64]

_BLOCK_VALUES = 1 << 21
_MAX_BUCKETS = 1 << 48


class Signatures:
    """One key of `bits` bits for each of several tables; its first bits name a bucket.

    >>> signatures = Signatures(columns=2, tables=1, bits=4, vote_bits=2, seed=0)
    >>> near, far = signatures.of(np.array([[3, 4], [-3, -4]]))[:, 0].tolist()
    >>> near ^ far  # opposite sides of every plane
    15
    """

    def __init__(self, columns: int, tables: int, bits: int, vote_bits: int, seed: int) -> None:
        self.tables = require_integer(tables, "tables", 1, 1024)
        self.bits = require_integer(bits, "bits", 1, 63)
        self.vote_bits = require_integer(vote_bits, "vote_bits", 1, self.bits)
        self.seed = require_integer(seed, "seed", 0, (1 << 63) - 1)
        if self.buckets > _MAX_BUCKETS:
            raise BadInput(
                f"{tables} tables of 2^{vote_bits} buckets are too many; lower vote_bits"
            )
        planes = seeded_sums(self.seed, "hyperplanes", (self.tables, self.bits, columns))
        self._planes = planes.reshape(-1, columns).T.astype(np.float64)

    @property
    def buckets(self) -> int:
        """How many buckets all tables have together."""
        return self.tables << self.vote_bits

    def of(self, vectors: NDArray[np.integer]) -> Keys:
        """Return the keys of quantised vectors: a row for each, a column a table."""
        keys = np.empty((len(vectors), self.tables), dtype=np.uint64)
        step = max(1, _BLOCK_VALUES // self._planes.shape[1])
        for first in range(0, len(vectors), step):
            sides = vectors[first : first + step].astype(np.float64) @ self._planes >= 0
            keys[first : first + step] = self._packed(sides.reshape(-1, self.tables, self.bits))
        return keys

    def _packed(self, sides: NDArray[np.bool_]) -> Keys:
        padded = np.zeros((*sides.shape[:2], 64), dtype=np.bool_)
        padded[:, :, 64 - self.bits :] = sides
        whole = np.packbits(padded, axis=2).view(">u8")
        return whole[:, :, 0].astype(np.uint64)

    def buckets_of(self, keys: Keys) -> Int64s:
        """Return the bucket of each key, numbered through all tables."""
        within = (keys >> np.uint64(self.bits - self.vote_bits)).astype(np.int64)
        numbers: Int64s = within + (np.arange(self.tables, dtype=np.int64) << self.vote_bits)
        return numbers
