"""k nearest neighbours with locality-sensitive hashing that forgets exactly.

Two classifiers on one set of signatures: `predict` looks at the examples held here, by true
distance; `predict_votes` knows only how many examples of each class fell into each short bucket,
which is all that leaves a worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dealfl.cells import Proposal, Storage
from dealfl.errors import BadInput, Impossible, NotLearned
from dealfl.fixedpoint import FixedPoint
from dealfl.integers import Entries, Integers
from dealfl.learners import files
from dealfl.learners.base import Arrays, SparseVector
from dealfl.learners.forest import PrefixForest
from dealfl.learners.inputs import (
    Labels,
    as_matrix,
    dense_blocks,
    require_integer,
)
from dealfl.learners.limits import DataLimits
from dealfl.learners.records import RowLearner
from dealfl.learners.settings import (
    CandidateCount,
    Clip,
    FeatureBound,
    FractionBits,
    NeighborCount,
    Offset,
    PlaneSeed,
    SignatureBits,
    TableCount,
    VoteBits,
)
from dealfl.learners.signatures import Signatures
from dealfl.learners.slab import Slab, as_ids
from dealfl.learners.votes import commonest_nearest, winners
from dealfl.learners.workloads import HIGHEST, LABELLED, Workload, labelled_rows
from dealfl.schema import ArraySpec, Schema, Setting
from dealfl.statistics import Statistics
from dealfl.work import Cycles, LearnerCycles, Work

__all__ = ["Neighbors"]

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

_MAX_FEATURES = 1 << 15
_MAX_BITS = 24
_BLOCK_ROWS = 2048


class Neighbors(RowLearner):
    """k nearest neighbours among candidates that share a long prefix of a signature.

    Distance is Euclidean in the units of the features, on a common grid; |x − offset| must lie
    within the bound, and hyperplanes pass through the offset. Order is total: distance, then
    class, then id.

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
    cycles = LearnerCycles(Cycles(0.259, 1269000), Cycles(15.2, 1247000), Cycles(0.4216, 7227000))
    workload = Workload(LABELLED | {"offset": HIGHEST / 2}, labelled_rows, 10, 2_000)

    def __init__(
        self,
        n_features: int,
        classes: ArrayLike,
        k: NeighborCount = 10,
        tables: TableCount = 16,
        bits: SignatureBits = 60,
        vote_bits: VoteBits = 12,
        seed: PlaneSeed = 0,
        feature_bound: FeatureBound = 1.0,
        offset: Offset = 0.0,
        *,
        enough: CandidateCount = 16,
        fraction_bits: FractionBits = 20,
        clip: Clip = False,
        storage: Storage | None = None,
    ) -> None:
        features = require_integer(n_features, "n_features", 1, _MAX_FEATURES)
        grid_bits = require_integer(fraction_bits, "fraction_bits", 1, _MAX_BITS)
        self._k = require_integer(k, "k", 1, 1 << 20)
        self._enough = require_integer(enough, "enough", 1, 1 << 20)
        self._labels = Labels(classes)
        self._grid = FixedPoint.of(features, feature_bound, grid_bits, offset=offset, shared=True)
        self._signatures = Signatures(features, tables, bits, vote_bits, seed)
        shape: dict[str, Setting] = {
            "n_features": features,
            "classes": self._labels.values.tolist(),
            "tables": self._signatures.tables,
            "vote_bits": self._signatures.vote_bits,
            "bits": self._signatures.bits,
            "seed": self._signatures.seed,
        }
        arrays = (
            ArraySpec("counts", len(self._labels)),
            ArraySpec("votes", self._signatures.buckets * len(self._labels)),
        )
        super().__init__(Schema(self.name, shape | self._grid.settings(), arrays), storage)
        self._clip = clip
        self._slab = Slab(features)
        self._forest = PrefixForest(self._signatures.tables, self._signatures.bits)

    @classmethod
    def settings_for(cls, data: DataLimits) -> dict[str, Any]:
        """Return the arguments of a learner for data with these limits."""
        domain = data.domain_for(cls.name)
        return {
            "n_features": domain.n_features,
            "classes": data.classes,
            "feature_bound": domain.radius,
            "offset": domain.centre,
        }

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that make an empty learner like this one."""
        return {
            "n_features": self.n_features,
            "classes": self._labels.values.tolist(),
            "k": self._k,
            "tables": self._signatures.tables,
            "bits": self._signatures.bits,
            "vote_bits": self._signatures.vote_bits,
            "seed": self._signatures.seed,
            "feature_bound": self._grid.bound.tolist(),
            "offset": self._grid.offset.tolist(),
            "enough": self._enough,
            "fraction_bits": self._grid.fraction_bits,
            "clip": self._clip,
        }

    @property
    def n_features(self) -> int:
        """How many features a row has."""
        return len(self._grid.bound)

    @property
    def example_count(self) -> int:
        """How many examples were learned, by anybody."""
        return int(self._state.whole("counts").low.sum())

    def __len__(self) -> int:
        """Return how many examples are held here."""
        return len(self._slab)

    def learn(self, X: object, y: object, ids: object = None) -> Statistics:
        """Add examples, under ids of the caller's or the smallest free ones."""
        vectors = self._quantised(X, clip=self._clip)
        codes = self._labels.encode(y, len(vectors))
        numbers = self._slab.new_ids(len(vectors)) if ids is None else as_ids(ids, len(vectors))
        self._slab.require_new(numbers)
        keys = self._signatures.of(vectors)
        delta = self._apply(self._delta(keys, codes, +1), forgetting=False)
        self._forest.add(self._slab.add(numbers, vectors, codes), keys)
        self._work = self._cost(len(vectors))
        return delta

    def forget(self, X: object = None, y: object = None, ids: object = None) -> Statistics:
        """Remove examples by id, or by value: of equal ones, those with the smallest ids."""
        slots = self._slots_of_ids(ids) if ids is not None else self._slots_of_values(X, y)
        vectors, codes = self._slab.vectors[slots], self._slab.codes[slots].astype(np.int64)
        keys = self._signatures.of(vectors)
        delta = self._apply(self._delta(keys, codes, -1), forgetting=True)
        self._forest.remove(slots, keys)
        self._slab.remove(slots)
        self._work = self._cost(len(slots))
        return delta

    def _cost(self, rows: int) -> Work:
        planes = self._signatures.tables * self._signatures.bits
        counters = self._signatures.tables + 1
        operations = rows * (self.n_features * planes + counters)
        return Work(operations, rows * (8 * self.n_features + 2 * 8 * counters))

    def _quantised(self, X: object, *, clip: bool) -> NDArray[np.int32]:
        matrix = as_matrix(X, self.n_features)
        vectors = np.empty((matrix.shape[0], self.n_features), dtype=np.int32)
        for first, block in dense_blocks(matrix, _BLOCK_ROWS):
            vectors[first : first + len(block)] = self._grid.quantise(block, first, clip=clip)
        return vectors

    def _delta(self, keys: NDArray[np.uint64], codes: Int64s, sign: int) -> Statistics:
        counts = np.bincount(codes, minlength=len(self._labels))
        places = self._signatures.buckets_of(keys) * len(self._labels) + codes[:, None]
        indices, votes = np.unique(places, return_counts=True)
        arrays = {
            "counts": Entries.of_dense(Integers(sign * counts)),
            "votes": Entries(indices, Integers(sign * votes.astype(np.int64))),
        }
        return Statistics(self.schema, arrays)

    def _slots_of_ids(self, ids: object) -> Int64s:
        numbers = as_ids(ids, None)
        if len(np.unique(numbers)) != len(numbers):
            raise BadInput("an id is given twice; each example can be forgotten once")
        return self._slab.slots(numbers)

    def _slots_of_values(self, X: object, y: object) -> Int64s:
        vectors = self._quantised(X, clip=self._clip)
        codes = self._labels.encode(y, len(vectors))
        keys = self._signatures.of(vectors)
        taken: list[int] = []
        for row, (vector, code) in enumerate(zip(vectors, codes, strict=True)):
            slots = self._forest.equal(keys[row, 0])
            same = np.all(self._slab.vectors[slots] == vector, axis=1)
            equal = slots[same & (self._slab.codes[slots] == code)]
            free = [slot for slot in equal.tolist() if slot not in taken]
            if not free:
                raise NotLearned(f"row {row} is not among the {len(self)} examples held")
            taken.append(min(free, key=lambda slot: int(self._slab.ids[slot])))
        return np.array(taken, dtype=np.int64)

    def _refuse_unlearned(self, proposals: Mapping[str, Proposal]) -> None:
        if any(np.any(proposal.values.negative) for proposal in proposals.values()):
            raise NotLearned("forgetting examples that were never learned: a count below zero")

    def check(self) -> None:
        """Raise `Impossible` if no set of examples can have these statistics."""
        counts = self._state.whole("counts").low
        votes = self._state.snapshot()["votes"]
        if np.any(counts < 0) or np.any(votes.values.negative):
            raise Impossible("a count below zero")
        classes = len(self._labels)
        table_size = self._signatures.buckets // self._signatures.tables * classes
        sums = np.zeros((self._signatures.tables, classes), dtype=np.int64)
        np.add.at(sums, (votes.indices // table_size, votes.indices % classes), votes.values.low)
        wrong = np.argwhere(sums != counts)
        if len(wrong):
            table, code = wrong[0]
            raise Impossible(
                f"table {table} counts {sums[table, code]} examples of the class "
                f"{self._labels.values[code]}, but {counts[code]} were learned"
            )

    # -- the examples held here -----------------------------------------------------------------

    def nearest(self, X: object, k: int | None = None) -> list[tuple[Int64s, Floats]]:
        """Return ids and distances of up to k held examples for each row.

        The nearest come first, equally near ones by id. Queries outside the bounds are moved there.
        """
        count = self._k if k is None else require_integer(k, "k", 1, 1 << 20)
        unit = float(self._grid.scale[0])
        found = []
        for slots, squares in self._candidates(X, count):
            order = np.lexsort((self._slab.ids[slots], squares))[:count]
            distances = np.sqrt(squares[order].astype(np.float64)) / unit
            found.append((self._slab.ids[slots[order]], distances))
        return found

    def predict(self, X: object) -> NDArray[Any]:
        """Return the class most common among the k nearest examples held here.

        Examples tied at the k-th distance share the places left, so that the answer depends on
        the examples alone, not on their ids or the order in which they came.
        """
        found = [
            commonest_nearest(squares, self._slab.codes[slots], self._k)
            for slots, squares in self._candidates(X, self._k)
        ]
        return self._labels.decode(np.array(found, dtype=np.int64))

    def _candidates(self, X: object, k: int) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield for each row the slots worth a look and their exact squared distances."""
        vectors = self._quantised(X, clip=True)
        if not len(self._slab):
            raise NotLearned("no example is held here; predict_votes uses the statistics alone")
        self._work = self._cost(len(vectors))
        keys = self._signatures.of(vectors)
        for vector, slots in zip(
            vectors, self._forest.candidates(keys, max(self._enough, k)), strict=True
        ):
            offsets = self._slab.vectors[slots].astype(np.int64) - vector
            self._work = self._work + Work(offsets.size, 4 * offsets.size)
            yield slots, np.einsum("ij,ij->i", offsets, offsets)

    # -- the votes of everybody -----------------------------------------------------------------

    def predict_votes(self, X: object) -> NDArray[Any]:
        """Return the class with the largest mean, over tables, of its share in the bucket."""
        if not np.any(self._state.whole("counts").low > 0):
            raise NotLearned("no example has been learned; there is no class to predict")
        buckets = self._signatures.buckets_of(self._signatures.of(self._quantised(X, clip=True)))
        classes = len(self._labels)
        places = buckets[:, :, None] * classes + np.arange(classes)
        votes = self._state.cells("votes").at(places.ravel()).low.reshape(places.shape)
        self._work = Work(self._cost(len(votes)).operations + votes.size, 8 * votes.size)
        commonest = int(np.argmax(self._state.whole("counts").low))
        return self._labels.decode(winners(votes, commonest))

    def score(self, X: object, y: object) -> float:
        """Return the share of rows whose class `predict` finds."""
        return self._labels.share_right(self.predict(X), y)

    def score_votes(self, X: object, y: object) -> float:
        """Return the share of rows whose class `predict_votes` finds."""
        return self._labels.share_right(self.predict_votes(X), y)

    def derived_arrays(self) -> Arrays:
        """Return classes, their counts, and the votes in each bucket that holds some."""
        votes, classes = self._state.snapshot()["votes"], len(self._labels)
        buckets, vote_bits = votes.indices // classes, self._signatures.vote_bits
        return {
            "classes": self._labels.values,
            "class_counts": self._state.whole("counts").low,
            "vote_table": buckets >> vote_bits,
            "vote_bucket": buckets & ((1 << vote_bits) - 1),
            "vote_class": votes.indices % classes,
            "vote_count": votes.values.low,
        }

    @property
    def federated(self) -> bool:
        """Whether no example is held here; then only votes can predict."""
        return not len(self)

    def predict_federated(self, X: object) -> NDArray[Any]:
        """Return what `predict_votes` says: a model of statistics alone holds no examples."""
        return self.predict_votes(X)

    def score_federated(self, X: object, y: object) -> float:
        """Return what `score_votes` says."""
        return self.score_votes(X, y)

    def _forget_model(self) -> None:
        """Votes are read from the statistics; there is nothing to drop."""

    def _derived(self) -> SparseVector:
        votes = self._state.snapshot()["votes"]
        buckets, member = np.unique(votes.indices // len(self._labels), return_inverse=True)
        totals = np.bincount(member, weights=votes.values.to_float(), minlength=len(buckets))
        return votes.indices, votes.values.to_float() / totals[member]

    # -- files ----------------------------------------------------------------------------------

    def _sections(self) -> dict[str, bytes]:
        return super()._sections() | self._slab.sections()

    def _restore(self, saved: files.SavedLearner) -> None:
        super()._restore(saved)
        slots = self._slab.read(*(saved.section(name) for name in ("ids", "codes", "vectors")))
        self._forest.add(slots, self._signatures.of(self._slab.vectors[slots]))
