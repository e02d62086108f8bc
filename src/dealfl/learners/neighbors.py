"""The k nearest neighbours with locality-sensitive hashing that forgets exactly.

There are two classifiers on one set of signatures. `predict` compares the examples held here by
true distance. `predict_votes` uses only the number of examples of each class in each short bucket;
only these numbers leave a worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dealfl.cells import Storage
from dealfl.errors import BadInput, NotLearned
from dealfl.fixedpoint import FixedPoint
from dealfl.learners.description import DataLimits, Workload
from dealfl.learners.held_examples import CandidateCount, HeldExamples, NeighborCount
from dealfl.learners.inputs import (
    Clip,
    FeatureBound,
    FractionBits,
    Offset,
    quantised,
    require_integer,
)  # fmt: skip
from dealfl.learners.labels import Labels
from dealfl.learners.saved import SavedLearner
from dealfl.learners.votes import (
    BucketVotes,
    PlaneSeed,
    SignatureBits,
    Signatures,
    TableCount,
    VoteBits,
)  # fmt: skip
from dealfl.learners.workloads import HIGHEST, LABELLED, labelled_rows
from dealfl.statistics import Statistics
from dealfl.work import Cycles, LearnerCycles, Work

__all__ = ["Neighbors"]

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Points = NDArray[np.int32]

_MAX_FEATURES, _MAX_BITS, _DISTANCE_BITS = 1 << 15, 24, 63
_NONE = np.empty(0, dtype=np.int64)


class Neighbors(BucketVotes):
    """The k nearest neighbours among candidates that share a long prefix of a signature.

    The distance is Euclidean in the units of the features, on a common grid. |x − offset| must not
    exceed the bound; hyperplanes pass through the offset. The order is total: distance, class, id.

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
    vote_bits : int, default 12
        Leading bits of a signature that select a bucket of votes.
    seed : int, default 0
        Seed of the hyperplanes.
    feature_bound : float or array_like, default 1.0
        Largest magnitude of the features after the offset, one number or one per feature.
    offset : float or array_like, default 0.0
        Centre of the features, one number or one per feature; it is subtracted.
    enough : int, default 16
        Smallest number of candidates per table that are compared.
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
    cycles = LearnerCycles(Cycles(0.259, 1269000), Cycles(15.2, 1247000), Cycles(0.2194, 432700))
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
        longest = sum((2 * limit) ** 2 for limit in grid.limits.tolist()).bit_length()
        if (excess := longest - _DISTANCE_BITS) > 0:
            need = f"so squared distances of {features} features need {longest} bits: give at most"
            most = grid_bits - (excess + 1) // 2
            raise BadInput(f"fraction_bits is {grid_bits}, {need} {most}")
        super().__init__(Labels(classes), grid, signatures, clip=clip, storage=storage)
        self._held = HeldExamples(self._signatures, features)

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
            "feature_bound": self._grid.bound.tolist(),
            "offset": self._grid.offset.tolist(),
            "enough": self._enough,
            "fraction_bits": self._grid.fraction_bits,
            "clip": self._clip,
        }

    def __len__(self) -> int:
        """Return the number of examples held here."""
        return len(self._held)

    def learn(self, X: object, y: object, ids: object = None) -> Statistics:
        """Add examples.

        Parameters
        ----------
        X, y
            See `RowLearner.learn`.
        ids : array_like of int, optional
            Distinct, unused ids; by default the smallest free ones.

        Returns
        -------
        Statistics
            The statistics that were added.
        """
        points = self._as_points(X, y)
        delta = self._exchange(points, self._held.new_ids(len(points), ids), _NONE)
        self._remember_names(X)
        return delta

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
        slots = self._held.slots_of(ids) if ids is not None else self._equal(self._as_points(X, y))
        return self._exchange(np.empty((0, self.n_features + 2), np.int32), _NONE, slots)

    def _update(self, points: Points, signs: Int64s, ids: Sequence[int]) -> Statistics:
        gained, lost, numbers = points[signs > 0], points[signs < 0], np.array(ids, np.int64)
        slots = self._held.slots_of(numbers[signs < 0]) if ids else self._equal(lost)
        new = self._held.new_ids(len(gained), numbers[signs > 0] if ids else None)
        return self._exchange(gained, new, slots)

    def _equal(self, points: Points) -> Int64s:
        return self._held.slots_of_equal(points[:, 1:-1], points[:, -1])

    def _exchange(self, points: Points, ids: Int64s, slots: Int64s) -> Statistics:
        """Learn rows of integers under new ids, and forget the examples in some slots."""
        new, codes = len(points), np.r_[points[:, -1], self._held.codes[slots]]
        vectors = np.concatenate([points[:, 1:-1], self._held.vectors[slots]])
        keys, signs = self._signatures.of(vectors), np.where(np.arange(len(vectors)) < new, 1, -1)
        delta = self._apply(self._delta(keys, codes, signs), forgetting=len(slots) > 0)
        self._held.remove(slots, keys[new:])
        self._held.add(ids, vectors[:new], codes[:new], keys[:new])
        self._work = self._cost(len(vectors))
        return delta

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
        unit, found = float(self._grid.scale[0]), []
        for slots, squares in self._candidates(X, count):
            order = np.lexsort((self._held.ids[slots], squares))[:count]
            distances = np.sqrt(squares[order].astype(np.float64)) / unit
            found.append((self._held.ids[slots[order]], distances))
        return found

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
        return np.asarray((votes := self._votes(X)) / votes.sum(axis=1, keepdims=True))

    def _votes(self, X: object) -> Int64s:
        k, classes = self._k, len(self._labels)
        found = [self._held.votes(*near, k, classes) for near in self._candidates(X, k)]
        return np.array(found, dtype=np.int64).reshape(-1, classes)

    def _candidates(self, X: object, k: int) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield the candidate slots of each row and their exact squared distances."""
        vectors = quantised(self._as_rows(X), self._grid, clip=True)
        if not self._held:
            raise NotLearned("no example is held here; predict_votes needs statistics only")
        self._work = self._cost(len(vectors))
        for slots, squares in self._held.near(vectors, max(self._enough, k)):
            compared = len(slots) * self.n_features
            self._work = self._work + Work(compared, 4 * compared)
            yield slots, squares

    @property
    def federated(self) -> bool:
        """Whether no example is held here, so that only votes can predict."""
        return not self._held

    def _sections(self) -> dict[str, bytes]:
        return super()._sections() | self._held.sections()

    def _restore(self, saved: SavedLearner) -> None:
        super()._restore(saved)
        self._held.restore(*(saved.section(name) for name in ("ids", "codes", "vectors")))
