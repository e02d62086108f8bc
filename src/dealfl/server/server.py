"""The server: a deterministic state machine from messages to messages, stored in its ledger.

Every update counts exactly once, whenever it arrives. A receipt is sent after the update is
durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any

from msgspec.structs import replace

from dealfl.errors import BadBytes, BadInput, Fenced, WriteFailed
from dealfl.escaping import for_terminal
from dealfl.exact import Statistics
from dealfl.learners import Learner
from dealfl.protocol import (
    MAX_NAME,
    Announce,
    Asleep,
    Declined,
    Erase,
    Erased,
    ErasedReceipt,
    Fetch,
    Header,
    MaskedUpdate,
    Message,
    Opened,
    Ready,
    Receipt,
    Refusal,
    Rules,
    Step,
    Update,
    Verdict,
    Withdraw,
    problem_of,
)
from dealfl.server.aggregation import AFTER_GAP, WITHDRAWN, Problem, Stored
from dealfl.server.ledger import Ledger
from dealfl.server.ledger_reader import LedgerReader, WorkerRow
from dealfl.server.masked import MaskedAggregation, Privacy, aggregation_of
from dealfl.server.membership import REFUSED, Membership, Tally, is_member
from dealfl.server.predictions import Predictions
from dealfl.server.rounds import Rounds
from dealfl.server.selection import OverPromise, Selector, Uniform

_NOT_BY_A_MESSAGE = (BadBytes, Fenced, WriteFailed, OSError, MemoryError)


class Server:
    """The coordinator of a job: it selects workers, assigns rounds, and aggregates updates.

    One call of `handle` is one transaction of the ledger. A message that fails is undone alone:
    its sender is flagged, and all others count.
    """

    def __init__(
        self,
        job: str,
        make: Callable[[], Learner],
        ledger: Ledger,
        rules: Rules | None = None,
        selector: Selector | None = None,
        privacy: Privacy | None = None,
    ) -> None:
        self.job = job
        self._ledger = ledger
        self._term = ledger.claim()
        with ledger.transaction(self._term):
            ledger.begin_term()
        self._keyholder = privacy.name if privacy is not None else ""
        if privacy is not None and rules is not None and rules.regions:
            raise BadInput(
                "the job has regions and a section [privacy]: masks end at a region, whose "
                "keyholder opens its sums; give [privacy] to the jobs of the regions, not to that "
                "of the root"
            )
        self._aggregation = aggregation_of(ledger, make, rules or Rules(), privacy)
        with ledger.naming_damage():
            self._aggregation.load()
            self._aggregation.verify()
            self._members = Membership(job, ledger, self._aggregation)
            self._rounds = Rounds(
                job,
                ledger,
                self._aggregation,
                self._members,
                rules or Rules(),
                selector or Uniform(),
            )
        if privacy is not None:
            with ledger.transaction(self._term):
                self._members.restart_if_stale()
                self._members.save()
        self._removing: set[str] = set()  # workers whose answers or sums changed by erasures
        self._announced: dict[str, Announce] = {}  # the last announcement of each, in this call
        self._actions: dict[type, Callable[[Any, float], list[Message]]] = {
            Announce: self._receive_announce,
            Asleep: self._receive_asleep,
            Update: self._receive_update,
            MaskedUpdate: self._receive_update,
            Ready: self._receive_ready,
            Opened: self._receive_opened,
            Declined: self._receive_declined,
            Withdraw: self._receive_withdraw,
            Erased: self._receive_erased,
            Fetch: self._receive_fetch,
        }

    # -- state ------------------------------------------------------------------------------

    @property
    def rules(self) -> Rules:
        """Rules of the job. New rules apply from the next call on."""
        return self._rounds.rules

    @rules.setter
    def rules(self, rules: Rules) -> None:
        self._rounds.rules = rules

    @property
    def epoch(self) -> str:
        """Epoch of the ledger."""
        return self._members.epoch

    @property
    def path(self) -> tuple[str, ...]:
        """Ids of the ledgers from the root to this one; the first is empty without a root."""
        return (self._ledger.reader.state().id,)

    @property
    def schema_digest(self) -> str:
        """Digest of the schema of the job's statistics."""
        return self._aggregation.schema_digest

    @property
    def reader(self) -> LedgerReader:
        """Read access to the ledger."""
        return self._ledger.reader

    @property
    def model(self) -> Learner:
        """Model of all updates counted so far."""
        return self._aggregation.total

    def list_unopened(self) -> list[tuple[Header, bytes]]:
        """Return header and bytes of the masked updates that wait for a cohort."""
        aggregation = self._aggregation
        if not isinstance(aggregation, MaskedAggregation):
            return []
        return aggregation.list_unopened(self._members.rows)

    @property
    def finished(self) -> bool:
        """Whether all rounds are closed, or the model has converged."""
        return self._rounds.finished

    @property
    def predictions(self) -> Predictions:
        """Predictions of the cost of a training."""
        return self._rounds.predictions

    @property
    def over_promised(self) -> OverPromise | None:
        """Workers whose fairness guarantees cannot be met; None if all can be met."""
        return self._rounds.over_promised

    @property
    def workers(self) -> dict[str, WorkerRow]:
        """All known workers by name."""
        return dict(self._members.rows)

    @property
    def tally(self) -> Tally:
        """Sums over all known workers."""
        return self._members.tally

    # -- messages -------------------------------------------------------------------------------

    def handle(self, messages: Iterable[Message], now_s: float, *, decoded: bool = False) -> Step:
        """Receive messages, advance the round, and return the messages to send.

        Decoding has checked the bounds of messages that came as bytes.
        """
        received = [
            (message, None if decoded else self._problem_of(message)) for message in messages
        ]
        try:
            replies = self._process(received, now_s, self._receive)
        except _NOT_BY_A_MESSAGE:
            raise
        except Exception:  # by a message that nobody has foreseen: once more, one by one
            replies = self._process(received, now_s, self._receive_alone)
        self._ledger.compact_if_due(now_s)
        return Step(tuple(replies), self._find_wake_s(now_s))

    def _find_wake_s(self, now_s: float) -> float | None:
        round_s = self._rounds.wake_at_s(now_s)
        wake_s = min(inf if round_s is None else round_s, self._aggregation.wake_at_s(now_s))
        return None if wake_s == inf else wake_s

    def _process(
        self,
        messages: list[tuple[Message, str | None]],
        now_s: float,
        receive: Callable[[Message, str | None, float], list[Message]],
    ) -> list[Message]:
        """Receive messages, and advance the round, in one transaction."""
        replies: list[Message] = []
        self._announced = {
            message.worker: message
            for message, problem in messages
            if isinstance(message, Announce) and problem is None
        }
        with self._transaction():
            for message, problem in messages:
                replies += receive(message, problem, now_s)
            self._attribute_removed()
            replies += self._rounds.advance(now_s)
            if self._rounds.finished or self._rounds.draining:
                self._aggregation.save_total()
            self._rounds.publication.compact_fulfilled()
            if not self._rounds.draining:
                replies += self._rounds.publication.repeat(now_s)
            replies += self._aggregation.take_requests(now_s)
            replies += self._report_upward(now_s)
        return replies

    def _report_upward(self, now_s: float) -> list[Message]:  # noqa: ARG002
        """Return messages to a parent; a server without one has none."""
        return []

    def erase(
        self, request: str, owners: Sequence[bytes], now_s: float, requested_by: str = ""
    ) -> Step:
        """Request that all workers forget some owners or examples, or readmit owners."""
        entries = sorted(set(owners))
        with self._transaction():
            listed = self._ledger.erasures.put(request, entries, now_s, requested_by[:MAX_NAME])
            orders = tuple(self._members.erase(part) for part in listed)
            if not request or not orders or any(problem_of(order) for order in orders):
                raise BadInput(
                    f"erasure {for_terminal(request, MAX_NAME)!r} has {len(entries):,} owners; a "
                    f"name has at most {MAX_NAME} printable characters, a request 1 or more owners"
                )
        return Step(orders, None)

    def confirm(self, version: int) -> None:
        """Note that the transport keeps a published version for all workers."""
        with self._transaction():
            self._rounds.publication.confirm(version)

    def flag(self, worker: str, problem: str) -> None:
        """Show people that something is wrong with a worker, such as packets that were refused."""
        with self._transaction():
            self._flag(worker, for_terminal(problem, MAX_NAME))

    def start_from(self, base: Statistics) -> None:
        """Add statistics that belong to no worker, such as those of an earlier model."""
        with self._transaction():
            self._aggregation.put_base(base)

    def drain(self) -> None:
        """Stop opening rounds and publishing versions. Updates still count."""
        self._rounds.draining = True

    def publish_last(self, now_s: float) -> None:
        """Publish what was counted since the last version, because the job has ended."""
        with self._transaction():
            self._rounds.publish_last(now_s)

    def remove(self, worker: str, now_s: float) -> Step:
        """Remove a lost worker's examples from the model.

        If the worker returns, it starts a new incarnation and sends all its examples again.
        """
        row = self._members.rows.get(worker)
        if row is None:
            raise BadInput(f"no worker called {worker!r}; `dealfl workers list` shows all")
        with self._transaction():
            removed = self._members.begin_incarnation(row, "removed")
            self._aggregation.forgive(worker)
            self._members.put(replace(removed, heard_s=None, alarmed_s=None, behind=0))
            self._rounds.forget(worker)
            self._ledger.note_deletion(compact=True)
        return self.handle((), now_s)

    # -- transactions -----------------------------------------------------------------------------

    def reload(self) -> None:
        """Reload the state from the ledger, after a change by others or a failed transaction."""
        self._aggregation.load()
        self._members.load()
        self._rounds.load()

    def _save(self) -> None:
        """Store what changed in memory."""
        self._rounds.save()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Change ledger and memory together; after a failure, reload memory from the ledger."""
        try:
            with self._ledger.transaction(self._term):
                yield
                self._save()
        except BaseException:
            self.reload()
            raise
        finally:
            self._aggregation.snapshot = None

    # -- what each kind of message changes, and its answers ----------------------------------------

    def _problem_of(self, message: Message) -> str | None:
        return problem_of(message) if type(message) in self._actions else None

    def _receive(self, message: Message, problem: str | None, now_s: float) -> list[Message]:
        """Apply a message, and return the answers; a message out of bounds flags its sender."""
        action = self._actions.get(type(message))
        if action is None or message.job != self.job:
            return []
        if problem is not None:
            return self._flag(str(message.worker), problem)
        return action(message, now_s)

    def _flag(self, worker: str, problem: str) -> list[Message]:
        """Flag a worker, if it is known; nothing is answered."""
        row = self._members.rows.get(worker)
        if row is not None:
            self._members.flag(row, problem)
        return []

    def _receive_alone(self, message: Message, problem: str | None, now_s: float) -> list[Message]:
        """Receive a message; if it fails, undo it and flag its sender."""
        replies = self._try(lambda: self._receive(message, problem, now_s))
        if not isinstance(replies, str):
            return replies
        failed = f"{type(message).__name__} message: {replies}; it was skipped"
        self._try(lambda: self._flag(str(message.worker), failed))
        return []

    def _try(self, change: Callable[[], list[Message]]) -> list[Message] | str:
        """Change ledger and memory, or neither of them; then return the name of the error."""
        try:
            with self._ledger.savepoint():
                replies = change()
                self._save()  # the ledger then has all that a reload needs
                return replies
        except _NOT_BY_A_MESSAGE:
            raise
        except Exception as error:
            self.reload()
            return type(error).__name__

    def _receive_ready(self, message: Ready, now_s: float) -> list[Message]:
        if isinstance(self._aggregation, MaskedAggregation):
            self._aggregation.receive_ready(message, now_s)
        return []

    def _receive_opened(self, message: Opened, now_s: float) -> list[Message]:
        if not isinstance(self._aggregation, MaskedAggregation):
            return []
        rows = self._members.rows
        done = self._aggregation.receive_answer(message, rows, self._rounds.rules, now_s)
        return [] if done is None else self._members.apply(done)

    def _receive_announce(self, message: Announce, now_s: float) -> list[Message]:
        if message.worker == self._keyholder:
            return []  # its name is not one of a worker
        row = self._members.rows.get(message.worker)
        if row is not None and row.call_by_s and message.training and self._is_old(message, row):
            return []
        is_last = self._announced[message.worker] is message
        replies = self._members.announce(message, now_s, self._rounds.rules, lists=is_last)
        follows = message.epoch == self._members.epoch
        away = row is not None and (row.asleep or row.call_by_s)
        if away or (row is not None and self._rounds.awaits_call(row, now_s)):
            known = message.round if follows else 0  # rounds of other epochs mean nothing
            replies += self._rounds.repeat_assignment(message.worker, known, now_s)
        if follows:
            self._rounds.publication.confirm(message.version)
            lacks = any(isinstance(reply, Erase) for reply in replies)
            is_known = message.worker in self._members.rows and message.incarnation
            if is_known and is_last and not lacks:
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
        row = self._find_sender(message, now_s)
        if row is None:
            return []  # the worker will announce itself and send the update again
        is_refused = row.flag in REFUSED
        stored = Problem(row.flag) if is_refused else self._aggregation.receive(row, message)
        if stored is AFTER_GAP:
            return self._flag(row.name, AFTER_GAP.reason)  # the worker sends it again
        if stored is WITHDRAWN:
            return [Verdict(**_key(message), withdrawn=True, term=self._members.term)]
        if isinstance(stored, Problem):
            return self._refuse(row, message, stored)
        if stored is None:
            self._members.note_repeated(row, message.sequence)
        else:
            self._note_update(row, message, stored, now_s)
        sleep = self._rounds.send_to_sleep(row.name, now_s)
        return [Receipt(**_key(message), term=self._members.term), *sleep]

    def _note_update(self, row: WorkerRow, message: Update, stored: Stored, now_s: float) -> None:
        """Note what an update that was just stored says of its worker."""
        examples = row.examples + (stored.records or 0)
        self._rounds.record_reply(row, message, stored, now_s)
        if message.evicted and not message.rebuilt:
            self._rounds.publication.note_eviction(row, message.sequence, self._rounds.rules)
        row = self._members.rows[row.name]
        busy = row.training and self._is_assigned(row, now_s)  # if not, this was all it had
        removed = row.removed
        erases = message.round is None or message.rebuilt  # an erasure, not a training
        if erases and row.devices is None:  # a region counts what its devices remove
            removed += max(-(stored.records or 0), 0)
        self._members.put(replace(row, examples=examples, training=busy, removed=removed))
        self._removing |= {row.name} if removed else set()

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

    def _find_sender(self, message: Update | Withdraw, now_s: float) -> WorkerRow | None:
        """Return the row of a worker if its current process sent the message.

        A removed worker that knows its new incarnation is back.
        """
        row = self._members.rows.get(message.worker)
        if row is None or row.session != message.session:
            return None
        is_back = not is_member(row) and message.incarnation == row.incarnation
        return self._members.readmit(row, now_s) if is_back else row

    def _receive_declined(self, message: Declined, now_s: float) -> list[Message]:
        row = self._members.rows.get(message.worker)
        if row is not None:
            self._rounds.record_decline(row, message, now_s)
        return []

    def _receive_withdraw(self, message: Withdraw, now_s: float) -> list[Message]:
        row = self._find_sender(message, now_s)
        if row is None or message.incarnation != row.incarnation:
            return []
        withdrawn = self._aggregation.withdraw(row, message)
        if withdrawn is AFTER_GAP:
            return self._flag(row.name, AFTER_GAP.reason)  # the worker asks again
        if isinstance(withdrawn, Problem):
            return self._refuse(row, message, withdrawn)
        self._members.note_repeated(row, message.sequence)
        return [Verdict(**_key(message), withdrawn=withdrawn, term=self._members.term)]

    def _receive_erased(self, message: Erased, now_s: float) -> list[Message]:
        row = self._members.rows.get(message.worker)
        if row is not None and row.devices is not None:
            self._ledger.erasures.put_region_answer(message)
        else:
            self._ledger.erasures.put_answer(message, self._rounds.rules.max_examples)
            self._removing.add(message.worker)
        is_of_region = message.devices is not None  # its counts can change
        receipt = ErasedReceipt(
            job=self.job,
            worker=message.worker,
            request=message.request,
            hash=message.hash,
            examples=message.examples if is_of_region else None,
            removed=message.removed,
            devices=message.devices,
        )
        if message.worker not in self._members.rows:
            return [receipt]
        return [receipt, *self._rounds.send_to_sleep(message.worker, now_s)]

    def _attribute_removed(self) -> None:
        """Note for each answer to an erasure how many examples left the sum of its worker."""
        for name in sorted(self._removing & self._members.rows.keys()):
            row = self._members.rows[name]
            rest = self._ledger.erasures.attribute(row) if row.removed else 0
            if rest != row.removed:
                self._members.put(replace(row, removed=rest))
        self._removing.clear()

    def _receive_fetch(self, message: Fetch, now_s: float) -> list[Message]:
        is_member = message.worker in self._members.rows
        return self._rounds.publication.answer(message, now_s) if is_member else []


def _key(message: Update | Withdraw) -> dict[str, Any]:
    """Return the fields that identify an update in every answer to it."""
    names = ("job", "worker", "session", "incarnation", "sequence")
    return {name: getattr(message, name) for name in names}
