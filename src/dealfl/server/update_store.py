"""The tables of workers, updates and sums of statistics in the ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields

from dealfl.database import Database
from dealfl.errors import BadBytes
from dealfl.server.ledger_reader import LedgerReader, intact
from dealfl.server.tables import Pending, WorkerRow, worker_row

__all__ = ["UpdateStore"]

_COLUMNS = ", ".join(field.name for field in fields(WorkerRow))
_PLACEHOLDERS = ", ".join("?" for _ in fields(WorkerRow))


class UpdateStore(Database):
    """The part of the ledger that holds workers, their updates and their sums."""

    @property
    def reader(self) -> LedgerReader:
        """Read access to the same database."""
        return LedgerReader(self._db, self.path)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all changes together; then remove the bytes of deleted deltas from all files.

        Yields
        ------
        None
            Control to the block.
        """
        self._deleted = False
        with super().transaction():
            yield
        if self._deleted:
            self.checkpoint()

    # -- workers --------------------------------------------------------------------------------

    def workers(self) -> dict[str, WorkerRow]:
        """Return all workers.

        Returns
        -------
        dict of str to WorkerRow
            Workers by name, sorted.
        """
        rows = self._db.execute(f"SELECT {_COLUMNS} FROM workers ORDER BY name")  # noqa: S608
        return {row[0]: worker_row(row) for row in rows}

    def put_worker(self, row: WorkerRow) -> None:
        """Insert or replace a worker.

        Parameters
        ----------
        row : WorkerRow
            The worker.
        """
        values = [getattr(row, field.name) for field in fields(WorkerRow)]
        self._db.execute(
            f"INSERT OR REPLACE INTO workers ({_COLUMNS}) VALUES ({_PLACEHOLDERS})",  # noqa: S608
            values,
        )

    # -- updates --------------------------------------------------------------------------------

    def find_update(
        self, worker: str, incarnation: int, sequence: int
    ) -> tuple[bytes, bool] | None:
        """Return what is known about an update.

        Parameters
        ----------
        worker : str
            Name of the worker.
        incarnation, sequence : int
            Key of the update.

        Returns
        -------
        tuple of bytes and bool, or None
            SHA-256 of the delta, and whether the update was withdrawn; None if it is unknown.
        """
        row = self._db.execute(
            "SELECT delta_sha256, withdrawn FROM updates "
            "WHERE worker = ? AND incarnation = ? AND sequence = ?",
            (worker, incarnation, sequence),
        ).fetchone()
        return None if row is None else (bytes(row[0] or b""), bool(row[1]))

    def put_update(self, worker: str, incarnation: int, sequence: int, delta: bytes) -> None:
        """Store an update.

        Parameters
        ----------
        worker : str
            Name of the worker.
        incarnation, sequence : int
            Key of the update.
        delta : bytes
            Difference of the statistics.
        """
        row = (worker, incarnation, sequence, hashlib.sha256(delta).digest(), 0, delta)
        self._db.execute("INSERT INTO updates VALUES (?, ?, ?, ?, ?, ?)", row)

    def put_withdrawn(self, worker: str, incarnation: int, sequence: int) -> None:
        """Store that an update never counts.

        Parameters
        ----------
        worker : str
            Name of the worker.
        incarnation, sequence : int
            Key of the update.
        """
        row = (worker, incarnation, sequence, None, 1, b"")
        self._db.execute("INSERT INTO updates VALUES (?, ?, ?, ?, ?, ?)", row)

    def pending(self) -> dict[str, list[Pending]]:
        """Return the updates of current incarnations that are not counted yet.

        Returns
        -------
        dict of str to list of Pending
            Updates by worker, in the order of their sequences.

        Raises
        ------
        BadBytes
            If a delta does not have its stored hash.
        """
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
        """Return the first update of each worker that is not counted yet.

        Returns
        -------
        dict of str to int
            Sequences by worker.
        """
        rows = self._db.execute(
            "SELECT u.worker, min(u.sequence) FROM updates u "
            "JOIN workers w ON w.name = u.worker AND w.incarnation = u.incarnation "
            "WHERE u.delta IS NOT NULL GROUP BY u.worker"
        )
        return dict(rows.fetchall())

    def delete_deltas(self, worker: str, incarnation: int, last: int) -> None:
        """Delete the deltas of counted updates; their keys and hashes remain.

        Parameters
        ----------
        worker : str
            Name of the worker.
        incarnation : int
            Incarnation of the updates.
        last : int
            Sequence of the last update to change.
        """
        self._deleted = True
        self._db.execute(
            "UPDATE updates SET delta = NULL WHERE worker = ? AND incarnation = ? AND sequence <= ?"
            " AND delta IS NOT NULL",
            (worker, incarnation, last),
        )

    def drop_updates(self, worker: str) -> None:
        """Delete all updates of a worker.

        Parameters
        ----------
        worker : str
            Name of the worker.
        """
        self._deleted = True
        self._db.execute("DELETE FROM updates WHERE worker = ?", (worker,))

    def last_sequence(self, worker: str, incarnation: int) -> int:
        """Return the highest stored sequence of a worker's updates.

        Parameters
        ----------
        worker : str
            Name of the worker.
        incarnation : int
            Incarnation of the updates.

        Returns
        -------
        int
            0 if there is none.
        """
        query = (
            "SELECT coalesce(max(sequence), 0) FROM updates WHERE worker = ? AND incarnation = ?"
        )
        return int(self._db.execute(query, (worker, incarnation)).fetchone()[0])

    # -- statistics -----------------------------------------------------------------------------

    def find_sum(self, worker: str) -> bytes | None:
        """Return the sum of a worker's counted updates.

        Parameters
        ----------
        worker : str
            Name of the worker.

        Returns
        -------
        bytes or None
            Statistics; None if nothing is counted.

        Raises
        ------
        BadBytes
            If the bytes do not have their stored hash.
        """
        query = "SELECT statistics, sha256 FROM sums WHERE worker = ?"
        row = self._db.execute(query, (worker,)).fetchone()
        return None if row is None else intact(row, f"ledger {self.path}: the sum of {worker}")

    def put_sum(self, worker: str, statistics: bytes | None) -> None:
        """Replace a worker's sum.

        Parameters
        ----------
        worker : str
            Name of the worker.
        statistics : bytes or None
            New sum; None removes it.
        """
        if statistics is None:
            self._db.execute("DELETE FROM sums WHERE worker = ?", (worker,))
            return
        row = (worker, statistics, hashlib.sha256(statistics).digest())
        self._db.execute("INSERT OR REPLACE INTO sums VALUES (?, ?, ?)", row)

    def total(self) -> bytes | None:
        """Return the sum of all workers.

        Returns
        -------
        bytes or None
            Statistics; None before the first.
        """
        return self.reader.total()

    def put_total(self, statistics: bytes) -> None:
        """Replace the sum of all workers.

        Parameters
        ----------
        statistics : bytes
            New sum.
        """
        row = (statistics, hashlib.sha256(statistics).digest())
        self._db.execute("INSERT OR REPLACE INTO total VALUES (1, ?, ?)", row)
