"""A region: a server for its workers, and a worker for its parent.

It counts, erases and selects like any server. It publishes the root's versions, and reports its
total upward as the updates of one worker (`Uplink`). Sums need no more: they add up in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from dealfl.errors import BadInput
from dealfl.learners import Learner
from dealfl.protocol import Erased, Message, Rules, Step, check_id
from dealfl.server.ledger import Ledger
from dealfl.server.masked import Privacy
from dealfl.server.publication import Relay
from dealfl.server.selection import Selector
from dealfl.server.server import Server
from dealfl.server.uplink import Uplink


@dataclass(frozen=True, slots=True)
class FromParent:
    """A message that came from the parent: a worker cannot send one."""

    message: Message

    @property
    def job(self) -> str:
        """Name of the job."""
        return self.message.job

    @property
    def worker(self) -> str:
        """Nobody: no worker is to blame for it."""
        return ""


class Region(Server):
    """A server with a parent; messages for the parent are those that only workers send."""

    def __init__(
        self,
        job: str,
        name: str,  # as the parent knows the region
        make: Callable[[], Learner],
        ledger: Ledger,
        rules: Rules | None = None,
        selector: Selector | None = None,
        privacy: Privacy | None = None,  # masks end here: the parent sees opened sums
        *,
        retry_after_s: float = 30.0,
        announce_every_s: float = math.inf,  # where the end of a connection is not noticed
    ) -> None:
        super().__init__(job, make, ledger, rules, selector, privacy)
        relay = Relay(job, ledger, self._aggregation, self._members)
        self._rounds.publication = relay
        self._uplink = Uplink(
            job,
            check_id(name, "region"),
            ledger,
            self._aggregation,
            self._members,
            relay,
            retry_after_s=retry_after_s,
            announce_every_s=announce_every_s,
        )
        self._parents: tuple[str, ...] = ("",)
        self._mismatch = "the parent was not reached yet"
        with self._transaction():
            self._uplink.begin_session()

    @property
    def name(self) -> str:
        """Name of the region at its parent."""
        return self._uplink.name

    @property
    def path(self) -> tuple[str, ...]:
        """Ids of the ledgers from the root to this one; the first is empty without a root."""
        return (*self._parents, *super().path)

    @property
    def problem(self) -> str:
        """Why nothing is reported to the parent; empty if nothing is wrong."""
        return self._mismatch or self._uplink.problem

    def meet(self, path: Sequence[str], schema_digest: str) -> None:
        """Take the state of the parent, at the start and after each connection.

        Nothing is reported to a parent that leads back here, has no root, or another schema.
        """
        self._parents = tuple(path) or ("",)
        self._mismatch = ""
        if super().path[0] in path:
            self._parents = ("",)
            self._mismatch = (
                "the parent reports to this region: a cycle; give one of them no parent"
            )
        elif not self._parents[0]:
            self._mismatch = "the parent has not reached the root yet"
        elif schema_digest != self.schema_digest:
            self._mismatch = (
                f"the parent's learner or its settings differ: schema {schema_digest[:12]}, here "
                f"{self.schema_digest[:12]}; use the same job file"
            )
        self._uplink.is_met = not self._mismatch
        self._uplink.reconnect()

    def handle(
        self, messages: Iterable[Message | FromParent], now_s: float, *, decoded: bool = False
    ) -> Step:
        """Receive messages of workers and of the parent; return those for both."""
        self._decoded = decoded
        flags = self._uplink.flags
        try:
            step = super().handle(messages, now_s, decoded=decoded)  # type: ignore[arg-type]
        except BaseException:  # announce the region in a later call
            self._uplink.flags = flags
            raise
        times = (step.wake_at_s, self._uplink.wake_at_s)
        due = [time_s for time_s in times if time_s is not None]
        return replace(step, wake_at_s=min(due, default=None))

    def erase(
        self,
        request: str,  # noqa: ARG002
        owners: Sequence[bytes],  # noqa: ARG002
        now_s: float,  # noqa: ARG002
        requested_by: str = "",  # noqa: ARG002
    ) -> Step:
        """Refuse: the list of the erased is the root's."""
        raise BadInput(
            f"{self.name!r} is a region; ask the root server, whose requests reach all regions"
        )

    def reload(self) -> None:
        """Reload the state from the ledger."""
        super().reload()
        self._uplink.load()

    def _save(self) -> None:
        super()._save()
        self._uplink.save()

    def _receive(
        self, message: Message | FromParent, problem: str | None, now_s: float
    ) -> list[Message]:
        if isinstance(message, FromParent):
            return self._uplink.receive(message.message, now_s, decoded=self._decoded)
        return super()._receive(message, problem, now_s)

    def _receive_erased(self, message: Erased, now_s: float) -> list[Message]:
        replies = super()._receive_erased(message, now_s)
        self._uplink.note_answer(message)
        return replies

    def _report_upward(self, now_s: float) -> list[Message]:
        return self._uplink.advance(now_s)
