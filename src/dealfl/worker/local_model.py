"""Predictions on the device itself, with the last model that the server published."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from dealfl.errors import BadBytes, BadInput, NotLearned
from dealfl.learners import Histories, HistoryLearner, Learner, RowLearner
from dealfl.statistics import Statistics
from dealfl.worker.journal import Journal
from dealfl.worker.tables import State

__all__ = ["LocalModel"]


class LocalModel:
    """The published model in the journal; a newer version replaces it."""

    def __init__(self, journal: Journal, make: Callable[[], Learner]) -> None:
        self._journal, self._make = journal, make
        self._whole_owners = make().whole_owners
        self._version = 0
        self._model: Learner | None = None

    @property
    def version(self) -> int:
        """The version of the model; raises NotLearned before the first is fetched."""
        self._read()
        return self._version

    def predict(self, features: object) -> NDArray[Any]:
        """Return the model's predictions for rows of features."""
        if self._whole_owners:
            raise BadInput("this job ranks items: use recommend(owner, k) instead of predict")
        model = self._read()
        assert isinstance(model, RowLearner)
        return model.predict_federated(features)

    def recommend(self, owner: bytes, k: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return k items for an owner; its records count as used now."""
        if not self._whole_owners:
            raise BadInput("this job predicts targets: use predict(features) instead of recommend")
        model = self._read()
        assert isinstance(model, HistoryLearner)
        records = self._journal.records_of([owner])[State.LEARNED]
        self._journal.touch(record.id for record in records)
        history = sorted({Histories.decode(record.body) for record in records})
        return model.recommend(history, k)

    def _read(self) -> Learner:
        published = self._journal.published()
        if published is None:
            raise NotLearned("no model is published yet; the first assignment brings one")
        version, statistics = published
        if self._model is None or version != self._version:
            model = self._make()
            try:
                model.merge(Statistics.from_bytes(statistics))
            except BadInput as error:
                raise BadBytes(f"version {version} of the model is damaged: {error}") from error
            self._model, self._version = model, version
        return self._model
