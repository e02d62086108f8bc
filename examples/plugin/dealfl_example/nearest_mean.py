"""A learner: a row belongs to the class with the nearest mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from dealfl.errors import Impossible, NotLearned
from dealfl.plugins import (
    ArraySpec,
    As,
    Classifier,
    Cycles,
    DataLimits,
    Entries,
    FixedPoint,
    Integers,
    Labels,
    LearnerCycles,
    Numbers,
    Proposal,
    Schema,
    Setting,
    SparseVector,
    Statistics,
    Storage,
    Work,
    as_matrix,
    dense_blocks,
)

__all__ = ["NearestMean"]

Bound = Annotated[
    float | ArrayLike,
    As(Numbers),
    Meta(description="largest magnitude of all features, or of each"),
]  # an annotated argument is a key of the section [learner]

_BITS = 16
_BLOCK_ROWS = 4096


class NearestMean(Classifier):
    """A classifier whose statistics are the number of rows and their sum in each class.

    >>> model = NearestMean(n_features=1, classes=["low", "high"], feature_bound=8.0)
    >>> delta = model.learn([[1.0], [6.0]], ["low", "high"])
    >>> model.predict([[5.0]]).tolist()
    ['high']
    """

    name = "nearest_mean"
    tasks = ("classification",)  # the tasks that it serves
    cycles = LearnerCycles(Cycles(4.0, 2000.0), Cycles(4.0, 2000.0))  # its cost on a phone

    def __init__(
        self,
        n_features: int,
        classes: ArrayLike,
        feature_bound: Bound = 1.0,
        *,
        storage: Storage | None = None,
    ) -> None:
        self._labels = Labels(classes)
        self._grid = FixedPoint.of(n_features, feature_bound, _BITS)
        shape: dict[str, Setting] = {"n_features": n_features, "classes": self._labels.tolist()}
        arrays = (
            ArraySpec("counts", len(self._labels)),
            ArraySpec("sums", len(self._labels) * n_features),
        )
        super().__init__(Schema(self.name, shape | self._grid.settings(), arrays), storage)

    @classmethod
    def settings_for(cls, data: DataLimits) -> dict[str, Any]:
        """Return the constructor arguments for data with these limits."""
        domain = data.domain_for(cls.name)
        return {
            "n_features": domain.n_features,
            "classes": data.classes,
            "feature_bound": domain.magnitude,
        }

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor arguments of this learner."""
        return {
            "n_features": self.n_features,
            "classes": self._labels.tolist(),
            "feature_bound": self._grid.bound.tolist(),
        }

    @property
    def example_count(self) -> int:
        """The number of learned examples."""
        return int(self._state.whole("counts").low.sum())

    def _signed(self, points: NDArray[np.int32], signs: NDArray[np.int64]) -> Statistics:
        """Return the statistics of rows [1, features, class] on the grid, each times its sign."""
        codes, counts = points[:, -1], np.zeros(len(self._labels), dtype=np.int64)
        sums = np.zeros((len(counts), self.n_features), dtype=np.int64)
        np.add.at(counts, codes, signs)
        np.add.at(sums, codes, signs[:, None] * points[:, 1:-1])
        arrays = {
            "counts": Entries.of_dense(Integers(counts)),
            "sums": Entries.of_dense(Integers(sums.ravel())),
        }
        return Statistics(self.schema, arrays)

    def _cost(self, rows: int) -> Work:
        size = rows * self.n_features
        return Work(size + rows, 8 * size)

    def _refuse_unlearned(self, proposals: Mapping[str, Proposal]) -> None:
        counts = self._state.after("counts", proposals).low
        sums = self._state.after("sums", proposals).low.reshape(len(counts), -1)
        if not self._possible(counts, sums):
            raise NotLearned("these examples were never learned")

    def check(self) -> None:
        """Raise `Impossible` if no set of examples can have these statistics."""
        if not self._possible(*self._tables()):
            raise Impossible("the sums are impossible for this number of examples")

    def _tables(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        counts = self._state.whole("counts").low
        return counts, self._state.whole("sums").low.reshape(len(counts), -1)

    def _possible(self, counts: NDArray[np.int64], sums: NDArray[np.int64]) -> bool:
        most = counts[:, None] * self._grid.limits
        return bool(np.all(counts >= 0) and np.all(np.abs(sums) <= most))

    def _means(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        counts, sums = self._tables()
        held = np.flatnonzero(counts > 0)
        return held, sums[held] / self._grid.scale / counts[held, None]

    def predict(self, X: object) -> NDArray[Any]:
        """Return the class of each row; the first of equally near ones."""
        held, means = self._means()
        if not len(held):
            raise NotLearned("no example is learned, so no class can be predicted; learn first")
        matrix = as_matrix(X, self.n_features)
        found = [
            np.argmin(np.sum((block[:, None, :] - means) ** 2, axis=2), axis=1)
            for _, block in dense_blocks(matrix, _BLOCK_ROWS)
        ]
        return self._labels.decode(held[np.concatenate(found)] if found else held[:0])

    def _forget_model(self) -> None:
        """Do nothing: the means are computed on demand."""

    def _derived(self) -> SparseVector:
        held, means = self._means()
        places = held[:, None] * means.shape[1] + np.arange(means.shape[1])
        return places.ravel(), means.ravel()
