"""The worker: a deterministic state machine from messages to messages; its state is the journal.

Only caches exist outside the journal, so a worker that is killed at any point resumes from its last
commit. Messages are sent after the commit and may be lost or repeated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

from dealfl.erasure import owner_hash
from dealfl.errors import NotLearned
from dealfl.learners import Learner
from dealfl.power import Signalled
from dealfl.protocol import Declined, Message, Step, check_id
from dealfl.worker.cost import Meter
from dealfl.worker.device import MIN_BATTERY, Device, DeviceNow, NoSignals, always
from dealfl.worker.holdings import Accepted, Holdings
from dealfl.worker.journal import Journal
from dealfl.worker.membership import Membership
from dealfl.worker.models import LocalModel, Recovery
from dealfl.worker.outbox import Outbox
from dealfl.worker.receiver import Receiver
from dealfl.worker.resident import ResidentModel, WorkerKeys, remove_pages
from dealfl.worker.schemes import exact_fraction, find_scheme
from dealfl.worker.trainer import Trainer

__all__ = ["Worker"]

_DEFAULT = WorkerKeys()


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
    retry_after_s : float
        Time until a message without a receipt is sent again, in seconds.
    announce_every_s : float
        Time after which an announcement is repeated although nothing changed, in seconds; for
        networks that do not notice the end of a connection.
    sleeps : tuple of (int, float) or None
        Number of waiting examples, and time in seconds, after which a worker calls for the first
        time; later the server says so, and the worker closes its connection in between. None for a
        worker that stays connected.
    keys : WorkerKeys
        Whether the worker keeps a live model, in memory or in page files, and whether it reviews
        evictions.
    device : Device, callable or None
        The device, or a function from the time in seconds to it; None can always train.
    min_battery : float
        Lowest battery level at which the worker trains without a charger, from 0 to 1.
    min_examples : int
        Minimum number of new examples in an update; erasures are exempt.
    clock : Signalled or None
        Clock of the device; takes +1 before the worker learns, -1 before it forgets, 0 at the end.
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
        announce_every_s: float = math.inf,
        sleeps: tuple[int, float] | None = None,
        retry_after_s: float = 30.0,
        keys: WorkerKeys = _DEFAULT,
        device: Device | DeviceNow | None = None,
        min_battery: float = MIN_BATTERY,
        clock: Signalled | None = None,
        min_examples: int = 1,
    ) -> None:
        self.job, self.name = job, check_id(name)
        self._journal, self._key, self._term = journal, key, journal.claim()
        remove_pages(journal)
        empty, device_now = make(), always(device)
        self._outbox = Outbox(journal, job, name, retry_after_s, empty.count_records)
        self._membership = Membership(
            journal, self._outbox, device_now, empty.schema.digest(), retry_after_s,
            announce_every_s, sleeps,
        )  # fmt: skip
        self._reconnected, self._retry_after_s = False, retry_after_s
        with journal.transaction(self._term):
            self._membership.begin_session()
        recovery = Recovery(
            journal, validation_share=keys.validation_share, tolerance=keys.recovery_tolerance
        )
        resident = None
        if keys.is_resident:
            resident = ResidentModel(journal, make, keys.memory)
        clock, scheme, self._resident = clock or NoSignals(), find_scheme(scheme_name), resident
        self._trainer = Trainer(
            journal, empty, scheme, self._outbox, recovery, meter, clock, resident
        )
        self._holdings = Holdings(
            journal, empty, self._outbox, recovery, meter, self._trainer, key, clock, resident
        )
        with journal.transaction(self._term):
            self._holdings.open()
        self._local = LocalModel(journal, make, resident)
        self._receiver = Receiver(
            job,
            name,
            journal,
            self._outbox,
            self._membership,
            self._trainer,
            self._holdings,
            exact_fraction(forget_fraction),
            min_examples,
            self._local,
            lambda now_s: device_now(now_s).reason_to_decline(min_battery),
        )

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
            hashes = {owner: owner_hash(self._key, owner) for owner in {owner for owner, _ in rows}}
            return self._holdings.take([(hashes[owner], body) for owner, body in rows])

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
        with self._journal.transaction(self._term):
            for message in messages:
                replies += self._receiver.receive(message, now_s)
            if self._reconnected:
                self._outbox.repeat(now_s)
                self._reconnected = False
            unable = self._receiver.is_unable(now_s)
            announced = self._membership.announce(now_s)
            if announced and not any(isinstance(reply, Declined) for reply in replies):
                replies += self._receiver.repeat_decline()
            replies += announced
            replies += self._outbox.take_due(now_s)
            replies += self._outbox.take_due_answers(now_s)
            wake_at_s = self._membership.wake_at_s
            if unable:
                wake_at_s = min(wake_at_s or math.inf, now_s + self._retry_after_s)
        self._journal.compact_if_due(now_s)
        return Step(tuple(replies), wake_at_s)

    def reconnect(self) -> None:
        """Announce the worker in the next call and repeat what has no receipt: it may be lost."""
        self._membership.greets = self._reconnected = True

    @property
    def is_asleep(self) -> bool:
        """Whether the worker needs no connection until it calls."""
        return self._membership.is_asleep

    # -- models on the device: its own, and the published one -----------------------------------

    @property
    def own_model(self) -> Learner:
        """The live model of what this worker holds; raises NotLearned if it keeps none."""
        if self._resident is None:
            raise NotLearned(
                'this worker keeps no model of its own; set model = "resident" in [worker]'
            )
        return self._resident.learner

    @property
    def model_version(self) -> int:
        """The version of the model that `predict` uses; 0 before the first is fetched."""
        return self._local.version

    def note_use(self, owner: str) -> None:
        """Count what a prediction for an owner reads as used now; θ evicts it later.

        Parameters
        ----------
        owner : str
            The owner. Its examples count as used, or the neighbours that a live model finds.
        """
        with self._journal.transaction(self._term):
            self._local.note_use(owner_hash(self._key, owner))

    def predict(self, features: object, owner: str = "", *, own: bool = False) -> NDArray[Any]:
        """Return the predictions of the last published model, or of the worker's own.

        Parameters
        ----------
        features : array-like
            Rows of features, in the format of the job's learner.
        owner : str
            Owner who asks; its examples count as used, or the neighbours that a live model finds.
        own : bool
            Whether the live model of what this worker holds predicts.

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
        predicted = self._local.predict(features, self.own_model if own else None)
        if owner:
            with self._journal.transaction(self._term):
                self._local.note_use(owner_hash(self._key, owner), features)
        return predicted

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
