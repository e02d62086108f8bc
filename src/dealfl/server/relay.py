"""The publication of a region: it publishes the versions of the root, under its own numbers."""

from __future__ import annotations

import hashlib
from math import inf

from dealfl.errors import BadInput
from dealfl.exact import Statistics
from dealfl.protocol import Message, Published, Rules
from dealfl.server.ledger_reader import WorkerRow
from dealfl.server.publication import Publication


class Relay(Publication):
    """Publishes nothing of the region itself; the root's versions keep their digest.

    A version gets the next number in the region's epoch. After a start the last one is published
    again when the parent has sent it again: the ledger holds no copy of it.
    """

    def publish(self, round_number: int, rules: Rules, now_s: float) -> list[Message]:  # noqa: ARG002
        """Publish nothing: a region's own total is no version."""
        return []

    def due_at_s(self, rules: Rules, now_s: float) -> float | None:  # noqa: ARG002
        """Return that nothing is due."""
        return None

    def lags(self, rules: Rules, now_s: float) -> bool:  # noqa: ARG002
        """Return that the last version is that of the parent."""
        return False

    def note_eviction(self, row: WorkerRow, sequence: int, rules: Rules) -> None:
        """Leave it to the root to hold versions back."""

    @property
    def holds_last(self) -> bool:
        """Whether the content of the last version is in memory."""
        return self._last is not None and self._last.number in self._kept

    def relay(
        self, message: Published, erased: int, is_new: bool, now_s: float
    ) -> list[Message] | None:
        """Publish a version of the parent; None if it is a difference to one that is not here."""
        body = self._complete(message)
        body_hash = hashlib.sha256(body).digest()
        if message.hash and body_hash != message.hash:
            return None
        last = self._last
        if is_new or last is None or last.digest != message.digest:
            shown = 0 if last is None else last.erased
            if erased > shown:
                self._kept.clear()
            round_number = self._ledger.rounds.last_number()
            self._ledger.erasures.put_version(
                round_number, message.digest, now_s, max(erased, shown)
            )
            self._last = last = self._ledger.reader.last_version()
        elif self.holds_last:
            return []
        assert last is not None
        self._kept[last.number] = message.digest, body, body_hash
        self._repeat_at_s = -inf
        return self._send(now_s, self._repeat_s)

    def _complete(self, message: Published) -> bytes:
        """Return the whole statistics of a version, which can be a difference to the last one."""
        if not message.base or not self.holds_last or self._last is None:
            return message.statistics
        try:
            before = Statistics.from_bytes(self._kept[self._last.number][1], trusted=True)
            return (before + Statistics.from_bytes(message.statistics)).to_bytes()
        except BadInput:  # its hash then differs
            return b""
