"""What each kind of message changes on a worker, and its answers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dealfl.erasure import hash_request
from dealfl.errors import BadInput
from dealfl.escaping import for_terminal
from dealfl.protocol import (
    MAX_NAME,
    Assignment,
    Declined,
    Erase,
    ErasedReceipt,
    Message,
    Position,
    Published,
    Receipt,
    Refusal,
    Sleep,
    Verdict,
    Welcome,
    problem_of,
)
from dealfl.worker.holdings import Holdings
from dealfl.worker.journal import Journal
from dealfl.worker.membership import Membership
from dealfl.worker.models import LocalModel
from dealfl.worker.outbox import Outbox
from dealfl.worker.schemes import exact_fraction
from dealfl.worker.tables import State
from dealfl.worker.trainer import Trainer


class Receiver:
    """Applies the messages of the server to the worker's state, within its transaction."""

    def __init__(
        self,
        job: str,
        name: str,
        journal: Journal,
        outbox: Outbox,
        membership: Membership,
        trainer: Trainer,
        holdings: Holdings,
        forget_fraction: Fraction,
        min_examples: int,
        model: LocalModel,
        reason_to_decline: Callable[[float], str],
    ) -> None:
        self._job, self._name, self._journal, self._outbox = job, name, journal, outbox
        self._membership, self._trainer, self._holdings = membership, trainer, holdings
        self._forget_fraction, self._min_examples = forget_fraction, min_examples
        self._model, self._reason_to_decline = model, reason_to_decline
        self._actions: dict[type, Callable[[Any, float], Declined | None]] = {
            Welcome: self._receive_welcome,
            Receipt: self._receive_receipt,
            Refusal: self._receive_refusal,
            Verdict: self._receive_verdict,
            Published: self._receive_published,
            Assignment: self._receive_assignment,
            Erase: self._receive_erase,
            ErasedReceipt: self._receive_erased_receipt,
            Sleep: membership.sleep,
        }

    def receive(self, message: Message, now_s: float) -> list[Message]:
        """Apply a message for this worker; note one that is out of bounds."""
        action = self._actions.get(type(message))
        if action is None or message.job != self._job or message.worker not in ("", self._name):
            return []
        problem = problem_of(message)
        if problem is not None:
            self._journal.set_setting("refused", problem)
            return []
        declined = action(message, now_s)
        return [] if declined is None else [declined]

    def _is_own(self, message: Receipt | Verdict) -> bool:
        outbox = self._outbox
        return (message.session, message.incarnation) == (outbox.session, outbox.incarnation)

    def _receive_receipt(self, message: Receipt, now_s: float) -> None:
        if self._is_own(message):
            self._outbox.note_term(message.sequence, message.term)
            self._outbox.settle_counted(message.sequence, now_s)
            self._membership.note_settled()

    def _receive_refusal(self, message: Refusal, now_s: float) -> None:  # noqa: ARG002
        """Store the reason; a verdict or a welcome decides about the update."""
        self._journal.set_setting("refused", f"update {message.sequence}: {message.reason}")

    def _receive_verdict(self, message: Verdict, now_s: float) -> None:
        if self._is_own(message):
            outbox = self._outbox
            outbox.note_term(message.sequence, message.term)
            settle = outbox.settle_withdrawn if message.withdrawn else outbox.settle_counted
            settle(message.sequence, now_s)
            self._membership.note_settled()

    def _receive_published(self, message: Published, now_s: float) -> None:  # noqa: ARG002
        if self._membership.follows(message.epoch):
            self._model.store(message)

    def _receive_erased_receipt(self, message: ErasedReceipt, now_s: float) -> None:  # noqa: ARG002
        self._outbox.settle_answer(message.hash)

    def _receive_welcome(self, message: Welcome, now_s: float) -> None:
        if message.journal_id != self._journal.id:
            return
        if message.session > self._outbox.session:  # this journal is older than the server's record
            self._membership.begin_session(message.session)
        if message.session != self._outbox.session:
            return
        self._membership.enter(message.epoch)
        if message.incarnation > self._outbox.incarnation and self._knows_erased(message.erased):
            self._outbox.restart(message.incarnation)
            self._trainer.post_full_sum(now_s)

    def _knows_erased(self, end: Position) -> bool:
        """Return whether the worker has forgotten everyone; if not, ask for what it lacks."""
        if self._membership.has_reached(end):
            self._holdings.finish_erasure()
            return True
        self._membership.greets = True
        return False

    def _receive_assignment(self, message: Assignment, now_s: float) -> Declined | None:
        if not self._membership.follows(message.epoch):
            return None
        if message.round <= int(self._journal.setting("round", "-1")):
            return None  # a repetition
        self._journal.set_setting("round", str(message.round))
        self._journal.set_setting("declined", "")
        if not self._knows_erased(message.erased):
            return self._decline(message.round, "erasures are missing")
        unwilling = self._reason_to_decline(now_s)
        self._journal.set_setting("unable", unwilling)
        if unwilling:
            return self._decline(message.round, unwilling)
        new = self._journal.records(State.WAITING)
        if len(new) < self._min_examples or not self._outbox.incarnation:
            reason = "too few waiting examples" if new else "no waiting examples"
            reason = reason if self._outbox.incarnation else "not welcomed yet"
            return self._decline(message.round, reason)
        fraction = self._forget_fraction
        if message.forget_fraction is not None:
            try:
                fraction = exact_fraction(message.forget_fraction)
            except BadInput as error:
                return self._decline(message.round, str(error))
            self._journal.set_setting("theta", str(fraction))
        self._trainer.train(new, fraction, message.round, now_s)
        return None

    def repeat_decline(self) -> list[Message]:
        """Return the answer to the last assignment, if it was declined: it may have been lost."""
        reason = self._journal.setting("declined", "")
        return [self._decline(int(self._journal.setting("round", "0")), reason)] if reason else []

    def is_unable(self, now_s: float) -> bool:
        """Return whether the device cannot train; announce the worker when it can again."""
        unable = bool(self._journal.setting("unable", ""))
        if unable and not self._reason_to_decline(now_s):
            self._journal.set_setting("unable", "")
            self._membership.greets = True
            return False
        return unable

    def _decline(self, round_number: int, reason: str) -> Declined:
        self._journal.set_setting("declined", reason)
        return Declined(
            job=self._job,
            worker=self._name,
            epoch=self._outbox.epoch,
            round=round_number,
            reason=for_terminal(reason, MAX_NAME),
        )

    def _receive_erase(self, message: Erase, now_s: float) -> None:
        own = hash_request(message.request, message.owners)
        examples = self._outbox.find_answer(own) if message.request else None
        if examples is None:
            examples = self._holdings.apply_request(message.owners, now_s)
        self._membership.reach(message.before, message.after)
        if message.request:
            self._holdings.finish_erasure()
            self._outbox.post_answer(own, message.request, examples, now_s)
