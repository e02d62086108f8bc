"""Recovery from a bad eviction: evicted records are learned again if the model is worse.

A worker holds back a small share of its records for validation and never learns them. Evicted
records stay in the GRACE state until the next training: outside the statistics, but within reach of
an erasure. The model compared here is the worker's own, a cache that is rebuilt after a restart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from fractions import Fraction

from dealfl.errors import BadInput
from dealfl.learners import Learner, statistics_of
from dealfl.worker.journal import Journal
from dealfl.worker.tables import Record, State

__all__ = ["Recovery"]


class Recovery:
    """Selects the records for validation, and detects evictions that hurt the model."""

    def __init__(
        self,
        journal: Journal,
        make: Callable[[], Learner],
        *,
        validation_share: float,
        tolerance: float,
    ) -> None:
        if not 0 <= validation_share < 1 or tolerance < 0:
            raise BadInput(
                f"validation_share is {validation_share} and tolerance is {tolerance}; "
                "they must be ≥ 0 and < 1, and ≥ 0"
            )
        self._journal, self._make = journal, make
        self._share, self._tolerance = validation_share, tolerance
        self._live: Learner | None = None

    @property
    def active(self) -> bool:
        """Whether any records are held back for validation."""
        return self._share > 0

    def forget_model(self) -> None:
        """Drop the worker's own model; the next comparison rebuilds it."""
        self._live = None

    def holds_back(self, identity: int) -> bool:
        """Return whether a record is held back for validation; depends only on its id."""
        draw = hashlib.blake2b(str(identity).encode(), digest_size=8).digest()
        return int.from_bytes(draw, "little") < self._share * 2**64

    def is_worse_without(
        self, before: Sequence[Record], new: Sequence[Record], evicted: Sequence[Record]
    ) -> bool:
        """Return whether the eviction makes the model worse by more than the tolerance."""
        slice_ = self._journal.records(State.VALIDATION)
        live = self._live or self._new_model(before)
        live.merge(statistics_of(self._make, new)[0])
        with_them = live.score_records(slice_)
        live.merge(-statistics_of(self._make, evicted)[0])
        without_them = live.score_records(slice_) if len(before) + len(new) else None
        self._live = live
        if with_them is None or without_them is None:
            return False
        if with_them - without_them <= self._tolerance:
            return False
        live.merge(statistics_of(self._make, evicted)[0])
        return True

    def _new_model(self, records: Sequence[Record]) -> Learner:
        learner = self._make()
        learner.merge(statistics_of(self._make, records)[0])
        return learner

    def lower(self, fraction: Fraction) -> Fraction:
        """Halve θ after a bad eviction, and return it."""
        current = self.current(fraction)
        self._journal.set_setting("theta", str(current / 2))
        return current / 2

    def current(self, fraction: Fraction) -> Fraction:
        """Return the current θ: the job's, or less after a bad eviction."""
        if not self.active:
            return fraction
        return min(Fraction(self._journal.setting("theta", str(fraction))), fraction)

    def restore(self, fraction: Fraction) -> None:
        """Double θ, up to the job's, after a training without a bad eviction."""
        self._journal.set_setting("theta", str(min(self.current(fraction) * 2, fraction)))
