"""The federated neighbours model: the number of examples of each class in buckets of signatures.

Statistics count whole buckets of `vote_bits` bits, so counts of all prefixes follow from them. The
model merges buckets until each has `min_bucket` examples, because long ones identify people.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.errors import Impossible, NotLearned
from dealfl.exact import (
    ArraySpec,
    Deferred,
    Entries,
    FixedPoint,
    Integers,
    Proposal,
    Schema,
    Setting,
    Statistics,
    Storage,
    Work,
    in_memory,
)
from dealfl.learners.base import Arrays, SparseVector
from dealfl.learners.buckets import Buckets, winners
from dealfl.learners.held_examples import HeldExamples
from dealfl.learners.inputs import Labels, quantised, require_integer
from dealfl.learners.row_learner import Classifier
from dealfl.learners.saved import SavedLearner
from dealfl.learners.signatures import Signatures
from dealfl.settings import Count

__all__ = ["MinBucket", "PrefixVotes"]

Int64s = NDArray[np.int64]

MinBucket = Annotated[
    Count, Meta(description="smallest number of examples in a bucket of a published model")
]

_CHANGE_BITS = 12  # of the buckets that are compared by `change`


class PrefixVotes(Classifier):
    """The number of examples of each class, in total and in each bucket of each table."""

    def __init__(
        self,
        labels: Labels,
        grid: FixedPoint,
        signatures: Signatures,
        min_bucket: int,
        *,
        clip: bool,
        storage: Storage | None,
    ) -> None:
        shape: dict[str, Setting] = {"n_features": len(grid.bound), "classes": labels.tolist()}
        shape |= signatures.settings() | grid.settings(clip=True)  # directions depend on bounds
        if not clip:
            del shape["clip"]
        arrays = (
            ArraySpec("counts", len(labels)),
            ArraySpec("votes", signatures.cells(len(labels))),
        )

        def stored(spec: ArraySpec) -> Any:  # noqa: ANN401
            return in_memory(spec) if storage is None or spec.name == "votes" else storage(spec)

        super().__init__(Schema(self.name, shape, arrays), stored)
        self._labels, self._grid, self._signatures = labels, grid, signatures
        self._min_bucket = require_integer(min_bucket, "min_bucket", 1, 1 << 40)
        self._clip = clip
        self._model: Statistics | None = None
        self._held = HeldExamples(signatures, self.n_features, len(labels))
        self._merged = False  # whether statistics of other workers were added

    def __len__(self) -> int:
        """Return the number of examples held here."""
        return len(self._held)

    @property
    def federated(self) -> bool:
        """Whether no example is held here, so that only votes can predict."""
        return not self._held

    def count_records(self, statistics: Statistics) -> int:
        """Return the number of examples in statistics."""
        return sum(statistics["counts"].values.tolist())

    def _cost(self, rows: int) -> Work:
        directions = self._signatures.directions
        counters = self._signatures.tables + 1
        operations = rows * (self.n_features * directions + counters)
        return Work(operations, rows * (8 * self.n_features + 2 * 8 * counters))

    def _signed(self, points: NDArray[np.int32], signs: Int64s) -> Statistics:
        keys, codes = self._signatures.of(points[:, 1:-1]), points[:, -1:].astype(np.int64)
        return Statistics(self.schema, self._arrays(keys, codes, signs))

    def _arrays(self, keys: NDArray[np.uint64], codes: Int64s, signs: Int64s) -> dict[str, Entries]:
        """Return the statistics of examples; codes have one column, or one per table."""
        classes = len(self._labels)
        counts = np.zeros(classes, dtype=np.int64)
        np.add.at(counts, codes[:, 0], signs)
        places = self._signatures.buckets_of(keys).astype(np.int64) * classes + codes
        votes = Integers(np.repeat(signs, self._signatures.tables))
        return {
            "counts": Entries.of_dense(Integers(counts)),
            "votes": Entries.summed(places.ravel(), votes),
        }

    def _remove(self, slots: Int64s) -> tuple[NDArray[np.uint64], Int64s]:
        """Remove examples; `NotLearned` if merged statistics no longer count them."""
        if self._merged:
            keys = self._signatures.of(self._held.vectors[slots])
            codes = self._held.codes[slots, None].astype(np.int64)
            gone = Statistics(self.schema, self._arrays(keys, codes, np.full(len(codes), -1)))
            self._refuse_unlearned((self.statistics + gone).arrays)
        return self._held.remove(slots)

    def _changed(self, keys: NDArray[np.uint64], codes: Int64s, new: int = 0) -> Statistics:
        """Return the statistics of examples of which the last ones are new, the others gone."""
        self._model = None
        self._work = lambda: self._cost(len(codes))
        schema = self._state.schema
        return Statistics(
            schema,
            Deferred(
                schema,
                lambda: self._arrays(
                    keys, codes[:, None], np.where(np.arange(len(codes)) < len(codes) - new, -1, 1)
                ),
            ),
        )

    # -- statistics: those that were merged, and those of the examples held here ------------------

    @property
    def statistics(self) -> Statistics:
        """A copy of the current statistics."""
        return super().statistics + self._held_statistics()

    def _held_statistics(self) -> Statistics:
        signs = np.ones(len(self._held), dtype=np.int64)
        return Statistics(self.schema, self._arrays(*self._held.everything(), signs))

    def entries(self, name: str, start: int, stop: int) -> Entries:
        """Return a range of an array of the statistics."""
        if self._held:
            return self.statistics[name].between(start, stop)
        return super().entries(name, start, stop)

    def digest(self) -> str:
        """Return the digest of the statistics: equal if and only if schema and values are."""
        return self.statistics.digest() if self._held else super().digest()

    def merge(self, delta: Statistics) -> None:
        """Add the statistics that another worker learned or forgot."""
        super().merge(delta)
        self._merged = True

    def _sections(self) -> dict[str, bytes]:
        return super()._sections() | self._held.sections()

    def _restore(self, saved: SavedLearner) -> None:
        self._held.restore(*(saved.section(name) for name in ("ids", "codes", "vectors")))
        super()._restore(saved)
        if self._held:
            self.merge(-self._held_statistics())
            self._merged = not super().statistics.is_zero

    def _refuse_unlearned(self, proposals: Mapping[str, Proposal | Entries]) -> None:
        if any(np.any(proposal.values.negative) for proposal in proposals.values()):
            raise NotLearned("these examples were never learned: a count would be negative")

    def check(self) -> None:
        """Raise `Impossible` if no set of examples has these statistics."""
        self.check_statistics(self.statistics)

    def check_statistics(self, statistics: Statistics) -> None:
        """Raise `Impossible` if no set of examples has some statistics."""
        self.check_added(statistics, statistics, statistics)

    def check_added(self, delta: Statistics, touched: Statistics, whole: Statistics) -> None:
        """Raise `Impossible` if no set of examples has a sum; tables that agreed must still."""
        del whole
        if any(np.any(touched[name].values.negative) for name in touched):
            raise Impossible("a count is negative")
        counts, votes = delta["counts"].dense(len(self._labels)).low, delta["votes"]
        classes = len(self._labels)
        tables = votes.indices // classes >> self._signatures.vote_bits
        sums = np.zeros((self._signatures.tables, classes), dtype=np.int64)
        np.add.at(sums, (tables, votes.indices % classes), votes.values.low)
        for table, code in np.argwhere(sums != counts):
            raise Impossible(
                f"table {table} counts {sums[table, code]} examples of class "
                f"{self._labels.values[code]}, but {counts[code]} were learned"
            )

    # -- the model ------------------------------------------------------------------------------

    def publish(self) -> Statistics:
        """Return statistics in which each bucket has at least `min_bucket` examples.

        Buckets with too few are counted in another one with a common prefix, so the sums of tables
        stay the same and nothing can be computed from differences. Predictions by votes are equal.

        Returns
        -------
        Statistics
            The statistics; zero if fewer than `min_bucket` examples are learned.
        """
        if self._model is None:
            statistics = self.statistics
            votes = self._buckets(statistics).merged(self._min_bucket)
            whole = self.count_records(statistics) >= self._min_bucket
            arrays = {"counts": statistics["counts"], "votes": votes}
            zero = Statistics.zero(self.schema)
            self._model = Statistics(self.schema, arrays) if whole else zero
        return self._model

    def _buckets(self, statistics: Statistics) -> Buckets:
        return Buckets(statistics["votes"], len(self._labels), self._signatures.vote_bits)

    def predict_votes(self, X: object) -> NDArray[Any]:
        """Return the class with the most votes in the buckets of a row.

        In each table, the longest prefix of the row's signature that `min_bucket` examples have is
        a bucket. It adds the shares of the classes, divided by its number of examples.

        Parameters
        ----------
        X
            See `predict`.

        Returns
        -------
        ndarray
            One class per row.
        """
        model = self.publish()
        counts = model["counts"].dense(len(self._labels)).low
        if not np.any(counts > 0):
            raise NotLearned(
                f"{self.example_count} examples are learned, so no class can be predicted by "
                f"votes; learn at least min_bucket = {self._min_bucket}"
            )
        vectors = quantised(self._as_rows(X), self._grid, clip=True)
        numbers = self._signatures.buckets_of(self._signatures.of(vectors))
        votes = self._buckets(model).votes(numbers.ravel(), self._min_bucket)
        self._work = Work(self._cost(len(vectors)).operations + votes.size, 8 * votes.size)
        by_table = votes.reshape(*numbers.shape, len(self._labels))
        return self._labels.decode(winners(by_table, int(np.argmax(counts))))

    def derived_arrays(self) -> Arrays:
        """Return `classes`, `class_counts`, and table, bucket, class and count of each vote.

        They are those of the published model: a bucket is the first one of a common prefix.
        """
        model, classes = self.publish(), len(self._labels)
        votes, vote_bits = model["votes"], self._signatures.vote_bits
        buckets = votes.indices // classes
        return {
            **super().derived_arrays(),
            "class_counts": model["counts"].dense(classes).low,
            "vote_table": buckets >> vote_bits,
            "vote_bucket": buckets & ((1 << vote_bits) - 1),
            "vote_class": votes.indices % classes,
            "vote_count": votes.values.low,
        }

    def predict_federated(self, X: object) -> NDArray[Any]:
        """Return `predict_votes`: a model that has statistics only holds no examples."""
        return self.predict_votes(X)

    def _forget_model(self) -> None:
        self._model = None

    def _derived(self) -> SparseVector:
        """Return the shares of classes in short buckets: longer ones change with every example."""
        votes, classes = self.statistics["votes"], len(self._labels)
        buckets = votes.indices // classes >> max(0, self._signatures.vote_bits - _CHANGE_BITS)
        short = Entries.summed(buckets * classes + votes.indices % classes, votes.values)
        _, member = np.unique(short.indices // classes, return_inverse=True)
        values = short.values.to_float()
        return short.indices, values / np.bincount(member, weights=values)[member]
