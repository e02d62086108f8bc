"""How a worker presents itself to the server: its announcements."""

from __future__ import annotations

from dealfl.bounds import MAX_NAME, bounded
from dealfl.escaping import for_terminal
from dealfl.messages import Announce, Message
from dealfl.worker.device import DeviceNow
from dealfl.worker.journal import Journal
from dealfl.worker.outbox import Outbox
from dealfl.worker.tables import State

__all__ = ["Membership"]


class Membership:
    """Announces the worker when its state changes, and regularly."""

    def __init__(
        self,
        journal: Journal,
        outbox: Outbox,
        device: DeviceNow,
        schema_digest: str,
        announce_every_s: float,
    ) -> None:
        self._journal, self._outbox, self._device = journal, outbox, device
        self._schema_digest, self._announce_every_s = schema_digest, announce_every_s
        self.greets = False  # whether the next call announces the worker in any case

    def announce(self, now_s: float) -> list[Message]:
        """Return an announcement if one is due."""
        waiting = self._journal.count(State.WAITING)
        said = f"{waiting}/{self._outbox.incarnation}"
        last_s = float(self._journal.setting("announced_s", "-inf"))
        changed = said != self._journal.setting("announced", "")
        # a clock that jumped back must not silence a worker for long
        if not changed and not self.greets and last_s <= now_s < last_s + self._announce_every_s:
            return []
        self.greets = False
        self._journal.set_setting("announced_s", repr(now_s))
        self._journal.set_setting("announced", said)
        device = self._device(now_s)
        return [
            Announce(
                job=self._outbox.job,
                worker=self._outbox.worker,
                incarnation=self._outbox.incarnation,
                journal_id=self._journal.id,
                receipted=self._outbox.receipted,
                schema_digest=self._schema_digest,
                waiting=waiting,
                held=self._journal.count(State.LEARNED),
                device=for_terminal(device.name, MAX_NAME),
                battery=min(bounded(device.battery), 1.0),
                charging=device.charging,
                capacity_j=bounded(device.capacity_j),
                training=any(not outgoing.sent for outgoing in self._journal.outbox()),
            )
        ]

    @property
    def wake_at_s(self) -> float:
        """When the next message is due, if none arrives before."""
        announce_s = float(self._journal.setting("announced_s", "0")) + self._announce_every_s
        send_s = self._journal.next_send_s()
        return announce_s if send_s is None else min(announce_s, send_s)
