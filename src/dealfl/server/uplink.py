"""The uplink of a region: what a server reports to its parent, as a worker would.

The update of a region is its total less what it has posted. One update at a time is on its way, so
that nothing is ever withdrawn: who is erased meanwhile leaves with the next one. A request of
erasure is reported when all workers of the region have answered it and the parent has confirmed a
sum without the erased. All state is in the region's ledger, in the transaction of the server.
"""

from __future__ import annotations

import math
import secrets
from bisect import bisect_right
from itertools import takewhile

import msgspec

from dealfl.erasure import hash_request
from dealfl.exact import Statistics
from dealfl.protocol import (
    MAX_EXAMPLES,
    Announce,
    Assignment,
    Declined,
    Erase,
    Erased,
    ErasedReceipt,
    Fetch,
    Message,
    Position,
    Published,
    Receipt,
    Refusal,
    Update,
    Welcome,
    bounded,
    problem_of,
)
from dealfl.server.aggregation import Aggregation
from dealfl.server.ledger import Ledger
from dealfl.server.ledger_reader import UPLINK, UplinkState
from dealfl.server.membership import Membership
from dealfl.server.publication import Relay
from dealfl.server.sums import POSTED

_REACHED, _ANSWERS = f"{UPLINK} reached", f"{UPLINK} answers"
_TERMS = 8  # that are announced
_RANDOM_BITS = 31  # of a session: two processes that continue one ledger differ
_DEVICE = "region"


class _Answer(msgspec.Struct, array_like=True):
    """The answer to a request of the parent; it is sent until it is confirmed."""

    request: str
    own: int  # its number in the region's own list
    counts: tuple[int, int, int] | None = None  # examples, removed, devices; None before the first
    send_at_s: float | None = None


def _sent(answer: _Answer) -> tuple[int, int, int]:
    """Return the counts of an answer as they are sent."""
    examples, removed, devices = answer.counts or (0, 0, 0)
    return min(examples, MAX_EXAMPLES), min(removed, MAX_EXAMPLES), devices


class Uplink:
    """Follows the parent, and reports the region's sum and its fulfilled erasures."""

    def __init__(
        self,
        job: str,
        name: str,
        ledger: Ledger,
        aggregation: Aggregation,
        members: Membership,
        relay: Relay,
        *,
        retry_after_s: float,
        announce_every_s: float,
    ) -> None:
        self._job = job
        self.name = name
        self._ledger = ledger
        self._aggregation = aggregation
        self._members = members
        self._relay = relay
        self._retry_after_s = retry_after_s
        self._announce_every_s = announce_every_s
        self._empty = Statistics.zero(aggregation.total.schema).digest()
        self.is_met = False  # the parent's state is known, and it is the right one
        self._must_announce = False
        self._named: tuple[Position, ...] = ()  # places to announce beside the usual ones
        self._must_fetch = False
        self._actions = {
            Welcome: self._receive_welcome,
            Assignment: self._receive_assignment,
            Receipt: self._receive_receipt,
            Refusal: self._receive_refusal,
            Published: self._receive_published,
            Erase: self._receive_erase,
            ErasedReceipt: self._receive_erased_receipt,
        }
        self.load()

    # -- state ----------------------------------------------------------------------------------

    def load(self) -> None:
        """Reload state from the ledger."""
        own = self._ledger.list_parts(UPLINK)
        self._stored = own
        self.state = UplinkState()
        if "state" in own:
            self.state = msgspec.msgpack.decode(own["state"], type=UplinkState)
        body = own.get("update")
        self.update = None if body is None else msgspec.msgpack.decode(body, type=Update)
        self._saved = self.update
        reached = self._ledger.list_parts(_REACHED)
        decode = msgspec.msgpack.Decoder(tuple[bytes, int]).decode
        # chain and own number of each place that was reached in the parent's list
        self._reached = {int(number): decode(part) for number, part in sorted(reached.items())}
        self._index_reached()
        answers = self._ledger.list_parts(_ANSWERS)
        decode_answer = msgspec.msgpack.Decoder(_Answer).decode
        self._answers = {bytes.fromhex(key): decode_answer(part) for key, part in answers.items()}
        self._open: set[bytes] = set()  # not complete, or not confirmed
        self._by_own: dict[int, set[bytes]] = {}
        for key, answer in self._answers.items():
            self._index_answer(key, answer)

    def save(self) -> None:
        """Store what changed; answers and places are stored at once."""
        parts = {"state": msgspec.msgpack.encode(self.state)}
        if self.update is not self._saved:  # it can follow another one in the same call
            parts["update"] = b"" if self.update is None else msgspec.msgpack.encode(self.update)
            self._saved = self.update
            if "update" in self._stored:
                self._ledger.note_deletion()
        changed = {key: part for key, part in parts.items() if self._stored.get(key) != part}
        self._ledger.put_parts(UPLINK, changed)
        self._stored = {key: part for key, part in (self._stored | parts).items() if part}

    def begin_session(self, after: int = 0) -> None:
        """Draw a number for this process above earlier ones; answers to those mean nothing."""
        state = self.state
        state.journal_id = state.journal_id or secrets.token_hex(8)
        started = max(state.session, after) >> _RANDOM_BITS
        state.session = (started + 1 << _RANDOM_BITS) + secrets.randbits(_RANDOM_BITS)

    @property
    def flags(self) -> tuple[bool, bool]:
        """What a call that fails must leave as it was."""
        return self._must_announce, self._must_fetch

    @flags.setter
    def flags(self, flags: tuple[bool, bool]) -> None:
        self._must_announce, self._must_fetch = flags

    def reconnect(self) -> None:
        """Announce the region in the next call, and repeat what is not confirmed."""
        self._must_announce = self._must_fetch = True
        self.state.send_at_s = -math.inf
        for key in self._open:
            answer = self._answers[key]
            answer.send_at_s = None if answer.counts is None else -math.inf

    # -- messages from the parent ---------------------------------------------------------------

    def receive(self, message: Message, now_s: float, *, decoded: bool) -> list[Message]:
        """Apply a message of the parent; return messages to workers and to the parent."""
        action = self._actions.get(type(message))
        if action is None or message.job != self._job or message.worker not in ("", self.name):
            return []
        problem = None if decoded else problem_of(message)
        if problem is not None:
            self.state.refused = problem
            return []
        replies: list[Message] = action(message, now_s)  # type: ignore[operator]
        return replies

    def _follows(self, epoch: str) -> bool:
        is_own = epoch == self.state.epoch
        self._must_announce |= not is_own
        return is_own

    def _receive_welcome(self, message: Welcome, now_s: float) -> list[Message]:  # noqa: ARG002
        state = self.state
        if message.journal_id != state.journal_id:
            state.refused = (
                f"the parent knows another ledger as region {self.name!r}; if that one is lost, "
                f"run `dealfl workers remove` for {self.name!r} at the parent"
            )
            return []
        if message.session > state.session:  # this ledger is older than the parent's record
            self.begin_session(message.session)
        if message.session != state.session:
            return []
        if message.epoch != state.epoch:
            state.epoch = message.epoch
            state.round = state.assigned = state.version = 0
            state.digest = ""
        if message.incarnation > state.incarnation:
            self._restart(message)
        return []

    def _restart(self, message: Welcome) -> None:
        """Begin a new incarnation: the parent has dropped everything of the region."""
        if not self._has_reached(message.erased):
            self._must_announce = True  # the parent then sends what is missing
            return
        state = self.state
        self.update = None
        state.incarnation = message.incarnation
        state.sequence = 0
        state.terms = ()
        state.clean = state.cleaning = state.assigned = 0
        state.must_post = True
        state.floor = self._own_number(message.shown)
        state.refused = ""
        if state.posted:
            posted = self._ledger.sums.read(POSTED, self._aggregation.total.schema)
            self._ledger.sums.add_posted(-posted)
            self._ledger.note_deletion(compact=True)
            state.posted = ""

    def _receive_assignment(self, message: Assignment, now_s: float) -> list[Message]:  # noqa: ARG002
        state = self.state
        if self._follows(message.epoch) and message.round > state.round and state.incarnation:
            state.round = state.assigned = message.round
            state.refused = ""
        return []

    def _receive_receipt(self, message: Receipt, now_s: float) -> list[Message]:  # noqa: ARG002
        state = self.state
        if self.update is None or not self._is_about_last(message):
            return []
        if message.term not in state.terms:
            state.terms = (*state.terms, message.term)[-_TERMS:]
        self.update = None
        state.refused = ""
        state.announced = None  # what waits since the update was made
        if state.cleaning > state.clean:
            state.clean = state.cleaning
            self._ledger.note_deletion(compact=True)
        return []

    def _receive_refusal(self, message: Refusal, now_s: float) -> list[Message]:  # noqa: ARG002
        if self._is_about_last(message):
            self.state.refused = f"the parent refuses update {message.sequence}: {message.reason}"
        return []

    def _is_about_last(self, message: Receipt | Refusal) -> bool:
        """Return whether a message is about the last update, or the first if there is none."""
        state = self.state
        key = (state.session, state.incarnation, max(state.sequence, 1))
        return key == (message.session, message.incarnation, message.sequence)

    def _receive_published(self, message: Published, now_s: float) -> list[Message]:
        state = self.state
        if not self._follows(message.epoch) or message.version < state.version:
            return []
        if message.base == message.version:  # nothing has changed since
            return []
        is_new = message.version > state.version
        replies = self._relay.relay(message, self._own_number(message.erased.number), is_new, now_s)
        if replies is None:  # the version to which it is a difference is unknown
            self._must_fetch = self._must_announce = True
            return []
        self._must_fetch = False
        state.version = message.version
        state.digest = message.digest
        return replies

    def _receive_erase(self, message: Erase, now_s: float) -> list[Message]:
        """Pass a request on to all workers; take requests in the order of the parent's list."""
        replies: list[Message] = []
        if not self._has_reached(message.after):
            if not self._has_reached(message.before):
                # an answer to an announcement is not asked for again: many answers could overtake
                # each other, and each would bring as many
                self._must_announce |= not message.worker
                return []
            name = message.request or f"list {message.after.number} {message.after.chain.hex()}"
            listed, is_new = self._ledger.erasures.put_part(
                name, message.owners, now_s, "the parent"
            )
            self._note_reached(message.before, message.after, listed.after.number)
            replies = [self._members.erase(listed)] if is_new else []
        elif message.worker and message.after not in self._positions:
            # the end of a ledger that was restored can be between those that are announced
            self._named, self._must_announce = (message.after,), True
        if message.request:
            self._expect_answer(message, now_s)
        return replies

    def _expect_answer(self, message: Erase, now_s: float) -> None:
        key = hash_request(message.request, message.owners)
        answer = self._answers.get(key)
        if answer is None:
            answer = _Answer(message.request, self._own_number(message.after.number))
            self._put_answer(key, answer)
        elif not message.worker:  # it was requested again; the parent may have the answer
            self._must_announce = True
        elif answer.counts is not None:
            answer.send_at_s = now_s
            self._put_answer(key, answer)

    def _receive_erased_receipt(self, message: ErasedReceipt, now_s: float) -> list[Message]:  # noqa: ARG002
        """Settle an answer, unless it has changed since the one that is confirmed."""
        answer = self._answers.get(message.hash)
        confirmed = (message.examples, message.removed, message.devices)
        if answer is not None and answer.counts is not None and confirmed == _sent(answer):
            answer.send_at_s = None
            self._put_answer(message.hash, answer)
        return []

    # -- the parent's list of erasures ----------------------------------------------------------

    def _has_reached(self, position: Position) -> bool:
        if not position.number:
            return True
        chain, _ = self._reached.get(position.number, (None, 0))
        return chain == position.chain

    def _note_reached(self, before: Position, after: Position, own: int) -> None:
        """Note a place in the list; places after `before` were in a list that the parent lost."""
        gone = [number for number in self._reached if number > before.number]
        for number in gone:
            del self._reached[number]
        own = max(own, self._own_number(before.number))
        self._reached[after.number] = (after.chain, own)
        self._index_reached()
        parts = dict.fromkeys((f"{number:016d}" for number in gone), b"")
        parts[f"{after.number:016d}"] = msgspec.msgpack.encode((after.chain, own))
        self._ledger.put_parts(_REACHED, parts)

    def _index_reached(self) -> None:
        """Keep both numbers of the places in lists, which rise together."""
        self._numbers = list(self._reached)
        self._owns = [own for _, own in self._reached.values()]

    def _own_number(self, number: int) -> int:
        """Return how many requests of the own list the parent's first `number` requests are."""
        index = bisect_right(self._numbers, number)
        return self._owns[index - 1] if index else 0

    @property
    def _positions(self) -> tuple[Position, ...]:
        """The last place that was reached, and ever fewer of those before."""
        count = len(self._numbers)
        steps = takewhile(lambda back: back < count, (2**power >> 1 for power in range(64)))
        last = dict.fromkeys(self._numbers[count - 1 - back] for back in steps)
        return tuple(Position(number, self._reached[number][0]) for number in last)

    @property
    def _forgotten(self) -> int:
        """How many requests of the parent's list are fulfilled here, with answers that it has.

        So the parent has all counts before it publishes a version and issues certificates.
        """
        unconfirmed = min((self._answers[key].own for key in self._open), default=math.inf)
        index = bisect_right(self._owns, min(self.state.clean, unconfirmed - 1))
        return self._numbers[index - 1] if index else 0

    # -- messages to the parent -----------------------------------------------------------------

    def advance(self, now_s: float) -> list[Message]:
        """Return what the parent must hear now."""
        if not self.is_met:
            return []
        replies: list[Message] = []
        differs = self._differs()
        if self.update is None and self.state.incarnation:
            replies += self._answer_assignment(differs, now_s)
            differs = self._differs()
        if self.update is None and not differs and self.state.incarnation:
            self.state.must_post = False
            self._note_clean()
        self._complete_answers(now_s)
        replies += self._take_due_answers(now_s)
        replies += self._announce(differs, now_s)
        return replies + self._take_due_update(now_s)

    def note_answer(self, message: Erased) -> None:
        """Report a request once more if a worker has answered it late."""
        own = self._ledger.erasures.find_number(message.request, message.hash)
        if own is not None:
            self._open |= self._by_own.get(own, set())

    @property
    def wake_at_s(self) -> float | None:
        """When the next message is due, if none arrives before; None for never."""
        if not self.is_met:
            return None
        state = self.state
        times = [answer.send_at_s for answer in map(self._answers.__getitem__, self._open)]
        due = [time_s for time_s in times if time_s is not None]
        if self.update is not None:
            due.append(state.send_at_s)
        due.append((state.announced_s or 0.0) + self._every_s)
        if state.announced_devices != self._members.devices:
            due.append((state.announced_s or 0.0) + self._retry_after_s)
        return None if min(due) == math.inf else min(due)

    @property
    def problem(self) -> str:
        """Why the region cannot report to its parent; empty if it can."""
        if self.state.refused:
            return self.state.refused
        return "" if self._can_post else "waits until all workers have answered erasures"

    @property
    def _can_post(self) -> bool:
        return self._members.fulfilled >= self.state.floor

    def _digest(self) -> str:
        state = self._ledger.state
        return self._aggregation.total.digest() if state.total_lags else state.digest

    def _differs(self) -> bool:
        """Return whether the parent lacks something of the total."""
        return (self._digest() or self._empty) != (self.state.posted or self._empty)

    def _note_clean(self) -> None:
        """Note that the parent has all of the total, which is without the fulfilled requests."""
        if self._members.fulfilled > self.state.clean:
            self.state.clean = self._members.fulfilled
            self._ledger.note_deletion(compact=True)

    def _answer_assignment(self, differs: bool, now_s: float) -> list[Message]:
        state = self.state
        assigned, state.assigned = state.assigned, 0
        if differs and self._can_post:
            last = self._owns[-1] if self._owns else 0
            erases = state.clean < min(last, self._members.fulfilled)
            if assigned or state.must_post or erases:
                self._post(assigned or None, now_s)
        elif assigned:
            state.announced = None
            return [
                Declined(
                    job=self._job,
                    worker=self.name,
                    epoch=state.epoch,
                    round=assigned,
                    reason="erasures are not answered yet" if differs else "nothing new",
                )
            ]
        return []

    def _post(self, round_number: int | None, now_s: float) -> None:
        """Make the update: the total less what was posted."""
        state = self.state
        total = self._aggregation.total.statistics
        posted = self._ledger.sums.read(POSTED, total.schema)
        delta = total - posted
        self._ledger.sums.add_posted(delta)
        state.posted = self._aggregation.save_total()
        state.cleaning = self._members.fulfilled
        state.sequence += 1
        state.must_post = False
        learned = evicted = 0
        energy_j = 0.0
        if round_number is not None:  # what the parent counts as work
            learned, evicted, energy_j = self._count_work()
            state.learned += learned
            state.evicted += evicted
            state.energy_j += energy_j
        self.update = Update(
            job=self._job,
            worker=self.name,
            epoch=state.epoch,
            incarnation=state.incarnation,
            sequence=state.sequence,
            round=round_number,
            delta=delta.to_bytes(),
            learned=learned,
            evicted=evicted,
            energy_j=bounded(energy_j),
        )
        state.send_at_s = now_s

    def _count_work(self) -> tuple[int, int, float]:
        """Return what the workers have learned, evicted and spent since the last report."""
        state = self.state
        rows = self._members.rows.values()
        learned = sum(row.learned for row in rows) - state.learned
        evicted = sum(row.evicted for row in rows) - state.evicted
        energy_j = self._ledger.reader.replies().energy_j - state.energy_j
        most = MAX_EXAMPLES
        return min(max(learned, 0), most), min(max(evicted, 0), most), max(energy_j, 0.0)

    def _take_due_update(self, now_s: float) -> list[Message]:
        state = self.state
        retry_s = now_s + self._retry_after_s
        # a clock that jumped back must not delay the update
        if self.update is None or now_s < state.send_at_s <= retry_s:
            return []
        state.send_at_s = retry_s
        return [msgspec.structs.replace(self.update, session=state.session)]

    def _complete_answers(self, now_s: float) -> None:
        """Make the answers to requests that are fulfilled, or whose counts have changed."""
        for key in sorted(self._open):
            answer = self._answers[key]
            if answer.own > self.state.clean or not self._have_answered(answer.own):
                continue
            counts = self._ledger.erasures.count_deleted(answer.own)
            if counts != answer.counts:
                answer.counts = counts
                answer.send_at_s = now_s
            self._put_answer(key, answer)

    def _have_answered(self, own: int) -> bool:
        """Return whether every worker of the region has answered a request of the own list."""
        answering = self._ledger.erasures.answering(own)
        return all(
            row.answered >= own or name in answering or row.heard_s is None
            for name, row in self._members.rows.items()
        )

    def _put_answer(self, key: bytes, answer: _Answer) -> None:
        self._answers[key] = answer
        self._index_answer(key, answer)
        self._ledger.put_parts(_ANSWERS, {key.hex(): msgspec.msgpack.encode(answer)})

    def _index_answer(self, key: bytes, answer: _Answer) -> None:
        is_open = answer.counts is None or answer.send_at_s is not None
        (self._open.add if is_open else self._open.discard)(key)
        self._by_own.setdefault(answer.own, set()).add(key)

    def _take_due_answers(self, now_s: float) -> list[Message]:
        due: list[Message] = []
        for key in sorted(self._open):
            answer = self._answers[key]
            at_s = answer.send_at_s
            retry_s = now_s + self._retry_after_s
            if answer.counts is None or at_s is None or now_s < at_s <= retry_s:
                continue
            answer.send_at_s = retry_s
            self._put_answer(key, answer)
            examples, removed, devices = _sent(answer)
            due.append(
                Erased(
                    job=self._job,
                    worker=self.name,
                    request=answer.request,
                    hash=key,
                    examples=examples,
                    removed=removed,
                    devices=devices,
                )
            )
        return due

    # -- announcements --------------------------------------------------------------------------

    @property
    def _every_s(self) -> float:
        """Time after which an announcement is repeated; without a welcome, it may be lost."""
        welcomed = self.state.incarnation and self.state.epoch
        lost_s = math.inf if welcomed else self._retry_after_s
        return lost_s if self._announce_every_s == math.inf else self._announce_every_s

    def _announce(self, differs: bool, now_s: float) -> list[Message]:
        """Return an announcement if one is due."""
        state = self.state
        forgotten = self._forgotten
        positions = self._positions
        waits = differs and self.update is None
        chain = positions[0].chain.hex() if positions else ""
        announced = (
            waits, self._can_post, state.incarnation, state.epoch, state.session, forgotten, chain
        )  # fmt: skip
        devices = self._members.devices
        last_s = -math.inf if state.announced_s is None else state.announced_s
        every_s = self._every_s
        if devices != state.announced_devices:  # many may join, one after the other
            every_s = min(every_s, self._retry_after_s)
        is_recent = last_s <= now_s < last_s + every_s
        if announced == state.announced and not self._must_announce and is_recent:
            return []
        self._must_announce, self._named, named = False, (), self._named
        state.announced = announced
        state.announced_devices = devices
        state.announced_s = now_s
        learned, _, _ = self._count_work()
        message = Announce(
            job=self._job,
            worker=self.name,
            epoch=state.epoch,
            session=state.session,
            incarnation=state.incarnation,
            journal_id=state.journal_id,
            receipted=state.sequence - (self.update is not None),
            sequence=state.sequence,
            terms=state.terms,
            round=state.round,
            version=state.version,
            digest=state.digest,
            erased=tuple(sorted({*positions, *named}, reverse=True)),
            schema_digest=self._aggregation.schema_digest,
            waiting=max(learned, 1) if waits and self._can_post else 0,
            held=min(sum(row.held for row in self._members.rows.values()), MAX_EXAMPLES),
            device=_DEVICE,
            charging=True,
            devices=devices,
            forgotten=forgotten,
        )
        return [message, *self._fetch()]

    def _fetch(self) -> list[Message]:
        """Ask for the published version after a start; nobody may rely on the broker for it."""
        state = self.state
        if not self._must_fetch or not state.epoch:
            return []
        self._must_fetch = False
        version = state.version if self._relay.holds_last else 0
        return [Fetch(job=self._job, worker=self.name, epoch=state.epoch, version=version)]
