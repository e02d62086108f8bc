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

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadBytes
from dealfl.exact import ArraySpec, Entries, Schema, Statistics
from dealfl.storage import Database

BASE, TOTAL, POSTED = "", "*", "^"  # stand for no worker
_PAGE = 1 << 14  # entries
_NO_LIMIT = 1 << 62  # bytes that this program wrote itself
_PUT = "INSERT OR REPLACE INTO sums VALUES (?, ?, ?)"

Execute = Callable[..., sqlite3.Cursor]
Marks = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _PageRange:
    """Neighbouring pages: their keys, and the range of cells that they cover."""

    keys: Sequence[int]
    start: int
    stop: int


class _Arrays(Mapping[str, Entries]):
    """Arrays of statistics, each of which is computed when it is first read."""

    def __init__(self, schema: Schema, compute: Callable[[int, ArraySpec], Entries]) -> None:
        self._schema = schema
        self._compute = compute
        self._computed: dict[str, Entries] = {}

    def __getitem__(self, name: str) -> Entries:
        if name not in self._computed:
            specs = self._schema.arrays
            array = next(index for index, spec in enumerate(specs) if spec.name == name)
            self._computed[name] = self._compute(array, specs[array])
        return self._computed[name]

    def __iter__(self) -> Iterator[str]:
        return (spec.name for spec in self._schema.arrays)

    def __len__(self) -> int:
        return len(self._schema.arrays)


@dataclass(frozen=True, slots=True)
class ChangedSum:
    """A worker's sum after an addition, not stored yet; statistics are read when used."""

    worker: str
    touched: Statistics  # at least the cells that changed
    whole: Statistics
    fingerprint: int  # before
    cells: int  # non-zeros
    parts: dict[int, list[tuple[_PageRange, Entries]]]  # by number of the array


class SumStore:
    """The sums in a ledger, and the fingerprint of each."""

    def __init__(self, ledger: Database) -> None:
        self._ledger = ledger
        self._execute = ledger.execute
        self._marks: dict[int, tuple[list[int], Marks]] = {}  # pages of the total, by array

    def read(self, worker: str, schema: Schema) -> Statistics:
        """Return a sum."""
        return read_sum(self._execute, self._ledger.path, worker, schema)

    def fingerprints(self) -> dict[str, int]:
        """Return the fingerprint of each sum by worker."""
        return dict(
            self._execute("SELECT worker, fingerprint FROM sums ORDER BY worker").fetchall()
        )

    def add(self, worker: str, delta: Statistics) -> ChangedSum:
        """Add a delta to a worker's sum, without storing it; read what the delta touches."""
        query = "SELECT fingerprint, cells FROM sums WHERE worker = ?"
        fingerprint, cells = self._execute(query, (worker,)).fetchone() or (0, 0)
        parts: dict[int, list[tuple[_PageRange, Entries]]] = {}
        for array, spec in enumerate(delta.schema.arrays):
            entries = delta[spec.name]
            parts[array] = []
            keys = self._keys(worker, array) if len(entries) else []
            for pages in _find_ranges(keys, spec.size, _touch(keys, entries)):
                before = self._read(worker, array, spec, pages)
                part = entries.between(pages.start, pages.stop)
                after = before + part if len(before) else part
                spec.require_fit(after.values)
                parts[array].append((pages, after))
                cells += len(after) - len(before)

        def whole(array: int, spec: ArraySpec) -> Entries:
            if [pages.stop - pages.start for pages, _ in parts[array]] == [spec.size]:
                return parts[array][0][1]
            before = self._read(worker, array, spec, _PageRange((), 0, spec.size))
            return before + delta[spec.name]

        def touched(array: int, spec: ArraySpec) -> Entries:
            return Entries.chained([after for _, after in parts[array]], spec.wide)

        return ChangedSum(
            worker,
            touched=Statistics(delta.schema, _Arrays(delta.schema, touched)),
            whole=Statistics(delta.schema, _Arrays(delta.schema, whole)),
            fingerprint=fingerprint,
            cells=cells,
            parts=parts,
        )

    def _read(self, owner: str, array: int, spec: ArraySpec, pages: _PageRange) -> Entries:
        return _read_pages(self._execute, self._ledger.path, owner, array, spec, pages)

    def put(self, changed: ChangedSum, fingerprint: int) -> None:
        """Store a changed sum."""
        for array, spec in enumerate(changed.whole.schema.arrays):
            for pages, entries in changed.parts[array]:
                self._write(changed.worker, array, spec, pages, entries)
        self._execute(_PUT, (changed.worker, fingerprint, changed.cells))

    def replace(self, worker: str, whole: Statistics, fingerprint: int) -> None:
        """Replace a sum; that of `BASE` belongs to no worker."""
        self._replace(worker, whole)
        self._execute(_PUT, (worker, fingerprint, whole.count_nonzero()))

    def drop(self, worker: str) -> None:
        """Delete a sum."""
        self._execute("DELETE FROM pages WHERE owner = ?", (worker,))
        self._execute("DELETE FROM sums WHERE worker = ?", (worker,))

    # -- the total ------------------------------------------------------------------------------

    def mark(self, delta: Statistics) -> None:
        """Note that a delta was added to the total in memory."""
        for array, spec in enumerate(delta.schema.arrays):
            if array not in self._marks:
                keys = self._keys(TOTAL, array)
                self._marks[array] = keys, np.zeros(max(len(keys), 1), dtype=np.bool_)
            keys, marks = self._marks[array]
            marks |= _touch(keys, delta[spec.name])

    def reset_marks(self, changed: Sequence[ArraySpec] = ()) -> None:
        """Note that nothing in the total has changed except some arrays, the first of a schema."""
        self._marks = {}
        for array in range(len(changed)):
            keys = self._keys(TOTAL, array)
            self._marks[array] = keys, np.full(max(len(keys), 1), True)

    @property
    def is_mostly_marked(self) -> bool:
        """Whether most pages of the total have changed."""
        marks = [marks for _, marks in self._marks.values()]
        return 2 * sum(int(changed.sum()) for changed in marks) > sum(map(len, marks))

    def put_total(self, schema: Schema, read: Callable[[str, int, int], Entries]) -> None:
        """Store the pages of the total that changed; `read` returns a range of an array."""
        for array, (keys, marks) in self._marks.items():
            spec = schema.arrays[array]
            for pages in _find_ranges(keys, spec.size, marks):
                self._write(TOTAL, array, spec, pages, read(spec.name, pages.start, pages.stop))
        self.reset_marks()

    def replace_total(self, whole: Statistics) -> None:
        """Replace the total."""
        self._replace(TOTAL, whole)
        self.reset_marks()

    # -- what a region has posted -----------------------------------------------------------------

    def add_posted(self, delta: Statistics) -> None:
        """Add a delta to the sum of what was posted to the parent."""
        changed = self.add(POSTED, delta)
        for array, spec in enumerate(delta.schema.arrays):
            for pages, entries in changed.parts[array]:
                self._write(POSTED, array, spec, pages, entries)

    # -- pages ----------------------------------------------------------------------------------

    def _keys(self, owner: str, array: int) -> list[int]:
        query = "SELECT first FROM pages WHERE owner = ? AND array = ? ORDER BY first"
        return [first for (first,) in self._execute(query, (owner, array))]

    def _replace(self, owner: str, whole: Statistics) -> None:
        for array, spec in enumerate(whole.schema.arrays):
            pages = _PageRange(self._keys(owner, array), 0, spec.size)
            self._write(owner, array, spec, pages, whole[spec.name])

    def _write(
        self, owner: str, array: int, spec: ArraySpec, pages: _PageRange, entries: Entries
    ) -> None:
        """Replace neighbouring pages by as few as possible, of about the same size."""
        contents = dict(_split(spec, entries))
        query = "DELETE FROM pages WHERE owner = ? AND array = ? AND first = ?"
        for key in pages.keys:
            if key not in contents:
                self._execute(query, (owner, array, key))
        for key, content in contents.items():
            row = (owner, array, key, _hash_page(owner, array, key, content), content)
            self._execute(  # an update overwrites bytes of the same length in place
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


def _find_ranges(keys: list[int], size: int, marks: Marks) -> Iterator[_PageRange]:
    """Yield the neighbouring pages among those that are marked."""
    bounds = [0, *keys[1:], size]
    for marked, group in groupby(range(len(marks)), marks.__getitem__):
        if marked:
            indices = list(group)
            first = indices[0]
            stop = indices[-1] + 1
            yield _PageRange(keys[first:stop], bounds[first], bounds[stop])


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


def _hash_page(owner: str, array: int, first: int, content: bytes) -> bytes:
    """Return a hash of a page and of its place: damage can move it."""
    page = hashlib.sha256(f"{owner} {array} {first} ".encode())
    page.update(content)
    return page.digest()


def _read_pages(
    execute: Execute, path: str, owner: str, array: int, spec: ArraySpec, pages: _PageRange
) -> Entries:
    rows = execute(
        "SELECT first, content, sha256 FROM pages WHERE owner = ? AND array = ? "
        "AND first >= ? AND first < ? ORDER BY first",
        (owner, array, pages.start, pages.stop),
    )
    parts = []
    for first, content, sha256 in rows:
        is_blob = isinstance(content, bytes)  # damage can also change its type
        if not is_blob or _hash_page(owner, array, first, content) != sha256:
            others = {TOTAL: "the total", BASE: "the base", POSTED: "what was posted"}
            what = others.get(owner, f"the sum of {owner}")
            raise BadBytes(f"ledger {path}: {what} is damaged; restore a backup")
        page = Statistics.from_bytes(content, _NO_LIMIT, trusted=True)[""]
        parts.append(Entries(page.indices + first, page.values))
    return Entries.chained(parts, spec.wide)


def read_sum(execute: Execute, path: str, owner: str, schema: Schema) -> Statistics:
    """Return a sum from a ledger."""
    arrays = {
        spec.name: _read_pages(execute, path, owner, array, spec, _PageRange((), 0, spec.size))
        for array, spec in enumerate(schema.arrays)
    }
    return Statistics(schema, arrays)
