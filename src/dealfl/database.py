"""A SQLite file that survives kill −9. Journal and ledger are such files.

Every change is one transaction (WAL, synchronous=FULL). Deleted bytes are overwritten
(`secure_delete`); `checkpoint` empties the write-ahead log, `compact` also removes free pages.
Opening a file with an older schema version migrates it; a newer version is refused.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from dealfl.atomic_files import refused_write, synchronize
from dealfl.errors import BadBytes, BadInput, DealError, WriteFailed

__all__ = ["Connect", "Database", "find_write_failure", "open_read_only", "require_unused"]

_READ_TIMEOUT_S = 5.0
_DISK_FAILURES = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_SHMSIZE,  # readers share a file beside the database
)

Connect = Callable[..., sqlite3.Connection]


class Database:
    """A SQLite file with migrations; base class of `Ledger` and `Journal`.

    A subclass sets `kind` and `remedy`, which appear in error messages, `migrations`, whose element
    n upgrades version n to n + 1, and `own_table`, a table that no other kind of file has.

    Parameters
    ----------
    path : str or Path
        File to open or create. The default is a database in memory.
    connect : callable
        Replacement for `sqlite3.connect`, used by tests.

    Raises
    ------
    BadBytes
        If the file is damaged or not a database.
    BadInput
        If the file has a newer schema version.
    WriteFailed
        If the disk is full or fails.
    """

    kind: ClassVar[str]
    remedy: ClassVar[str]
    migrations: ClassVar[Sequence[str]]
    own_table: ClassVar[str]

    def __init__(
        self, path: str | Path = ":memory:", *, connect: Connect = sqlite3.connect
    ) -> None:
        self.path = str(path)
        try:
            self._db = connect(self.path, isolation_level=None, check_same_thread=False)
            self._open()
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> DealError:
        damaged = BadBytes(f"{self.kind} {self.path} cannot be used ({error}); {self.remedy}")
        return find_write_failure(self.path, error) or damaged

    def _open(self) -> None:
        for pragma in ("secure_delete = ON", "journal_mode = WAL", "synchronous = FULL"):
            self._db.execute(f"PRAGMA {pragma}")
        self._migrate()
        self._require_sound()

    def _migrate(self) -> None:
        if (version := self.version) > len(self.migrations):
            raise BadInput(
                f"{self.kind} {self.path} has schema version {version}; this dealfl supports up "
                f"to {len(self.migrations)}: upgrade dealfl"
            )
        if version == len(self.migrations):
            return
        with self.transaction():
            version = self.version  # another process may have migrated the file
            for script in self.migrations[version:]:
                for statement in script.split(";"):
                    self._db.execute(statement)
            if version == 0:
                self._fill()
            self._db.execute(f"PRAGMA user_version = {len(self.migrations)}")

    def _fill(self) -> None:
        """Insert the initial rows of a new file."""

    def _require_sound(self) -> None:
        if (problem := self._db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(problem)

    def execute(self, sql: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Run one statement.

        Parameters
        ----------
        sql : str
            The statement.
        values : sequence
            Values of its parameters.

        Returns
        -------
        sqlite3.Cursor
            Its rows.
        """
        return self._db.execute(sql, values)

    @property
    def version(self) -> int:
        """Schema version of the file."""
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all changes inside a `with` block together, or roll all of them back.

        Yields
        ------
        None
            Control to the block.
        """
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if failure := find_write_failure(self.path, error):
                raise failure from error
            raise

    def checkpoint(self) -> None:
        """Empty the write-ahead log, so that deleted bytes are in no file."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def compact(self) -> None:
        """Remove all bytes of deleted rows from the file and its log."""
        self.checkpoint()
        self._db.execute("VACUUM")
        self.checkpoint()

    @classmethod
    def recognizes(cls, path: Path) -> bool:
        """Return whether a file exists and is a database of this kind; do not change it.

        Parameters
        ----------
        path : Path
            File to inspect.

        Returns
        -------
        bool
            Whether it has the tables of this kind.
        """
        query = "SELECT 1 FROM sqlite_master WHERE name = ?"
        try:
            with closing(open_read_only(path)) as db:
                return db.execute(query, (cls.own_table,)).fetchone() is not None
        except sqlite3.DatabaseError as error:
            if failure := find_write_failure(path, error):
                raise failure from error
            return False

    @classmethod
    def back_up(cls, path: Path, to: Path) -> int:
        """Write a consistent copy of a file while others use it, in the newest schema version.

        Parameters
        ----------
        path : Path
            File to copy; it does not change.
        to : Path
            File to create.

        Returns
        -------
        int
            Schema version of the copy.

        Raises
        ------
        BadInput
            If the new file exists, its path cannot be written, or the schema version is newer.
        BadBytes
            If the file is damaged.
        WriteFailed
            If the disk is full or fails.
        """
        if to.exists():
            raise BadInput(f"{to} exists; choose another name or remove it first")
        part = to.with_name(to.name + ".part")
        part.unlink(missing_ok=True)
        try:
            with closing(sqlite3.connect(part)) as copy, closing(open_read_only(path)) as source:
                source.backup(copy)
            # upgrade and check the copy; errors name the file that is copied
            with closing(
                cls(path, connect=lambda _, **how: sqlite3.connect(part, **how))
            ) as database:
                database._db.execute("PRAGMA journal_mode = DELETE")
                version = database.version
            synchronize(part)
            part.replace(to)
            synchronize(to.parent)
        except (OSError, sqlite3.Error) as error:
            raise _refused_copy(to, error) from error
        finally:
            part.unlink(missing_ok=True)
        return version

    def content(self) -> bytes:
        """Return the whole database as the bytes of a file, for `replace_content`."""
        return self._db.serialize()

    def replace_content(self, content: bytes) -> None:
        """Replace a database in memory by the bytes that `content` returned.

        Parameters
        ----------
        content : bytes
            Bytes of a database file; others raise `BadBytes`.
        """
        try:
            self._db.deserialize(content)
            self._open()
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from error


def find_write_failure(path: str | Path, error: BaseException) -> WriteFailed | None:
    """Return the error to raise if the disk of a database is full or fails.

    Parameters
    ----------
    path : str or Path
        File of the database.
    error : BaseException
        Error of SQLite.

    Returns
    -------
    WriteFailed or None
        None if the error has another cause.
    """
    if getattr(error, "sqlite_errorcode", None) not in _DISK_FAILURES:
        return None
    return WriteFailed(f"{path} cannot be written: {error}; free disk space, then try again")


def _refused_copy(target: Path, error: OSError | sqlite3.Error) -> DealError:
    if isinstance(error, OSError):
        return refused_write(target, error)
    return find_write_failure(target, error) or BadInput(f"{target} cannot be written: {error}")


def open_read_only(path: Path) -> sqlite3.Connection:
    """Open a file for reading while other processes write it.

    Parameters
    ----------
    path : Path
        An existing SQLite file.

    Returns
    -------
    sqlite3.Connection
        A connection that refuses all changes.
    """
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    return sqlite3.connect(address, uri=True, isolation_level=None, timeout=_READ_TIMEOUT_S)


def require_unused(path: Path) -> None:
    """Raise an error if another process has a database open; leave no log file behind.

    Parameters
    ----------
    path : Path
        An existing SQLite file; `BadBytes` is raised if it is none or damaged.
    """
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
