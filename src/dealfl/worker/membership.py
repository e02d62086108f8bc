"""What a worker knows of the server, and tells it: epoch, session, erasures, announcements."""

from __future__ import annotations

import math
import secrets
from itertools import count, takewhile

from dealfl.escaping import for_terminal
from dealfl.protocol import MAX_NAME, Announce, Message, Position, Sleep, bounded
from dealfl.worker.device import DeviceNow
from dealfl.worker.journal import Journal
from dealfl.worker.outbox import Outbox
from dealfl.worker.tables import State

__all__ = ["Membership"]

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
        self._journal, self._outbox, self._device = journal, outbox, device
        self._schema_digest = schema_digest
        self._retry_after_s, self._announce_every_s = retry_after_s, announce_every_s
        self._sleeps, self._first_call = sleeps is not None, sleeps or (1, 0.0)
        self.greets = False  # whether the next call announces the worker in any case

    def begin_session(self, after: int = 0) -> None:
        """Draw a number for this process above earlier ones; answers to those mean nothing."""
        started = max(self._outbox.session, after) >> _RANDOM_BITS
        session = (started + 1 << _RANDOM_BITS) + secrets.randbits(_RANDOM_BITS)
        self._journal.set_setting("session", str(session))

    def enter(self, epoch: str) -> None:
        """Follow the epoch in a welcome; a new one resets round and version."""
        if epoch != self._outbox.epoch:
            self._journal.set_setting("epoch", epoch)
            self._journal.set_setting("round", "0")
            self._journal.execute("UPDATE published SET version = 0")
            self._journal.drop("published")

    def follows(self, epoch: str) -> bool:
        """Return whether a message belongs to the worker's epoch; if not, announce the worker."""
        self.greets |= epoch != self._outbox.epoch
        return epoch == self._outbox.epoch

    # -- the list of erasures -------------------------------------------------------------------

    def has_reached(self, position: Position) -> bool:
        """Return whether the worker has forgotten everyone up to a place in the list."""
        query = "SELECT 1 FROM reached WHERE number = ? AND chain = ?"
        known = position == Position() or position in self._places
        return known or self._journal.execute(query, position).fetchone() is not None

    def reach(self, before: Position, after: Position) -> None:
        """Note that the worker has forgotten everyone between two places in the list."""
        if self.has_reached(before) and not self.has_reached(after):
            # places after `before` were in a list that the server has lost
            self._journal.execute("DELETE FROM reached WHERE number > ?", (before.number,))
            self._journal.execute("INSERT INTO reached VALUES (?, ?)", after)
            self._journal.drop("places")

    @property
    def _places(self) -> tuple[Position, ...]:
        """The last place reached, and ever fewer of those before."""
        return self._journal.keep("places", self._read_places)

    def _read_places(self) -> tuple[Position, ...]:
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
        self._journal.set_setting("settled_s", repr(now_s))
        if self._sleeps:
            call = f"{message.waiting} {now_s} {now_s + message.within_s}"
            self._journal.set_setting("call", call)
            self.greets = False

    @property
    def is_asleep(self) -> bool:
        """Whether the worker has closed its connection until it calls."""
        return bool(self._call) and self._outbox.is_settled

    @property
    def _call(self) -> str:
        """When a sleeping worker calls: examples, the times from and until which it sleeps."""
        return self._journal.setting("call", "") if self._sleeps else ""

    def _call_if_due(self, waiting: int, now_s: float) -> None:
        """Wake up if enough examples wait, if it is time, or if the clock jumped back."""
        call = self._call
        if self._sleeps and not self._journal.setting("settled_s", ""):  # it never called
            least, within_s = self._first_call
            call = f"{least} {now_s} {now_s + within_s}"
            self._journal.set_setting("call", call)
            self._journal.set_setting("settled_s", repr(now_s))
        if call:
            wanted, since_s, until_s = map(float, call.split())
            if waiting >= max(wanted, 1) or not since_s <= now_s < until_s or self.greets:
                self._journal.set_setting("call", "")
                self.greets = True

    def _per_hour(self, waiting: int, now_s: float) -> float:
        since_s = now_s - float(self._journal.setting("settled_s", "nan"))
        return bounded(3600.0 * waiting / since_s) if since_s > 0 else 0.0

    def announce(self, now_s: float) -> list[Message]:
        """Return an announcement if one is due."""
        waiting, outbox, places = self._journal.count(State.WAITING), self._outbox, self._places
        self._call_if_due(waiting, now_s)
        if self.is_asleep:
            return []
        reached = places[0].chain.hex() if places else ""
        # a worker that sleeps says no more than is worth a burst
        amount = waiting.bit_length() if self._sleeps else waiting
        said = f"{amount}/{outbox.incarnation}/{outbox.epoch}/{outbox.session}/{reached}"
        last_s = float(self._journal.setting("announced_s", "-inf"))
        changed = said != self._journal.setting("announced", "")
        # a clock that jumped back must not silence a worker for long
        if not changed and not self.greets and last_s <= now_s < last_s + self._every_s:
            return []
        self.greets = False
        self._journal.set_setting("announced_s", repr(now_s))
        self._journal.set_setting("announced", said)
        device = self._device(now_s)
        version, digest = self._journal.published_version()
        return [
            Announce(
                job=outbox.job,
                worker=outbox.worker,
                epoch=outbox.epoch,
                session=outbox.session,
                incarnation=outbox.incarnation,
                journal_id=self._journal.id,
                receipted=outbox.receipted,
                sequence=outbox.sequence,
                terms=outbox.terms,
                round=max(int(self._journal.setting("round", "0")), 0),
                version=version,
                digest=digest if version else "",
                erased=places,
                schema_digest=self._schema_digest,
                waiting=waiting,
                held=self._journal.count(State.LEARNED),
                device=for_terminal(device.name, MAX_NAME),
                battery=min(bounded(device.battery), 1.0),
                charging=device.charging,
                capacity_j=bounded(device.capacity_j),
                sleeps=self._sleeps,
                per_hour=self._per_hour(waiting, now_s),
                training=outbox.is_training,
            )
        ]

    @property
    def _every_s(self) -> float:
        """Time after which an announcement is repeated; without a welcome, it may be lost."""
        welcomed = self._outbox.incarnation and self._outbox.epoch
        lost_s = math.inf if welcomed else self._retry_after_s
        return lost_s if self._announce_every_s == math.inf else self._announce_every_s

    @property
    def wake_at_s(self) -> float | None:
        """When the next message is due, if none arrives before; None for never."""
        call = self._call
        announce_s = float(self._journal.setting("announced_s", "0")) + self._every_s
        announce_s = float(call.split()[2]) if call else announce_s
        send_s = self._journal.next_send_s()
        due_s = announce_s if send_s is None else min(announce_s, send_s)
        return None if due_s == math.inf else due_s
