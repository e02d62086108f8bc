"""Signatures: the side of seeded hyperplanes on which an example lies.

All numbers are integers: features on their grid, entries of planes, and projections, which a
float64 product computes exactly while |feature| · 510 · columns < 2^53. The bits are the same on
every machine and for every batch size; otherwise forgetting would look in the wrong bucket.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.errors import BadInput
from dealfl.learners.inputs import require_integer
from dealfl.schema import Setting
from dealfl.seeded import seeded_sums
from dealfl.settings import Count, Whole

__all__ = ["PlaneSeed", "SignatureBits", "Signatures", "TableCount", "VoteBits", "winners"]

Int64s = NDArray[np.int64]
Keys = NDArray[np.uint64]

TableCount = Annotated[Count, Meta(description="number of hash tables")]
SignatureBits = Annotated[Count, Meta(description="length of a signature")]
VoteBits = Annotated[
    Count, Meta(description="leading bits of a signature that select a bucket of votes")
]
PlaneSeed = Annotated[Whole, Meta(description="seed of the hyperplanes, the same on every device")]

_BLOCK_VALUES = 1 << 21
_MAX_BUCKETS = 1 << 48
_CLEAR_GAP = 1e-9  # float votes that differ by less are compared as fractions


class Signatures:
    """One key of `bits` bits per table; its first bits select a bucket.

    Examples
    --------
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
            raise BadInput(f"{tables} tables of 2^{vote_bits} buckets exceed 2^48; lower vote_bits")
        planes = seeded_sums(self.seed, "hyperplanes", (self.tables, self.bits, columns))
        self._planes = planes.reshape(-1, columns).T.astype(np.float64)

    @property
    def buckets(self) -> int:
        """The number of buckets of all tables."""
        return self.tables << self.vote_bits

    def settings(self) -> dict[str, Setting]:
        """Return the settings that produce the same signatures for the same number of columns."""
        return {
            "tables": self.tables,
            "bits": self.bits,
            "vote_bits": self.vote_bits,
            "seed": self.seed,
        }

    def of(self, vectors: NDArray[np.integer]) -> Keys:
        """Return the keys of quantised vectors, one row per vector and one column per table."""
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
        """Return the bucket of each key, numbered across all tables."""
        within = (keys >> np.uint64(self.bits - self.vote_bits)).astype(np.int64)
        numbers: Int64s = within + (np.arange(self.tables, dtype=np.int64) << self.vote_bits)
        return numbers


def winners(votes: Int64s, commonest: int) -> Int64s:
    """Return the winning class of each row of votes[row, table, class], computed exactly.

    If all buckets of a row are empty, the most common class wins.
    """
    totals = votes.sum(axis=2, keepdims=True)
    shares = np.divide(votes, totals, out=np.zeros(votes.shape), where=totals > 0).sum(axis=1)
    best_class = np.argmax(shares, axis=1)
    best = shares.max(axis=1, keepdims=True)
    for row in np.flatnonzero(np.sum(shares >= best - _CLEAR_GAP, axis=1) > 1):
        exact = [_mean_share(votes[row, :, code], totals[row, :, 0])
                 for code in range(votes.shape[2])]  # fmt: skip
        best_class[row] = exact.index(max(exact))
    return np.where(best[:, 0] > 0, best_class, commonest)


def _mean_share(votes: Int64s, totals: Int64s) -> Fraction:
    pairs = zip(votes.tolist(), totals.tolist(), strict=True)
    return sum((Fraction(vote, total) for vote, total in pairs if total), Fraction())
