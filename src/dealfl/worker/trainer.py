"""Training: changes to the learned records of a worker, and the updates that report them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from operator import itemgetter

from dealfl.learners import Change, HeldRecords, Learner
from dealfl.learners import Record as AnyRecord
from dealfl.power import Signalled
from dealfl.worker.cost import Done, Meter
from dealfl.worker.device import signalled
from dealfl.worker.journal import Journal
from dealfl.worker.models import Recovery
from dealfl.worker.outbox import Outbox
from dealfl.worker.resident import ResidentModel
from dealfl.worker.schemes import Scheme
from dealfl.worker.tables import Record, State

__all__ = ["Trainer"]

_ITEM = itemgetter(1, 2)  # owner and body of a record


class Trainer:
    """Learns and evicts; every call is part of the caller's transaction."""

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
    ) -> None:
        self._journal, self._learner, self._scheme = journal, learner, scheme
        self._whole_owners = learner.whole_owners
        self._outbox, self._recovery, self._meter = outbox, recovery, meter
        self._clock = clock
        self._resident = resident

    # -- training -------------------------------------------------------------------------------

    def train(self, new: list[Record], fraction: Fraction, round_number: int, now_s: float) -> None:
        """Learn new records, evict old ones by the scheme, and post the difference."""
        self._meter.start()
        wanted, fraction = fraction, self._recovery.current(fraction)
        held = self._journal.count(State.LEARNED)
        carry = Fraction(self._journal.setting("carry", "0"))
        eviction = self._scheme.retention.evict(held, fraction, carry)
        self._journal.set_setting("carry", str(eviction.carry))
        evicted = self._journal.records(State.LEARNED, eviction.count) if eviction.count else []
        if self._journal.count(State.GRACE):
            self._journal.delete(
                [one.id for one in self._journal.records(State.GRACE)], State.GRACE
            )
        kept = self._affected(new, evicted)
        change, mistake = self._change_reviewed(new, evicted, kept, wanted)
        body = change.delta.to_bytes()
        self._journal.change_learned(new, evicted, recoverable=self._recovery.active)
        self.note_forgetness(len(new), len(evicted))
        done = replace(
            self._settle(),
            learned=change.learned,
            forgotten=change.forgotten,
            reviewed=self._recovery.take_operations(),
            examples=len(kept) + len(new),
            held=held + len(new) - len(evicted),
            fetched_bytes=self._take_fetched(),
            sent_bytes=len(body),
        )
        learned, lost = len(new), len(evicted)
        if self._whole_owners:  # a history is a set: a repeated item is no new one
            gained, gone = set(map(_ITEM, new)), set(map(_ITEM, evicted))
            rest = {owner: set(some) for owner, some in HeldRecords.of(kept).bodies.items()}
            changed = {item for item in gained ^ gone if item[1] not in rest.get(item[0], ())}
            learned, lost = len(gained & changed), len(gone & changed)
        due_s = self._post(body, done, now_s, round_number, learned, lost)
        if mistake:
            self._learn_back(evicted, due_s)

    def _post(
        self,
        delta: bytes,
        done: Done,
        now_s: float,
        round_number: int | None,
        learned: int,
        evicted: int,
    ) -> float:
        """Put an update and its cost into the outbox; return the time when it is due."""
        cost = self._meter.cost(done)
        due_s = now_s + cost.delay_s
        self._outbox.post(
            delta,
            due_s,
            round_number=round_number,
            learned=learned,
            evicted=evicted,
            work=done.work,
            elapsed_s=cost.elapsed_s,
            energy_j=cost.energy_j,
        )
        return due_s

    def _take_fetched(self) -> int:
        """Return the bytes of the published model that were fetched since the last training."""
        fetched = int(self._journal.setting("fetched_bytes", "0"))
        if fetched:
            self._journal.set_setting("fetched_bytes", "0")
        return fetched

    def _change_reviewed(
        self,
        new: list[Record],
        evicted: list[Record],
        kept: Sequence[AnyRecord],
        fraction: Fraction,
    ) -> tuple[Change, bool]:
        """Return the change, and whether the eviction made the live model worse; θ follows."""
        resident, scratch = self._resident, self._scheme.needs_everything
        if resident is None or scratch or not (self._recovery.active and evicted):
            return self._change(new, evicted, kept), False
        with signalled(self._clock, learns=bool(new), forgets=True):
            gained = resident.update(new, (), [*kept, *evicted])
            with_them = resident.ask(self._recovery.score)
            lost = resident.update((), evicted, [*kept, *new])
        mistake = self._recovery.is_worse(with_them, resident.ask(self._recovery.score))
        (self._recovery.lower if mistake else self._recovery.restore)(fraction)
        return Change(gained.delta + lost.delta, gained.learned, lost.forgotten), mistake

    def _change(
        self, new: Sequence[Record], evicted: Sequence[Record], kept: Sequence[AnyRecord]
    ) -> Change:
        """Return what learning and forgetting changes; clock and live model follow."""
        scheme, resident = self._scheme, self._resident
        forgets = bool(evicted) and not scheme.needs_everything
        with signalled(self._clock, learns=bool(new), forgets=forgets):
            if resident is not None and not scheme.needs_everything:
                return resident.update(new, evicted, kept)
            change = scheme.change(self._learner, new, evicted, kept)
            if resident is not None:
                resident.retrain([*kept, *new])
            return change

    def _settle(self) -> Done:
        """Finish a change of the resident model; return what it counted."""
        return Done() if self._resident is None else self._resident.settle()

    def _learn_back(self, evicted: list[Record], due_s: float) -> None:
        """Learn evicted records again, as an ordinary update."""
        kept = self._affected(evicted, ())
        self._meter.start()
        change = self._change(evicted, (), kept)
        body = change.delta.to_bytes()
        self._journal.move([record.id for record in evicted], State.GRACE, State.LEARNED)
        self.note_forgetness(len(evicted), 0, recovered=len(evicted))
        done = replace(
            self._settle(),
            learned=change.learned,
            forgotten=change.forgotten,
            examples=len(kept) + len(evicted),
            held=len(kept) + len(evicted),
            sent_bytes=len(body),
            wakes=False,
        )
        self._post(body, done, due_s, None, len(evicted), 0)

    def post_full_sum(self, now_s: float) -> None:
        """Post the statistics of all learned records; a new incarnation starts from zero."""
        held = self._journal.records(State.LEARNED)
        if not held:
            return
        self._meter.start()
        with signalled(self._clock, learns=True, forgets=False):
            change = self._learner.difference(held, ())
        body = change.delta.to_bytes()
        done = Done(
            learned=change.learned,
            examples=len(held),
            held=len(held),
            sent_bytes=len(body),
            wakes=False,
        )
        self._post(body, done, now_s, None, len(held), 0)

    def _affected(self, new: Sequence[Record], evicted: Sequence[Record]) -> Sequence[AnyRecord]:
        """Return the records beside the evicted ones that a training reads."""
        if not self._scheme.needs_everything:
            return self.rest_of_histories([*new, *evicted], evicted)
        ids = {record.id for record in evicted}
        return [record for record in self._journal.records(State.LEARNED) if record.id not in ids]

    def rest_of_histories(
        self, records: Sequence[Record], without: Sequence[Record]
    ) -> Sequence[AnyRecord]:
        """Return the other learned records of the owners of some records, if histories matter."""
        if not self._whole_owners:
            return ()
        owners = {record.owner for record in records}
        return HeldRecords(self._journal.bodies_of(owners, without))

    def note_forgetness(self, learned: int, forgotten: int, recovered: int = 0) -> None:
        """Add to the numbers of records that were learned, forgotten, and learned again."""
        counts = {"learned": learned, "forgotten": forgotten, "recovered": recovered}
        for name, count in counts.items():
            if count:
                total = int(self._journal.setting(f"total_{name}", "0")) + count
                self._journal.set_setting(f"total_{name}", str(total))

    @property
    def level_of_forgetness(self) -> float:
        """The number of records forgotten per record learned, so far."""
        learned = int(self._journal.setting("total_learned", "0"))
        return int(self._journal.setting("total_forgotten", "0")) / learned if learned else 0.0
