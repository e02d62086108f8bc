"""A worker's journal: its records, its outbox and its settings, in one SQLite file.

A change to the records and the update that reports it are written in one transaction. After a
crash, statistics and journal therefore agree. After an erasure the file is compacted twice: at
once, and when the server has counted the updates that still held examples of the owner.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, repeat
from pathlib import Path

from dealfl.storage import Connect
from dealfl.worker.kept_tables import KeptTables
from dealfl.worker.tables import (
    INDEX_OWNERS,
    INSERTIONS,
    MIGRATIONS,
    MOVE,
    Record,
    State,
    as_record,
)

__all__ = ["Journal"]

_MAX_KEPT = 256  # histories in memory, and items of each: less than 4 MB


class Journal(KeptTables):
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
    finish_copy = (*KeptTables.finish_copy, INDEX_OWNERS)

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
        if self.path == ":memory:":
            self._db.execute("DROP INDEX records_by_owner")

    def _index_owners(self) -> None:
        """Create the index that a journal in memory does not have yet: it makes `add` slow."""
        if self.path == ":memory:":
            self.keep("index", lambda: self._db.execute(INDEX_OWNERS))

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
        clock, done = self._tick(), 0
        values = list(chain.from_iterable((*row, clock, clock, int(state)) for row in rows))
        for width, query in INSERTIONS.items():
            starts = range(done, len(values) - width + 1, width)
            self._db.executemany(query, (values[first : first + width] for first in starts))
            done += len(starts) * width
        (last,) = self._db.execute("SELECT last_insert_rowid()").fetchone()
        ids = list(range(last - len(rows) + 1, last + 1))  # AUTOINCREMENT leaves no gap
        self._note_change(state, len(ids))
        return ids

    def records(self, state: State, limit: int = -1) -> list[Record]:
        """Return records in a state, least recently used first, then by arrival and id.

        Parameters
        ----------
        state, limit
            State of the records, and their maximum number; -1 for all.

        Returns
        -------
        list of Record
            The records.
        """
        query = """SELECT id, owner, body FROM records WHERE state = ?
            ORDER BY used, arrived, id LIMIT ?"""
        return list(map(as_record, self._db.execute(query, (int(state), limit))))

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
        self._index_owners()
        for owner in sorted(set(owners)):
            for state, *record in self._db.execute(query, (owner,)):
                found[state].append(Record(*record))
        return found

    def bodies_of(
        self, owners: Iterable[bytes], without: Collection[Record]
    ) -> dict[bytes, list[bytes]]:
        """Return the bodies of the learned records of some owners; memory keeps short histories.

        Parameters
        ----------
        owners, without
            Keyed hashes of the owners, and learned records to leave out.

        Returns
        -------
        dict of bytes to list of bytes
            The bodies by owner.
        """
        ids, losing = {one.id for one in without}, {one.owner for one in without}
        return {
            owner: [body for number, body in self._learned_of(owner) if number not in ids]
            if owner in losing
            else list(self._history(owner))
            for owner in owners
        }

    def _learned_of(self, owner: bytes) -> Iterable[tuple[int, bytes]]:
        self._index_owners()
        query = "SELECT id, body FROM records WHERE owner = ? AND state = ?"
        return self._db.execute(query, (owner, int(State.LEARNED)))

    def _history(self, owner: bytes) -> list[bytes]:
        known = self._histories
        if owner in known:
            return known[owner]
        bodies = [body for _, body in self._learned_of(owner)]
        if len(bodies) <= _MAX_KEPT:
            if len(known) == _MAX_KEPT:
                known.clear()
            known[owner] = bodies
        return bodies

    @property
    def _histories(self) -> dict[bytes, list[bytes]]:
        return self.keep("histories", dict)

    def change_learned(
        self, new: Sequence[Record], gone: Sequence[Record], *, recoverable: bool
    ) -> None:
        """Learn waiting records, and delete learned ones or move them to the grace state.

        Parameters
        ----------
        new, gone, recoverable
            Records to learn and to evict, and whether evicted ones stay in the grace state.
        """
        histories, ids = self._histories, [one.id for one in gone]
        self.move([one.id for one in new], State.WAITING, State.LEARNED)
        if recoverable:
            self.move(ids, State.LEARNED, State.GRACE)
        else:
            self.delete(ids, State.LEARNED)
        for one in gone:
            histories.pop(one.owner, None)
        for one in new:
            if one.owner in histories:
                histories[one.owner].append(one.body)
                if len(histories[one.owner]) > _MAX_KEPT:
                    del histories[one.owner]
        self._kept["histories"] = histories

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
        query = "SELECT count(*) FROM records WHERE state = ?"
        return self.keep(
            f"count {state}", lambda: int(self._db.execute(query, (int(state),)).fetchone()[0])
        )

    def move(self, ids: Iterable[int], before: State, after: State) -> None:
        """Move records from a state to another; they count as used now.

        Parameters
        ----------
        ids, before, after
            Ids of the records, their state, and their new state.
        """
        if not (known := set(ids)):
            return
        firsts = sorted(number for number in known if number - 1 not in known)
        lasts = sorted(number for number in known if number + 1 not in known)
        same = (int(after), self._tick(), int(before))
        rows = ((*same, *run) for run in zip(firsts, lasts, strict=True))
        moved = self._db.executemany(MOVE, rows).rowcount
        self._note_change(before, -moved)
        self._note_change(after, moved)

    def _note_change(self, state: State, more: int) -> None:
        if state is State.LEARNED:
            self.drop("histories")
        if (name := f"count {state}") in self._kept:
            self._kept[name] += more

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
            self._note_change(state, -self._db.executemany(query, rows).rowcount)
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
