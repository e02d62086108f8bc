"""Transactions of a SQLite file, and the removal of deleted bytes from it and its log.

SQLite overwrites deleted bytes (`secure_delete`), but a copy may stay in the write-ahead log, and
another one in an unused part of a page. A checkpoint empties the log; `compact` rewrites all pages.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from dealfl.errors import Fenced
from dealfl.storage.files import find_write_failure

_COMPACT_EVERY_S = 86_400.0
_COMPACT_BYTES_PER_S = 1e6  # about 1 % of the time of a process
_MIN_FREE_PAGES = 1 << 10  # of 4096 bytes, of a database in memory
_COMPACTION = (
    "SELECT name, CAST(value AS TEXT) FROM settings WHERE name IN ('compact', 'compacted_s')"
)
_TERM = "SELECT CAST(CAST(value AS TEXT) AS INTEGER) FROM settings WHERE name = 'term'"

Kept = TypeVar("Kept")


class Transactions:
    """The part of `Database` that writes; it has a table of settings."""

    kind: ClassVar[str]
    path: str
    _db: sqlite3.Connection
    _cleans = True
    _freed = False  # since the last look at free pages
    _logged = True  # whether the log may hold deleted bytes, such as after a crash
    _kept: dict[str, Any]
    _seen = -1  # what SQLite counts as changes of other connections

    def execute(self, sql: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Run one statement."""
        return self._db.execute(sql, values)

    # -- what is kept in memory ------------------------------------------------------------------

    def keep(self, name: str, read: Callable[[], Kept]) -> Kept:
        """Return what a function reads from the file, and keep it in memory.

        It is read again after `drop`, a transaction that failed, and a change by another process.
        """
        if not self._db.in_transaction:
            self._follow_others()
        if name not in self._kept:
            self._kept[name] = read()
        kept: Kept = self._kept[name]
        return kept

    def drop(self, name: str) -> None:
        """Read something again when it is needed; it has changed."""
        self._kept.pop(name, None)

    def _follow_others(self) -> None:
        if self.path == ":memory:":  # nobody else can change it
            return
        (others,) = self._db.execute("PRAGMA data_version").fetchone()
        if others != self._seen:
            self._forget_cached()
            self._seen = others

    def _forget_cached(self) -> None:
        """Drop all that is kept in memory of the content, which has changed."""
        self._kept = {}

    def _require_term(self, term: int | None) -> None:
        if term is not None and (newer := self._term()) > term:
            raise Fenced(
                f"{self.kind} {self.path} was opened by another process (term {newer} after "
                f"{term}); this one has written nothing and must stop"
            )

    def _term(self) -> int:
        return self.keep("term", lambda: (self._db.execute(_TERM).fetchone() or (0,))[0])

    # -- transactions ----------------------------------------------------------------------------

    @contextmanager
    def transaction(self, term: int | None = None) -> Iterator[None]:
        """Commit all changes inside a `with` block together, or roll all of them back."""
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
            raise
        if self._logged and self._cleans and self.path != ":memory:":
            self.checkpoint()

    def _write_changes(self) -> None:
        """Write what changed in memory only."""

    # -- deleted bytes --------------------------------------------------------------------------

    def note_deletion(self, *, compact: bool = False) -> None:
        """Remove the bytes that this transaction deletes from all files after its commit."""
        self._logged = self._freed = True
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
        if self.compact():
            with self.transaction():
                row = ("compacted_s", repr(now_s).encode())
                self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", row)
                self.drop("compaction")

    @property
    def _is_mostly_free(self) -> bool:
        free = self._read_pragma("freelist_count")
        if free < _MIN_FREE_PAGES:
            return False
        return 2 * free > self._read_pragma("page_count")

    def _read_pragma(self, name: str) -> int:
        return int(self._db.execute(f"PRAGMA {name}").fetchone()[0])

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
        """Empty the write-ahead log, so that deleted bytes are not in it."""
        with self._without_waiting():
            try:
                busy = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            except sqlite3.OperationalError:  # the disk is full
                busy = True
        self._logged = bool(busy)
        return not busy

    def compact(self) -> bool:
        """Remove all bytes of deleted rows from the file, and from its log as soon as possible."""
        with self._without_waiting():
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
        (before,) = self._db.execute("PRAGMA busy_timeout").fetchone()
        self._db.execute("PRAGMA busy_timeout = 0")
        try:
            yield
        finally:
            self._db.execute(f"PRAGMA busy_timeout = {before}")
