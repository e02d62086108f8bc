"""The workers of a fleet: a few are awake in memory, the others hibernate as some hundred bytes.

A worker that is needed takes the memory of the one that was not needed for the longest time. What
all workers must answer at once, such as how many examples wait, is known without waking anybody.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from dealfl.protocol import Message, Step
from dealfl.worker import Accepted, Hibernated, Identity, Journal, ResidentModel, State, Worker

AWAKE = 192  # workers of a large fleet; each takes about 350 KB of memory
_SMALL = 1_000  # workers: in a smaller fleet all are awake, because rounds then take less time
Fact = TypeVar("Fact")
_LARGE_BYTES = 1 << 18  # of rows: a worker with more saves little by hibernating, and stays awake


class Crew(Mapping[str, "Member"]):
    """All workers of a fleet by name, of which a limited number is awake."""

    def __init__(
        self,
        names: Iterable[str],
        identify: Callable[[str], Identity],
        make: Callable[[Identity, Journal], Worker],
        seed: int,
        most_awake: int | None,  # by default by the size of the fleet
    ) -> None:
        self._members = {name: Member(name, self) for name in names}
        self._identify = identify
        self._make = make
        self._seed = seed
        size = len(self._members)
        self._most_awake = most_awake or (AWAKE if size > _SMALL else max(size, 1))
        self._awake: OrderedDict[str, Member] = OrderedDict()  # least recently used first
        self._large: list[Member] = []  # never hibernate
        self._waiting = 0  # examples of all that hibernate

    def __getitem__(self, name: str) -> Member:
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    @property
    def waiting(self) -> int:
        """Number of examples that wait to be learned."""
        awake = (*self._awake.values(), *self._large)
        return self._waiting + sum(member.journal.count(State.WAITING) for member in awake)

    def journals(self) -> Iterator[tuple[str, Journal]]:
        """Yield the name and the journal of each worker; use it before the next one."""
        for name, member in self._members.items():
            yield name, member.journal

    def close(self) -> None:
        """Close the journals of those that are awake."""
        for member in (*self._awake.values(), *self._large):
            member.journal.close()

    # -- memory ---------------------------------------------------------------------------------

    def note_use(self, name: str) -> None:
        """Note that a worker that is awake is needed."""
        if len(self._awake) == self._most_awake and name in self._awake:
            self._awake.move_to_end(name)

    def restore(self, name: str, content: bytes) -> None:
        """Resume with what `Member.content` returned; nobody was woken yet."""
        self._waiting += self._members[name].restore(content)

    def wake(
        self, member: Member, state: Hibernated | None, resident: ResidentModel | None
    ) -> Worker:
        """Return a worker in memory; without a state it begins."""
        identity = self._identify(member.name)
        journal_id = f"{self._seed}/{member.name}"
        worker = self._free_worker()
        if worker is None:
            worker = self._make(identity, Journal(journal_id=journal_id))
        elif state is None:
            worker.begin(identity, journal_id)
        if state is not None:
            worker.wake(identity, state, resident)
            self._waiting -= state.waiting
        self._awake[member.name] = member
        return worker

    def _free_worker(self) -> Worker | None:
        """Let a worker hibernate and return its memory; None if there is room."""
        while len(self._awake) >= self._most_awake:
            _, member = self._awake.popitem(last=False)
            if (worker := member.hibernate(_LARGE_BYTES)) is not None:
                self._waiting += member.waiting
                return worker
            self._large.append(member)
        return None


class Member:
    """One worker of a fleet, awake or hibernating; calls and questions are those of a `Worker`."""

    __slots__ = ("_crew", "_resident", "_state", "_worker", "name")

    def __init__(self, name: str, crew: Crew) -> None:
        self.name = name
        self._crew = crew
        self._worker: Worker | None = None
        self._state: Hibernated | None = None  # None while it is awake, or before its first call
        self._resident: ResidentModel | None = None  # while it hibernates

    @property
    def _awake(self) -> Worker:
        if self._worker is None:
            self._worker = self._crew.wake(self, self._state, self._resident)
            self._state = self._resident = None
        else:
            self._crew.note_use(self.name)
        return self._worker

    def hibernate(self, most_bytes: int) -> Worker | None:
        """Leave the memory to others; None if the rows of the journal are large."""
        worker = self._worker
        assert worker is not None
        state = worker.hibernate()
        if len(state.rows) > most_bytes:
            return None
        self._worker, self._state, self._resident = None, state, worker.resident
        return worker

    # -- calls ----------------------------------------------------------------------------------

    def handle(self, messages: Iterable[Message], now_s: float) -> Step:
        """Process messages; see `Worker.handle`."""
        return self._awake.handle(messages, now_s)

    def ingest(self, rows: Sequence[tuple[str, bytes]]) -> Accepted:
        """Store new records."""
        return self._awake.ingest(rows)

    def note_use(self, owner: str) -> None:
        """Count what a prediction for an owner reads as used now."""
        self._awake.note_use(owner)

    def note_disconnect(self) -> None:
        """Note that the connection was lost."""
        state = self._state
        if self._worker is not None or (state and state.waits_for_ride and state.is_calling):
            self._awake.note_disconnect()
        elif state is not None and state.waits_for_ride:
            state.must_announce = state.rides = False

    def note_traffic(self, is_on: bool, now_s: float) -> bool:
        """Note whether other traffic has the radio on; return whether a call now is worth it."""
        state = self._state
        if state is None:
            return self._awake.note_traffic(is_on, now_s)
        state.rides = is_on
        return is_on and now_s >= state.ride_from_s

    # -- questions ------------------------------------------------------------------------------

    @property
    def journal(self) -> Journal:
        """The journal; use it before another worker is needed."""
        return self._awake.journal

    @property
    def is_asleep(self) -> bool:
        """Whether the worker needs no connection until it calls."""
        return self._ask(lambda worker: worker.is_asleep, lambda state: state.is_asleep, False)

    @property
    def model_version(self) -> int:
        """The version of the published model that it holds; 0 before the first."""
        return self._ask(lambda worker: worker.model_version, lambda state: state.version, 0)

    @property
    def waiting(self) -> int:
        """Number of examples that wait to be learned."""
        return self._ask(
            lambda worker: worker.journal.count(State.WAITING), lambda state: state.waiting, 0
        )

    @property
    def next_send_s(self) -> float | None:
        """When the next update or answer is due; None if none is."""
        return self._ask(
            lambda worker: worker.journal.next_send_s(), lambda state: state.next_send_s, None
        )

    @property
    def has_outgoing(self) -> bool:
        """Whether an update has no receipt."""
        return self._ask(
            lambda worker: bool(worker.journal.outgoing), lambda state: state.has_outgoing, False
        )

    def _ask(
        self, ask: Callable[[Worker], Fact], recall: Callable[[Hibernated], Fact], before: Fact
    ) -> Fact:
        """Return a fact of the worker, also while it hibernates or before its first call."""
        if self._worker is not None:
            return ask(self._worker)
        return before if self._state is None else recall(self._state)

    # -- the saved state of a run ---------------------------------------------------------------

    @property
    def size_bytes(self) -> int:
        """Size of the journal."""
        if self._state is not None:
            return len(self._state.rows)
        return 0 if self._worker is None else self._worker.journal.size_bytes

    def content(self) -> bytes:
        """Return what `restore` needs; empty before the first call."""
        state = self._state
        if state is None and self._worker is not None:
            state = self._worker.hibernate()
        return b"" if state is None else msgspec.msgpack.encode(state)

    def restore(self, content: bytes) -> int:
        """Resume from a saved state; return the number of waiting examples."""
        assert self._worker is None
        if content:
            self._state = msgspec.msgpack.decode(content, type=Hibernated)
        return self.waiting
