"""Read access to a ledger, also while a server writes it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from dealfl.erasure import Request
from dealfl.errors import BadBytes, BadInput
from dealfl.exact import Statistics
from dealfl.server.sums import TOTAL, read_schema, read_sum
from dealfl.server.tables import (
    MIGRATIONS,
    ClosedRound,
    OpenRound,
    Replies,
    RoundFigures,
    Selection,
    Version,
    WorkerFigures,
    WorkerRow,
    worker_row,
)
from dealfl.storage import find_write_failure, open_read_only

__all__ = ["LedgerReader"]

_TABLES = {"workers", "rounds", "selections", "updates", "versions", "erasures", "answers"}
_WORKER = ", ".join(f"w.{name}" for name in WorkerRow.__struct_fields__)
_WIDTH = len(WorkerRow.__struct_fields__)


class LedgerReader:
    """Read access to a ledger.

    Parameters
    ----------
    db : sqlite3.Connection
        Connection to the ledger.
    path : str
        Path of the file, for error messages.
    """

    def __init__(self, db: sqlite3.Connection, path: str) -> None:
        self._db, self.path = db, path

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[LedgerReader]:
        """Open one consistent state of a ledger file; later changes are not visible.

        Parameters
        ----------
        path : Path
            An existing ledger file.

        Yields
        ------
        LedgerReader
            A reader that is valid inside the `with` block.

        Raises
        ------
        BadInput
            If the file is no ledger or has another schema version.
        BadBytes
            If the file is damaged.
        """
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
            raise BadInput(f"{self.path} is no ledger; give the ledger.db of a run")
        (version,), newest = self._db.execute("PRAGMA user_version").fetchone(), len(MIGRATIONS)
        known = f"ledger {self.path} has schema version {version}; this dealfl"
        if version > newest:
            raise BadInput(f"{known} supports up to {newest}: upgrade dealfl")
        if version < newest:
            raise BadInput(
                f"{known} reads {newest}: "
                f"upgrade it with `dealfl backup {self.path} --to FOLDER`, or resume the run"
            )

    # -- the model ------------------------------------------------------------------------------

    def total(self) -> Statistics | None:
        """Return the sum of all workers; None before the first."""
        if not (header := self.setting("schema")):
            return None
        return read_sum(self._db.execute, self.path, TOTAL, read_schema(header))

    @property
    def has_base(self) -> bool:
        """Whether the total contains statistics that belong to no worker."""
        return self._db.execute("SELECT 1 FROM sums WHERE worker = ''").fetchone() is not None

    def last_version(self) -> Version | None:
        """Return the last published version; None before the first."""
        return self._version("1 ORDER BY version DESC")

    def versions_around(self, request: str) -> tuple[Version | None, Version | None]:
        """Return the last version before an erasure, and the first that shows it to workers.

        Parameters
        ----------
        request : str
            Name of the request.

        Returns
        -------
        tuple of Version or None
            Both versions.
        """
        number = "(SELECT number FROM erasures WHERE request = ?)"
        before = self._version(f"erased < {number} ORDER BY version DESC", request)
        after = self._version(f"erased >= {number} AND delivered = 1 ORDER BY version", request)
        return before, after

    def _version(self, condition: str, *values: str) -> Version | None:
        query = "SELECT version, round, digest, published_s, erased, delivered FROM versions"
        row = self._db.execute(f"{query} WHERE {condition} LIMIT 1", values).fetchone()
        return None if row is None else replace(Version(*row), delivered=bool(row[-1]))

    def setting(self, name: str, default: bytes = b"") -> bytes:
        """Return a value that the server has stored.

        Parameters
        ----------
        name : str
            Name of the value.
        default : bytes
            Result if no value is stored.

        Returns
        -------
        bytes
            The value.
        """
        row = self._db.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return default if row is None else bytes(row[0])

    # -- erasures -------------------------------------------------------------------------------

    def count_erasures(self) -> tuple[int, int]:
        """Return the number of erasure requests, and of those in a version that was delivered."""
        (requested,) = self._db.execute("SELECT coalesce(max(number), 0) FROM erasures").fetchone()
        query = "SELECT coalesce(max(erased), 0) FROM versions WHERE delivered = 1"
        return int(requested), int(self._db.execute(query).fetchone()[0])

    def erasures(self, name: str = "") -> list[Request]:
        """Return erasure requests, in their order.

        Parameters
        ----------
        name : str
            Name of one request; "" returns all.

        Returns
        -------
        list of Request
            The requests.
        """
        _, shown = self.count_erasures()
        query = "SELECT request, owners, requested_s, requested_by, number FROM erasures WHERE "
        query += "request = ?" if name else "? = '' ORDER BY number"
        rows = self._db.execute(query, (name,))
        decode = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode
        return [Request(row[0], decode(row[1]), row[2], row[3], row[4] <= shown) for row in rows]

    def answers(self, request: str) -> dict[str, int]:
        """Return the answers to an erasure request.

        Parameters
        ----------
        request : str
            Name of the request.

        Returns
        -------
        dict of str to int
            Number of examples deleted by worker; 0 for one that joined after the request.
        """
        rows = self._db.execute(
            "SELECT w.name, coalesce(a.examples, 0) FROM erasures e JOIN workers w "
            "LEFT JOIN answers a ON a.number = e.number AND a.worker = w.name "
            "WHERE e.request = ? AND (a.examples IS NOT NULL OR w.answered >= e.number)",
            (request,),
        )
        return dict(rows.fetchall())

    # -- workers --------------------------------------------------------------------------------

    def workers(self) -> list[WorkerFigures]:
        """Return all workers with their results, sorted by name."""
        rows = self._db.execute(
            f"SELECT {_WORKER}, "  # noqa: S608
            "(SELECT count(*) FROM updates u WHERE u.worker = w.name AND u.incarnation = "
            "w.incarnation AND u.delta IS NOT NULL), count(s.round), count(s.replied_s) - "
            "count(nullif(s.declined, '')), count(nullif(s.declined, '')), coalesce(sum(s.reward), "
            "0.0), coalesce(sum(s.energy_j), 0.0) FROM workers w LEFT JOIN selections s ON "
            "s.worker = w.name GROUP BY w.name ORDER BY w.name"
        )
        return [WorkerFigures(worker_row(row[:_WIDTH]), *row[_WIDTH:]) for row in rows]

    def selections(self, worker: str | None = None) -> list[Selection]:
        """Return selections of workers.

        Parameters
        ----------
        worker : str or None
            Name of a worker; None for all.

        Returns
        -------
        list of Selection
            Selections sorted by round and worker.
        """
        query = (
            "SELECT worker, round, replied_s, declined, learned, evicted, operations, elapsed_s, "
            "energy_j, reward FROM selections WHERE ?1 IS NULL OR worker = ?1 ORDER BY 2, 1"
        )
        return [Selection(*row) for row in self._db.execute(query, (worker,))]

    def replies(self) -> Replies:
        """Return the sum of all replies."""
        row = self._db.execute(
            "SELECT count(replied_s), coalesce(sum(learned), 0), coalesce(sum(evicted), 0), "
            "coalesce(sum(energy_j), 0.0), avg(reward) FROM selections"
        ).fetchone()
        return Replies(*row)

    def latest_s(self) -> float:
        """Return the latest time in the ledger, in seconds of the server's clock."""
        times = ("heard_s FROM workers", "opened_s FROM rounds", "closed_s FROM rounds")
        every = " UNION ALL ".join(f"SELECT {one}" for one in (*times, "replied_s FROM selections"))
        (latest,) = self._db.execute(f"SELECT max(heard_s) FROM ({every})").fetchone()  # noqa: S608
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

    def closed_rounds(self) -> list[ClosedRound]:
        """Return all closed rounds, in order."""
        rows = self._db.execute(
            "SELECT number, reason, closed_s - opened_s, digest FROM rounds "
            "WHERE closed_s IS NOT NULL ORDER BY number"
        )
        return [ClosedRound(*row) for row in rows]

    def round_figures(self, number: int) -> RoundFigures:
        """Return the participation in a round.

        Parameters
        ----------
        number : int
            Number of the round.

        Returns
        -------
        RoundFigures
            Numbers of workers.
        """
        row = self._db.execute(
            "SELECT r.eligible, count(s.worker), "
            "coalesce(sum(s.replied_s IS NOT NULL AND s.declined = ''), 0) "
            "FROM rounds r LEFT JOIN selections s ON s.round = r.number "
            "WHERE r.number = ? GROUP BY r.number",
            (number,),
        ).fetchone()
        return RoundFigures(*row)
