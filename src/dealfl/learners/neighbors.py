"""The k nearest neighbours with locality-sensitive hashing that forgets exactly.

There are two classifiers on one set of signatures. `predict` compares the examples held here by
true distance. `predict_votes` uses only the number of examples of each class in each short bucket;
only these numbers leave a worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dealfl.errors import BadInput, NotLearned
from dealfl.exact import Cycles, FixedPoint, LearnerCycles, Statistics, Storage, Work
from dealfl.learners.description import HIGHEST, LABELLED, DataLimits, Workload, labelled_rows
from dealfl.learners.held_examples import CandidateCount, NeighborCount
from dealfl.learners.inputs import (
    Clip,
    FeatureBound,
    FractionBits,
    Labels,
    Offset,
    quantised,
    require_integer,
)  # fmt: skip
from dealfl.learners.signatures import (
    Digits,
    DirectionFeatures,
    DirectionSeed,
    SignatureBits,
    Signatures,
    TableCount,
    VoteBits,
)  # fmt: skip
from dealfl.learners.votes import MinBucket, PrefixVotes

__all__ = ["Neighbors"]

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Points = NDArray[np.int32]

_MAX_FEATURES, _MAX_BITS, _DISTANCE_BITS = 1 << 15, 24, 63


class Neighbors(PrefixVotes):
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
        Cycles(0.508, 1.18e6), Cycles(1.509, 872200), Cycles(0.425, 339700),
        Cycles(0.567, 1.2e6), Cycles(0.176, 5.41e6),
    )  # fmt: skip
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
        super().__init__(Labels(classes), grid, signatures, min_bucket, clip=clip, storage=storage)

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
        points = self._as_points(X, y)
        delta = self._exchange(points, self._held.new_ids(len(points), ids))
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
        return self._changed(*self._remove(slots))

    def _update(self, points: Points, signs: Int64s, ids: Sequence[int]) -> Statistics:
        gained, lost, numbers = points[signs > 0], points[signs < 0], np.array(ids, np.int64)
        slots = self._held.slots_of(numbers[signs < 0]) if ids else self._equal(lost)
        new = self._held.new_ids(len(gained), numbers[signs > 0] if ids else None)
        return self._exchange(gained, new, slots)

    def _equal(self, points: Points) -> Int64s:
        return self._held.slots_of_equal(points[:, 1:-1], points[:, -1])

    def _exchange(self, points: Points, ids: Int64s, slots: Int64s | None = None) -> Statistics:
        """Learn rows of integers under new ids, and forget the examples in some slots."""
        codes, keys = points[:, -1].astype(np.int64), self._signatures.of(points[:, 1:-1])
        gone, lost = (keys[:0], codes[:0]) if slots is None else self._remove(slots)
        self._held.add(ids, points[:, 1:-1], codes, keys)
        return self._changed(np.concatenate([gone, keys]), np.r_[lost, codes], new=len(codes))

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
        vectors = self._queries(X)
        found, candidates = self._held.nearest(vectors, max(self._enough, count), count)
        self._note_search(len(vectors), candidates)
        return [(ids, np.sqrt(squares.astype(np.float64)) / unit) for ids, squares in found]

    def find_used(self, X: object) -> list[int] | None:
        """Return the ids of the held examples that vote in `predict`."""
        return self._held.voters(self._queries(X), max(self._enough, self._k), self._k)

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
        vectors = self._queries(X)
        votes, candidates = self._held.votes(vectors, max(self._enough, self._k), self._k)
        self._note_search(len(vectors), candidates)
        return votes

    def _queries(self, X: object) -> NDArray[np.int32]:
        vectors = quantised(self._as_rows(X), self._grid, clip=True)
        if not self._held:
            raise NotLearned("no example is held here; predict_votes needs statistics only")
        return vectors

    def _note_search(self, rows: int, candidates: int) -> None:
        compared = candidates * self.n_features
        self._work = self._cost(rows) + Work(compared, 4 * compared)
