"""The k nearest neighbours with locality-sensitive hashing that forgets exactly.

There are two classifiers on one set of signatures. `predict` compares the examples held here by
true distance. `predict_votes` uses only the number of examples of each class in each bucket of
signatures; only these numbers leave a worker.

Statistics count whole buckets of `vote_bits` bits, so counts of all prefixes follow from them. A
published model merges buckets until each has `min_bucket` examples, because long ones identify
people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from dealfl.errors import BadInput, Impossible, NotLearned
from dealfl.exact import (
    ArraySpec,
    Cells,
    Cycles,
    Deferred,
    Entries,
    FixedPoint,
    Integers,
    LearnerCycles,
    Proposal,
    Schema,
    Setting,
    Statistics,
    Storage,
    Work,
    in_memory,
)
from dealfl.learners.base import Arrays, SparseVector, Undo
from dealfl.learners.description import HIGHEST, LABELLED, DataLimits, Workload, labelled_rows
from dealfl.learners.inputs import (
    Clip,
    FeatureBound,
    FractionBits,
    Labels,
    Offset,
    quantised,
    require_integer,
)
from dealfl.learners.neighbors.examples import CandidateCount, HeldExamples, NeighborCount
from dealfl.learners.neighbors.signatures import (
    Buckets,
    Digits,
    DirectionFeatures,
    DirectionSeed,
    SignatureBits,
    Signatures,
    TableCount,
    VoteBits,
    winners,
)
from dealfl.learners.row_learner import Classifier
from dealfl.learners.saved import SavedLearner
from dealfl.settings import Count

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Keys = NDArray[np.uint64]
Points = NDArray[np.int32]

MinBucket = Annotated[
    Count, Meta(description="smallest number of examples in a bucket of a published model")
]

_MAX_FEATURES = 1 << 15
_MAX_BITS = 24
_DISTANCE_BITS = 63
_CHANGE_BITS = 12  # of the buckets that are compared by `change`
_NO_SLOTS = np.empty(0, np.int64)


class Neighbors(Classifier):
    """The k nearest neighbours among candidates that share a long prefix of a signature.

    The distance is Euclidean in the units of the features, on a common grid. |x − offset| must not
    exceed the bound; directions start near the offset. The order is total: distance, class, id.

    Parameters
    ----------
    n_features : int
        Number of features.
    classes : array_like
        Distinct numbers or strings.
    k : int, default 10
        Number of neighbours that vote.
    tables : int, default 16
        Number of hash tables.
    bits : int, default 60
        Length of a signature, 1 to 63.
    vote_bits : int, default 48
        Leading bits of a signature that are counted; all if it has fewer.
    seed : int, default 0
        Seed of the directions.
    feature_bound : float or array_like, default 1.0
        Largest magnitude of the features after the offset, one number or one per feature.
    offset : float or array_like, default 0.0
        Centre of the features, one number or one per feature; it is subtracted.
    min_bucket : int, default 5
        Smallest number of examples in a bucket of a published model, and of `predict_votes`.
    digits : int, default 2
        Binary digits of the projection on each direction: few for yes-or-no features, 6 for
        measurements.
    direction_features : int, default 2
        Number of features that each direction depends on, drawn in proportion to their bounds;
        0 stands for all features, which suits measurements.
    enough : int, default 16
        Number of candidates per table that are compared.
    fraction_bits : int, default 20
        Bits that features are rounded to, 1 to 24.
    clip : bool, default False
        Move values outside the bounds to the nearest bound instead of raising an error.
    storage : callable, optional
        Creates the cells of an array; by default in memory.

    References
    ----------
    .. [1] M. Charikar: Similarity estimation techniques from rounding algorithms. STOC 2002.
    .. [2] M. Bawa, T. Condie, P. Ganesan: LSH forest. WWW 2005.

    Examples
    --------
    >>> model = Neighbors(n_features=1, classes=["low", "high"], k=1, feature_bound=8.0)
    >>> delta = model.learn([[1.0], [6.0]], ["low", "high"], ids=[10, 11])
    >>> model.predict([[5.0]]).tolist()
    ['high']
    >>> delta = model.forget(ids=[11])
    >>> model.predict([[5.0]]).tolist()
    ['low']
    """

    name = "neighbors"
    tasks = ("classification",)
    feature_map = "thermometer"
    cycles = LearnerCycles(
        Cycles(0.508, 1.18e6),
        Cycles(1.509, 872200),
        Cycles(0.425, 339700),
        Cycles(0.567, 1.2e6),
        Cycles(0.176, 5.41e6),
    )
    workload = Workload(LABELLED | {"offset": HIGHEST / 2}, labelled_rows, 10, 2_000)

    def __init__(
        self,
        n_features: int,
        classes: ArrayLike,
        k: NeighborCount = 10,
        tables: TableCount = 16,
        bits: SignatureBits = 60,
        vote_bits: VoteBits = 48,
        seed: DirectionSeed = 0,
        feature_bound: FeatureBound = 1.0,
        offset: Offset = 0.0,
        *,
        min_bucket: MinBucket = 5,
        digits: Digits = 2,
        direction_features: DirectionFeatures = 2,
        enough: CandidateCount = 16,
        fraction_bits: FractionBits = 20,
        clip: Clip = False,
        storage: Storage | None = None,
    ) -> None:
        features = require_integer(n_features, "n_features", 1, _MAX_FEATURES)
        grid_bits = require_integer(fraction_bits, "fraction_bits", 1, _MAX_BITS)
        self._k = require_integer(k, "k", 1, 1 << 20)
        self._enough = require_integer(enough, "enough", 1, 1 << 20)
        grid = FixedPoint.of(features, feature_bound, grid_bits, offset=offset, shared=True)
        signatures = Signatures(
            grid.limits, tables, bits, vote_bits, seed, digits, direction_features
        )
        longest = sum((2 * limit) ** 2 for limit in grid.limits.tolist()).bit_length()
        if (excess := longest - _DISTANCE_BITS) > 0:
            need = f"so squared distances of {features} features need {longest} bits: give at most"
            most = grid_bits - (excess + 1) // 2
            raise BadInput(f"fraction_bits is {grid_bits}, {need} {most}")
        labels = Labels(classes)
        shape: dict[str, Setting] = {"n_features": features, "classes": labels.tolist()}
        shape |= signatures.settings() | grid.settings(clip=True)  # directions depend on bounds
        if not clip:
            del shape["clip"]
        arrays = (
            ArraySpec("counts", len(labels)),
            ArraySpec("votes", signatures.cells(len(labels))),
        )

        def stored(spec: ArraySpec) -> Cells:
            return in_memory(spec) if storage is None or spec.name == "votes" else storage(spec)

        super().__init__(Schema(self.name, shape, arrays), stored)
        self._min_bucket = require_integer(min_bucket, "min_bucket", 1, 1 << 40)
        self._labels = labels
        self._grid = grid
        self._signatures = signatures
        self._clip = clip
        self._model: Statistics | None = None  # the published one
        self._examples = HeldExamples(signatures, features, len(labels))
        self._merged = False  # whether statistics of other workers were added
        self._no_rows = np.empty((0, features)), np.empty(0, labels.values.dtype)

    @classmethod
    def settings_for(cls, data: DataLimits) -> dict[str, Any]:
        """Return the constructor arguments for data with these limits."""
        domain = data.domain_for(cls.name)
        return {
            "n_features": domain.n_features,
            "classes": data.classes,
            "feature_bound": domain.radius,
            "offset": domain.centre,
        }

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor arguments of an equal, empty learner."""
        return {
            "n_features": self.n_features,
            "classes": self._labels.tolist(),
            "k": self._k,
            **self._signatures.settings(),
            "min_bucket": self._min_bucket,
            "feature_bound": self._grid.bound.tolist(),
            "offset": self._grid.offset.tolist(),
            "enough": self._enough,
            "fraction_bits": self._grid.fraction_bits,
            "clip": self._clip,
        }

    def __len__(self) -> int:
        """Return the number of examples held here."""
        return len(self._examples)

    @property
    def federated(self) -> bool:
        """Whether no example is held here, so that only votes can predict."""
        return not self._examples

    @property
    def max_entry(self) -> int:
        """The largest integer that one record adds to a count."""
        return 1

    def count_records(self, statistics: Statistics) -> int:
        """Return the number of examples in statistics."""
        return sum(statistics["counts"].values.tolist())

    # -- how examples change the integers ---------------------------------------------------------

    def learn(self, X: object, y: object, ids: object = None) -> Statistics:
        """Add examples.

        Parameters
        ----------
        X, y
            See `RowLearner.learn`.
        ids : array_like of int, optional
            Distinct, unused ids below 2^62; by default the numbers after the largest id held.

        Returns
        -------
        Statistics
            The statistics that were added.
        """
        return self._atomically(self._learn, X, y, ids)

    def _learn(self, X: object, y: object, ids: object, undo: Undo) -> Statistics:
        points = self._as_points(X, y)
        new = self._examples.new_ids(len(points), ids)
        return self._exchange(points, new, _NO_SLOTS, X, undo)

    def forget(self, X: object = None, y: object = None, ids: object = None) -> Statistics:
        """Remove examples, by id or by value; the result is as if they had never been learned.

        Parameters
        ----------
        X, y
            Examples to remove, if `ids` is not given; of equal ones, the smallest ids go.
        ids : array_like of int, optional
            Ids of the examples.

        Returns
        -------
        Statistics
            The (negative) statistics that were added.
        """
        return self._atomically(self._forget, X, y, ids)

    def _forget(self, X: object, y: object, ids: object, undo: Undo) -> Statistics:
        return self._changed(*self._remove(self._slots(X, y, ids), undo))

    def _slots(self, X: object, y: object, ids: object = None) -> Int64s:
        """Return where examples are held, by id or by value."""
        if ids is not None:
            return self._examples.slots_of(ids)
        return self._equal(self._as_points(X, y))

    def update(self, learn: tuple[Any, ...] = (), forget: tuple[Any, ...] = ()) -> Statistics:
        """Add and remove examples in one pass; on any error nothing changes."""
        return self._atomically(self._learn_and_forget, learn, forget)

    def _learn_and_forget(
        self, learn: tuple[Any, ...], forget: tuple[Any, ...], undo: Undo
    ) -> Statistics:
        X, y, *ids = learn or self._no_rows
        gained = self._as_points(X, y)
        slots = self._slots(*(forget or self._no_rows))
        new = self._examples.new_ids(len(gained), *ids)
        return self._exchange(gained, new, slots, X if learn else None, undo)

    def _update(self, points: Points, signs: Int64s, ids: Sequence[int], undo: Undo) -> Statistics:
        gained, lost, numbers = points[signs > 0], points[signs < 0], np.array(ids, np.int64)
        slots = self._examples.slots_of(numbers[signs < 0]) if ids else self._equal(lost)
        new = self._examples.new_ids(len(gained), numbers[signs > 0] if ids else None)
        return self._exchange(gained, new, slots, None, undo)

    def _equal(self, points: Points) -> Int64s:
        return self._examples.slots_of_equal(points[:, 1:-1], points[:, -1])

    def _exchange(
        self, points: Points, ids: Int64s, slots: Int64s, X: object, undo: Undo
    ) -> Statistics:
        """Learn rows of integers under new ids, and forget the examples in some slots."""
        self._remember_names(X, undo)
        codes, keys = points[:, -1].astype(np.int64), self._signatures.of(points[:, 1:-1])
        gone, lost = self._remove(slots, undo) if len(slots) else (keys[:0], codes[:0])
        undo.append((self._examples.take_back, ids))
        self._examples.add(ids, points[:, 1:-1], codes, keys)
        return self._changed(np.concatenate([gone, keys]), np.r_[lost, codes], new=len(codes))

    def _cost(self, rows: int) -> Work:
        directions = self._signatures.directions
        counters = self._signatures.tables + 1
        operations = rows * (self.n_features * directions + counters)
        return Work(operations, rows * (8 * self.n_features + 2 * 8 * counters))

    def _signed(self, points: Points, signs: Int64s) -> Statistics:
        keys, codes = self._signatures.of(points[:, 1:-1]), points[:, -1:].astype(np.int64)
        return Statistics(self.schema, self._arrays(keys, codes, signs))

    def _arrays(self, keys: Keys, codes: Int64s, signs: Int64s) -> dict[str, Entries]:
        """Return the statistics of examples; codes have one column, or one per table."""
        classes = len(self._labels)
        counts = np.zeros(classes, dtype=np.int64)
        np.add.at(counts, codes[:, 0], signs)
        cells = self._signatures.buckets_of(keys).astype(np.int64) * classes + codes
        votes = Integers(np.repeat(signs, self._signatures.tables))
        return {
            "counts": Entries.of_dense(Integers(counts)),
            "votes": Entries.summed(cells.ravel(), votes),
        }

    def _remove(self, slots: Int64s, undo: Undo) -> tuple[Keys, Int64s]:
        """Remove examples; `NotLearned` if merged statistics no longer count them."""
        if self._merged:
            keys = self._signatures.of(self._examples.vectors[slots])
            codes = self._examples.codes[slots, None].astype(np.int64)
            gone = Statistics(self.schema, self._arrays(keys, codes, np.full(len(codes), -1)))
            self._refuse_unlearned((self.statistics + gone).arrays)
        undo.append((self._examples.put_back, slots, *self._examples.at(slots)))
        return self._examples.remove(slots)

    def _changed(self, keys: Keys, codes: Int64s, new: int = 0) -> Statistics:
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
        with self._lock:
            return super().statistics + self._example_statistics()

    def _example_statistics(self) -> Statistics:
        signs = np.ones(len(self._examples), dtype=np.int64)
        return Statistics(self.schema, self._arrays(*self._examples.everything(), signs))

    def entries(self, name: str, start: int, stop: int) -> Entries:
        """Return a range of an array of the statistics."""
        with self._lock:
            if self._examples:
                return self.statistics[name].between(start, stop)
            return super().entries(name, start, stop)

    def digest(self) -> str:
        """Return the digest of the statistics: equal if and only if schema and values are."""
        with self._lock:
            return self.statistics.digest() if self._examples else super().digest()

    def _merge(self, delta: Statistics, undo: Undo) -> None:
        undo.append((setattr, self, "_merged", self._merged))
        self._merged = True
        super()._merge(delta, undo)

    def _sections(self) -> dict[str, bytes]:
        return super()._sections() | self._examples.sections()

    def _restore(self, saved: SavedLearner) -> None:
        self._examples.restore(*(saved.section(name) for name in ("ids", "codes", "vectors")))
        super()._restore(saved)
        if self._examples:
            self.merge(-self._example_statistics())
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

    # -- predictions from the examples held here --------------------------------------------------

    def nearest(self, X: object, k: int | None = None) -> list[tuple[Int64s, Floats]]:
        """Return the nearest held examples of each row.

        Parameters
        ----------
        X
            See `predict`; values outside the bounds are clipped.
        k : int, optional
            Largest number of examples; by default the setting `k`.

        Returns
        -------
        list of (ndarray of int64, ndarray of float64)
            Ids and distances for each row, the nearest first, equally near ones by id.
        """
        count = self._k if k is None else require_integer(k, "k", 1, 1 << 20)
        unit = float(self._grid.scale[0])
        with self._lock:
            vectors = self._queries(X)
            nearest, candidates = self._examples.nearest(vectors, max(self._enough, count), count)
            self._note_search(len(vectors), candidates)
        return [(ids, np.sqrt(squares.astype(np.float64)) / unit) for ids, squares in nearest]

    def find_used(self, X: object) -> list[int] | None:
        """Return the ids of the held examples that vote in `predict`."""
        with self._lock:
            return self._examples.voters(self._queries(X), max(self._enough, self._k), self._k)

    def predict(self, X: object) -> NDArray[Any]:
        """Return the most common class of the k nearest held examples; `NotLearned` without any.

        Examples tied at the k-th distance share the remaining places: ids and order do not matter.
        """
        return self._labels.decode(np.argmax(self._votes(X), axis=1))

    def predict_proba(self, X: object) -> Floats:
        """Return the share of each class among the k nearest examples, as `predict` counts them.

        Parameters
        ----------
        X
            See `predict`.

        Returns
        -------
        ndarray of float64
            Rows by classes.
        """
        votes = self._votes(X)
        return np.asarray(votes / votes.sum(axis=1, keepdims=True))

    def _votes(self, X: object) -> Int64s:
        with self._lock:
            vectors = self._queries(X)
            votes, candidates = self._examples.votes(vectors, max(self._enough, self._k), self._k)
            self._note_search(len(vectors), candidates)
            return votes

    def _queries(self, X: object) -> Points:
        vectors = quantised(self._as_rows(X), self._grid, clip=True)
        if not self._examples:
            raise NotLearned("no example is held here; predict_votes needs statistics only")
        return vectors

    def _note_search(self, rows: int, candidates: int) -> None:
        compared = candidates * self.n_features
        self._work = self._cost(rows) + Work(compared, 4 * compared)

    # -- the federated model: votes of buckets ----------------------------------------------------

    def publish(self) -> Statistics:
        """Return statistics in which each bucket has at least `min_bucket` examples.

        Buckets with too few are counted in another one with a common prefix, so the sums of tables
        stay the same and nothing can be computed from differences. Predictions by votes are equal.

        Returns
        -------
        Statistics
            The statistics; zero if fewer than `min_bucket` examples are learned.
        """
        with self._lock:
            if self._model is None:
                self._model = self._published()
            return self._model

    def _published(self) -> Statistics:
        statistics = self.statistics
        if self.count_records(statistics) < self._min_bucket:
            return Statistics.zero(self.schema)
        votes = self._buckets(statistics).merged(self._min_bucket)
        return Statistics(self.schema, {"counts": statistics["counts"], "votes": votes})

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
