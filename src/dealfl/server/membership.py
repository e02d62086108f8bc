"""Membership: announcements, welcomes and incarnations of workers."""

from __future__ import annotations

from dataclasses import replace

from dealfl.erasure import list_suppressed
from dealfl.messages import PROTOCOL, Announce, Erase, Message, Welcome
from dealfl.server.aggregation import Aggregation
from dealfl.server.ledger import Ledger
from dealfl.server.roster import Roster, note_announcement
from dealfl.server.tables import WorkerRow
from dealfl.server.terms import Terms

__all__ = ["Membership"]


class Membership:
    """The workers by name, in memory and in the ledger; every change is written through."""

    rows: Roster

    def __init__(self, job: str, ledger: Ledger, aggregation: Aggregation) -> None:
        self._job, self._ledger, self._aggregation = job, ledger, aggregation
        self.load()

    def load(self) -> None:
        """Reload the workers from the ledger."""
        self.rows = Roster(self._ledger.workers())

    def put(self, row: WorkerRow) -> WorkerRow:
        """Store a worker's row."""
        self.rows[row.name] = row
        self._ledger.put_worker(row)
        return row

    def announce(self, message: Announce, now_s: float, presence_timeout_s: float) -> list[Message]:
        """Store an announcement; reply with a welcome and unanswered erasures.

        A worker is present if it sent a message within `presence_timeout_s`.
        """
        row, heard_s = self.rows.get(message.worker), now_s
        if row is None:
            row = WorkerRow(message.worker, incarnation=1, journal_id=message.journal_id)
        elif message.journal_id != row.journal_id:
            if message.incarnation and _is_alive(row, now_s, presence_timeout_s):
                self.put(replace(row, flag="two journals use this name"))
                return []  # the journal that joined last is the worker's
            row = self.begin_incarnation(row, "journal lost")
            row = replace(row, journal_id=message.journal_id)
            # the message may be old, so its sender must soon announce itself again
            heard_s -= presence_timeout_s * 2 / 3
        elif self._is_ahead(message, row):
            incarnation = max(row.incarnation, message.incarnation)
            row = self.begin_incarnation(replace(row, incarnation=incarnation), "ledger restored")
        same_schema = message.schema_digest == self._aggregation.schema_digest
        fits = same_schema and message.protocol == PROTOCOL
        row = self.put(note_announcement(row, message, fits, heard_s))
        replies: list[Message] = []
        if message.incarnation != row.incarnation:
            replies.append(self.welcome(row))
        for request in self._ledger.reader.unanswered_erasures(row.name):
            order = Erase(
                job=self._job, worker=row.name, request=request.name, owners=request.owners
            )
            replies.append(order)
        return replies

    def welcome(self, row: WorkerRow) -> Welcome:
        """Return the message with a worker's incarnation and the erased owners."""
        return Welcome(
            job=self._job,
            worker=row.name,
            incarnation=row.incarnation,
            journal_id=row.journal_id,
            erased=list_suppressed(self._ledger.reader.erasures()),
        )

    def begin_incarnation(self, row: WorkerRow, flag: str) -> WorkerRow:
        """Remove all updates of a worker from the model; the worker will send its full sum."""
        self._aggregation.drop(row.name)
        return replace(row, incarnation=row.incarnation + 1, counted=0, examples=0, flag=flag)

    def aggregate(self, terms: Terms) -> list[Message]:
        """Count the stored updates; workers that diverged start a new incarnation."""
        done = self._aggregation.aggregate(self.rows, terms)
        replies: list[Message] = []
        for name, problem in done.diverged.items():
            worker = self.put(self.begin_incarnation(self.rows[name], problem))
            replies.append(self.welcome(worker))
        for name, counted in done.counted.items():
            self.put(replace(self.rows[name], counted=counted))
        return replies

    def _is_ahead(self, message: Announce, row: WorkerRow) -> bool:
        """Return whether a worker has receipts that a restored ledger does not contain."""
        if message.incarnation != row.incarnation:
            return message.incarnation > row.incarnation
        return message.receipted > self._ledger.updates.last_sequence(row.name, row.incarnation)


def _is_alive(row: WorkerRow, now_s: float, presence_timeout_s: float) -> bool:
    return row.heard_s is not None and now_s - row.heard_s < presence_timeout_s
