"""What a worker sends until the server has answered: updates, withdrawals, erasure answers.

An update that was sent never changes; after an erasure it is withdrawn, and the next one is
rebuilt. The rows are in the journal; every call is part of the caller's transaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import msgspec

from dealfl.exact import Statistics
from dealfl.learners import Work
from dealfl.protocol import Erased, Update, Withdraw, bounded
from dealfl.worker.journal import Journal
from dealfl.worker.tables import OutboxRow

__all__ = ["Outbox"]

_ERASED = "last_with_erased"
_TERMS = 8  # that are announced


class Outbox:
    """The updates and answers of one worker, in its journal."""

    def __init__(
        self,
        journal: Journal,
        job: str,
        worker: str,
        retry_after_s: float,
        count_records: Callable[[Statistics], int | None],
    ) -> None:
        self._journal, self._run = journal, journal.execute
        self._count_records = count_records
        self.job, self.worker = job, worker
        self._retry_after_s = retry_after_s

    @property
    def session(self) -> int:
        """Number of the process that works on this journal."""
        return int(self._journal.setting("session", "0"))

    @property
    def epoch(self) -> str:
        """Epoch of the server's ledger; empty before the first welcome."""
        return self._journal.setting("epoch", "")

    @property
    def sequence(self) -> int:
        """Sequence of the last update that was made."""
        return int(self._journal.setting("sequence", "0"))

    @property
    def incarnation(self) -> int:
        """The worker's incarnation; 0 before the first welcome."""
        return int(self._journal.setting("incarnation", "0"))

    @property
    def receipted(self) -> int:
        """The sequence up to which every update of this incarnation is settled with the server."""
        return min(self._journal.outgoing, default=self.sequence + 1) - 1

    @property
    def is_training(self) -> bool:
        """Whether an update is made that was not sent yet."""
        return any(not one.sent for one in self._journal.outgoing.values())

    @property
    def terms(self) -> tuple[str, ...]:
        """The last terms of the server that settled updates of this incarnation."""
        return tuple(self._journal.setting("terms", "").split())

    def note_term(self, sequence: int, term: str) -> None:
        """Note the term of an answer that settles an update."""
        one = self._journal.outgoing.get(sequence)
        if one is not None and one.sent and term not in self.terms:
            self._journal.set_setting("terms", " ".join([*self.terms, term][-_TERMS:]))

    def restart(self, incarnation: int) -> None:
        """Start a new incarnation, and drop all updates of the old one."""
        for sequence in list(self._journal.outgoing):
            self._drop(sequence)
        self._journal.set_setting("incarnation", str(incarnation))
        self._journal.set_setting("sequence", "0")
        self._journal.set_setting("terms", "")

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
        sequence = self.sequence + 1
        self._journal.set_setting("sequence", str(sequence))
        update = Update(
            job=self.job,
            worker=self.worker,
            epoch=self.epoch,
            incarnation=self.incarnation,
            sequence=sequence,
            round=round_number,
            delta=delta,
            learned=learned,
            evicted=evicted,
            operations=work.operations if work else 0,
            elapsed_s=bounded(elapsed_s),
            energy_j=bounded(energy_j),
        )
        self._put(update, due_s)
        return update

    def _put(self, update: Update, due_s: float) -> None:
        """Store an update that was not sent; it replaces one with the same sequence."""
        self._journal.put_outgoing(update.sequence, OutboxRow(update, due_s), is_new=True)

    def _drop(self, sequence: int) -> None:
        if not self._journal.delete_outgoing(sequence):
            return
        last = int(self._journal.setting(_ERASED, "0"))  # that may hold examples of erased owners
        settled = last > 0 and not any(number <= last for number in self._journal.outgoing)
        self._journal.note_deletion(compact=settled)
        if settled:
            self._journal.set_setting(_ERASED, "0")

    def _schedule(
        self, sequence: int, moment_s: float | None, *, sent: bool = False, withdrawn: bool = False
    ) -> None:
        """Set when an update is sent; None holds it back. A sent or withdrawn one stays so."""
        one = self._journal.outgoing[sequence]
        one.send_at_s, one.sent = moment_s, one.sent or sent
        one.withdrawing = one.withdrawing or withdrawn
        self._journal.put_outgoing(sequence, one)

    @property
    def is_settled(self) -> bool:
        """Whether every update and every answer is settled."""
        return not self._journal.outgoing and self._journal.next_send_s() is None

    def repeat(self, now_s: float) -> None:
        """Make everything due that was sent and has no receipt."""
        for sequence, one in self._journal.outgoing.items():
            if one.sent:
                self._schedule(sequence, now_s)
        self._write_answers("UPDATE answers SET send_at_s = ?", (now_s,))

    def take_due(self, now_s: float) -> list[Update | Withdraw]:
        """Return the updates and withdrawals to send now, and mark them as sent."""
        rows, retry_s = self._journal.outgoing, now_s + self._retry_after_s
        due = [sequence for sequence, one in rows.items() if _is_due(one, now_s, retry_s)]
        # the rest of withdrawn updates is held back in the first that was not sent
        successor = next((sequence for sequence, one in rows.items() if not one.sent), 0)
        messages = [self._message(sequence, successor) for sequence in due]
        for sequence in due:
            self._schedule(sequence, retry_s, sent=True)
        return messages

    def _message(self, sequence: int, successor: int) -> Update | Withdraw:
        update = self._journal.read_update(sequence)
        if not self._journal.outgoing[sequence].withdrawing:
            return msgspec.structs.replace(update, session=self.session)
        return Withdraw(
            job=self.job, worker=self.worker, session=self.session, successor=successor,
            incarnation=update.incarnation, sequence=update.sequence,
            hash=hashlib.sha256(update.delta).digest(),
        )  # fmt: skip

    def settle_counted(self, sequence: int, now_s: float) -> None:
        """Drop an update that the server has counted."""
        self._drop(sequence)
        self._release(now_s)

    def settle_withdrawn(self, sequence: int, now_s: float) -> None:
        """Move the delta of a withdrawn update to the update that is held back for it."""
        journal, rows = self._journal, self._journal.outgoing
        # an earlier process on this journal may have asked, before a backup was restored
        if sequence not in rows or not rows[sequence].sent:
            return
        withdrawn = journal.read_update(sequence)
        held = next((number for number, one in rows.items() if not one.sent), None)
        self._drop(sequence)
        if held is None:
            kept = self.post(withdrawn.delta, now_s)
        else:
            kept = journal.read_update(held)
            self._replace(kept, _delta(kept) + _delta(withdrawn), now_s)
        self.compact_when_settled()
        self._release(now_s, kept.sequence)

    def erase(self, negative: Statistics, now_s: float) -> None:
        """Remove erased records from every update that is not counted yet.

        Unsent updates are rebuilt with the negative delta. Sent updates are withdrawn; the rebuilt
        one is held back until the server's verdicts arrive.
        """
        rows = self._journal.outgoing
        unsent = [self._journal.read_update(number) for number, one in rows.items() if not one.sent]
        sent = [sequence for sequence, one in rows.items() if one.sent]
        for sequence in sent:
            self._schedule(sequence, now_s, withdrawn=True)
        if negative.is_zero and not unsent and not sent:
            return
        total = negative
        for update in unsent:
            total = total + _delta(update)
        kept = self._rebuild(unsent, total, now_s)
        self._release(now_s, kept)

    def compact_when_settled(self) -> None:
        """Compact the journal now, and again when all updates made so far are settled.

        Files and updates may hold examples of the erased owners, also those evicted before.
        """
        self._journal.note_deletion(compact=True)
        if self._journal.outgoing:
            self._journal.set_setting(_ERASED, str(max(self._journal.outgoing)))

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
        """Change an unsent update; it then claims the net examples of its delta."""
        net = self._count_records(delta)
        claims = {} if net is None else {"learned": max(net, 0), "evicted": max(-net, 0)}
        rebuilt = msgspec.structs.replace(update, delta=delta.to_bytes(), rebuilt=True, **claims)
        self._put(rebuilt, now_s)

    def _release(self, now_s: float, latest: int | None = None) -> None:
        """Release the updates held back; while a withdrawal is open, hold back the latest, too."""
        rows = self._journal.outgoing
        if not any(one.withdrawing for one in rows.values()):
            for sequence, one in rows.items():
                if one.send_at_s is None:
                    self._schedule(sequence, now_s)
        elif latest is not None:
            self._schedule(latest, None)

    # -- answers to erasure requests ------------------------------------------------------------

    def find_answer(self, request_hash: bytes) -> int | None:
        """Return the number of examples in the answer to a request; None if it is new."""
        row = self._run("SELECT examples FROM answers WHERE hash = ?", (request_hash,)).fetchone()
        return None if row is None else int(row[0])

    def post_answer(self, request_hash: bytes, request: str, examples: int, now_s: float) -> None:
        """Store the answer to an erasure; it is sent until the server confirms it."""
        row = (request_hash, request, examples, now_s)
        self._write_answers("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", row)

    def take_due_answers(self, now_s: float) -> list[Erased]:
        """Return the answers to send now, and schedule the next attempt."""
        query = "SELECT hash, request, examples FROM answers WHERE send_at_s <= ? ORDER BY request"
        if (due_s := self._journal.next_answer_s()) is None or due_s > now_s:
            return []
        rows = self._run(query, (now_s,)).fetchall()
        later = "UPDATE answers SET send_at_s = ? WHERE send_at_s <= ?"
        self._write_answers(later, (now_s + self._retry_after_s, now_s))
        return [
            Erased(
                job=self.job, worker=self.worker, request=request, hash=one, examples=examples
            )
            for one, request, examples in rows
        ]  # fmt: skip

    def settle_answer(self, request_hash: bytes) -> None:
        """Send an answer no more; it is remembered."""
        self._write_answers("UPDATE answers SET send_at_s = NULL WHERE hash = ?", (request_hash,))

    def _write_answers(self, sql: str, values: Sequence[object]) -> None:
        self._run(sql, values)
        self._journal.drop("answers")


def _is_due(one: OutboxRow, now_s: float, retry_s: float) -> bool:
    at_s = one.send_at_s  # a clock that jumped back must not delay updates sent before
    return at_s is not None and (at_s <= now_s or (one.sent and at_s > retry_s))


def _delta(update: Update) -> Statistics:
    return Statistics.from_bytes(update.delta)
