"""What the server writes into its ledger: updates, and rounds."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from dealfl.database import Database
from dealfl.errors import BadBytes
from dealfl.messages import Update
from dealfl.server.tables import ClosedRound, OpenRound, WorkerRow

__all__ = ["RoundStore", "UpdateStore"]


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

    def put(self, update: Update) -> None:
        """Store an update."""
        key = (update.worker, update.incarnation, update.sequence)
        delta_hash = hashlib.sha256(update.delta).digest()
        row = (*key, self._hash(update, delta_hash), self.keyed(delta_hash), 0, update.delta, 0)
        self._run("INSERT INTO updates VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

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
        self._run(
            "UPDATE updates SET delta = NULL WHERE worker = ? AND incarnation = ? AND sequence <= ?"
            " AND delta IS NOT NULL",
            (worker, incarnation, last),
        )

    def drop(self, worker: str) -> None:
        """Delete all updates of a worker."""
        self._ledger.note_deletion()
        self._run("DELETE FROM updates WHERE worker = ?", (worker,))


class RoundStore:
    """The rounds, and the workers selected in them."""

    def __init__(self, ledger: Database, find_open: Callable[[], OpenRound | None]) -> None:
        self._run, self._find_open = ledger.execute, find_open
        self._current: tuple[int, OpenRound | None] | None = None  # every message asks for it
        self._examples: tuple[int, int] | None = None  # learned and evicted in all replies

    def forget_cached(self) -> None:
        """Read the rounds again when they are needed."""
        self._examples = self._current = None

    def current(self) -> tuple[int, OpenRound | None]:
        """Return the number of the last round, and the open round."""
        if self._current is None:
            (last,) = self._run("SELECT coalesce(max(number), 0) FROM rounds").fetchone()
            self._current = int(last), self._find_open()
        return self._current

    def count_examples(self) -> tuple[int, int]:
        """Return how many examples were learned and evicted in all replies."""
        if self._examples is None:
            query = "SELECT coalesce(sum(learned), 0), coalesce(sum(evicted), 0) FROM selections"
            learned, evicted = self._run(query).fetchone()
            self._examples = int(learned), int(evicted)
        return self._examples

    def open(
        self,
        number: int,
        opened_s: float,
        deadline_s: float,
        selected: Mapping[str, int],
        eligible: int,
    ) -> None:
        """Open a round for workers with waiting examples; `eligible` counts all candidates."""
        self._current = None
        self._run(
            "INSERT INTO rounds (number, opened_s, deadline_s, eligible) VALUES (?, ?, ?, ?)",
            (number, opened_s, deadline_s, eligible),
        )
        query = "INSERT INTO selections (round, worker, waiting) VALUES (?, ?, ?)"
        for worker, waiting in selected.items():
            self._run(query, (number, worker, waiting))

    def shift(self, row: OpenRound) -> None:
        """Change the opening and the deadline of a round."""
        self._current = None
        times = (row.opened_s, row.deadline_s, row.number)
        self._run("UPDATE rounds SET opened_s = ?, deadline_s = ? WHERE number = ?", times)

    def close(self, number: int, closed_s: float, reason: str, digest: str) -> None:
        """Close a round."""
        self._current = None
        self._run(
            "UPDATE rounds SET closed_s = ?, reason = ?, digest = ? WHERE number = ?",
            (closed_s, reason, digest, number),
        )

    def find_last_closed(self) -> ClosedRound | None:
        """Return the last closed round; None before the first."""
        query = (
            "SELECT number, reason, closed_s - opened_s, digest FROM rounds "
            "WHERE closed_s IS NOT NULL ORDER BY number DESC LIMIT 1"
        )
        row = self._run(query).fetchone()
        return None if row is None else ClosedRound(*row)

    def find_selection(self, number: int, row: WorkerRow) -> tuple[float, int, float, str]:
        """Return when a round was opened, and a worker's announced examples, energy and θ.

        Energy is assumed, and 0 if the round was closed before the worker's budget began.
        """
        query = (
            "SELECT r.opened_s, s.waiting, iif(r.closed_s >= ?, s.assumed_j, 0.0), "
            "s.forget_fraction FROM rounds r JOIN selections s ON s.round = r.number "
            "WHERE r.number = ? AND s.worker = ?"
        )
        key = (row.spent_since_s, number, row.name)
        opened_s, waiting, assumed_j, fraction = self._run(query, key).fetchone()
        return float(opened_s), int(waiting), float(assumed_j), str(fraction)

    def put_fraction(self, number: int, worker: str, fraction: str | None) -> str | None:
        """Store the θ of a worker in a round, and return it; the first one stays."""
        if fraction is None:
            return None
        key = "WHERE round = ? AND worker = ?"
        self._run(
            f"UPDATE selections SET forget_fraction = ? {key} AND forget_fraction = ''",  # noqa: S608
            (fraction, number, worker),
        )
        query = f"SELECT forget_fraction FROM selections {key}"  # noqa: S608
        return str(self._run(query, (number, worker)).fetchone()[0])

    def selected(self, number: int) -> dict[str, float | None]:
        """Return the time of the reply by selected worker; None without a reply."""
        rows = self._run(
            "SELECT worker, replied_s FROM selections WHERE round = ? ORDER BY worker", (number,)
        )
        return dict(rows.fetchall())

    def count_selected_since(self, opened_s: float) -> int:
        """Return how many workers were selected in rounds opened after a time."""
        query = "SELECT count(*) FROM rounds JOIN selections ON round = number WHERE opened_s > ?"
        return int(self._run(query, (opened_s,)).fetchone()[0])

    def find_unanswered(self, worker: str, after: int) -> int | None:
        """Return the last round of a worker, if it is after another one and not answered."""
        query = (
            "SELECT round FROM selections WHERE worker = ?1 AND round > ?2 AND replied_s IS NULL "
            "AND round = (SELECT max(round) FROM selections WHERE worker = ?1)"
        )
        found = self._run(query, (worker, after)).fetchone()
        return None if found is None else int(found[0])

    def count_replies(self, number: int) -> tuple[int, int, int]:
        """Return how many workers were selected in a round, sent an update, and declined."""
        query = (
            "SELECT count(*), count(replied_s), count(nullif(declined, '')) "
            "FROM selections WHERE round = ?"
        )
        selected, replied, declined = self._run(query, (number,)).fetchone()
        return int(selected), int(replied) - int(declined), int(declined)

    def put_reply(self, number: int, worker: str, replied_s: float, declined: str = "") -> bool:
        """Store a reply; return False if the worker was not selected or has replied already."""
        self._current = None
        cursor = self._run(
            "UPDATE selections SET replied_s = ?, declined = ? "
            "WHERE round = ? AND worker = ? AND replied_s IS NULL",
            (replied_s, declined, number, worker),
        )
        return cursor.rowcount > 0

    def put_figures(self, update: Update, reward: float) -> None:
        """Store the work, the cost and the reward of a first reply."""
        learned, evicted = self.count_examples()
        self._examples = learned + update.learned, evicted + update.evicted
        self._run(
            "UPDATE selections SET learned = ?, evicted = ?, operations = ?, elapsed_s = ?, "
            "energy_j = ?, reward = ? WHERE round = ? AND worker = ?",
            (update.learned, update.evicted, update.operations, update.elapsed_s, update.energy_j,
             reward, update.round, update.worker),
        )  # fmt: skip

    def put_assumed(self, number: int, worker: str, energy_j: float) -> None:
        """Store the energy assumed for a worker without a reply."""
        self._run(
            "UPDATE selections SET assumed_j = ? WHERE round = ? AND worker = ?",
            (energy_j, number, worker),
        )
