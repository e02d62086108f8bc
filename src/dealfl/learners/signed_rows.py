"""Rows as integers: 1, the features on their grid, and the target.

What is learned counts +1 and what is forgotten −1. One pass over all rows gives one delta.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.exact import FixedPoint, Statistics, Work
from dealfl.learners.base import Learner
from dealfl.learners.inputs import Matrix, quantised
from dealfl.learners.records import Change, Record, Rows, StoredRecord

__all__ = ["SignedRows"]

Int64s = NDArray[np.int64]
Points = NDArray[np.int32]


class SignedRows(Learner):
    """A learner that learns and forgets rows of integers; subclasses set the grid of features."""

    whole_owners = False
    _grid: FixedPoint
    _clip: bool = False

    @property
    def n_features(self) -> int:
        """The number of features of a row."""
        return len(self._grid.bound)

    @abstractmethod
    def _as_rows(self, X: object) -> Matrix:
        """Return rows as a matrix of `n_features` columns."""

    @abstractmethod
    def _remember_names(self, X: object) -> None:
        """Remember the columns of a data frame."""

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
        points = self._as_points(*Rows.table(others))
        data, size = points.tobytes(), points.strides[0]
        new = (data[first : first + size] for first in range(0, len(data), size))
        return [r.body if old else next(new) for r, old in zip(records, done, strict=True)]

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
        delta = self._update(points, signs, [] if -1 in ids else ids)
        return Change(delta, self._cost(len(learn)), self._cost(len(forget)))

    def update(self, learn: tuple[Any, ...] = (), forget: tuple[Any, ...] = ()) -> Statistics:
        """Add and remove examples in one pass; on any error nothing changes."""
        parts = [self._as_points(*part) for part in (learn, forget) if part]
        sizes = len(parts[0]) if learn else 0, len(parts[-1]) if forget else 0
        delta = self._update(np.concatenate(parts), _signs(*sizes), []) if parts else None
        if learn:
            self._remember_names(learn[0])
        self._work = self._cost(sum(sizes))
        return Statistics.zero(self.schema) if delta is None else delta

    def _update(self, points: Points, signs: Int64s, ids: Sequence[int]) -> Statistics:
        delta = self._signed(points, signs)
        self._apply(delta, forgetting=bool((signs < 0).any()))
        with self._undoing(delta):
            self._follow_points(points, signs, ids)
        return delta


def _signs(learned: int, forgotten: int) -> Int64s:
    signs = np.ones(learned + forgotten, dtype=np.int64)
    signs[learned:] = -1
    return signs
