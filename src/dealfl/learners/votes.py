"""Signatures, and votes: the number of examples of each class in each bucket of a signature.

A signature says on which side of seeded hyperplanes an example lies. All numbers are integers:
features on their grid, entries of planes, and projections, which a float64 product computes exactly
while |feature| · 510 · columns < 2^53. The bits are the same on every machine and for every batch
size; otherwise forgetting would look in the wrong bucket.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.cells import Proposal, Storage
from dealfl.entries import Entries
from dealfl.errors import BadInput, Impossible, NotLearned
from dealfl.fixedpoint import FixedPoint
from dealfl.integers import Integers
from dealfl.learners.base import Arrays, SparseVector
from dealfl.learners.inputs import quantised, require_integer
from dealfl.learners.labels import Labels
from dealfl.learners.row_learner import Classifier
from dealfl.schema import ArraySpec, Schema, Setting
from dealfl.seeded import seeded_sums
from dealfl.settings import Count, Whole
from dealfl.statistics import Statistics
from dealfl.work import Work

__all__ = [
    "BucketVotes", "PlaneSeed", "SignatureBits", "Signatures", "TableCount", "VoteBits", "winners",
]  # fmt: skip

Int64s = NDArray[np.int64]
Keys = NDArray[np.uint64]
Points = NDArray[np.int32]

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


class BucketVotes(Classifier):
    """The number of examples of each class, in total and in each bucket of each table."""

    def __init__(
        self,
        labels: Labels,
        grid: FixedPoint,
        signatures: Signatures,
        *,
        clip: bool,
        storage: Storage | None,
    ) -> None:
        shape: dict[str, Setting] = {"n_features": len(grid.bound), "classes": labels.tolist()}
        shape |= signatures.settings() | grid.settings(clip=clip)
        arrays = (
            ArraySpec("counts", len(labels)),
            ArraySpec("votes", signatures.buckets * len(labels)),
        )
        super().__init__(Schema(self.name, shape, arrays), storage)
        self._labels, self._grid, self._signatures = labels, grid, signatures
        self._clip = clip

    def count_records(self, statistics: Statistics) -> int:
        """Return the number of examples in statistics."""
        return sum(statistics["counts"].values.tolist())

    def _cost(self, rows: int) -> Work:
        planes = self._signatures.tables * self._signatures.bits
        counters = self._signatures.tables + 1
        operations = rows * (self.n_features * planes + counters)
        return Work(operations, rows * (8 * self.n_features + 2 * 8 * counters))

    def _signed(self, points: Points, signs: Int64s) -> Statistics:
        return self._delta(self._signatures.of(points[:, 1:-1]), points[:, -1], signs)

    def _delta(self, keys: Keys, codes: NDArray[np.integer], signs: Int64s) -> Statistics:
        classes = len(self._labels)
        counts = np.zeros(classes, dtype=np.int64)
        np.add.at(counts, codes, signs)
        places = self._signatures.buckets_of(keys) * classes + codes[:, None]
        votes = Integers(np.repeat(signs, self._signatures.tables))
        arrays = {
            "counts": Entries.of_dense(Integers(counts)),
            "votes": Entries.summed(places.ravel(), votes),
        }
        return Statistics(self.schema, arrays)

    def _refuse_unlearned(self, proposals: Mapping[str, Proposal]) -> None:
        if any(np.any(proposal.values.negative) for proposal in proposals.values()):
            raise NotLearned("these examples were never learned: a count would be negative")

    def check(self) -> None:
        """Raise `Impossible` if no set of examples has these statistics."""
        counts = self._state.whole("counts").low
        votes = self._state.snapshot()["votes"]
        if np.any(counts < 0) or np.any(votes.values.negative):
            raise Impossible("a count is negative")
        classes = len(self._labels)
        table_size = self._signatures.buckets // self._signatures.tables * classes
        sums = np.zeros((self._signatures.tables, classes), dtype=np.int64)
        np.add.at(sums, (votes.indices // table_size, votes.indices % classes), votes.values.low)
        for table, code in np.argwhere(sums != counts):
            raise Impossible(
                f"table {table} counts {sums[table, code]} examples of class "
                f"{self._labels.values[code]}, but {counts[code]} were learned"
            )

    def predict_votes(self, X: object) -> NDArray[Any]:
        """Return the class with the largest mean share in the buckets of a row.

        Parameters
        ----------
        X
            See `predict`.

        Returns
        -------
        ndarray
            One class per row.
        """
        counts = self._state.whole("counts").low
        self._require_learned(counts)
        buckets = self._signatures.buckets_of(
            self._signatures.of(quantised(self._as_rows(X), self._grid, clip=True))
        )
        places = buckets[:, :, None] * len(self._labels) + np.arange(len(self._labels))
        votes = self._state.cells("votes").at(places.ravel()).low.reshape(places.shape)
        self._work = Work(self._cost(len(votes)).operations + votes.size, 8 * votes.size)
        return self._labels.decode(winners(votes, int(np.argmax(counts))))

    def derived_arrays(self) -> Arrays:
        """Return `classes`, `class_counts`, and table, bucket, class and count of each vote."""
        votes, classes = self._state.snapshot()["votes"], len(self._labels)
        buckets, vote_bits = votes.indices // classes, self._signatures.vote_bits
        return {
            **super().derived_arrays(),
            "class_counts": self._state.whole("counts").low,
            "vote_table": buckets >> vote_bits,
            "vote_bucket": buckets & ((1 << vote_bits) - 1),
            "vote_class": votes.indices % classes,
            "vote_count": votes.values.low,
        }

    def predict_federated(self, X: object) -> NDArray[Any]:
        """Return `predict_votes`: a model that has statistics only holds no examples."""
        return self.predict_votes(X)

    def _forget_model(self) -> None:
        """Do nothing: votes are read from the statistics."""

    def _derived(self) -> SparseVector:
        votes = self._state.snapshot()["votes"]
        buckets, member = np.unique(votes.indices // len(self._labels), return_inverse=True)
        totals = np.bincount(member, weights=votes.values.to_float(), minlength=len(buckets))
        return votes.indices, votes.values.to_float() / totals[member]
