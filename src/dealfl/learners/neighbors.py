"""k nearest neighbours with locality-sensitive hashing that forgets exactly.

Two classifiers on one set of signatures: `predict` looks at the examples held here, by true
distance; `predict_votes` knows only how many examples of each class fell into each short bucket,
which is all that leaves a worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dealfl.cells import Storage
from dealfl.errors import NotLearned
from dealfl.fixedpoint import FixedPoint
from dealfl.learners.held_examples import CandidateCount, HeldExamples, NeighborCount
from dealfl.learners.inputs import (
    Clip,
    FeatureBound,
    FractionBits,
    Labels,
    Offset,
    quantised,
    require_integer,
)
from dealfl.learners.limits import DataLimits
from dealfl.learners.saved import SavedLearner
from dealfl.learners.signatures import PlaneSeed, SignatureBits, Signatures, TableCount, VoteBits
from dealfl.learners.votes import BucketVotes
from dealfl.learners.workloads import HIGHEST, LABELLED, Workload, labelled_rows
from dealfl.statistics import Statistics
from dealfl.work import Cycles, LearnerCycles, Work

__all__ = ["Neighbors"]

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

_MAX_FEATURES = 1 << 15
_MAX_BITS = 24


class Neighbors(BucketVotes):
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
    feature_map = "thermometer"
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
        grid = FixedPoint.of(features, feature_bound, grid_bits, offset=offset, shared=True)
        signatures = Signatures(features, tables, bits, vote_bits, seed)
        super().__init__(Labels(classes), grid, signatures, storage)
        self._clip = clip
        self._held = HeldExamples(self._signatures, features)

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
            "classes": self._labels.tolist(),
            "k": self._k,
            **self._signatures.settings(),
            "feature_bound": self._grid.bound.tolist(),
            "offset": self._grid.offset.tolist(),
            "enough": self._enough,
            "fraction_bits": self._grid.fraction_bits,
            "clip": self._clip,
        }

    def __len__(self) -> int:
        """Return how many examples are held here."""
        return len(self._held)

    def learn(self, X: object, y: object, ids: object = None) -> Statistics:
        """Add examples, under ids of the caller's or the smallest free ones."""
        vectors = quantised(self._as_rows(X), self._grid, clip=self._clip)
        codes = self._labels.encode(y, len(vectors))
        numbers = self._held.new_ids(len(vectors), ids)
        keys = self._signatures.of(vectors)
        delta = self._apply(self._delta(keys, codes, +1), forgetting=False)
        self._held.add(numbers, vectors, codes, keys)
        self._remember_names(X)
        self._work = self._cost(len(vectors))
        return delta

    def forget(self, X: object = None, y: object = None, ids: object = None) -> Statistics:
        """Remove examples by id, or by value: of equal ones, those with the smallest ids."""
        if ids is None:
            equal = quantised(self._as_rows(X), self._grid, clip=self._clip)
            slots = self._held.slots_of_equal(equal, self._labels.encode(y, len(equal)))
        else:
            slots = self._held.slots_of(ids)
        vectors, codes = self._held.vectors[slots], self._held.codes[slots].astype(np.int64)
        keys = self._signatures.of(vectors)
        delta = self._apply(self._delta(keys, codes, -1), forgetting=True)
        self._held.remove(slots, keys)
        self._work = self._cost(len(slots))
        return delta

    # -- the examples held here -----------------------------------------------------------------

    def nearest(self, X: object, k: int | None = None) -> list[tuple[Int64s, Floats]]:
        """Return ids and distances of up to k held examples for each row.

        The nearest come first, equally near ones by id. Queries outside the bounds are moved there.
        """
        count = self._k if k is None else require_integer(k, "k", 1, 1 << 20)
        unit = float(self._grid.scale[0])
        found = []
        for slots, squares in self._candidates(X, count):
            order = np.lexsort((self._held.ids[slots], squares))[:count]
            distances = np.sqrt(squares[order].astype(np.float64)) / unit
            found.append((self._held.ids[slots[order]], distances))
        return found

    def predict(self, X: object) -> NDArray[Any]:
        """Return the class most common among the k nearest examples held here.

        Examples tied at the k-th distance share the places left, so that the answer depends on
        the examples alone, not on their ids or the order in which they came.
        """
        found = [
            self._held.commonest(slots, squares, self._k)
            for slots, squares in self._candidates(X, self._k)
        ]
        return self._labels.decode(np.array(found, dtype=np.int64))

    def _candidates(self, X: object, k: int) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield for each row the slots worth a look and their exact squared distances."""
        vectors = quantised(self._as_rows(X), self._grid, clip=True)
        if not self._held:
            raise NotLearned("no example is held here; predict_votes uses the statistics alone")
        self._work = self._cost(len(vectors))
        for slots, squares in self._held.near(vectors, max(self._enough, k)):
            compared = len(slots) * self.n_features
            self._work = self._work + Work(compared, 4 * compared)
            yield slots, squares

    @property
    def federated(self) -> bool:
        """Whether no example is held here; then only votes can predict."""
        return not self._held

    def _sections(self) -> dict[str, bytes]:
        return super()._sections() | self._held.sections()

    def _restore(self, saved: SavedLearner) -> None:
        super()._restore(saved)
        self._held.restore(*(saved.section(name) for name in ("ids", "codes", "vectors")))
