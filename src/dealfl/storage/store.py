"""The class of journals and ledgers: schema, terms, copies."""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import ClassVar

from dealfl.errors import BadBytes, BadInput, DealError
from dealfl.storage.atomic_files import lock_file, make_private, refused_write, synchronize
from dealfl.storage.files import find_write_failure, open_read_only
from dealfl.storage.transactions import Transactions

Connect = Callable[..., sqlite3.Connection]
Migration = str | Callable[["Database"], None]


class Database(Transactions):
    """A SQLite file with migrations; base class of `Ledger` and `Journal`.

    A subclass sets `kind` and `remedy`, which appear in error messages, `migrations`, whose element
    n upgrades version n to n + 1 by SQL or by a function of the database, `own_table`, a table that
    no other kind of file has, and `finish_copy`, what `write_copy` does to a copy.
    """

    kind: ClassVar[str]
    remedy: ClassVar[str]
    migrations: ClassVar[Sequence[Migration]]
    own_table: ClassVar[str]
    finish_copy: ClassVar[tuple[str, ...]] = ("DELETE FROM settings WHERE name = 'compact'",)

    def __init__(
        self, path: str | Path = ":memory:", *, connect: Connect = sqlite3.connect
    ) -> None:
        self.path = str(path)
        self._lock: weakref.finalize[..., Database] | None = None
        try:
            if self.path != ":memory:":
                make_private(Path(self.path))
            self._db = connect(self.path, isolation_level=None, check_same_thread=False)
            self._forget_cached()
            self._open()
        except (OSError, sqlite3.DatabaseError) as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> DealError:
        damaged = BadBytes(f"{self.kind} {self.path} cannot be used ({error}); {self.remedy}")
        return find_write_failure(self.path, error) or damaged

    def _open(self) -> None:
        cleaned = "FAST" if self.path == ":memory:" else "ON"  # `content` removes free pages
        for pragma in (f"secure_delete = {cleaned}", "journal_mode = WAL", "synchronous = FULL"):
            self._db.execute(f"PRAGMA {pragma}")
        self._migrate()
        if (problem := self._db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(problem)

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
            for step in self.migrations[version:]:
                for statement in step.split(";") if isinstance(step, str) else ():
                    self._db.execute(statement)
                if callable(step):
                    step(self)
            if version == 0:
                self._fill()
            self._db.execute(f"PRAGMA user_version = {len(self.migrations)}")

    def _fill(self) -> None:
        """Insert the initial rows of a new file."""

    @property
    def version(self) -> int:
        """Schema version of the file."""
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def close(self) -> None:
        """Close the file, and release its lock."""
        self._db.close()
        if self._lock is not None:
            self._lock()

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

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo the changes of a `with` block that fails; the transaction around it can continue."""
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
        """Write a consistent copy of a file while others use it, in the newest schema version."""
        if to.exists():
            raise BadInput(f"{to} exists; choose another name or remove it first")
        with _replacing(to) as part:
            with closing(sqlite3.connect(part)) as copy, closing(open_read_only(path)) as source:
                source.backup(copy)
            # upgrade and check the copy; errors name the file that is copied
            with closing(
                cls(path, connect=lambda _, **how: sqlite3.connect(part, **how))
            ) as database:
                database._db.execute("PRAGMA journal_mode = DELETE")
                version = database.version
        return version

    def write_copy(self, path: Path) -> None:
        """Replace a file by a compacted copy of this database, atomically."""
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
        """Replace a database in memory by the bytes that `content` returned."""
        try:
            self._forget_cached()
            self._db.deserialize(content)
            self._open()
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from error


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
