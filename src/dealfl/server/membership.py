"""Membership: announcements, welcomes, incarnations and sessions of workers, epochs of the ledger.

A worker's claims are compared with the record. A worker that knows more proves that the ledger was
restored from a backup; a new process that knows less proves that its journal was. In both cases the
worker begins a new incarnation and sends its full sum.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

from msgspec.structs import replace

from dealfl.protocol import MAX_OWNERS, PROTOCOL, Announce, Erase, Message, Position, Rules, Welcome
from dealfl.server.aggregation import Aggregation
from dealfl.server.ledger import Ledger, Listed
from dealfl.server.ledger_reader import WorkerRow, note_restore
from dealfl.server.roster import Roster, note_announcement

_RESTORED = "ledger restored"
_REQUESTS = 64  # erasures that are sent in one answer to an announcement


class Membership:
    """The workers by name, in memory and in the ledger; `save` writes the rows that changed."""

    rows: Roster

    def __init__(self, job: str, ledger: Ledger, aggregation: Aggregation) -> None:
        self._job = job
        self._ledger = ledger
        self._aggregation = aggregation
        self._first_epoch = ledger.state.epoch
        self._changed: set[str] = set()  # rows that the ledger lacks
        self.load()

    def load(self) -> None:
        """Reload the workers from the ledger."""
        self._changed.clear()
        self.rows = Roster(self._ledger.workers())
        self._forgotten = Counter(row.forgotten for row in self.rows.values() if _is_member(row))
        self.sleepers = {name for name, row in self.rows.items() if row.call_by_s}

    @property
    def epoch(self) -> str:
        """Epoch of the ledger."""
        return self._ledger.state.epoch

    @property
    def term(self) -> str:
        """Random id of the server's process."""
        return self._ledger.state.terms[-1]

    def put(self, row: WorkerRow) -> WorkerRow:
        """Change a worker's row."""
        before = self.rows.get(row.name)
        if before is not None and _is_member(before):
            self._forgotten[before.forgotten] -= 1
            if not self._forgotten[before.forgotten]:
                del self._forgotten[before.forgotten]
        if _is_member(row):
            self._forgotten[row.forgotten] += 1
        (self.sleepers.add if row.call_by_s else self.sleepers.discard)(row.name)
        self.rows[row.name] = row
        self._changed.add(row.name)
        return row

    def save(self) -> None:
        """Store the rows that changed."""
        self._ledger.put_workers(self.rows[name] for name in sorted(self._changed))
        self._changed.clear()

    @property
    def fulfilled(self) -> int:
        """Number of erasure requests, the first of the list, that all workers have fulfilled."""
        return min(self._forgotten or (self._ledger.erasures.end().number,))

    # -- announcements --------------------------------------------------------------------------

    def announce(self, message: Announce, now_s: float, presence_timeout_s: float) -> list[Message]:
        """Store an announcement; reply with a welcome and with erasures that the worker lacks.

        A worker is present if it sent a message within `presence_timeout_s`.
        """
        row = self.rows.get(message.worker)
        heard_s = now_s
        if row is None:
            row = self._new_row(message)
        elif message.journal_id != row.journal_id:
            if message.incarnation and _is_alive(row, now_s, presence_timeout_s):
                self.put(replace(row, flag="two journals use this name"))
                return []  # the journal that joined last is the worker's
            row = self.begin_incarnation(row, "journal lost")
            row = replace(row, journal_id=message.journal_id)
            # the message may be old, so its sender must soon announce itself again
            heard_s -= presence_timeout_s * 2 / 3
        elif message.session < row.session:
            return [self.welcome(row)]  # of a process that has ended; if not, it starts again
        else:
            row = self._compare(message, row)
        same_schema = message.schema_digest == self._aggregation.schema_digest
        fits = same_schema and message.protocol == PROTOCOL
        row = note_announcement(row, message, fits, heard_s)
        reached = self._ledger.erasures.find_common(message.erased)
        row, replies = self._send_erasures(row, reached)
        if message.incarnation == row.incarnation:
            row = _note_forgetting(row, reached.number, message.sequence)
            if row.behind and message.epoch == self.epoch:
                row = _note_catching_up(replace(row, behind=message.sequence + 1))
        self.put(row)
        if message.incarnation != row.incarnation or message.epoch not in ("", self.epoch):
            replies.append(self.welcome(row))
        return replies

    def _new_row(self, message: Announce) -> WorkerRow:
        end = self._ledger.erasures.end().number
        row = WorkerRow(message.worker, 1, message.journal_id, answered=end, forgotten=end)
        if not message.incarnation:
            return row
        self._notice_restore(message, ahead=True)  # the record of this worker is gone
        row = note_restore(replace(row, incarnation=message.incarnation))
        return self.begin_incarnation(row, _RESTORED)

    def _compare(self, message: Announce, row: WorkerRow) -> WorkerRow:
        """Begin a new incarnation if worker and record contradict each other."""
        updates = self._ledger.updates
        same = message.incarnation == row.incarnation
        ahead = message.incarnation > row.incarnation
        if same and message.receipted > row.counted:
            ahead = message.receipted > row.counted + len(list(updates.pending(row)))
        # a copy of this ledger that was used in between has written other receipts
        ahead |= same and not set(message.terms) <= set(self._ledger.state.terms)
        self._notice_restore(message, ahead)
        row = self.rows[row.name]
        if ahead:
            row = replace(row, incarnation=max(row.incarnation, message.incarnation))
            return self.begin_incarnation(row, _RESTORED)
        if message.session > row.session:
            # everything on record was sent by earlier processes, which had written it down before
            last = updates.last_sequence(row.name, row.incarnation)
            if last > (message.sequence if same else 0):
                return self.begin_incarnation(row, "journal restored")
        return row

    def _notice_restore(self, message: Announce, ahead: bool) -> None:
        """Begin a new epoch if a worker knows more of this epoch than the ledger, or another."""
        if message.epoch == self.epoch:
            find_digest = self._ledger.erasures.find_digest
            same = (message.digest, None)  # what was deleted proves nothing
            restored = (
                ahead
                or message.round > self._ledger.rounds.last_number()
                or (message.version > 0 and find_digest(message.version) not in same)
            )
        else:
            former = self._ledger.state.former_epochs
            restored = bool(message.epoch) and message.epoch not in former
        # one new epoch a term: a ledger is restored while no server runs
        if restored and self.epoch == self._first_epoch:
            self.save()
            self._ledger.begin_epoch(message.epoch)
            for row in list(self.rows.values()):
                self.put(note_restore(row))

    def _send_erasures(self, row: WorkerRow, reached: Position) -> tuple[WorkerRow, list[Message]]:
        """Return the requests that a worker has not answered, and the part of the list before."""
        erasures = self._ledger.erasures
        end = erasures.end()
        if reached == end and row.answered == end.number:
            return row, []
        listed = erasures.unanswered(row.name, row.answered, _REQUESTS)
        first = listed[0].before.number if listed else end.number
        row = replace(row, answered=first)
        part = erasures.part(reached, first, MAX_OWNERS)
        if part is not None:
            listed.insert(0, part)
        sizes = accumulate(len(requests.owners) for requests in listed)
        fitting = sum(size <= MAX_OWNERS for size in sizes)
        return row, [self.erase(requests, row.name) for requests in listed[: max(fitting, 1)]]

    def erase(self, listed: Listed, worker: str = "") -> Erase:
        """Return the message to forget owners, for one worker or for all."""
        return Erase(
            job=self._job,
            worker=worker,
            request=listed.request,
            owners=listed.owners,
            before=listed.before,
            after=listed.after,
        )

    def sleep(self, worker: str) -> None:
        """Note that a worker left."""
        row = self.rows.get(worker)
        if row is not None and not row.asleep:
            self.put(replace(row, asleep=True))

    def welcome(self, row: WorkerRow) -> Welcome:
        """Return the message with the ledger's epoch and a worker's incarnation."""
        return Welcome(
            job=self._job,
            worker=row.name,
            epoch=self.epoch,
            journal_id=row.journal_id,
            session=row.session,
            incarnation=row.incarnation,
            erased=self._ledger.erasures.end(),
        )

    # -- incarnations ---------------------------------------------------------------------------

    def begin_incarnation(self, row: WorkerRow, flag: str) -> WorkerRow:
        """Remove all updates of a worker from the model; the worker will send its full sum."""
        self._aggregation.drop(row.name)
        return replace(
            row,
            incarnation=row.incarnation + 1,
            counted=0,
            examples=0,
            removed=0,
            flag=flag,
            forgotten=0,
            forgetting=0,
            forgetting_at=0,
            forgetting_later=0,
            forgetting_later_at=0,
        )

    def aggregate(self, rules: Rules) -> list[Message]:
        """Count the stored updates; workers that diverged start a new incarnation.

        An update that does not fit into the total is held back; its worker has done nothing wrong.
        """
        done = self._aggregation.aggregate(self.rows, rules)
        replies: list[Message] = []
        for name, problem in done.diverged.items():
            worker = self.put(self.begin_incarnation(self.rows[name], problem))
            replies.append(self.welcome(worker))
        for name, problem in done.held_back.items():
            self.put(replace(self.rows[name], flag=problem))
        for name, counted in done.counted.items():
            row = replace(self.rows[name], counted=counted)
            self.put(_note_catching_up(_confirm_forgetting(row)))
        return replies


def _is_member(row: WorkerRow) -> bool:
    return row.heard_s is not None  # else it was removed


def _is_alive(row: WorkerRow, now_s: float, presence_timeout_s: float) -> bool:
    heard_s = None if row.asleep else row.heard_s
    return heard_s is not None and now_s - heard_s < presence_timeout_s


def _note_forgetting(row: WorkerRow, number: int, sequence: int) -> WorkerRow:
    """Note that a worker has forgotten requests, which its updates up to a sequence show.

    What was noted before stays, or a worker that is always ahead would never be done; the last
    announcement follows it. A lower sequence replaces it: the journal was restored, and the update
    that was awaited never comes.
    """
    is_awaited = row.forgetting > row.forgotten and row.forgetting_at <= sequence
    if row.forgotten < number and is_awaited:
        row = replace(row, forgetting_later=number, forgetting_later_at=sequence)
    elif row.forgotten < number:
        row = replace(
            row,
            forgetting=number,
            forgetting_at=sequence,
            forgetting_later=0,
            forgetting_later_at=0,
        )
    return _confirm_forgetting(row)


def _note_catching_up(row: WorkerRow) -> WorkerRow:
    """Note whether the sum of a worker is up to date again after a restore."""
    return replace(row, behind=0) if row.counted + 1 >= row.behind else row


def _confirm_forgetting(row: WorkerRow) -> WorkerRow:
    while row.forgetting > row.forgotten and row.counted >= row.forgetting_at:
        row = replace(
            row,
            forgotten=row.forgetting,
            forgetting=row.forgetting_later,
            forgetting_at=row.forgetting_later_at,
            forgetting_later=0,
            forgetting_later_at=0,
        )
    return row
