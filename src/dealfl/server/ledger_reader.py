"""Read access to a ledger, also while a server writes it."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from dealfl.database import find_write_failure, open_read_only
from dealfl.erasure import Answer, Request
from dealfl.errors import BadBytes, BadInput
from dealfl.server.ledger_records import Version
from dealfl.server.round_reader import RoundReader
from dealfl.server.tables import MIGRATIONS

__all__ = ["LedgerReader", "intact"]

_TABLES = {"workers", "rounds", "selections", "updates", "versions", "erasures", "answers"}


class LedgerReader(RoundReader):
    """Read access to a ledger.

    Parameters
    ----------
    db : sqlite3.Connection
        Connection to the ledger.
    path : str
        Path of the file, for error messages.
    """

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
        if version > newest:
            raise BadInput(
                f"ledger {self.path} has schema version {version}; this dealfl supports up to "
                f"{newest}: upgrade dealfl"
            )
        if version < newest:
            raise BadInput(
                f"ledger {self.path} has schema version {version}; this dealfl reads {newest}: "
                f"upgrade it with `dealfl backup {self.path} --to FOLDER`, or resume the run"
            )

    # -- the model ------------------------------------------------------------------------------

    def total(self) -> bytes | None:
        """Return the sum of all workers.

        Returns
        -------
        bytes or None
            Statistics; None before the first.

        Raises
        ------
        BadBytes
            If the bytes do not have their stored hash.
        """
        row = self._db.execute("SELECT statistics, sha256 FROM total").fetchone()
        return None if row is None else intact(row, f"ledger {self.path}: the total")

    def last_version(self) -> Version | None:
        """Return the last published version.

        Returns
        -------
        Version or None
            None before the first.
        """
        query = (
            "SELECT version, round, digest, published_s FROM versions ORDER BY version DESC LIMIT 1"
        )
        row = self._db.execute(query).fetchone()
        return None if row is None else Version(*row)

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

    def erasures(self) -> list[Request]:
        """Return all erasure requests.

        Returns
        -------
        list of Request
            Requests sorted by name.
        """
        return self._requests("TRUE")

    def outstanding_erasures(self) -> list[Request]:
        """Return the erasure requests that no published version reflects.

        Returns
        -------
        list of Request
            Requests sorted by name.
        """
        return self._requests("published = 0")

    def unanswered_erasures(self, worker: str) -> list[Request]:
        """Return the erasure requests that a worker has not answered.

        Parameters
        ----------
        worker : str
            Name of the worker.

        Returns
        -------
        list of Request
            Requests sorted by name.
        """
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
        """Return the answers to an erasure request.

        Parameters
        ----------
        request : str
            Name of the request.

        Returns
        -------
        dict of str to Answer
            Answers by worker.
        """
        rows = self._db.execute(
            "SELECT worker, examples, incarnation, sequence FROM answers WHERE request = ?",
            (request,),
        )
        return {worker: Answer(*answer) for worker, *answer in rows}


def intact(row: tuple[bytes, bytes], what: str) -> bytes:
    """Return stored bytes after a check of their SHA-256."""
    content, sha256 = row
    if hashlib.sha256(content).digest() != sha256:
        raise BadBytes(f"{what} is damaged; restore a backup")
    return bytes(content)
