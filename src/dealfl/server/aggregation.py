"""The books: each worker's sum, the total, and every update in them exactly once, in order."""

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

__all__ = ["Books", "Problem"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an update can not count; a fatal one means that the worker must begin anew."""

    reason: str
    fatal: bool = False


class Books:
    """Puts updates on record, and folds them into sums when a round closes."""

    def __init__(self, ledger: Ledger, make: Callable[[], Learner]) -> None:
        self._ledger, self._make = ledger, make
        self.total = make()
        self._schema = self.total.schema
        self.schema_digest = hashlib.sha256(self._schema.canonical()).hexdigest()
        self._folded: dict[str, int] = {}
        self._scratch = make()  # empty between uses: it only checks sums
        self._read: dict[tuple[str, int], Statistics] = {}  # what is on record, read already

    def load(self) -> None:
        """Go on from the ledger's checkpoint."""
        self._read.clear()
        saved = self._ledger.total()
        self.total = self._make()
        if saved is not None:
            self.total.merge(Statistics.from_bytes(saved))

    def receive(self, row: WorkerRow, message: Update) -> Problem | None:
        """Put an update on record, or return why it can not count."""
        if message.protocol != PROTOCOL:
            return Problem(f"protocol {message.protocol}; this server speaks {PROTOCOL}")
        if message.sequence < 1:
            return Problem(f"number {message.sequence}; updates are numbered from 1 on")
        if message.incarnation != row.incarnation:
            return Problem(f"incarnation {message.incarnation}; it is {row.incarnation} now")
        key = (row.name, message.incarnation, message.sequence)
        known = self._ledger.content_of(*key)
        if known is not None:
            content, withdrawn = known
            if withdrawn:
                return Problem("withdrawn")
            same = content == hashlib.sha256(message.delta).digest()
            return None if same else Problem("same key, other content", fatal=True)
        try:
            delta = Statistics.from_bytes(message.delta)
            self._schema.require_same(delta.schema)
        except BadInput as error:
            return Problem(str(error), fatal=True)
        self._ledger.put_update(*key, message.delta)
        self._read[row.name, message.sequence] = delta
        return None

    def withdraw(self, row: WorkerRow, sequence: int) -> bool:
        """Return whether an update will never count: it had not been on record before."""
        known = self._ledger.content_of(row.name, row.incarnation, sequence)
        if known is None:
            self._ledger.put_withdrawn(row.name, row.incarnation, sequence)
            return True
        return known[1]

    def strike(self, worker: str) -> None:
        """Take a worker's sum out of the total, and its updates off the record."""
        saved = self._ledger.sum_of(worker)
        if saved is not None:
            self.total.merge(-Statistics.from_bytes(saved))
            self._ledger.put_total(self.total.statistics.to_bytes())
        self._ledger.put_sum(worker, None)
        self._ledger.drop_updates(worker)
        self._read = {key: read for key, read in self._read.items() if key[0] != worker}

    def anything_ready(self, workers: dict[str, WorkerRow]) -> bool:
        """Whether folding would add anything."""
        first = {name: numbers[0] for name, numbers in self._ledger.waiting().items()}
        return any(number == workers[name].folded + 1 for name, number in first.items())

    def fold(self, workers: dict[str, WorkerRow]) -> list[tuple[str, str]]:
        """Add what is on record to the sums; return who said what can not be, and what."""
        diverged = []
        self._folded = {}
        for name, updates in self._ledger.pending().items():
            ready = _without_gap(updates, workers[name].folded)
            if not ready:
                continue
            try:
                self._fold_one(workers[name], ready)
            except BadInput as error:
                diverged.append((name, f"diverged: {error}"))
        self._ledger.put_total(self.total.statistics.to_bytes())
        self._read.clear()
        return diverged

    def _fold_one(self, row: WorkerRow, ready: list[Pending]) -> None:
        delta = Statistics.zero(self._schema)
        for update in ready:
            if update.delta is not None:
                read = self._read.get((row.name, update.sequence))
                delta = delta + (Statistics.from_bytes(update.delta) if read is None else read)
        saved = self._ledger.sum_of(row.name)
        whole = delta + Statistics.from_bytes(saved) if saved else delta
        self._require_possible(whole)
        self.total.merge(delta)
        self._ledger.put_sum(row.name, whole.to_bytes())
        self._ledger.mark_folded(row.name, row.incarnation, ready[-1].sequence)
        self._folded[row.name] = ready[-1].sequence

    def _require_possible(self, whole: Statistics) -> None:
        self._scratch.merge(whole)
        try:
            self._scratch.check()
        finally:
            self._scratch.merge(-whole)

    def folded(self) -> list[tuple[str, int]]:
        """Return whose updates were folded last time, and up to which number."""
        return sorted(self._folded.items())


def _without_gap(updates: list[Pending], folded: int) -> list[Pending]:
    """Return the updates that follow on what was folded; those behind a gap wait."""
    ready: list[Pending] = []
    for update in updates:
        if update.sequence != folded + len(ready) + 1:
            break
        ready.append(update)
    return ready
