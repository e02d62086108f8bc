"""The records that a worker holds of each owner: accepted on arrival, deleted on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import msgspec

from dealfl.erasure import EXAMPLE, READMISSION, example_hash, split_entry
from dealfl.errors import BadInput, describe_without_values
from dealfl.learners import Learner, StoredRecord
from dealfl.power import Signalled
from dealfl.worker.cost import Done, Meter
from dealfl.worker.device import signalled
from dealfl.worker.journal import Journal
from dealfl.worker.models import Recovery
from dealfl.worker.outbox import Outbox
from dealfl.worker.resident import ResidentModel
from dealfl.worker.tables import Record, State
from dealfl.worker.trainer import Trainer

__all__ = ["Accepted", "Holdings"]

_as_record = partial(tuple.__new__, StoredRecord)  # faster than a call of the class
_SUPPRESS = "INSERT OR IGNORE INTO suppressed VALUES (?)"
_REWRITE = "UPDATE records SET body = ? WHERE id = ?"
_READMIT = "DELETE FROM suppressed WHERE owner = ?"


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


class Holdings:
    """Accepts, erases and readmits; every call is part of the caller's transaction."""

    def __init__(
        self,
        journal: Journal,
        learner: Learner,
        outbox: Outbox,
        recovery: Recovery,
        meter: Meter,
        trainer: Trainer,
        key: bytes,
        clock: Signalled,
        resident: ResidentModel | None,
    ) -> None:
        self._journal, self._learner, self._outbox = journal, learner, outbox
        self._recovery, self._meter, self._trainer, self._key = recovery, meter, trainer, key
        self._whole_owners, self._clock = learner.whole_owners, clock
        self._resident = resident

    # -- new records ----------------------------------------------------------------------------

    def take(self, rows: Sequence[tuple[bytes, bytes]]) -> Accepted:
        """Store records (keyed hash of the owner, body); drop those of erased owners."""
        anyone = self._journal.execute("SELECT 1 FROM suppressed LIMIT 1").fetchone() is not None
        known = [row for row in rows if not (anyone and self._is_suppressed(row[0]))]
        packed, reasons = self._pack(list(map(_as_record, known)))
        new = list(zip((owner for owner, _ in known), packed, strict=True))
        places: Sequence[int] = range(len(new))
        if anyone:
            hashes = [example_hash(self._key, *row) for row in new]
            places = [place for place in places if not self._is_suppressed(hashes[place])]
        ids = self._journal.add([new[place] for place in places], State.WAITING)
        numbers = dict(zip(places, ids, strict=True))
        for place, reason in reasons.items():
            self._journal.quarantine(numbers.pop(place), reason)
        watched = numbers.values() if self._recovery.active else ()
        held_back = [number for number in watched if self._recovery.holds_back(number)]
        self._journal.move(held_back, State.WAITING, State.VALIDATION)
        waiting, suppressed = len(numbers) - len(held_back), len(rows) - len(ids)
        return Accepted(waiting, len(held_back), suppressed, len(reasons))

    def _pack(
        self, records: Sequence[StoredRecord], first: int = 0
    ) -> tuple[list[bytes], dict[int, str]]:
        """Return records as integers, and by place the reasons why some cannot be learned."""
        try:
            return self._learner.pack(records), {}
        except (ValueError, TypeError, OverflowError, msgspec.MsgspecError) as error:
            if len(records) == 1:
                return [b""], {first: describe_without_values(error, "it is not a valid example")}
        middle = len(records) // 2
        left = self._pack(records[:middle], first)
        right = self._pack(records[middle:], first + middle)
        return left[0] + right[0], left[1] | right[1]

    def open(self) -> None:
        """Convert records of an older version; refuse those of a learner with other settings."""
        journal, schema = self._journal, self._learner.schema.digest()
        if journal.setting("floats", "") == "yes":
            for state in State:
                records = journal.records(state)
                for record, body in zip(records, self._learner.pack(records), strict=True):
                    journal.execute(_REWRITE, (body, record.id))
            journal.set_setting("floats", "no")
            journal.note_deletion(compact=bool(journal.owners()))
        elif journal.setting("schema", "") != schema and journal.owners():
            raise BadInput(
                f"journal {journal.path} holds examples as integers of a learner with other "
                "settings; use the settings of before, or another journal"
            )
        journal.set_setting("schema", schema)

    def _is_suppressed(self, owner: bytes) -> bool:
        query = "SELECT 1 FROM suppressed WHERE owner = ?"
        return self._journal.execute(query, (owner,)).fetchone() is not None

    # -- erasure ---------------------------------------------------------------------------------

    def apply_request(self, entries: Sequence[bytes], now_s: float) -> int:
        """Apply entries in their order: forget owners or examples, or readmit owners."""
        examples = 0
        for letter, group in groupby(entries, key=lambda entry: split_entry(entry)[0]):
            if letter == READMISSION:
                for entry in group:
                    self._journal.execute(_READMIT, (split_entry(entry)[1],))
            else:
                examples += self._forget_entries(list(group), letter == EXAMPLE, now_s)
        return examples

    def _forget_entries(self, entries: list[bytes], are_examples: bool, now_s: float) -> int:
        """Forget and delete the records of owners, or examples, and suppress future ones."""
        new = [one for one in entries if self._journal.execute(_SUPPRESS, (one,)).rowcount]
        by_state = (
            self._find_examples(entries) if are_examples else self._journal.records_of(entries)
        )
        examples = self._forget(by_state, now_s)
        if examples:
            self._outbox.compact_when_settled()
        elif new:  # a long list comes in many parts
            self._journal.set_setting("suppressed", "more")
        return examples

    def _find_examples(self, hashes: Sequence[bytes]) -> dict[State, list[Record]]:
        wanted = set(hashes)
        return {
            state: [
                one
                for one in self._journal.records(state)
                if example_hash(self._key, one.owner, one.body) in wanted
            ]
            for state in State
        }

    def finish_erasure(self) -> None:
        """Compact the journal if new owners are suppressed: it may hold what was evicted before."""
        if self._journal.setting("suppressed", ""):
            self._journal.set_setting("suppressed", "")
            self._outbox.compact_when_settled()

    def _forget(self, by_state: dict[State, list[Record]], now_s: float) -> int:
        gone = [record for records in by_state.values() for record in records]
        if not gone:
            return 0
        self._meter.start()
        learned = by_state[State.LEARNED]
        kept = self._trainer.rest_of_histories(learned, learned)
        with signalled(self._clock, learns=False, forgets=bool(learned)):
            change = self._learner.difference((), learned, kept)
        if self._resident is not None:
            self._resident.update((), learned, kept)
            self._resident.flush()
            self._resident.settle()
        self._meter.cost(Done(forgotten=change.forgotten, wakes=False))
        for state, records in by_state.items():
            self._journal.delete([record.id for record in records], state)
        for record in gone:  # a readmitted owner brings new examples only
            self._journal.execute(_SUPPRESS, (example_hash(self._key, record.owner, record.body),))
        self._trainer.note_forgetness(0, len(learned))
        self._outbox.erase(change.delta, now_s)
        return len(gone)
