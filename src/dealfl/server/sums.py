"""Sums of statistics in pages: a change reads and writes the pages that it touches, not all cells.

A page holds neighbouring non-zeros of one array, at most 16,384 of them. Its key is the index of
the first, so that no key shows a cell that has become zero. The ledger has a sum for each worker,
one for the base of the job, and the total of all.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import msgspec
import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadBytes
from dealfl.exact import ArraySpec, Entries, Schema, Statistics
from dealfl.storage import Database

__all__ = ["BASE", "TOTAL", "Folded", "SumStore", "read_schema", "read_sum", "split_sums"]

BASE, TOTAL = "", "*"  # stand for no worker
_PAGE = 1 << 14  # entries
_NO_LIMIT = 1 << 62  # bytes that this program wrote itself
_TABLES = """
CREATE TABLE pages (owner TEXT NOT NULL, place INTEGER NOT NULL, first INTEGER NOT NULL,
  sha256 BLOB NOT NULL, content BLOB NOT NULL);
CREATE UNIQUE INDEX pages_in_order ON pages (owner, place, first);
ALTER TABLE sums RENAME TO whole_sums;
CREATE TABLE sums (worker TEXT PRIMARY KEY, fingerprint INTEGER NOT NULL, cells INTEGER NOT NULL)
  WITHOUT ROWID
"""
_PUT = "INSERT OR REPLACE INTO sums VALUES (?, ?, ?)"

Execute = Callable[..., sqlite3.Cursor]
Marks = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring pages: their keys, and the range of cells that they cover."""

    keys: Sequence[int]
    start: int
    stop: int


class _Arrays(Mapping[str, Entries]):
    """Arrays of statistics, each of which is computed when it is first read."""

    def __init__(self, schema: Schema, compute: Callable[[int, ArraySpec], Entries]) -> None:
        self._schema, self._compute = schema, compute
        self._known: dict[str, Entries] = {}

    def __getitem__(self, name: str) -> Entries:
        if name not in self._known:
            specs = enumerate(self._schema.arrays)
            place, spec = next(one for one in specs if one[1].name == name)
            self._known[name] = self._compute(place, spec)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return (spec.name for spec in self._schema.arrays)

    def __len__(self) -> int:
        return len(self._schema.arrays)


@dataclass(frozen=True, slots=True)
class Folded:
    """A worker's sum after an addition, not stored yet; statistics are read when used."""

    worker: str
    touched: Statistics  # at least the cells that changed
    whole: Statistics
    fingerprint: int  # before
    cells: int  # non-zeros
    parts: dict[int, list[tuple[_Run, Entries]]]  # by place of the array


class SumStore:
    """The sums in a ledger, and the fingerprint of each."""

    def __init__(self, ledger: Database) -> None:
        self._run, self._ledger = ledger.execute, ledger
        self._marks: dict[int, tuple[list[int], Marks]] = {}  # pages of the total, by array

    def read(self, worker: str, schema: Schema) -> Statistics:
        """Return a sum."""
        return read_sum(self._run, self._ledger.path, worker, schema)

    def fingerprints(self) -> dict[str, int]:
        """Return the fingerprint of each sum by worker."""
        return dict(self._run("SELECT worker, fingerprint FROM sums ORDER BY worker").fetchall())

    def fold(self, worker: str, delta: Statistics) -> Folded:
        """Add a delta to a worker's sum, without storing it; read what the delta touches."""
        query = "SELECT fingerprint, cells FROM sums WHERE worker = ?"
        fingerprint, cells = self._run(query, (worker,)).fetchone() or (0, 0)
        parts: dict[int, list[tuple[_Run, Entries]]] = {}
        for place, spec in enumerate(delta.schema.arrays):
            entries, parts[place] = delta[spec.name], []
            keys = self._keys(worker, place) if len(entries) else []
            for run in _find_runs(keys, spec.size, _touch(keys, entries)):
                before = _read_range(self._run, self._ledger.path, worker, place, spec, run)
                part = entries.between(run.start, run.stop)
                after = before + part if len(before) else part
                spec.require_fit(after.values)
                parts[place].append((run, after))
                cells += len(after) - len(before)
        schema = delta.schema

        def whole(place: int, spec: ArraySpec) -> Entries:
            if [run.stop - run.start for run, _ in parts[place]] == [spec.size]:
                return parts[place][0][1]
            every = _Run((), 0, spec.size)
            before = _read_range(self._run, self._ledger.path, worker, place, spec, every)
            return before + delta[spec.name]

        def touched(place: int, spec: ArraySpec) -> Entries:
            return Entries.chained([after for _, after in parts[place]], spec.wide)

        changed = Statistics(schema, _Arrays(schema, touched))
        everything = Statistics(schema, _Arrays(schema, whole))
        return Folded(worker, changed, everything, fingerprint, cells, parts)

    def put(self, folded: Folded, fingerprint: int) -> None:
        """Store a folded sum."""
        for place, spec in enumerate(folded.whole.schema.arrays):
            for run, entries in folded.parts[place]:
                self._write(folded.worker, place, spec, run, entries)
        self._run(_PUT, (folded.worker, fingerprint, folded.cells))

    def replace(self, worker: str, whole: Statistics, fingerprint: int) -> None:
        """Replace a sum; that of `BASE` belongs to no worker."""
        self._replace(worker, whole)
        self._run(_PUT, (worker, fingerprint, whole.count_nonzero()))

    def drop(self, worker: str) -> None:
        """Delete a sum."""
        self._run("DELETE FROM pages WHERE owner = ?", (worker,))
        self._run("DELETE FROM sums WHERE worker = ?", (worker,))

    # -- the total ------------------------------------------------------------------------------

    def mark(self, delta: Statistics) -> None:
        """Note that a delta was added to the total in memory."""
        for place, spec in enumerate(delta.schema.arrays):
            if place not in self._marks:
                keys = self._keys(TOTAL, place)
                self._marks[place] = keys, np.zeros(max(len(keys), 1), dtype=np.bool_)
            keys, marks = self._marks[place]
            marks |= _touch(keys, delta[spec.name])

    def reset_marks(self, changed: Sequence[ArraySpec] = ()) -> None:
        """Note that nothing in the total has changed except some arrays, the first of a schema."""
        keys = (self._keys(TOTAL, place) for place in range(len(changed)))
        self._marks = dict(enumerate((one, np.full(max(len(one), 1), True)) for one in keys))

    @property
    def is_mostly_marked(self) -> bool:
        """Whether most pages of the total have changed."""
        marks = [marks for _, marks in self._marks.values()]
        return 2 * sum(int(one.sum()) for one in marks) > sum(map(len, marks))

    def put_total(self, schema: Schema, read: Callable[[str, int, int], Entries]) -> None:
        """Store the pages of the total that changed; `read` returns a range of an array."""
        for place, (keys, marks) in self._marks.items():
            spec = schema.arrays[place]
            for run in _find_runs(keys, spec.size, marks):
                self._write(TOTAL, place, spec, run, read(spec.name, run.start, run.stop))
        self.reset_marks()

    def replace_total(self, whole: Statistics) -> None:
        """Replace the total."""
        self._replace(TOTAL, whole)
        self.reset_marks()

    # -- pages ----------------------------------------------------------------------------------

    def _keys(self, owner: str, place: int) -> list[int]:
        query = "SELECT first FROM pages WHERE owner = ? AND place = ? ORDER BY first"
        return [first for (first,) in self._run(query, (owner, place))]

    def _replace(self, owner: str, whole: Statistics) -> None:
        for place, spec in enumerate(whole.schema.arrays):
            run = _Run(self._keys(owner, place), 0, spec.size)
            self._write(owner, place, spec, run, whole[spec.name])

    def _write(self, owner: str, place: int, spec: ArraySpec, run: _Run, entries: Entries) -> None:
        """Replace neighbouring pages by as few as possible, of about the same size."""
        pages = dict(_split(spec, entries))
        query = "DELETE FROM pages WHERE owner = ? AND place = ? AND first = ?"
        for key in run.keys:
            if key not in pages:
                self._run(query, (owner, place, key))
        for key, content in pages.items():
            row = (owner, place, key, hashlib.sha256(content).digest(), content)
            self._run(  # an update overwrites bytes of the same length in place
                "INSERT INTO pages VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                "sha256 = excluded.sha256, content = excluded.content",
                row,
            )


def _touch(keys: Sequence[int], entries: Entries) -> Marks:
    """Return which pages cover some of the entries; without pages, one covers everything."""
    if len(keys) <= 1 or not len(entries):
        return np.full(max(len(keys), 1), len(entries) > 0)
    starts = np.searchsorted(entries.indices, [0, *keys[1:]])
    return np.diff(starts, append=len(entries)) > 0


def _find_runs(keys: list[int], size: int, marks: Marks) -> Iterator[_Run]:
    """Yield the neighbouring pages among those that are marked."""
    bounds = [0, *keys[1:], size]
    for marked, group in groupby(range(len(marks)), marks.__getitem__):
        if marked:
            pages = list(group)
            first, stop = pages[0], pages[-1] + 1
            yield _Run(keys[first:stop], bounds[first], bounds[stop])


def _split(spec: ArraySpec, entries: Entries) -> Iterator[tuple[int, bytes]]:
    """Yield the key and the content of each page."""
    count = -(-len(entries) // _PAGE)
    for number in range(count):
        part = slice(len(entries) * number // count, len(entries) * (number + 1) // count)
        indices = entries.indices[part]
        first = int(indices[0])
        own = ArraySpec("", int(indices[-1]) + 1 - first, spec.bits)
        page = Entries(indices - first, entries.values[part])
        yield first, Statistics(Schema("", {}, (own,)), {"": page}).to_bytes()


def _read_range(
    run: Execute, path: str, owner: str, place: int, spec: ArraySpec, cells: _Run
) -> Entries:
    rows = run(
        "SELECT first, content, sha256 FROM pages WHERE owner = ? AND place = ? "
        "AND first >= ? AND first < ? ORDER BY first",
        (owner, place, cells.start, cells.stop),
    )
    parts = []
    for first, content, sha256 in rows:
        _require_intact(path, owner, content, sha256)
        page = Statistics.from_bytes(content, _NO_LIMIT, trusted=True)[""]
        parts.append(Entries(page.indices + first, page.values))
    return Entries.chained(parts, spec.wide)


def _require_intact(path: str, owner: str, content: bytes, sha256: bytes) -> None:
    if hashlib.sha256(content).digest() != sha256:
        what = {TOTAL: "the total", BASE: "the base"}.get(owner, f"the sum of {owner}")
        raise BadBytes(f"ledger {path}: {what} is damaged; restore a backup")


def read_schema(header: bytes) -> Schema:
    """Return the schema of the sums in a ledger from its setting "schema"."""
    return msgspec.json.decode(header, type=Schema)


def read_sum(run: Execute, path: str, owner: str, schema: Schema) -> Statistics:
    """Return a sum from a ledger."""
    arrays = {
        spec.name: _read_range(run, path, owner, place, spec, _Run((), 0, spec.size))
        for place, spec in enumerate(schema.arrays)
    }
    return Statistics(schema, arrays)


def split_sums(ledger: Database) -> None:
    """Upgrade a ledger in which each sum, and the total, is a single row."""
    run, store = ledger.execute, SumStore(ledger)
    for statement in _TABLES.split(";"):
        run(statement)
    for worker, fingerprint in run("SELECT worker, fingerprint FROM whole_sums").fetchall():
        query = "SELECT statistics, sha256 FROM whole_sums WHERE worker = ?"
        content = run(query, (worker,)).fetchone()
        store.replace(worker, _read_whole(ledger.path, worker, *content), fingerprint)
    content = run("SELECT statistics, sha256 FROM total").fetchone()
    if content is not None:
        total = _read_whole(ledger.path, TOTAL, *content)
        store.replace_total(total)
        for row in (("schema", total.schema.canonical()), ("digest", total.digest().encode())):
            run("INSERT OR REPLACE INTO settings VALUES (?, ?)", row)
    run("DROP TABLE whole_sums")
    run("DROP TABLE total")


def _read_whole(path: str, owner: str, content: bytes, sha256: bytes) -> Statistics:
    _require_intact(path, owner, content, sha256)
    return Statistics.from_bytes(content, _NO_LIMIT, trusted=True)
