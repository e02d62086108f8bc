"""What a worker sends until the server has answered: updates, withdrawals, erasure answers.

An update that was sent never changes; after an erasure it is withdrawn, and the next one is
rebuilt. The rows are in the journal; every call is part of the caller's transaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from dealfl.exact import Schema, Statistics
from dealfl.masks import Masker, Ring
from dealfl.protocol import MAX_WITHDRAWN, Erased, MaskedUpdate, Update, Withdraw, bounded
from dealfl.worker.journal import Journal, OutboxRow

_FIELDS = Update.__struct_fields__
_TERMS = 8  # that are announced


class Masking(Protocol):
    """How an update leaves a worker: as it is, or under a mask that a keyholder can compute."""

    key_name: str  # of the keyholder's public key; empty without one

    def size_of(self, delta: bytes) -> int:
        """Return how many bytes a delta has as it is sent."""

    def prepare(self, update: Update, fresh: int) -> Update:
        """Return a new or changed update for the outbox; `fresh` counts examples never sent."""

    def finish(self, update: Update) -> Update:
        """Return an update as it is sent; the same bytes again for a repetition."""


class Unmasked:
    """The server sees every update."""

    key_name = ""

    def size_of(self, delta: bytes) -> int:
        """Return the size of the delta itself."""
        return len(delta)

    def prepare(self, update: Update, fresh: int) -> Update:  # noqa: ARG002
        """Return the update itself."""
        return update

    def finish(self, update: Update) -> Update:
        """Return the update itself."""
        return update


class UnderMasks:
    """The server sees sums of cohorts only. The outbox holds the delta, and the nonce of its mask.

    The first update of every incarnation above the first repeats what was sent before, so that
    nothing in it is fresh.
    """

    def __init__(self, masker: Masker, schema: Schema) -> None:
        self.key_name = masker.key_name
        self._masker = masker
        self._ring = Ring(schema, masker.bits)
        self._ring.require_small()
        self._schema_digest = schema.digest()

    def size_of(self, delta: bytes) -> int:  # noqa: ARG002
        """Return the size of a packed vector."""
        return self._ring.packed_bytes

    def prepare(self, update: Update, fresh: int) -> Update:
        """Draw a nonce for an update."""
        again = update.incarnation > 1 and update.sequence == 1
        fields = {name: getattr(update, name) for name in _FIELDS}
        return MaskedUpdate(
            **fields,
            keyholder=self.key_name,
            nonce=self._masker.draw_nonce(update.delta),
            fresh=0 if again else fresh,
        )

    def finish(self, update: Update) -> Update:
        """Add the mask, and seal the header."""
        assert isinstance(update, MaskedUpdate), "an outbox under masks holds no other"
        vector = self._ring.vector(Statistics.from_bytes(update.delta, trusted=True))
        plain = msgspec.structs.replace(update, session=0)
        masked = self._masker.mask(plain, self._ring, self._schema_digest, vector)
        return msgspec.structs.replace(masked, session=update.session)


class Outbox:
    """The updates and answers of one worker, in its journal."""

    def __init__(
        self,
        journal: Journal,
        job: str,
        worker: str,
        retry_after_s: float,
        count_records: Callable[[Statistics], int | None],
        masking: Masking | None = None,
    ) -> None:
        self._journal = journal
        self._run = journal.execute
        self._count_records = count_records
        self.masking = masking or Unmasked()
        self.job = job
        self.worker = worker
        self._retry_after_s = retry_after_s

    @property
    def receipted(self) -> int:
        """The sequence up to which every update of this incarnation is settled with the server."""
        return min(self._journal.outgoing, default=self._journal.state.sequence + 1) - 1

    @property
    def is_training(self) -> bool:
        """Whether an update is made that was not sent yet."""
        return any(not row.sent for row in self._journal.outgoing.values())

    def note_term(self, sequence: int, term: str) -> None:
        """Note the term of an answer that settles an update."""
        state = self._journal.state
        row = self._journal.outgoing.get(sequence)
        if row is not None and row.sent and term not in state.terms:
            state.terms = (*state.terms, term)[-_TERMS:]

    def size_of(self, delta: bytes) -> int:
        """Return how many bytes of an update a delta takes."""
        return self.masking.size_of(delta)

    def restart(self, incarnation: int) -> None:
        """Start a new incarnation, and drop all updates of the old one."""
        for sequence in list(self._journal.outgoing):
            self._drop(sequence)
        state = self._journal.state
        state.incarnation = incarnation
        state.sequence = 0
        state.terms = state.withdrawn = ()

    def post(
        self,
        delta: bytes,
        due_s: float,
        *,
        round_number: int | None = None,
        learned: int = 0,
        evicted: int = 0,
        alarmed: bool = False,
        operations: int = 0,
        elapsed_s: float = 0.0,
        energy_j: float = 0.0,
        fresh: int = 0,
    ) -> Update:
        """Put a delta into the outbox, with the next sequence number.

        `fresh` is the number of examples in it that no update sent before contains.
        """
        state = self._journal.state
        state.sequence += 1
        update = Update(
            job=self.job,
            worker=self.worker,
            epoch=state.epoch,
            incarnation=state.incarnation,
            sequence=state.sequence,
            round=round_number,
            delta=delta,
            learned=learned,
            evicted=evicted,
            alarmed=alarmed,
            operations=operations,
            elapsed_s=bounded(elapsed_s),
            energy_j=bounded(energy_j),
        )
        self._put(self.masking.prepare(update, fresh), due_s)
        return update

    def _put(self, update: Update, due_s: float) -> None:
        """Store an update that was not sent; it replaces one with the same sequence."""
        self._journal.put_outgoing(update.sequence, OutboxRow(update, due_s), is_new=True)

    def _drop(self, sequence: int) -> None:
        if not self._journal.delete_outgoing(sequence):
            return
        last = self._journal.state.last_with_erased
        settled = last > 0 and not any(number <= last for number in self._journal.outgoing)
        self._journal.note_deletion(compact=settled, from_log=False)
        if settled:
            self._journal.state.last_with_erased = 0

    def _schedule(
        self, sequence: int, time_s: float | None, *, sent: bool = False, withdrawn: bool = False
    ) -> None:
        """Set when an update is sent; None holds it back. A sent or withdrawn one stays so."""
        row = self._journal.outgoing[sequence]
        row.send_at_s = time_s
        row.sent = row.sent or sent
        row.withdrawing = row.withdrawing or withdrawn
        self._journal.put_outgoing(sequence, row)

    @property
    def is_settled(self) -> bool:
        """Whether every update and every answer is settled."""
        return not self._journal.outgoing and self._journal.next_send_s() is None

    def repeat(self, now_s: float) -> None:
        """Make everything due that was sent and has no receipt."""
        for sequence, row in self._journal.outgoing.items():
            if row.sent:
                self._schedule(sequence, now_s)
        self._write_answers("UPDATE answers SET send_at_s = ?", (now_s,))

    def take_due(self, now_s: float) -> list[Update | Withdraw]:
        """Return the updates and withdrawals to send now, and mark them as sent."""
        rows = self._journal.outgoing
        retry_s = now_s + self._retry_after_s
        due = self._find_due(now_s, retry_s)
        if not due:
            return []
        # the rest of withdrawn updates is held back in the first that was not sent
        successor = next((sequence for sequence, row in rows.items() if not row.sent), 0)
        messages = [self._message(sequence, rows[sequence], successor) for sequence in due]
        for sequence in due:
            self._schedule(sequence, retry_s, sent=True)
        return messages

    def _find_due(self, now_s: float, retry_s: float) -> list[int]:
        """Return what to send now; no update is sent for the first time before an earlier one.

        An erasure changes the first update that was not sent: if a later one were sent, it could
        contain examples that an earlier one takes out.
        """
        due, first = list[int](), None
        for sequence, row in self._journal.outgoing.items():
            if first is not None and not row.sent:
                self._delay(sequence, row, first.send_at_s)
            elif _is_due(row, now_s, retry_s):
                due.append(sequence)
            elif not row.sent:
                first = row
        return due

    def _delay(self, sequence: int, row: OutboxRow, until_s: float | None) -> None:
        """Send an update at a time at the earliest; None holds it back."""
        if row.send_at_s is not None and (until_s is None or row.send_at_s < until_s):
            self._schedule(sequence, until_s)

    def _message(self, sequence: int, row: OutboxRow, successor: int) -> Update | Withdraw:
        update = row.update or self._journal.read_update(sequence)
        session = self._journal.state.session
        update = self.masking.finish(update)
        if not row.withdrawing:
            return msgspec.structs.replace(update, session=session)
        return Withdraw(
            job=self.job,
            worker=self.worker,
            session=session,
            successor=successor,
            incarnation=update.incarnation,
            sequence=update.sequence,
            hash=hashlib.sha256(update.delta).digest(),
        )

    def settle_counted(self, sequence: int, now_s: float) -> None:
        """Drop an update that the server has counted."""
        self._drop(sequence)
        self._release(now_s)

    def settle_withdrawn(self, sequence: int, now_s: float) -> None:
        """Move the delta of a withdrawn update to the update that is held back for it."""
        journal = self._journal
        rows = journal.outgoing
        # an earlier process on this journal may have asked, before a backup was restored
        if sequence not in rows or not rows[sequence].sent:
            return
        withdrawn = journal.read_update(sequence)
        unsent = next((number for number, row in rows.items() if not row.sent), None)
        self._drop(sequence)
        last = sorted((*journal.state.withdrawn, sequence))[-MAX_WITHDRAWN:]
        journal.state.withdrawn = tuple(last)
        if unsent is None:
            kept = self.post(withdrawn.delta, now_s)
        else:
            kept = journal.read_update(unsent)
            whole = _delta(kept) + _delta(withdrawn)  # what was withdrawn was sent: not fresh
            self._replace(kept, whole, now_s, _fresh(kept))
        self.compact_when_settled()
        self._release(now_s, kept.sequence)

    def erase(self, negative: Statistics, now_s: float, records: int = 0) -> None:
        """Remove a number of erased records from every update that is not counted yet.

        Unsent updates are rebuilt with the negative delta. Sent updates are withdrawn; the rebuilt
        one is held back until the server's verdicts arrive.
        """
        rows = self._journal.outgoing
        unsent = [self._journal.read_update(number) for number, row in rows.items() if not row.sent]
        sent = [sequence for sequence, row in rows.items() if row.sent]
        for sequence in sent:
            self._schedule(sequence, now_s, withdrawn=True)
        if negative.is_zero and not unsent and not sent:
            return
        total = negative
        for update in unsent:
            total = total + _delta(update)
        # a later update may have evicted what an earlier one brought, and all that is erased may
        # have been fresh
        fresh = max(_fresh(unsent[-1]) - records, 0) if unsent else 0
        kept = self._rebuild(unsent, total, now_s, fresh)
        self._release(now_s, kept)

    def compact_when_settled(self) -> None:
        """Compact the journal now, and again when all updates made so far are settled.

        Files and updates may hold examples of the erased owners, also those evicted before.
        """
        self._journal.note_deletion(compact=True)
        if self._journal.outgoing:
            self._journal.state.last_with_erased = max(self._journal.outgoing)

    def _rebuild(
        self, unsent: Sequence[Update], total: Statistics, now_s: float, fresh: int
    ) -> int:
        """Put the total into the first unsent update, and zero into the others.

        Their sequence numbers stay in use: the server expects no gap.
        """
        if not unsent:
            return self.post(total.to_bytes(), now_s).sequence
        for update in unsent[1:]:
            self._replace(update, Statistics.zero(total.schema), now_s, 0)
        self._replace(unsent[0], total, now_s, fresh)
        return unsent[0].sequence

    def _replace(self, update: Update, delta: Statistics, now_s: float, fresh: int) -> None:
        """Change an unsent update; it then claims the net examples of its delta."""
        net = self._count_records(delta)
        claims = {} if net is None else {"learned": max(net, 0), "evicted": max(-net, 0)}
        rebuilt = msgspec.structs.replace(update, delta=delta.to_bytes(), rebuilt=True, **claims)
        self._put(self.masking.prepare(rebuilt, 0 if delta.is_zero else fresh), now_s)

    def _release(self, now_s: float, latest: int | None = None) -> None:
        """Release the updates held back; while a withdrawal is open, hold back the latest, too."""
        rows = self._journal.outgoing
        if not any(row.withdrawing for row in rows.values()):
            for sequence, row in rows.items():
                if row.send_at_s is None:
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
        due_s, retry_s = self._journal.next_answer_s(), now_s + self._retry_after_s
        if due_s is None or now_s < due_s <= retry_s:
            return []
        until_s = max(due_s, now_s)  # a clock that jumped back must not delay answers
        rows = self._run(query, (until_s,)).fetchall()
        later = "UPDATE answers SET send_at_s = ? WHERE send_at_s <= ?"
        self._write_answers(later, (retry_s, until_s))
        return [
            Erased(
                job=self.job,
                worker=self.worker,
                request=request,
                hash=request_hash,
                examples=examples,
            )
            for request_hash, request, examples in rows
        ]

    def settle_answer(self, request_hash: bytes) -> None:
        """Send an answer no more; it is remembered."""
        self._write_answers("UPDATE answers SET send_at_s = NULL WHERE hash = ?", (request_hash,))

    def _write_answers(self, sql: str, values: Sequence[object]) -> None:
        self._run(sql, values)
        self._journal.drop("answers")


def _is_due(row: OutboxRow, now_s: float, retry_s: float) -> bool:
    at_s = row.send_at_s  # a clock that jumped back must not delay updates sent before
    return at_s is not None and (at_s <= now_s or (row.sent and at_s > retry_s))


def _delta(update: Update) -> Statistics:
    return Statistics.from_bytes(update.delta)


def _fresh(update: Update) -> int:
    return update.fresh if isinstance(update, MaskedUpdate) else 0
