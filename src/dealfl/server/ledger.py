"""The server's ledger: workers, rounds, updates, statistics and erasures, in one SQLite file.

One call of the server is one transaction (WAL, synchronous=FULL), so a receipt that was sent is
true after any crash. Bodies of updates are added to their worker's sum when a round closes, and
deleted; of a counted update only its key and the hash of its delta stay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields

import msgspec

from dealfl.database import Database
from dealfl.erasure import Request
from dealfl.errors import BadBytes, BadInput
from dealfl.messages import Erased, Update
from dealfl.server.ledger_reader import LedgerReader, intact
from dealfl.server.tables import MIGRATIONS, Pending, RoundRow, WorkerRow, worker_row

__all__ = ["Ledger"]

_COLUMNS = ", ".join(field.name for field in fields(WorkerRow))
_MARKS = ", ".join("?" for _ in fields(WorkerRow))


class Ledger(Database):
    """The store that the server writes; everybody else looks at it through a `LedgerReader`."""

    kind = "ledger"
    remedy = "restore a backup"
    migrations = MIGRATIONS
    own_table = "rounds"

    @property
    def reader(self) -> LedgerReader:
        """What others may ask, within this process."""
        return LedgerReader(self._db, self.path)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make everything inside durable together; deltas deleted by it are then in no file."""
        self._deleted = False
        with super().transaction():
            yield
        if self._deleted:
            self.checkpoint()

    # -- workers --------------------------------------------------------------------------------

    def workers(self) -> dict[str, WorkerRow]:
        """Return everybody, by name."""
        rows = self._db.execute(f"SELECT {_COLUMNS} FROM workers ORDER BY name")  # noqa: S608
        return {row[0]: worker_row(row) for row in rows}

    def put_worker(self, row: WorkerRow) -> None:
        """Write what is known of a worker."""
        values = [getattr(row, field.name) for field in fields(WorkerRow)]
        self._db.execute(
            f"INSERT OR REPLACE INTO workers ({_COLUMNS}) VALUES ({_MARKS})",  # noqa: S608
            values,
        )

    # -- updates --------------------------------------------------------------------------------

    def known_update(
        self, worker: str, incarnation: int, sequence: int
    ) -> tuple[bytes, bool] | None:
        """Return the hash of an update's delta, and whether it was withdrawn; None if unknown."""
        row = self._db.execute(
            "SELECT delta_sha256, withdrawn FROM updates "
            "WHERE worker = ? AND incarnation = ? AND sequence = ?",
            (worker, incarnation, sequence),
        ).fetchone()
        return None if row is None else (bytes(row[0] or b""), bool(row[1]))

    def put_update(self, worker: str, incarnation: int, sequence: int, delta: bytes) -> None:
        """Put an update on record."""
        row = (worker, incarnation, sequence, hashlib.sha256(delta).digest(), 0, delta)
        self._db.execute("INSERT INTO updates VALUES (?, ?, ?, ?, ?, ?)", row)

    def put_withdrawn(self, worker: str, incarnation: int, sequence: int) -> None:
        """Note that an update will never count."""
        row = (worker, incarnation, sequence, None, 1, b"")
        self._db.execute("INSERT INTO updates VALUES (?, ?, ?, ?, ?, ?)", row)

    def pending(self) -> dict[str, list[Pending]]:
        """Return the updates of present incarnations that are not counted yet, by worker."""
        rows = self._db.execute(
            "SELECT u.worker, u.sequence, u.delta, u.withdrawn, u.delta_sha256 FROM updates u "
            "JOIN workers w ON w.name = u.worker AND w.incarnation = u.incarnation "
            "WHERE u.delta IS NOT NULL ORDER BY u.worker, u.sequence"
        )
        found: dict[str, list[Pending]] = {}
        for worker, sequence, delta, withdrawn, sha256 in rows:
            if not withdrawn and hashlib.sha256(delta).digest() != sha256:
                raise BadBytes(f"ledger {self.path}: update {sequence} of {worker} is damaged")
            found.setdefault(worker, []).append(Pending(sequence, None if withdrawn else delta))
        return found

    def first_pending(self) -> dict[str, int]:
        """Return the sequence of each worker's first update that is not counted yet."""
        rows = self._db.execute(
            "SELECT u.worker, min(u.sequence) FROM updates u "
            "JOIN workers w ON w.name = u.worker AND w.incarnation = u.incarnation "
            "WHERE u.delta IS NOT NULL GROUP BY u.worker"
        )
        return dict(rows.fetchall())

    def delete_deltas(self, worker: str, incarnation: int, last: int) -> None:
        """Delete the bodies of updates up to `last`."""
        self._deleted = True
        self._db.execute(
            "UPDATE updates SET delta = NULL WHERE worker = ? AND incarnation = ? AND sequence <= ?"
            " AND delta IS NOT NULL",
            (worker, incarnation, last),
        )

    def drop_updates(self, worker: str) -> None:
        """Delete all updates of a worker."""
        self._deleted = True
        self._db.execute("DELETE FROM updates WHERE worker = ?", (worker,))

    def last_sequence(self, worker: str, incarnation: int) -> int:
        """Return the highest sequence of a worker's updates on record, 0 for none."""
        query = (
            "SELECT coalesce(max(sequence), 0) FROM updates WHERE worker = ? AND incarnation = ?"
        )
        return int(self._db.execute(query, (worker, incarnation)).fetchone()[0])

    # -- statistics -----------------------------------------------------------------------------

    def sum_of(self, worker: str) -> bytes | None:
        """Return a worker's sum."""
        query = "SELECT statistics, sha256 FROM sums WHERE worker = ?"
        row = self._db.execute(query, (worker,)).fetchone()
        return None if row is None else intact(row, f"ledger {self.path}: the sum of {worker}")

    def put_sum(self, worker: str, statistics: bytes | None) -> None:
        """Replace a worker's sum; None removes it."""
        if statistics is None:
            self._db.execute("DELETE FROM sums WHERE worker = ?", (worker,))
            return
        row = (worker, statistics, hashlib.sha256(statistics).digest())
        self._db.execute("INSERT OR REPLACE INTO sums VALUES (?, ?, ?)", row)

    def total(self) -> bytes | None:
        """Return the statistics of everybody, as of the last closed round."""
        return self.reader.total()

    def put_total(self, statistics: bytes) -> None:
        """Replace the statistics of everybody."""
        row = (statistics, hashlib.sha256(statistics).digest())
        self._db.execute("INSERT OR REPLACE INTO total VALUES (1, ?, ?)", row)

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

    def put_round(self, row: RoundRow, selected: list[str], eligible: int) -> None:
        """Open a round; `eligible` workers could have been selected."""
        self._db.execute(
            "INSERT INTO rounds (number, opened_s, deadline_s, eligible) VALUES (?, ?, ?, ?)",
            (row.number, row.opened_s, row.deadline_s, eligible),
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

    def count_replies(self, number: int) -> tuple[int, int, int]:
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
        """Note the energy that was assumed for a worker that did not reply in a round."""
        self._db.execute(
            "UPDATE selections SET assumed_j = ? WHERE round = ? AND worker = ?",
            (energy_j, number, worker),
        )

    def assumed_j(self, number: int, worker: str, since_s: float) -> float:
        """Return the energy assumed for a worker in a round that closed at `since_s` or later."""
        row = self._db.execute(
            "SELECT s.assumed_j FROM selections s JOIN rounds r ON r.number = s.round "
            "WHERE s.round = ? AND s.worker = ? AND r.closed_s >= ?",
            (number, worker, since_s),
        ).fetchone()
        return 0.0 if row is None else float(row[0])

    # -- erasures -------------------------------------------------------------------------------

    def put_erasure(self, request: Request) -> None:
        """Put an erasure on record, once."""
        owners = msgspec.msgpack.encode(request.owners)
        query = "SELECT owners FROM erasures WHERE request = ?"
        known = self._db.execute(query, (request.name,)).fetchone()
        if known is not None and known[0] != owners:
            raise BadInput(
                f"an erasure called {request.name!r} of other owners is on record already"
            )
        row = (request.name, owners, request.requested_s)
        self._db.execute(
            "INSERT OR IGNORE INTO erasures (request, owners, requested_s) VALUES (?, ?, ?)", row
        )

    def mark_published(self, requests: Iterable[str]) -> None:
        """Note that a published version shows these erasures."""
        rows = [(request,) for request in requests]
        self._db.executemany("UPDATE erasures SET published = 1 WHERE request = ?", rows)

    def put_answer(self, answer: Erased) -> bool:
        """Note a worker's answer to an erasure; False if there is no such erasure."""
        row = (answer.request, answer.worker, answer.examples, answer.incarnation, answer.sequence)
        cursor = self._db.execute(
            "INSERT OR REPLACE INTO answers SELECT ?1, ?2, ?3, ?4, ?5 "
            "WHERE EXISTS (SELECT 1 FROM erasures WHERE request = ?1)",
            row,
        )
        return cursor.rowcount > 0

    # -- versions and settings ------------------------------------------------------------------

    def put_version(self, round_number: int, digest: str, published_s: float) -> int:
        """Note that a version of the model was published; return its number."""
        cursor = self._db.execute(
            "INSERT INTO versions (round, digest, published_s) VALUES (?, ?, ?)",
            (round_number, digest, published_s),
        )
        return int(cursor.lastrowid or 0)

    def setting(self, name: str, default: bytes = b"") -> bytes:
        """Return a value that survives restarts."""
        return self.reader.setting(name, default)

    def set_setting(self, name: str, value: bytes) -> None:
        """Keep a value through restarts."""
        self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))
