"""What others read of a ledger, also while a server writes it: its records, and the reader."""

from __future__ import annotations

import hmac
import json
import math
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from struct import Struct
from zlib import crc32

import msgspec

from dealfl.erasure import READMISSION, RecordedErasure, split_entry
from dealfl.errors import BadBytes, BadInput
from dealfl.exact import Schema, Statistics
from dealfl.protocol import Open
from dealfl.server.selection import OverPromise
from dealfl.server.sums import TOTAL, read_sum
from dealfl.storage import find_write_failure, open_read_only, require_tables

# updates have a rowid, so that a search reads no delta
TABLES = """
CREATE TABLE workers (
  name TEXT PRIMARY KEY, incarnation INTEGER NOT NULL, journal_id TEXT NOT NULL,
  counted INTEGER NOT NULL,
  waiting INTEGER NOT NULL, held INTEGER NOT NULL, device TEXT NOT NULL, battery REAL NOT NULL,
  charging INTEGER NOT NULL, capacity_j REAL NOT NULL, heard_s REAL,
  training INTEGER NOT NULL, busy_until_s REAL NOT NULL, fits INTEGER NOT NULL,
  spent_j REAL NOT NULL, spent_since_s REAL NOT NULL, last_energy_j REAL NOT NULL,
  flag TEXT NOT NULL, waiting_since_s REAL NOT NULL, examples INTEGER NOT NULL,
  doubts INTEGER NOT NULL, session INTEGER NOT NULL,
  answered INTEGER NOT NULL, joined INTEGER NOT NULL, forgotten INTEGER NOT NULL,
  forgetting INTEGER NOT NULL, forgetting_at INTEGER NOT NULL, forgetting_later INTEGER NOT NULL,
  forgetting_later_at INTEGER NOT NULL, asleep INTEGER NOT NULL, sleeps INTEGER NOT NULL,
  rides INTEGER NOT NULL,
  per_hour REAL NOT NULL, call_waiting INTEGER NOT NULL, call_by_s REAL NOT NULL,
  learned INTEGER NOT NULL, evicted INTEGER NOT NULL, behind INTEGER NOT NULL,
  removed INTEGER NOT NULL, devices INTEGER, alarmed_s REAL,
  crc INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE sums (worker TEXT PRIMARY KEY, fingerprint INTEGER NOT NULL, cells INTEGER NOT NULL)
  WITHOUT ROWID;
CREATE TABLE pages (owner TEXT NOT NULL, array INTEGER NOT NULL, first INTEGER NOT NULL,
  sha256 BLOB NOT NULL, content BLOB NOT NULL);
CREATE UNIQUE INDEX pages_in_order ON pages (owner, array, first);
CREATE TABLE updates (
  worker TEXT NOT NULL, incarnation INTEGER NOT NULL, sequence INTEGER NOT NULL,
  sha256 BLOB, delta_sha256 BLOB, withdrawn INTEGER NOT NULL, delta BLOB,
  successor INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (worker, incarnation, sequence));
CREATE INDEX updates_pending ON updates (worker, incarnation, sequence) WHERE delta IS NOT NULL;
CREATE INDEX updates_withdrawn ON updates (worker, incarnation, sequence) WHERE withdrawn;
CREATE TABLE disputed (worker TEXT NOT NULL, sequence INTEGER NOT NULL,
  PRIMARY KEY (worker, sequence)) WITHOUT ROWID;
CREATE TABLE rounds (
  number INTEGER PRIMARY KEY, opened_s REAL NOT NULL, deadline_s REAL NOT NULL,
  eligible INTEGER NOT NULL, closed_s REAL,
  reason TEXT NOT NULL DEFAULT '', digest TEXT NOT NULL DEFAULT '');
CREATE TABLE selections (
  round INTEGER NOT NULL, worker TEXT NOT NULL, replied_s REAL, declined TEXT NOT NULL DEFAULT '',
  learned INTEGER NOT NULL DEFAULT 0, evicted INTEGER NOT NULL DEFAULT 0,
  operations INTEGER NOT NULL DEFAULT 0, elapsed_s REAL NOT NULL DEFAULT 0,
  energy_j REAL NOT NULL DEFAULT 0, reward REAL NOT NULL DEFAULT 0,
  assumed_j REAL NOT NULL DEFAULT 0, waiting INTEGER NOT NULL,
  forget_fraction TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (round, worker)) WITHOUT ROWID;
CREATE INDEX selections_by_worker ON selections (worker, round);
CREATE TABLE versions (version INTEGER PRIMARY KEY, round INTEGER NOT NULL, digest TEXT NOT NULL,
  published_s REAL NOT NULL, erased INTEGER NOT NULL, delivered INTEGER NOT NULL DEFAULT 0);
CREATE TABLE past_selections (worker TEXT PRIMARY KEY, selected INTEGER NOT NULL,
  replied INTEGER NOT NULL, declined INTEGER NOT NULL, learned INTEGER NOT NULL,
  evicted INTEGER NOT NULL, energy_j REAL NOT NULL, reward REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE past_rounds (reason TEXT NOT NULL, within_s REAL NOT NULL, rounds INTEGER NOT NULL,
  duration_s REAL NOT NULL, PRIMARY KEY (reason, within_s)) WITHOUT ROWID;
CREATE TABLE erasures (
  number INTEGER PRIMARY KEY, request TEXT NOT NULL, owners BLOB NOT NULL,
  hash BLOB NOT NULL, chain BLOB NOT NULL, requested_s REAL NOT NULL, requested_by TEXT NOT NULL);
CREATE INDEX erasures_by_request ON erasures (request);
CREATE TABLE answers (
  number INTEGER NOT NULL, worker TEXT NOT NULL, examples INTEGER NOT NULL,
  removed INTEGER NOT NULL DEFAULT 0, devices INTEGER NOT NULL DEFAULT 1,
  PRIMARY KEY (number, worker)) WITHOUT ROWID;
CREATE TABLE settings (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), content BLOB NOT NULL);
CREATE TABLE parts (owner TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL,
  PRIMARY KEY (owner, name));
"""
SCHEMA_VERSION = 1
DURATIONS_S = (1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 3600.0)  # classes of old rounds
UPLINK = "uplink"  # owner of the parts that a region keeps of its parent
_UNKNOWN = 2**53  # a sequence that no update has


class WorkerRow(msgspec.Struct, frozen=True):
    """The state of a worker, as the server knows it; times are of the server's clock."""

    name: str
    incarnation: int = 0  # 0 before the first
    journal_id: str = ""
    counted: int = 0  # sequence of its last update in the model
    waiting: int = 0  # examples that are not learned yet
    held: int = 0  # examples that are learned
    device: str = ""  # kind
    battery: float = 1.0  # charge, as a share of the capacity
    charging: bool = False
    capacity_j: float = 0.0  # 0 if unknown
    heard_s: float | None = 0.0  # time of the last announcement; None after a removal
    training: bool = False
    busy_until_s: float = 0.0  # deadline of its last assignment
    fits: bool = True  # whether its schema and protocol are those of the job
    spent_j: float = 0.0  # since the start of the current 24 hours of the energy budget
    spent_since_s: float = 0.0
    last_energy_j: float = 0.0  # of its last training
    flag: str = ""  # its last problem, as text for people
    waiting_since_s: float = 0.0
    examples: int = 0  # net number in its stored updates, as their deltas show it
    doubts: int = 0  # recent trainings whose claims do not fit; each halves its weight
    session: int = 0  # number of its last process
    answered: int = 0  # it need no longer answer erasure requests up to this number
    joined: int = 0  # requests from before it joined; no update counts before it has reached them
    forgotten: int = 0  # its counted updates contain nothing of requests up to this number
    forgetting: int = 0  # the same, when the update with the next sequence is counted
    forgetting_at: int = 0
    forgetting_later: int = 0  # the last announcement since then, noted when this one is confirmed
    forgetting_later_at: int = 0
    asleep: bool = False  # its connection ended after its last announcement
    sleeps: bool = False  # it follows a `Sleep`
    rides: bool = False  # it called while other traffic had its radio on
    per_hour: float = 0.0  # examples that reach it
    call_waiting: int = 0  # it sleeps until this number of examples wait or this time has come;
    call_by_s: float = 0.0  # 0 if it is connected
    learned: int = 0  # examples in all its replies
    evicted: int = 0
    behind: int = 0  # 1 + the update that brings its sum up to date after a restore; 0 if it is
    removed: int = 0  # examples that left its sum by erasure, and that no answer accounts for yet
    devices: int | None = None  # behind a region; None for a worker
    alarmed_s: float | None = None  # time when it last reported a change of the world


def note_restore(row: WorkerRow) -> WorkerRow:
    """Return a worker's row after a restore: it counts as absent until it announces itself."""
    behind = 0 if row.heard_s is None else _UNKNOWN  # a removed worker has no sum
    return msgspec.structs.replace(row, asleep=True, training=False, behind=behind)


class LedgerState(msgspec.Struct, frozen=True):
    """What the server knows beside the rows of the ledger's tables."""

    fingerprint_key: bytes  # drawn for each ledger
    epoch: str = ""  # random id of the ledger's history, new after a restore
    former_epochs: tuple[str, ...] = ()  # of this ledger, and others that workers knew
    terms: tuple[str, ...] = ()  # random ids of the server's processes
    schema: Schema | None = None  # of the sums; None before the first total
    digest: str = ""  # of the total
    total_lags: bool = False  # the stored total lacks updates that count; their sums have them
    unpublished: bool = False  # no version of this epoch contains the sums of all workers
    round_epoch: str = ""  # of the assignments of the open round
    next_opening_s: float | None = None  # earliest time of the next round
    stable_rounds: int = 0  # consecutive rounds that hardly changed the model
    converged: bool = False
    over_promised: OverPromise | None = None
    released_s: float = -math.inf  # time of the last version that `release_batch` could delay
    compacted: int = 0  # erasure requests that were fulfilled before the last compaction

    @property
    def id(self) -> str:
        """Id of the ledger, which its backups share."""
        return hmac.digest(self.fingerprint_key, b"id of the ledger", "sha256").hex()[:16]


class UplinkState(msgspec.Struct, array_like=True):
    """What a region knows of its parent; it survives restarts."""

    journal_id: str = ""  # random id of this region's ledger, as the parent knows it
    session: int = 0  # number of the process
    epoch: str = ""  # of the parent's ledger
    incarnation: int = 0  # 0 before the first welcome
    sequence: int = 0  # of the last update
    terms: tuple[str, ...] = ()  # of the parent, which confirmed updates of this incarnation
    round: int = 0  # of the last assignment
    assigned: int = 0  # the round that waits for an update; 0 if none does
    version: int = 0  # of the parent, the last that was relayed
    digest: str = ""  # of that version
    posted: str = ""  # digest of all that was posted
    learned: int = 0  # examples in all updates that answered an assignment
    evicted: int = 0
    energy_j: float = 0.0
    must_post: bool = False  # the parent has nothing of this incarnation yet
    floor: int = 0  # requests that the parent's published versions contain, as own numbers
    clean: int = 0  # the parent's sum contains nothing of the first own requests
    cleaning: int = 0  # the same, once the update on its way is confirmed
    refused: str = ""  # why the last update was
    announced: tuple[bool, bool, int, str, int, int, str] | None = None
    announced_devices: int = 0
    announced_s: float | None = None
    send_at_s: float = 0.0  # the update on its way


class MaskState(msgspec.Struct, frozen=True):
    """What the server knows of openings."""

    keyholder: str = ""  # name of the keyholder's public key
    epoch: str = ""  # of the ledger
    name: str = ""  # under which the keyholder is reached
    cohort: int = 0  # workers with fresh examples that an opening needs
    bits: int | None = None  # that every sum fits; None: those of the arrays
    number: int = 0  # openings in this epoch
    smallest: int = 0  # number of workers with fresh examples in the smallest opening; 0: none
    opened_s: float | None = None  # time of the last one
    alone_after_s: float = 0.0  # after the last opening, when fewer workers will do; 0: never
    alone_at_s: float = math.inf  # the same as a time
    request: Open | None = None  # without an answer
    asked_s: float | None = None  # when it was made
    repeat_at_s: float = -math.inf  # when it is sent again
    repeat_s: float = 0.0  # after which time
    held: tuple[int, float] | None = None  # round that waits for the answer, and until when
    counts: dict[str, tuple[int, int]] = {}  # what it counts: incarnation and last sequence
    suspects: tuple[str, ...] = ()  # workers of cohorts whose total was impossible
    barred: tuple[str, ...] = ()  # workers whose updates made the total impossible
    forgotten: int | None = None  # erasures that are shown, if sums left that the total still has
    problem: str = ""  # as text for people


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """A worker, and its results in the rounds it was selected for."""

    row: WorkerRow
    updates_waiting: int  # stored and not counted
    selected: int  # rounds
    replied: int
    declined: int
    reward: float  # sum
    energy_j: float  # reported, of all its trainings
    last_declined: str = ""  # why it declined the last round it was selected for


@dataclass(frozen=True, slots=True)
class Selection:
    """A worker in a round."""

    worker: str
    round: int
    replied_s: float | None  # None without a reply
    declined: str  # reason
    learned: int
    evicted: int
    operations: int  # multiply-adds
    elapsed_s: float
    energy_j: float
    reward: float


@dataclass(frozen=True, slots=True)
class OpenRound:
    """The open round."""

    number: int
    opened_s: float
    deadline_s: float
    selected: int
    replied: int  # including those that declined


@dataclass(frozen=True, slots=True)
class ClosedRound:
    """A closed round; closed by "majority", "time to live", "declined", "booked", "restored"."""

    number: int
    reason: str
    duration_s: float
    closed_s: float
    digest: str


@dataclass(frozen=True, slots=True)
class PastRounds:
    """Old rounds that were closed for a reason, and within a time of `DURATIONS_S` or infinity."""

    reason: str
    within_s: float
    rounds: int
    duration_s: float  # sum


@dataclass(frozen=True, slots=True)
class RoundFigures:
    """The number of workers that could have been selected in a round, were selected, replied."""

    eligible: int
    selected: int
    replied: int


@dataclass(frozen=True, slots=True)
class RoundHistory:
    """A round, open or closed, and the sums of its replies, including late ones."""

    number: int
    opened_s: float
    deadline_s: float
    closed_s: float | None
    reason: str
    digest: str
    eligible: int
    selected: int
    replied: int  # without those that declined
    declined: int
    late: int  # replies after the round was closed
    learned: int
    evicted: int
    energy_j: float


@dataclass(frozen=True, slots=True)
class Replies:
    """The sum of all replies to assignments, including late ones."""

    count: int
    learned: int
    evicted: int
    energy_j: float
    mean_reward: float | None  # per selection


BEFORE = "version before an erasure"  # in the table of parts, by request


@dataclass(frozen=True, slots=True)
class Version:
    """A published version of the model."""

    number: int
    round: int  # the last one closed before
    digest: str
    published_s: float
    erased: int = 0  # number of erasure requests that it contains: the first of the list
    delivered: bool = False  # whether a worker holds it, or the transport keeps it for all


_FIELDS = msgspec.structs.fields(WorkerRow)
_texts_of = attrgetter(*(field.name for field in _FIELDS if field.type is str))
_numbers_of = attrgetter(*(field.name for field in _FIELDS if field.type is not str))
_NUMBERS = Struct(f"<{sum(field.type is not str for field in _FIELDS)}d")


def checksum(row: WorkerRow) -> int:
    """Return the CRC-32 of all fields of a worker, which is stored with them; 1 is 1.0 is True."""
    numbers = [math.nan if number is None else number for number in _numbers_of(row)]
    return crc32(_NUMBERS.pack(*numbers), crc32("\0".join(_texts_of(row)).encode()))


def worker_row(path: str, row: Sequence[object]) -> WorkerRow:
    """Return the record of a row of a ledger's table of workers."""
    *values, crc = row
    try:
        fields = dict(zip(WorkerRow.__struct_fields__, values, strict=True))
        worker = msgspec.convert(fields, WorkerRow, strict=False)  # SQLite has no bool
    except msgspec.ValidationError:
        worker = None
    if worker is None or checksum(worker) != crc:
        raise BadBytes(f"ledger {path}: the row of {values[0]} is damaged; restore a backup")
    return worker


_WORKER = ", ".join(f"w.{name}" for name in (*WorkerRow.__struct_fields__, "crc"))
_WIDTH = len(_FIELDS) + 1
_CLOSED = (
    "SELECT number, reason, closed_s - opened_s, closed_s, digest FROM rounds "
    "WHERE closed_s IS NOT NULL AND number > ? ORDER BY number"
)


class LedgerReader:
    """Read access to a ledger."""

    def __init__(self, db: sqlite3.Connection, path: str) -> None:
        self._db, self.path = db, path

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[LedgerReader]:
        """Open one consistent state of a ledger file; later changes are not visible."""
        try:
            with closing(open_read_only(path)) as db:
                db.execute("BEGIN")
                reader = cls(db, str(path))
                reader._require_ledger()
                yield reader
        except (sqlite3.DatabaseError, UnicodeDecodeError, msgspec.DecodeError) as error:
            damaged = BadBytes(
                f"ledger {path} cannot be read ({error}); if it is damaged, restore a backup"
            )
            raise find_write_failure(path, error) or damaged from error

    def _require_ledger(self) -> None:
        query = "SELECT 1 FROM sqlite_master WHERE name IN ('rounds', 'workers')"
        if len(self._db.execute(query).fetchall()) < 2:
            raise BadInput(f"{self.path} is no ledger; give the ledger.db of a run")
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version != SCHEMA_VERSION:
            raise BadInput(
                f"ledger {self.path} has schema version {version}; this dealfl supports up to "
                f"{SCHEMA_VERSION}: upgrade dealfl"
            )
        require_tables(self._db, TABLES)

    # -- the model ------------------------------------------------------------------------------

    def total(self) -> Statistics | None:
        """Return the sum of all workers; None before the first."""
        schema = self.state().schema
        return None if schema is None else read_sum(self._db.execute, self.path, TOTAL, schema)

    @property
    def has_base(self) -> bool:
        """Whether the total contains statistics that belong to no worker."""
        return self._db.execute("SELECT 1 FROM sums WHERE worker = ''").fetchone() is not None

    def last_version(self) -> Version | None:
        """Return the last published version; None before the first."""
        return self._version("1 ORDER BY version DESC")

    def versions(self, after: int = 0, most: int = 200) -> list[Version]:
        """Return the last published versions after a number, in order."""
        query = (
            "SELECT version, round, digest, published_s, erased, delivered FROM versions "
            "WHERE version > ? ORDER BY version DESC LIMIT ?"
        )
        rows = self._db.execute(query, (after, most)).fetchall()
        return [replace(Version(*row), delivered=bool(row[-1])) for row in reversed(rows)]

    def versions_around(self, request: str) -> tuple[Version | None, Version | None]:
        """Return the last version before an erasure, and the first that shows it to workers.

        Versions in between may lack examples of the persons already.
        """
        first = "(SELECT min(number) FROM erasures WHERE request = ?)"
        last = "(SELECT max(number) FROM erasures WHERE request = ?)"
        query = "SELECT value FROM parts WHERE owner = ? AND name = ?"
        if (stored := self._db.execute(query, (BEFORE, request)).fetchone()) is not None:
            before = msgspec.json.decode(stored[0], type=Version | None)
        else:  # a ledger of an earlier version
            before = self._version(f"erased < {first} ORDER BY version DESC", request)
        after = self._version(f"erased >= {last} AND delivered = 1 ORDER BY version", request)
        return before, after

    def _version(self, condition: str, *values: str) -> Version | None:
        query = "SELECT version, round, digest, published_s, erased, delivered FROM versions"
        row = self._db.execute(f"{query} WHERE {condition} LIMIT 1", values).fetchone()
        return None if row is None else replace(Version(*row), delivered=bool(row[-1]))

    def state(self) -> LedgerState:
        """Return what the server knows beside the rows of the tables."""
        (content,) = self._db.execute("SELECT content FROM state").fetchone()
        try:
            return msgspec.msgpack.decode(content, type=LedgerState)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadBytes(f"ledger {self.path}: its state is damaged; restore a backup") from error

    def masks(self) -> MaskState:
        """Return what the server knows of openings; empty for a ledger without masks."""
        query = "SELECT 1 FROM sqlite_master WHERE name = 'masked_state'"
        if self._db.execute(query).fetchone() is None:
            return MaskState()
        row = self._db.execute("SELECT content FROM masked_state").fetchone()
        return MaskState() if row is None else msgspec.msgpack.decode(row[0], type=MaskState)

    def uplink(self) -> UplinkState | None:
        """Return what a region knows of its parent; None for a server without one."""
        query = "SELECT value FROM parts WHERE owner = ? AND name = 'state'"
        row = self._db.execute(query, (UPLINK,)).fetchone()
        return None if row is None else msgspec.msgpack.decode(row[0], type=UplinkState)

    # -- erasures -------------------------------------------------------------------------------

    def count_erasures(self) -> tuple[int, int]:
        """Return the number of erasure requests, and of those in a version that was delivered."""
        (requested,) = self._db.execute("SELECT coalesce(max(number), 0) FROM erasures").fetchone()
        query = "SELECT coalesce(max(erased), 0) FROM versions WHERE delivered = 1"
        return int(requested), int(self._db.execute(query).fetchone()[0])

    def count_shown(self) -> int:
        """Return the number of erasure requests that a published version contains."""
        query = "SELECT erased FROM versions ORDER BY version DESC LIMIT 1"  # it never falls
        return int((self._db.execute(query).fetchone() or (0,))[0])

    def count_requests(self) -> tuple[int, int]:
        """Return the numbers of erasures, without readmissions, and of those not shown yet."""
        _, shown = self.count_erasures()
        query = "SELECT owners, max(number) FROM erasures GROUP BY request"
        decode = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode
        last = [
            number
            for owners, number in self._db.execute(query)
            if any(split_entry(entry)[0] != READMISSION for entry in decode(owners))
        ]
        return len(last), sum(number > shown for number in last)

    def requests_after(self, number: int) -> list[str]:
        """Return the names of the erasure requests that end after a number, in order."""
        query = (
            "SELECT request FROM erasures GROUP BY request HAVING max(number) > ? "
            "ORDER BY max(number)"
        )
        return [name for (name,) in self._db.execute(query, (number,))]

    def erasures(self, name: str = "") -> list[RecordedErasure]:
        """Return erasure requests, in their order; the entries of a large one are joined."""
        _, shown = self.count_erasures()
        query = "SELECT request, owners, requested_s, requested_by, number FROM erasures WHERE "
        query += "request = ? ORDER BY number" if name else "? = '' ORDER BY number"
        rows = self._db.execute(query, (name,))
        decode = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode
        requests = []
        for request, entries in groupby(rows, key=itemgetter(0)):
            parts = list(entries)
            _, _, requested_s, requested_by, last = parts[-1]
            owners = tuple(owner for part in parts for owner in decode(part[1] or b""))
            requests.append(
                RecordedErasure(request, owners, requested_s, requested_by, last <= shown)
            )
        return requests

    def answers(self, request: str) -> dict[str, int]:
        """Return how many examples each worker claims to have deleted for an erasure request.

        A worker that has answered only some entries of a large request is not listed.
        """
        rows = self._db.execute(
            "SELECT w.name, sum(coalesce(a.examples, 0)) FROM erasures e JOIN workers w "
            "LEFT JOIN answers a ON a.number = e.number AND a.worker = w.name "
            "WHERE e.request = ? GROUP BY w.name "
            "HAVING min(a.examples IS NOT NULL OR w.answered >= e.number)",
            (request,),
        )
        return dict(rows.fetchall())

    def answering_devices(self, request: str) -> dict[str, int]:
        """Return how many devices each worker or region stands for in its answer to a request."""
        rows = self._db.execute(
            "SELECT w.name, coalesce((SELECT min(a.devices) FROM erasures e JOIN answers a "
            "USING (number) WHERE e.request = ? AND a.worker = w.name), w.devices, 1) "
            "FROM workers w",
            (request,),
        )
        return dict(rows.fetchall())

    def count_deleted(self, request: str) -> tuple[int, int]:
        """Return how many examples left the sums by a request, and how many workers claim."""
        query = (
            "SELECT coalesce(sum(removed), 0), coalesce(sum(examples), 0) "
            "FROM answers JOIN erasures USING (number) WHERE request = ?"
        )
        removed, claimed = self._db.execute(query, (request,)).fetchone()
        return int(removed), int(claimed)

    # -- workers --------------------------------------------------------------------------------

    def workers(self, names: Sequence[str] | None = None) -> list[WorkerFigures]:
        """Return all workers, or some, with their results, sorted by name."""
        given = [] if names is None else [json.dumps(list(names))] * 2
        chosen = "" if names is None else "IN (SELECT value FROM json_each(?))"
        last = "SELECT worker, declined, max(round) AS round FROM selections"
        rows = self._db.execute(
            f"SELECT {_WORKER}, "  # noqa: S608
            "(SELECT count(*) FROM updates u WHERE u.worker = w.name AND u.incarnation = "
            "w.incarnation AND u.delta IS NOT NULL), count(s.round) + coalesce(p.selected, 0), "
            "count(s.replied_s) - count(nullif(s.declined, '')) + coalesce(p.replied, 0), "
            "count(nullif(s.declined, '')) + coalesce(p.declined, 0), "
            "coalesce(sum(s.reward), 0.0) + coalesce(p.reward, 0.0), "
            "coalesce(sum(s.energy_j), 0.0) + coalesce(p.energy_j, 0.0), coalesce(l.declined, '') "
            "FROM workers w LEFT JOIN past_selections p ON p.worker = w.name "
            f"LEFT JOIN ({last} {'WHERE worker ' + chosen if chosen else ''} GROUP BY worker) l "
            "ON l.worker = w.name LEFT JOIN selections s ON s.worker = w.name "
            f"{'WHERE w.name ' + chosen if chosen else ''} GROUP BY w.name ORDER BY w.name",
            given,
        )
        return [WorkerFigures(worker_row(self.path, row[:_WIDTH]), *row[_WIDTH:]) for row in rows]

    def heard_s(self) -> dict[str, float | None]:
        """Return when each worker was heard last; None after its removal."""
        return dict(self._db.execute("SELECT name, heard_s FROM workers ORDER BY name").fetchall())

    def selections(self, worker: str | None = None) -> list[Selection]:
        """Return selections of workers."""
        query = (
            "SELECT worker, round, replied_s, declined, learned, evicted, operations, elapsed_s, "
            "energy_j, reward FROM selections WHERE ? IS NULL OR worker = ? ORDER BY 2, 1"
        )
        return [Selection(*row) for row in self._db.execute(query, (worker, worker))]

    def replies(self) -> Replies:
        """Return the sum of all replies."""
        own = self._db.execute(
            "SELECT count(*), count(replied_s), coalesce(sum(learned), 0), "
            "coalesce(sum(evicted), 0), coalesce(sum(energy_j), 0.0), coalesce(sum(reward), 0.0) "
            "FROM selections"
        ).fetchone()
        past = self._db.execute(
            "SELECT coalesce(sum(selected), 0), coalesce(sum(replied + declined), 0), "
            "coalesce(sum(learned), 0), coalesce(sum(evicted), 0), coalesce(sum(energy_j), 0.0), "
            "coalesce(sum(reward), 0.0) FROM past_selections"
        ).fetchone()
        sums = (new + old for new, old in zip(own, past, strict=True))
        selected, replied, learned, evicted, energy_j, reward = sums
        mean_reward = reward / selected if selected else None
        return Replies(replied, learned, evicted, energy_j, mean_reward)

    def latest_s(self) -> float:
        """Return the latest time in the ledger, in seconds of the server's clock."""
        (latest,) = self._db.execute(
            "SELECT max(heard_s) FROM (SELECT heard_s FROM workers UNION ALL "
            "SELECT opened_s FROM rounds UNION ALL SELECT closed_s FROM rounds UNION ALL "
            "SELECT replied_s FROM selections)"
        ).fetchone()
        return float(latest or 0.0)

    # -- rounds ---------------------------------------------------------------------------------

    def open_round(self) -> OpenRound | None:
        """Return the open round; None if no round is open."""
        row = self._db.execute(
            "SELECT number, opened_s, deadline_s, (SELECT count(*) FROM selections "
            "WHERE round = number), (SELECT count(replied_s) FROM selections WHERE round = number) "
            "FROM rounds WHERE closed_s IS NULL"
        ).fetchone()
        return None if row is None else OpenRound(*row)

    def closed_rounds(self, after: int = 0) -> list[ClosedRound]:
        """Return the closed rounds after a number, in order."""
        return [ClosedRound(*row) for row in self._db.execute(_CLOSED, (after,))]

    def round_history(self, after: int = 0, most: int = 1_000) -> list[RoundHistory]:
        """Return the last rounds after a number, in order, with the sums of their replies."""
        rows = self._db.execute(
            "SELECT r.number, r.opened_s, r.deadline_s, r.closed_s, r.reason, r.digest, "
            "r.eligible, count(s.worker), "
            "coalesce(sum(s.replied_s IS NOT NULL AND s.declined = ''), 0), "
            "count(nullif(s.declined, '')), coalesce(sum(s.replied_s > r.closed_s), 0), "
            "coalesce(sum(s.learned), 0), coalesce(sum(s.evicted), 0), "
            "coalesce(sum(s.energy_j), 0.0) FROM (SELECT * FROM rounds WHERE number > ? "
            "ORDER BY number DESC LIMIT ?) r LEFT JOIN selections s ON s.round = r.number "
            "GROUP BY r.number ORDER BY r.number",
            (after, most),
        )
        return [RoundHistory(*row) for row in rows]

    def past_rounds(self) -> list[PastRounds]:
        """Return the sums of closed rounds that are no longer listed."""
        query = "SELECT reason, within_s, rounds, duration_s FROM past_rounds"
        return [PastRounds(*row) for row in self._db.execute(query)]

    def count_closed(self) -> int:
        """Return the number of closed rounds."""
        query = (
            "SELECT (SELECT count(*) FROM rounds WHERE closed_s IS NOT NULL) + "
            "(SELECT coalesce(sum(rounds), 0) FROM past_rounds)"
        )
        return int(self._db.execute(query).fetchone()[0])

    def round_figures(self, number: int) -> RoundFigures:
        """Return the participation in a round."""
        row = self._db.execute(
            "SELECT r.eligible, count(s.worker), "
            "coalesce(sum(s.replied_s IS NOT NULL AND s.declined = ''), 0) "
            "FROM rounds r LEFT JOIN selections s ON s.round = r.number "
            "WHERE r.number = ? GROUP BY r.number",
            (number,),
        ).fetchone()
        return RoundFigures(*row)
