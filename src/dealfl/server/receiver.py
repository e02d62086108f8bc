"""What each kind of message changes on the server, and its answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from dealfl.errors import BadBytes, Fenced, WriteFailed
from dealfl.protocol import (
    Announce,
    Asleep,
    Declined,
    Erase,
    Erased,
    ErasedReceipt,
    Fetch,
    Message,
    Receipt,
    Refusal,
    Update,
    Verdict,
    Withdraw,
    problem_of,
)
from dealfl.server.aggregation import BEHIND_GAP, WITHDRAWN, Aggregation, Problem
from dealfl.server.ledger import Ledger
from dealfl.server.membership import Membership
from dealfl.server.rounds import Rounds
from dealfl.server.tables import WorkerRow

NOT_BY_A_MESSAGE = (BadBytes, Fenced, WriteFailed, OSError, MemoryError)


class Receiver:
    """Applies the messages of workers to the server's state, within its transaction."""

    def __init__(
        self,
        job: str,
        ledger: Ledger,
        aggregation: Aggregation,
        members: Membership,
        rounds: Rounds,
    ) -> None:
        self._job, self._ledger, self._aggregation = job, ledger, aggregation
        self._members, self._rounds = members, rounds
        self._actions: dict[type, Callable[[Any, float], list[Message]]] = {
            Announce: self._receive_announce,
            Asleep: self._receive_asleep,
            Update: self._receive_update,
            Declined: self._receive_declined,
            Withdraw: self._receive_withdraw,
            Erased: self._receive_erased,
            Fetch: self._receive_fetch,
        }

    def receive(self, message: Message, now_s: float) -> list[Message]:
        """Apply a message, and return the answers; a message out of bounds flags its sender."""
        action = self._actions.get(type(message))
        if action is None or message.job != self._job:
            return []
        problem = problem_of(message)
        return (
            action(message, now_s) if problem is None else self.flag(str(message.worker), problem)
        )

    def flag(self, worker: str, problem: str) -> list[Message]:
        """Flag a worker, if it is known; nothing is answered."""
        row = self._members.rows.get(worker)
        if row is not None:
            self._members.put(replace(row, flag=problem))
        return []

    def receive_alone(self, message: Message, now_s: float) -> list[Message]:
        """Receive a message; if it fails, undo it and flag its sender."""
        replies = self._try(lambda: self.receive(message, now_s))
        if not isinstance(replies, str):
            return replies
        problem = f"{type(message).__name__} message: {replies}; it was skipped"
        self._try(lambda: self.flag(str(message.worker), problem))
        return []

    def _try(self, change: Callable[[], list[Message]]) -> list[Message] | str:
        """Change ledger and memory, or neither of them; then return the name of the error."""
        try:
            with self._ledger.savepoint():
                replies = change()
                self._rounds.save()  # the ledger then has all that a reload needs
                return replies
        except NOT_BY_A_MESSAGE:
            raise
        except Exception as error:
            self.reload()
            return type(error).__name__

    def reload(self) -> None:
        """Reload the state from the ledger."""
        self._aggregation.load()
        self._members.load()
        self._rounds.load()

    def _receive_announce(self, message: Announce, now_s: float) -> list[Message]:
        row = self._members.rows.get(message.worker)
        if row is not None and row.call_by_s and message.training and self._is_old(message, row):
            return []
        replies = self._members.announce(message, now_s, self._rounds.terms.presence_timeout_s)
        if message.epoch == self._members.epoch:
            self._rounds.publication.confirm(message.version)
            away = row is not None and (row.asleep or row.call_by_s)
            if away or (row is not None and self._rounds.is_booked(row, now_s)):
                replies += self._rounds.repeat_assignment(message, now_s)
            lacks = any(isinstance(reply, Erase) for reply in replies)
            if message.worker in self._members.rows and message.incarnation and not lacks:
                replies += self._rounds.send_to_sleep(message.worker, now_s)
        return replies

    def _is_old(self, message: Announce, row: WorkerRow) -> bool:
        """Return whether an announcement is older than the last update, which has arrived."""
        last = self._ledger.updates.last_sequence(row.name, row.incarnation)
        return message.session == row.session and message.sequence <= last

    def _receive_asleep(self, message: Asleep, now_s: float) -> list[Message]:  # noqa: ARG002
        self._members.sleep(message.worker)
        return []

    def _receive_update(self, message: Update, now_s: float) -> list[Message]:
        row = self._find_sender(message)
        if row is None:
            return []  # the worker will announce itself and send the update again
        stored = self._aggregation.receive(row, message)
        if stored is BEHIND_GAP:
            return self.flag(row.name, BEHIND_GAP.reason)  # the worker sends it again
        if stored is WITHDRAWN:
            return [Verdict(**_key(message), withdrawn=True, term=self._members.term)]
        if isinstance(stored, Problem):
            return self._refuse(row, message, stored)
        if stored is not None:
            examples = row.examples + (stored.records or 0)
            self._rounds.record_reply(row, message, stored, now_s)
            if message.evicted and not message.rebuilt:
                self._rounds.publication.note_eviction(row, message.sequence, self._rounds.terms)
            row = self._members.rows[row.name]
            busy = row.training and self._is_assigned(row, now_s)  # if not, this was all it had
            self._members.put(replace(row, examples=examples, training=busy))
        sleep = self._rounds.send_to_sleep(row.name, now_s)
        return [Receipt(**_key(message), term=self._members.term), *sleep]

    def _is_assigned(self, row: WorkerRow, now_s: float) -> bool:
        """Return whether a worker has not answered an assignment, and has time to."""
        unanswered = self._ledger.rounds.find_unanswered
        return now_s < row.busy_until_s and unanswered(row.name, after=0) is not None

    def _refuse(
        self, row: WorkerRow, message: Update | Withdraw, problem: Problem
    ) -> list[Message]:
        if problem.fatal:  # a journal was restored from a backup, or the bytes are invalid
            row = self._members.begin_incarnation(row, problem.reason)
        self._members.put(replace(row, flag=problem.reason))
        welcome = [self._members.welcome(row)] if problem.fatal else []
        return [Refusal(**_key(message), reason=problem.reason), *welcome]

    def _find_sender(self, message: Update | Withdraw) -> WorkerRow | None:
        """Return the row of a worker if its current process sent the message."""
        row = self._members.rows.get(message.worker)
        return row if row is not None and row.session == message.session else None

    def _receive_declined(self, message: Declined, now_s: float) -> list[Message]:
        row = self._members.rows.get(message.worker)
        if row is not None:
            self._rounds.record_decline(row, message, now_s)
        return []

    def _receive_withdraw(self, message: Withdraw, now_s: float) -> list[Message]:  # noqa: ARG002
        row = self._find_sender(message)
        if row is None or message.incarnation != row.incarnation:
            return []
        withdrawn = self._aggregation.withdraw(row, message)
        if isinstance(withdrawn, Problem):
            return self._refuse(row, message, withdrawn)
        return [Verdict(**_key(message), withdrawn=withdrawn, term=self._members.term)]

    def _receive_erased(self, message: Erased, now_s: float) -> list[Message]:
        self._ledger.erasures.put_answer(message)
        receipt = ErasedReceipt(
            job=self._job, worker=message.worker, request=message.request, hash=message.hash
        )
        known = message.worker in self._members.rows
        sleep = self._rounds.send_to_sleep(message.worker, now_s) if known else []
        return [receipt, *sleep]

    def _receive_fetch(self, message: Fetch, now_s: float) -> list[Message]:  # noqa: ARG002
        known = message.worker in self._members.rows
        return self._rounds.publication.answer(message) if known else []


def _key(message: Update | Withdraw) -> dict[str, Any]:
    """Return the fields that identify an update in every answer to it."""
    names = ("job", "worker", "session", "incarnation", "sequence")
    return {name: getattr(message, name) for name in names}
