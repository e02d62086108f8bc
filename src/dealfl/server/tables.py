"""The tables of the ledger, and the records that are read from them."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from dealfl.server.sums import split_sums
from dealfl.storage import Migration

__all__ = [
    "MIGRATIONS", "ClosedRound", "OpenRound", "Replies", "RoundFigures", "Selection",
    "Version", "WorkerFigures", "WorkerRow", "worker_row",
]  # fmt: skip

_FIRST = """
CREATE TABLE workers (
  name TEXT PRIMARY KEY, incarnation INTEGER NOT NULL, journal_id TEXT NOT NULL,
  counted INTEGER NOT NULL,
  waiting INTEGER NOT NULL, held INTEGER NOT NULL, device TEXT NOT NULL, battery REAL NOT NULL,
  charging INTEGER NOT NULL, capacity_j REAL NOT NULL, heard_s REAL,
  training INTEGER NOT NULL, busy_until_s REAL NOT NULL, fits INTEGER NOT NULL,
  spent_j REAL NOT NULL, spent_since_s REAL NOT NULL, last_energy_j REAL NOT NULL,
  flag TEXT NOT NULL, waiting_since_s REAL NOT NULL, examples INTEGER NOT NULL,
  doubts INTEGER NOT NULL, session INTEGER NOT NULL,
  answered INTEGER NOT NULL, forgotten INTEGER NOT NULL, forgetting INTEGER NOT NULL,
  forgetting_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE sums (worker TEXT PRIMARY KEY, statistics BLOB NOT NULL, sha256 BLOB NOT NULL,
  fingerprint INTEGER NOT NULL);
CREATE TABLE updates (
  worker TEXT NOT NULL, incarnation INTEGER NOT NULL, sequence INTEGER NOT NULL,
  sha256 BLOB, delta_sha256 BLOB, withdrawn INTEGER NOT NULL, delta BLOB,
  successor INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (worker, incarnation, sequence)); -- with a rowid: a search reads no delta
CREATE INDEX updates_pending ON updates (worker, incarnation, sequence) WHERE delta IS NOT NULL;
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
  PRIMARY KEY (round, worker)) WITHOUT ROWID;
CREATE TABLE total (id INTEGER PRIMARY KEY CHECK (id = 1), statistics BLOB NOT NULL,
  sha256 BLOB NOT NULL);
CREATE TABLE versions (version INTEGER PRIMARY KEY, round INTEGER NOT NULL, digest TEXT NOT NULL,
  published_s REAL NOT NULL, erased INTEGER NOT NULL, delivered INTEGER NOT NULL DEFAULT 0);
CREATE TABLE erasures (
  number INTEGER PRIMARY KEY, request TEXT NOT NULL UNIQUE, owners BLOB NOT NULL,
  hash BLOB NOT NULL, chain BLOB NOT NULL, requested_s REAL NOT NULL);
CREATE TABLE answers (
  number INTEGER NOT NULL, worker TEXT NOT NULL, examples INTEGER NOT NULL,
  PRIMARY KEY (number, worker)) WITHOUT ROWID;
CREATE TABLE settings (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE parts (owner TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL,
  PRIMARY KEY (owner, name));
"""


def _add(*columns: str) -> str:
    return "".join(f"ALTER TABLE workers ADD COLUMN {one} NOT NULL DEFAULT 0;" for one in columns)


MIGRATIONS: tuple[Migration, ...] = (
    _FIRST,
    _add("asleep INTEGER"),
    "ALTER TABLE erasures ADD COLUMN requested_by TEXT NOT NULL DEFAULT '';",
    _add("sleeps INTEGER", "per_hour REAL", "call_waiting INTEGER", "call_by_s REAL"),
    _add("learned INTEGER", "evicted INTEGER")
    + "ALTER TABLE selections ADD COLUMN forget_fraction TEXT NOT NULL DEFAULT '';",
    split_sums,
)


class WorkerRow(msgspec.Struct, frozen=True):
    """The state of a worker, as the server knows it.

    Parameters
    ----------
    name, journal_id, device : str
        Name of the worker, random id of its journal, and kind of its device.
    incarnation : int
        Current incarnation; 0 before the first.
    counted : int
        Sequence of its last update in the model.
    waiting, held : int
        Number of examples that are not learned yet, and that are learned.
    battery, capacity_j : float
        Charge of the battery, as a share of its capacity, and the capacity in joules; 0 if unknown.
    charging : bool
        Whether the device is charging.
    heard_s : float or None
        Time of the last announcement, in seconds of the server's clock; None after a removal.
    training, busy_until_s : bool, float
        Whether the worker trains now, and the deadline of its last assignment.
    fits : bool
        Whether its schema and protocol are those of the job.
    spent_j, spent_since_s : float
        Energy in joules, spent since the start of the current 24 hours of the energy budget.
    last_energy_j : float
        Energy of its last training in joules.
    flag : str
        Last problem with the worker, as text for people; empty for none.
    waiting_since_s : float
        Time since which examples wait.
    examples, session : int
        Net number of examples in its stored updates, as their deltas show it; number of its last
        process.
    doubts : int
        Number of recent trainings whose claims do not fit; each halves the worker's weight.
    answered, forgotten : int
        It need no longer answer erasure requests up to the first number. Its counted updates
        contain nothing of those up to the second.
    forgetting, forgetting_at : int
        They contain nothing up to this number when the update with this sequence is counted.
    asleep : bool
        Whether its connection ended after its last announcement.
    sleeps, per_hour : bool, float
        Whether it follows a `Sleep`, and the number of examples that reach it in an hour.
    call_waiting, call_by_s : int, float
        It sleeps until this number of examples wait or this time has come; 0 if it is connected.
    learned, evicted : int
        Number of examples in all its replies.
    """

    name: str
    incarnation: int = 0
    journal_id: str = ""
    counted: int = 0
    waiting: int = 0
    held: int = 0
    device: str = ""
    battery: float = 1.0
    charging: bool = False
    capacity_j: float = 0.0
    heard_s: float | None = 0.0
    training: bool = False
    busy_until_s: float = 0.0
    fits: bool = True
    spent_j: float = 0.0
    spent_since_s: float = 0.0
    last_energy_j: float = 0.0
    flag: str = ""
    waiting_since_s: float = 0.0
    examples: int = 0
    doubts: int = 0
    session: int = 0
    answered: int = 0
    forgotten: int = 0
    forgetting: int = 0
    forgetting_at: int = 0
    asleep: bool = False
    sleeps: bool = False
    per_hour: float = 0.0
    call_waiting: int = 0
    call_by_s: float = 0.0
    learned: int = 0
    evicted: int = 0


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """A worker, and its results in the rounds it was selected for.

    Parameters
    ----------
    row : WorkerRow
        State of the worker.
    updates_waiting : int
        Number of updates that are stored and not counted.
    selected, replied, declined : int
        Number of rounds in which it was selected, sent an update, and declined.
    reward, energy_j : float
        Sum of its rewards, and reported energy of all its trainings in joules.
    """

    row: WorkerRow
    updates_waiting: int
    selected: int
    replied: int
    declined: int
    reward: float
    energy_j: float


@dataclass(frozen=True, slots=True)
class Selection:
    """A worker in a round.

    Parameters
    ----------
    worker, round : str, int
        Name of the worker, and number of the round.
    replied_s : float or None
        Time of the reply, in seconds of the server's clock; None without one.
    declined : str
        Reason for declining; empty otherwise.
    learned, evicted, operations : int
        Number of examples learned and evicted, and of multiply-adds.
    elapsed_s, energy_j, reward : float
        Duration of the training in seconds, its energy in joules, and its reward in [0, 1].
    """

    worker: str
    round: int
    replied_s: float | None
    declined: str
    learned: int
    evicted: int
    operations: int
    elapsed_s: float
    energy_j: float
    reward: float


@dataclass(frozen=True, slots=True)
class OpenRound:
    """The open round.

    Parameters
    ----------
    number : int
        Number of the round: 1, 2, 3, …
    opened_s, deadline_s : float
        Time of its opening and latest time of its closing, in seconds of the server's clock.
    selected, replied : int
        Number of selected workers, and of replies, including those that declined.
    """

    number: int
    opened_s: float
    deadline_s: float
    selected: int
    replied: int


@dataclass(frozen=True, slots=True)
class ClosedRound:
    """A closed round; closed by "majority", "time to live", "declined" or "booked"."""

    number: int
    reason: str
    duration_s: float
    digest: str


@dataclass(frozen=True, slots=True)
class RoundFigures:
    """The number of workers that could have been selected in a round, were selected, replied."""

    eligible: int
    selected: int
    replied: int


@dataclass(frozen=True, slots=True)
class Replies:
    """The sum of all replies to assignments, including late ones."""

    count: int
    learned: int
    evicted: int
    energy_j: float
    mean_reward: float | None  # per selection


@dataclass(frozen=True, slots=True)
class Version:
    """A published version of the model.

    Parameters
    ----------
    number, round : int
        Number of the version, and of the last round closed before.
    digest : str
        Digest of the statistics.
    published_s : float
        Time in seconds of the server's clock.
    erased : int
        Number of erasure requests that it contains: the first of the list.
    delivered : bool
        Whether a worker holds it, or the transport keeps it for all.
    """

    number: int
    round: int
    digest: str
    published_s: float
    erased: int = 0
    delivered: bool = False


def worker_row(row: tuple[object, ...]) -> WorkerRow:
    """Return the record of a database row."""
    fields = dict(zip(WorkerRow.__struct_fields__, row, strict=True))
    return msgspec.convert(fields, WorkerRow, strict=False)  # SQLite has no bool
