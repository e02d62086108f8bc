"""The ledger of the server, in one SQLite file: workers, updates, rounds, statistics, erasures.

One call of the server is one transaction (WAL, synchronous=FULL), so that a receipt stays true
after a crash. When updates count, their deltas are added to their worker's sum and deleted; their
keys and keyed hashes of them remain. The total of all sums is written when a round closes, when a
version is published and when the job ends; until then it is behind the sums.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Mapping
from operator import attrgetter
from pathlib import Path

from dealfl.exact import Statistics
from dealfl.server.erasure_store import ErasureStore
from dealfl.server.ledger_reader import LedgerReader
from dealfl.server.round_store import RoundStore
from dealfl.server.sums import SumStore, read_schema
from dealfl.server.tables import MIGRATIONS, OpenRound, WorkerRow, worker_row
from dealfl.server.update_store import UpdateStore
from dealfl.storage import Connect, Database

__all__ = ["Ledger"]

_EPOCHS = 1000  # that are remembered, and as many terms
_FIELDS = WorkerRow.__struct_fields__
_COLUMNS, _PLACEHOLDERS = ", ".join(_FIELDS), ", ".join("?" for _ in _FIELDS)
_values_of = attrgetter(*_FIELDS)


class Ledger(Database):
    """The store that the server writes. Others read it through a `LedgerReader`.

    Parameters
    ----------
    path : str or Path
        File to open or create. The default is a database in memory.
    connect : callable
        Replacement for `sqlite3.connect`, used by tests.

    Attributes
    ----------
    updates, sums, rounds, erasures
        The stores of the server, for its own use.
    """

    kind = "ledger"
    remedy = "restore a backup"
    migrations = MIGRATIONS
    own_table = "rounds"

    def __init__(
        self, path: str | Path = ":memory:", *, connect: Connect = sqlite3.connect
    ) -> None:
        self.updates, self.rounds = (
            UpdateStore(self, self.setting),
            RoundStore(self, lambda: self.reader.open_round()),
        )
        self.erasures, self.sums = ErasureStore(self), SumStore(self)
        self._settings: dict[str, bytes] = {}  # those that were read or written
        super().__init__(path, connect=connect)

    def _fill(self) -> None:
        self.set_setting("fingerprint_key", secrets.token_bytes(16))
        self.begin_epoch()

    def _forget_cached(self) -> None:
        super()._forget_cached()
        self._settings.clear()
        for store in (self.updates, self.rounds, self.erasures):
            store.forget_cached()

    def _write_changes(self) -> None:
        self.updates.write_deltas()

    @property
    def epoch(self) -> str:
        """Random id of the ledger's history, new after a restore."""
        return self.setting("epoch").decode()

    def former_epochs(self) -> list[str]:
        """Return earlier epochs of this ledger, and others that workers knew."""
        return self.setting("former_epochs").decode().split()

    def terms(self) -> list[str]:
        """Return the random ids of the server's processes that have written this ledger."""
        return self.setting("terms").decode().split()

    def begin_term(self) -> None:
        """Draw the id of a server's process; a ledger from a backup lacks those since then."""
        terms = [*self.terms()[1 - _EPOCHS :], secrets.token_hex(8)]
        self.set_setting("terms", " ".join(terms).encode())

    def begin_epoch(self, known: str = "") -> None:
        """Draw a new epoch: the ledger may be older than what its workers know.

        Parameters
        ----------
        known : str
            Epoch of the worker that knows more.
        """
        former = [*self.former_epochs(), self.epoch, known]
        self.set_setting("former_epochs", " ".join(dict.fromkeys(former[-_EPOCHS:])).encode())
        self.set_setting("epoch", secrets.token_hex(16).encode())

    @property
    def reader(self) -> LedgerReader:
        """Read access to the same database."""
        return LedgerReader(self._db, self.path)

    # -- workers --------------------------------------------------------------------------------

    def workers(self) -> dict[str, WorkerRow]:
        """Return all workers by name, sorted."""
        rows = self.execute(f"SELECT {_COLUMNS} FROM workers ORDER BY name")  # noqa: S608
        return {row[0]: worker_row(row) for row in rows}

    def put_workers(self, rows: Iterable[WorkerRow]) -> None:
        """Insert or replace workers.

        Parameters
        ----------
        rows : iterable of WorkerRow
            The workers.
        """
        query = f"INSERT OR REPLACE INTO workers ({_COLUMNS}) VALUES ({_PLACEHOLDERS})"  # noqa: S608
        self._db.executemany(query, map(_values_of, rows))

    # -- updates and statistics -----------------------------------------------------------------

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
            Keyed hash of the delta's SHA-256, and whether the update was withdrawn; None if it is
            unknown.
        """
        row = self.execute(
            "SELECT delta_sha256, withdrawn FROM updates "
            "WHERE worker = ? AND incarnation = ? AND sequence = ?",
            (worker, incarnation, sequence),
        ).fetchone()
        return None if row is None else (bytes(row[0] or b""), bool(row[1]))

    def find_sum(self, worker: str) -> Statistics | None:
        """Return the sum of a worker's counted updates.

        Parameters
        ----------
        worker : str
            Name of the worker.

        Returns
        -------
        Statistics or None
            The sum; None if nothing is counted.

        Raises
        ------
        BadBytes
            If a page does not have its stored hash.
        """
        known, header = worker in self.sums.fingerprints(), self.setting("schema")
        return self.sums.read(worker, read_schema(header)) if known else None

    def total(self) -> Statistics | None:
        """Return the sum of all workers; None before the first."""
        return self.reader.total()

    # -- rounds and settings --------------------------------------------------------------------

    def open_round(self) -> OpenRound | None:
        """Return the open round; None if no round is open."""
        return self.rounds.current()[1]

    def last_round(self) -> int:
        """Return the number of the last round; 0 before the first."""
        return self.rounds.current()[0]

    def setting(self, name: str, default: bytes = b"") -> bytes:
        """Return a stored value.

        Parameters
        ----------
        name : str
            Name of the value.
        default : bytes
            Result if no value is stored, or an empty one.

        Returns
        -------
        bytes
            The value.
        """
        if name not in self._settings:
            self._settings[name] = self.reader.setting(name)
        return self._settings[name] or default

    def set_setting(self, name: str, value: bytes) -> None:
        """Store a value that survives restarts.

        Parameters
        ----------
        name : str
            Name of the value.
        value : bytes
            The value.
        """
        if self.setting(name) != value:
            self.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))
            self._settings[name] = value

    def list_parts(self, owner: str) -> dict[str, bytes]:
        """Return the stored state of a part of the server.

        Parameters
        ----------
        owner : str
            Name of the part of the server, such as "selector".

        Returns
        -------
        dict of str to bytes
            Parts of its state by name.
        """
        query = "SELECT name, value FROM parts WHERE owner = ?"
        return dict(self.execute(query, (owner,)).fetchall())

    def put_parts(self, owner: str, parts: Mapping[str, bytes]) -> None:
        """Store what changed in the state of a part of the server.

        Parameters
        ----------
        owner : str
            Name of the part of the server.
        parts : mapping of str to bytes
            Changed parts of its state by name; empty bytes delete a part.
        """
        if not parts:
            return
        gone = [(owner, name) for name, value in parts.items() if not value]
        kept = [(owner, name, value) for name, value in parts.items() if value]
        self._db.executemany("DELETE FROM parts WHERE owner = ? AND name = ?", gone)
        self._db.executemany("INSERT OR REPLACE INTO parts VALUES (?, ?, ?)", kept)
