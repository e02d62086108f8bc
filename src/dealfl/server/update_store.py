"""The updates that a ledger holds: with their deltas until they count, then as hashes."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from dealfl.errors import BadBytes
from dealfl.protocol import Update
from dealfl.server.tables import WorkerRow
from dealfl.storage import Database

__all__ = ["Pending", "UpdateStore"]

_LARGE = 1 << 16  # bytes of a delta that is written at the end of a transaction, if at all

Key = tuple[str, int, int]  # worker, incarnation, sequence


@dataclass(frozen=True, slots=True)
class Pending:
    """An update that is stored and not counted yet; a withdrawn one has no delta."""

    sequence: int
    withdrawn: bool
    successor: int = 0  # contains the rest of a withdrawn one


class UpdateStore:
    """The updates of workers."""

    def __init__(self, ledger: Database, setting: Callable[[str], bytes]) -> None:
        self._ledger, self._run, self._setting = ledger, ledger.execute, setting
        self._unwritten: dict[Key, bytes] = {}  # large deltas of this transaction

    def forget_cached(self) -> None:
        """Forget the deltas that are not written."""
        self._unwritten.clear()

    def put(self, update: Update) -> None:
        """Store an update; a large delta only if it does not count in the same transaction."""
        key = (update.worker, update.incarnation, update.sequence)
        delta_hash = hashlib.sha256(update.delta).digest()
        delta: bytes | None = update.delta
        if len(update.delta) >= _LARGE:
            self._unwritten[key], delta = update.delta, None
        row = (*key, self._hash(update, delta_hash), self.keyed(delta_hash), 0, delta, 0)
        self._run("INSERT INTO updates VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def write_deltas(self) -> None:
        """Write the large deltas that do not count yet, before the transaction is committed."""
        query = "UPDATE updates SET delta = ? WHERE worker = ? AND incarnation = ? AND sequence = ?"
        for key, delta in self._unwritten.items():
            self._run(query, (delta, *key))
        self._unwritten.clear()

    def keyed(self, content: bytes) -> bytes:
        """Return the HMAC-SHA256 of bytes: without its key, a hash of a person's data tells none.

        The key is drawn for each ledger.
        """
        return hmac.digest(self._setting("fingerprint_key"), content, hashlib.sha256)

    def _hash(self, update: Update, delta: bytes) -> bytes:
        """Return the hash of all fields of an update but the process that has sent it."""
        plain = msgspec.structs.replace(update, session=0, delta=delta)
        return self.keyed(msgspec.msgpack.encode(plain))

    def is_same(self, update: Update) -> bool:
        """Return whether the stored update with this key has the same content."""
        query = "SELECT sha256 FROM updates WHERE worker = ? AND incarnation = ? AND sequence = ?"
        key = (update.worker, update.incarnation, update.sequence)
        stored = self._run(query, key).fetchone()[0]
        hashed = hashlib.sha256(update.delta).digest()
        # earlier versions took the delta itself
        return any(stored == self._hash(update, delta) for delta in (hashed, update.delta))

    def count_stored(self, row: WorkerRow, before: int = 2**62) -> int:
        """Return how many updates of a worker are stored and not counted, before a sequence."""
        query = (
            "SELECT count(*) FROM updates WHERE worker = ? AND incarnation = ? "
            "AND sequence > ? AND sequence < ?"
        )
        key = (row.name, row.incarnation, row.counted, before)
        return int(self._run(query, key).fetchone()[0])

    def put_withdrawn(self, worker: str, incarnation: int, sequence: int, successor: int) -> None:
        """Store that an update never counts; its successor contains the rest of it."""
        row = (worker, incarnation, sequence, None, None, 1, b"", successor)
        self._run("INSERT INTO updates VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def waiting(self) -> list[str]:
        """Return the workers with updates that are not counted yet."""
        rows = self._run(
            "SELECT DISTINCT u.worker FROM updates u "
            "JOIN workers w ON w.name = u.worker AND w.incarnation = u.incarnation "
            "WHERE u.delta IS NOT NULL ORDER BY u.worker"
        )
        return [name for (name,) in rows]

    def pending(self, row: WorkerRow) -> Iterator[Pending]:
        """Yield the updates of a worker that are not counted yet, up to the first gap."""
        query = (  # a successor is stored behind a delta, which takes time to read
            "SELECT sequence, withdrawn, iif(withdrawn, successor, 0) FROM updates "
            "WHERE worker = ? AND incarnation = ? AND sequence > ? ORDER BY sequence"
        )
        found = self._run(query, (row.name, row.incarnation, row.counted))
        for expected, (sequence, withdrawn, successor) in enumerate(found, row.counted + 1):
            if sequence != expected:
                return
            yield Pending(sequence, bool(withdrawn), successor)

    def read_delta(self, row: WorkerRow, sequence: int) -> bytes:
        """Return the delta of a stored update."""
        if (unwritten := self._unwritten.get((row.name, row.incarnation, sequence))) is not None:
            return unwritten
        query = (
            "SELECT delta, delta_sha256 FROM updates "
            "WHERE worker = ? AND incarnation = ? AND sequence = ?"
        )
        delta, sha256 = self._run(query, (row.name, row.incarnation, sequence)).fetchone()
        if self.keyed(hashlib.sha256(delta).digest()) != sha256:
            raise BadBytes(
                f"ledger {self._ledger.path}: update {sequence} of {row.name} is damaged"
            )
        return bytes(delta)

    def recorded_through(self, worker: str, incarnation: int, counted: int) -> int:
        """Return the sequence up to which no update is missing; all up to `counted` are there."""
        query = (
            "SELECT sequence FROM updates WHERE worker = ? AND incarnation = ? AND sequence > ? "
            "ORDER BY sequence"
        )
        for (sequence,) in self._run(query, (worker, incarnation, counted)):
            if sequence != counted + 1:
                break
            counted = sequence
        return counted

    def last_sequence(self, worker: str, incarnation: int) -> int:
        """Return the highest stored sequence of a worker's updates; 0 if there is none."""
        query = (
            "SELECT coalesce(max(sequence), 0) FROM updates WHERE worker = ? AND incarnation = ?"
        )
        return int(self._run(query, (worker, incarnation)).fetchone()[0])

    def delete_deltas(self, worker: str, incarnation: int, last: int) -> None:
        """Delete the deltas of counted updates; their keys and hashes remain."""
        self._ledger.note_deletion()
        self._unwritten = {
            key: delta
            for key, delta in self._unwritten.items()
            if key[:2] != (worker, incarnation) or key[2] > last
        }
        self._run(
            "UPDATE updates SET delta = NULL WHERE worker = ? AND incarnation = ? AND sequence <= ?"
            " AND delta IS NOT NULL",
            (worker, incarnation, last),
        )

    def drop(self, worker: str) -> None:
        """Delete all updates of a worker."""
        self._ledger.note_deletion()
        self._unwritten = {k: delta for k, delta in self._unwritten.items() if k[0] != worker}
        self._run("DELETE FROM updates WHERE worker = ?", (worker,))
