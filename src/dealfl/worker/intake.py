"""Intake of new records: drop erased owners, quarantine bad records, hold some back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from dealfl.erasure import admit
from dealfl.learners import Learner, statistics_of
from dealfl.worker.journal import Journal
from dealfl.worker.recovery import Recovery
from dealfl.worker.tables import Record, State

__all__ = ["Accepted", "Intake"]


@dataclass(frozen=True, slots=True)
class Accepted:
    """The number of new records by outcome.

    Parameters
    ----------
    waiting : int
        Accepted; the next training learns them.
    held_back : int
        Held back for validation, never learned.
    suppressed : int
        Dropped because their owner was erased.
    quarantined : int
        Deleted because they cannot be learned; the journal keeps the reasons.
    """

    waiting: int
    held_back: int
    suppressed: int
    quarantined: int


class Intake:
    """Accepts new records; every call is part of the caller's transaction."""

    def __init__(self, journal: Journal, make: Callable[[], Learner], recovery: Recovery) -> None:
        self._journal, self._make, self._recovery = journal, make, recovery

    def take(self, rows: Sequence[tuple[bytes, bytes]]) -> Accepted:
        """Store records (keyed hash of the owner, body); drop those of erased owners."""
        admitted = admit(rows, self._journal.is_suppressed)
        ids = self._journal.add(admitted, State.WAITING)
        records = [Record(i, *row) for i, row in zip(ids, admitted, strict=True)]
        bad = self._find_unusable(records)
        for record, reason in bad:
            self._journal.quarantine(record.id, reason)
        unusable = {record.id for record, _ in bad}
        held_back = [i for i in ids if self._recovery.holds_back(i) and i not in unusable]
        self._journal.move(held_back, State.VALIDATION)
        waiting = len(admitted) - len(bad) - len(held_back)
        return Accepted(waiting, len(held_back), len(rows) - len(admitted), len(bad))

    def _find_unusable(self, records: Sequence[Record]) -> list[tuple[Record, str]]:
        """Return the records that cannot be learned, with the reasons."""
        try:
            statistics_of(self._make, records)
        except (ValueError, TypeError, OverflowError, msgspec.MsgspecError) as error:
            if len(records) == 1:
                return [(records[0], str(error))]
            middle = len(records) // 2
            return self._find_unusable(records[:middle]) + self._find_unusable(records[middle:])
        return []
