"""A worker's journal: its records, its outbox and its settings, in one SQLite file.

A change to the records and the update that reports it are written in one transaction. After a
crash, statistics and journal therefore agree. Deleted bytes are overwritten (`secure_delete`);
`compact` empties the log and the free pages after an erasure.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from dealfl.database import Connect, Database
from dealfl.messages import Update
from dealfl.worker.tables import MIGRATIONS, Outgoing, Record, State

__all__ = ["Journal"]


class Journal(Database):
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
        super().__init__(path, connect=connect)

    def _fill(self) -> None:
        self.set_setting("journal_id", self._new_id)

    @property
    def id(self) -> str:
        """The id of the journal, set when the file is created."""
        return self.setting("journal_id", "")

    def compact_if_due(self) -> None:
        """Compact the file if an erasure requires it, including one before a crash."""
        if self.setting("compact", "") == "due":
            self.compact()
            with self.transaction():
                self.set_setting("compact", "")

    # -- records --------------------------------------------------------------------------------

    def add(self, rows: Sequence[tuple[bytes, bytes]], state: State) -> list[int]:
        """Add records in the order of their arrival.

        Parameters
        ----------
        rows : sequence of (bytes, bytes)
            Keyed hash of the owner, and body, of each record.
        state : State
            State of the new records.

        Returns
        -------
        list of int
            Ids of the records, in the same order.
        """
        clock = self._tick()
        ids = []
        for owner, body in rows:
            cursor = self._db.execute(
                "INSERT INTO records (owner, body, arrived, used, state) VALUES (?, ?, ?, ?, ?)",
                (owner, body, clock, clock, int(state)),
            )
            ids.append(int(cursor.lastrowid or 0))
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
        return [Record(*row) for row in rows]

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
        for owner in sorted(set(owners)):
            rows = self._db.execute(
                "SELECT state, id, owner, body FROM records WHERE owner = ? ORDER BY id", (owner,)
            )
            for state, *record in rows:
                found[State(state)].append(Record(*record))
        return found

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
        query = "SELECT count(*) FROM records WHERE state = ?"
        return int(self._db.execute(query, (int(state),)).fetchone()[0])

    def move(self, ids: Iterable[int], state: State) -> None:
        """Move records to a state; they count as used now.

        Parameters
        ----------
        ids : iterable of int
            Ids of the records.
        state : State
            The new state.
        """
        clock = self._tick()
        rows = [(int(state), clock, identity) for identity in ids]
        self._db.executemany("UPDATE records SET state = ?, used = ? WHERE id = ?", rows)

    def touch(self, ids: Iterable[int]) -> None:
        """Mark records as used now, e.g. by a local prediction.

        Parameters
        ----------
        ids : iterable of int
            Ids of the records.
        """
        clock = self._tick()
        rows = [(clock, identity) for identity in ids]
        self._db.executemany("UPDATE records SET used = ? WHERE id = ?", rows)

    def delete(self, ids: Iterable[int]) -> None:
        """Delete records, and overwrite their bytes.

        Parameters
        ----------
        ids : iterable of int
            Ids of the records.
        """
        self._db.executemany("DELETE FROM records WHERE id = ?", [(i,) for i in ids])

    def quarantine(self, identity: int, reason: str) -> None:
        """Delete a record that cannot be learned, and keep the reason.

        Parameters
        ----------
        identity : int
            Id of the record.
        reason : str
            Why it cannot be learned.
        """
        self.delete([identity])
        self._db.execute("INSERT OR REPLACE INTO quarantine VALUES (?, ?)", (identity, reason))

    def quarantined(self) -> list[tuple[int, str]]:
        """Return ids and reasons of all quarantined records."""
        rows = self._db.execute("SELECT id, reason FROM quarantine ORDER BY id")
        return [(int(identity), str(reason)) for identity, reason in rows]

    def _tick(self) -> int:
        clock = int(self.setting("clock", "0")) + 1
        self.set_setting("clock", str(clock))
        return clock

    # -- the outbox -----------------------------------------------------------------------------

    def post(self, update: Update, due_s: float) -> None:
        """Put an update into the outbox; replace one with the same sequence number.

        Parameters
        ----------
        update : Update
            The update.
        due_s : float
            Time when it is sent, in seconds.
        """
        self._db.execute(
            "INSERT OR REPLACE INTO outbox (sequence, body, send_at_s) VALUES (?, ?, ?)",
            (update.sequence, msgspec.msgpack.encode(update), due_s),
        )

    def outbox(self) -> list[Outgoing]:
        """Return all updates without a receipt, by sequence number."""
        rows = self._db.execute("SELECT body, sent, withdrawing FROM outbox ORDER BY sequence")
        decode = msgspec.msgpack.Decoder(Update).decode
        return [Outgoing(decode(body), bool(sent), bool(wd)) for body, sent, wd in rows]

    def take_due_updates(self, now_s: float, retry_after_s: float) -> list[Outgoing]:
        """Return the updates that are due, and mark them as sent.

        Parameters
        ----------
        now_s : float
            Current time, in seconds.
        retry_after_s : float
            Time until a message without a receipt is sent again, in seconds.

        Returns
        -------
        list of Outgoing
            The due updates, by sequence number.
        """
        rows = self._db.execute(
            "SELECT sequence, body, withdrawing FROM outbox WHERE send_at_s <= ? "
            # a clock that jumped back must not delay updates sent before
            "OR (sent = 1 AND send_at_s > ?) ORDER BY sequence",
            (now_s, now_s + retry_after_s),
        ).fetchall()
        for sequence, _, _ in rows:
            self._db.execute(
                "UPDATE outbox SET sent = 1, send_at_s = ? WHERE sequence = ?",
                (now_s + retry_after_s, sequence),
            )
        decode = msgspec.msgpack.Decoder(Update).decode
        return [Outgoing(decode(body), True, bool(withdrawing)) for _, body, withdrawing in rows]

    def next_send_s(self) -> float | None:
        """Return the time when the next update or answer is due, in seconds; None if none is."""
        query = (
            "SELECT min(s) FROM "
            "(SELECT send_at_s AS s FROM outbox UNION SELECT send_at_s FROM answers)"
        )
        moment = self._db.execute(query).fetchone()[0]
        return None if moment is None else float(moment)

    def drop_update(self, sequence: int) -> None:
        """Remove an update from the outbox.

        Parameters
        ----------
        sequence : int
            Sequence number of the update.
        """
        self._db.execute("DELETE FROM outbox WHERE sequence = ?", (sequence,))

    def hold_back(self, sequence: int) -> None:
        """Hold an update back until `release`.

        Parameters
        ----------
        sequence : int
            Sequence number of the update.
        """
        self._db.execute("UPDATE outbox SET send_at_s = NULL WHERE sequence = ?", (sequence,))

    def release(self, now_s: float) -> None:
        """Make all updates that are held back due now.

        Parameters
        ----------
        now_s : float
            Current time, in seconds.
        """
        self._db.execute("UPDATE outbox SET send_at_s = ? WHERE send_at_s IS NULL", (now_s,))

    def withdraw(self, sequence: int, now_s: float) -> None:
        """Mark an update as being withdrawn; the request to the server is due now.

        Parameters
        ----------
        sequence : int
            Sequence number of the update.
        now_s : float
            Current time, in seconds.
        """
        self._db.execute(
            "UPDATE outbox SET withdrawing = 1, send_at_s = ? WHERE sequence = ?", (now_s, sequence)
        )

    # -- erasures -------------------------------------------------------------------------------

    def suppress(self, owners: Iterable[bytes]) -> None:
        """Suppress owners: the worker drops their future records.

        Parameters
        ----------
        owners : iterable of bytes
            Keyed hashes of the owners.
        """
        rows = [(owner,) for owner in owners]
        self._db.executemany("INSERT OR IGNORE INTO suppressed VALUES (?)", rows)

    def is_suppressed(self, owner: bytes) -> bool:
        """Return whether an owner is suppressed.

        Parameters
        ----------
        owner : bytes
            Keyed hash of the owner.

        Returns
        -------
        bool
            True after an erasure of this owner.
        """
        query = "SELECT 1 FROM suppressed WHERE owner = ?"
        return self._db.execute(query, (owner,)).fetchone() is not None

    def post_answer(self, request: str, examples: int, now_s: float) -> None:
        """Store the answer to an erasure; it is sent until the server confirms it.

        Parameters
        ----------
        request : str
            Id of the erasure request.
        examples : int
            Number of records erased.
        now_s : float
            Current time, in seconds.
        """
        row = (request, examples, now_s, int(self.setting("sequence", "0")))
        self._db.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", row)

    def take_due_answers(self, now_s: float, retry_after_s: float) -> list[tuple[str, int, int]]:
        """Return the answers that are due, and schedule the next attempt.

        Parameters
        ----------
        now_s : float
            Current time, in seconds.
        retry_after_s : float
            Time until a message without a receipt is sent again, in seconds.

        Returns
        -------
        list of (str, int, int)
            Request id, number of records erased, and last sequence number, of each answer.
        """
        query = "SELECT request, examples, sequence FROM answers WHERE send_at_s <= ? "
        rows = self._db.execute(query + "ORDER BY request", (now_s,)).fetchall()
        later = "UPDATE answers SET send_at_s = ? WHERE request = ?"
        self._db.executemany(later, [(now_s + retry_after_s, row[0]) for row in rows])
        return [(str(request), int(examples), int(last)) for request, examples, last in rows]

    def drop_answer(self, request: str) -> None:
        """Remove an answer that the server has confirmed.

        Parameters
        ----------
        request : str
            Id of the erasure request.
        """
        self._db.execute("DELETE FROM answers WHERE request = ?", (request,))

    def put_published(self, version: int, statistics: bytes) -> None:
        """Store a published model, unless a newer one is stored.

        Parameters
        ----------
        version : int
            Version of the model.
        statistics : bytes
            Encoded statistics of the model.
        """
        self._db.execute("DELETE FROM published WHERE version <= ?", (version,))
        if self.published() is None:
            self._db.execute("INSERT INTO published VALUES (?, ?)", (version, statistics))

    def published(self) -> tuple[int, bytes] | None:
        """Return version and statistics of the newest published model; None before the first."""
        row = self._db.execute("SELECT version, statistics FROM published").fetchone()
        return None if row is None else (int(row[0]), bytes(row[1]))

    # -- settings -------------------------------------------------------------------------------

    def setting(self, name: str, default: str) -> str:
        """Return a stored setting.

        Parameters
        ----------
        name : str
            Name of the setting.
        default : str
            Value if the setting is not stored.

        Returns
        -------
        str
            The value.
        """
        row = self._db.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return default if row is None else str(row[0])

    def set_setting(self, name: str, value: str) -> None:
        """Store a setting; it survives restarts.

        Parameters
        ----------
        name : str
            Name of the setting.
        value : str
            The value.
        """
        self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))
