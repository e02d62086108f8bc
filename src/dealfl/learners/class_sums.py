"""Counts of examples and sums of features by class: the statistics of naive Bayes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dealfl.cells import Proposal, Storage
from dealfl.errors import Impossible, NotLearned
from dealfl.fixedpoint import FixedPoint
from dealfl.integers import Entries, Integers
from dealfl.learners.classifier import Classifier
from dealfl.learners.inputs import Labels, Matrix, dense_blocks
from dealfl.schema import ArraySpec, Schema, Setting
from dealfl.statistics import Statistics
from dealfl.work import Work

__all__ = ["BLOCK_VALUES", "ClassSums"]

Int64s = NDArray[np.int64]

BLOCK_VALUES = 1 << 20


class ClassSums(Classifier):
    """The number of examples and the sum of each feature, by class."""

    _clip: bool

    def __init__(
        self, labels: Labels, grid: FixedPoint, *, clip: bool, storage: Storage | None
    ) -> None:
        features = len(grid.bound)
        shape: dict[str, Setting] = {"n_features": features, "classes": labels.tolist()}
        arrays = (
            ArraySpec("counts", len(labels)),
            ArraySpec("sums", len(labels) * features),
        )
        super().__init__(Schema(self.name, shape | grid.settings(), arrays), storage)
        self._labels, self._grid, self._clip = labels, grid, clip

    @property
    def example_count(self) -> int:
        """The number of learned examples."""
        return int(self._state.whole("counts").low.sum())

    def learn(self, X: object, y: object) -> Statistics:
        """Add examples.

        Parameters
        ----------
        X : array_like, csr_array or DataFrame
            One row of `n_features` numbers per example.
        y : array_like
            Class of each row.

        Returns
        -------
        Statistics
            The statistics that were added.

        Raises
        ------
        BadInput
            A value cannot be used; nothing was changed.
        """
        return self._change(X, y, +1)

    def forget(self, X: object, y: object) -> Statistics:
        """Remove examples; the result is the same as if they had never been learned.

        Parameters
        ----------
        X : array_like, csr_array or DataFrame
            One row of `n_features` numbers per example.
        y : array_like
            Class of each row.

        Returns
        -------
        Statistics
            The (negative) statistics that were added.

        Raises
        ------
        BadInput
            A value cannot be used; nothing was changed.
        NotLearned
            The examples were never learned, as far as the statistics show it; nothing was changed.
        """
        return self._change(X, y, -1)

    def _change(self, X: object, y: object, sign: int) -> Statistics:
        matrix = self._as_rows(X)
        codes = self._labels.encode(y, matrix.shape[0])
        counts = np.bincount(codes, minlength=len(self._labels))
        arrays = {
            "counts": Entries.of_dense(Integers(sign * counts)),
            "sums": Entries.of_dense(Integers(sign * self._sums(matrix, codes).ravel())),
        }
        delta = self._apply(Statistics(self.schema, arrays), forgetting=sign < 0)
        self._remember_names(X)
        self._forget_model()
        stored = matrix.nnz if sparse.issparse(matrix) else matrix.size
        touched = sum(len(entries) for entries in arrays.values())
        self._work = Work(stored + len(codes), 8 * stored + 2 * 8 * touched)
        return delta

    def _sums(self, X: Matrix, codes: Int64s) -> Int64s:
        total = np.zeros((len(self._labels), self.n_features), dtype=np.int64)
        if sparse.issparse(X) and not np.any(self._grid.offset):
            stored = np.asarray(X.data, dtype=np.float64)
            points = self._grid.quantise_stored(stored, X.indices, X.indptr, clip=self._clip)
            rows = np.repeat(codes, np.diff(X.indptr))
            np.add.at(total, (rows, X.indices), points)
            return total
        for first, block in dense_blocks(X, max(1, BLOCK_VALUES // self.n_features)):
            rows = self._grid.quantise(block, first, clip=self._clip)
            block_codes = codes[first : first + len(rows)]
            for code in np.unique(block_codes):
                total[code] += rows[block_codes == code].sum(axis=0)
        return total

    def _refuse_unlearned(self, proposals: Mapping[str, Proposal]) -> None:
        counts = self._state.after("counts", proposals).low
        sums = self._state.after("sums", proposals).low
        try:
            self._require_possible(counts, sums.reshape(len(counts), -1))
        except Impossible as error:
            raise NotLearned(f"these examples were never learned: after this, {error}") from None

    def check(self) -> None:
        """Check that some set of examples can have these statistics.

        Raises
        ------
        Impossible
            No set of examples has these statistics.
        """
        self._require_possible(*self._tables())

    def _tables(self) -> tuple[Int64s, Int64s]:
        counts = self._state.whole("counts").low
        return counts, self._state.whole("sums").low.reshape(len(counts), -1)

    def _require_possible(self, counts: Int64s, sums: Int64s) -> None:
        for label, count, row in zip(self._labels.tolist(), counts, sums, strict=True):
            if count < 0:
                raise Impossible(f"class {label!r} has {count} examples")
            most = self._grid.limits * count
            wrong = np.flatnonzero((row < 0) | (row > most))
            if len(wrong):
                raise Impossible(
                    f"feature {wrong[0]} of {count} examples of class {label!r} has the sum "
                    f"{row[wrong[0]]} grid points, outside [0, {most[wrong[0]]}]"
                )
