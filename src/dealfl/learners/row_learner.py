"""Learners whose examples are rows of features with a target."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadBytes, BadInput, NotLearned
from dealfl.exact import Statistics
from dealfl.learners.base import Arrays
from dealfl.learners.frames import names_of, require_names
from dealfl.learners.inputs import Matrix, as_array, as_matrix
from dealfl.learners.labels import Labels
from dealfl.learners.records import Record, Rows, StoredRecord
from dealfl.learners.saved import SavedLearner
from dealfl.learners.signed_rows import SignedRows

__all__ = ["Classifier", "RowLearner"]

Int64s = NDArray[np.int64]
Points = NDArray[np.int32]

_NAMES = "feature_names"  # a section of a saved learner


class RowLearner(SignedRows):
    """A learner whose examples are rows of features with a target.

    Subclasses set the grid of the features, `_grid`.

    Parameters
    ----------
    schema, storage
        See `Learner`.
    """

    _names: tuple[str, ...] = ()

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
        require_names(self._names, X)
        return as_matrix(X, self.n_features)

    def _remember_names(self, X: object) -> None:
        self._names = self._names or names_of(X) or ()

    def _sections(self) -> dict[str, bytes]:
        named = {_NAMES: msgspec.json.encode(self._names)} if self._names else {}
        return super()._sections() | named

    def _restore(self, saved: SavedLearner) -> None:
        super()._restore(saved)
        if _NAMES in saved.sections:
            try:
                self.name_features(msgspec.json.decode(saved.section(_NAMES), type=list[str]))
            except (msgspec.MsgspecError, BadInput) as error:
                raise BadBytes(f"the saved feature names cannot be used: {error}") from None

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
        return self._change(X, y, +1)

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
        return self._change(X, y, -1)

    def _change(self, X: object, y: object, sign: int) -> Statistics:
        return self.update((X, y)) if sign > 0 else self.update((), (X, y))

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
