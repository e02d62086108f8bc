"""What changes the records of a worker: arrival, training, eviction, erasure.

Every change of learned records is an update in the outbox. Every call is part of the caller's
transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import groupby
from operator import itemgetter

import msgspec
from msgspec.structs import replace

from dealfl.erasure import EXAMPLE, READMISSION, example_hash, split_entry
from dealfl.errors import BadInput, describe_without_values
from dealfl.learners import Change, HeldRecords, Learner, StoredRecord
from dealfl.learners import Record as AnyRecord
from dealfl.power import Signalled, Training
from dealfl.worker.device import Meter, signalled
from dealfl.worker.journal import Journal, Record, State
from dealfl.worker.models import Recovery, ResidentModel
from dealfl.worker.outbox import Outbox
from dealfl.worker.schemes import Scheme

_as_record = partial(tuple.__new__, StoredRecord)  # faster than a call of the class
_owner_and_body = itemgetter(1, 2)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The number of new records by outcome."""

    waiting: int  # the next training learns them
    held_back: int  # for validation, until newer ones replace them
    suppressed: int  # dropped because their owner was erased
    quarantined: int  # deleted because they cannot be learned; the journal keeps the reasons


class Trainer:
    """Accepts, learns, evicts, erases and readmits records."""

    def __init__(
        self,
        journal: Journal,
        learner: Learner,
        scheme: Scheme,
        outbox: Outbox,
        recovery: Recovery,
        meter: Meter,
        clock: Signalled,
        resident: ResidentModel | None,
        key: bytes,
        *,
        tests_drift: bool,
    ) -> None:
        self._journal = journal
        self._learner = learner
        self._scheme = scheme
        self._outbox = outbox
        self._recovery = recovery
        self.meter = meter
        self.clock = clock
        self.resident = resident
        self._key = key
        self._tests_drift = tests_drift
        self._schema_digest = learner.schema.digest()

    def require_schema(self) -> None:
        """Refuse records of a learner with other settings."""
        journal = self._journal
        digest = self._schema_digest
        if journal.state.schema != digest and journal.owners():
            raise BadInput(
                f"journal {journal.path} holds examples as integers of a learner with other "
                "settings; use the settings of before, or another journal"
            )
        journal.state.schema = digest

    # -- new records ----------------------------------------------------------------------------

    def take(self, rows: Sequence[tuple[bytes, bytes]]) -> Accepted:
        """Store records (keyed hash of the owner, body); drop those of erased owners."""
        anyone = self._journal.suppresses_anyone
        admitted = [row for row in rows if not (anyone and self._journal.suppresses(row[0]))]
        packed, reasons = self._pack(list(map(_as_record, admitted)))
        new = list(zip((owner for owner, _ in admitted), packed, strict=True))
        indices: Sequence[int] = range(len(new))
        if anyone:
            hashes = [example_hash(self._key, *row) for row in new]
            indices = [index for index in indices if not self._journal.suppresses(hashes[index])]
        ids = self._journal.add([new[index] for index in indices], State.WAITING)
        numbers = dict(zip(indices, ids, strict=True))
        for index, reason in reasons.items():
            self._journal.quarantine(numbers.pop(index), reason)
        held_back = self._hold_back(numbers.values())
        return Accepted(len(numbers) - held_back, held_back, len(rows) - len(ids), len(reasons))

    def _hold_back(self, new: Iterable[int]) -> int:
        """Hold back some new records, and learn next those that they replace."""
        recovery = self._recovery
        if not recovery.active:
            return 0
        size = recovery.size
        drawn = [number for number in new if recovery.draws(number)]
        drawn = drawn[max(len(drawn) - size, 0) :]
        surplus = self._journal.count(State.VALIDATION) + len(drawn) - size
        replaced = self._journal.records(State.VALIDATION, surplus) if surplus > 0 else []
        self._journal.move([record.id for record in replaced], State.VALIDATION, State.WAITING)
        self._journal.move(drawn, State.WAITING, State.VALIDATION)
        return len(drawn)

    def _pack(
        self, records: Sequence[StoredRecord], first: int = 0
    ) -> tuple[list[bytes], dict[int, str]]:
        """Return records as integers, and by index the reasons why some cannot be learned."""
        try:
            return self._learner.pack(records), {}
        except (ValueError, TypeError, OverflowError, msgspec.MsgspecError) as error:
            if len(records) == 1:
                return [b""], {first: describe_without_values(error, "it is not a valid example")}
        middle = len(records) // 2
        left = self._pack(records[:middle], first)
        right = self._pack(records[middle:], first + middle)
        return left[0] + right[0], left[1] | right[1]

    # -- training -------------------------------------------------------------------------------

    def train(
        self,
        new: list[Record],
        assigned: Fraction,
        round_number: int,
        now_s: float,
        *,
        rides: bool = False,
        others_alarmed: bool = False,
    ) -> None:
        """Learn new records, evict old ones by the scheme, and post the difference.

        A training that rides along with other traffic costs no tail of the radio.
        """
        journal = self._journal
        state = journal.state
        self.meter.start()
        before = journal.count(State.LEARNED)
        outdated = self._find_outdated(new, others_alarmed)
        evicted = outdated or self._evict(before, assigned)
        if journal.count(State.GRACE):
            journal.delete([record.id for record in journal.records(State.GRACE)], State.GRACE)
        kept = self._affected(new, evicted)
        if outdated:
            change, mistake = self._change(new, evicted, kept), False
        else:
            change, mistake = self._change_reviewed(new, evicted, kept, assigned)
        body = change.delta.to_bytes()
        journal.change_learned(new, evicted, recoverable=self._recovery.active)
        state.learned += len(new)
        state.forgotten += len(evicted)
        after = before + len(new) - len(evicted)
        examples = len(kept) + len(new)
        training = replace(
            self._commit(),
            learned_operations=change.learned.operations,
            forgotten_operations=change.forgotten.operations,
            reviewed_operations=self._recovery.take_operations(),
            scratch_operations=change.learned.operations * after / examples if examples else 0.0,
            fetched_bytes=state.fetched_bytes,
            sent_bytes=self._outbox.size_of(body),
            rides=rides,
        )
        state.fetched_bytes = 0
        learned = len(new)
        lost = len(evicted)
        first_sent = [record for record in new if record.id > state.fresh_after]
        fresh = len(first_sent)
        if self._learner.whole_owners:  # a history is a set: a repeated item is no new one
            gained = set(map(_owner_and_body, new))
            gone = set(map(_owner_and_body, evicted))
            rest = {owner: set(bodies) for owner, bodies in HeldRecords.of(kept).bodies.items()}
            changed = {item for item in gained ^ gone if item[1] not in rest.get(item[0], ())}
            learned = len(gained & changed)
            lost = len(gone & changed)
            fresh = len(changed.intersection(map(_owner_and_body, first_sent)))
        due_s = self._post(
            body,
            training,
            now_s,
            round_number,
            learned,
            lost,
            alarmed=bool(outdated),
            fresh=0 if change.delta.is_zero else fresh,
        )
        if mistake:
            self._learn_back(evicted, due_s)

    def _evict(self, before: int, assigned: Fraction) -> list[Record]:
        """Return the records that the scheme evicts by θ."""
        state = self._journal.state
        theta = self._recovery.current(assigned)
        eviction = self._scheme.retention.evict(before, theta, state.carry)
        state.carry = eviction.carry
        return self._journal.records(State.LEARNED, eviction.count) if eviction.count else []

    def _find_outdated(self, new: list[Record], others_alarmed: bool) -> list[Record]:
        """Test the live model on new records; after an alarm, return all from before the change."""
        if not self._tests_drift or self.resident is None or not new:
            return []
        seen: Sequence[Record] = ()
        if self._learner.whole_owners:
            owners = [record.owner for record in new]
            seen = self._journal.records_of(owners)[State.LEARNED]
        score = self._recovery.score_new(self.resident, new, seen)
        if score is None:
            return []
        first = min(record.id for record in new)
        changed_at = self._journal.state.drift.note(
            score, len(new), first, others_alarmed=others_alarmed
        )
        if not changed_at:
            return []
        return [r for r in self._journal.records(State.LEARNED) if r.id < changed_at]

    def _post(
        self,
        delta: bytes,
        training: Training,
        now_s: float,
        round_number: int | None,
        learned: int,
        evicted: int = 0,
        *,
        alarmed: bool = False,
        fresh: int = 0,
    ) -> float:
        """Put an update and its cost into the outbox; return the time when it is due."""
        cost = self.meter.cost(training)
        due_s = now_s + cost.delay_s
        self._outbox.post(
            delta,
            due_s,
            round_number=round_number,
            learned=learned,
            evicted=evicted,
            alarmed=alarmed,
            operations=training.operations,
            elapsed_s=cost.elapsed_s,
            energy_j=cost.energy_j,
            fresh=fresh,
        )
        return due_s

    def _change_reviewed(
        self,
        new: list[Record],
        evicted: list[Record],
        kept: Sequence[AnyRecord],
        assigned: Fraction,
    ) -> tuple[Change, bool]:
        """Return the change, and whether the eviction made the live model worse; θ follows."""
        recovery = self._recovery
        resident = self.resident
        if resident is None or self._scheme.from_scratch or not recovery.can_judge or not evicted:
            return self._change(new, evicted, kept), False
        with signalled(self.clock, learns=bool(new), forgets=True):
            gained = resident.update(new, (), [*kept, *evicted])
            with_them = resident.ask(recovery.score)
            lost = resident.update((), evicted, [*kept, *new])
        mistake = with_them is not None and recovery.is_worse(
            with_them, resident.ask(recovery.score)
        )
        recovery.adapt(assigned, lower=mistake)
        return Change(gained.delta + lost.delta, gained.learned, lost.forgotten), mistake

    def _change(
        self, new: Sequence[Record], evicted: Sequence[Record], kept: Sequence[AnyRecord]
    ) -> Change:
        """Return what learning and forgetting changes; clock and live model follow."""
        from_scratch = self._scheme.from_scratch
        resident = self.resident
        forgets = bool(evicted) and not from_scratch
        with signalled(self.clock, learns=bool(new), forgets=forgets):
            if resident is not None and not from_scratch:
                return resident.update(new, evicted, kept)
            change = self._scheme.change(self._learner, new, evicted, kept)
            if resident is not None:
                resident.retrain([*kept, *new])
            return change

    def _commit(self) -> Training:
        """Finish a change of the resident model; return what it counted."""
        return Training() if self.resident is None else self.resident.commit()

    def _learn_back(self, evicted: list[Record], due_s: float) -> None:
        """Learn evicted records again, as an ordinary update."""
        kept = self._affected(evicted, ())
        self.meter.start()
        change = self._change(evicted, (), kept)
        self._journal.move([record.id for record in evicted], State.GRACE, State.LEARNED)
        self._journal.state.learned += len(evicted)
        self._journal.state.recovered += len(evicted)
        self._post_learned(change, self._commit(), due_s, len(evicted))

    def post_full_sum(self, now_s: float) -> None:
        """Post the statistics of all learned records; a new incarnation starts from zero."""
        records = self._journal.records(State.LEARNED)
        if not records:
            return
        self.meter.start()
        with signalled(self.clock, learns=True, forgets=False):
            change = self._learner.difference(records, ())
        self._post_learned(change, Training(), now_s, len(records))

    def _post_learned(self, change: Change, training: Training, now_s: float, learned: int) -> None:
        """Post an update without an assignment; the device is awake already."""
        body = change.delta.to_bytes()
        done = replace(
            training,
            learned_operations=change.learned.operations,
            forgotten_operations=change.forgotten.operations,
            scratch_operations=float(change.learned.operations),
            sent_bytes=self._outbox.size_of(body),
            wakes=False,
        )
        self._post(body, done, now_s, None, learned)

    def _affected(self, new: Sequence[Record], evicted: Sequence[Record]) -> Sequence[AnyRecord]:
        """Return the records beside the evicted ones that a training reads."""
        if not self._scheme.from_scratch:
            return self._rest_of_histories([*new, *evicted], evicted)
        ids = {record.id for record in evicted}
        return [record for record in self._journal.records(State.LEARNED) if record.id not in ids]

    def _rest_of_histories(
        self, records: Sequence[Record], without: Sequence[Record]
    ) -> Sequence[AnyRecord]:
        """Return the other learned records of the owners of some records, if histories matter."""
        if not self._learner.whole_owners:
            return ()
        owners = {record.owner for record in records}
        return HeldRecords(self._journal.bodies_of(owners, without))

    # -- erasure --------------------------------------------------------------------------------

    def apply_request(self, entries: Sequence[bytes], now_s: float) -> int:
        """Apply entries in their order: forget owners or examples, or readmit owners."""
        examples = 0
        for letter, group in groupby(entries, key=lambda entry: split_entry(entry)[0]):
            if letter == READMISSION:
                for entry in group:
                    self._journal.readmit(split_entry(entry)[1])
            else:
                examples += self._forget_entries(list(group), letter == EXAMPLE, now_s)
        return examples

    def _forget_entries(self, entries: list[bytes], are_examples: bool, now_s: float) -> int:
        """Forget and delete the records of owners, or examples, and suppress future ones."""
        new = [entry for entry in entries if self._journal.suppress(entry)]
        by_state = (
            self._find_examples(entries) if are_examples else self._journal.records_of(entries)
        )
        examples = self._forget(by_state, now_s)
        if examples:
            self._outbox.compact_when_settled()
        elif new:  # a long list comes in many parts
            self._journal.state.is_suppressed = True
        return examples

    def _find_examples(self, hashes: Sequence[bytes]) -> dict[State, list[Record]]:
        wanted = set(hashes)
        return {
            state: [
                record
                for record in self._journal.records(state)
                if example_hash(self._key, record.owner, record.body) in wanted
            ]
            for state in State
        }

    def finish_erasure(self) -> None:
        """Compact the journal if new owners are suppressed: it may hold what was evicted before."""
        if self._journal.state.is_suppressed:
            self._journal.state.is_suppressed = False
            self._outbox.compact_when_settled()

    def _forget(self, by_state: dict[State, list[Record]], now_s: float) -> int:
        gone = [record for records in by_state.values() for record in records]
        if not gone:
            return 0
        self.meter.start()
        learned = by_state[State.LEARNED]
        kept = self._rest_of_histories(learned, learned)
        with signalled(self.clock, learns=False, forgets=bool(learned)):
            change = self._learner.difference((), learned, kept)
        if self.resident is not None:
            self.resident.update((), learned, kept)
            self.resident.flush()
            self.resident.commit()
        self.meter.cost(Training(forgotten_operations=change.forgotten.operations, wakes=False))
        for state, records in by_state.items():
            self._journal.delete([record.id for record in records], state)
        for record in gone:  # a readmitted owner brings new examples only
            self._journal.suppress(example_hash(self._key, record.owner, record.body))
        self._journal.state.forgotten += len(learned)
        self._outbox.erase(change.delta, now_s, len(learned))
        return len(gone)
