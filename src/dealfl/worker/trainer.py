"""Training: changes to the learned records of a worker, and the updates that report them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dealfl.learners import Change, Learner
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
        self._journal.delete(record.id for record in self._journal.records(State.GRACE))
        before = self._affected(new, evicted)
        evicted_ids = {record.id for record in evicted}
        after = [record for record in before if record.id not in evicted_ids] + new
        change, mistake = self._change_reviewed(new, evicted, before, after, wanted)
        body = change.delta.to_bytes()
        self._journal.move([record.id for record in new], State.LEARNED)
        if self._recovery.active:
            self._journal.move(evicted_ids, State.GRACE)
        else:
            self._journal.delete(evicted_ids)
        self.note_forgetness(len(new), len(evicted))
        pages_in, pages_out = self._settle()
        done = Done(
            learned=change.learned,
            forgotten=change.forgotten,
            examples=len(after),
            held=held + len(new) - len(evicted),
            fetched_bytes=self._take_fetched(),
            sent_bytes=len(body),
            pages_in=pages_in,
            pages_out=pages_out,
        )
        learned, lost = len(new), len(evicted)
        if self._whole_owners:  # a history is a set: a repeated item is no new one
            items_before, items = _items_of(before), _items_of(after)
            learned, lost = len(items - items_before), len(items_before - items)
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
        before: list[Record],
        after: list[Record],
        fraction: Fraction,
    ) -> tuple[Change, bool]:
        """Return the change, and whether the eviction made the live model worse; θ follows."""
        resident, scratch = self._resident, self._scheme.training.needs_everything
        if resident is None or scratch or not (self._recovery.active and evicted):
            return self._change(before, after), False
        grown = [*before, *new]
        learning, forgetting = ((grown, before), (after, grown)) if self._whole_owners else (
            (new, ()), ((), evicted)
        )  # fmt: skip
        with signalled(self._clock, learns=bool(new), forgets=True):
            gained = resident.update(*learning)
            with_them = self._recovery.score(resident.learner)
            lost = resident.update(*forgetting)
        mistake = self._recovery.is_worse(with_them, self._recovery.score(resident.learner))
        (self._recovery.lower if mistake else self._recovery.restore)(fraction)
        return Change(gained.delta + lost.delta, gained.learned, lost.forgotten), mistake

    def _change(self, before: Sequence[Record], after: Sequence[Record]) -> Change:
        """Return the difference between two sets of records; clock and live model follow."""
        training, resident = self._scheme.training, self._resident
        forgets = bool(before) and not training.needs_everything
        with signalled(self._clock, learns=bool(after), forgets=forgets):
            if resident is not None and not training.needs_everything:
                return resident.update(after, before)
            change = training.change(self._learner, before, after)
            if resident is not None:
                resident.retrain(after)
            return change

    def _settle(self) -> tuple[int, int]:
        """Finish a change of the resident model; return the pages read and written."""
        if self._resident is None:
            return 0, 0
        self._resident.settle()
        return self._resident.take_pages()

    def _learn_back(self, evicted: list[Record], due_s: float) -> None:
        """Learn evicted records again, as an ordinary update."""
        before = self.histories_of(evicted) if self._whole_owners else []
        self._meter.start()
        after = [*before, *evicted]
        change = self._change(before, after)
        body = change.delta.to_bytes()
        self._journal.move([record.id for record in evicted], State.LEARNED)
        self.note_forgetness(len(evicted), 0, recovered=len(evicted))
        pages_in, pages_out = self._settle()
        done = Done(
            learned=change.learned,
            forgotten=change.forgotten,
            examples=len(after),
            held=len(after),
            sent_bytes=len(body),
            wakes=False,
            pages_in=pages_in,
            pages_out=pages_out,
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

    def _affected(self, new: list[Record], evicted: list[Record]) -> list[Record]:
        """Return the learned records whose contribution to the statistics changes."""
        if self._scheme.training.needs_everything:
            return self._journal.records(State.LEARNED)
        return self.histories_of([*new, *evicted]) if self._whole_owners else evicted

    def histories_of(self, records: Sequence[Record]) -> list[Record]:
        """Return all learned records of the owners of some records."""
        return self._journal.records_of(record.owner for record in records)[State.LEARNED]

    def note_forgetness(self, learned: int, forgotten: int, recovered: int = 0) -> None:
        """Add to the numbers of records that were learned, forgotten, and learned again."""
        counts = {"learned": learned, "forgotten": forgotten, "recovered": recovered}
        for name, count in counts.items():
            total = int(self._journal.setting(f"total_{name}", "0")) + count
            self._journal.set_setting(f"total_{name}", str(total))

    @property
    def level_of_forgetness(self) -> float:
        """The number of records forgotten per record learned, so far."""
        learned = int(self._journal.setting("total_learned", "0"))
        return int(self._journal.setting("total_forgotten", "0")) / learned if learned else 0.0


def _items_of(records: Sequence[Record]) -> set[tuple[bytes, bytes]]:
    return {(record.owner, record.body) for record in records}
