"""Learners whose examples are rows of features with a target, and how such rows are stored."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadBytes, BadInput, NotLearned
from dealfl.fixedpoint import FixedPoint
from dealfl.learners.base import Arrays, Learner, Record, StoredRecord
from dealfl.learners.frames import names_of, require_names
from dealfl.learners.inputs import Matrix, as_matrix
from dealfl.learners.labels import Labels
from dealfl.learners.saved import SavedLearner
from dealfl.statistics import Statistics

__all__ = ["Classifier", "RowLearner", "Rows"]

_NAMES = "feature_names"  # a section of a saved learner


class Rows:
    """Encoding of records that hold a row of features and its target; each row is an example.

    Examples
    --------
    >>> Rows.decode(Rows.encode([1.0, 2.5], "spam"))
    ([1.0, 2.5], 'spam')
    """

    @staticmethod
    def encode(features: Sequence[float] | NDArray[Any], target: object) -> bytes:
        """Return the body of a record.

        Parameters
        ----------
        features, target
            Numbers, and a number or a string.

        Returns
        -------
        bytes
            The body.
        """
        plain = target.item() if isinstance(target, np.generic) else target
        return msgspec.msgpack.encode(([float(value) for value in features], plain))

    @staticmethod
    def decode(body: bytes) -> tuple[list[float], Any]:
        """Return the content of a body.

        Parameters
        ----------
        body : bytes
            Result of `encode`.

        Returns
        -------
        tuple of (list of float, object)
            Features and target of the row.
        """
        features, target = msgspec.msgpack.decode(body)
        return features, target

    @staticmethod
    def table(records: Sequence[Record]) -> tuple[NDArray[np.float64], list[Any]]:
        """Return the content of all records.

        Parameters
        ----------
        records : sequence of Record
            Records of rows.

        Returns
        -------
        tuple of (ndarray of float64, list)
            Features and targets, one row per record.
        """
        pairs = [Rows.decode(record.body) for record in records]
        return np.array([features for features, _ in pairs]), [target for _, target in pairs]


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
    _names: tuple[str, ...] = ()

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

    @abstractmethod
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

    @abstractmethod
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

    def score_records(self, records: Sequence[Record]) -> float | None:
        """Return the score on records; None without records or before anything is learned."""
        try:
            return self.score_federated(*Rows.table(records)) if records else None
        except NotLearned:
            return None

    def _examples_of(self, records: Sequence[Record]) -> tuple[Any, ...]:
        return Rows.table(records)

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
        rows = zip(X, y, strict=True)  # type: ignore[call-overload]
        return [StoredRecord(b"", Rows.encode(*row)) for row in rows]


class Classifier(RowLearner):
    """A learner of rows whose targets are classes, a setting; subclasses set `_labels`.

    Parameters
    ----------
    schema, storage
        See `Learner`.
    """

    _labels: Labels

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
