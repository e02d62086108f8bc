"""The worker: a deterministic state machine from messages to messages; its state is the journal.

Only caches exist outside the journal, so a worker that is killed at any point resumes from its last
commit. Messages are sent after the commit and may be lost or repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

from dealfl.bounds import MAX_NAME, check_id, problem_of
from dealfl.erasure import hash_request, owner_hash
from dealfl.errors import BadInput
from dealfl.escaping import for_terminal
from dealfl.learners import Learner
from dealfl.messages import (
    Assignment,
    Declined,
    Erase,
    ErasedReceipt,
    Message,
    Position,
    Published,
    Receipt,
    Refusal,
    Step,
    Verdict,
    Welcome,
)
from dealfl.worker.device import MIN_BATTERY, Device, DeviceNow, Meter, always
from dealfl.worker.journal import Journal
from dealfl.worker.membership import Membership
from dealfl.worker.models import LocalModel, Recovery
from dealfl.worker.outbox import Outbox
from dealfl.worker.schemes import exact_fraction, find_scheme
from dealfl.worker.tables import State
from dealfl.worker.trainer import Accepted, Trainer

__all__ = ["Worker"]


class Worker:
    """A worker: stores records, trains on assignment, erases on request, and sends the changes.

    Parameters
    ----------
    job, name : str
        Name of the job, and of the worker.
    make : callable
        Returns a new, empty learner of the job.
    journal : Journal
        The worker's store.
    meter : Meter
        Measures or models the cost of training.
    key : bytes
        Secret key for the hashes of owners.
    scheme_name : str
        Name of a scheme in `SCHEMES`.
    forget_fraction : str
        θ, the fraction of the learned records to evict in each training, as a decimal from 0 to 1.
        An assignment can override it.
    announce_every_s, retry_after_s : float
        Maximum time between announcements, and time until a message without a receipt is sent
        again, in seconds.
    validation_share : float
        Share of the records held back for validation, ≥ 0 and < 1; 0 disables recovery from bad
        evictions.
    recovery_tolerance : float
        Loss of validation score, ≥ 0, up to which an eviction stands.
    device : Device, callable or None
        The device, or a function from the time in seconds to it; None can always train.
    min_battery : float
        Lowest battery level at which the worker trains without a charger, from 0 to 1.
    """

    def __init__(
        self,
        job: str,
        name: str,
        make: Callable[[], Learner],
        journal: Journal,
        meter: Meter,
        *,
        key: bytes,
        scheme_name: str = "deal",
        forget_fraction: str = "0.02",
        announce_every_s: float = 60.0,
        retry_after_s: float = 30.0,
        validation_share: float = 0.0,
        recovery_tolerance: float = 0.01,
        device: Device | DeviceNow | None = None,
        min_battery: float = MIN_BATTERY,
    ) -> None:
        self.job, self.name = job, check_id(name)
        self._journal, self._key, self._term = journal, key, journal.claim()
        self._forget_fraction = exact_fraction(forget_fraction)
        self._device, self._min_battery = always(device), min_battery
        empty = make()
        self._outbox = Outbox(journal, job, name, retry_after_s, empty.count_records)
        self._membership = Membership(
            journal, self._outbox, self._device, empty.schema.digest(), announce_every_s
        )
        with journal.transaction(self._term):
            self._membership.begin_session()
        self._recovery = Recovery(
            journal, make, validation_share=validation_share, tolerance=recovery_tolerance
        )
        self._trainer = Trainer(
            journal, make, find_scheme(scheme_name), self._outbox, self._recovery, meter
        )
        self._local = LocalModel(journal, make)
        self._actions: dict[type, Callable[[Any, float], None]] = {
            Welcome: self._receive_welcome,
            Receipt: self._receive_receipt,
            Refusal: self._receive_refusal,
            Verdict: self._receive_verdict,
            Published: self._receive_published,
            Erase: self._receive_erase,
            ErasedReceipt: self._receive_erased_receipt,
        }

    # -- new records ----------------------------------------------------------------------------

    def ingest(
        self, rows: Sequence[tuple[str, bytes]], position: tuple[str, str] | None = None
    ) -> Accepted:
        """Store new records; drop those of erased owners.

        Parameters
        ----------
        rows : sequence of (str, bytes)
            Owner and encoded body of each record.
        position : tuple of (str, str) or None
            Name and value of a setting that is stored with the records, e.g. the position up to
            which a file was read.

        Returns
        -------
        Accepted
            The number of records by outcome.
        """
        with self._journal.transaction(self._term):
            if position is not None:
                self._journal.set_setting(*position)
            return self._trainer.take(
                [(owner_hash(self._key, owner), body) for owner, body in rows]
            )

    # -- messages -------------------------------------------------------------------------------

    def handle(self, messages: Iterable[Message], now_s: float) -> Step:
        """Process messages in one transaction, and return the messages to send.

        Parameters
        ----------
        messages : iterable of Message
            Messages from the server.
        now_s : float
            Current time, in seconds.

        Returns
        -------
        Step
            The messages to send, and the time of the next call if no message arrives before.
        """
        replies: list[Message] = []
        try:
            with self._journal.transaction(self._term):
                for message in messages:
                    if self._is_mine(message):
                        replies += self._receive(message, now_s)
                replies += self._membership.announce(now_s)
                replies += self._outbox.take_due(now_s)
                replies += self._outbox.take_due_answers(now_s)
                wake_at_s = self._membership.wake_at_s
        except BaseException:
            self._recovery.forget_model()  # it may include the changes rolled back
            raise
        self._journal.compact_if_due(now_s)
        return Step(tuple(replies), wake_at_s)

    def reconnect(self) -> None:
        """Announce the worker in the next call: earlier messages may be lost."""
        self._membership.greets = True

    def _receive(self, message: Message, now_s: float) -> list[Message]:
        if isinstance(message, Assignment):
            return self._receive_assignment(message, now_s)
        action = self._actions.get(type(message))
        if action is not None:
            action(message, now_s)
        return []

    def _is_mine(self, message: Message) -> bool:
        """Return whether to process a message; note one that is out of bounds."""
        if type(message) not in self._actions and not isinstance(message, Assignment):
            return False
        if message.job != self.job or message.worker not in ("", self.name):
            return False
        problem = problem_of(message)
        if problem is not None:
            self._journal.set_setting("refused", problem)
        return problem is None

    def _is_own(self, message: Receipt | Verdict) -> bool:
        outbox = self._outbox
        return (message.session, message.incarnation) == (outbox.session, outbox.incarnation)

    def _receive_receipt(self, message: Receipt, now_s: float) -> None:
        if self._is_own(message):
            self._outbox.settle_counted(message.sequence, now_s)

    def _receive_refusal(self, message: Refusal, now_s: float) -> None:  # noqa: ARG002
        """Store the reason; a verdict or a welcome decides about the update."""
        self._journal.set_setting("refused", f"update {message.sequence}: {message.reason}")

    def _receive_verdict(self, message: Verdict, now_s: float) -> None:
        if self._is_own(message):
            outbox = self._outbox
            settle = outbox.settle_withdrawn if message.withdrawn else outbox.settle_counted
            settle(message.sequence, now_s)

    def _receive_published(self, message: Published, now_s: float) -> None:  # noqa: ARG002
        if self._membership.follows(message.epoch):
            self._journal.put_published(message.version, message.statistics, message.digest)

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
            self._trainer.finish_erasure()
            return True
        self._membership.greets = True
        return False

    # -- training -------------------------------------------------------------------------------

    def _receive_assignment(self, message: Assignment, now_s: float) -> list[Message]:
        if not self._membership.follows(message.epoch):
            return []
        if message.round <= int(self._journal.setting("round", "-1")):
            return []  # a repetition
        self._journal.set_setting("round", str(message.round))
        if not self._knows_erased(message.erased):
            return [self._decline(message.round, "erasures are missing")]
        unwilling = self._device(now_s).reason_to_decline(self._min_battery)
        if unwilling:
            return [self._decline(message.round, unwilling)]
        new = self._journal.records(State.WAITING)
        if not new or not self._outbox.incarnation:
            reason = "no waiting examples" if self._outbox.incarnation else "not welcomed yet"
            return [self._decline(message.round, reason)]
        fraction = self._forget_fraction
        if message.forget_fraction is not None:
            try:
                fraction = exact_fraction(message.forget_fraction)
            except BadInput as error:
                return [self._decline(message.round, str(error))]
        self._trainer.train(new, fraction, message.round, now_s)
        return []

    def _decline(self, round_number: int, reason: str) -> Declined:
        return Declined(
            job=self.job,
            worker=self.name,
            epoch=self._outbox.epoch,
            round=round_number,
            reason=for_terminal(reason, MAX_NAME),
        )

    # -- the published model on the device ------------------------------------------------------

    @property
    def model_version(self) -> int:
        """The version of the model that `predict` uses; raises NotLearned before the first."""
        return self._local.version

    def predict(self, features: object) -> NDArray[Any]:
        """Return the predictions of the last published model.

        Parameters
        ----------
        features : array-like
            Rows of features, in the format of the job's learner.

        Returns
        -------
        ndarray
            One prediction per row.

        Raises
        ------
        BadInput
            If the job ranks items: use `recommend`.
        NotLearned
            If no model is published yet.
        """
        return self._local.predict(features)

    def recommend(self, owner: str, k: int = 10) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the best items for an owner whose history is stored here.

        Parameters
        ----------
        owner : str
            The owner.
        k : int
            Maximum number of items.

        Returns
        -------
        tuple of (ndarray, ndarray)
            The items, best first, and their scores.

        Raises
        ------
        BadInput
            If the job predicts targets: use `predict`.
        NotLearned
            If no model is published yet.
        """
        with self._journal.transaction(self._term):
            return self._local.recommend(owner_hash(self._key, owner), k)

    @property
    def level_of_forgetness(self) -> float:
        """The number of records forgotten per record learned, so far."""
        return self._trainer.level_of_forgetness

    # -- erasure --------------------------------------------------------------------------------

    def _receive_erase(self, message: Erase, now_s: float) -> None:
        own = hash_request(message.request, message.owners)
        examples = self._outbox.find_answer(own) if message.request else None
        if examples is None:
            examples = self._trainer.forget_owners(message.owners, now_s)
        self._membership.reach(message.before, message.after)
        if message.request:
            self._trainer.finish_erasure()
            self._outbox.post_answer(own, message.request, examples, now_s)
