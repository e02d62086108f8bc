"""The server's ledger: workers, rounds, updates, statistics and erasures, in one SQLite file.

One call of the server is one transaction (WAL, synchronous=FULL), so a receipt that was sent is
true after any crash. Bodies of updates are folded into their worker's sum when a round closes, and
deleted; of a counted update only its key and the hash of its content stay.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields

from dealfl.errors import BadBytes
from dealfl.messages import Update
from dealfl.server.erasures import Erasures
from dealfl.server.tables import MIGRATIONS, Pending, RoundRow, WorkerRow, worker_row

__all__ = ["Ledger"]

_COLUMNS = ", ".join(field.name for field in fields(WorkerRow))
_MARKS = ", ".join("?" for _ in fields(WorkerRow))


class Ledger(Erasures):
    """All that the server must not lose."""

    what = "ledger"
    remedy = "restore a backup"
    migrations = MIGRATIONS

    # -- workers --------------------------------------------------------------------------------

    def workers(self) -> dict[str, WorkerRow]:
        """Return everybody, by name."""
        rows = self._db.execute(f"SELECT {_COLUMNS} FROM workers ORDER BY name")  # noqa: S608
        return {row[0]: worker_row(row) for row in rows}

    def put_worker(self, row: WorkerRow) -> None:
        """Write what is known of a worker."""
        values = [getattr(row, field.name) for field in fields(WorkerRow)]
        self._db.execute(f"INSERT OR REPLACE INTO workers VALUES ({_MARKS})", values)  # noqa: S608

    # -- updates --------------------------------------------------------------------------------

    def content_of(self, worker: str, incarnation: int, sequence: int) -> tuple[bytes, bool] | None:
        """Return hash of the content, and whether it was withdrawn, of a known update."""
        row = self._db.execute(
            "SELECT content, withdrawn FROM updates "
            "WHERE worker = ? AND incarnation = ? AND sequence = ?",
            (worker, incarnation, sequence),
        ).fetchone()
        return None if row is None else (bytes(row[0] or b""), bool(row[1]))

    def put_update(self, worker: str, incarnation: int, sequence: int, delta: bytes) -> None:
        """Put an update on record."""
        content = hashlib.sha256(delta).digest()
        row = (worker, incarnation, sequence, content, 0, delta)
        self._db.execute("INSERT INTO updates VALUES (?, ?, ?, ?, ?, ?)", row)

    def put_withdrawn(self, worker: str, incarnation: int, sequence: int) -> None:
        """Note that an update will never count."""
        row = (worker, incarnation, sequence, None, 1, b"")
        self._db.execute("INSERT INTO updates VALUES (?, ?, ?, ?, ?, ?)", row)

    def pending(self) -> dict[str, list[Pending]]:
        """Return the updates that are not folded yet, in order, by worker of this incarnation."""
        rows = self._db.execute(
            "SELECT u.worker, u.sequence, u.delta, u.withdrawn, u.content FROM updates u "
            "JOIN workers w ON w.name = u.worker AND w.incarnation = u.incarnation "
            "WHERE u.delta IS NOT NULL ORDER BY u.worker, u.sequence"
        )
        found: dict[str, list[Pending]] = {}
        for worker, sequence, delta, withdrawn, content in rows:
            if not withdrawn and hashlib.sha256(delta).digest() != content:
                raise BadBytes(f"ledger {self.path}: update {sequence} of {worker} is damaged")
            found.setdefault(worker, []).append(Pending(sequence, None if withdrawn else delta))
        return found

    def waiting(self) -> dict[str, list[int]]:
        """Return the numbers of the updates that are not folded yet, by worker."""
        rows = self._db.execute(
            "SELECT u.worker, u.sequence FROM updates u "
            "JOIN workers w ON w.name = u.worker AND w.incarnation = u.incarnation "
            "WHERE u.delta IS NOT NULL ORDER BY u.worker, u.sequence"
        )
        found: dict[str, list[int]] = {}
        for worker, sequence in rows:
            found.setdefault(worker, []).append(sequence)
        return found

    def mark_folded(self, worker: str, incarnation: int, last: int) -> None:
        """Delete the bodies of updates up to `last`."""
        self._db.execute(
            "UPDATE updates SET delta = NULL WHERE worker = ? AND incarnation = ? AND sequence <= ?"
            " AND delta IS NOT NULL",
            (worker, incarnation, last),
        )

    def drop_updates(self, worker: str) -> None:
        """Forget all updates of a worker's life that is over."""
        self._db.execute("DELETE FROM updates WHERE worker = ?", (worker,))

    def highest(self, worker: str, incarnation: int) -> int:
        """Return the largest number of a worker's updates on record, 0 for none."""
        query = (
            "SELECT coalesce(max(sequence), 0) FROM updates WHERE worker = ? AND incarnation = ?"
        )
        return int(self._db.execute(query, (worker, incarnation)).fetchone()[0])

    # -- statistics -----------------------------------------------------------------------------

    def sum_of(self, worker: str) -> bytes | None:
        """Return a worker's folded sum."""
        query = "SELECT statistics, sha256 FROM sums WHERE worker = ?"
        return self._checked(self._db.execute(query, (worker,)).fetchone(), f"sum of {worker}")

    def put_sum(self, worker: str, statistics: bytes | None) -> None:
        """Replace a worker's folded sum; None removes it."""
        if statistics is None:
            self._db.execute("DELETE FROM sums WHERE worker = ?", (worker,))
            return
        row = (worker, statistics, hashlib.sha256(statistics).digest())
        self._db.execute("INSERT OR REPLACE INTO sums VALUES (?, ?, ?)", row)

    def total(self) -> bytes | None:
        """Return the statistics of everybody, as of the last closed round."""
        query = "SELECT statistics, sha256 FROM total"
        return self._checked(self._db.execute(query).fetchone(), "total")

    def put_total(self, statistics: bytes) -> None:
        """Replace the statistics of everybody."""
        row = (statistics, hashlib.sha256(statistics).digest())
        self._db.execute("INSERT OR REPLACE INTO total VALUES (1, ?, ?)", row)

    def _checked(self, row: tuple[bytes, bytes] | None, what: str) -> bytes | None:
        if row is None:
            return None
        if hashlib.sha256(row[0]).digest() != row[1]:
            raise BadBytes(f"ledger {self.path}: the {what} is damaged; restore a backup")
        return bytes(row[0])

    # -- rounds ---------------------------------------------------------------------------------

    def open_round(self) -> RoundRow | None:
        """Return the round that is open, if one is."""
        query = "SELECT number, opened_s, deadline_s FROM rounds WHERE closed_s IS NULL"
        row = self._db.execute(query).fetchone()
        return None if row is None else RoundRow(*row)

    def opened_s(self, number: int) -> float:
        """Return when a round was opened."""
        query = "SELECT opened_s FROM rounds WHERE number = ?"
        return float(self._db.execute(query, (number,)).fetchone()[0])

    def last_round(self) -> int:
        """Return the number of the last round, 0 before the first."""
        return int(self._db.execute("SELECT coalesce(max(number), 0) FROM rounds").fetchone()[0])

    def put_round(self, row: RoundRow, selected: list[str], able: int = 0) -> None:
        """Open a round in which so many could have been selected."""
        self._db.execute(
            "INSERT INTO rounds (number, opened_s, deadline_s, able) VALUES (?, ?, ?, ?)",
            (row.number, row.opened_s, row.deadline_s, able),
        )
        pairs = [(row.number, worker) for worker in selected]
        self._db.executemany("INSERT INTO selections (round, worker) VALUES (?, ?)", pairs)

    def shift_round(self, row: RoundRow) -> None:
        """Give an open round another beginning and deadline."""
        times = (row.opened_s, row.deadline_s, row.number)
        self._db.execute("UPDATE rounds SET opened_s = ?, deadline_s = ? WHERE number = ?", times)

    def close_round(self, number: int, closed_s: float, reason: str, digest: str) -> None:
        """Close a round."""
        self._db.execute(
            "UPDATE rounds SET closed_s = ?, reason = ?, digest = ? WHERE number = ?",
            (closed_s, reason, digest, number),
        )

    def selected(self, number: int) -> dict[str, float | None]:
        """Return who was selected in a round, and when they replied."""
        rows = self._db.execute(
            "SELECT worker, replied_s FROM selections WHERE round = ? ORDER BY worker", (number,)
        )
        return dict(rows.fetchall())

    def replies(self, number: int) -> tuple[int, int, int]:
        """Return how many workers were selected in a round, how many replied, how many declined."""
        query = (
            "SELECT count(*), count(replied_s), count(nullif(declined, '')) "
            "FROM selections WHERE round = ?"
        )
        selected, replied, declined = self._db.execute(query, (number,)).fetchone()
        return int(selected), int(replied) - int(declined), int(declined)

    def put_reply(self, number: int, worker: str, replied_s: float, declined: str = "") -> bool:
        """Note the first reply of a selected worker; False if there is nothing to note."""
        cursor = self._db.execute(
            "UPDATE selections SET replied_s = ?, declined = ? "
            "WHERE round = ? AND worker = ? AND replied_s IS NULL",
            (replied_s, declined, number, worker),
        )
        return cursor.rowcount > 0

    def put_figures(self, update: Update, reward: float) -> None:
        """Note what a reply brought and cost."""
        self._db.execute(
            "UPDATE selections SET learned = ?, evicted = ?, operations = ?, elapsed_s = ?, "
            "energy_j = ?, reward = ? WHERE round = ? AND worker = ?",
            (update.learned, update.evicted, update.operations, update.elapsed_s, update.energy_j,
             reward, update.round, update.worker),
        )  # fmt: skip

    def put_assumed(self, number: int, worker: str, energy_j: float) -> None:
        """Note what was charged to a worker for a round in which nothing was heard of it."""
        self._db.execute(
            "UPDATE selections SET assumed_j = ? WHERE round = ? AND worker = ?",
            (energy_j, number, worker),
        )

    def assumed_j(self, number: int, worker: str, since_s: float) -> float:
        """Return what was charged so for a round that closed at that moment or later."""
        row = self._db.execute(
            "SELECT s.assumed_j FROM selections s JOIN rounds r ON r.number = s.round "
            "WHERE s.round = ? AND s.worker = ? AND r.closed_s >= ?",
            (number, worker, since_s),
        ).fetchone()
        return 0.0 if row is None else float(row[0])

    def rounds(self) -> list[tuple[int, str, float, str]]:
        """Return number, reason, duration and digest of each closed round."""
        rows = self._db.execute(
            "SELECT number, reason, closed_s - opened_s, digest FROM rounds "
            "WHERE closed_s IS NOT NULL ORDER BY number"
        )
        return [(int(n), str(why), float(took), str(digest)) for n, why, took, digest in rows]

    # -- versions and settings ------------------------------------------------------------------

    def put_version(self, round_number: int, digest: str) -> int:
        """Note that a version of the model was published; return its number."""
        cursor = self._db.execute(
            "INSERT INTO versions (round, digest) VALUES (?, ?)", (round_number, digest)
        )
        return int(cursor.lastrowid or 0)

    def setting(self, name: str, default: bytes = b"") -> bytes:
        """Return a value that survives restarts."""
        row = self._db.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return default if row is None else bytes(row[0])

    def set_setting(self, name: str, value: bytes) -> None:
        """Keep a value through restarts."""
        self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))
