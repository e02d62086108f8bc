"""The worker: a deterministic state machine from messages to messages; its state is the journal.

Only caches exist outside the journal, so a worker that is killed at any point resumes from its last
commit. Messages are sent after the commit and may be lost or repeated.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from numpy.typing import NDArray

from dealfl.erasure import hash_request, owner_hash
from dealfl.errors import BadInput, NotLearned
from dealfl.escaping import for_terminal
from dealfl.learners import Learner
from dealfl.masks import Masker
from dealfl.power import Signalled
from dealfl.protocol import (
    MAX_NAME,
    Announce,
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
    Step,
    Verdict,
    Welcome,
    bounded,
    check_id,
    problem_of,
)
from dealfl.worker.device import MIN_BATTERY, Device, DeviceNow, Meter, NoSignals, always
from dealfl.worker.journal import Call, Journal, State
from dealfl.worker.models import LocalModel, Recovery, ResidentModel, WorkerKeys, remove_pages
from dealfl.worker.outbox import Masking, Outbox, UnderMasks, Unmasked
from dealfl.worker.schemes import exact_fraction, find_scheme
from dealfl.worker.trainer import Accepted, Trainer

_DEFAULT = WorkerKeys()
_LATE_S = 60.0  # after which a worker that should have called was away
_RANDOM_BITS = 31  # of a session: two processes that continue one journal differ
_MAX_SESSION = 1 << 52  # of a journal: two million processes, and messages have room for more


class Membership:
    """Follows the server's epoch and list of erasures; announces the worker.

    Round and version are numbers in an epoch. A welcome, which answers an announcement, brings a
    new epoch and resets both; rounds and versions of other epochs mean nothing.
    """

    def __init__(
        self,
        journal: Journal,
        outbox: Outbox,
        device: DeviceNow,
        schema_digest: str,
        retry_after_s: float,
        announce_every_s: float,
        sleeps: Sleep | None,
        enough: int,
        min_examples: int,
        notices_traffic: bool,
    ) -> None:
        self._journal = journal
        self._outbox = outbox
        self.device = device
        self._schema_digest = schema_digest
        self._retry_after_s = retry_after_s
        self._announce_every_s = announce_every_s
        self._sleeps = sleeps is not None
        self._first_sleep = sleeps
        self._enough = enough
        self._min_examples = min_examples
        self._notices_traffic = notices_traffic
        self.must_announce = False  # whether the next call announces the worker in any case
        self._named: tuple[Position, ...] = ()  # to announce beside the last ones reached
        self.rides = False  # whether other traffic had the radio on when it called

    def begin_session(self, after: int = 0) -> None:
        """Draw a number for this process above earlier ones; answers to those mean nothing."""
        state = self._journal.state
        started = max(state.session, after) >> _RANDOM_BITS
        state.session = (started + 1 << _RANDOM_BITS) + secrets.randbits(_RANDOM_BITS)

    def enter(self, epoch: str) -> None:
        """Follow the epoch in a welcome; a new one resets round and version."""
        state = self._journal.state
        if epoch != state.epoch:
            state.epoch = epoch
            state.round = 0
            self._journal.reset_published()

    def follows(self, epoch: str) -> bool:
        """Return whether a message belongs to the worker's epoch; if not, announce the worker."""
        is_own = epoch == self._journal.state.epoch
        self.must_announce |= not is_own
        return is_own

    # -- announcements --------------------------------------------------------------------------

    def note_settled(self, now_s: float) -> None:
        """Announce what waits after an update is settled.

        The server subtracts what an update learned from the number that was announced, also if that
        was announced after the update was made. Repeated announcements correct it in any case.
        A worker that sleeps announces itself unless the server sends it to sleep at once.
        """
        if not self._sleeps:
            self._journal.state.settled_s = now_s
        if self._announce_every_s == math.inf:
            self.must_announce |= self._sleeps or self._journal.count(State.WAITING) > 0

    # -- sleeping -------------------------------------------------------------------------------

    def sleep(self, message: Sleep, now_s: float) -> None:
        """Sleep as the server says, as soon as nothing is under way."""
        state = self._journal.state
        state.settled_s = now_s
        if self._sleeps:
            state.call = self._expect_call(message, now_s)
            state.is_calling = False
            self.must_announce = self.rides = False

    @property
    def is_asleep(self) -> bool:
        """Whether the worker has closed its connection until it calls."""
        return self._call is not None and self._outbox.is_settled

    @property
    def waits_for_ride(self) -> bool:
        """Whether the worker rides, and nothing is under way."""
        call = self._journal.state.call
        return call is not None and call.ride_s > 0 and self._outbox.is_settled

    @property
    def _call(self) -> Call | None:
        state = self._journal.state
        return state.call if self._sleeps and not state.is_calling else None

    def announce_place(self, position: Position) -> None:
        """Announce a position that was reached: it can be the end of a ledger that was restored."""
        if position not in self._journal.reached:
            self._named = (position,)
            self.must_announce = True

    def _call_if_due(self, waiting: int, now_s: float) -> None:
        """Wake up if enough examples wait, if it is time, or if the clock jumped back."""
        state = self._journal.state
        if self._first_sleep is not None and state.settled_s is None:  # it never called
            state.call = self._expect_call(self._first_sleep, now_s)
            state.settled_s = now_s
        call = self._call
        if call is not None:
            is_enough = waiting >= max(call.waiting, 1)
            is_late = self._notices_traffic and now_s > _call_at_s(call) + _LATE_S
            if is_enough and (call.enough_s is None or is_late):  # it was away
                call = state.call = msgspec.structs.replace(call, enough_s=now_s)
            has_waited = is_enough and now_s >= _call_at_s(call)
            is_time = not call.since_s <= now_s < call.until_s
            if has_waited or is_time or self.must_announce or self.can_ride(now_s):
                state.is_calling = True
                self.must_announce = True

    def _expect_call(self, sleep: Sleep, now_s: float) -> Call:
        """Return when to call; who does not notice other traffic does not wait for a ride."""
        until_s = now_s + sleep.within_s
        if not self._notices_traffic:
            return Call(sleep.waiting, now_s, until_s)
        any_from_s = now_s + sleep.ride_any_s if sleep.ride_any_s else math.inf
        return Call(sleep.waiting, now_s, until_s, sleep.ride_s, any_from_s)

    def note_disconnect(self) -> None:
        """Sleep again until the next ride, if the connection of a worker that rides is lost."""
        if self.waits_for_ride:
            self._journal.state.is_calling = False
            self.must_announce = self.rides = False

    def can_ride(self, now_s: float) -> bool:
        """Return whether other traffic is there, and a sleeping worker waits for it."""
        return self.rides and self.wants_ride(now_s)

    def wants_ride(self, now_s: float) -> bool:
        """Return whether a call of a sleeping worker is worth it when other traffic is there."""
        return now_s >= self.ride_from_s

    @property
    def ride_from_s(self) -> float:
        """When a ride is worth a call of a sleeping worker that gets no more examples."""
        call = self._call
        if call is None or not call.ride_s:
            return math.inf
        waiting = self._journal.count(State.WAITING)
        if waiting >= max(call.waiting, 1):
            return -math.inf
        few_from_s = (call.any_from_s + call.until_s) / 2.0  # such a call only asks for news
        return min(call.any_from_s, few_from_s) if waiting >= self._min_examples else few_from_s

    def _per_hour(self, waiting: int, now_s: float) -> float:
        settled_s = self._journal.state.settled_s
        if settled_s is None or settled_s >= now_s:
            return 0.0
        return bounded(3600.0 * waiting / (now_s - settled_s))

    def announce(self, now_s: float) -> list[Message]:
        """Return an announcement if one is due."""
        state = self._journal.state
        waiting = self._journal.count(State.WAITING)
        self._call_if_due(waiting, now_s)
        if self.is_asleep:
            return []
        reached = self._journal.reached
        chain = reached[0].chain.hex() if reached else ""
        # whether any wait, enough for an update, and for a round: more is not worth a burst
        steps = (1, self._min_examples, self._enough)
        amount = sum(waiting >= step for step in steps)
        announced = (amount, state.incarnation, state.epoch, state.session, chain)
        # a clock that jumped back must not silence a worker for long
        last_s = -math.inf if state.announced_s is None else state.announced_s
        is_recent = last_s <= now_s < last_s + self._every_s
        if announced == state.announced and not self.must_announce and is_recent:
            return []
        self.must_announce, self._named, named = False, (), self._named
        state.announced_s = now_s
        state.announced = announced
        device = self.device(now_s)
        version, digest = self._journal.published_version()
        return [
            Announce(
                job=self._outbox.job,
                worker=self._outbox.worker,
                epoch=state.epoch,
                session=state.session,
                incarnation=state.incarnation,
                journal_id=state.journal_id,
                receipted=self._outbox.receipted,
                sequence=state.sequence,
                terms=state.terms,
                withdrawn=state.withdrawn,
                round=max(state.round, 0),
                version=version,
                digest=digest if version else "",
                erased=tuple(sorted({*reached, *named}, reverse=True)),
                schema_digest=self._schema_digest,
                waiting=waiting,
                held=self._journal.count(State.LEARNED),
                device=for_terminal(device.name, MAX_NAME),
                battery=min(bounded(device.battery), 1.0),
                charging=device.charging,
                capacity_j=bounded(device.capacity_j),
                sleeps=self._sleeps,
                per_hour=self._per_hour(waiting, now_s),
                rides=self.rides,
                training=self._outbox.is_training,
            )
        ]

    @property
    def _every_s(self) -> float:
        """Time after which an announcement is repeated; without a welcome, it may be lost."""
        welcomed = self._journal.state.incarnation and self._journal.state.epoch
        lost_s = math.inf if welcomed else self._retry_after_s
        return lost_s if self._announce_every_s == math.inf else self._announce_every_s

    @property
    def wake_at_s(self) -> float | None:
        """When the next message is due, if none arrives before; None for never."""
        call = self._call
        announced_s = self._journal.state.announced_s or 0.0
        announce_s = announced_s + self._every_s if call is None else _call_at_s(call)
        send_s = self._journal.next_send_s()
        due_s = announce_s if send_s is None else min(announce_s, send_s)
        return None if due_s == math.inf else due_s


def _call_at_s(call: Call) -> float:
    """Return when a sleeping worker calls without a ride."""
    if call.enough_s is None:
        return call.until_s
    return min(call.until_s, call.enough_s + call.ride_s)


class Identity(NamedTuple):
    """What a worker of a fleet has for itself."""

    name: str
    meter: Meter
    device: DeviceNow
    clock: Signalled
    min_battery: float
    secret: bytes  # draws the records held back
    masker: Masker | None = None


class Hibernated(msgspec.Struct, array_like=True):
    """What remains of a worker of a simulation while another uses its memory.

    An open journal, a learner and the parts of a worker take about 350 KB. What differs between two
    workers of a fleet are the rows of the journal, a name, a device and a few flags: some hundred
    bytes and the examples. The live model of a resident worker stays in memory: if it were built
    again, it would swap other pages, and cost another energy.
    """

    rows: bytes  # of its journal
    term: int
    must_announce: bool
    reconnected: bool
    rides: bool

    # as the rows say
    is_calling: bool
    waits_for_ride: bool
    is_asleep: bool
    ride_from_s: float
    waiting: int  # examples
    version: int  # of the published model
    next_send_s: float | None
    has_outgoing: bool


class Worker:
    """A worker: stores records, trains on assignment, erases on request, and sends the changes."""

    def __init__(
        self,
        job: str,
        name: str,
        make: Callable[[], Learner],  # a new, empty learner of the job
        journal: Journal,
        meter: Meter,
        *,
        key: bytes,  # secret, for the hashes of owners
        secret: bytes = b"",  # draws the records held back; by default from the key and the name
        scheme_name: str = "deal",
        forget_fraction: str = "0.02",  # θ, a decimal from 0 to 1; an assignment can override it
        announce_every_s: float = math.inf,  # where the end of a connection is not noticed
        sleeps: Sleep | None = None,  # until the first call
        retry_after_s: float = 30.0,  # a message without a receipt
        keys: WorkerKeys = _DEFAULT,
        device: Device | DeviceNow | None = None,  # None can always train
        min_battery: float = MIN_BATTERY,  # to train without a charger
        clock: Signalled | None = None,
        min_examples: int = 1,  # new ones in an update; erasures are exempt
        enough: int = 1,  # waiting examples that are worth a round
        notices_traffic: bool = False,  # other traffic of the phone, by `note_traffic`
        continues: str = "",  # `trace` of the process before, kept outside the journal
        masker: Masker | None = None,  # None: the server sees every update
    ) -> None:
        self.job = job
        self.name = check_id(name)
        self._journal = journal
        self._key = key
        self._keys = keys
        self._make = make
        self._term = journal.claim()
        self._retry_after_s = retry_after_s
        self._device = always(device)
        self._min_battery = min_battery
        self._min_examples = min_examples
        self._reconnected = False
        remove_pages(journal)
        empty = make()
        self._schema = empty.schema
        masking = self._find_masking(masker)
        self._outbox = Outbox(journal, job, name, retry_after_s, empty.count_records, masking)
        self._membership = Membership(
            journal,
            self._outbox,
            self._device,
            empty.schema.digest(),
            retry_after_s,
            announce_every_s,
            sleeps,
            enough,
            min_examples,
            notices_traffic,
        )
        self._resident = self._make_resident()
        self._model = LocalModel(journal, make, self._resident)
        self._recovery = Recovery(
            journal,
            secret=secret or owner_hash(key, name),
            validation_share=keys.validation_share,
            tolerance=keys.recovery_tolerance,
        )
        self._trainer = Trainer(
            journal,
            empty,
            find_scheme(scheme_name),
            self._outbox,
            self._recovery,
            meter,
            clock or NoSignals(),
            self._resident,
            key,
            tests_drift=keys.drift,
        )
        if journal.state.keyholder != masking.key_name:
            self._change_key(masking.key_name)
        with journal.transaction(self._term):
            if continues != self._trace(self._term - 1):  # else nobody has written in between
                self._membership.begin_session()
            self._trainer.require_schema()
        self._forget_fraction = exact_fraction(forget_fraction)
        self._actions: dict[type, Callable[[Any, float], Declined | None]] = {
            Welcome: self._receive_welcome,
            Receipt: self._receive_receipt,
            Refusal: self._receive_refusal,
            Verdict: self._receive_verdict,
            Published: self._receive_published,
            Assignment: self._receive_assignment,
            Erase: self._receive_erase,
            ErasedReceipt: self._receive_erased_receipt,
            Sleep: self._membership.sleep,
        }

    def _change_key(self, name: str) -> None:
        """Drop the updates for another keyholder's key; the server will ask for the full sum.

        Masks are never switched off: the server could do that by its job file.
        """
        if not name:
            raise BadInput(
                f"{self._journal.kind} {self._journal.path} is that of a job with private sums; "
                "this job has no section [privacy], and would show its full sum. If you want that, "
                "begin with a new journal"
            )
        with self._journal.transaction(self._term):
            self._outbox.restart(0)
            self._journal.state.keyholder = name

    def _find_masking(self, masker: Masker | None) -> Masking:
        return UnderMasks(masker, self._schema) if masker is not None else Unmasked()

    def _make_resident(self) -> ResidentModel | None:
        """Return the live model of this worker, if it keeps one."""
        if not self._keys.is_resident:
            return None
        return ResidentModel(self._journal, self._make, self._keys.memory)

    # -- one object for many workers of a simulation ----------------------------------------------

    def begin(self, identity: Identity, journal_id: str) -> None:
        """Become a new worker with an empty journal."""
        self._journal.begin(journal_id)
        self._become(identity, self._make_resident())
        self._term = self._journal.claim()
        with self._journal.transaction(self._term):
            self._journal.state.keyholder = self._outbox.masking.key_name
            self._membership.begin_session()
            self._trainer.require_schema()

    def hibernate(self) -> Hibernated:
        """Return what `wake` needs to be this worker again, and what others may ask meanwhile."""
        journal, membership = self._journal, self._membership
        return Hibernated(
            rows=journal.rows(),
            term=self._term,
            must_announce=membership.must_announce,
            reconnected=self._reconnected,
            rides=membership.rides,
            is_calling=journal.state.is_calling,
            waits_for_ride=membership.waits_for_ride,
            is_asleep=membership.is_asleep,
            ride_from_s=membership.ride_from_s,
            waiting=journal.count(State.WAITING),
            version=self.model_version,
            next_send_s=journal.next_send_s(),
            has_outgoing=bool(journal.outgoing),
        )

    def wake(
        self, identity: Identity, state: Hibernated, resident: ResidentModel | None = None
    ) -> None:
        """Become a worker that hibernated, and had a live model."""
        self._journal.replace_rows(state.rows)
        self._become(identity, resident or self._make_resident())
        self._term = state.term
        self._reconnected = state.reconnected
        self._membership.must_announce = state.must_announce
        self._membership.rides = state.rides

    def _become(self, identity: Identity, resident: ResidentModel | None) -> None:
        self.name = self._outbox.worker = identity.name
        self._outbox.masking = self._find_masking(identity.masker)
        self._device = self._membership.device = identity.device
        self._min_battery = identity.min_battery
        self._reconnected = self._membership.must_announce = self._membership.rides = False
        self._recovery.restart(identity.secret)
        if resident is not None:
            resident.journal = self._journal
        self._resident = resident
        self._model.restart(resident)
        self._trainer.meter = identity.meter
        self._trainer.clock = identity.clock
        self._trainer.resident = resident

    # -- new records ----------------------------------------------------------------------------

    def ingest(
        self, rows: Sequence[tuple[str, bytes]], position: tuple[int, bytes] | None = None
    ) -> Accepted:
        """Store new records (owner, body), and the position up to which their source was read."""
        with self._journal.transaction(self._term):
            if position is not None:
                self._journal.set_position(*position)
            hashes = {owner: owner_hash(self._key, owner) for owner in {owner for owner, _ in rows}}
            return self._trainer.take([(hashes[owner], body) for owner, body in rows])

    # -- messages -------------------------------------------------------------------------------

    def handle(self, messages: Iterable[Message], now_s: float, *, decoded: bool = False) -> Step:
        """Process messages in one transaction; return the messages to send, and the next time.

        Decoding has checked the bounds of messages that came as bytes.
        """
        flags = (self._membership.must_announce, self._reconnected)
        try:
            with self._journal.transaction(self._term):
                step = self._process(messages, now_s, decoded)
        except BaseException:  # announce the worker and repeat messages in a later call
            self._membership.must_announce, self._reconnected = flags
            raise
        self._journal.compact_if_due(now_s)
        return step

    def _process(self, messages: Iterable[Message], now_s: float, decoded: bool) -> Step:
        replies: list[Message] = []
        for message in messages:
            declined = self._receive(message, now_s, decoded)
            if declined is not None:
                replies.append(declined)
        if self._reconnected:
            self._outbox.repeat(now_s)
            self._reconnected = False
        unable = self._is_unable(now_s)
        announced = self._membership.announce(now_s)
        state = self._journal.state
        if announced and state.declined and not replies:  # the answer may have been lost
            replies.append(self._decline(state.round, state.declined))
        # first the answers: the server sends what the announcement does not cover
        replies += self._outbox.take_due_answers(now_s)
        replies += announced
        replies += self._outbox.take_due(now_s)
        wake_at_s = self._membership.wake_at_s
        if unable:
            wake_at_s = min(wake_at_s or math.inf, now_s + self._retry_after_s)
        return Step(tuple(replies), wake_at_s)

    def reconnect(self) -> None:
        """Announce the worker in the next call and repeat what has no receipt: it may be lost."""
        self._membership.must_announce = self._reconnected = True

    @property
    def journal(self) -> Journal:
        """The journal of the worker."""
        return self._journal

    @property
    def resident(self) -> ResidentModel | None:
        """The live model of a resident worker."""
        return self._resident

    @property
    def trace(self) -> str:
        """What a later process needs to continue the session; a restored journal has another."""
        return self._trace(self._term)

    def _trace(self, term: int) -> str:
        return f"{self._journal.id} {self._journal.state.session} {term}"

    @property
    def is_asleep(self) -> bool:
        """Whether the worker needs no connection until it calls."""
        return self._membership.is_asleep

    def note_disconnect(self) -> None:
        """Note that the connection was lost; a worker that rides along waits for the next ride."""
        with self._journal.transaction(self._term):
            self._membership.note_disconnect()

    def wants_ride(self, now_s: float) -> bool:
        """Return whether the worker sleeps and would call if other traffic had the radio on."""
        return self._membership.wants_ride(now_s)

    def note_traffic(self, is_on: bool, now_s: float) -> bool:
        """Note whether other traffic has the radio on; return whether a call now is worth it."""
        self._membership.rides = is_on
        return self._membership.can_ride(now_s)

    def _receive(self, message: Message, now_s: float, decoded: bool) -> Declined | None:
        """Apply a message for this worker; note one that is out of bounds."""
        action = self._actions.get(type(message))
        if action is None or message.job != self.job or message.worker not in ("", self.name):
            return None
        problem = None if decoded else problem_of(message)
        if problem is not None:
            self._journal.state.refused = problem
            return None
        return action(message, now_s)

    def _is_own(self, message: Receipt | Verdict) -> bool:
        state = self._journal.state
        return (message.session, message.incarnation) == (state.session, state.incarnation)

    def _receive_receipt(self, message: Receipt | Verdict, now_s: float) -> None:
        row = self._journal.outgoing.get(message.sequence)
        if isinstance(message, Receipt) and row is not None and row.withdrawing:
            return  # it may be from a ledger that was lost; the verdict is about the present one
        if self._is_own(message):
            self._outbox.note_term(message.sequence, message.term)
            self._outbox.settle_counted(message.sequence, now_s)
            self._membership.note_settled(now_s)

    def _receive_refusal(self, message: Refusal, now_s: float) -> None:  # noqa: ARG002
        """Store the reason; a verdict or a welcome decides about the update."""
        self._journal.state.refused = f"update {message.sequence}: {message.reason}"

    def _receive_verdict(self, message: Verdict, now_s: float) -> None:
        if not message.withdrawn:
            self._receive_receipt(message, now_s)
        elif self._is_own(message):
            self._outbox.note_term(message.sequence, message.term)
            self._outbox.settle_withdrawn(message.sequence, now_s)
            self._membership.note_settled(now_s)

    def _receive_published(self, message: Published, now_s: float) -> None:  # noqa: ARG002
        if self._membership.follows(message.epoch):
            self._model.store(message)

    def _receive_erased_receipt(self, message: ErasedReceipt, now_s: float) -> None:  # noqa: ARG002
        self._outbox.settle_answer(message.hash)

    def _receive_welcome(self, message: Welcome, now_s: float) -> None:
        state = self._journal.state
        if message.journal_id != state.journal_id:
            return
        if state.session < message.session < _MAX_SESSION:  # the server knows a later journal
            self._membership.begin_session(message.session)
        if message.session != state.session:
            return
        self._membership.enter(message.epoch)
        if message.incarnation > state.incarnation and self._knows_erased(message.erased):
            self._outbox.restart(message.incarnation)
            if message.incarnation > 1 or self._journal.count(State.LEARNED):
                state.fresh_after = self._journal.last_id()  # a lost history may have sent them
            self._trainer.post_full_sum(now_s)

    def _knows_erased(self, end: Position) -> bool:
        """Return whether the worker has forgotten everyone; if not, ask for what it lacks."""
        if self._journal.has_reached(end):
            self._trainer.finish_erasure()
            return True
        self._membership.must_announce = True
        return False

    def _receive_assignment(self, message: Assignment, now_s: float) -> Declined | None:
        if not self._membership.follows(message.epoch):
            return None
        state = self._journal.state
        if message.round <= state.round:
            return None  # a repetition
        state.round = message.round
        state.declined = ""
        if not self._knows_erased(message.erased):
            return self._decline(message.round, "erasures are missing")
        state.unable = self._reason_to_decline(now_s)
        new = self._journal.waiting()
        reason = state.unable or self._reason_to_wait(len(new))
        if reason:
            return self._decline(message.round, reason)
        fraction = self._forget_fraction
        if message.forget_fraction is not None:
            try:
                fraction = exact_fraction(message.forget_fraction)
            except BadInput as error:
                return self._decline(message.round, str(error))
            state.theta = fraction
        rides = self._membership.rides
        self._trainer.train(
            new, fraction, message.round, now_s, rides=rides, others_alarmed=message.others_alarmed
        )
        return None

    def _reason_to_decline(self, now_s: float) -> str:
        return self._device(now_s).reason_to_decline(self._min_battery)

    def _reason_to_wait(self, waiting: int) -> str:
        if not self._journal.state.incarnation:
            return "not welcomed yet"
        if waiting < self._min_examples:
            return "too few waiting examples" if waiting else "no waiting examples"
        return ""

    def _is_unable(self, now_s: float) -> bool:
        """Return whether the device cannot train; announce the worker when it can again."""
        state = self._journal.state
        if state.unable and not self._reason_to_decline(now_s):
            state.unable = ""
            self._membership.must_announce = True
        return bool(state.unable)

    def _decline(self, round_number: int, reason: str) -> Declined:
        state = self._journal.state
        state.declined = reason
        return Declined(
            job=self.job,
            worker=self.name,
            epoch=state.epoch,
            round=round_number,
            reason=for_terminal(reason, MAX_NAME),
        )

    def _receive_erase(self, message: Erase, now_s: float) -> None:
        """Apply a request or a part of the list, in the order of the list and once."""
        before, after = message.before, message.after
        is_known = after.number > 0 and self._journal.has_reached(after)
        is_next = not after.number or (before != after and self._journal.has_reached(before))
        if not message.worker and (is_known or not is_next):
            # new to a server whose ledger was restored, or too early: it sends first what is before
            self._membership.must_announce = True
        if is_known and message.worker:
            self._membership.announce_place(after)
        if not (is_known or is_next):
            return
        # who was readmitted since would be forgotten again by what is known
        examples = 0 if is_known else self._trainer.apply_request(message.owners, now_s)
        self._journal.note_reached(before, after)
        if message.request:
            request_hash = hash_request(message.request, message.owners)
            examples += self._outbox.find_answer(request_hash) or 0
            self._trainer.finish_erasure()
            self._outbox.post_answer(request_hash, message.request, examples, now_s)

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
        return self._journal.published_version()[0]

    def note_use(self, owner: str) -> None:
        """Count what a prediction for an owner reads as used now; θ evicts it later."""
        with self._journal.transaction(self._term):
            self._model.note_use(owner_hash(self._key, owner))

    def predict(self, features: object, owner: str = "", *, own: bool = False) -> NDArray[Any]:
        """Return the predictions of the last published model, or of the worker's own.

        The examples of the owner who asks count as used, or the neighbours that a live model finds.
        """
        predicted = self._model.predict(features, self.own_model if own else None)
        if owner:
            with self._journal.transaction(self._term):
                self._model.note_use(owner_hash(self._key, owner), features)
        return predicted

    def recommend(self, owner: str, k: int = 10) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the best items for an owner whose history is stored here, and their scores."""
        with self._journal.transaction(self._term):
            return self._model.recommend(owner_hash(self._key, owner), k)

    @property
    def level_of_forgetness(self) -> float:
        """The number of records forgotten per record learned, so far."""
        state = self._journal.state
        return state.forgotten / state.learned if state.learned else 0.0
