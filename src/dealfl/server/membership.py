"""Membership: announcements, welcomes, incarnations and sessions of workers, epochs of the ledger.

A worker's claims are compared with the record. A worker that knows more proves that the ledger was
restored from a backup; a new process that knows less proves that its journal was. In both cases the
worker begins a new incarnation and sends its full sum.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import accumulate

from msgspec.structs import replace

from dealfl.protocol import (
    MAX_OWNERS,
    PROTOCOL,
    Announce,
    Erase,
    Message,
    Position,
    Refusal,
    Rules,
    Welcome,
)
from dealfl.server.aggregation import Aggregated, Aggregation
from dealfl.server.alarms import Alarms
from dealfl.server.ledger import Ledger, Listed
from dealfl.server.ledger_reader import WorkerRow, note_restore
from dealfl.server.roster import Roster, note_announcement

_RESTORED = "ledger restored"
_REQUESTS = 64  # erasures that are sent in one answer to an announcement
_TWO_REGIONS = "two ledgers use the name of this region; remove the lost one first"
_NO_REGION = "a region that the job does not name; add it to `regions` of the parent's job"
_TOO_MANY = "the job has max_workers in [privacy]; `dealfl workers remove` makes room"
REFUSED = (_NO_REGION, _TOO_MANY)  # flags of workers whose updates are not taken


@dataclass(slots=True)
class Tally:
    """Sums over all workers, so that nobody has to ask each of them."""

    training: int = 0
    able: int = 0  # whose schema is that of the job, and who have waiting examples
    learned: int = 0  # examples in all replies
    evicted: int = 0
    refused: int = 0
    behind: int = 0  # whose sums may be older than a restore

    def add(self, row: WorkerRow, times: int = 1) -> None:
        """Add a worker, or remove one with −1."""
        self.training += times * row.training
        self.able += times * (row.fits and row.waiting > 0)
        self.learned += times * row.learned
        self.evicted += times * row.evicted
        self.refused += times * (row.flag in REFUSED)
        self.behind += times * (row.behind > 0)


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
        self._fulfilled = Counter(map(_count_fulfilled, filter(is_member, self.rows.values())))
        self.devices = sum(map(count_devices, self.rows.values()))
        self.sleepers = {name for name, row in self.rows.items() if row.call_by_s}
        self.tally = Tally()
        for row in self.rows.values():
            self.tally.add(row)
        self.alarms = Alarms(self.rows.values())

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
        self.devices += count_devices(row) - (0 if before is None else count_devices(before))
        self.tally.add(row)
        self.alarms.note(row)
        if before is not None:
            self.tally.add(before, -1)
        if before is not None and is_member(before):
            self._fulfilled[_count_fulfilled(before)] -= 1
            if not self._fulfilled[_count_fulfilled(before)]:
                del self._fulfilled[_count_fulfilled(before)]
        if is_member(row):
            self._fulfilled[_count_fulfilled(row)] += 1
        (self.sleepers.add if row.call_by_s else self.sleepers.discard)(row.name)
        self.rows[row.name] = row
        self._changed.add(row.name)
        return row

    def flag(self, row: WorkerRow, problem: str) -> None:
        """Flag a worker; what it says does not change that it is refused."""
        if row.flag not in REFUSED:
            self.put(replace(row, flag=problem))

    def save(self) -> None:
        """Store the rows that changed."""
        self._ledger.put_workers(self.rows[name] for name in sorted(self._changed))
        self._changed.clear()

    def others_are_alarmed(self, worker: str, now_s: float) -> bool:
        """Return whether an assignment warns a worker that the world has changed for others."""
        return self.alarms.warn(worker, self.devices, now_s)

    @property
    def fulfilled(self) -> int:
        """Number of erasure requests, the first of the list, that all workers have fulfilled."""
        fulfilled = min(self._fulfilled or (self._ledger.erasures.end().number,))
        return int(min(fulfilled, self._aggregation.forgotten_limit))

    # -- announcements --------------------------------------------------------------------------

    def announce(
        self, message: Announce, now_s: float, rules: Rules, *, lists: bool = True
    ) -> list[Message]:
        """Store an announcement; reply with a welcome and with erasures that the worker lacks.

        Without `lists`, a later announcement that has arrived is answered with these erasures.
        A worker is present if it sent a message within `presence_timeout_s`.
        """
        row = self.rows.get(message.worker)
        heard_s = now_s
        if row is None:
            row = self._new_row(message)
        elif message.journal_id != row.journal_id:
            if (refusal := self._refuse_journal(row, message, now_s, rules)) is not None:
                return refusal
            row = self.begin_incarnation(row, "journal lost")
            row = replace(row, journal_id=message.journal_id)
            # the message may be old, so its sender must soon announce itself again
            heard_s -= rules.presence_timeout_s * 2 / 3
        elif message.session < row.session:
            return [self.welcome(row)]  # of a process that has ended; if not, it starts again
        else:
            row = self._compare(message, row)
        same_schema = message.schema_digest == self._aggregation.schema_digest
        fits = same_schema and message.protocol == PROTOCOL
        was_removed = not is_member(row) and message.incarnation < row.incarnation
        row = note_announcement(row, message, fits, heard_s)
        if was_removed:  # perhaps it was sent before; who gets the welcome announces itself again
            row = replace(row, heard_s=None)
        row = self._note_place(_note_devices(row, message, rules))
        reached = self._ledger.erasures.find_common(message.erased)
        forgotten = _count_forgotten(message, reached)
        row, replies = self._send_erasures(row, reached, forgotten) if lists else (row, [])
        if message.incarnation == row.incarnation:
            row = self._note_progress(row, message, forgotten)
        self.put(row)
        if message.incarnation != row.incarnation or message.epoch not in ("", self.epoch):
            replies.append(self.welcome(row))
        return replies + self._refuse(row)

    def _note_progress(self, row: WorkerRow, message: Announce, forgotten: int) -> WorkerRow:
        """Note what a worker has forgotten in its present incarnation, and has sent."""
        if row.devices is not None:  # answers that a restore has lost come again before it counts
            forgotten = min(forgotten, row.answered)
        claims = _note_forgetting(row, forgotten, message.sequence)
        if self._ledger.updates.settle(row, 0, message.receipted) or claims is not row:
            self._aggregation.look_again(row.name)
        row = self._confirm_forgetting(claims)
        if row.behind and message.epoch == self.epoch:
            row = _note_catching_up(replace(row, behind=message.sequence + 1))
        return row

    def _note_place(self, row: WorkerRow) -> WorkerRow:
        """Refuse a worker that has no place among those of the job, or no longer."""
        known = self.rows.get(row.name)
        has_place = known is not None and known.flag != _TOO_MANY and is_member(known)
        if has_place or row.flag == _NO_REGION or not is_member(row):
            return row
        others = self.devices - self.tally.refused
        if others < self._aggregation.max_workers:
            return replace(row, flag="" if row.flag == _TOO_MANY else row.flag)
        return replace(row, fits=False, flag=_TOO_MANY)

    def readmit(self, row: WorkerRow, now_s: float) -> WorkerRow:
        """Let a removed worker take part again."""
        return self.put(self._note_place(replace(row, heard_s=now_s)))

    def _refuse(self, row: WorkerRow) -> list[Message]:
        """Tell a worker or a region that its updates are not taken."""
        if row.flag not in REFUSED:
            return []
        sequence = max(self._ledger.updates.last_sequence(row.name, row.incarnation), 1)
        refusal = Refusal(
            job=self._job,
            worker=row.name,
            session=row.session,
            incarnation=row.incarnation,
            sequence=sequence,
            reason=row.flag,
        )
        return [refusal]

    def _refuse_journal(
        self, row: WorkerRow, message: Announce, now_s: float, rules: Rules
    ) -> list[Message] | None:
        """Return what is answered to a second journal of one name; None if it may replace it."""
        if row.devices is not None and is_member(row):  # a lost region must be removed first
            self.flag(row, _TWO_REGIONS)
            return [self.welcome(row)]  # which names the ledger that was first
        if message.incarnation and _is_alive(row, now_s, rules.presence_timeout_s):
            self.flag(row, "two journals use this name")
            return []  # the journal that joined last is the worker's
        return None

    def _new_row(self, message: Announce) -> WorkerRow:
        end = self._ledger.erasures.end().number
        # what it holds of people whose erasure is under way is counted, too
        shown = self._ledger.reader.count_shown()
        row = WorkerRow(
            message.worker,
            1,
            message.journal_id,
            answered=max(shown, end - _REQUESTS),
            joined=max(shown, self.fulfilled),
        )
        if not message.incarnation:
            return row
        self._notice_restore(message, ahead=True)  # the record of this worker is gone
        self._ledger.change_state(unpublished=True)
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
        ahead |= same and updates.contradicts(row, message.withdrawn, message.receipted)
        self._notice_restore(message, ahead)
        row = self.rows[row.name]
        if ahead:
            row = replace(row, incarnation=max(row.incarnation, message.incarnation))
            return self.begin_incarnation(row, _RESTORED)
        if message.session > row.session:
            # everything on record was sent by earlier processes, which had written it down before
            last = updates.last_sequence(row.name, row.incarnation)
            is_older = last > (message.sequence if same else 0)
            # a region reports what it has fulfilled: a copy from before an erasure fulfils less
            is_older |= same and message.forgotten is not None and message.forgotten < row.forgotten
            if is_older:
                return self.begin_incarnation(row, "journal restored")
            # nor is what they have announced true of a journal that was restored
            self._ledger.updates.dispute(row, message.receipted)
            row = _without_claims(row)
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
            self._begin_epoch(message.epoch)

    def _begin_epoch(self, other: str = "") -> None:
        self._ledger.begin_epoch(other)
        for row in list(self.rows.values()):
            self.put(note_restore(row))
        self.restart_if_stale()

    def restart_if_stale(self) -> None:
        """Let all workers begin a new incarnation, if their sums are worthless."""
        if self._aggregation.restart_if_stale():
            for row in list(self.rows.values()):
                self.put(self.begin_incarnation(row, _RESTORED))

    def _send_erasures(
        self, row: WorkerRow, reached: Position, forgotten: int
    ) -> tuple[WorkerRow, list[Message]]:
        """Return the requests that a worker has not answered, and the part of the list before.

        A region remembers what its devices have to answer, but not which answers a restore lost.
        """
        erasures = self._ledger.erasures
        end = erasures.end()
        if reached == end and row.answered == end.number:
            return row, []
        listed = erasures.unanswered(row.name, row.answered, _REQUESTS)
        first = listed[0].before.number if listed else end.number
        row = replace(row, answered=first)
        lost: list[Listed] = []
        if row.devices is not None:
            lost = [requests for requests in listed if requests.after.number <= forgotten]
            listed = erasures.unanswered(row.name, max(first, reached.number), _REQUESTS)
            first = listed[0].before.number if listed else end.number
        part = erasures.part(reached, first, MAX_OWNERS)
        listed = [*lost, *([] if part is None else [part]), *listed]
        sizes = accumulate(len(requests.owners) for requests in listed)
        fitting = sum(size <= MAX_OWNERS for size in sizes)
        sent = [_known_to(reached, requests) for requests in listed[: max(fitting, 1)]]
        return row, [self.erase(requests, row.name) for requests in sent]

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
            shown=0 if row.devices is None else self._ledger.reader.count_shown(),
        )

    # -- incarnations ---------------------------------------------------------------------------

    def begin_incarnation(self, row: WorkerRow, flag: str) -> WorkerRow:
        """Remove all updates of a worker from the model; the worker will send its full sum."""
        self._aggregation.leave(row)
        return replace(
            _without_claims(row),
            incarnation=row.incarnation + 1,
            counted=0,
            examples=0,
            removed=0,
            flag=flag,
            joined=0,
            forgotten=0,
        )

    def note_repeated(self, row: WorkerRow, sequence: int) -> None:
        """Note that a worker has sent again what is on record of an earlier process."""
        if self._ledger.updates.settle(row, sequence, sequence):
            self._aggregation.look_again(row.name)
            self.put(self._confirm_forgetting(row))

    def _confirm_forgetting(self, row: WorkerRow) -> WorkerRow:
        """Note which requests the counted updates of a worker show, if it has made all of them."""
        while row.forgetting > row.forgotten and row.counted >= row.forgetting_at:
            if self._ledger.updates.is_disputed(row, row.forgetting_at):
                break
            row = replace(
                row,
                forgotten=row.forgetting,
                forgetting=row.forgetting_later,
                forgetting_at=row.forgetting_later_at,
                forgetting_later=0,
                forgetting_later_at=0,
            )
        return row

    def aggregate(self, rules: Rules, now_s: float) -> list[Message]:
        """Count the stored updates; workers that diverged start a new incarnation.

        An update that does not fit into the total is held back; its worker has done nothing wrong.
        """
        return self.apply(self._aggregation.aggregate(self.rows, rules, now_s))

    def apply(self, done: Aggregated) -> list[Message]:
        """Note what was counted, and what was not."""
        replies: list[Message] = []
        if done.is_older:
            self.save()
            self._begin_epoch()
        for name, problem in done.diverged.items():
            row = self.rows[name]
            above = replace(row, incarnation=max(row.incarnation, done.above.get(name, 0)))
            worker = self.put(self.begin_incarnation(above, problem))
            replies.append(self.welcome(worker))
        for name, problem in done.held_back.items():
            self.put(replace(self.rows[name], flag=problem))
        for name, counted in done.counted.items():
            row = replace(self.rows[name], counted=counted)
            self.put(_note_catching_up(self._confirm_forgetting(row)))
        return replies


def is_member(row: WorkerRow) -> bool:
    """Return whether a worker takes part; one that was removed does not."""
    return row.heard_s is not None


def count_devices(row: WorkerRow) -> int:
    """Return how many devices a row stands for: one for a worker, none after a removal."""
    if not is_member(row):
        return 0
    return 1 if row.devices is None else row.devices


def _known_to(reached: Position, listed: Listed) -> Listed:
    """Return requests that a worker has passed, in a part of the list, as known at its place."""
    if listed.after.number > reached.number:
        return listed
    return listed._replace(before=reached, after=reached)  # nothing leads there


def _count_fulfilled(row: WorkerRow) -> int:
    """Return how many requests a worker has fulfilled; a new one has nothing in the model."""
    return row.forgotten if row.counted else max(row.joined, row.forgotten)


def _count_forgotten(message: Announce, reached: Position) -> int:
    """Return how many requests a worker has fulfilled; a region says it of all its devices."""
    reported = reached.number if message.forgotten is None else message.forgotten
    return min(reported, reached.number)


def _note_devices(row: WorkerRow, message: Announce, rules: Rules) -> WorkerRow:
    """Note the devices behind a region; one that is not among those of the job never fits."""
    if message.devices is None or row.name in rules.regions:
        flag = "" if row.flag == _NO_REGION else row.flag
        return replace(row, devices=message.devices, flag=flag)
    return replace(row, devices=None, fits=False, flag=_NO_REGION)


def _is_alive(row: WorkerRow, now_s: float, presence_timeout_s: float) -> bool:
    heard_s = None if row.asleep else row.heard_s
    return heard_s is not None and now_s - heard_s < presence_timeout_s


def _without_claims(row: WorkerRow) -> WorkerRow:
    return replace(row, forgetting=0, forgetting_at=0, forgetting_later=0, forgetting_later_at=0)


def _note_forgetting(row: WorkerRow, number: int, sequence: int) -> WorkerRow:
    """Note that a worker has forgotten requests, which its updates up to a sequence show.

    What was noted before stays, or a worker that is always ahead would never be done; the last
    announcement follows it. An earlier one that arrives later says nothing new.
    """
    if number <= max(row.forgotten, row.forgetting, row.forgetting_later):
        return row
    if row.forgetting > row.forgotten:
        return replace(row, forgetting_later=number, forgetting_later_at=sequence)
    row = _without_claims(row)
    return replace(row, forgetting=number, forgetting_at=sequence)


def _note_catching_up(row: WorkerRow) -> WorkerRow:
    """Note whether the sum of a worker is up to date again after a restore."""
    return replace(row, behind=0) if row.counted + 1 >= row.behind else row
