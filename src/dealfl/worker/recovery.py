"""Recovery from a bad eviction: what was evicted is learned back if the model is worse without it.

A worker keeps a small slice of its records that is never learned, to validate with. Evicted records
wait in a grace area, outside the statistics but within the reach of an erasure, until the next
training. The model compared here is the worker's own, a cache that is rebuilt after a restart.
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
    """Decides what is held back for validation, and whether an eviction was a mistake."""

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
                f"validation_share must be from 0 to below 1 and tolerance from 0 on, "
                f"not {validation_share} and {tolerance}"
            )
        self._journal, self._make = journal, make
        self._share, self._tolerance = validation_share, tolerance
        self._live: Learner | None = None

    @property
    def active(self) -> bool:
        """Whether anything is validated at all."""
        return self._share > 0

    def forget_model(self) -> None:
        """Drop the worker's own model; it is rebuilt when needed."""
        self._live = None

    def holds_back(self, identity: int) -> bool:
        """Return whether a record is held back for validation; the same for ever for an id."""
        draw = hashlib.blake2b(str(identity).encode(), digest_size=8).digest()
        return int.from_bytes(draw, "little") < self._share * 2**64

    def is_worse_without(
        self, before: Sequence[Record], new: Sequence[Record], evicted: Sequence[Record]
    ) -> bool:
        """Return whether the model is worse after an eviction than it would be without it."""
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
        """Return θ after a mistake: half of it, until all is well again."""
        current = self.current(fraction)
        self._journal.set_setting("theta", str(current / 2))
        return current / 2

    def current(self, fraction: Fraction) -> Fraction:
        """Return the θ to use now: the job's, or less after a mistake."""
        if not self.active:
            return fraction
        return min(Fraction(self._journal.setting("theta", str(fraction))), fraction)

    def restore(self, fraction: Fraction) -> None:
        """Let θ return towards the job's after a training in which all was well."""
        self._journal.set_setting("theta", str(min(self.current(fraction) * 2, fraction)))
