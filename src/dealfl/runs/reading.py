"""Looking into a ledger without touching it: also while a server writes, and never in its way."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dealfl.errors import BadBytes, BadInput
from dealfl.server import Ledger

__all__ = ["LedgerReader", "reading", "require_alone"]

_PATIENCE_S = 5.0
_TABLES = {"workers", "rounds", "selections", "updates", "versions", "erasures", "answers"}


class LedgerReader:
    """Asks one state of a ledger; what is written meanwhile is not seen."""

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self._db, self.path = db, path

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows that a query finds."""
        return self._db.execute(query, values).fetchall()

    def named(self, query: str, *values: object) -> list[dict[str, Any]]:
        """Return the rows that a query finds, by the names of their columns."""
        cursor = self._db.execute(query, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def row(self, query: str, *values: object) -> tuple[Any, ...]:
        """Return the one row that a query finds."""
        found: tuple[Any, ...] = self._db.execute(query, values).fetchone()
        return found

    def require_known(self) -> None:
        """Refuse a file that is no ledger, or one of another version."""
        names = {name for (name,) in self.rows("SELECT name FROM sqlite_master")}
        if not names >= _TABLES:
            raise BadInput(f"{self.path} is no ledger; name the ledger.db of a run")
        (version,), newest = self.row("PRAGMA user_version"), len(Ledger.migrations)
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


@contextmanager
def reading(path: Path) -> Iterator[LedgerReader]:
    """Open a ledger to look at one state of it."""
    try:
        with closing(_opened(path)) as db:
            db.execute("BEGIN")
            reader = LedgerReader(db, path)
            reader.require_known()
            yield reader
    except sqlite3.DatabaseError as error:
        raise BadBytes(
            f"ledger {path} can not be read ({error}); if it is damaged, restore a backup"
        ) from error


def _opened(path: Path) -> sqlite3.Connection:
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    return sqlite3.connect(address, uri=True, isolation_level=None, timeout=_PATIENCE_S)


def require_alone(path: Path) -> None:
    """Refuse a database that another process has open; one that is alone leaves no log behind."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=0.0)) as db:
            # only who is alone may leave the mode in which readers and a writer share a file
            (mode,) = db.execute("PRAGMA journal_mode = DELETE").fetchone()
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise BadBytes(f"{path} can not be used ({error}); restore a backup") from error
        mode = "wal"
    except sqlite3.DatabaseError as error:
        raise BadBytes(f"{path} can not be used ({error}); restore a backup") from error
    if mode != "delete":
        raise BadInput(f"{path} is in use by another process; stop that first, then try again")
