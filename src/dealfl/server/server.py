"""The server: a deterministic machine from messages to messages, with its ledger as memory.

Every update counts exactly once, whenever it arrives; receipts leave only after it is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from dealfl.errors import BadInput
from dealfl.learners import Learner
from dealfl.messages import (
    PROTOCOL,
    Announce,
    Assignment,
    Declined,
    Erase,
    Erased,
    ErasedReceipt,
    Message,
    Published,
    Receipt,
    Refusal,
    Step,
    Update,
    Verdict,
    Welcome,
    Withdraw,
    storable,
)
from dealfl.server.convergence import Convergence
from dealfl.server.folding import Books
from dealfl.server.ledger import Ledger
from dealfl.server.predictions import Predictions
from dealfl.server.releases import Releases
from dealfl.server.rewards import reward
from dealfl.server.roster import announced, candidates, declined, spent
from dealfl.server.selection import Selector, Uniform
from dealfl.server.tables import RoundRow, WorkerRow
from dealfl.server.terms import Terms

__all__ = ["Server"]


class Server:
    """Selects, assigns, collects, aggregates; one `handle` is one transaction of the ledger."""

    def __init__(
        self,
        job: str,
        make: Callable[[], Any],
        ledger: Ledger,
        terms: Terms | None = None,
        selector: Selector | None = None,
    ) -> None:
        self.job, self.terms = job, terms or Terms()
        self._ledger = ledger
        self._selector: Selector = selector or Uniform()
        self._books = Books(ledger, make)
        self._predictions = Predictions(make().name)
        self._releases = Releases(ledger, self.terms)
        self._actions: dict[type, Callable[[Any, float], list[Message]]] = {
            Announce: self._announced,
            Update: self._updated,
            Declined: self._declined,
            Withdraw: self._withdrawn,
            Erased: self._erased,
        }
        self.reload()

    def reload(self) -> None:
        """Go on from the ledger: after a start, or after a transaction that failed."""
        self._workers = self._ledger.workers()
        self._books.load()
        self._selector.restore(self._ledger.setting("selector"))
        self._predictions.restore(self._ledger.setting("predictions"))
        quiet = int(self._ledger.setting("quiet", b"0"))
        self._convergence = Convergence(self.terms.tolerance, self.terms.patience, quiet)

    # -- what others ask ------------------------------------------------------------------------

    @property
    def model(self) -> Learner:
        """The model of all that was counted up to the last closed round."""
        return self._books.total

    @property
    def finished(self) -> bool:
        """Whether all rounds are done, or the model has converged."""
        done = self._ledger.last_round() >= self.terms.rounds and not self._ledger.open_round()
        return done or self._ledger.setting("converged") == b"yes"

    @property
    def predictions(self) -> Predictions:
        """What trainings are expected to take."""
        return self._predictions

    @property
    def workers(self) -> dict[str, WorkerRow]:
        """Everybody the server knows, by name."""
        return dict(self._workers)

    # -- messages -------------------------------------------------------------------------------

    def handle(self, messages: Iterable[Message], now_s: float) -> Step:
        """Take messages in, move the round on, and return what has to be sent."""
        replies: list[Message] = []
        with self._transaction():
            for message in messages:
                if message.job == self.job:
                    replies += self._receive(message, now_s)
            replies += self._advance(now_s)
            self._ledger.set_setting("selector", self._selector.state())
        if any(isinstance(reply, Published) for reply in replies):
            self._ledger.checkpoint()  # what was folded is deleted, and in no file any more
        open_round = self._ledger.open_round()
        return Step(tuple(replies), open_round.deadline_s if open_round else None)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Change ledger and memory together; after a failure memory is read from the ledger."""
        try:
            with self._ledger.transaction():
                yield
        except BaseException:
            self.reload()
            raise

    def _receive(self, message: Message, now_s: float) -> list[Message]:
        action = self._actions.get(type(message))
        if action is None:
            return []
        if storable(message):
            return action(message, now_s)
        if message.worker in self._workers:
            row = self._workers[message.worker]
            self._put(
                replace(row, flag=f"a figure beyond all bounds in its {type(message).__name__}")
            )
        return []

    def erase(self, request: str, owners: Sequence[bytes], now_s: float) -> Step:
        """Ask everybody to forget owners, given by their keyed hashes."""
        with self._transaction():
            self._ledger.put_erasure(request, tuple(owners), now_s)
        order = Erase(job=self.job, worker="", request=request, owners=tuple(owners))
        return Step((order,), None)

    def remove(self, worker: str, now_s: float) -> Step:
        """Take a lost device's part out of the model; if it comes back, it begins anew."""
        if worker not in self._workers:
            raise BadInput(f"no worker called {worker!r}")
        with self._transaction():
            self._put(replace(self._new_life(self._workers[worker], "removed"), heard_s=-1e18))
            self._selector.gone(worker)
        return self.handle((), now_s)

    def _put(self, row: WorkerRow) -> WorkerRow:
        self._workers[row.name] = row
        self._ledger.put_worker(row)
        return row

    def _announced(self, message: Announce, now_s: float) -> list[Message]:
        row, heard_s = self._workers.get(message.worker), now_s
        if row is None:
            row = WorkerRow(message.worker, incarnation=1, journal=message.journal)
        elif message.journal != row.journal:
            if message.incarnation and self._is_alive(row, now_s):
                self._put(replace(row, flag="two journals under one name"))
                return []  # the one that joined last is the worker
            row = replace(self._new_life(row, "lost its journal"), journal=message.journal)
            # it may be an old message: whoever sent it has to be heard of again before long
            heard_s -= self.terms.heard_within_s * 2 / 3
        elif self._is_ahead(message, row):
            incarnation = max(row.incarnation, message.incarnation)
            row = self._new_life(replace(row, incarnation=incarnation), "ledger restored")
        fits = message.schema_digest == self._books.schema_digest and message.protocol == PROTOCOL
        row = self._put(announced(row, message, fits, heard_s))
        replies: list[Message] = []
        if message.incarnation != row.incarnation:
            replies.append(self._welcome(row))
        for request, owners in self._ledger.unanswered(row.name).items():
            order = Erase(job=self.job, worker=row.name, request=request, owners=owners)
            replies.append(order)
        return replies

    def _is_alive(self, row: WorkerRow, now_s: float) -> bool:
        return now_s - row.heard_s < self.terms.heard_within_s

    def _is_ahead(self, message: Announce, row: WorkerRow) -> bool:
        """Whether a worker has receipts that this ledger, come back from a backup, knows not of."""
        if message.incarnation != row.incarnation:
            return message.incarnation > row.incarnation
        return message.receipted > self._ledger.highest(row.name, row.incarnation)

    def _welcome(self, row: WorkerRow) -> Welcome:
        erased = {owner for owners in self._ledger.erasures().values() for owner in owners}
        return Welcome(
            job=self.job,
            worker=row.name,
            incarnation=row.incarnation,
            journal=row.journal,
            erased=tuple(sorted(erased)),
        )

    def _new_life(self, row: WorkerRow, flag: str) -> WorkerRow:
        """Take everything a worker said out of the model; it will say it again."""
        self._books.strike(row.name)
        return replace(row, incarnation=row.incarnation + 1, folded=0, flag=flag)

    def _updated(self, message: Update, now_s: float) -> list[Message]:
        row = self._workers.get(message.worker)
        if row is None:
            return []  # it will announce itself, and send again
        problem = self._books.receive(row, message)
        if problem is not None:
            if problem.fatal:  # a backup came back, or nonsense was said: begin anew
                row = self._new_life(row, problem.reason)
            self._put(replace(row, flag=problem.reason))
            welcome = [self._welcome(row)] if problem.fatal else []
            return [self._refusal(message, problem.reason), *welcome]
        self._note_reply(row, message, now_s)
        return [
            Receipt(
                job=self.job,
                worker=row.name,
                incarnation=message.incarnation,
                sequence=message.sequence,
            )
        ]

    def _refusal(self, message: Update, reason: str) -> Refusal:
        return Refusal(
            job=self.job,
            worker=message.worker,
            incarnation=message.incarnation,
            sequence=message.sequence,
            reason=reason,
        )

    def _note_reply(self, row: WorkerRow, message: Update, now_s: float) -> None:
        """Reward a reply to an assignment, once."""
        if message.round is None:
            return
        if not self._ledger.put_reply(message.round, row.name, now_s):
            return
        self._predictions.observed(row, message)
        self._ledger.set_setting("predictions", self._predictions.state())
        left = max(row.waiting - message.learned, 0)
        self._put(replace(spent(row, message.energy_j, now_s), training=False, waiting=left))
        earned = reward(
            self.terms.rewards,
            elapsed_s=now_s - self._ledger.opened_s(message.round),
            ttl_s=self.terms.ttl_s,
            learned=message.learned,
            energy_j=message.energy_j,
        )
        self._ledger.put_figures(message, earned)
        self._selector.earned(message.round, row.name, earned)

    def _declined(self, message: Declined, now_s: float) -> list[Message]:
        row = self._workers.get(message.worker)
        reason = message.reason or "no reason given"
        if row and self._ledger.put_reply(message.round, row.name, now_s, reason):
            self._put(declined(row))
        return []

    def _withdrawn(self, message: Withdraw, now_s: float) -> list[Message]:  # noqa: ARG002
        row = self._workers.get(message.worker)
        if row is None or message.incarnation != row.incarnation:
            return []
        withdrawn = self._books.withdraw(row, message.sequence)
        return [
            Verdict(
                job=self.job,
                worker=row.name,
                incarnation=message.incarnation,
                sequence=message.sequence,
                withdrawn=withdrawn,
            )
        ]

    def _erased(self, message: Erased, now_s: float) -> list[Message]:  # noqa: ARG002
        if message.request not in self._ledger.erasures():
            return []
        self._ledger.put_answer(message)
        return [ErasedReceipt(job=self.job, worker=message.worker, request=message.request)]

    # -- rounds ---------------------------------------------------------------------------------

    def _advance(self, now_s: float) -> list[Message]:
        open_round = self._ledger.open_round()
        replies: list[Message] = []
        if open_round is not None:
            if now_s < open_round.opened_s:  # the clock jumped back: the round lasts no longer
                open_round = RoundRow(open_round.number, now_s, now_s + self.terms.ttl_s)
                self._ledger.shift_round(open_round)
            reason = self._reason_to_close(open_round, now_s)
            if not reason:
                return []
            replies += self._close(open_round, reason, now_s)
        if not self.finished:
            replies += self._open(now_s)
        if self._ledger.open_round() is None and self._books.anything_ready(self._workers):
            replies += self._settle()  # late updates and erasures count also between rounds
            replies += self._publish(self._ledger.last_round(), self.model.digest(), now_s)
        return replies

    def _reason_to_close(self, row: RoundRow, now_s: float) -> str:
        selected, replied, declined = self._ledger.replies(row.number)
        if selected == declined:
            return "declined"
        if 2 * replied > selected - declined:
            return "majority"
        return "time to live" if now_s >= row.deadline_s else ""

    def _open(self, now_s: float) -> list[Message]:
        number = self._ledger.last_round() + 1
        able = candidates(self._workers, self.terms, now_s, self._predictions)
        enough = len(able) >= self.terms.least_workers
        chosen = self._selector.select(number, able, self.terms.selected) if enough else []
        if not chosen:
            return []
        deadline_s = now_s + self.terms.ttl_s
        self._ledger.put_round(RoundRow(number, now_s, deadline_s), chosen, able=len(able))
        for name in chosen:
            self._predictions.assigned(self._workers[name])
            self._put(replace(self._workers[name], training=True, busy_until_s=deadline_s))
        return [
            Assignment(job=self.job, worker=name, round=number, deadline_s=deadline_s)
            for name in chosen
        ]

    def _close(self, row: RoundRow, reason: str, now_s: float) -> list[Message]:
        before = self._books.total.statistics if self.terms.tolerance else None
        for name, replied_s in self._ledger.selected(row.number).items():
            if replied_s is None:  # it may have worked without a word: that costs charge, too
                silent = self._workers[name]
                self._put(spent(silent, self._predictions.energy_j(silent), now_s))
        replies = self._settle()
        digest = self._books.total.digest()
        self._ledger.close_round(row.number, now_s, reason, digest)
        change = self._books.total.change(before) if before is not None else 1.0
        if self._convergence.closed(change, majority=reason == "majority"):
            self._ledger.set_setting("converged", b"yes")
        self._ledger.set_setting("quiet", str(self._convergence.quiet).encode())
        return replies + self._publish(row.number, digest, now_s)

    def _settle(self) -> list[Message]:
        """Fold what is on record; whoever said what can not be begins a new life."""
        replies: list[Message] = []
        for name, problem in self._books.fold(self._workers):
            worker = self._put(self._new_life(self._workers[name], problem))
            replies.append(self._welcome(worker))
        for name, folded in self._books.folded():
            self._put(replace(self._workers[name], folded=folded))
        return replies

    def _publish(self, number: int, digest: str, now_s: float) -> list[Message]:
        """Publish, unless two versions would then differ by a few erased people only."""
        if not self._releases.may_publish(now_s):
            return []
        self._releases.published()
        version = self._ledger.put_version(number, digest)
        statistics = self._books.total.statistics.to_bytes()
        return [
            Published(
                job=self.job, worker="", version=version, digest=digest, statistics=statistics
            )
        ]
