"""A worker's journal: its records, its outbox and its settings, in one SQLite file.

A change to the records and the update that reports it are written in one transaction. After a
crash, statistics and journal therefore agree. After an erasure the file is compacted twice: at
once, and when the server has counted the updates that still held examples of the owner.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from pathlib import Path

import msgspec

from dealfl.database import Connect
from dealfl.messages import Update
from dealfl.worker.stored_settings import StoredSettings
from dealfl.worker.tables import MIGRATIONS, Outgoing, Record, State

__all__ = ["Journal"]


class Journal(StoredSettings):
    """The store of a worker.

    Call the methods that write inside `with journal.transaction()`.

    Parameters
    ----------
    path : str or Path
        The file; by default the journal is in memory.
    journal_id : str or None
        Id of a new journal; None draws a random one.
    connect : callable
        Opens the connection; `sqlite3.connect` by default.

    Examples
    --------
    >>> journal = Journal()
    >>> with journal.transaction():
    ...     _ = journal.add([(b"owner", b"body")], State.WAITING)
    >>> [record.id for record in journal.records(State.WAITING)]
    [1]
    """

    kind = "journal"
    remedy = "restore a backup, or remove it and let the worker join again"
    migrations = MIGRATIONS
    own_table = "outbox"

    def __init__(
        self,
        path: str | Path = ":memory:",
        journal_id: str | None = None,
        *,
        connect: Connect = sqlite3.connect,
    ) -> None:
        self._new_id = journal_id or secrets.token_hex(8)
        self._counts: dict[State, int] = {}  # an announcement asks for them
        super().__init__(path, connect=connect)

    def _fill(self) -> None:
        self.set_setting("journal_id", self._new_id)

    @property
    def id(self) -> str:
        """The id of the journal, set when the file is created."""
        return self.setting("journal_id", "")

    # -- records --------------------------------------------------------------------------------

    def add(self, rows: Sequence[tuple[bytes, bytes]], state: State) -> list[int]:
        """Add records in the order of their arrival.

        Parameters
        ----------
        rows, state
            Keyed hash of the owner and body of each record, and the state of all.

        Returns
        -------
        list of int
            Ids of the records, in the same order.
        """
        clock = self._tick()
        query = "INSERT INTO records (owner, body, arrived, used, state) VALUES (?, ?, ?, ?, ?)"
        values = [(owner, body, clock, clock, int(state)) for owner, body in rows]
        self._db.executemany(query, values)
        (last,) = self._db.execute("SELECT last_insert_rowid()").fetchone()
        ids = list(range(last - len(rows) + 1, last + 1))  # AUTOINCREMENT leaves no gap
        self._count(state, len(ids))
        return ids

    def records(self, state: State, limit: int = -1) -> list[Record]:
        """Return records in a state, least recently used first, then by arrival and id.

        Parameters
        ----------
        state : State
            State of the records.
        limit : int
            Maximum number of records; -1 for all.

        Returns
        -------
        list of Record
            The records.
        """
        rows = self._db.execute(
            "SELECT id, owner, body FROM records WHERE state = ? "
            "ORDER BY used, arrived, id LIMIT ?",
            (int(state), limit),
        )
        return list(map(Record._make, rows))

    def records_of(self, owners: Iterable[bytes]) -> dict[State, list[Record]]:
        """Return the records of some owners, by state.

        Parameters
        ----------
        owners : iterable of bytes
            Keyed hashes of the owners.

        Returns
        -------
        dict of State to list of Record
            The records of these owners; every state has an entry.
        """
        found: dict[State, list[Record]] = {state: [] for state in State}
        query = "SELECT state, id, owner, body FROM records WHERE owner = ? ORDER BY id"
        for owner in sorted(set(owners)):
            for state, *record in self._db.execute(query, (owner,)):
                found[state].append(Record(*record))
        return found

    def learned_of(self, owners: Iterable[bytes]) -> list[Record]:
        """Return the learned records of some owners.

        Parameters
        ----------
        owners : iterable of bytes
            Keyed hashes of the owners.

        Returns
        -------
        list of Record
            The records, by owner, then by id.
        """
        query = "SELECT id, owner, body FROM records WHERE owner = ? AND state = ? ORDER BY id"
        learned = int(State.LEARNED)
        rows = (self._db.execute(query, (owner, learned)) for owner in sorted(set(owners)))
        return list(map(Record._make, chain.from_iterable(rows)))

    def owners(self) -> dict[bytes, int]:
        """Return the number of records of each owner, by keyed hash."""
        rows = self._db.execute("SELECT owner, count(*) FROM records GROUP BY owner")
        return {bytes(owner): int(count) for owner, count in rows}

    def count(self, state: State) -> int:
        """Return the number of records in a state.

        Parameters
        ----------
        state : State
            State of the records.

        Returns
        -------
        int
            The number of records.
        """
        if state not in self._counts:
            query = "SELECT count(*) FROM records WHERE state = ?"
            self._counts[state] = int(self._db.execute(query, (int(state),)).fetchone()[0])
        return self._counts[state]

    def _forget_cached(self) -> None:
        super()._forget_cached()
        self._counts.clear()

    def move(self, ids: Iterable[int], before: State, after: State) -> None:
        """Move records from a state to another; they count as used now.

        Parameters
        ----------
        ids, before, after
            Ids of the records, their state, and their new state.
        """
        if not (rows := list(ids)):
            return
        query = "UPDATE records SET state = ?, used = ? WHERE id = ? AND state = ?"
        clock = self._tick()
        values = [(int(after), clock, identity, int(before)) for identity in rows]
        moved = self._db.executemany(query, values).rowcount
        self._count(before, -moved)
        self._count(after, moved)

    def _count(self, state: State, more: int) -> None:
        if state in self._counts:
            self._counts[state] += more

    def touch(self, ids: Iterable[int]) -> None:
        """Mark records as used now, e.g. by a local prediction.

        Parameters
        ----------
        ids : iterable of int
            Ids of the records.
        """
        rows = zip(repeat(self._tick()), ids)
        self._db.executemany("UPDATE records SET used = ? WHERE id = ?", rows)

    def delete(self, ids: Iterable[int], state: State) -> None:
        """Delete records, and overwrite their bytes.

        Parameters
        ----------
        ids, state
            Ids of the records, and their state.
        """
        if rows := [(identity, int(state)) for identity in ids]:
            query = "DELETE FROM records WHERE id = ? AND state = ?"
            self._count(state, -self._db.executemany(query, rows).rowcount)
            self.note_deletion()

    def quarantine(self, identity: int, reason: str) -> None:
        """Delete a record that cannot be learned, and keep the reason.

        Parameters
        ----------
        identity, reason
            Id of the record, and why it cannot be learned.
        """
        self.delete([identity], State.WAITING)
        self._db.execute("INSERT OR REPLACE INTO quarantine VALUES (?, ?)", (identity, reason))

    def _tick(self) -> int:
        clock = int(self.setting("clock", "0")) + 1
        self.set_setting("clock", str(clock))
        return clock

    def quarantined(self) -> list[tuple[int, str]]:
        """Return ids and reasons of all quarantined records."""
        rows = self._db.execute("SELECT id, reason FROM quarantine ORDER BY id")
        return [(int(identity), str(reason)) for identity, reason in rows]

    # -- messages and settings ------------------------------------------------------------------

    def outbox(self) -> list[Outgoing]:
        """Return all updates without a receipt, by sequence number."""
        rows = self._db.execute("SELECT body, sent, withdrawing FROM outbox ORDER BY sequence")
        decode = msgspec.msgpack.Decoder(Update).decode
        return [Outgoing(decode(body), bool(sent), bool(wd)) for body, sent, wd in rows]

    def next_send_s(self) -> float | None:
        """Return the time when the next update or answer is due, in seconds; None if none is."""
        both = "SELECT send_at_s FROM outbox UNION ALL SELECT send_at_s FROM answers"
        query = f"SELECT min(send_at_s) FROM ({both})"  # noqa: S608
        moment = self._db.execute(query).fetchone()[0]
        return None if moment is None else float(moment)

    def put_published(self, version: int, statistics: bytes, digest: str = "") -> None:
        """Store a published model, unless a newer one is stored.

        Parameters
        ----------
        version, statistics, digest
            Version of the model, its encoded statistics, and their digest.
        """
        if self._db.execute("DELETE FROM published WHERE version <= ?", (version,)).rowcount:
            self.note_deletion()
        if self.published() is None:
            row = (version, statistics, digest)
            self._db.execute("INSERT INTO published VALUES (?, ?, ?)", row)

    def published(self) -> tuple[int, bytes] | None:
        """Return version and statistics of the newest published model; None before the first."""
        row = self._db.execute("SELECT version, statistics FROM published").fetchone()
        return None if row is None else (int(row[0]), bytes(row[1]))
