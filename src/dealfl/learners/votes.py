"""Votes: the number of examples of each class in each bucket of a signature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.cells import Proposal, Storage
from dealfl.errors import Impossible, NotLearned
from dealfl.fixedpoint import FixedPoint
from dealfl.integers import Entries, Integers
from dealfl.learners.base import Arrays, SparseVector
from dealfl.learners.classifier import Classifier
from dealfl.learners.inputs import Labels, quantised
from dealfl.learners.signatures import Signatures, winners
from dealfl.schema import ArraySpec, Schema, Setting
from dealfl.statistics import Statistics
from dealfl.work import Work

__all__ = ["BucketVotes"]

Int64s = NDArray[np.int64]


class BucketVotes(Classifier):
    """The number of examples of each class, in total and in each bucket of each table."""

    def __init__(
        self, labels: Labels, grid: FixedPoint, signatures: Signatures, storage: Storage | None
    ) -> None:
        shape: dict[str, Setting] = {"n_features": len(grid.bound), "classes": labels.tolist()}
        shape |= signatures.settings() | grid.settings()
        arrays = (
            ArraySpec("counts", len(labels)),
            ArraySpec("votes", signatures.buckets * len(labels)),
        )
        super().__init__(Schema(self.name, shape, arrays), storage)
        self._labels, self._grid, self._signatures = labels, grid, signatures

    @property
    def example_count(self) -> int:
        """The number of learned examples, of all workers."""
        return int(self._state.whole("counts").low.sum())

    def _cost(self, rows: int) -> Work:
        planes = self._signatures.tables * self._signatures.bits
        counters = self._signatures.tables + 1
        operations = rows * (self.n_features * planes + counters)
        return Work(operations, rows * (8 * self.n_features + 2 * 8 * counters))

    def _delta(self, keys: NDArray[np.uint64], codes: Int64s, sign: int) -> Statistics:
        counts = np.bincount(codes, minlength=len(self._labels))
        places = self._signatures.buckets_of(keys) * len(self._labels) + codes[:, None]
        indices, votes = np.unique(places, return_counts=True)
        arrays = {
            "counts": Entries.of_dense(Integers(sign * counts)),
            "votes": Entries(indices, Integers(sign * votes.astype(np.int64))),
        }
        return Statistics(self.schema, arrays)

    def _refuse_unlearned(self, proposals: Mapping[str, Proposal]) -> None:
        if any(np.any(proposal.values.negative) for proposal in proposals.values()):
            raise NotLearned("these examples were never learned: a count would be negative")

    def check(self) -> None:
        """Check that some set of examples can have these statistics.

        Raises
        ------
        Impossible
            No set of examples has these statistics.
        """
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
        X : array_like, csr_array or DataFrame
            One row of `n_features` numbers per query.

        Returns
        -------
        ndarray
            One class per row.

        Raises
        ------
        NotLearned
            No example is learned.
        """
        if not np.any(self._state.whole("counts").low > 0):
            raise NotLearned("no example is learned, so no class can be predicted; learn first")
        buckets = self._signatures.buckets_of(
            self._signatures.of(quantised(self._as_rows(X), self._grid, clip=True))
        )
        places = buckets[:, :, None] * len(self._labels) + np.arange(len(self._labels))
        votes = self._state.cells("votes").at(places.ravel()).low.reshape(places.shape)
        self._work = Work(self._cost(len(votes)).operations + votes.size, 8 * votes.size)
        commonest = int(np.argmax(self._state.whole("counts").low))
        return self._labels.decode(winners(votes, commonest))

    def derived_arrays(self) -> Arrays:
        """Return the model as named arrays.

        Returns
        -------
        dict of str to ndarray
            Arrays `classes`, `class_counts`, and table, bucket, class and count of each vote.
        """
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
        """Return `predict_votes`: a model that has statistics only holds no examples.

        Parameters
        ----------
        X : array_like, csr_array or DataFrame
            One row of `n_features` numbers per query.

        Returns
        -------
        ndarray
            One class per row.
        """
        return self.predict_votes(X)

    def _forget_model(self) -> None:
        """Do nothing: votes are read from the statistics."""

    def _derived(self) -> SparseVector:
        votes = self._state.snapshot()["votes"]
        buckets, member = np.unique(votes.indices // len(self._labels), return_inverse=True)
        totals = np.bincount(member, weights=votes.values.to_float(), minlength=len(buckets))
        return votes.indices, votes.values.to_float() / totals[member]
