"""Aggregation: the sum of each worker, the total, and each update in them once and in order."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dealfl.errors import BadBytes, BadInput, Impossible, describe_without_values
from dealfl.escaping import for_terminal
from dealfl.exact import Statistics
from dealfl.learners import Learner
from dealfl.protocol import (
    MAX_EXAMPLES,
    MAX_NAME,
    PROTOCOL,
    MaskedUpdate,
    Message,
    Rules,
    Update,
    Withdraw,
)
from dealfl.server.ledger import Ledger, Pending
from dealfl.server.ledger_reader import WorkerRow
from dealfl.server.sums import BASE, ChangedSum

_PRIME = (1 << 61) - 1  # of fingerprints
_NO_STATISTICS = "bytes that are not statistics of this job"
_FULL = "held back: the total is full; the largest sum is that of "
_KEPT_BYTES = 1 << 20  # size of a delta up to which it is kept in memory as arrays
_MAX_AFTER_GAP = 64  # stored updates of a worker, if one before them is missing
_MAX_CLAIMED = 4096  # updates after the last counted one that wait for what a worker announces
_IMPOSSIBLE = "no examples have this sum"
_TOO_OLD = "an update is too old to be compared"
_MASKED = "update is masked; this job has no section [privacy]"
_CONFLICT = "another update with this sequence exists"


@dataclass(frozen=True, slots=True)
class Problem:
    """The reason why an update cannot count. After a fatal one, a new incarnation starts."""

    reason: str
    fatal: bool = False


WITHDRAWN = Problem("update was withdrawn")
AFTER_GAP = Problem("an update is missing; later ones are not stored")


@dataclass(frozen=True, slots=True)
class Stored:
    """An update that was stored, and what its delta shows.

    The net number of records is None if it is not determined. `examples` is how many examples
    that the worker had in the model before; None if an earlier update is missing, or if examples
    share records.
    """

    records: int | None
    examples: int | None
    is_zero: bool


@dataclass(frozen=True, slots=True)
class Aggregated:
    """The last counted sequence of each worker, and why others were not counted."""

    counted: dict[str, int]
    diverged: dict[str, str]
    held_back: dict[str, str]
    above: dict[str, int] = field(default_factory=dict)  # the next incarnation of a worker is
    is_older: bool = False  # the ledger is an older copy


class Aggregation:
    """Store updates, and add them to the sums when a round closes."""

    def __init__(self, ledger: Ledger, make: Callable[[], Learner]) -> None:
        self._ledger = ledger
        self._make = make
        self.total = make()
        self._schema = self.total.schema
        self.schema_digest = self._schema.digest()
        self._scratch = make()  # empty between uses; it checks sums
        self._received: dict[tuple[str, int], Statistics | bytes] = {}  # stored deltas
        self.snapshot: Statistics | None = None  # of the total, held within a transaction
        self._ready: set[str] = set()  # workers with updates that may be added
        self._held_back: set[str] = set()  # workers whose updates do not fit into the total
        self._awaited: set[str] = set()  # workers who have to say whom their updates are without

    def load(self) -> None:
        """Reload the total from the ledger, or add up the sums if it lags behind them."""
        self._received.clear()
        self._ready = set(self._ledger.updates.waiting())
        self._held_back = set()
        self._awaited = set()
        total = self._make()
        if self._ledger.state.total_lags:
            self._ledger.sums.reset_marks(self._schema.arrays)
            for worker in self._ledger.sums.fingerprints():
                total.merge(self._ledger.sums.read(worker, self._schema))
        else:
            self._ledger.sums.reset_marks()
            if (saved := self._ledger.reader.total()) is not None:
                try:
                    total.merge(saved)
                except BadInput as error:
                    raise BadInput(
                        f"ledger {self._ledger.path}: {error}; use the job that it was made with, "
                        "or, if it is damaged, restore a backup"
                    ) from None
        self.total = total  # a damaged ledger leaves the total in memory

    def verify(self) -> None:
        """Raise an error if the total is not the sum of all workers."""
        parts = self._ledger.sums.fingerprints().values()
        if self._fingerprint(self.total.statistics) != sum(parts) % _PRIME:
            raise BadBytes(
                f"ledger {self._ledger.path}: the total is not the sum of its workers; "
                "compute it again by `dealfl restore LEDGER --to RUN --force`, or restore a backup"
            )

    def rebuild(self) -> None:
        """Compute the total again from the sums of all workers."""
        sums = self._ledger.sums
        for worker in sums.fingerprints():
            whole = sums.read(worker, self._schema)
            sums.replace(worker, whole, self._fingerprint(whole))
            self.total.merge(whole)
        sums.replace_total(self.total.statistics)
        self._put_total()

    def put_base(self, base: Statistics) -> None:
        """Store statistics that belong to no worker, in place of earlier ones."""
        self._add(base - self._ledger.sums.read(BASE, self._schema))
        self._ledger.sums.replace(BASE, base, self._fingerprint(base))
        self._put_total()
        self._ready |= self._held_back

    def _add(self, delta: Statistics) -> None:
        """Add to the total in memory; `_put_total` writes what changed."""
        self.total.merge(delta)
        self._ledger.sums.mark(delta)

    def save_total(self) -> str:
        """Write the total, if the stored one lags; return its digest."""
        if self._ledger.state.total_lags:
            self._put_total()
        return self.total.digest()

    def _put_total(self) -> None:
        self._ledger.change_state(total_lags=False, schema=self._schema, digest=self.total.digest())
        if self._ledger.sums.is_mostly_marked:  # reads all cells once, also for the publication
            self.snapshot = whole = self.total.statistics
            self._ledger.sums.put_total(
                self._schema, lambda name, *cells: whole[name].between(*cells)
            )
        else:
            self._ledger.sums.put_total(self._schema, self.total.entries)

    def _fingerprint(self, statistics: Statistics) -> int:
        key = self._ledger.state.fingerprint_key
        return statistics.fingerprint(int.from_bytes(key, "little"))

    def receive(self, row: WorkerRow, message: Update) -> Stored | Problem | None:
        """Store an update, or return why it cannot count; None if it is stored already."""
        if message.protocol != PROTOCOL:
            return Problem(
                f"update has protocol version {message.protocol}; this server supports {PROTOCOL}"
            )
        if message.incarnation != row.incarnation:
            return Problem(
                f"update has incarnation {message.incarnation}; the worker has {row.incarnation}"
            )
        stored = self._ledger.updates.find(row.name, message.incarnation, message.sequence)
        if stored is None and message.sequence <= row.counted:
            return Problem(_TOO_OLD, fatal=True)
        if stored is None:
            return self._store(row, message)
        if stored.withdrawn:
            return WITHDRAWN
        delta_hash = hashlib.sha256(message.delta).digest()
        is_same = stored.hash == self._ledger.updates.hash(message, delta_hash)
        return None if is_same else Problem(_CONFLICT, fatal=True)

    def _store(self, row: WorkerRow, message: Update) -> Stored | Problem:
        if isinstance(message, MaskedUpdate):
            return Problem(_MASKED)
        try:
            delta = Statistics.from_bytes(message.delta)
            self._schema.require_same(delta.schema)
            records = self.total.count_records(delta)
            if records is not None and abs(records) > MAX_EXAMPLES:
                reason = f"an update has {records:,} examples; the limit is 10⁹"
                raise Impossible(reason, reason)
        except BadInput as error:
            reason = describe_without_values(error, _NO_STATISTICS)
            return Problem(for_terminal(reason, MAX_NAME), fatal=True)
        is_next = self._find_place(row, message.sequence)
        if is_next is None:
            return AFTER_GAP
        examples = row.examples if is_next and not self.total.whole_owners else None
        self._ledger.updates.put(message)
        self._ready.add(row.name)
        if is_next:
            small = delta.nbytes < _KEPT_BYTES
            self._received[row.name, message.sequence] = delta if small else message.delta
        return Stored(records, examples, delta.is_zero)

    def _find_place(self, row: WorkerRow, sequence: int) -> bool | None:
        """Return whether no update is missing before a sequence; None: too many wait already."""
        updates = self._ledger.updates
        before = updates.count_stored(row, sequence)
        if before < sequence - row.counted - 1:
            return None if updates.count_stored(row) >= _MAX_AFTER_GAP else False
        claimed = min(max(row.forgetting_at, row.forgetting_later_at), row.counted + _MAX_CLAIMED)
        if before < _MAX_AFTER_GAP or sequence <= claimed:
            return True
        clean_from = self._clean_from(row, self._ledger.reader.count_shown())
        return True if clean_from <= sequence else None

    def withdraw(self, row: WorkerRow, message: Withdraw) -> bool | Problem:
        """Withdraw an update unless it is stored; return whether it never counts."""
        key = (row.name, row.incarnation, message.sequence)
        updates = self._ledger.updates
        stored = updates.find(*key)
        if stored is None and message.sequence <= row.counted:
            return Problem(_TOO_OLD, fatal=True)
        if stored is None:
            if self._find_place(row, message.sequence) is None:
                return AFTER_GAP
            updates.put_withdrawn(*key, message.successor)
            self._ready.add(row.name)
            return True
        is_other = message.hash and updates.keyed(message.hash) != stored.delta_hash
        if is_other and not stored.withdrawn:
            return Problem(_CONFLICT, fatal=True)
        return stored.withdrawn

    def leave(self, row: WorkerRow) -> None:
        """Let the sum of a worker leave the total, and delete its updates."""
        self.drop(row.name)

    def drop(self, worker: str) -> None:
        """Subtract a worker's sum from the total and delete its updates."""
        whole = self._ledger.sums.read(worker, self._schema)
        if not whole.is_zero:
            self._add(-whole)
            self._put_total()
            self._ready |= self._held_back
        self._ledger.sums.drop(worker)
        self._ledger.updates.drop(worker)
        for key in [key for key in self._received if key[0] == worker]:
            del self._received[key]  # the next incarnation uses the same sequences

    # -- what only a keyholder's answers change ---------------------------------------------------

    def restart_if_stale(self) -> bool:
        """Return whether all workers must begin a new incarnation."""
        return False

    def forgive(self, worker: str) -> None:
        """Forget why a worker was excluded."""

    @property
    def max_workers(self) -> float:
        """Number of workers whose sums fit the total."""
        return math.inf

    @property
    def forgotten_limit(self) -> float:
        """Number of erasure requests that nothing in the total contains, by sums that leave."""
        return math.inf

    def look_again(self, worker: str) -> None:
        """Note that more is known of what the updates of a worker are without."""
        if worker in self._awaited:
            self._awaited.discard(worker)
            self._ready.add(worker)

    def find_leaving(self, worker: str) -> int | None:  # noqa: ARG002
        """Return an ended incarnation that is still in the total; None if all have left it."""
        return None

    def holds(self, number: int, workers: Mapping[str, WorkerRow], now_s: float) -> bool:  # noqa: ARG002
        """Return whether a round must wait before it can be closed."""
        return False

    @property
    def held_until_s(self) -> float:
        """Until when a round waits."""
        return -math.inf

    def take_requests(self, now_s: float) -> list[Message]:  # noqa: ARG002
        """Return what must be sent to others than workers."""
        return []

    def wake_at_s(self, now_s: float) -> float:  # noqa: ARG002
        """Return when something must be sent to others than workers."""
        return math.inf

    # -- counting ----------------------------------------------------------------------------------

    def has_pending(self, now_s: float) -> bool:  # noqa: ARG002
        """Return whether `aggregate` may add anything."""
        return bool(self._ready)

    def aggregate(
        self,
        workers: Mapping[str, WorkerRow],
        rules: Rules,
        now_s: float,  # noqa: ARG002
    ) -> Aggregated:
        """Add stored updates to the sums, except after a gap or if a sum is impossible.

        The total in the ledger then lags, until `save_total`.
        """
        done = Aggregated({}, {}, {})
        shown = self._ledger.reader.count_shown()
        updates = self._ledger.updates
        for row in (workers[name] for name in sorted(self._ready | self._held_back)):
            clean_from = self._clean_from(row, shown)
            if clean_from and updates.last_sequence(row.name, row.incarnation) < clean_from:
                self._awaited.add(row.name)
                continue
            ready = without_open_withdrawals(list(updates.pending(row)))
            if ready and ready[-1].sequence >= clean_from:
                self._awaited.discard(row.name)
                self._count(row, ready, rules, done)
        if done.counted:
            self._ledger.change_state(total_lags=True)
        self._ready = set()
        self._held_back = set(done.held_back)
        self._received.clear()
        return done

    def _clean_from(self, row: WorkerRow, shown: int) -> float:
        """Return the update from which on a sum has nobody whose leaving a version has shown.

        Who joins or begins again says it in an announcement; until then nothing of it is added.
        """
        needed = max(shown, row.joined)
        if row.forgotten >= needed:
            return 0
        at = row.forgetting_at if row.forgetting >= needed else row.forgetting_later_at
        is_known = max(row.forgetting, row.forgetting_later) >= needed
        return at if is_known and not self._ledger.updates.is_disputed(row, at) else math.inf

    def _count(self, row: WorkerRow, ready: list[Pending], rules: Rules, done: Aggregated) -> None:
        try:
            delta = self._delta_of(row, ready)
            changed = self._ledger.sums.add(row.name, delta)
            if row.devices is None:
                self._require_allowed(changed, rules)
            self._scratch.check_added(delta, changed.touched, changed.whole)
        except (ValueError, ArithmeticError) as error:
            reason = "diverged: " + describe_without_values(error, _IMPOSSIBLE)
            done.diverged[row.name] = reason
            return
        try:
            self._add(delta)
        except BadInput:  # others may have filled the total
            new = not row.flag.startswith(_FULL)
            done.held_back[row.name] = _FULL + self._find_largest() if new else row.flag
            return
        fingerprint = (changed.fingerprint + self._fingerprint(delta)) % _PRIME
        self._ledger.sums.put(changed, fingerprint)
        self._ledger.updates.delete_deltas(row.name, row.incarnation, ready[-1].sequence)
        done.counted[row.name] = ready[-1].sequence

    def _delta_of(self, row: WorkerRow, ready: list[Pending]) -> Statistics:
        delta = None
        for update in ready:
            if not update.withdrawn:
                part = self._received.pop((row.name, update.sequence), None)
                if part is None:
                    part = self._ledger.updates.read_delta(row, update.sequence)
                if isinstance(part, bytes):  # they were checked when they were stored
                    part = Statistics.from_bytes(part, trusted=True)
                delta = part if delta is None else delta + part
        return Statistics.zero(self._schema) if delta is None else delta

    def _find_largest(self) -> str:
        """Return the worker whose sum has the largest integer."""
        largest = {}
        for worker in self._ledger.sums.fingerprints():
            arrays = self._ledger.sums.read(worker, self._schema).arrays.values()
            values = [abs(value) for entries in arrays for value in entries.values.tolist()]
            largest[worker] = max(values, default=0)
        return max(largest, key=largest.__getitem__, default="nobody") or "the base of the job"

    def _require_allowed(self, changed: ChangedSum, rules: Rules) -> None:
        """Refuse a sum that is possible but absurd: it could fill the total."""
        counts = {
            "max_examples": self.total.count_records(changed.whole) or 0,
            "max_cells": changed.cells,
        }
        for name, count in counts.items():
            limit = getattr(rules, name)
            if count > limit:
                reason = f"a worker has {count:,} of {name} = {limit:,}"
                raise Impossible(reason, reason)


def without_open_withdrawals(updates: list[Pending]) -> list[Pending]:
    """Return what can be added: not what follows a withdrawn update, up to its successor."""
    last = updates[-1].sequence if updates else 0
    waiting = (index for index, update in enumerate(updates) if update.successor > last)
    return updates[: next(waiting, len(updates))]
