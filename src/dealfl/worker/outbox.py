"""The outbox: an update is sent until it has a receipt, and rebuilt after an erasure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dealfl.learners import Work
from dealfl.messages import Update, Withdraw
from dealfl.statistics import Statistics
from dealfl.worker.journal import Journal
from dealfl.worker.tables import Outgoing

__all__ = ["Outbox"]


class Outbox:
    """The updates of one worker, in its journal; every call is part of the caller's transaction."""

    def __init__(self, journal: Journal, job: str, worker: str, retry_after_s: float) -> None:
        self._journal = journal
        self._job, self._worker = job, worker
        self._retry_after_s = retry_after_s

    @property
    def incarnation(self) -> int:
        """The worker's incarnation; 0 before the first welcome."""
        return int(self._journal.setting("incarnation", "0"))

    @property
    def receipted(self) -> int:
        """The sequence up to which every update of this incarnation is settled with the server."""
        outbox = self._journal.outbox()
        last = int(self._journal.setting("sequence", "0"))
        return outbox[0].update.sequence - 1 if outbox else last

    def restart(self, incarnation: int) -> None:
        """Start a new incarnation, and drop all updates of the old one."""
        for outgoing in self._journal.outbox():
            self._journal.drop_update(outgoing.update.sequence)
        self._journal.set_setting("incarnation", str(incarnation))
        self._journal.set_setting("sequence", "0")

    def post(
        self,
        delta: bytes,
        due_s: float,
        *,
        round_number: int | None = None,
        learned: int = 0,
        evicted: int = 0,
        work: Work | None = None,
        elapsed_s: float = 0.0,
        energy_j: float = 0.0,
    ) -> Update:
        """Put a delta into the outbox, with the next sequence number."""
        sequence = int(self._journal.setting("sequence", "0")) + 1
        self._journal.set_setting("sequence", str(sequence))
        update = Update(
            job=self._job,
            worker=self._worker,
            incarnation=self.incarnation,
            sequence=sequence,
            round=round_number,
            delta=delta,
            learned=learned,
            evicted=evicted,
            operations=work.operations if work else 0,
            elapsed_s=elapsed_s,
            energy_j=energy_j,
        )
        self._journal.post(update, due_s)
        return update

    def take_due(self, now_s: float) -> list[Update | Withdraw]:
        """Return the messages to send now: updates, and requests to withdraw updates."""
        due = self._journal.take_due_updates(now_s, self._retry_after_s)
        return [self._message(outgoing) for outgoing in due]

    def _message(self, outgoing: Outgoing) -> Update | Withdraw:
        if not outgoing.withdrawing:
            return outgoing.update
        return Withdraw(
            job=self._job,
            worker=self._worker,
            incarnation=outgoing.update.incarnation,
            sequence=outgoing.update.sequence,
        )

    def settle_counted(self, sequence: int, now_s: float) -> None:
        """Drop an update that the server has counted."""
        self._journal.drop_update(sequence)
        self._release(now_s)

    def settle_withdrawn(self, sequence: int, now_s: float) -> None:
        """Move the delta of a withdrawn update to the update that is held back for it."""
        outbox = self._journal.outbox()
        withdrawn = next(
            (o for o in outbox if o.update.sequence == sequence and o.withdrawing), None
        )
        if withdrawn is None:
            return
        held = next((o for o in outbox if not o.sent), None)
        self._journal.drop_update(sequence)
        if held is None:
            kept = self.post(withdrawn.update.delta, now_s)
        else:
            kept = held.update
            self._replace(kept, _delta(kept) + _delta(withdrawn.update), now_s)
        self._hold_or_release(kept.sequence, now_s)

    def erase(self, negative: Statistics, now_s: float) -> None:
        """Remove erased records from every update that is not counted yet.

        Unsent updates are rebuilt with the negative delta. Sent updates are withdrawn; the rebuilt
        one is held back until the server's verdicts arrive.
        """
        outbox = self._journal.outbox()
        unsent = [o.update for o in outbox if not o.sent]
        sent = [o.update.sequence for o in outbox if o.sent]
        for sequence in sent:
            self._journal.withdraw(sequence, now_s)
        if negative.is_zero and not unsent and not sent:
            return
        total = negative
        for update in unsent:
            total = total + _delta(update)
        kept = self._rebuild(unsent, total, now_s)
        self._hold_or_release(kept, now_s)

    def _rebuild(self, unsent: Sequence[Update], total: Statistics, now_s: float) -> int:
        """Put the total into the first unsent update, and zero into the others.

        Their sequence numbers stay in use: the server expects no gap.
        """
        if not unsent:
            return self.post(total.to_bytes(), now_s).sequence
        for update in unsent[1:]:
            self._replace(update, Statistics.zero(total.schema), now_s)
        self._replace(unsent[0], total, now_s)
        return unsent[0].sequence

    def _replace(self, update: Update, delta: Statistics, now_s: float) -> None:
        self._journal.post(msgspec.structs.replace(update, delta=delta.to_bytes()), now_s)

    def _hold_or_release(self, sequence: int, now_s: float) -> None:
        if any(outgoing.withdrawing for outgoing in self._journal.outbox()):
            self._journal.hold_back(sequence)
        else:
            self._release(now_s)

    def _release(self, now_s: float) -> None:
        """Release the updates held back, unless a withdrawal is still open."""
        outbox = self._journal.outbox()
        if not any(outgoing.withdrawing for outgoing in outbox):
            self._journal.release(now_s)


def _delta(update: Update) -> Statistics:
    return Statistics.from_bytes(update.delta)
