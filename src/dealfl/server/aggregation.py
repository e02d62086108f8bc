"""Aggregation: each worker's sum, the total, and every update in them exactly once, in order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from dealfl.errors import BadInput
from dealfl.learners import Learner
from dealfl.messages import PROTOCOL, Update
from dealfl.server.ledger import Ledger
from dealfl.server.tables import Pending, WorkerRow
from dealfl.statistics import Statistics

__all__ = ["Aggregated", "Aggregation", "Problem"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an update cannot count; after a fatal one the worker begins a new incarnation."""

    reason: str
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class Aggregated:
    """Up to which sequence workers' updates are counted now, and whose sums are impossible."""

    counted: dict[str, int]
    diverged: dict[str, str]


class Aggregation:
    """Puts updates on record, and adds them to the sums when a round closes."""

    def __init__(self, ledger: Ledger, make: Callable[[], Learner]) -> None:
        self._ledger, self._make = ledger, make
        self.total = make()
        self._schema = self.total.schema
        self.schema_digest = self._schema.digest()
        self._scratch = make()  # empty between uses: it only checks sums
        self._decoded: dict[tuple[str, int], Statistics] = {}  # deltas on record

    def load(self) -> None:
        """Reload the total from the ledger."""
        self._decoded.clear()
        saved = self._ledger.total()
        self.total = self._make()
        if saved is not None:
            self.total.merge(Statistics.from_bytes(saved))

    def receive(self, row: WorkerRow, message: Update) -> Problem | None:
        """Put an update on record, or return why it cannot count."""
        if message.protocol != PROTOCOL:
            return Problem(f"protocol {message.protocol}; this server speaks {PROTOCOL}")
        if message.sequence < 1:
            return Problem(f"number {message.sequence}; updates are numbered from 1 on")
        if message.incarnation != row.incarnation:
            return Problem(f"incarnation {message.incarnation}; it is {row.incarnation} now")
        key = (row.name, message.incarnation, message.sequence)
        known = self._ledger.known_update(*key)
        if known is not None:
            sha256, withdrawn = known
            if withdrawn:
                return Problem("withdrawn")
            same = sha256 == hashlib.sha256(message.delta).digest()
            return None if same else Problem("same key, other content", fatal=True)
        try:
            delta = Statistics.from_bytes(message.delta)
            self._schema.require_same(delta.schema)
        except BadInput as error:
            return Problem(str(error), fatal=True)
        self._ledger.put_update(*key, message.delta)
        self._decoded[row.name, message.sequence] = delta
        return None

    def withdraw(self, row: WorkerRow, sequence: int) -> bool:
        """Withdraw an update unless it is on record; return whether it will never count."""
        known = self._ledger.known_update(row.name, row.incarnation, sequence)
        if known is None:
            self._ledger.put_withdrawn(row.name, row.incarnation, sequence)
            return True
        return known[1]

    def drop(self, worker: str) -> None:
        """Take a worker's sum out of the total, and its updates off the record."""
        saved = self._ledger.sum_of(worker)
        if saved is not None:
            self.total.merge(-Statistics.from_bytes(saved))
            self._ledger.put_total(self.total.statistics.to_bytes())
        self._ledger.put_sum(worker, None)
        self._ledger.drop_updates(worker)
        self._decoded = {key: one for key, one in self._decoded.items() if key[0] != worker}

    def has_pending(self, workers: dict[str, WorkerRow]) -> bool:
        """Return whether `aggregate` would add anything."""
        first = self._ledger.first_pending()
        return any(sequence == workers[name].counted + 1 for name, sequence in first.items())

    def aggregate(self, workers: dict[str, WorkerRow]) -> Aggregated:
        """Add the updates on record to the sums, except behind a gap or if a sum is impossible."""
        counted, diverged = {}, {}
        for name, updates in self._ledger.pending().items():
            ready = _without_gap(updates, workers[name].counted)
            if not ready:
                continue
            try:
                self._add(workers[name], ready)
            except BadInput as error:
                diverged[name] = f"diverged: {error}"
            else:
                counted[name] = ready[-1].sequence
        self._ledger.put_total(self.total.statistics.to_bytes())
        self._decoded.clear()
        return Aggregated(counted, diverged)

    def _add(self, row: WorkerRow, ready: list[Pending]) -> None:
        delta = Statistics.zero(self._schema)
        for update in ready:
            if update.delta is not None:
                known = self._decoded.get((row.name, update.sequence))
                delta = delta + (Statistics.from_bytes(update.delta) if known is None else known)
        saved = self._ledger.sum_of(row.name)
        whole = delta + Statistics.from_bytes(saved) if saved else delta
        self._require_possible(whole)
        self.total.merge(delta)
        self._ledger.put_sum(row.name, whole.to_bytes())
        self._ledger.delete_deltas(row.name, row.incarnation, ready[-1].sequence)

    def _require_possible(self, whole: Statistics) -> None:
        self._scratch.merge(whole)
        try:
            self._scratch.check()
        finally:
            self._scratch.merge(-whole)


def _without_gap(updates: list[Pending], counted: int) -> list[Pending]:
    """Return the updates that follow on what was counted; those behind a gap wait."""
    ready: list[Pending] = []
    for update in updates:
        if update.sequence != counted + len(ready) + 1:
            break
        ready.append(update)
    return ready
