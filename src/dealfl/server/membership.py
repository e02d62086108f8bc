"""Who the server knows: announcements, welcomes, and lives that begin anew."""

from __future__ import annotations

from dataclasses import replace

from dealfl.messages import PROTOCOL, Announce, Erase, Message, Welcome
from dealfl.server.aggregation import Books
from dealfl.server.ledger import Ledger
from dealfl.server.roster import announced
from dealfl.server.tables import WorkerRow

__all__ = ["Membership"]


class Membership:
    """The workers by name, in memory as in the ledger; everything is written through."""

    rows: dict[str, WorkerRow]

    def __init__(self, job: str, ledger: Ledger, books: Books, heard_within_s: float) -> None:
        self._job, self._ledger, self._books = job, ledger, books
        self._heard_within_s = heard_within_s
        self.load()

    def load(self) -> None:
        """Go on from the ledger."""
        self.rows = self._ledger.workers()

    def put(self, row: WorkerRow) -> WorkerRow:
        """Write what is known of a worker."""
        self.rows[row.name] = row
        self._ledger.put_worker(row)
        return row

    def announced(self, message: Announce, now_s: float) -> list[Message]:
        """Take note of where a worker stands; welcome it, and repeat what it has not answered."""
        row, heard_s = self.rows.get(message.worker), now_s
        if row is None:
            row = WorkerRow(message.worker, incarnation=1, journal=message.journal)
        elif message.journal != row.journal:
            if message.incarnation and self._is_alive(row, now_s):
                self.put(replace(row, flag="two journals under one name"))
                return []  # the one that joined last is the worker
            row = replace(self.new_life(row, "lost its journal"), journal=message.journal)
            # it may be an old message: whoever sent it has to be heard of again before long
            heard_s -= self._heard_within_s * 2 / 3
        elif self._is_ahead(message, row):
            incarnation = max(row.incarnation, message.incarnation)
            row = self.new_life(replace(row, incarnation=incarnation), "ledger restored")
        fits = message.schema_digest == self._books.schema_digest and message.protocol == PROTOCOL
        row = self.put(announced(row, message, fits, heard_s))
        replies: list[Message] = []
        if message.incarnation != row.incarnation:
            replies.append(self.welcome(row))
        for request, owners in self._ledger.unanswered(row.name).items():
            order = Erase(job=self._job, worker=row.name, request=request, owners=owners)
            replies.append(order)
        return replies

    def welcome(self, row: WorkerRow) -> Welcome:
        """Return what tells a worker which life it is in, and whom it must not learn again."""
        erased = {owner for owners in self._ledger.erasures().values() for owner in owners}
        return Welcome(
            job=self._job,
            worker=row.name,
            incarnation=row.incarnation,
            journal=row.journal,
            erased=tuple(sorted(erased)),
        )

    def new_life(self, row: WorkerRow, flag: str) -> WorkerRow:
        """Take everything a worker said out of the model; it will say it again."""
        self._books.strike(row.name)
        return replace(row, incarnation=row.incarnation + 1, folded=0, flag=flag)

    def settle(self) -> list[Message]:
        """Fold what is on record; whoever said what can not be begins a new life."""
        replies: list[Message] = []
        for name, problem in self._books.fold(self.rows):
            worker = self.put(self.new_life(self.rows[name], problem))
            replies.append(self.welcome(worker))
        for name, folded in self._books.folded():
            self.put(replace(self.rows[name], folded=folded))
        return replies

    def _is_alive(self, row: WorkerRow, now_s: float) -> bool:
        return now_s - row.heard_s < self._heard_within_s

    def _is_ahead(self, message: Announce, row: WorkerRow) -> bool:
        """Whether a worker has receipts that this ledger, come back from a backup, knows not of."""
        if message.incarnation != row.incarnation:
            return message.incarnation > row.incarnation
        return message.receipted > self._ledger.highest(row.name, row.incarnation)
