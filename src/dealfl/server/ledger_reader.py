"""The ledger's read-only door: records for whoever looks at a run, also while a server writes."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

import msgspec

from dealfl.database import find_write_failure, open_read_only
from dealfl.erasure import Answer, Request
from dealfl.errors import BadBytes, BadInput
from dealfl.server.tables import MIGRATIONS, WorkerRow, worker_row

__all__ = [
    "ClosedRound",
    "LedgerReader",
    "OpenRound",
    "Replies",
    "RoundFigures",
    "Selection",
    "Version",
    "WorkerFigures",
    "intact",
]

_TABLES = {"workers", "rounds", "selections", "updates", "versions", "erasures", "answers"}
_WORKER = ", ".join(f"w.{field.name}" for field in fields(WorkerRow))
_WIDTH = len(fields(WorkerRow))


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """A worker, and what became of the rounds it was selected for."""

    row: WorkerRow
    updates_waiting: int
    selected: int
    replied: int
    declined: int
    reward: float
    energy_j: float


@dataclass(frozen=True, slots=True)
class Selection:
    """A worker in a round; `replied_s` is None if it did not reply, `declined` says why not."""

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
    """The round that is open; `replied` counts those who declined, too."""

    number: int
    opened_s: float
    deadline_s: float
    selected: int
    replied: int


@dataclass(frozen=True, slots=True)
class ClosedRound:
    """A round that is over, and the digest of the statistics at its end."""

    number: int
    reason: str
    duration_s: float
    digest: str


@dataclass(frozen=True, slots=True)
class RoundFigures:
    """How many workers could have been selected in a round, were selected, and sent an update."""

    eligible: int
    selected: int
    replied: int


@dataclass(frozen=True, slots=True)
class Replies:
    """All replies to assignments together, late ones included."""

    count: int
    learned: int
    evicted: int
    energy_j: float
    mean_reward: float | None


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the model that was published."""

    number: int
    round: int
    digest: str
    published_s: float


class LedgerReader:
    """Returns records from a ledger; writes nothing."""

    def __init__(self, db: sqlite3.Connection, path: str) -> None:
        self._db, self.path = db, path

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[LedgerReader]:
        """Look at one state of a ledger file; what is written meanwhile is not seen."""
        try:
            with closing(open_read_only(path)) as db:
                db.execute("BEGIN")
                reader = cls(db, str(path))
                reader._require_known()
                yield reader
        except sqlite3.DatabaseError as error:
            damaged = BadBytes(
                f"ledger {path} cannot be read ({error}); if it is damaged, restore a backup"
            )
            raise find_write_failure(path, error) or damaged from error

    def _require_known(self) -> None:
        names = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master")}
        if not names >= _TABLES:
            raise BadInput(f"{self.path} is no ledger; name the ledger.db of a run")
        (version,), newest = self._db.execute("PRAGMA user_version").fetchone(), len(MIGRATIONS)
        if version > newest:
            raise BadInput(
                f"ledger {self.path} is of version {version}; this program reads up to {newest}: "
                "use a newer one"
            )
        if version < newest:
            raise BadInput(
                f"ledger {self.path} is of version {version}, and this program of {newest}; "
                f"dealfl backup {self.path} --to FOLDER, or a server that goes on with it, "
                "brings it up to date"
            )

    # -- workers --------------------------------------------------------------------------------

    def workers(self) -> list[WorkerFigures]:
        """Return all workers, by name."""
        rows = self._db.execute(
            f"SELECT {_WORKER}, "  # noqa: S608
            "(SELECT count(*) FROM updates u WHERE u.worker = w.name "
            "AND u.incarnation = w.incarnation AND u.delta IS NOT NULL), "
            "count(s.round), count(s.replied_s) - count(nullif(s.declined, '')), "
            "count(nullif(s.declined, '')), coalesce(sum(s.reward), 0.0), "
            "coalesce(sum(s.energy_j), 0.0) "
            "FROM workers w LEFT JOIN selections s ON s.worker = w.name "
            "GROUP BY w.name ORDER BY w.name"
        )
        return [WorkerFigures(worker_row(row[:_WIDTH]), *row[_WIDTH:]) for row in rows]

    def selections(self, worker: str | None = None) -> list[Selection]:
        """Return all selections, or those of one worker, by round."""
        rows = self._db.execute(
            "SELECT worker, round, replied_s, declined, learned, evicted, operations, elapsed_s, "
            "energy_j, reward FROM selections WHERE ?1 IS NULL OR worker = ?1 "
            "ORDER BY round, worker",
            (worker,),
        )
        return [Selection(*row) for row in rows]

    def replies(self) -> Replies:
        """Return what all replies together brought and cost."""
        row = self._db.execute(
            "SELECT count(replied_s), coalesce(sum(learned), 0), coalesce(sum(evicted), 0), "
            "coalesce(sum(energy_j), 0.0), avg(reward) FROM selections"
        ).fetchone()
        return Replies(*row)

    def latest_s(self) -> float:
        """Return the last moment of the server's clock that is on record, 0 for none."""
        (latest,) = self._db.execute(
            "SELECT max(s) FROM (SELECT max(heard_s) AS s FROM workers UNION ALL "
            "SELECT max(opened_s) FROM rounds UNION ALL SELECT max(closed_s) FROM rounds "
            "UNION ALL SELECT max(replied_s) FROM selections)"
        ).fetchone()
        return float(latest or 0.0)

    # -- rounds ---------------------------------------------------------------------------------

    def open_round(self) -> OpenRound | None:
        """Return the round that is open, if one is."""
        row = self._db.execute(
            "SELECT number, opened_s, deadline_s, (SELECT count(*) FROM selections "
            "WHERE round = number), (SELECT count(replied_s) FROM selections WHERE round = number) "
            "FROM rounds WHERE closed_s IS NULL"
        ).fetchone()
        return None if row is None else OpenRound(*row)

    def closed_rounds(self) -> list[ClosedRound]:
        """Return the rounds that are over, in order."""
        rows = self._db.execute(
            "SELECT number, reason, closed_s - opened_s, digest FROM rounds "
            "WHERE closed_s IS NOT NULL ORDER BY number"
        )
        return [ClosedRound(*row) for row in rows]

    def round_figures(self, number: int) -> RoundFigures:
        """Return how many took part in a round."""
        row = self._db.execute(
            "SELECT r.eligible, count(s.worker), "
            "coalesce(sum(s.replied_s IS NOT NULL AND s.declined = ''), 0) "
            "FROM rounds r LEFT JOIN selections s ON s.round = r.number "
            "WHERE r.number = ? GROUP BY r.number",
            (number,),
        ).fetchone()
        return RoundFigures(*row)

    # -- the model ------------------------------------------------------------------------------

    def total(self) -> bytes | None:
        """Return the statistics of everybody, as of the last closed round."""
        row = self._db.execute("SELECT statistics, sha256 FROM total").fetchone()
        return None if row is None else intact(row, f"ledger {self.path}: the total")

    def last_version(self) -> Version | None:
        """Return the version that was published last, if one was."""
        query = (
            "SELECT version, round, digest, published_s FROM versions ORDER BY version DESC LIMIT 1"
        )
        row = self._db.execute(query).fetchone()
        return None if row is None else Version(*row)

    def setting(self, name: str, default: bytes = b"") -> bytes:
        """Return a value that the server keeps through restarts."""
        row = self._db.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return default if row is None else bytes(row[0])

    # -- erasures -------------------------------------------------------------------------------

    def erasures(self) -> list[Request]:
        """Return every erasure ever asked for, by name."""
        return self._requests("TRUE")

    def outstanding_erasures(self) -> list[Request]:
        """Return the erasures that no published version shows yet, by name."""
        return self._requests("published = 0")

    def unanswered_erasures(self, worker: str) -> list[Request]:
        """Return the erasures that a worker has not answered yet, by name."""
        answered = "SELECT 1 FROM answers a WHERE a.request = e.request AND a.worker = ?"
        return self._requests(f"NOT EXISTS ({answered})", worker)

    def _requests(self, condition: str, *values: str) -> list[Request]:
        rows = self._db.execute(
            "SELECT request, owners, requested_s, published FROM erasures e "  # noqa: S608
            f"WHERE {condition} ORDER BY request",
            values,
        )
        decode = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode
        return [
            Request(name, decode(owners), requested_s, bool(published))
            for name, owners, requested_s, published in rows
        ]

    def answers(self, request: str) -> dict[str, Answer]:
        """Return the answers to an erasure, by worker."""
        rows = self._db.execute(
            "SELECT worker, examples, incarnation, sequence FROM answers WHERE request = ?",
            (request,),
        )
        return {worker: Answer(*answer) for worker, *answer in rows}


def intact(row: tuple[bytes, bytes], what: str) -> bytes:
    """Return stored bytes that have the hash stored with them."""
    content, sha256 = row
    if hashlib.sha256(content).digest() != sha256:
        raise BadBytes(f"{what} is damaged; restore a backup")
    return bytes(content)
