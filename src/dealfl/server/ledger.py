"""The ledger of the server, in one SQLite file: workers, updates, rounds, statistics, erasures.

One call of the server is one transaction (WAL, synchronous=FULL), so that a receipt stays true
after a crash. When updates count, their deltas are added to their worker's sum and deleted; their
keys and keyed hashes of them remain. The total of all sums is written when a round closes, when a
version is published and when the job ends; until then it lags behind the sums.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import math
import secrets
import sqlite3
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from dealfl.erasure import count_persons, hash_request, next_position
from dealfl.errors import BadBytes, BadInput
from dealfl.exact import Statistics
from dealfl.protocol import MAX_OWNERS, MAX_WITHDRAWN, Erased, Position, Update
from dealfl.server.ledger_reader import (
    BEFORE,
    DURATIONS_S,
    TABLES,
    LedgerReader,
    LedgerState,
    OpenRound,
    WorkerRow,
    checksum,
    note_restore,
    worker_row,
)
from dealfl.server.sums import SumStore
from dealfl.storage import Connect, Database

_THIN_SHARE = 8  # parts of the kept history after which it is thinned again
_EPOCHS = 1000  # that are remembered, and as many terms
_LARGE = 1 << 16  # bytes of a delta that is written at the end of a transaction, if at all
_FIELDS = WorkerRow.__struct_fields__
_COLUMNS = ", ".join((*_FIELDS, "crc"))
_PLACEHOLDERS = ", ".join("?" for _ in (*_FIELDS, "crc"))
_values_of = attrgetter(*_FIELDS)
_OWNERS = msgspec.msgpack.Decoder(tuple[bytes, ...])

UpdateKey = tuple[str, int, int]  # worker, incarnation, sequence


class ChangeLog:
    """Workers in the order of their last change, in memory: who asks again gets what is new.

    Examples
    --------
    >>> log = ChangeLog()
    >>> log.note(["a", "b"])
    >>> names, last = log.since(0)
    >>> log.note(["a"])
    >>> names, log.since(last)
    (['a', 'b'], (['a'], 3))
    """

    def __init__(self) -> None:
        self.id = secrets.token_hex(8)  # numbers mean something only within one log
        self.last = 0  # number of the last change
        self._numbers: dict[str, int] = {}  # of the last change of each worker
        self._changes: list[tuple[int, str]] = []  # in their order, with some that are outdated

    def note(self, workers: Iterable[str]) -> None:
        """Note that workers have changed."""
        for worker in workers:
            self.last += 1
            self._numbers[worker] = self.last
            self._changes.append((self.last, worker))
        if len(self._changes) > 2 * len(self._numbers):
            self._changes = sorted((number, worker) for worker, number in self._numbers.items())

    def since(self, number: int, most: int = 2**62) -> tuple[list[str], int]:
        """Return the first workers that changed after a number, and the number of the last."""
        names: list[str] = []
        for index in range(bisect_left(self._changes, (number + 1,)), len(self._changes)):
            last, worker = self._changes[index]
            if self._numbers[worker] == last:
                names.append(worker)
                number = last
            if len(names) == most:
                break
        return names, number


class Ledger(Database):
    """The store that the server writes. Others read it through a `LedgerReader`."""

    kind = "ledger"
    remedy = "restore a backup"
    tables = TABLES
    own_table = "rounds"

    def __init__(
        self,
        path: str | Path = ":memory:",
        *,
        kept_rounds: int = 0,  # whose history stays whole, also versions and updates; 0 keeps all
        connect: Connect = sqlite3.connect,
    ) -> None:
        self._kept_rounds = kept_rounds
        self._changes: ChangeLog | None = None
        self.updates = UpdateStore(self)
        self.rounds = RoundStore(self)
        self.erasures = ErasureStore(self)
        self.sums = SumStore(self)
        super().__init__(path, connect=connect)

    def log_changes(self) -> ChangeLog:
        """Return a log of all workers, to which those are added that change later."""
        self._changes = ChangeLog()
        self.note_changed(name for (name,) in self.execute("SELECT name FROM workers"))
        return self._changes

    def note_changed(self, workers: Iterable[str]) -> None:
        """Note that workers have changed, if somebody wants to know."""
        if self._changes is not None:
            self._changes.note(workers)

    def _fill(self) -> None:
        self._write_state(LedgerState(secrets.token_bytes(16), secrets.token_hex(16)))

    def _open(self) -> None:
        super()._open()
        with self.naming_damage():
            self.workers()
            self.erasures.verify()

    def _forget_cached(self) -> None:
        super()._forget_cached()
        self.updates.forget_unwritten()

    def _write_changes(self) -> None:
        self.updates.write_deltas()

    @property
    def reader(self) -> LedgerReader:
        """Read access to the same database."""
        return LedgerReader(self._db, self.path)

    # -- state ----------------------------------------------------------------------------------

    @property
    def state(self) -> LedgerState:
        """What the server knows beside the rows of the tables."""
        return self.keep("state", lambda: self.reader.state())

    def change_state(self, **changes: Any) -> None:  # noqa: ANN401
        """Change fields of the state."""
        state = msgspec.structs.replace(self.state, **changes)
        if state != self.state:
            self._write_state(state)

    def _write_state(self, state: LedgerState) -> None:
        content = msgspec.msgpack.encode(state)
        self.execute("INSERT OR REPLACE INTO state VALUES (1, ?)", (content,))
        self.drop("state")

    def begin_term(self) -> None:
        """Draw the id of a server's process; a ledger from a backup lacks those since then."""
        self.change_state(terms=(*self.state.terms[1 - _EPOCHS :], secrets.token_hex(8)))

    def begin_epoch(self, other: str = "") -> None:
        """Draw a new epoch: the ledger may be older than what its workers know.

        `other` is the epoch of the worker that knows more.
        """
        former = (*self.state.former_epochs, self.state.epoch, other)
        self.change_state(
            former_epochs=tuple(dict.fromkeys(former[-_EPOCHS:])),
            epoch=secrets.token_hex(16),
            unpublished=True,
        )
        self.put_workers([note_restore(row) for row in self.workers().values()])

    def list_parts(self, owner: str) -> dict[str, bytes]:
        """Return the stored state of a part of the server, such as "selector", by name."""
        query = "SELECT name, value FROM parts WHERE owner = ?"
        return dict(self.execute(query, (owner,)).fetchall())

    def put_parts(self, owner: str, parts: Mapping[str, bytes]) -> None:
        """Store what changed in the state of a part of the server; empty bytes delete a part."""
        if not parts:
            return
        gone = [(owner, name) for name, value in parts.items() if not value]
        kept = [(owner, name, value) for name, value in parts.items() if value]
        self._db.executemany("DELETE FROM parts WHERE owner = ? AND name = ?", gone)
        self._db.executemany("INSERT OR REPLACE INTO parts VALUES (?, ?, ?)", kept)

    def thin_if_due(self) -> None:
        """Add what is older than the kept history to sums, and delete it."""
        last = self.rounds.last_number()
        if self._kept_rounds and last % max(self._kept_rounds // _THIN_SHARE, 1) == 0:
            self.rounds.thin(last - self._kept_rounds)
            self.updates.thin(self._kept_rounds)
            self.erasures.thin_versions(self._kept_rounds)

    # -- workers and their sums -----------------------------------------------------------------

    def workers(self) -> dict[str, WorkerRow]:
        """Return all workers by name, sorted."""
        rows = self.execute(f"SELECT {_COLUMNS} FROM workers ORDER BY name")  # noqa: S608
        return {row[0]: worker_row(self.path, row) for row in rows}

    def put_workers(self, rows: Iterable[WorkerRow]) -> None:
        """Insert or replace workers."""
        query = f"INSERT OR REPLACE INTO workers ({_COLUMNS}) VALUES ({_PLACEHOLDERS})"  # noqa: S608
        values = [(*_values_of(row), checksum(row)) for row in rows]
        self._db.executemany(query, values)
        self.note_changed(value[0] for value in values)

    def count_examples(self) -> tuple[int, int]:
        """Return how many examples were learned and evicted in all replies."""
        query = "SELECT coalesce(sum(learned), 0), coalesce(sum(evicted), 0) FROM workers"
        learned, evicted = self.execute(query).fetchone()
        return int(learned), int(evicted)

    def find_sum(self, worker: str) -> Statistics | None:
        """Return the sum of a worker's counted updates; None if nothing is counted."""
        schema = self.state.schema
        if schema is None or worker not in self.sums.fingerprints():
            return None
        return self.sums.read(worker, schema)


@dataclass(frozen=True, slots=True)
class Pending:
    """An update that is stored and not counted yet; a withdrawn one has no delta."""

    sequence: int
    withdrawn: bool
    successor: int = 0  # contains the rest of a withdrawn one


class StoredUpdate(NamedTuple):
    """Keyed hashes of an update and of its delta; those of a withdrawn one are None."""

    hash: bytes | None
    delta_hash: bytes | None
    withdrawn: bool


class UpdateStore:
    """The updates of workers."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._execute = ledger.execute
        self._unwritten: dict[UpdateKey, bytes] = {}  # large deltas of this transaction

    def forget_unwritten(self) -> None:
        """Forget the deltas that are not written."""
        self._unwritten.clear()

    def put(self, update: Update) -> None:
        """Store an update; a large delta only if it does not count in the same transaction."""
        key = (update.worker, update.incarnation, update.sequence)
        delta: bytes | None = update.delta
        if len(update.delta) >= _LARGE:
            self._unwritten[key] = update.delta
            delta = None
        delta_hash = hashlib.sha256(update.delta).digest()
        row = (*key, self.hash(update, delta_hash), self.keyed(delta_hash), 0, delta, 0)
        self._execute("INSERT INTO updates VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        self._ledger.note_changed([update.worker])

    def write_deltas(self) -> None:
        """Write the large deltas that do not count yet, before the transaction is committed."""
        query = "UPDATE updates SET delta = ? WHERE worker = ? AND incarnation = ? AND sequence = ?"
        for key, delta in self._unwritten.items():
            self._execute(query, (delta, *key))
        self._unwritten.clear()

    def find(self, worker: str, incarnation: int, sequence: int) -> StoredUpdate | None:
        """Return what is stored of an update, counted or not; None if it is unknown."""
        row = self._execute(
            "SELECT sha256, delta_sha256, withdrawn FROM updates "
            "WHERE worker = ? AND incarnation = ? AND sequence = ?",
            (worker, incarnation, sequence),
        ).fetchone()
        return None if row is None else StoredUpdate(row[0], row[1], bool(row[2]))

    def keyed(self, content: bytes) -> bytes:
        """Return the HMAC-SHA256 of bytes: without the key, a hash shows nothing of a person."""
        return hmac.digest(self._ledger.state.fingerprint_key, content, hashlib.sha256)

    def hash(self, update: Update, delta_hash: bytes) -> bytes:
        """Return the hash of all fields of an update but the process that has sent it."""
        plain = msgspec.structs.replace(update, session=0, delta=delta_hash)
        return self.keyed(msgspec.msgpack.encode(plain))

    def count_stored(self, row: WorkerRow, before: int = 2**62) -> int:
        """Return how many updates of a worker are stored and not counted, before a sequence."""
        query = (
            "SELECT count(*) FROM updates WHERE worker = ? AND incarnation = ? "
            "AND sequence > ? AND sequence < ?"
        )
        key = (row.name, row.incarnation, row.counted, before)
        return int(self._execute(query, key).fetchone()[0])

    def put_withdrawn(self, worker: str, incarnation: int, sequence: int, successor: int) -> None:
        """Store that an update never counts; its successor contains the rest of it."""
        row = (worker, incarnation, sequence, None, None, 1, b"", successor)
        self._execute("INSERT INTO updates VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def contradicts(self, row: WorkerRow, withdrawn: Collection[int], settled: int) -> bool:
        """Return whether a worker took another verdict for final than the one on record.

        `withdrawn` are the last updates that it knows to be; it has a verdict up to `settled`.
        """
        first = min(withdrawn) if len(withdrawn) == MAX_WITHDRAWN else 0
        rows = self._execute(
            "SELECT sequence FROM updates "
            "WHERE worker = ? AND incarnation = ? AND withdrawn AND sequence BETWEEN ? AND ?",
            (row.name, row.incarnation, first, settled),
        )
        if any(sequence not in withdrawn for (sequence,) in rows):
            return True
        stored = (self.find(row.name, row.incarnation, sequence) for sequence in withdrawn)
        return any(one is not None and not one.withdrawn for one in stored)

    def dispute(self, row: WorkerRow, after: int) -> None:
        """Note that the updates of a worker after a sequence were stored by an earlier process.

        If its journal was restored, it may have others in their place, and sends those.
        """
        self._execute("DELETE FROM disputed WHERE worker = ?", (row.name,))
        self._execute(
            "INSERT INTO disputed SELECT worker, sequence FROM updates "
            "WHERE worker = ? AND incarnation = ? AND sequence > ?",
            (row.name, row.incarnation, after),
        )

    def settle(self, row: WorkerRow, first: int, last: int) -> bool:
        """Note that a worker has the stored updates of a range; return whether that is new."""
        query = "DELETE FROM disputed WHERE worker = ? AND sequence BETWEEN ? AND ?"
        return self._execute(query, (row.name, first, last)).rowcount > 0

    def is_disputed(self, row: WorkerRow, last: int) -> bool:
        """Return whether a worker may have others in place of its updates up to a sequence."""
        query = "SELECT 1 FROM disputed WHERE worker = ? AND sequence <= ? LIMIT 1"
        return self._execute(query, (row.name, last)).fetchone() is not None

    def waiting(self) -> list[str]:
        """Return the workers with updates that are not counted yet."""
        rows = self._execute(
            "SELECT DISTINCT u.worker FROM updates u "
            "JOIN workers w ON w.name = u.worker AND w.incarnation = u.incarnation "
            "WHERE u.delta IS NOT NULL ORDER BY u.worker"
        )
        return [name for (name,) in rows]

    def pending(self, row: WorkerRow) -> Iterator[Pending]:
        """Yield the updates of a worker that are not counted yet, up to the first gap."""
        query = (  # a successor is stored behind a delta, which takes time to read
            "SELECT sequence, withdrawn, iif(withdrawn, successor, 0) FROM updates "
            "WHERE worker = ? AND incarnation = ? AND sequence > ? ORDER BY sequence"
        )
        rows = self._execute(query, (row.name, row.incarnation, row.counted))
        for expected, (sequence, withdrawn, successor) in enumerate(rows, row.counted + 1):
            if sequence != expected:
                return
            yield Pending(sequence, bool(withdrawn), successor)

    def read_delta(self, row: WorkerRow, sequence: int) -> bytes:
        """Return the delta of a stored update."""
        if (unwritten := self._unwritten.get((row.name, row.incarnation, sequence))) is not None:
            return unwritten
        query = (
            "SELECT delta, delta_sha256 FROM updates "
            "WHERE worker = ? AND incarnation = ? AND sequence = ?"
        )
        delta, sha256 = self._execute(query, (row.name, row.incarnation, sequence)).fetchone()
        if self.keyed(hashlib.sha256(delta).digest()) != sha256:
            raise BadBytes(
                f"ledger {self._ledger.path}: update {sequence} of {row.name} is damaged"
            )
        return bytes(delta)

    def last_sequence(self, worker: str, incarnation: int) -> int:
        """Return the highest stored sequence of a worker's updates; 0 if there is none."""
        query = (
            "SELECT coalesce(max(sequence), 0) FROM updates WHERE worker = ? AND incarnation = ?"
        )
        return int(self._execute(query, (worker, incarnation)).fetchone()[0])

    def delete_deltas(self, worker: str, incarnation: int, last: int) -> None:
        """Delete the deltas of counted updates; their keys and hashes remain."""
        self._ledger.note_deletion()
        self._unwritten = {
            key: delta
            for key, delta in self._unwritten.items()
            if key[:2] != (worker, incarnation) or key[2] > last
        }
        self._execute(
            "UPDATE updates SET delta = NULL WHERE worker = ? AND incarnation = ? AND sequence <= ?"
            " AND delta IS NOT NULL",
            (worker, incarnation, last),
        )

    def thin(self, kept: int) -> None:
        """Delete the keys of counted and withdrawn updates but the last ones of each worker.

        `Aggregation` refuses an update whose key is gone.
        """
        self._execute(
            "DELETE FROM updates WHERE (withdrawn OR delta IS NULL) AND sequence <= "
            "(SELECT w.counted - ? FROM workers w "
            "WHERE w.name = updates.worker AND w.incarnation = updates.incarnation)",
            (kept,),
        )

    def drop_all(self) -> None:
        """Delete the updates of all workers."""
        self._ledger.note_deletion()
        self._unwritten.clear()
        self._execute("DELETE FROM updates")
        self._execute("DELETE FROM disputed")

    def drop(self, worker: str) -> None:
        """Delete all updates of a worker."""
        self._ledger.note_deletion()
        self._unwritten = {k: delta for k, delta in self._unwritten.items() if k[0] != worker}
        self._execute("DELETE FROM updates WHERE worker = ?", (worker,))
        self._execute("DELETE FROM disputed WHERE worker = ?", (worker,))


@dataclass(slots=True)
class _Replies:
    """The workers that were selected in a round, in memory while it is open."""

    times_s: dict[str, float | None]  # None without a reply; sorted by worker
    replied: int  # including those that declined
    declined: int


class RoundStore:
    """The rounds, and the workers selected in them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._execute = ledger.execute

    def last_number(self) -> int:
        """Return the number of the last round; 0 before the first."""
        return self._last()[0]

    def find_open(self) -> OpenRound | None:
        """Return the open round; None if no round is open."""
        return self._last()[1]

    def _last(self) -> tuple[int, OpenRound | None]:
        return self._ledger.keep("round", self._read_last)  # every message asks for it

    def _read_last(self) -> tuple[int, OpenRound | None]:
        (number,) = self._execute("SELECT coalesce(max(number), 0) FROM rounds").fetchone()
        return int(number), self._ledger.reader.open_round()

    def open(
        self,
        number: int,
        opened_s: float,
        deadline_s: float,
        selected: Mapping[str, int],
        eligible: int,
    ) -> None:
        """Open a round for workers with waiting examples; `eligible` counts all candidates."""
        self._ledger.drop("round")
        self._execute(
            "INSERT INTO rounds (number, opened_s, deadline_s, eligible) VALUES (?, ?, ?, ?)",
            (number, opened_s, deadline_s, eligible),
        )
        query = "INSERT INTO selections (round, worker, waiting) VALUES (?, ?, ?)"
        for worker, waiting in selected.items():
            self._execute(query, (number, worker, waiting))

    def shift(self, row: OpenRound) -> None:
        """Change the opening and the deadline of a round."""
        self._ledger.drop("round")
        times = (row.opened_s, row.deadline_s, row.number)
        self._execute("UPDATE rounds SET opened_s = ?, deadline_s = ? WHERE number = ?", times)

    def close(self, number: int, closed_s: float, reason: str, digest: str) -> None:
        """Close a round."""
        self._ledger.drop("round")
        self._ledger.drop(f"replies {number}")
        self._execute(
            "UPDATE rounds SET closed_s = ?, reason = ?, digest = ? WHERE number = ?",
            (closed_s, reason, digest, number),
        )

    def thin(self, last: int) -> None:
        """Add rounds up to a number, and who was selected in them, to sums, and delete them.

        The last selection of a worker stays while it is not answered: a sleeping one may call.
        """
        old = (
            "round <= ? AND (replied_s IS NOT NULL OR round < "
            "(SELECT max(s.round) FROM selections s WHERE s.worker = selections.worker))"
        )
        self._execute(
            "INSERT INTO past_selections SELECT worker, count(*), "  # noqa: S608
            "count(replied_s) - count(nullif(declined, '')), count(nullif(declined, '')), "
            "sum(learned), sum(evicted), sum(energy_j), sum(reward) FROM selections "
            f"WHERE {old} GROUP BY worker ON CONFLICT DO UPDATE SET "
            "selected = selected + excluded.selected, replied = replied + excluded.replied, "
            "declined = declined + excluded.declined, learned = learned + excluded.learned, "
            "evicted = evicted + excluded.evicted, energy_j = energy_j + excluded.energy_j, "
            "reward = reward + excluded.reward",
            (last,),
        )
        self._execute(f"DELETE FROM selections WHERE {old}", (last,))  # noqa: S608
        old = (
            "number <= ? AND closed_s IS NOT NULL "
            "AND NOT EXISTS (SELECT 1 FROM selections WHERE round = number)"
        )
        rows = self._execute(
            f"SELECT reason, closed_s - opened_s FROM rounds WHERE {old}",  # noqa: S608
            (last,),
        ).fetchall()
        for reason, duration_s in rows:
            within_s = next((limit for limit in DURATIONS_S if duration_s <= limit), math.inf)
            self._execute(
                "INSERT INTO past_rounds VALUES (?, ?, 1, ?) ON CONFLICT DO UPDATE SET "
                "rounds = rounds + 1, duration_s = duration_s + excluded.duration_s",
                (reason, within_s, duration_s),
            )
        self._execute(f"DELETE FROM rounds WHERE {old}", (last,))  # noqa: S608

    def find_selection(self, number: int, row: WorkerRow) -> tuple[float, int, float, str]:
        """Return when a round was opened, and a worker's announced examples, energy and θ.

        Energy is assumed, and 0 if the round was closed before the worker's budget began.
        """
        query = (
            "SELECT r.opened_s, s.waiting, iif(r.closed_s >= ?, s.assumed_j, 0.0), "
            "s.forget_fraction FROM rounds r JOIN selections s ON s.round = r.number "
            "WHERE r.number = ? AND s.worker = ?"
        )
        key = (row.spent_since_s, number, row.name)
        opened_s, waiting, assumed_j, fraction = self._execute(query, key).fetchone()
        return float(opened_s), int(waiting), float(assumed_j), str(fraction)

    def put_fraction(self, number: int, worker: str, fraction: str | None) -> str | None:
        """Store the θ of a worker in a round, and return it; the first one stays."""
        if fraction is None:
            return None
        row = self._execute(
            "UPDATE selections SET forget_fraction = iif(forget_fraction = '', ?, forget_fraction) "
            "WHERE round = ? AND worker = ? RETURNING forget_fraction",
            (fraction, number, worker),
        ).fetchall()
        return str(row[0][0])

    def selected(self, number: int) -> Mapping[str, float | None]:
        """Return the time of the reply by selected worker; None without a reply."""
        return self._replies(number).times_s

    def _replies(self, number: int) -> _Replies:
        return self._ledger.keep(f"replies {number}", lambda: self._read_replies(number))

    def _read_replies(self, number: int) -> _Replies:
        query = "SELECT worker, replied_s, declined FROM selections WHERE round = ? ORDER BY worker"
        rows = self._execute(query, (number,)).fetchall()
        times_s = {worker: replied_s for worker, replied_s, _ in rows}
        replied = sum(replied_s is not None for replied_s in times_s.values())
        return _Replies(times_s, replied, sum(bool(declined) for _, _, declined in rows))

    def count_selected_since(self, opened_s: float) -> int:
        """Return how many workers were selected in rounds opened after a time."""
        query = "SELECT count(*) FROM rounds JOIN selections ON round = number WHERE opened_s > ?"
        return int(self._execute(query, (opened_s,)).fetchone()[0])

    def find_unanswered(self, worker: str, after: int) -> int | None:
        """Return the last round of a worker, if it is after another one and not answered."""
        query = (
            "SELECT round FROM selections WHERE worker = ? AND round > ? AND replied_s IS NULL "
            "AND round = (SELECT max(round) FROM selections WHERE worker = ?)"
        )
        row = self._execute(query, (worker, after, worker)).fetchone()
        return None if row is None else int(row[0])

    def count_replies(self, number: int) -> tuple[int, int, int]:
        """Return how many workers were selected in a round, sent an update, and declined."""
        replies = self._replies(number)
        return len(replies.times_s), replies.replied - replies.declined, replies.declined

    def put_reply(self, number: int, worker: str, replied_s: float, declined: str = "") -> bool:
        """Store a reply; return False if the worker was not selected or has replied already."""
        cursor = self._execute(
            "UPDATE selections SET replied_s = ?, declined = ? "
            "WHERE round = ? AND worker = ? AND replied_s IS NULL",
            (replied_s, declined, number, worker),
        )
        opened = self.find_open()
        if cursor.rowcount <= 0 or opened is None or opened.number != number:
            return cursor.rowcount > 0
        replies = self._replies(number)
        if replies.times_s[worker] is None:  # else it was read just now
            replies.times_s[worker] = replied_s
            replies.replied += 1
            replies.declined += bool(declined)
        opened = dataclasses.replace(opened, replied=replies.replied)
        self._ledger.drop("round")
        self._ledger.keep("round", lambda: (number, opened))
        return True

    def put_figures(self, update: Update, reward: float) -> None:
        """Store the work, the cost and the reward of a first reply."""
        self._execute(
            "UPDATE selections SET learned = ?, evicted = ?, operations = ?, elapsed_s = ?, "
            "energy_j = ?, reward = ? WHERE round = ? AND worker = ?",
            (
                update.learned,
                update.evicted,
                update.operations,
                update.elapsed_s,
                update.energy_j,
                reward,
                update.round,
                update.worker,
            ),
        )

    def put_assumed(self, number: int, worker: str, energy_j: float) -> None:
        """Store the energy assumed for a worker without a reply."""
        self._execute(
            "UPDATE selections SET assumed_j = ? WHERE round = ? AND worker = ?",
            (energy_j, number, worker),
        )


class Listed(NamedTuple):
    """Erased owners, and the places in the list before and after them."""

    request: str  # empty for a part of the list
    owners: tuple[bytes, ...]
    before: Position
    after: Position


class ErasureStore:
    """The list of erasure requests, the answers of workers, and the published versions."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._execute = ledger.execute

    # -- the list of requests -------------------------------------------------------------------

    def verify(self) -> None:
        """Raise an error if the list is not what its hashes say."""
        end = Position()
        query = "SELECT number, request, owners, hash, chain FROM erasures ORDER BY number"
        for number, name, owners, own, chain in self._execute(query):
            end = next_position(end, [own])
            if own != hash_request(name, _OWNERS.decode(owners)) or end != (number, chain):
                raise BadBytes(
                    f"ledger {self._ledger.path}: erasure {end.number} is damaged; restore a backup"
                )

    def end(self) -> Position:
        """Return the end of the list."""
        return self._ledger.keep("erasures", self._read_end)

    def _read_end(self) -> Position:
        row = self._execute("SELECT number, chain FROM erasures ORDER BY number DESC LIMIT 1")
        return Position(*(row.fetchone() or ()))

    def put(
        self, name: str, owners: Sequence[bytes], requested_s: float, requested_by: str = ""
    ) -> list[Listed]:
        """Append a request to the list; a repetition changes nothing, other owners are refused.

        One with many owners becomes several entries of the same name, each as large as a message.
        """
        firsts = range(0, len(owners), MAX_OWNERS)
        parts = [tuple(owners[first : first + MAX_OWNERS]) for first in firsts]
        listed = self._listed("e.request = ? ORDER BY e.number", name)
        if not listed:
            for part in parts:
                self._append(name, part, requested_s, requested_by)
            before = msgspec.json.encode(self._ledger.reader.last_version())
            self._ledger.put_parts(BEFORE, {name: before})
            return self._listed("e.request = ? ORDER BY e.number", name)
        if [one.owners for one in listed] != parts:
            raise BadInput(
                f"an erasure called {name!r} with other owners exists; choose another name"
            )
        return listed

    def put_part(
        self, name: str, owners: tuple[bytes, ...], requested_s: float, requested_by: str
    ) -> tuple[Listed, bool]:
        """Append one entry unless the list has it; return it, and whether it is new."""
        condition = "e.request = ? AND e.hash = ? ORDER BY e.number"
        key = (name, hash_request(name, owners))
        listed = self._listed(condition, *key)
        if listed:
            return listed[0], False
        self._append(name, owners, requested_s, requested_by)
        return self._listed(condition, *key)[0], True

    def _append(
        self, name: str, owners: tuple[bytes, ...], requested_s: float, requested_by: str
    ) -> None:
        own = hash_request(name, owners)
        after = next_position(self.end(), [own])
        body = msgspec.msgpack.encode(owners)
        values = (after.number, name, body, own, after.chain, requested_s, requested_by)
        self._execute("INSERT INTO erasures VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        self._ledger.drop("erasures")

    def find_common(self, positions: Iterable[Position]) -> Position:
        """Return the first of some positions that is in the list; its beginning if none is."""
        query = "SELECT 1 FROM erasures WHERE number = ? AND chain = ?"
        common = (
            position
            for position in positions
            if position == self.end() or self._execute(query, position).fetchone() is not None
        )
        return next(common, Position())

    def unanswered(self, worker: str, after: int, count: int) -> list[Listed]:
        """Return the first requests after a number that a worker has not answered."""
        answered = "SELECT 1 FROM answers a WHERE a.number = e.number AND a.worker = ?"
        condition = f"e.number > ? AND NOT EXISTS ({answered}) ORDER BY e.number LIMIT ?"
        return self._listed(condition, after, worker, count)

    def part(self, before: Position, last: int, max_owners: int) -> Listed | None:
        """Return the owners after a place in the list up to a number, or as many as allowed.

        One request is never cut.
        """
        owners: list[bytes] = []
        after = before
        query = (
            "SELECT number, chain, owners FROM erasures WHERE number > ? AND number <= ? "
            "ORDER BY number LIMIT ?"
        )
        for number, chain, body in self._execute(query, (before.number, last, max_owners)):
            more = _OWNERS.decode(body)
            if owners and len(owners) + len(more) > max_owners:
                break
            owners += more
            after = Position(number, chain)
        return Listed("", tuple(owners), before, after) if owners else None

    def _listed(self, condition: str, *values: object) -> list[Listed]:
        rows = self._execute(
            "SELECT e.request, e.owners, p.number, p.chain, e.number, e.chain FROM erasures e "  # noqa: S608
            f"LEFT JOIN erasures p ON p.number = e.number - 1 WHERE {condition}",
            values,
        )
        return [
            Listed(name, _OWNERS.decode(body), Position(p or 0, c or b""), Position(number, chain))
            for name, body, p, c, number, chain in rows
        ]

    def put_answer(self, answer: Erased, max_examples: int) -> None:
        """Store a worker's answer, unless there is no such request; what it claims is bounded."""
        self._execute(
            "INSERT INTO answers (number, worker, examples) SELECT number, ?, ? FROM erasures "
            "WHERE request = ? AND hash = ? "
            "ON CONFLICT DO UPDATE SET examples = excluded.examples",
            (answer.worker, min(answer.examples, max_examples), answer.request, answer.hash),
        )

    def put_region_answer(self, answer: Erased) -> None:
        """Store a region's answer; what its devices have deleted stays deleted if it has less."""
        counts = (answer.examples, answer.removed or 0, answer.devices or 0)
        self._execute(
            "INSERT INTO answers SELECT number, ?, ?, ?, ? FROM erasures "
            "WHERE request = ? AND hash = ? ON CONFLICT DO UPDATE SET "
            "examples = max(examples, excluded.examples), removed = max(removed, excluded.removed),"
            " devices = max(devices, excluded.devices)",
            (answer.worker, *counts, answer.request, answer.hash),
        )

    def find_number(self, request: str, request_hash: bytes) -> int | None:
        """Return the number of an entry of the list; None if there is none."""
        query = "SELECT number FROM erasures WHERE request = ? AND hash = ?"
        row = self._execute(query, (request, request_hash)).fetchone()
        return None if row is None else int(row[0])

    def answering(self, number: int) -> set[str]:
        """Return the workers that have answered an entry."""
        rows = self._execute("SELECT worker FROM answers WHERE number = ?", (number,))
        return {worker for (worker,) in rows}

    def count_deleted(self, number: int) -> tuple[int, int, int]:
        """Return how many examples were deleted and removed by an entry, of how many devices."""
        query = (
            "SELECT coalesce(sum(examples), 0), coalesce(sum(removed), 0), "
            "coalesce(sum(devices), 0) FROM answers WHERE number = ?"
        )
        examples, removed, devices = self._execute(query, (number,)).fetchone()
        return int(examples), int(removed), int(devices)

    def position(self, number: int) -> Position:
        """Return the place of an entry in the list; that before all entries for 0."""
        query = "SELECT number, chain FROM erasures WHERE number = ?"
        return Position(*(self._execute(query, (number,)).fetchone() or ()))

    def attribute(self, row: WorkerRow) -> int:
        """Attribute examples that left a worker's sum to its answers; return how many remain.

        They wait for an answer that is missing. An answer cannot account for more than it claims;
        the latest request comes first.
        """
        rest = row.removed
        if self.unanswered(row.name, row.answered, 1):
            return rest
        query = (
            "SELECT number, examples - removed FROM answers "
            "WHERE worker = ? AND removed < examples ORDER BY number DESC LIMIT 64"
        )
        for number, open_examples in self._execute(query, (row.name,)).fetchall():
            part = min(rest, open_examples)
            self._execute(
                "UPDATE answers SET removed = removed + ? WHERE number = ? AND worker = ?",
                (part, number, row.name),
            )
            rest -= part
        return 0

    def count_persons(self, shown: int) -> int:
        """Return the number of persons in the requests after a number."""
        rows = self._execute("SELECT owners FROM erasures WHERE number > ?", (shown,))
        return sum(count_persons(_OWNERS.decode(body)) for (body,) in rows)

    def requested_s(self, number: int) -> float:
        """Return the time of a request."""
        query = "SELECT requested_s FROM erasures WHERE number = ?"
        return float(self._execute(query, (number,)).fetchone()[0])

    # -- versions -------------------------------------------------------------------------------

    def put_version(self, round_number: int, digest: str, published_s: float, erased: int) -> None:
        """Store a version that contains the first `erased` requests."""
        self._execute(
            "INSERT INTO versions (round, digest, published_s, erased) VALUES (?, ?, ?, ?)",
            (round_number, digest, published_s, erased),
        )

    def find_digest(self, version: int) -> str | None:
        """Return the digest of a version; empty if there is none, None if it was deleted."""
        row = self._execute("SELECT digest FROM versions WHERE version = ?", (version,)).fetchone()
        if row is not None:
            return str(row[0])
        later = self._execute("SELECT 1 FROM versions WHERE version > ? LIMIT 1", (version,))
        return "" if version < 1 or later.fetchone() is None else None

    def thin_versions(self, kept: int) -> None:
        """Delete all versions but the last ones, and those before and after an erasure."""
        self._execute(
            "DELETE FROM versions WHERE version <= (SELECT max(version) FROM versions) - ? "
            "AND version NOT IN (SELECT max(version) FROM versions GROUP BY erased) AND version "
            "NOT IN (SELECT min(version) FROM versions WHERE delivered = 1 GROUP BY erased)",
            (kept,),
        )

    def mark_delivered(self, version: int) -> None:
        """Store that a version was delivered."""
        self._execute("UPDATE versions SET delivered = 1 WHERE version = ?", (version,))
