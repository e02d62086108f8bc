"""Learners whose examples are rows of features with a target.

A row is integers: 1, the features on their grid, and the target. What is learned counts +1 and what
is forgotten −1. One pass over all rows gives one delta.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadBytes, BadInput, NotLearned
from dealfl.exact import Deferred, FixedPoint, Statistics, Work
from dealfl.learners.base import Arrays, Learner, Undo
from dealfl.learners.inputs import (
    Labels,
    Matrix,
    as_array,
    as_matrix,
    names_of,
    quantised,
    require_names,
)
from dealfl.learners.records import Change, Record, Rows, StoredRecord
from dealfl.learners.saved import SavedLearner

Int64s = NDArray[np.int64]
Points = NDArray[np.int32]
Part = tuple[Any, Any, int]  # rows and targets to learn (+1) or to forget (−1)

_FLOATS = np.dtype(np.float64)
_NAMES = "feature_names"  # a section of a saved learner


class RowLearner(Learner):
    """A learner whose examples are rows of features with a target.

    Subclasses set the grid of the features, `_grid`.

    Parameters
    ----------
    schema, storage
        See `Learner`.
    """

    whole_owners = False
    _grid: FixedPoint
    _row_shape: tuple[int, ...] = ()  # (n_features,), if tables of it are used as they are
    _clip: bool = False
    _names: tuple[str, ...] = ()

    # -- what a subclass computes -----------------------------------------------------------------

    @abstractmethod
    def _target_points(self, y: object, rows: int) -> Int64s:
        """Return the targets of all rows as integers."""

    @abstractmethod
    def _targets_at(self, points: Points) -> NDArray[Any]:
        """Return the targets that some integers stand for."""

    @abstractmethod
    def _cost(self, rows: int) -> Work:
        """Return the cost of computing the statistics of rows."""

    @abstractmethod
    def _signed(self, points: Points, signs: Int64s) -> Statistics:
        """Return the sum of the statistics of rows of integers, each times its sign."""

    def _follow_points(self, points: Points, signs: Int64s, ids: Sequence[int]) -> None:
        """Update what is derived from the statistics; `ids` are those of records, if known."""
        del points, signs, ids
        self._forget_model()

    # -- columns ----------------------------------------------------------------------------------

    @property
    def n_features(self) -> int:
        """The number of features of a row."""
        return len(self._grid.bound)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features, if known from a data frame or `name_features`."""
        return self._names

    def name_features(self, names: Sequence[str]) -> None:
        """Name the features; a data frame with other column names is then an error.

        Names do not affect the statistics; `save` keeps them.

        Parameters
        ----------
        names : sequence of str
            One name per feature, in their order.
        """
        if len(names) != self.n_features:
            raise BadInput(f"there are {len(names)} names for {self.n_features} features")
        self._names = tuple(map(str, names))

    def _as_rows(self, X: object) -> Matrix:
        """Return rows as a matrix; a data frame must have the columns that were learned."""
        if self._names:
            require_names(self._names, X)
        return as_matrix(X, self.n_features)

    def _remember_names(self, X: object, undo: Undo) -> None:
        if not self._names and (names := names_of(X)):
            undo.append((setattr, self, "_names", ()))
            self._names = names

    def _sections(self) -> dict[str, bytes]:
        named = {_NAMES: msgspec.json.encode(self._names)} if self._names else {}
        return super()._sections() | named

    def _restore(self, saved: SavedLearner) -> None:
        super()._restore(saved)
        if _NAMES in saved.sections:
            try:
                self.name_features(msgspec.json.decode(saved.section(_NAMES), type=list[str]))
            except (msgspec.MsgspecError, UnicodeDecodeError, BadInput) as error:
                raise BadBytes(f"the saved feature names cannot be used: {error}") from None

    # -- rows as integers -------------------------------------------------------------------------

    def _as_points(self, X: object, y: object) -> Points:
        matrix = self._as_rows(X)
        points = np.ones((matrix.shape[0], self.n_features + 2), dtype="<i4")
        points[:, 1:-1] = quantised(matrix, self._grid, clip=self._clip)
        points[:, -1] = self._target_points(y, matrix.shape[0])
        return points

    def _points_of(self, records: Sequence[Record]) -> Points:
        columns = self.n_features + 2
        if {len(record.body) for record in records} == {4 * columns}:  # one look at all of them
            points = Rows.points(records, columns)
            if (points[:, 0] == 1).all():
                return points
        packed = [StoredRecord(b"", body) for body in self.pack(records)]
        return Rows.points(packed, columns)

    def pack(self, records: Sequence[Record]) -> list[bytes]:
        """Check records, and convert them to integers."""
        done = [Rows.is_packed(record.body) for record in records]
        if all(done):
            return [record.body for record in records]
        others = [record for record, old in zip(records, done, strict=True) if not old]
        new = iter(_bodies(self._as_points(*Rows.table(others))))
        return [r.body if old else next(new) for r, old in zip(records, done, strict=True)]

    def pack_rows(self, X: Any, y: NDArray[Any]) -> list[bytes]:  # noqa: ANN401
        """Return the bodies of rows as integers.

        A row that the learner refuses stays as it is: the worker that gets it reports the reason.

        Parameters
        ----------
        X : ndarray or csr_array
            One row of numbers per example.
        y : ndarray
            Target of each row.

        Returns
        -------
        list of bytes
            One body per row.
        """
        try:
            return _bodies(self._as_points(X, y))
        except (ValueError, TypeError, OverflowError):
            if len(y) == 1:
                return Rows.encode_all(X, y)
        middle = len(y) // 2
        return self.pack_rows(X[:middle], y[:middle]) + self.pack_rows(X[middle:], y[middle:])

    def rows_of(self, records: Sequence[Record]) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Return the examples of records, as far as the grid of the learner resolves them.

        Parameters
        ----------
        records : sequence of Record
            Records of rows.

        Returns
        -------
        tuple of (ndarray of float64, ndarray)
            Features and targets, one row per record.
        """
        points = self._points_of(records)
        features = points[:, 1:-1] / self._grid.scale + self._grid.offset
        return features, self._targets_at(points[:, -1])

    @classmethod
    def records_of(cls, X: object, y: object) -> Sequence[Record]:
        """Convert each row to a record without an owner.

        Parameters
        ----------
        X : array_like
            One row of numbers per example.
        y : array_like
            Target of each row.

        Returns
        -------
        sequence of Record
            One record per row.
        """
        bodies = Rows.encode_all(as_array(X, "X"), as_array(y, "y"))
        return [StoredRecord(b"", body) for body in bodies]

    # -- learning and forgetting ------------------------------------------------------------------

    def learn(self, X: object, y: object) -> Statistics:
        """Add examples.

        Parameters
        ----------
        X : array_like, csr_array or DataFrame
            One row of `n_features` numbers per example.
        y : array_like
            Target of each row; an unusable value is an error, and nothing changes.

        Returns
        -------
        Statistics
            The statistics that were added.
        """
        return self._atomically(self._change_rows, X, y, +1)

    def forget(self, X: object, y: object) -> Statistics:
        """Remove examples; the result is the same as if they had never been learned.

        Parameters
        ----------
        X, y
            See `learn`; `NotLearned` if the statistics show that they were never learned.

        Returns
        -------
        Statistics
            The (negative) statistics that were added.
        """
        return self._atomically(self._change_rows, X, y, -1)

    def update(self, learn: tuple[Any, ...] = (), forget: tuple[Any, ...] = ()) -> Statistics:
        """Add and remove examples in one call; on any error nothing changes."""
        parts = [(*part, sign) for part, sign in ((learn, +1), (forget, -1)) if part]
        return self._atomically(self._change, parts)

    def _change_rows(self, X: object, y: object, sign: int, undo: Undo) -> Statistics:
        """Learn or forget examples."""
        if type(X) is np.ndarray and X.dtype is _FLOATS and X.shape[1:] == self._row_shape:
            matrix: Matrix = X
        else:
            matrix = self._as_rows(X)
        delta = self._change_batch(matrix, y, sign, undo)
        if matrix is not X:
            self._remember_names(X, undo)
        self._work = self._cost_of(matrix.shape[0], matrix.size, delta)
        return delta

    def _change(self, parts: Sequence[Part], undo: Undo) -> Statistics:
        """Learn and forget examples in turn."""
        deltas = []
        rows = stored = 0
        for X, y, sign in parts:
            matrix = self._as_rows(X)
            deltas.append(self._change_batch(matrix, y, sign, undo))
            rows += matrix.shape[0]
            stored += matrix.size
            if matrix is not X:
                self._remember_names(X, undo)
        delta = self._sum(deltas)
        self._work = self._cost_of(rows, stored, delta)
        return delta

    def _sum(self, deltas: Sequence[Statistics]) -> Statistics:
        schema = self.schema
        return Statistics(
            schema, Deferred(schema, lambda: sum(deltas, Statistics.zero(schema)).arrays)
        )

    def _change_batch(self, X: Matrix, y: object, sign: int, undo: Undo) -> Statistics:
        """Learn or forget rows of a checked table; return what was added."""
        points = self._as_points(X, y)
        return self._update(points, np.full(len(points), sign), [], undo)

    def _cost_of(self, rows: int, stored: int, delta: Statistics) -> Work | Callable[[], Work]:
        """Return the cost of changing the statistics by rows with a number of stored values."""
        del stored, delta
        return partial(self._cost, rows)

    def difference(
        self, learn: Sequence[Record], forget: Sequence[Record], kept: Sequence[Record] = ()
    ) -> Change:
        """Compute what learning and forgetting records would add; the learner does not change."""
        del kept
        points, signs = self._points_of([*learn, *forget]), _signs(len(learn), len(forget))
        delta = self._signed(points, signs)
        return Change(delta, self._cost(len(learn)), self._cost(len(forget)))

    def update_records(
        self, learn: Sequence[Record], forget: Sequence[Record], kept: Sequence[Record] = ()
    ) -> Change:
        """Add and remove records in one pass; on any error nothing changes."""
        del kept
        records = [*learn, *forget]
        points, signs = self._points_of(records), _signs(len(learn), len(forget))
        ids = [getattr(record, "id", -1) for record in records]
        costs = self._cost(len(learn)), self._cost(len(forget))
        return self._atomically(
            lambda undo: Change(self._update(points, signs, [] if -1 in ids else ids, undo), *costs)
        )

    def _update(self, points: Points, signs: Int64s, ids: Sequence[int], undo: Undo) -> Statistics:
        delta = self._signed(points, signs)
        self._apply(delta, undo, forgetting=bool((signs < 0).any()))
        self._follow_points(points, signs, ids)
        return delta

    # -- the model --------------------------------------------------------------------------------

    @abstractmethod
    def predict(self, X: object) -> NDArray[Any]:
        """Return the predicted target of each row.

        Parameters
        ----------
        X : array_like, csr_array or DataFrame
            One row of `n_features` numbers per example.

        Returns
        -------
        ndarray
            One target per row.
        """

    @abstractmethod
    def score(self, X: object, y: object) -> float:
        """Return the quality of the predictions.

        Parameters
        ----------
        X, y
            See `learn`.

        Returns
        -------
        float
            1.0 is perfect.
        """

    @property
    def federated(self) -> bool:
        """Whether this model has statistics only and no examples."""
        return True

    def predict_federated(self, X: object) -> NDArray[Any]:
        """Return the targets that a model with statistics only predicts.

        Parameters
        ----------
        X
            See `predict`.

        Returns
        -------
        ndarray
            One target per row.
        """
        return self.predict(X)

    def score_federated(self, X: object, y: object) -> float:
        """Return the quality of a model that has statistics only.

        Parameters
        ----------
        X, y
            See `score`.

        Returns
        -------
        float
            1.0 is perfect.
        """
        return self.score(X, y)

    def score_records(
        self, records: Sequence[Record], known: Sequence[Record] = ()
    ) -> float | None:
        """Return the score on records; None without records or before anything is learned."""
        del known
        try:
            return self.score_federated(*self.rows_of(records)) if records else None
        except NotLearned:
            return None

    def find_used(self, X: object) -> list[int] | None:  # noqa: ARG002
        """Return the ids of the held examples that a prediction reads.

        Parameters
        ----------
        X : array_like
            Rows of features.

        Returns
        -------
        list of int or None
            Ids of records; None if the model does not tell examples apart.
        """
        return None


class Classifier(RowLearner):
    """A learner of rows whose targets are classes, a setting; subclasses set `_labels`.

    Parameters
    ----------
    schema, storage
        See `Learner`.
    """

    _labels: Labels

    def _target_points(self, y: object, rows: int) -> Int64s:
        return self._labels.encode(y, rows)

    def _targets_at(self, points: Points) -> NDArray[Any]:
        return self._labels.decode(points.astype(np.int64))

    def score(self, X: object, y: object) -> float:
        """Return the accuracy: the fraction of rows whose class is predicted; nan without rows."""
        return self._labels.share_right(self.predict(X), y)

    def score_federated(self, X: object, y: object) -> float:
        """Return the accuracy of a model that has statistics only; nan without rows."""
        return self._labels.share_right(self.predict_federated(X), y)

    def derived_arrays(self) -> Arrays:
        """Return the array `classes`."""
        return {"classes": self._labels.values}

    @staticmethod
    def _require_learned(counts: NDArray[Any]) -> None:
        if not np.any(counts > 0):
            raise NotLearned("no example is learned, so no class can be predicted; learn first")


def _signs(learned: int, forgotten: int) -> Int64s:
    signs = np.ones(learned + forgotten, dtype=np.int64)
    signs[learned:] = -1
    return signs


def _bodies(points: Points) -> list[bytes]:
    data, size = points.tobytes(), points.strides[0]
    return [data[first : first + size] for first in range(0, len(data), size)]
