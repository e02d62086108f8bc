"""A worker's journal: its records, its outbox and all it must not lose, in one SQLite file.

What was learned or forgotten and the update that says so are written in one transaction, so that
after a crash each record is in the statistics exactly as the journal says. Deleted bytes are
overwritten (`secure_delete`); `compact` empties the log and the free pages after an erasure.
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
    """The store that a worker writes.

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
        """A random id, drawn when the journal is made."""
        return self.setting("journal_id", "")

    def compact_if_due(self) -> None:
        """Compact if an erasure requires it, also one before a crash."""
        if self.setting("compact", "") == "due":
            self.compact()
            with self.transaction():
                self.set_setting("compact", "")

    # -- records --------------------------------------------------------------------------------

    def add(self, rows: Sequence[tuple[bytes, bytes]], state: State) -> list[int]:
        """Add records (owner, body) in the order of their arrival; return their ids."""
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
        """Return records of a state, the least recently used first, then by arrival and id."""
        rows = self._db.execute(
            "SELECT id, owner, body FROM records WHERE state = ? "
            "ORDER BY used, arrived, id LIMIT ?",
            (int(state), limit),
        )
        return [Record(*row) for row in rows]

    def records_of(self, owners: Iterable[bytes]) -> dict[State, list[Record]]:
        """Return the records of some owners, by state."""
        found: dict[State, list[Record]] = {state: [] for state in State}
        for owner in sorted(set(owners)):
            rows = self._db.execute(
                "SELECT state, id, owner, body FROM records WHERE owner = ? ORDER BY id", (owner,)
            )
            for state, *record in rows:
                found[State(state)].append(Record(*record))
        return found

    def count(self, state: State) -> int:
        """Return how many records are in a state."""
        query = "SELECT count(*) FROM records WHERE state = ?"
        return int(self._db.execute(query, (int(state),)).fetchone()[0])

    def move(self, ids: Iterable[int], state: State) -> None:
        """Put records into a state; learned ones count as used now."""
        clock = self._tick()
        rows = [(int(state), clock, identity) for identity in ids]
        self._db.executemany("UPDATE records SET state = ?, used = ? WHERE id = ?", rows)

    def touch(self, ids: Iterable[int]) -> None:
        """Note that records were used, e.g. by a local prediction."""
        clock = self._tick()
        rows = [(clock, identity) for identity in ids]
        self._db.executemany("UPDATE records SET used = ? WHERE id = ?", rows)

    def delete(self, ids: Iterable[int]) -> None:
        """Delete records; their bytes are overwritten."""
        self._db.executemany("DELETE FROM records WHERE id = ?", [(i,) for i in ids])

    def quarantine(self, identity: int, reason: str) -> None:
        """Delete a record that cannot be learned; only the reason is kept."""
        self.delete([identity])
        self._db.execute("INSERT OR REPLACE INTO quarantine VALUES (?, ?)", (identity, reason))

    def quarantined(self) -> list[tuple[int, str]]:
        """Return ids and reasons of all records that were quarantined."""
        rows = self._db.execute("SELECT id, reason FROM quarantine ORDER BY id")
        return [(int(identity), str(reason)) for identity, reason in rows]

    def _tick(self) -> int:
        clock = int(self.setting("clock", "0")) + 1
        self.set_setting("clock", str(clock))
        return clock

    # -- the outbox -----------------------------------------------------------------------------

    def post(self, update: Update, due_s: float) -> None:
        """Put an update into the outbox; it leaves when it is due."""
        self._db.execute(
            "INSERT OR REPLACE INTO outbox (sequence, body, send_at_s) VALUES (?, ?, ?)",
            (update.sequence, msgspec.msgpack.encode(update), due_s),
        )

    def outbox(self) -> list[Outgoing]:
        """Return every update without a receipt, in order."""
        rows = self._db.execute("SELECT body, sent, withdrawing FROM outbox ORDER BY sequence")
        decode = msgspec.msgpack.Decoder(Update).decode
        return [Outgoing(decode(body), bool(sent), bool(wd)) for body, sent, wd in rows]

    def take_due_updates(self, now_s: float, retry_after_s: float) -> list[Outgoing]:
        """Note that the updates which are due are sent (again) now, and return them."""
        rows = self._db.execute(
            "SELECT sequence, body, withdrawing FROM outbox WHERE send_at_s <= ? "
            # a clock that jumped back must not keep back what was sent before
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
        """Return when the next update or answer is due."""
        query = (
            "SELECT min(s) FROM "
            "(SELECT send_at_s AS s FROM outbox UNION SELECT send_at_s FROM answers)"
        )
        moment = self._db.execute(query).fetchone()[0]
        return None if moment is None else float(moment)

    def drop_update(self, sequence: int) -> None:
        """Remove an update from the outbox."""
        self._db.execute("DELETE FROM outbox WHERE sequence = ?", (sequence,))

    def hold_back(self, sequence: int) -> None:
        """Make an update due only when it is released."""
        self._db.execute("UPDATE outbox SET send_at_s = NULL WHERE sequence = ?", (sequence,))

    def release(self, now_s: float) -> None:
        """Make every update due that was held back."""
        self._db.execute("UPDATE outbox SET send_at_s = ? WHERE send_at_s IS NULL", (now_s,))

    def withdraw(self, sequence: int, now_s: float) -> None:
        """Mark an update as being withdrawn; the question is due at once."""
        self._db.execute(
            "UPDATE outbox SET withdrawing = 1, send_at_s = ? WHERE sequence = ?", (now_s, sequence)
        )

    # -- erasures -------------------------------------------------------------------------------

    def suppress(self, owners: Iterable[bytes]) -> None:
        """Note owners whose records must not come back."""
        rows = [(owner,) for owner in owners]
        self._db.executemany("INSERT OR IGNORE INTO suppressed VALUES (?)", rows)

    def is_suppressed(self, owner: bytes) -> bool:
        """Return whether an owner was erased."""
        query = "SELECT 1 FROM suppressed WHERE owner = ?"
        return self._db.execute(query, (owner,)).fetchone() is not None

    def post_answer(self, request: str, examples: int, now_s: float) -> None:
        """Note the answer to an erasure, to be sent until it is on the server's record."""
        row = (request, examples, now_s, int(self.setting("sequence", "0")))
        self._db.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", row)

    def take_due_answers(self, now_s: float, retry_after_s: float) -> list[tuple[str, int, int]]:
        """Note that due answers (request, examples, sequence) are sent now, and return them."""
        query = "SELECT request, examples, sequence FROM answers WHERE send_at_s <= ? "
        rows = self._db.execute(query + "ORDER BY request", (now_s,)).fetchall()
        later = "UPDATE answers SET send_at_s = ? WHERE request = ?"
        self._db.executemany(later, [(now_s + retry_after_s, row[0]) for row in rows])
        return [(str(request), int(examples), int(last)) for request, examples, last in rows]

    def drop_answer(self, request: str) -> None:
        """Remove an answer that is on the server's record."""
        self._db.execute("DELETE FROM answers WHERE request = ?", (request,))

    def put_published(self, version: int, statistics: bytes) -> None:
        """Keep the newest published model."""
        self._db.execute("DELETE FROM published WHERE version <= ?", (version,))
        if self.published() is None:
            self._db.execute("INSERT INTO published VALUES (?, ?)", (version, statistics))

    def published(self) -> tuple[int, bytes] | None:
        """Return version and statistics of the newest published model."""
        row = self._db.execute("SELECT version, statistics FROM published").fetchone()
        return None if row is None else (int(row[0]), bytes(row[1]))

    # -- settings -------------------------------------------------------------------------------

    def setting(self, name: str, default: str) -> str:
        """Return a value that survives restarts."""
        row = self._db.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return default if row is None else str(row[0])

    def set_setting(self, name: str, value: str) -> None:
        """Keep a value through restarts."""
        self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))
