"""What a worker sends until the server has answered: updates, withdrawals, erasure answers.

An update that was sent never changes; after an erasure it is withdrawn, and the next one is
rebuilt. The rows are in the journal; every call is part of the caller's transaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import msgspec

from dealfl.bounds import bounded
from dealfl.learners import Work
from dealfl.messages import Erased, Update, Withdraw
from dealfl.statistics import Statistics
from dealfl.worker.journal import Journal

__all__ = ["Outbox"]

_ERASED = "last_with_erased"
_TERMS = 8  # that are announced
_decode = msgspec.msgpack.Decoder(Update).decode


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
        first = self._run("SELECT min(sequence) FROM outbox").fetchone()[0]
        return self.sequence if first is None else int(first) - 1

    @property
    def is_training(self) -> bool:
        """Whether an update is made that was not sent yet."""
        return self._run("SELECT 1 FROM outbox WHERE sent = 0").fetchone() is not None

    @property
    def terms(self) -> tuple[str, ...]:
        """The last terms of the server that settled updates of this incarnation."""
        return tuple(self._journal.setting("terms", "").split())

    def note_term(self, sequence: int, term: str) -> None:
        """Note the term of an answer that settles an update."""
        query = "SELECT 1 FROM outbox WHERE sequence = ? AND sent = 1"
        if term not in self.terms and self._run(query, (sequence,)).fetchone():
            self._journal.set_setting("terms", " ".join([*self.terms, term][-_TERMS:]))

    def restart(self, incarnation: int) -> None:
        """Start a new incarnation, and drop all updates of the old one."""
        for outgoing in self._journal.outbox():
            self._drop(outgoing.update.sequence)
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
        self._run(
            "INSERT OR REPLACE INTO outbox (sequence, body, send_at_s) VALUES (?, ?, ?)",
            (update.sequence, msgspec.msgpack.encode(update), due_s),
        )

    def _drop(self, sequence: int) -> None:
        if not self._run("DELETE FROM outbox WHERE sequence = ?", (sequence,)).rowcount:
            return
        last = int(self._journal.setting(_ERASED, "0"))  # that may hold examples of erased owners
        under_way = self._run("SELECT 1 FROM outbox WHERE sequence <= ?", (last,)).fetchone()
        settled = last > 0 and under_way is None
        self._journal.note_deletion(compact=settled)
        if settled:
            self._journal.set_setting(_ERASED, "0")

    @property
    def is_settled(self) -> bool:
        """Whether every update and every answer is settled."""
        under_way = "SELECT 1 FROM outbox UNION SELECT 1 FROM answers WHERE send_at_s IS NOT NULL"
        return self._run(under_way).fetchone() is None

    def repeat(self, now_s: float) -> None:
        """Make everything due that was sent and has no receipt."""
        self._run("UPDATE outbox SET send_at_s = ? WHERE sent = 1", (now_s,))
        self._run("UPDATE answers SET send_at_s = ?", (now_s,))

    def take_due(self, now_s: float) -> list[Update | Withdraw]:
        """Return the updates and withdrawals to send now, and mark them as sent."""
        rows = self._run(
            "SELECT sequence, body, withdrawing FROM outbox WHERE send_at_s <= ? "
            # a clock that jumped back must not delay updates sent before
            "OR (sent = 1 AND send_at_s > ?) ORDER BY sequence",
            (now_s, now_s + self._retry_after_s),
        ).fetchall()
        successor = None
        if any(withdrawing for _, _, withdrawing in rows):
            # the rest of withdrawn updates is held back in the first that was not sent
            successor = self._run("SELECT min(sequence) FROM outbox WHERE sent = 0").fetchone()[0]
        for sequence, _, _ in rows:
            self._run(
                "UPDATE outbox SET sent = 1, send_at_s = ? WHERE sequence = ?",
                (now_s + self._retry_after_s, sequence),
            )
        return [self._message(_decode(body), wd, successor or 0) for _, body, wd in rows]

    def _message(self, update: Update, withdrawing: bool, successor: int) -> Update | Withdraw:
        if not withdrawing:
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
        outbox = self._journal.outbox()
        # an earlier process on this journal may have asked, before a backup was restored
        withdrawn = next((o for o in outbox if o.update.sequence == sequence and o.sent), None)
        if withdrawn is None:
            return
        held = next((o for o in outbox if not o.sent), None)
        self._drop(sequence)
        if held is None:
            kept = self.post(withdrawn.update.delta, now_s)
        else:
            kept = held.update
            self._replace(kept, _delta(kept) + _delta(withdrawn.update), now_s)
        self.compact_when_settled()
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
            self._run(
                "UPDATE outbox SET withdrawing = 1, send_at_s = ? WHERE sequence = ?",
                (now_s, sequence),
            )
        if negative.is_zero and not unsent and not sent:
            return
        total = negative
        for update in unsent:
            total = total + _delta(update)
        kept = self._rebuild(unsent, total, now_s)
        self._hold_or_release(kept, now_s)

    def compact_when_settled(self) -> None:
        """Compact the journal now, and again when all updates made so far are settled.

        Files and updates may hold examples of the erased owners, also those evicted before.
        """
        self._journal.note_deletion(compact=True)
        for outgoing in self._journal.outbox()[-1:]:
            self._journal.set_setting(_ERASED, str(outgoing.update.sequence))

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

    def _hold_or_release(self, sequence: int, now_s: float) -> None:
        if any(outgoing.withdrawing for outgoing in self._journal.outbox()):
            self._run("UPDATE outbox SET send_at_s = NULL WHERE sequence = ?", (sequence,))
        else:
            self._release(now_s)

    def _release(self, now_s: float) -> None:
        """Release the updates held back, unless a withdrawal is still open."""
        outbox = self._journal.outbox()
        if not any(outgoing.withdrawing for outgoing in outbox):
            self._run("UPDATE outbox SET send_at_s = ? WHERE send_at_s IS NULL", (now_s,))

    # -- answers to erasure requests ------------------------------------------------------------

    def find_answer(self, request_hash: bytes) -> int | None:
        """Return the number of examples in the answer to a request; None if it is new."""
        row = self._run("SELECT examples FROM answers WHERE hash = ?", (request_hash,)).fetchone()
        return None if row is None else int(row[0])

    def post_answer(self, request_hash: bytes, request: str, examples: int, now_s: float) -> None:
        """Store the answer to an erasure; it is sent until the server confirms it."""
        row = (request_hash, request, examples, now_s)
        self._run("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", row)

    def take_due_answers(self, now_s: float) -> list[Erased]:
        """Return the answers to send now, and schedule the next attempt."""
        query = "SELECT hash, request, examples FROM answers WHERE send_at_s <= ? "
        rows = self._run(query + "ORDER BY request", (now_s,)).fetchall()
        for request_hash, _, _ in rows:
            later = (now_s + self._retry_after_s, request_hash)
            self._run("UPDATE answers SET send_at_s = ? WHERE hash = ?", later)
        return [
            Erased(
                job=self.job, worker=self.worker, request=request, hash=one, examples=examples
            )
            for one, request, examples in rows
        ]  # fmt: skip

    def settle_answer(self, request_hash: bytes) -> None:
        """Send an answer no more; it is remembered."""
        self._run("UPDATE answers SET send_at_s = NULL WHERE hash = ?", (request_hash,))


def _delta(update: Update) -> Statistics:
    return Statistics.from_bytes(update.delta)
