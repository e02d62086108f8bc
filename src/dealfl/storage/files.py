"""Database files, as others than their writer see them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from dealfl.errors import BadBytes, BadInput, WriteFailed

_READ_TIMEOUT_S = 5.0
_DISK_FAILURES = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_SHMSIZE,  # readers share a file beside the database
)


def find_write_failure(path: str | Path, error: BaseException) -> WriteFailed | None:
    """Return the error to raise if a disk is full or fails; None if the cause is another."""
    if getattr(error, "sqlite_errorcode", None) not in _DISK_FAILURES:
        return None
    return WriteFailed(f"{path} cannot be written: {error}; free disk space, then try again")


def open_read_only(path: Path) -> sqlite3.Connection:
    """Open a file for reading while other processes write it."""
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    return sqlite3.connect(address, uri=True, isolation_level=None, timeout=_READ_TIMEOUT_S)


def require_unused(path: Path) -> None:
    """Raise an error if another process has a database open; leave no log file behind."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=0.0)) as db:
            # leaving WAL mode succeeds only without other connections
            (mode,) = db.execute("PRAGMA journal_mode = DELETE").fetchone()
    except sqlite3.DatabaseError as error:
        if "locked" not in str(error):
            raise BadBytes(f"{path} cannot be used ({error}); restore a backup") from error
        mode = "wal"
    if mode != "delete":
        raise BadInput(f"{path} is in use by another process; stop it and try again")
