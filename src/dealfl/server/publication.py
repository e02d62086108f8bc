"""Publication: which states of the model are published, when, and until they are delivered."""

from __future__ import annotations

from math import inf

from dealfl.erasure import Outstanding, ReleaseRule
from dealfl.messages import Message, Published
from dealfl.server.aggregation import Aggregation
from dealfl.server.ledger import Ledger
from dealfl.server.membership import Membership
from dealfl.server.terms import Terms

__all__ = ["Publication"]

_EVICTING = "evicting"
_REPEAT_S, _MAX_REPEAT_S = 60.0, 3600.0


class Publication:
    """Publishes a version when a round closes, and late changes after `publish_every_s`.

    Every version is a download for its users, so an update between two rounds does not cause a
    version of its own. The first call after a start repeats the last version: an earlier process
    may have ended before it was sent. A version is repeated until it is delivered or superseded.
    The ledger holds no copy of it, which could contain erased people: after a start it is repeated
    if nothing was counted since.
    """

    def __init__(
        self, job: str, ledger: Ledger, aggregation: Aggregation, members: Membership
    ) -> None:
        self._job, self._ledger = job, ledger
        self._aggregation, self._members = aggregation, members
        self._repeat_at_s, self._repeat_s = float("-inf"), _REPEAT_S
        self._sent = (0, b"")  # version and statistics
        self.load()

    def load(self) -> None:
        """Reload the last version from the ledger."""
        self._last = self._ledger.reader.last_version()

    def publish(self, round_number: int, terms: Terms, now_s: float) -> list[Message]:
        """Publish a version, unless too few people left the model since the last one."""
        release_at_s = self._release_at_s(terms)
        if now_s < release_at_s:
            return []
        if release_at_s > float("-inf"):  # by the deadline
            self._ledger.set_setting("released_s", repr(now_s).encode())
        total = self._aggregation.total
        erased = max(self._members.settled, self._last.erased if self._last else 0)
        self._ledger.erasures.put_version(round_number, total.digest(), now_s, erased)
        self._last = self._ledger.reader.last_version()
        if terms.release_batch > 1:
            self._ledger.set_setting(_EVICTING, b"")
        return self._send(now_s, _REPEAT_S)

    def repeat(self, now_s: float) -> list[Message]:
        """Send the last version again if it is due."""
        first = self._repeat_at_s == float("-inf")
        if self._last is None or (self._last.delivered and not first):
            return []
        # the time until the next repetition is unknown after the clock jumped back
        if self._repeat_at_s - self._repeat_s <= now_s < self._repeat_at_s:
            return []
        return self._send(now_s, min(2 * self._repeat_s, _MAX_REPEAT_S))

    def _send(self, now_s: float, repeat_s: float) -> list[Message]:
        self._repeat_at_s, self._repeat_s = now_s + repeat_s, repeat_s
        last, total = self._last, self._aggregation.total
        assert last is not None
        if self._sent[0] != last.number:
            if total.digest() != last.digest:
                return []
            self._sent = (last.number, total.publish().to_bytes())
        return [
            Published(
                job=self._job, worker="", epoch=self._members.epoch, version=last.number,
                digest=last.digest, statistics=self._sent[1],
            )
        ]  # fmt: skip

    def confirm(self, version: int) -> None:
        """Note that a version of this epoch was delivered."""
        if self._last is None or not 0 < version <= self._last.number:
            return
        if version < self._last.number or not self._last.delivered:
            self._ledger.erasures.mark_delivered(version)
            self._last = self._ledger.reader.last_version()

    def due_at_s(self, terms: Terms, now_s: float) -> float | None:
        """Return when the current state must be published if no round closes before."""
        last = self._last
        if last is None:
            return None
        changed = last.digest != self._aggregation.total.digest()
        if not changed and self._members.settled <= last.erased:
            return None
        jumped_back = now_s < last.published_s  # the elapsed time is unknown then
        late_s = now_s if jumped_back else last.published_s + terms.publish_every_s
        return max(late_s, self._release_at_s(terms))

    def note_settled(self) -> None:
        """Compact the ledger when more requests are settled: it needs nothing of these people."""
        settled = self._members.settled
        if settled > int(self._ledger.setting("compacted", b"0")):
            self._ledger.note_deletion(compact=True)
            self._ledger.set_setting("compacted", str(settled).encode())

    def _release_at_s(self, terms: Terms) -> float:
        """Return when a version may be published, so that it shows no single person's leaving."""
        end = self._ledger.erasures.end().number
        shown, since_s = (self._last.erased, self._last.published_s) if self._last else (0, -inf)
        if terms.release_batch == 1:
            return -inf
        left = self._ledger.erasures.count_persons(shown) + len(self._evicting())
        released_s = float(self._ledger.setting("released_s") or "-inf")
        if end > shown:
            since_s = self._ledger.erasures.requested_s(shown + 1)
        settled = self._members.settled >= end
        outstanding = Outstanding(left, settled, max(since_s, released_s))
        return ReleaseRule(terms.release_batch, terms.release_deadline_s).release_at_s(outstanding)

    def note_eviction(self, worker: str, terms: Terms) -> None:
        """Note that a worker evicted examples: at least one person has left since the version."""
        noted = self._evicting()
        if len(noted) < terms.release_batch and terms.release_batch > 1:
            self._ledger.set_setting(_EVICTING, ",".join(sorted({*noted, worker})).encode())

    def _evicting(self) -> list[str]:
        return [name for name in self._ledger.setting(_EVICTING).decode().split(",") if name]
