"""Publication: which states of the model are published, when, and until they are delivered."""

from __future__ import annotations

import hashlib
from math import inf

import msgspec
from msgspec.structs import replace

from dealfl.erasure import Outstanding, ReleaseRule
from dealfl.errors import BadInput
from dealfl.exact import Statistics
from dealfl.protocol import Fetch, Message, Position, Published, Rules
from dealfl.server.aggregation import Aggregation
from dealfl.server.ledger import Ledger
from dealfl.server.ledger_reader import WorkerRow
from dealfl.server.membership import Membership

_EVICTIONS = "evictions"
# the first and the last update of a worker that evict since the last version: incarnation, sequence
_EVICTION = msgspec.json.Decoder(tuple[tuple[int, int], tuple[int, int]])
_REPEAT_S = 60.0
_MAX_REPEAT_S = 3600.0
_KEPT = 32  # versions that workers may hold
_FETCH_AGAIN_S = 5.0  # after which a worker may fetch the same version again
_KEPT_BYTES = 1 << 25


class Publication:
    """Publishes a version when a round closes, and late changes after `publish_every_s`.

    Every version is a download for its users, so an update between two rounds does not cause a
    version of its own; the last sum that was awaited after a restore does. The first call after a
    start, or in a new epoch, repeats the last version: an earlier process may have ended before it
    was sent, and workers forget it with its epoch. A version is repeated until it is delivered or
    superseded. The ledger holds no copy of it, which could contain erased people: after a start it
    is repeated if nothing was counted since.

    A worker that holds a version can fetch what changed since. Versions since the last erasure are
    kept for this in memory, the latest ones up to a number of bytes.
    """

    def __init__(
        self, job: str, ledger: Ledger, aggregation: Aggregation, members: Membership
    ) -> None:
        self._job = job
        self._ledger = ledger
        self._aggregation = aggregation
        self._members = members
        self._sent_epoch = ""
        self._repeat_at_s = -inf
        self._repeat_s = _REPEAT_S
        # digest, statistics and their hash of versions, the latest last
        self._kept: dict[int, tuple[str, bytes, bytes]] = {}
        # the version that each worker was sent, as a difference or not, and when
        self._fetched: dict[tuple[str, bool], tuple[int, float]] = {}
        self.load()

    def load(self) -> None:
        """Reload state from the ledger; versions that it does not have were never sent."""
        self._last = self._ledger.reader.last_version()
        find_digest = self._ledger.erasures.find_digest
        self._kept = {
            number: kept for number, kept in self._kept.items() if kept[0] == find_digest(number)
        }
        self._fetched.clear()
        stored = self._ledger.list_parts(_EVICTIONS)
        self._evictions = {name: _EVICTION.decode(part) for name, part in stored.items()}

    def publish(self, round_number: int, rules: Rules, now_s: float) -> list[Message]:
        """Publish a version, unless too few people left the model since the last one."""
        if now_s < self._release_at_s(rules, now_s):
            return []
        if rules.release_batch > 1:
            self._ledger.change_state(released_s=now_s)
        shown = self._last.erased if self._last else 0
        erased = max(self._members.fulfilled, shown)
        if erased > shown:
            self._kept.clear()
        digest = self._aggregation.save_total()
        self._ledger.erasures.put_version(round_number, digest, now_s, erased)
        if not self._members.tally.behind:
            self._ledger.change_state(unpublished=False)
        self._last = self._ledger.reader.last_version()
        self._forget_shown_evictions()
        return self._send(now_s, _REPEAT_S)

    def repeat(self, now_s: float) -> list[Message]:
        """Send the last version again if it is due."""
        first = self._sent_epoch != self._members.epoch  # what was sent in another means nothing
        if self._last is None or (self._last.delivered and not first):
            return []
        # the time until the next repetition is unknown after the clock jumped back
        if not first and self._repeat_at_s - self._repeat_s <= now_s < self._repeat_at_s:
            return []
        return self._send(now_s, min(2 * self._repeat_s, _MAX_REPEAT_S))

    def _send(self, now_s: float, repeat_s: float) -> list[Message]:
        self._repeat_at_s = now_s + repeat_s
        self._repeat_s = repeat_s
        self._sent_epoch = self._members.epoch
        last = self._last
        total = self._aggregation.total
        assert last is not None
        if last.number not in self._kept:
            if total.digest() != last.digest:
                return []
            body = total.publish().to_bytes()
            self._kept[last.number] = last.digest, body, hashlib.sha256(body).digest()
            while len(self._kept) > 1 and self._keeps_too_much():
                del self._kept[next(iter(self._kept))]
        return [self._whole(last.number)]

    def _keeps_too_much(self) -> bool:
        size_bytes = sum(len(body) for _, body, _ in self._kept.values())
        return len(self._kept) > _KEPT or size_bytes > _KEPT_BYTES

    def _whole(self, version: int) -> Published:
        digest, body, body_hash = self._kept[version]
        return Published(
            job=self._job,
            worker="",
            epoch=self._members.epoch,
            version=version,
            digest=digest,
            statistics=body,
            hash=body_hash,
            erased=self._ledger.erasures.position(self._last.erased) if self._last else Position(),
        )

    def answer(self, message: Fetch, now_s: float) -> list[Message]:
        """Send a worker the last version: what changed since its own, or all of it; not often."""
        last = self._last
        if last is None or last.number not in self._kept or message.epoch != self._members.epoch:
            return []
        version = replace(self._whole(last.number), worker=message.worker)
        if message.version >= last.number:
            return [replace(version, base=last.number, statistics=b"")]  # nothing changed
        key = message.worker, message.version in self._kept
        number, sent_s = self._fetched.get(key, (0, 0.0))
        if number == last.number and 0.0 <= now_s - sent_s < _FETCH_AGAIN_S:
            return []
        self._fetched[key] = last.number, now_s
        if message.version in self._kept:
            _, before, _ = self._kept[message.version]
            version = shorten(version, message.version, before)
        return [version]

    def confirm(self, version: int) -> None:
        """Note that a version of this epoch was delivered."""
        if self._last is None or not 0 < version <= self._last.number:
            return
        if version < self._last.number or not self._last.delivered:
            self._ledger.erasures.mark_delivered(version)
            self._last = self._ledger.reader.last_version()

    def confirm_last(self) -> None:
        """Note that the last version was delivered."""
        self.confirm(self._last.number if self._last else 0)

    def lags(self, rules: Rules, now_s: float) -> bool:
        """Return whether the last version is not the current state."""
        return self._last is None or self.due_at_s(rules, now_s) is not None

    def due_at_s(self, rules: Rules, now_s: float) -> float | None:
        """Return when the current state must be published if no round closes before."""
        last = self._last
        state = self._ledger.state
        is_whole = state.unpublished and not self._members.tally.behind  # again, after a restore
        if last is None:  # who was erased before the first version waits for it
            waits = self._members.fulfilled or (is_whole and (state.total_lags or state.digest))
            return max(now_s, self._release_at_s(rules, now_s)) if waits else None
        changed = state.total_lags or last.digest != self._aggregation.total.digest()
        if not changed and self._members.fulfilled <= last.erased:
            return None
        jumped_back = now_s < last.published_s  # the elapsed time is unknown then
        is_due = jumped_back or is_whole
        late_s = now_s if is_due else last.published_s + rules.publish_every_s
        return max(late_s, self._release_at_s(rules, now_s))

    def compact_fulfilled(self) -> None:
        """Compact the ledger when more requests are fulfilled: it needs nothing of these people."""
        fulfilled = self._members.fulfilled
        if fulfilled > self._ledger.state.compacted:
            self._aggregation.save_total()
            self._ledger.note_deletion(compact=True)
            self._ledger.change_state(compacted=fulfilled)

    def _release_at_s(self, rules: Rules, now_s: float) -> float:
        """Return when a version may be published, so that it shows no single person's leaving.

        Of what happened before the clock jumped back, nobody knows how long ago it was.
        """
        if rules.release_batch == 1:
            return -inf
        erasures = self._ledger.erasures
        end = erasures.end().number
        shown = self._last.erased if self._last else 0
        since_s = self._last.published_s if self._last else -inf
        if end > shown:
            since_s = erasures.requested_s(shown + 1)
        times_s = (since_s, self._ledger.state.released_s)
        evicting = sum(first <= self._counted(name) for name, (first, _) in self._evictions.items())
        outstanding = Outstanding(
            erasures.count_persons(shown) + evicting,
            self._members.fulfilled >= end,
            max((time_s for time_s in times_s if time_s <= now_s), default=-inf),
        )
        return ReleaseRule(rules.release_batch, rules.release_deadline_s).release_at_s(outstanding)

    def note_eviction(self, row: WorkerRow, sequence: int, rules: Rules) -> None:
        """Note an update that evicts examples: when it counts, at least one person leaves."""
        if rules.release_batch > 1:
            at = (row.incarnation, sequence)
            first, last = self._evictions.get(row.name, (at, at))
            self._evictions[row.name] = eviction = min(first, at), max(last, at)
            self._ledger.put_parts(_EVICTIONS, {row.name: msgspec.json.encode(eviction)})

    def _forget_shown_evictions(self) -> None:
        """Keep the evictions that do not count yet, such as those after a missing update."""
        kept = {
            name: (last if first <= self._counted(name) else first, last)
            for name, (first, last) in self._evictions.items()
            if last > self._counted(name)
        }
        changed = {name: msgspec.json.encode(eviction) for name, eviction in kept.items()}
        self._ledger.put_parts(_EVICTIONS, dict.fromkeys(self._evictions, b"") | changed)
        self._evictions = kept

    def _counted(self, worker: str) -> tuple[int, int]:
        """Return incarnation and sequence up to which updates of a worker are in the total."""
        row = self._members.rows[worker]
        leaving = self._aggregation.find_leaving(worker)
        return (row.incarnation, row.counted) if leaving is None else (leaving, 0)


def shorten(whole: Published, base: int, before: bytes) -> Published:
    """Return a version as its difference to an earlier one, if that is shorter.

    `base` is the number of the earlier version, `before` its statistics.
    """
    after = Statistics.from_bytes(whole.statistics, trusted=True)
    change = (after - Statistics.from_bytes(before, trusted=True)).to_bytes()
    if len(change) >= len(whole.statistics):
        return whole
    return replace(whole, base=base, statistics=change)


class Relay(Publication):
    """Publishes the versions of the root in a region, under the region's own numbers.

    Nothing of the region itself is published; the root's versions keep their digest. A
    version gets the next number in the region's epoch. After a start the last one is published
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
