"""A SQLite file that survives kill −9: transactions, terms, copies, removal of deleted bytes.

SQLite overwrites deleted bytes (`secure_delete`), but a copy may stay in the write-ahead log, and
another one in an unused part of a page, or in a free page. A checkpoint empties the log; `compact`
rewrites all pages.
"""

from __future__ import annotations

import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from urllib.parse import quote

import msgspec

from dealfl.errors import BadBytes, BadInput, DealError, Fenced, WriteFailed
from dealfl.storage.atomic_files import lock_file, make_private, refused_write, synchronize

_VERSION = 1  # of the tables
_COMPACT_EVERY_S = 86_400.0
_COMPACT_BYTES_PER_S = 1e6  # about 1 % of the time of a process
_MIN_FREE_PAGES = 1 << 10  # of 4096 bytes, of a database in memory
_COMPACTION = (
    "SELECT name, CAST(value AS TEXT) FROM settings WHERE name IN ('compact', 'compacted_s')"
)
_TERM = "SELECT CAST(CAST(value AS TEXT) AS INTEGER) FROM settings WHERE name = 'term'"
_READ_TIMEOUT_S = 5.0
_LOOK_S = 2.0  # for which a reader may have a file open that must be unused
_LOG_BYTES = 1 << 22  # of the log, before its pages are copied into the file
_DISK_FAILURES = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_SHMSIZE,  # readers share a file beside the database
)

_DAMAGES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)

Connect = Callable[..., sqlite3.Connection]
Kept = TypeVar("Kept")


class Database:
    """A SQLite file, or a database in memory; base class of `Ledger` and `Journal`.

    A subclass sets `kind` and `remedy`, which appear in error messages, `tables`, the statements
    that create its tables, among them settings, `own_table`, a table that no other kind of file
    has, and `finish_copy`, what `write_copy` does to a copy.
    """

    kind: ClassVar[str]
    remedy: ClassVar[str]
    tables: ClassVar[str]
    own_table: ClassVar[str]
    overwrites_free_pages: ClassVar[bool] = True  # else they stay until they are used or `compact`
    page_bytes: ClassVar[int] = 4096  # of a new file
    finish_copy: ClassVar[tuple[str, ...]] = ("DELETE FROM settings WHERE name = 'compact'",)

    def __init__(
        self, path: str | Path = ":memory:", *, connect: Connect = sqlite3.connect
    ) -> None:
        self.path = str(path)
        self._is_shared = self.path != ":memory:"  # others can change it, too
        self._connecting = connect
        self._lock: weakref.finalize[..., Database] | None = None
        self._cleans = True
        self._freed = False  # since the last look at free pages
        self._logged = True  # whether the log may hold deleted bytes, such as after a crash
        self._seen = -1  # what SQLite counts as changes of other connections
        self._kept: dict[str, Any] = {}
        try:
            if self.path != ":memory:":
                make_private(Path(self.path))
            self._db = self._connect()
            self._forget_cached()
            self._open()
        except (OSError, sqlite3.DatabaseError, UnicodeDecodeError) as error:  # also of messages
            raise self._unusable(error) from error

    @contextmanager
    def naming_damage(self) -> Iterator[None]:
        """Name the file and the remedy in errors of SQLite that damage of the file causes."""
        try:
            yield
        except (UnicodeDecodeError, msgspec.DecodeError) as error:  # text, values of rows
            raise self._unusable(error) from error
        except sqlite3.DatabaseError as error:
            if _is_damage(error):
                raise self._unusable(error) from error
            raise

    def _unusable(self, error: Exception) -> DealError:
        damaged = BadBytes(f"{self.kind} {self.path} cannot be used ({error}); {self.remedy}")
        return find_write_failure(self.path, error) or damaged

    def _open(self) -> None:
        is_clean = self.overwrites_free_pages and self.path != ":memory:"
        cleaned = "ON" if is_clean else "FAST"
        if self.path != ":memory:":
            self._db.execute(f"PRAGMA page_size = {self.page_bytes}")
        for pragma in (f"secure_delete = {cleaned}", "journal_mode = WAL", "synchronous = FULL"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute(
            f"PRAGMA wal_autocheckpoint = {_LOG_BYTES // self._read_pragma('page_size')}"
        )
        if self.version == 0:
            self._create()
        if (version := self.version) != _VERSION:
            raise BadInput(
                f"{self.kind} {self.path} has schema version {version}; this dealfl supports up "
                f"to {_VERSION}: upgrade dealfl"
            )
        if (problem := self._db.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(problem)
        require_tables(self._db, self.tables)

    def _create(self) -> None:
        with self.transaction():
            if self.version:  # another process has created the tables
                return
            for statement in self.tables.split(";"):
                self._db.execute(statement)
            self._fill()
            self._db.execute(f"PRAGMA user_version = {_VERSION}")

    def _fill(self) -> None:
        """Insert the initial rows of a new file."""

    @property
    def version(self) -> int:
        """Schema version of the file."""
        return self._read_pragma("user_version")

    def _read_pragma(self, name: str) -> int:
        return int(self._db.execute(f"PRAGMA {name}").fetchone()[0])

    def execute(self, sql: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Run one statement."""
        return self._db.execute(sql, values)

    def close(self) -> None:
        """Close the file, and release its lock."""
        self._db.close()
        if self._lock is not None:
            self._lock()

    # -- what is kept in memory ------------------------------------------------------------------

    def keep(self, name: str, read: Callable[[], Kept]) -> Kept:
        """Return what a function reads from the file, and keep it in memory.

        It is read again after `drop`, a transaction that failed, and a change by another process.
        """
        if self._is_shared and not self._db.in_transaction:
            self._follow_others()
        if name not in self._kept:
            self._kept[name] = read()
        kept: Kept = self._kept[name]
        return kept

    def drop(self, name: str) -> None:
        """Read something again when it is needed; it has changed."""
        self._kept.pop(name, None)

    def _follow_others(self) -> None:
        if not self._is_shared:
            return
        (others,) = self._db.execute("PRAGMA data_version").fetchone()
        if others != self._seen:
            self._forget_cached()
            self._seen = others

    def _forget_cached(self) -> None:
        """Drop all that is kept in memory of the content, which has changed."""
        self._kept = {}

    # -- transactions ----------------------------------------------------------------------------

    def claim(self) -> int:
        """Return the number of a new term in which this object alone writes.

        A file is locked until it is closed or the process ends. What an earlier term still writes
        is refused (`transaction`).
        """
        if self.path != ":memory:" and (self._lock is None or not self._lock.alive):
            release = lock_file(Path(f"{self.path}-lock"), f"{self.kind} {self.path}")
            self._lock = weakref.finalize(self, release)
        self._forget_cached()  # another process may have written
        with self.transaction():
            term = self._term() + 1
            row = ("term", str(term).encode())
            self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", row)
            self.drop("term")
        return term

    def _term(self) -> int:
        return self.keep("term", lambda: (self._db.execute(_TERM).fetchone() or (0,))[0])

    def _require_term(self, term: int | None) -> None:
        if term is not None and (newer := self._term()) > term:
            raise Fenced(
                f"{self.kind} {self.path} was opened by another process (term {newer} after "
                f"{term}); this one has written nothing and must stop"
            )

    @contextmanager
    def transaction(self, term: int | None = None) -> Iterator[None]:
        """Commit all changes inside a `with` block together, or roll all of them back.

        A writer that gives its `term`, from `claim`, is refused after a later claim.
        """
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._follow_others()
            self._require_term(term)
            yield
            self._write_changes()
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self._forget_cached()
            if failure := find_write_failure(self.path, error):
                raise failure from error
            if isinstance(error, sqlite3.DatabaseError) and _is_damage(error):
                raise self._unusable(error) from error
            raise
        if self._logged and self._cleans and self.path != ":memory:":
            self.checkpoint()

    def _write_changes(self) -> None:
        """Write what changed in memory only."""

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo the changes of a `with` block that fails; the transaction around it can continue.

        If the disk or the file is the cause, the error says so.
        """
        self._db.execute("SAVEPOINT block")
        try:
            yield
            self._write_changes()  # a later block that fails drops what is in memory
        except BaseException as error:
            if self._db.in_transaction:  # else SQLite has undone everything
                self._db.execute("ROLLBACK TO block")
            self._forget_cached()
            if type(error) in (sqlite3.OperationalError, sqlite3.DatabaseError):
                raise self._unusable(error) from error  # type: ignore[arg-type]
            raise
        finally:
            if self._db.in_transaction:
                self._db.execute("RELEASE block")

    # -- deleted bytes ---------------------------------------------------------------------------

    def note_deletion(self, *, compact: bool = False, from_log: bool = True) -> None:
        """Remove the bytes that this transaction deletes from the log after its commit.

        Without `from_log` they leave the log when the file is compacted: within a day, or with
        `compact` as soon as possible.
        """
        self._logged |= from_log or compact
        self._freed = True
        if compact or "compact" not in self._compaction:
            self._db.execute(
                "INSERT OR REPLACE INTO settings VALUES ('compact', ?)", (b"now" * compact,)
            )
            self.drop("compaction")

    def compact_if_due(self, now_s: float) -> None:
        """Compact the file if deleted bytes require it, including those before a crash.

        A compaction rewrites the file, so that a large one must wait: on average a megabyte is
        rewritten in a second. A database in memory is compacted when its content is read, or if
        it is large and mostly free.
        """
        if self.path == ":memory:":
            freed, self._freed = self._freed, False
            if freed and self._is_mostly_free:
                self.compact()
            return
        if not self._cleans or not self._must_compact(now_s):
            return
        with suppress(WriteFailed):  # the next call tries again; all messages are committed
            if self.compact():
                with self.transaction():
                    row = ("compacted_s", repr(now_s).encode())
                    self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", row)
                    self.drop("compaction")

    @property
    def _is_mostly_free(self) -> bool:
        free = self._read_pragma("freelist_count")
        return free >= _MIN_FREE_PAGES and 2 * free > self._read_pragma("page_count")

    @property
    def _compaction(self) -> dict[str, str]:
        """The request of a compaction, if something was deleted, and the time of the last one."""
        return self.keep("compaction", lambda: dict(self._db.execute(_COMPACTION).fetchall()))

    def _must_compact(self, now_s: float) -> bool:
        if (request := self._compaction.get("compact")) is None:
            return False
        last_s = float(self._compaction.get("compacted_s", "inf"))
        if now_s < last_s:  # the first, or the clock jumped back
            return True
        passed_s = now_s - last_s
        if not request and passed_s < _COMPACT_EVERY_S:
            return False
        return passed_s >= self.size_bytes / _COMPACT_BYTES_PER_S - 1.0

    @property
    def size_bytes(self) -> int:
        """Size of the database, without its log."""
        return self._read_pragma("page_count") * self._read_pragma("page_size")

    @contextmanager
    def cleaned_at_the_end(self) -> Iterator[None]:
        """Wait for the disk, and remove deleted bytes, only once: after the `with` block.

        A power failure within the block may return the file to an earlier state, but to no half
        transaction.
        """
        self._cleans = False
        self._db.execute("PRAGMA synchronous = NORMAL")
        try:
            yield
        finally:
            self._cleans = True
            self._db.execute("PRAGMA synchronous = FULL")
            self.compact()

    def checkpoint(self) -> bool:
        """Empty the write-ahead log of deleted bytes; return whether it is empty.

        While others read, it is not: the next transaction tries again.
        """
        with self._without_waiting():
            try:
                busy = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            except sqlite3.DatabaseError:  # full disk; the next transaction names a damage
                busy = True
        self._logged = bool(busy)
        return not busy

    def compact(self) -> bool:
        """Remove all bytes of deleted rows from the file, and from its log as soon as possible.

        Return whether the file was rewritten: not if it is in use or the disk is full.
        """
        with self._without_waiting(), self.naming_damage():
            try:
                self._db.execute("VACUUM")
            except sqlite3.OperationalError:
                return False
        with self.transaction():
            self._db.execute("DELETE FROM settings WHERE name = 'compact'")
            self.drop("compaction")
        self.checkpoint()
        return True

    @contextmanager
    def _without_waiting(self) -> Iterator[None]:
        """Let statements fail at once while another connection uses the file."""
        before = self._read_pragma("busy_timeout")
        self._db.execute("PRAGMA busy_timeout = 0")
        try:
            yield
        finally:
            self._db.execute(f"PRAGMA busy_timeout = {before}")

    # -- copies ----------------------------------------------------------------------------------

    @classmethod
    def recognizes(cls, path: Path) -> bool:
        """Return whether a file exists and is a database of this kind; do not change it."""
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
        """Write a consistent copy of a file while others use it; return its schema version."""
        if to.exists():
            raise BadInput(f"{to} exists; choose another name or remove it first")
        with _replacing(to) as part:
            with closing(sqlite3.connect(part)) as copy, closing(open_read_only(path)) as source:
                source.backup(copy)
            # check the copy; errors name the file that is copied
            with closing(
                cls(path, connect=lambda _, **how: sqlite3.connect(part, **how))
            ) as database:
                database._db.execute("PRAGMA journal_mode = DELETE")
                version = database.version
        return version

    def write_copy(self, path: Path) -> None:
        """Replace a file, whose log must be gone, by a compacted copy of this database."""
        with _replacing(path) as part:
            self._db.execute("VACUUM INTO ?", (str(part),))
            with closing(sqlite3.connect(part)) as copy, copy:
                for statement in self.finish_copy:
                    copy.execute(statement)

    def content(self) -> bytes:
        """Return the database as the bytes of a file, without the bytes of deleted rows."""
        if self._compaction.get("compact") or self._read_pragma("freelist_count"):
            self.compact()
        return self._db.serialize()

    def replace_content(self, content: bytes) -> None:
        """Replace a database in memory by the bytes that `content` returned.

        The connection is new: statements that were compiled for the old content could read and
        write the pages of other tables.
        """
        try:
            before = self._db
            self._db = self._connect()
            before.close()
            self._forget_cached()
            self._db.deserialize(content)
            self._open()
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from error

    def _connect(self) -> sqlite3.Connection:
        return self._connecting(self.path, isolation_level=None, check_same_thread=False)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return "decode to UTF-8" in str(error) if code is None else code & 0xFF in _DAMAGES


def find_write_failure(path: str | Path, error: BaseException) -> WriteFailed | None:
    """Return the error to raise if a disk is full or fails; None if the cause is another."""
    if getattr(error, "sqlite_errorcode", None) not in _DISK_FAILURES:
        return None
    return WriteFailed(f"{path} cannot be written: {error}; free disk space, then try again")


def open_read_only(path: Path) -> sqlite3.Connection:
    """Open an existing file for reading while other processes write it."""
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    return sqlite3.connect(address, uri=True, isolation_level=None, timeout=_READ_TIMEOUT_S)


def require_tables(db: sqlite3.Connection, tables: str) -> None:
    """Raise an error unless a database has the tables that some statements create."""
    stored = {str(sql).strip() for (sql,) in db.execute("SELECT sql FROM sqlite_master")}
    for sql in map(str.strip, tables.split(";")):
        if sql.startswith("CREATE TABLE") and sql not in stored:
            raise sqlite3.DatabaseError(f"without {sql.partition('(')[0].strip()}")


def require_unused(path: Path) -> None:
    """Raise an error if another process has a database open; leave no log file behind.

    What only looks at it, such as a page that is kept up to date, is done in a moment.
    """
    until_s = time.monotonic() + _LOOK_S
    while not _is_unused(path):
        if time.monotonic() > until_s:
            raise BadInput(f"{path} is in use by another process; stop it and try again")
        time.sleep(0.02)


def _is_unused(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=0.0)) as db:
            # leaving WAL mode succeeds only without other connections
            (mode,) = db.execute("PRAGMA journal_mode = DELETE").fetchone()
    except sqlite3.DatabaseError as error:
        if "locked" not in str(error):
            raise BadBytes(f"{path} cannot be used ({error}); restore a backup") from error
        return False
    return bool(mode == "delete")


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """Yield a new private file, which replaces another unless the block fails."""
    part = target.with_name(target.name + ".part")
    try:
        part.unlink(missing_ok=True)
        make_private(part)
        yield part
        synchronize(part)
        part.replace(target)
        synchronize(target.parent)
    except OSError as error:
        raise refused_write(target, error) from error
    except sqlite3.Error as error:
        refused = BadInput(f"{target} cannot be written: {error}")
        raise find_write_failure(target, error) or refused from error
    finally:
        part.unlink(missing_ok=True)
