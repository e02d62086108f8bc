"""The models on a device: its own, which reviews evictions, and the published one.

Evicted records are learned again if the worker's own model is worse without them.

A worker holds back a small share of its records for validation and never learns them. Evicted
records stay in the GRACE state until the next training: outside the statistics, but within reach of
an erasure. The model compared here is the worker's own (`ResidentModel`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from dealfl.errors import BadBytes, BadInput, NotLearned
from dealfl.exact import Statistics
from dealfl.learners import Histories, HistoryLearner, Learner, RowLearner
from dealfl.protocol import Published
from dealfl.worker.journal import Journal
from dealfl.worker.resident import ResidentModel
from dealfl.worker.tables import Record, State

__all__ = ["LocalModel", "Recovery"]


class Recovery:
    """Selects the records for validation, and detects evictions that hurt the model."""

    def __init__(
        self,
        journal: Journal,
        *,
        validation_share: float,
        tolerance: float,
    ) -> None:
        if not 0 <= validation_share < 1 or tolerance < 0:
            raise BadInput(
                f"validation_share is {validation_share} and tolerance is {tolerance}; "
                "they must be ≥ 0 and < 1, and ≥ 0"
            )
        self._journal = journal
        self._share, self._tolerance = validation_share, tolerance
        self._scored: list[int] = []  # operations of each score

    @property
    def active(self) -> bool:
        """Whether any records are held back for validation."""
        return self._share > 0

    def holds_back(self, identity: int) -> bool:
        """Return whether a record is held back for validation; depends only on its id."""
        draw = hashlib.blake2b(str(identity).encode(), digest_size=8).digest()
        return int.from_bytes(draw, "little") < self._share * 2**64

    def score(self, model: Learner) -> float | None:
        """Return the score of a model on the records held back; None if there is none."""
        hidden = self._journal.records(State.VALIDATION)
        known: Sequence[Record] = ()
        if model.whole_owners:
            known = self._journal.records_of(one.owner for one in hidden)[State.LEARNED]
        score = model.score_records(hidden, known)
        if score is not None:
            self._scored.append(model.last_work.operations)
        return score

    def take_operations(self) -> tuple[int, ...]:
        """Return the operations of each score since the last call."""
        scored, self._scored = tuple(self._scored), []
        return scored

    def is_worse(self, with_them: float | None, without_them: float | None) -> bool:
        """Return whether an eviction made the score worse by more than the tolerance."""
        if with_them is None or without_them is None:
            return False
        return with_them - without_them > self._tolerance

    def lower(self, fraction: Fraction) -> Fraction:
        """Halve θ after a bad eviction, and return it."""
        return self._set_part(self._part / 2, fraction)

    def current(self, fraction: Fraction) -> Fraction:
        """Return the current θ: the assigned one, or a part of it after a bad eviction."""
        return fraction * self._part if self.active else fraction

    def restore(self, fraction: Fraction) -> None:
        """Double θ, up to the assigned one, after a training without a bad eviction."""
        self._set_part(min(self._part * 2, Fraction(1)), fraction)

    @property
    def _part(self) -> Fraction:
        return Fraction(self._journal.setting("theta_part", "1"))

    def _set_part(self, part: Fraction, fraction: Fraction) -> Fraction:
        self._journal.set_setting("theta_part", str(part))
        self._journal.set_setting("theta", str(part * fraction))
        return part * fraction


class LocalModel:
    """The published model in the journal; a newer version replaces it. A prediction is a use."""

    def __init__(
        self, journal: Journal, make: Callable[[], Learner], resident: ResidentModel | None
    ) -> None:
        self._journal, self._make, self._resident = journal, make, resident
        self._whole_owners = make().whole_owners
        self._key = ("", 0)  # epoch and version
        self._model: Learner | None = None

    def store(self, message: Published) -> None:
        """Store a version; a difference only if it leads to the model that was published."""
        held, known = self._journal.published() or (0, b"")
        if message.version <= held:
            return
        body = message.statistics
        if message.base:
            body = _add(known, body) if message.base == held else b""
        if (message.base or message.hash) and hashlib.sha256(body).digest() != message.hash:
            problem = f"version {message.version} of the model does not have its hash"
            self._journal.set_setting("refused", problem)
            return
        self._journal.put_published(message.version, body, message.digest)
        fetched = int(self._journal.setting("fetched_bytes", "0")) + len(message.statistics)
        self._journal.set_setting("fetched_bytes", str(fetched))

    @property
    def version(self) -> int:
        """The version of the model; 0 before the first is fetched."""
        return self._journal.published_version()[0]

    def predict(self, features: object, live: Learner | None = None) -> NDArray[Any]:
        """Return predictions for rows of features, of the published model or a live one."""
        if self._whole_owners:
            raise BadInput("this job ranks items: use recommend(owner, k) instead of predict")
        model = live or self._read()
        assert isinstance(model, RowLearner)
        return model.predict(features) if live else model.predict_federated(features)

    def note_use(self, owner: bytes, features: object = None) -> None:
        """Count what a prediction for an owner reads as used now.

        These are the owner's examples, or the neighbours that a live model finds; without features,
        those of the owner's newest example.
        """
        records = self._journal.records_of([owner])[State.LEARNED]
        found = self._find_used(records[-1:], features) if self._resident and records else None
        self._journal.touch((record.id for record in records) if found is None else found)

    def _find_used(self, newest: Sequence[Record], features: object) -> list[int] | None:
        def used(live: Learner) -> list[int] | None:
            if not isinstance(live, RowLearner):
                return None
            return live.find_used(live.rows_of(newest)[0] if features is None else features)

        assert self._resident is not None
        return self._resident.ask(used)

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
            raise NotLearned(
                "no model is here yet; none is published, or the worker has not fetched it"
            )
        version, statistics = published
        key = (self._journal.setting("epoch", ""), version)
        if self._model is None or key != self._key:
            model = self._make()
            try:
                model.merge(Statistics.from_bytes(statistics))
            except BadInput as error:
                raise BadBytes(f"version {version} of the model is damaged: {error}") from error
            self._model, self._key = model, key
        return self._model


def _add(known: bytes, change: bytes) -> bytes:
    """Return the bytes of a sum; empty if there is none."""
    try:
        return (Statistics.from_bytes(known) + Statistics.from_bytes(change)).to_bytes()
    except BadInput:
        return b""
