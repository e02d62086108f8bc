"""The tables of a ledger under masks: headers, masked sums, and the request that is open.

A masked sum belongs to one incarnation of a worker. It stays after the worker has begun another
one, until an opening has subtracted it. The sum of all masks that were opened is one vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from dealfl.protocol import Header
from dealfl.server.ledger import Ledger
from dealfl.server.ledger_reader import MaskState

_TABLES = """
CREATE TABLE IF NOT EXISTS masked_headers (
  worker TEXT NOT NULL, incarnation INTEGER NOT NULL, sequence INTEGER NOT NULL,
  header BLOB NOT NULL, opening INTEGER NOT NULL,
  PRIMARY KEY (worker, incarnation, sequence)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS masked_sums (
  worker TEXT NOT NULL, incarnation INTEGER NOT NULL, leaving INTEGER NOT NULL,
  forgotten INTEGER NOT NULL, vector BLOB, requested BLOB, PRIMARY KEY (worker, incarnation));
CREATE INDEX IF NOT EXISTS masked_sums_leaving ON masked_sums (leaving, forgotten)
  WHERE leaving <> 0;
CREATE TABLE IF NOT EXISTS masked_vectors (name TEXT PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS masked_state (
  id INTEGER PRIMARY KEY CHECK (id = 1), content BLOB NOT NULL)
"""
MASKS, RESIDUE = "masks", "residue"  # vectors
STAYS, LEAVES = 0, -1  # else the number of the opening with which it leaves


class MaskedSum(NamedTuple):
    """A sum of masked updates of one incarnation."""

    worker: str
    incarnation: int
    leaving: int
    forgotten: int  # erasure requests that it contains nothing of
    vector: bytes | None  # None: nothing is opened yet
    requested: bytes | None  # part of the open request, if the incarnation has ended


_HEADER = msgspec.msgpack.Decoder(Header)
_encode = msgspec.msgpack.Encoder().encode


class MaskStore:
    """The masked sums of a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._execute = ledger.execute
        with ledger.transaction():
            for statement in _TABLES.split(";"):
                self._execute(statement)

    # -- state -----------------------------------------------------------------------------------

    @property
    def state(self) -> MaskState:
        """The state of openings."""
        return self._ledger.keep("masks", lambda: self._ledger.reader.masks())

    def change(self, **changes: object) -> None:
        """Change fields of the state."""
        state = msgspec.structs.replace(self.state, **changes)
        self._execute("INSERT OR REPLACE INTO masked_state VALUES (1, ?)", (_encode(state),))
        self._ledger.drop("masks")

    def vector(self, name: str) -> bytes | None:
        """Return a vector; None if it is zero."""
        query = "SELECT vector FROM masked_vectors WHERE name = ?"
        row = self._execute(query, (name,)).fetchone()
        return None if row is None else bytes(row[0])

    def put_vector(self, name: str, vector: bytes | None) -> None:
        """Replace a vector."""
        self._execute("DELETE FROM masked_vectors WHERE name = ?", (name,))
        if vector is not None:
            self._execute("INSERT INTO masked_vectors VALUES (?, ?)", (name, vector))

    def clear(self) -> None:
        """Forget all sums: a new epoch or another key begins with nothing."""
        for table in ("masked_headers", "masked_sums", "masked_vectors", "masked_state"):
            self._execute(f"DELETE FROM {table}")  # noqa: S608
        self._ledger.drop("masks")
        self._ledger.note_deletion(compact=True)

    # -- headers ---------------------------------------------------------------------------------

    def put_header(self, header: Header) -> None:
        """Store the header of an update."""
        row = (header.worker, header.incarnation, header.sequence, _encode(header), 0)
        self._execute("INSERT OR REPLACE INTO masked_headers VALUES (?, ?, ?, ?, ?)", row)

    def find_header(self, worker: str, incarnation: int, sequence: int) -> Header:
        """Return the header of a stored update."""
        query = (
            "SELECT header FROM masked_headers WHERE worker = ? AND incarnation = ? "
            "AND sequence = ?"
        )
        row = self._execute(query, (worker, incarnation, sequence)).fetchone()
        return _HEADER.decode(row[0])

    def opened_headers(self, worker: str, incarnation: int) -> list[Header]:
        """Return the headers of the updates of an incarnation that were opened."""
        query = (
            "SELECT header FROM masked_headers WHERE worker = ? AND incarnation = ? "
            "AND opening > 0 AND opening <= ? ORDER BY sequence"
        )
        rows = self._execute(query, (worker, incarnation, self.state.number))
        return [_HEADER.decode(header) for (header,) in rows]

    def mark_headers(self, headers: Iterable[Header], opening: int) -> None:
        """Note the opening of some updates; 0 for none."""
        query = (
            "UPDATE masked_headers SET opening = ? WHERE worker = ? AND incarnation = ? "
            "AND sequence = ?"
        )
        for header in headers:
            key = (header.worker, header.incarnation, header.sequence)
            self._execute(query, (opening, *key))

    def drop_unopened(self, worker: str) -> None:
        """Delete the headers of a worker that no request contains."""
        self._execute("DELETE FROM masked_headers WHERE worker = ? AND opening = 0", (worker,))

    # -- sums ------------------------------------------------------------------------------------

    def sums(self) -> Iterator[MaskedSum]:
        """Yield all sums, those that leave included."""
        return self._select("1")

    def leaving(self, opening: int) -> list[MaskedSum]:
        """Return the sums that wait to leave, or that leave with an opening."""
        return list(self._select("leaving = ? AND leaving <> 0", opening))

    def of(self, worker: str, incarnation: int | None = None) -> list[MaskedSum]:
        """Return the sums of a worker, or of one of its incarnations."""
        if incarnation is None:
            return list(self._select("worker = ?", worker))
        return list(self._select("worker = ? AND incarnation = ?", worker, incarnation))

    def find(self, worker: str, incarnation: int) -> MaskedSum | None:
        """Return a sum; None if there is none."""
        return next(iter(self.of(worker, incarnation)), None)

    def min_forgotten(self) -> int | None:
        """Return the least number of forgotten erasures of a sum that leaves; None without one."""
        query = "SELECT min(forgotten) FROM masked_sums WHERE leaving <> 0"
        number = self._execute(query).fetchone()[0]
        return None if number is None else int(number)

    def find_leaving(self, worker: str) -> int | None:
        """Return the first incarnation of a worker whose sum leaves; None without one."""
        query = "SELECT min(incarnation) FROM masked_sums WHERE worker = ? AND leaving <> 0"
        incarnation = self._execute(query, (worker,)).fetchone()[0]
        return None if incarnation is None else int(incarnation)

    def _select(self, condition: str, *values: object) -> Iterator[MaskedSum]:
        query = (
            "SELECT worker, incarnation, leaving, forgotten, vector, requested FROM masked_sums "  # noqa: S608
            f"WHERE {condition} ORDER BY worker, incarnation"
        )
        return (MaskedSum(*row) for row in self._execute(query, values).fetchall())

    def put(self, masked: MaskedSum) -> None:
        """Insert or replace a sum."""
        self._execute(  # an update overwrites bytes of the same length in place
            "INSERT INTO masked_sums VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "leaving = excluded.leaving, forgotten = excluded.forgotten, "
            "vector = excluded.vector, requested = excluded.requested",
            masked,
        )

    def let_leave(self, masked: MaskedSum, opening: int) -> None:
        """Let a sum leave with an opening."""
        query = "UPDATE masked_sums SET leaving = ? WHERE worker = ? AND incarnation = ?"
        self._execute(query, (opening, masked.worker, masked.incarnation))

    def keep_leaving(self, opening: int) -> None:
        """Let the sums of an opening that was refused wait again."""
        self._execute("UPDATE masked_sums SET leaving = ? WHERE leaving = ?", (LEAVES, opening))

    def drop(self, worker: str, incarnation: int) -> None:
        """Delete a sum and its headers: it has left."""
        query = "DELETE FROM masked_sums WHERE worker = ? AND incarnation = ?"
        self._execute(query, (worker, incarnation))
        query = "DELETE FROM masked_headers WHERE worker = ? AND incarnation = ?"
        self._execute(query, (worker, incarnation))
        self._ledger.note_deletion()

    def drop_empty(self) -> None:
        """Delete the sums that leave and of which nothing was opened."""
        for masked in self.leaving(LEAVES):
            if masked.vector is None:
                self.drop(masked.worker, masked.incarnation)
