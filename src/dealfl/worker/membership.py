"""What a worker knows of the server, and tells it: epoch, session, erasures, announcements."""

from __future__ import annotations

import math
import secrets
from itertools import count, takewhile

from dealfl.escaping import for_terminal
from dealfl.protocol import MAX_NAME, Announce, Message, Position, Sleep, bounded
from dealfl.worker.device import DeviceNow
from dealfl.worker.journal import Call, Journal, State
from dealfl.worker.outbox import Outbox

_RANDOM_BITS = 31  # of a session: two processes that continue one journal differ


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
        sleeps: tuple[int, float] | None,
    ) -> None:
        self._journal = journal
        self._outbox = outbox
        self._device = device
        self._schema_digest = schema_digest
        self._retry_after_s = retry_after_s
        self._announce_every_s = announce_every_s
        self._sleeps = sleeps is not None
        self._first_call = sleeps or (1, 0.0)
        self.greets = False  # whether the next call announces the worker in any case

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
            self._journal.execute("UPDATE published SET version = 0")
            self._journal.drop("published")

    def follows(self, epoch: str) -> bool:
        """Return whether a message belongs to the worker's epoch; if not, announce the worker."""
        is_own = epoch == self._journal.state.epoch
        self.greets |= not is_own
        return is_own

    # -- the list of erasures -------------------------------------------------------------------

    def has_reached(self, position: Position) -> bool:
        """Return whether the worker has forgotten everyone up to a position in the list."""
        query = "SELECT 1 FROM reached WHERE number = ? AND chain = ?"
        if position == Position() or position in self._reached:
            return True
        return self._journal.execute(query, position).fetchone() is not None

    def reach(self, before: Position, after: Position) -> None:
        """Note that the worker has forgotten everyone between two positions in the list."""
        if self.has_reached(before) and not self.has_reached(after):
            # positions after `before` were in a list that the server has lost
            self._journal.execute("DELETE FROM reached WHERE number > ?", (before.number,))
            self._journal.execute("INSERT INTO reached VALUES (?, ?)", after)
            self._journal.drop("reached")

    @property
    def _reached(self) -> tuple[Position, ...]:
        """The last position reached, and ever fewer of those before."""
        return self._journal.keep("reached", self._read_reached)

    def _read_reached(self) -> tuple[Position, ...]:
        query = "SELECT number, chain FROM reached WHERE number <= ? ORDER BY number DESC LIMIT 1"
        last = self._journal.execute("SELECT max(number) FROM reached").fetchone()[0] or 0
        steps = (last - (2**power >> 1) for power in count())
        rows = [
            self._journal.execute(query, (number,)).fetchone()
            for number in takewhile(lambda number: number > 0, steps)
        ]
        return tuple(dict.fromkeys(Position(*row) for row in rows if row is not None))

    # -- announcements --------------------------------------------------------------------------

    def note_settled(self) -> None:
        """Announce what waits after an update is settled.

        The server subtracts what an update learned from the number that was announced, also if that
        was announced after the update was made. Repeated announcements correct it in any case.
        A worker that sleeps announces itself unless the server sends it to sleep at once.
        """
        if self._announce_every_s == math.inf:
            self.greets |= self._sleeps or self._journal.count(State.WAITING) > 0

    # -- sleeping -------------------------------------------------------------------------------

    def sleep(self, message: Sleep, now_s: float) -> None:
        """Sleep as the server says, as soon as nothing is under way."""
        state = self._journal.state
        state.settled_s = now_s
        if self._sleeps:
            state.call = Call(message.waiting, now_s, now_s + message.within_s)
            self.greets = False

    @property
    def is_asleep(self) -> bool:
        """Whether the worker has closed its connection until it calls."""
        return self._call is not None and self._outbox.is_settled

    @property
    def _call(self) -> Call | None:
        return self._journal.state.call if self._sleeps else None

    def _call_if_due(self, waiting: int, now_s: float) -> None:
        """Wake up if enough examples wait, if it is time, or if the clock jumped back."""
        state = self._journal.state
        if self._sleeps and state.settled_s is None:  # it never called
            waits_for, within_s = self._first_call
            state.call = Call(waits_for, now_s, now_s + within_s)
            state.settled_s = now_s
        call = self._call
        if call is not None:
            is_time = not call.since_s <= now_s < call.until_s
            if waiting >= max(call.waiting, 1) or is_time or self.greets:
                state.call = None
                self.greets = True

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
        reached = self._reached
        chain = reached[0].chain.hex() if reached else ""
        # a worker that sleeps says no more than is worth a burst
        amount = waiting.bit_length() if self._sleeps else waiting
        announced = (amount, state.incarnation, state.epoch, state.session, chain)
        # a clock that jumped back must not silence a worker for long
        last_s = -math.inf if state.announced_s is None else state.announced_s
        is_recent = last_s <= now_s < last_s + self._every_s
        if announced == state.announced and not self.greets and is_recent:
            return []
        self.greets = False
        state.announced_s = now_s
        state.announced = announced
        device = self._device(now_s)
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
                round=max(state.round, 0),
                version=version,
                digest=digest if version else "",
                erased=reached,
                schema_digest=self._schema_digest,
                waiting=waiting,
                held=self._journal.count(State.LEARNED),
                device=for_terminal(device.name, MAX_NAME),
                battery=min(bounded(device.battery), 1.0),
                charging=device.charging,
                capacity_j=bounded(device.capacity_j),
                sleeps=self._sleeps,
                per_hour=self._per_hour(waiting, now_s),
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
        announce_s = announced_s + self._every_s if call is None else call.until_s
        send_s = self._journal.next_send_s()
        due_s = announce_s if send_s is None else min(announce_s, send_s)
        return None if due_s == math.inf else due_s
