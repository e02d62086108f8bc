"""Kinds of learners: those of rows with targets, and those of histories of items."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dealfl.errors import BadBytes, BadInput, NotLearned
from dealfl.fixedpoint import FixedPoint
from dealfl.learners.base import Arrays, Learner, Record
from dealfl.learners.frames import names_of, require_names
from dealfl.learners.inputs import Labels, Matrix, as_matrix
from dealfl.learners.records import Histories, Rows, StoredRecord
from dealfl.learners.saved import SavedLearner
from dealfl.statistics import Statistics

__all__ = ["Classifier", "HistoryLearner", "RowLearner"]

_NAMES = "feature_names"  # a section of a saved learner

Ranked = tuple[NDArray[np.int64], NDArray[np.float64]]


class RowLearner(Learner):
    """A learner whose examples are rows of features, on a `_grid`, each with a target."""

    whole_owners = False
    _grid: FixedPoint
    _names: tuple[str, ...] = ()

    @property
    def n_features(self) -> int:
        """How many features a row has."""
        return len(self._grid.bound)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, of the data frame that was learned; empty without one."""
        return self._names

    def name_features(self, names: Sequence[str]) -> None:
        """Name the features; a data frame with other column names is then refused.

        Names shape neither the statistics nor the digest; `save` keeps them.

        Parameters
        ----------
        names
            One name for each feature, in their order.

        Raises
        ------
        BadInput
            If there are not as many names as features.
        """
        if len(names) != self.n_features:
            raise BadInput(f"{len(names)} names are given for n_features={self.n_features}")
        self._names = tuple(map(str, names))

    def _as_rows(self, X: object) -> Matrix:
        """Return rows as a matrix; refuse a data frame whose columns are not those learned."""
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
                raise BadBytes(f"the names of its features cannot be used: {error}") from None

    @abstractmethod
    def learn(self, X: object, y: object) -> Statistics:
        """Add examples; return the statistics that were added."""

    @abstractmethod
    def forget(self, X: object, y: object) -> Statistics:
        """Remove examples as if they had never been learned; return what was added."""

    @abstractmethod
    def predict(self, X: object) -> NDArray[Any]:
        """Return the predicted target of each row."""

    @abstractmethod
    def score(self, X: object, y: object) -> float:
        """Return how well the targets of rows are predicted; 1.0 is perfect."""

    @property
    def federated(self) -> bool:
        """Whether this model is made of statistics alone, without any examples to look at."""
        return True

    def predict_federated(self, X: object) -> NDArray[Any]:
        """Return the target that a model of statistics alone predicts for each row."""
        return self.predict(X)

    def score_federated(self, X: object, y: object) -> float:
        """Return how well a model of statistics alone predicts."""
        return self.score(X, y)

    def score_records(self, records: Sequence[Record]) -> float | None:
        """Return the score on records; None without records, or with nothing learned."""
        try:
            return self.score_federated(*Rows.table(records)) if records else None
        except NotLearned:
            return None

    def _examples_of(self, records: Sequence[Record]) -> tuple[Any, ...]:
        return Rows.table(records)

    @classmethod
    def records_of(cls, X: object, y: object) -> Sequence[Record]:
        """Return each row as a record that nobody owns."""
        rows = zip(X, y, strict=True)  # type: ignore[call-overload]
        return [StoredRecord(b"", Rows.encode(*row)) for row in rows]


class Classifier(RowLearner):
    """A learner of rows whose targets are classes; the classes are settings, as `_labels`."""

    _labels: Labels

    def score(self, X: object, y: object) -> float:
        """Return the share of rows whose class is predicted."""
        return self._labels.share_right(self.predict(X), y)

    def score_federated(self, X: object, y: object) -> float:
        """Return the share of rows whose class a model of statistics alone predicts."""
        return self._labels.share_right(self.predict_federated(X), y)

    def derived_arrays(self) -> Arrays:
        """Return the classes."""
        return {"classes": self._labels.values}


class HistoryLearner(Learner):
    """A learner whose examples are histories: sets of items, one row of a csr each."""

    whole_owners = True

    @property
    @abstractmethod
    def n_items(self) -> int:
        """How many items there are."""

    @abstractmethod
    def learn(self, histories: object) -> Statistics:
        """Add histories; return the statistics that were added."""

    @abstractmethod
    def forget(self, histories: object) -> Statistics:
        """Remove histories as if they had never been learned; return what was added."""

    @abstractmethod
    def recommend(self, history: object, k: int = 10) -> Ranked:
        """Return up to k items that go with a history but are not in it, and their scores."""

    def score(self, histories: Sequence[Sequence[int]], k: int = 10) -> float:
        """Return the share of histories whose last item is recommended for those before it."""
        hits = sum(history[-1] in self.recommend(history[:-1], k)[0] for history in histories)
        return hits / len(histories) if histories else 0.0

    def score_federated(self, histories: Sequence[Sequence[int]]) -> float:
        """Return the same: a ranking needs nothing but statistics."""
        return self.score(histories)

    def score_records(self, records: Sequence[Record]) -> None:
        """Return None: stored histories have no last item."""

    def _examples_of(self, records: Sequence[Record]) -> tuple[Any, ...]:
        return (Histories.table(records, self.n_items),)

    @classmethod
    def records_of(cls, histories: sparse.csr_array) -> Sequence[Record]:
        """Return each item as a record; each history is of another owner."""
        owners, items = (places.tolist() for places in histories.nonzero())
        pairs = zip(owners, items, strict=True)
        return [StoredRecord(b"%d" % owner, Histories.encode(item)) for owner, item in pairs]
