"""Aggregation: the sum of each worker, the total, and each update in them once and in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dealfl.bounds import MAX_EXAMPLES, MAX_NAME
from dealfl.errors import BadBytes, BadInput, Impossible, describe_without_values
from dealfl.escaping import for_terminal
from dealfl.learners import Learner
from dealfl.messages import PROTOCOL, Update, Withdraw
from dealfl.server.claims import Stored
from dealfl.server.ledger import Ledger
from dealfl.server.stores import Pending
from dealfl.server.tables import WorkerRow
from dealfl.server.terms import Terms
from dealfl.statistics import Statistics

__all__ = ["BEHIND_GAP", "WITHDRAWN", "Aggregated", "Aggregation", "Problem", "rebuild_total"]

_BASE = ""  # stands for no worker
_PRIME = (1 << 61) - 1  # of fingerprints
_NO_STATISTICS = "bytes that are not statistics of this job"
_FULL = "held back: the total is full; the largest sum is that of "
_MAX_BEHIND_GAP = 64  # stored updates of a worker, if one before them is missing
_IMPOSSIBLE, _CONFLICT = "no examples have this sum", "another update with this sequence exists"


@dataclass(frozen=True, slots=True)
class Problem:
    """The reason why an update cannot count. After a fatal one, a new incarnation starts."""

    reason: str
    fatal: bool = False


WITHDRAWN = Problem("update was withdrawn")
BEHIND_GAP = Problem("an update is missing; later ones are not stored")


@dataclass(frozen=True, slots=True)
class Aggregated:
    """The last counted sequence of each worker, and why others were not counted."""

    counted: dict[str, int]
    diverged: dict[str, str]
    held_back: dict[str, str]


class Aggregation:
    """Store updates, and add them to the sums when a round closes."""

    def __init__(self, ledger: Ledger, make: Callable[[], Learner]) -> None:
        self._ledger, self._make = ledger, make
        self.total = make()
        self._schema = self.total.schema
        self.schema_digest = self._schema.digest()
        self._scratch = make()  # empty between uses; it checks sums
        self._decoded: dict[tuple[str, int], Statistics] = {}  # stored deltas
        self._ready: set[str] = set()  # workers with updates that may be added
        self._held: set[str] = set()  # workers whose updates do not fit into the total

    def load(self) -> None:
        """Reload the total from the ledger."""
        self._decoded.clear()
        self._ready, self._held = set(self._ledger.updates.waiting()), set()
        saved = self._ledger.total()
        self.total = self._make()
        if saved is not None:
            self.total.merge(Statistics.from_bytes(saved))

    def verify(self) -> None:
        """Raise an error if the total is not the sum of all workers."""
        parts = self._ledger.updates.fingerprints().values()
        if self._fingerprint(self.total.statistics) != sum(parts) % _PRIME:
            raise BadBytes(
                f"ledger {self._ledger.path}: the total is not the sum of its workers; "
                "rebuild it with `dealfl workers rebuild`, or restore a backup"
            )

    def rebuild(self) -> None:
        """Compute the total again from the sums of all workers."""
        for worker in self._ledger.updates.fingerprints():
            whole = self._sum_of(worker)
            self._put_sum(worker, whole, self._fingerprint(whole))
            self.total.merge(whole)
        self._put_total()

    def put_base(self, base: Statistics) -> None:
        """Store statistics that belong to no worker, in place of earlier ones."""
        self.total.merge(base - self._sum_of(_BASE))
        self._put_sum(_BASE, base, self._fingerprint(base))
        self._put_total()
        self._ready |= self._held

    def _sum_of(self, worker: str) -> Statistics:
        saved, zero = self._ledger.find_sum(worker), Statistics.zero(self._schema)
        return zero if saved is None else Statistics.from_bytes(saved, trusted=True)

    def _put_sum(self, worker: str, whole: Statistics, fingerprint: int) -> None:
        self._ledger.updates.put_sum(worker, whole.to_bytes(), fingerprint)

    def _put_total(self) -> None:
        self._ledger.updates.put_total(self.total.statistics.to_bytes())

    def _fingerprint(self, statistics: Statistics) -> int:
        key = self._ledger.setting("fingerprint_key")
        return statistics.fingerprint(int.from_bytes(key, "little"))

    def receive(self, row: WorkerRow, message: Update) -> Stored | Problem | None:
        """Store an update, or return why it cannot count; None if it is stored already."""
        if message.protocol != PROTOCOL:
            given = message.protocol
            return Problem(f"update has protocol version {given}; this server supports {PROTOCOL}")
        if message.incarnation != row.incarnation:
            given = message.incarnation
            return Problem(f"update has incarnation {given}; the worker has {row.incarnation}")
        known = self._ledger.find_update(row.name, message.incarnation, message.sequence)
        if known is None:
            return self._store(row, message)
        if known[1]:
            return WITHDRAWN
        return None if self._ledger.updates.is_same(message) else Problem(_CONFLICT, fatal=True)

    def _store(self, row: WorkerRow, message: Update) -> Stored | Problem:
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
        stored = self._ledger.updates.count_stored(row, message.sequence)
        is_next = stored == message.sequence - row.counted - 1
        if not is_next and self._ledger.updates.count_stored(row) >= _MAX_BEHIND_GAP:
            return BEHIND_GAP
        held = row.examples if is_next and not self.total.whole_owners else None
        self._ledger.updates.put(message)
        self._ready.add(row.name)
        if is_next:
            self._decoded[row.name, message.sequence] = delta
        return Stored(records, held, delta.is_zero)

    def withdraw(self, row: WorkerRow, message: Withdraw) -> bool | Problem:
        """Withdraw an update unless it is stored; return whether it never counts."""
        key = (row.name, row.incarnation, message.sequence)
        known, updates = self._ledger.find_update(*key), self._ledger.updates
        if known is None:
            updates.put_withdrawn(*key, message.successor)
            self._ready.add(row.name)
            return True
        stored, withdrawn = known
        if not withdrawn and message.hash and updates.keyed(message.hash) != stored:
            return Problem(_CONFLICT, fatal=True)
        return withdrawn

    def drop(self, worker: str) -> None:
        """Subtract a worker's sum from the total and delete its updates."""
        if self._ledger.find_sum(worker) is not None:
            self.total.merge(-self._sum_of(worker))
            self._put_total()
            self._ready |= self._held
        self._ledger.updates.drop(worker)

    @property
    def has_pending(self) -> bool:
        """Whether `aggregate` may add anything."""
        return bool(self._ready)

    def aggregate(self, workers: dict[str, WorkerRow], terms: Terms) -> Aggregated:
        """Add stored updates to the sums, except after a gap or if a sum is impossible."""
        done = Aggregated({}, {}, {})
        for row in (workers[name] for name in sorted(self._ready | self._held)):
            if ready := _without_open_withdrawals(list(self._ledger.updates.pending(row))):
                self._count(row, ready, terms, done)
        if done.counted:
            self._put_total()
        self._ready, self._held = set(), set(done.held_back)
        self._decoded.clear()
        return done

    def _count(self, row: WorkerRow, ready: list[Pending], terms: Terms, done: Aggregated) -> None:
        try:
            delta = self._delta_of(row, ready)
            whole = delta + self._sum_of(row.name)
            self._require_allowed(whole, terms)
            self._scratch.check_statistics(whole)
        except (ValueError, ArithmeticError) as error:
            reason = "diverged: " + describe_without_values(error, _IMPOSSIBLE)
            done.diverged[row.name] = reason
            return
        try:
            self.total.merge(delta)
        except BadInput:  # others may have filled the total
            new = not row.flag.startswith(_FULL)
            done.held_back[row.name] = _FULL + self._find_largest() if new else row.flag
            return
        known = self._ledger.updates.find_fingerprint(row.name)
        self._put_sum(row.name, whole, (known + self._fingerprint(delta)) % _PRIME)
        self._ledger.updates.delete_deltas(row.name, row.incarnation, ready[-1].sequence)
        done.counted[row.name] = ready[-1].sequence

    def _delta_of(self, row: WorkerRow, ready: list[Pending]) -> Statistics:
        delta = None
        for update in ready:
            if update.delta is not None:
                known = self._decoded.get((row.name, update.sequence))
                part = Statistics.from_bytes(update.delta) if known is None else known
                delta = part if delta is None else delta + part
        return Statistics.zero(self._schema) if delta is None else delta

    def _find_largest(self) -> str:
        """Return the worker whose sum has the largest integer."""
        largest = {}
        for worker in self._ledger.updates.fingerprints():
            arrays = self._sum_of(worker).arrays.values()
            values = [abs(value) for entries in arrays for value in entries.values.tolist()]
            largest[worker] = max(values, default=0)
        return max(largest, key=largest.__getitem__, default="nobody") or "the base of the job"

    def _require_allowed(self, whole: Statistics, terms: Terms) -> None:
        """Refuse a sum that is possible but absurd: it could fill the total."""
        cells = sum(len(whole[name]) for name in whole)
        examples = self.total.count_records(whole) or 0
        for name, most, found in (
            ("max_examples", terms.max_examples, examples), ("max_cells", terms.max_cells, cells),
        ):  # fmt: skip
            if found > most:
                reason = f"a worker has {found:,} of {name} = {most:,}"
                raise Impossible(reason, reason)


def _without_open_withdrawals(updates: list[Pending]) -> list[Pending]:
    """Return what can be added: not what follows a withdrawn update, up to its successor."""
    last = updates[-1].sequence if updates else 0
    open_ = (place for place, update in enumerate(updates) if update.successor > last)
    return updates[: next(open_, len(updates))]


def rebuild_total(ledger: Ledger, make: Callable[[], Learner]) -> Learner:
    """Compute the total of a ledger again from the sums of all workers.

    Parameters
    ----------
    ledger : Ledger
        A ledger that no server uses.
    make : callable
        Function without arguments that returns an empty learner of the job.

    Returns
    -------
    Learner
        The model.
    """
    aggregation = Aggregation(ledger, make)
    with ledger.transaction(ledger.claim()):
        aggregation.rebuild()
    return aggregation.total
