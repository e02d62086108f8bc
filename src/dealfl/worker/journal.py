"""A worker's journal: its records, its outbox and its state, in one SQLite file.

A change to the records and the update that reports it are written in one transaction. After a
crash, statistics and journal therefore agree. After an erasure the file is compacted twice: at
once, and when the server has counted the updates that still held examples of the owner.
"""

from __future__ import annotations

import math
import re
import secrets
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from functools import lru_cache, partial
from itertools import chain, compress, repeat, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from dealfl.protocol import MaskedUpdate, Position, Update
from dealfl.storage import Connect, Database
from dealfl.worker.drift import DriftState

_TABLES = """
CREATE TABLE records (
  id INTEGER PRIMARY KEY AUTOINCREMENT, owner BLOB NOT NULL, body BLOB NOT NULL,
  arrived INTEGER NOT NULL, used INTEGER NOT NULL, state INTEGER NOT NULL);
CREATE INDEX learned_by_use ON records (used, arrived, id) WHERE state = 1;
CREATE INDEX others_by_use ON records (state, used, arrived, id) WHERE state <> 1;
CREATE INDEX records_by_owner ON records (substr(owner, 1, 4));
CREATE TABLE outbox (sequence INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE sending (sequence INTEGER PRIMARY KEY, send_at_s REAL, sent INTEGER NOT NULL,
  withdrawing INTEGER NOT NULL);
CREATE TABLE answers (
  hash BLOB PRIMARY KEY, request TEXT NOT NULL, examples INTEGER NOT NULL, send_at_s REAL)
  WITHOUT ROWID;
CREATE TABLE suppressed (owner BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE reached (number INTEGER PRIMARY KEY, chain BLOB NOT NULL);
CREATE TABLE quarantine (id INTEGER PRIMARY KEY, reason TEXT NOT NULL);
CREATE TABLE published (version INTEGER NOT NULL, statistics BLOB NOT NULL, digest TEXT NOT NULL);
CREATE TABLE positions (number INTEGER PRIMARY KEY, position BLOB NOT NULL);
CREATE TABLE settings (name TEXT PRIMARY KEY, value BLOB NOT NULL)
"""
_STORED = (*re.findall(r"CREATE TABLE (\w+)", _TABLES), "sqlite_sequence")
_FILLED = "SELECT " + ", ".join(map("EXISTS (SELECT 1 FROM {})".format, _STORED))  # noqa: S608
_INDEX_OWNERS = "CREATE INDEX IF NOT EXISTS records_by_owner ON records (substr(owner, 1, 4))"

# By the number of parameters: one statement for 64 records needs half the time of 64 statements
_INSERT = "INSERT INTO records (owner, body, arrived, used, state) VALUES "
_INSERTIONS = {5 * size: _INSERT + ", ".join(["(?, ?, ?, ?, ?)"] * size) for size in (64, 8, 1)}

# Records without a gap between their ids; + keeps SQLite from reading all records of the state
_MOVE = "UPDATE records SET state = ?, used = ? WHERE +state = ? AND id BETWEEN ? AND ?"
# In the words of the two indexes by use
_LEARNED = "SELECT id, owner, body FROM records WHERE state = 1 ORDER BY used, arrived, id LIMIT ?"
_OTHERS = (
    "SELECT id, owner, body FROM records WHERE state <> 1 AND state = ? "
    "ORDER BY used, arrived, id LIMIT ?"
)
_COUNT_LEARNED = (  # without a look at each row
    "SELECT (SELECT count(*) FROM records) - (SELECT count(*) FROM records WHERE state <> 1)"
)
_COUNT_OTHERS = "SELECT count(*) FROM records WHERE state <> 1 AND state = ?"

# The index holds the first bytes of an owner's hash
_OF_OWNER = (
    "SELECT state, id, owner, body FROM records "
    "WHERE substr(owner, 1, 4) = substr(:owner, 1, 4) AND owner = :owner ORDER BY id"
)
_PUT_STATE = (  # in place: REPLACE would change the index, too
    "INSERT INTO settings VALUES ('state', ?) ON CONFLICT DO UPDATE SET value = excluded.value"
)
_SENDING = "SELECT sequence, send_at_s, sent, withdrawing FROM sending ORDER BY sequence"

_MAX_KEPT = 256  # histories in memory, and items of each: less than 4 MB
_MAX_WAITING = 64  # records in memory: those of one training, as a rule


class State(IntEnum):
    """The state of a record."""

    WAITING = 0  # not learned yet
    LEARNED = 1  # part of the statistics
    GRACE = 2  # evicted; the next training deletes it
    VALIDATION = 3  # held back for validation, until newer ones replace them


_COUNT_NAMES = [f"count {state}" for state in State]  # in what the journal keeps in memory


class Record(NamedTuple):
    """One example, or one interaction of a history, in a journal."""

    id: int
    owner: bytes  # keyed hash
    body: bytes  # as integers of the learner


_as_record = partial(tuple.__new__, Record)  # three times as fast as `Record._make`


@dataclass(slots=True)
class OutboxRow:
    """How an update in the outbox is sent, and the update itself until it is sent.

    A sent update never changes; it can only be withdrawn.
    """

    update: Update | None
    send_at_s: float | None  # None: held back
    sent: bool = False
    withdrawing: bool = False


class Call(msgspec.Struct, frozen=True, array_like=True):
    """When a sleeping worker calls: enough examples wait, or the time has come.

    If enough wait, it waits for a ride first; from some time on it rides with any number.
    """

    waiting: int
    since_s: float
    until_s: float
    ride_s: float = 0.0  # how long it waits for a ride
    any_from_s: float = math.inf
    enough_s: float | None = None  # since when enough wait


class WorkerState(msgspec.Struct, array_like=True):
    """What a worker knows beside its records; it survives restarts."""

    journal_id: str = ""  # drawn when the file is created
    schema: str = ""  # digest of the learner's schema
    clock: int = 0  # counts changes of records: which was used before which

    # the server, as its messages tell
    session: int = 0  # number of the process that works on this journal
    epoch: str = ""  # of the server's ledger; empty before the first welcome
    incarnation: int = 0  # 0 before the first welcome
    round: int = -1  # of the last assignment
    sequence: int = 0  # of the last update that was made
    terms: tuple[str, ...] = ()  # of the server, which settled updates of this incarnation
    withdrawn: tuple[int, ...] = ()  # the last updates of this incarnation that were
    declined: str = ""  # why the last assignment was
    unable: str = ""  # why the device cannot train
    refused: str = ""  # why the last message or update was
    announced: tuple[int, int, str, int, str] | None = None  # what the server was told last
    announced_s: float | None = None
    settled_s: float | None = None  # when the server last sent the worker to sleep
    call: Call | None = None  # when the worker calls next
    is_calling: bool = False  # it has called, and waits for what the server says

    # training
    carry: Fraction = Fraction(0)  # of the retention
    theta: Fraction | None = None  # in use, if it is not that of the job
    theta_part: Fraction = Fraction(1)  # of the assigned θ, after a bad eviction
    fetched_bytes: int = 0  # since the last training
    learned: int = 0  # records, so far
    forgotten: int = 0
    recovered: int = 0
    changes: int = 0  # of the learned records, as a live model counts them
    drift: DriftState = msgspec.field(default_factory=DriftState)

    # erasure
    is_suppressed: bool = False  # whether new owners are, and the journal is not compacted yet
    last_with_erased: int = 0  # sequence of the last update that may hold erased examples

    # masks
    keyholder: str = ""  # name of the key for which updates are masked; empty without masks
    fresh_after: int = 0  # id of the last record that an update of before may contain


_decode = msgspec.msgpack.Decoder(Update | MaskedUpdate).decode
_encode = msgspec.msgpack.Encoder().encode
_encode_state = msgspec.msgpack.Encoder(enc_hook=str).encode
_fraction = lru_cache(maxsize=1024)(Fraction)
decode_state = msgspec.msgpack.Decoder(WorkerState, dec_hook=lambda _, text: _fraction(text)).decode


_Rows = dict[str, list[tuple[Any, ...]]]  # by table; no table without rows
_EMPTY: dict[str, Callable[[], Any]] = {  # what is kept of a table without rows
    "outbox": dict,
    "reached": tuple,
    "answers": lambda: None,
    "published": lambda: (0, ""),
}
_encode_rows = msgspec.msgpack.Encoder().encode
_decode_rows = msgspec.msgpack.Decoder(_Rows).decode


class Journal(Database):
    """The store of a worker; call the methods that write inside `with journal.transaction()`.

    Memory keeps the state, how updates are sent, those that were not sent yet, and the version of
    the published model. What changes is written once, at the end of the transaction.

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
    tables = _TABLES
    own_table = "outbox"
    overwrites_free_pages = False  # twice the bytes of every update, on a phone's flash
    page_bytes = 512  # a training changes a few bytes of many pages
    finish_copy = (*Database.finish_copy, _INDEX_OWNERS)

    _state_bytes = b""  # of the state in the file
    _scheduled: dict[int, bool]  # updates of this transaction, and whether their content is new
    _filled: list[str]  # tables with rows, after this number of changes:
    _filled_at = -1

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
        self.state.journal_id = self._new_id
        if self.path == ":memory:":
            self._db.execute("DROP INDEX records_by_owner")

    # -- rows instead of a file ------------------------------------------------------------------

    def rows(self) -> bytes:
        """Return all rows as bytes; they take a hundredth of the memory of a connection."""
        filled = self._find_filled()
        tables = {
            name: self._db.execute(f"SELECT * FROM {name}").fetchall()  # noqa: S608
            for name in filled
        }
        return _encode_rows(tables)

    def _find_filled(self) -> list[str]:
        """Return the names of the tables with rows."""
        if self._filled_at != self._db.total_changes:
            flags = self._db.execute(_FILLED).fetchone()
            self._filled = list(compress(_STORED, flags))
            self._filled_at = self._db.total_changes
        return self._filled

    def replace_rows(self, content: bytes) -> None:
        """Replace all rows of a journal in memory by those that `rows` returned.

        Connection, tables and compiled statements stay.
        """
        self._put_rows(_decode_rows(content))

    def begin(self, journal_id: str) -> None:
        """Replace all rows of a journal in memory by those of a new journal."""
        state = _encode_state(WorkerState(journal_id=journal_id))
        self._put_rows({"settings": [("state", state)]})

    def _put_rows(self, tables: _Rows) -> None:
        self._db.execute("BEGIN")
        for name in self._find_filled():
            self._db.execute(f"DELETE FROM {name}")  # noqa: S608
        for name, rows in tables.items():
            places = ", ".join("?" * len(rows[0]))
            self._db.executemany(f"INSERT INTO {name} VALUES ({places})", rows)  # noqa: S608
        self._db.execute("COMMIT")
        self._forget_cached()
        self._filled, self._filled_at = list(tables), self._db.total_changes
        states = Counter(row[-1] for row in tables.get("records", ()))
        self._kept |= {name: states[state] for state, name in enumerate(_COUNT_NAMES)}
        self._kept |= {name: empty() for name, empty in _EMPTY.items() if name not in tables}

    def _index_owners(self) -> None:
        """Create the index that a journal in memory does not have yet: it makes `add` slow."""
        if self.path == ":memory:":
            self.keep("index", lambda: self._db.execute(_INDEX_OWNERS))

    def _forget_cached(self) -> None:
        super()._forget_cached()
        self._scheduled = {}

    def _write_changes(self) -> None:
        state = self._kept.get("state")
        if state is not None and (content := _encode_state(state)) != self._state_bytes:
            self._db.execute(_PUT_STATE, (content,))
            self._state_bytes = content
        for sequence, is_new in self._scheduled.items():
            row = self.outgoing[sequence]
            if is_new:
                query = "INSERT OR REPLACE INTO outbox VALUES (?, ?)"
                self._db.execute(query, (sequence, _encode(row.update)))
            query = "INSERT OR REPLACE INTO sending VALUES (?, ?, ?, ?)"
            self._db.execute(query, (sequence, row.send_at_s, row.sent, row.withdrawing))
            if row.sent:
                row.update = None
        self._scheduled = {}

    # -- state -----------------------------------------------------------------------------------

    @property
    def state(self) -> WorkerState:
        """The state of the worker; change it within a transaction, which writes it."""
        return self.keep("state", self._read_state)

    def _read_state(self) -> WorkerState:
        row = self._db.execute("SELECT value FROM settings WHERE name = 'state'").fetchone()
        self._state_bytes = b"" if row is None else row[0]
        return WorkerState() if row is None else decode_state(row[0])

    @property
    def id(self) -> str:
        """The id of the journal, drawn when the file is created."""
        return self.state.journal_id

    def positions(self) -> dict[int, bytes]:
        """Return up to where the sources of the records were read."""
        return dict(self._db.execute("SELECT number, position FROM positions").fetchall())

    def set_position(self, number: int, position: bytes) -> None:
        """Store up to where a source was read."""
        query = "INSERT OR REPLACE INTO positions VALUES (?, ?)"
        self._db.execute(query, (number, position))

    def _tick(self) -> int:
        self.state.clock += 1
        return self.state.clock

    # -- records ---------------------------------------------------------------------------------

    def add(self, rows: Sequence[tuple[bytes, bytes]], state: State) -> list[int]:
        """Add records (owner, body) in the order of their arrival, and return their ids."""
        clock = self._tick()
        values = list(chain.from_iterable((*row, clock, clock, int(state)) for row in rows))
        done = 0
        for width, query in _INSERTIONS.items():
            starts = range(done, len(values) - width + 1, width)
            self._db.executemany(query, (values[first : first + width] for first in starts))
            done += len(starts) * width
        (last,) = self._db.execute("SELECT last_insert_rowid()").fetchone()
        ids = list(range(last - len(rows) + 1, last + 1))  # AUTOINCREMENT leaves no gap
        waiting = self._kept.get("waiting")
        self._note_change(state, len(ids))
        if waiting is None or state is not State.WAITING:
            return ids
        if len(waiting) + len(ids) <= _MAX_WAITING:
            new = [Record(number, *row) for number, row in zip(ids, rows, strict=True)]
            self._kept["waiting"] = waiting + new
        return ids

    def last_id(self) -> int:
        """Return the highest id of a record; 0 without records."""
        return int(self._db.execute("SELECT coalesce(max(id), 0) FROM records").fetchone()[0])

    def waiting(self) -> list[Record]:
        """Return the waiting records; memory keeps a few that have just arrived."""
        records = self._kept.get("waiting") if self._db.in_transaction else None
        return self.records(State.WAITING) if records is None else records

    def records(self, state: State, limit: int = -1) -> list[Record]:
        """Return records in a state, least recently used first, then by arrival and id."""
        if state is State.LEARNED:
            rows = self._db.execute(_LEARNED, (limit,))
        else:
            rows = self._db.execute(_OTHERS, (int(state), limit))
        return list(map(_as_record, rows))

    def records_of(self, owners: Iterable[bytes]) -> dict[State, list[Record]]:
        """Return the records of some owners, by state; every state has an entry."""
        records: dict[State, list[Record]] = {state: [] for state in State}
        self._index_owners()
        for owner in sorted(set(owners)):
            for state, *record in self._db.execute(_OF_OWNER, {"owner": owner}):
                records[state].append(Record(*record))
        return records

    def bodies_of(
        self, owners: Iterable[bytes], without: Collection[Record]
    ) -> dict[bytes, list[bytes]]:
        """Return the bodies of learned records by owner; memory keeps short histories."""
        lost: dict[bytes, list[Record]] = {}
        for record in without:
            lost.setdefault(record.owner, []).append(record)
        return {owner: self._rest_of(owner, lost.get(owner, ())) for owner in owners}

    def _rest_of(self, owner: bytes, lost: Sequence[Record]) -> list[bytes]:
        """Return the bodies of an owner's learned records without some of them."""
        bodies = self._histories.get(owner)
        if bodies is None:
            rows = self._learned_of(owner)
            self._keep_history(owner, [body for _, body in rows])
            ids = {record.id for record in lost}
            return [body for number, body in rows if number not in ids]
        rest = bodies.copy()
        for record in lost:
            rest.remove(record.body)  # records with the same body are worth the same
        return rest

    def _learned_of(self, owner: bytes) -> list[tuple[int, bytes]]:
        self._index_owners()
        rows = self._db.execute(_OF_OWNER, {"owner": owner})
        return [(number, body) for state, number, _, body in rows if state == State.LEARNED]

    def _keep_history(self, owner: bytes, bodies: list[bytes]) -> None:
        histories = self._histories
        if len(bodies) <= _MAX_KEPT:
            if len(histories) == _MAX_KEPT:
                histories.clear()
            histories[owner] = bodies

    @property
    def _histories(self) -> dict[bytes, list[bytes]]:
        return self.keep("histories", dict)

    def change_learned(
        self, new: Sequence[Record], gone: Sequence[Record], *, recoverable: bool
    ) -> None:
        """Learn waiting records, and delete learned ones or move them to the grace state."""
        histories = self._histories
        ids = [record.id for record in gone]
        self.move([record.id for record in new], State.WAITING, State.LEARNED)
        if recoverable:
            self.move(ids, State.LEARNED, State.GRACE)
        else:
            self.delete(ids, State.LEARNED)
        if not histories:
            return
        for record in gone:
            if record.owner in histories:
                histories[record.owner].remove(record.body)
        for record in new:
            if record.owner in histories:
                histories[record.owner].append(record.body)
                if len(histories[record.owner]) > _MAX_KEPT:
                    del histories[record.owner]
        self._kept["histories"] = histories

    def owners(self) -> dict[bytes, int]:
        """Return the number of records of each owner, by keyed hash."""
        rows = self._db.execute("SELECT owner, count(*) FROM records GROUP BY owner")
        return {bytes(owner): int(count) for owner, count in rows}

    def count(self, state: State) -> int:
        """Return the number of records in a state."""
        return self.keep(_COUNT_NAMES[state], partial(self._read_count, state))

    def _read_count(self, state: State) -> int:
        if state is State.LEARNED:
            return int(self._db.execute(_COUNT_LEARNED).fetchone()[0])
        return int(self._db.execute(_COUNT_OTHERS, (int(state),)).fetchone()[0])

    def move(self, ids: Iterable[int], before: State, after: State) -> None:
        """Move records from a state to another; they count as used now."""
        if not (numbers := set(ids)):
            return
        firsts = [min(numbers)]
        lasts = [max(numbers)]
        if lasts[0] - firsts[0] >= len(numbers):
            firsts = sorted(number for number in numbers if number - 1 not in numbers)
            lasts = sorted(number for number in numbers if number + 1 not in numbers)
        same = (int(after), self._tick(), int(before))
        rows = [(*same, *run) for run in zip(firsts, lasts, strict=True)]
        moved = self._db.executemany(_MOVE, rows).rowcount
        self._note_change(before, -moved)
        self._note_change(after, moved)

    def _note_change(self, state: State, more: int) -> None:
        if state is State.LEARNED:
            self.drop("histories")
        if state is State.WAITING:
            self.drop("waiting")
        if (name := _COUNT_NAMES[state]) in self._kept:
            self._kept[name] += more
            if state is State.WAITING and not self._kept[name]:
                self._kept["waiting"] = []

    def touch(self, ids: Iterable[int]) -> None:
        """Mark records as used now, e.g. by a local prediction."""
        self.drop("waiting")
        rows = zip(repeat(self._tick()), ids)
        self._db.executemany("UPDATE records SET used = ? WHERE id = ?", rows)

    def delete(self, ids: Iterable[int], state: State) -> None:
        """Delete records in a state, and overwrite their bytes."""
        if rows := [(identity, int(state)) for identity in ids]:
            query = "DELETE FROM records WHERE id = ? AND state = ?"
            self._note_change(state, -self._db.executemany(query, rows).rowcount)
            self.note_deletion(from_log=False)

    def quarantine(self, identity: int, reason: str) -> None:
        """Delete a record that cannot be learned, and keep the reason."""
        self.delete([identity], State.WAITING)
        self._db.execute("INSERT OR REPLACE INTO quarantine VALUES (?, ?)", (identity, reason))

    def quarantined(self) -> list[tuple[int, str]]:
        """Return ids and reasons of all quarantined records."""
        rows = self._db.execute("SELECT id, reason FROM quarantine ORDER BY id")
        return [(int(identity), str(reason)) for identity, reason in rows]

    # -- erased owners and examples ------------------------------------------------------------

    @property
    def suppresses_anyone(self) -> bool:
        """Whether anybody is erased."""
        return self.execute("SELECT 1 FROM suppressed LIMIT 1").fetchone() is not None

    def suppresses(self, entry: bytes) -> bool:
        """Whether an owner or an example is erased, by keyed hash."""
        query = "SELECT 1 FROM suppressed WHERE owner = ?"
        return self.execute(query, (entry,)).fetchone() is not None

    def suppress(self, entry: bytes) -> bool:
        """Refuse an owner or an example; return whether it is new in the list."""
        insert = "INSERT OR IGNORE INTO suppressed VALUES (?)"
        return self.execute(insert, (entry,)).rowcount > 0

    def readmit(self, owner: bytes) -> None:
        """Admit new records of an erased owner."""
        self.execute("DELETE FROM suppressed WHERE owner = ?", (owner,))

    # -- the list of erasures ------------------------------------------------------------------

    def has_reached(self, position: Position) -> bool:
        """Return whether the worker has forgotten everyone up to a position in the list."""
        if position == Position() or position in self.reached:
            return True
        query = "SELECT 1 FROM reached WHERE number = ? AND chain = ?"
        return self._db.execute(query, position).fetchone() is not None

    def note_reached(self, before: Position, after: Position) -> None:
        """Note that the worker has forgotten everyone between two positions in the list."""
        if self.has_reached(before) and not self.has_reached(after):
            # positions after `before` were in a list that the server has lost
            self._db.execute("DELETE FROM reached WHERE number > ?", (before.number,))
            self._db.execute("INSERT INTO reached VALUES (?, ?)", after)
            self.drop("reached")

    @property
    def reached(self) -> tuple[Position, ...]:
        """The last position reached, and ever fewer of those before."""
        return self.keep("reached", self._read_reached)

    def _read_reached(self) -> tuple[Position, ...]:
        query = "SELECT number, chain FROM reached WHERE number <= ? ORDER BY number DESC LIMIT 1"
        last = self._db.execute("SELECT max(number) FROM reached").fetchone()[0] or 0
        steps = (last - (2**power >> 1) for power in range(64))
        rows = [
            self._db.execute(query, (number,)).fetchone()
            for number in takewhile(lambda number: number > 0, steps)
        ]
        return tuple(dict.fromkeys(Position(*row) for row in rows if row is not None))

    # -- outbox ----------------------------------------------------------------------------------

    @property
    def outgoing(self) -> dict[int, OutboxRow]:
        """The updates without a receipt, by sequence number; change them by `put_outgoing`."""
        return self.keep("outbox", self._read_outbox)

    def _read_outbox(self) -> dict[int, OutboxRow]:
        return {row[0]: OutboxRow(None, *row[1:]) for row in self._db.execute(_SENDING)}

    def put_outgoing(self, sequence: int, row: OutboxRow, *, is_new: bool = False) -> None:
        """Store an update in the outbox, or only how it is sent."""
        self.outgoing[sequence] = row
        self._scheduled[sequence] = is_new or self._scheduled.get(sequence, False)

    def delete_outgoing(self, sequence: int) -> bool:
        """Delete an update from the outbox; return whether it was there."""
        self._scheduled.pop(sequence, None)
        for table in ("outbox", "sending"):
            self._db.execute(f"DELETE FROM {table} WHERE sequence = ?", (sequence,))  # noqa: S608
        return self.outgoing.pop(sequence, None) is not None

    def read_update(self, sequence: int) -> Update:
        """Return the content of an update in the outbox."""
        if (update := self.outgoing[sequence].update) is not None:
            return update
        query = "SELECT body FROM outbox WHERE sequence = ?"
        stored: Update = _decode(self._db.execute(query, (sequence,)).fetchone()[0])
        return stored

    def next_send_s(self) -> float | None:
        """Return the time when the next update or answer is due, in seconds; None if none is."""
        times = [row.send_at_s for row in self.outgoing.values() if row.send_at_s is not None]
        if (answer_s := self.next_answer_s()) is not None:
            times.append(answer_s)
        return min(times, default=None)

    def next_answer_s(self) -> float | None:
        """Return the time when the next answer to an erasure is due, in seconds, or None."""
        time_s = self.keep("answers", self._read_next_answer)
        return None if time_s is None else float(time_s)

    def _read_next_answer(self) -> float | None:
        (time_s,) = self._db.execute("SELECT min(send_at_s) FROM answers").fetchone()
        return time_s  # type: ignore[no-any-return]

    # -- the published model ---------------------------------------------------------------------

    def put_published(self, version: int, statistics: bytes, digest: str = "") -> None:
        """Store a published model, unless a newer one is stored."""
        if self._db.execute("DELETE FROM published WHERE version <= ?", (version,)).rowcount:
            self.note_deletion()
        if self.published() is None:
            row = (version, statistics, digest)
            self._db.execute("INSERT INTO published VALUES (?, ?, ?)", row)
        self.drop("published")

    def reset_published(self) -> None:
        """Let any version of a new epoch replace the published model."""
        self._db.execute("UPDATE published SET version = 0")
        self.drop("published")

    def published_version(self) -> tuple[int, str]:
        """Return version and digest of the newest published model; 0 before the first."""
        query = "SELECT version, digest FROM published"
        return self.keep("published", lambda: self._db.execute(query).fetchone() or (0, ""))

    def published(self) -> tuple[int, bytes] | None:
        """Return version and statistics of the newest published model; None before the first."""
        row = self._db.execute("SELECT version, statistics FROM published").fetchone()
        return None if row is None else (int(row[0]), bytes(row[1]))
