"""What changes in a worker's records, and the updates that say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from dealfl.learners import Work
from dealfl.worker.journal import Journal, Record, State
from dealfl.worker.material import Material
from dealfl.worker.outbox import Outbox
from dealfl.worker.recovery import Recovery
from dealfl.worker.training import Scheme

__all__ = ["Cost", "Meter", "Trainer"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a training cost."""

    elapsed_s: float
    energy_j: float


class Meter(Protocol):
    """Says what work cost, measured or modelled."""

    def cost(self, work: Work) -> Cost:
        """Return the cost of the training that was just done."""


class Trainer:
    """Learns, evicts and erases; every call is part of the caller's transaction."""

    def __init__(
        self,
        journal: Journal,
        material: Material,
        scheme: Scheme,
        outbox: Outbox,
        recovery: Recovery,
        meter: Meter,
    ) -> None:
        self._journal, self._material, self._scheme = journal, material, scheme
        self._outbox, self._recovery, self._meter = outbox, recovery, meter

    def train(self, new: list[Record], fraction: Fraction, round_number: int, now_s: float) -> None:
        """Learn what is new, evict what the scheme says, and post the difference."""
        wanted, fraction = fraction, self._recovery.present(fraction)
        held = self._journal.count(State.LEARNED)
        carry = Fraction(self._journal.setting("carry", "0"))
        eviction = self._scheme.retention.evict(held, fraction, carry)
        self._journal.set_setting("carry", str(eviction.carry))
        evicted = self._journal.records(State.LEARNED, eviction.count) if eviction.count else []
        self._journal.delete(record.id for record in self._journal.records(State.GRACE))
        mistake = self._is_mistake(new, evicted, wanted)
        before = self._affected(new, evicted)
        gone = {record.id for record in evicted}
        after = [record for record in before if record.id not in gone] + new
        delta, work = self._scheme.training.delta(self._material, before, after)
        self._journal.move([record.id for record in new], State.LEARNED)
        if self._recovery.active:
            self._journal.move(gone, State.GRACE)
        else:
            self._journal.delete(gone)
        self._note_forgetness(len(new), len(gone))
        cost = self._meter.cost(work)
        self._outbox.post(
            delta,
            now_s + cost.elapsed_s,
            round_number=round_number,
            learned=len(new),
            evicted=len(gone),
            work=work,
            elapsed_s=cost.elapsed_s,
            energy_j=cost.energy_j,
        )
        if mistake:
            self._learn_back(evicted, now_s + cost.elapsed_s)

    def _is_mistake(self, new: list[Record], evicted: list[Record], fraction: Fraction) -> bool:
        """Return whether the model would be worse without what is to be evicted."""
        if not self._recovery.active or not evicted:
            self._recovery.forget_model()
            return False
        held = self._journal.records(State.LEARNED)
        if self._recovery.is_worse_without(held, new, evicted):
            self._recovery.lowered(fraction)
            return True
        self._recovery.raised(fraction)
        return False

    def _learn_back(self, evicted: list[Record], due_s: float) -> None:
        """Learn evicted records again, as an ordinary update."""
        before = self._histories_of(evicted) if self._material.whole_owners else []
        delta, work = self._scheme.training.delta(self._material, before, [*before, *evicted])
        self._journal.move([record.id for record in evicted], State.LEARNED)
        self._note_forgetness(len(evicted), 0)
        self._outbox.post(delta, due_s, learned=len(evicted), work=work)

    def _affected(self, new: list[Record], evicted: list[Record]) -> list[Record]:
        """Return the learned records whose part in the statistics changes."""
        if self._scheme.training.needs_everything:
            return self._journal.records(State.LEARNED)
        return self._histories_of([*new, *evicted]) if self._material.whole_owners else evicted

    def _histories_of(self, records: Sequence[Record]) -> list[Record]:
        """Return all learned records of the owners of these."""
        return self._journal.records_of(record.owner for record in records)[State.LEARNED]

    def _note_forgetness(self, learned: int, forgotten: int) -> None:
        for name, count in (("learned", learned), ("forgotten", forgotten)):
            total = int(self._journal.setting(f"total_{name}", "0")) + count
            self._journal.set_setting(f"total_{name}", str(total))

    @property
    def level_of_forgetness(self) -> float:
        """How many records were forgotten for each one learned, so far."""
        learned = int(self._journal.setting("total_learned", "0"))
        return int(self._journal.setting("total_forgotten", "0")) / learned if learned else 0.0

    def forget_owners(self, owners: Sequence[bytes], now_s: float) -> int:
        """Forget and delete everything of these owners, and let nothing of it come back."""
        self._journal.suppress(owners)
        if owners:  # also what was evicted before may still be in the log
            self._journal.set_setting("compact", "due")
        by_state = self._journal.records_of(owners)
        learned = by_state[State.LEARNED]
        count = sum(map(len, by_state.values()))
        if not count:
            return 0
        lost, _ = self._material.statistics(learned)
        self._journal.delete(record.id for records in by_state.values() for record in records)
        self._note_forgetness(0, len(learned))
        self._outbox.erase(-lost, now_s)
        self._recovery.forget_model()
        return count
