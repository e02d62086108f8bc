"""Damage in the file of a ledger is noticed and named, with the remedy; nothing else is raised."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dealfl.errors import BadBytes, DealError
from dealfl.runs import RunFolder, list_erasures, read_status
from dealfl.server import Ledger, LedgerReader, WorkerRow
from tests.federation.parts import announce, examples, joined, pagerank, server, update

PAGE = 4096


def write_ledger(folder: Path) -> None:
    """Write a ledger with everything in it."""
    with closing(Ledger(folder / "ledger.db")) as ledger:
        one = server(ledger, publish_every_s=0.0)
        names = [f"w{number:02}" for number in range(20)]
        one.handle([announce(name, 0) for name in names], 0.0)
        one.handle([update(1, 5, name=name, round=1) for name in names[:12]], 1.0)
        one.erase("r", [b"o" * 32], 2.0)
        one.handle([update(2, 3, name=name) for name in names[:5]], 3.0)


def zero_page(content: bytearray, draw: random.Random) -> None:
    start = draw.randrange(len(content) // PAGE) * PAGE
    content[start : start + PAGE] = bytes(PAGE)


def flip_bits(content: bytearray, draw: random.Random) -> None:
    for _ in range(draw.choice((1, 3, 40))):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)


def overwrite(content: bytearray, draw: random.Random) -> None:
    start, count = draw.randrange(len(content)), draw.choice((1, 8, 100))
    content[start : start + count] = draw.randbytes(count)


def truncate(content: bytearray, draw: random.Random) -> None:
    del content[draw.randrange(len(content)) :]


DAMAGES: list[Callable[[bytearray, random.Random], None]] = [
    zero_page, flip_bits, overwrite, truncate,
]  # fmt: skip


def use(folder: Path) -> None:
    """Start a server on a ledger, let it work, and read its status."""
    with closing(Ledger(folder / "ledger.db")) as ledger:
        one = server(ledger)
        one.handle([announce("w01"), announce("new", 0), update(2, 1, name="w01")], 500.0)
        one.handle([], 1000.0)
    read_status(RunFolder(folder))
    list_erasures(RunFolder(folder))


def read(folder: Path) -> dict[str, object]:
    """Return all that a ledger contains, as others read it."""
    with LedgerReader.open(folder / "ledger.db") as reader:
        total = reader.total()
        contents: dict[str, object] = {
            "digest": None if total is None else total.digest(),
            "workers": [figures.row for figures in reader.workers()],
            "figures": [reader.closed_rounds(), reader.workers(), reader.versions()],
            "erasures": [(erasure.name, erasure.owners) for erasure in reader.erasures()],
        }
    with closing(Ledger(folder / "ledger.db")) as ledger, ledger.naming_damage():
        sums = {name: ledger.find_sum(name) for name in ledger.sums.fingerprints()}
        digests = sorted(found.digest() for found in sums.values() if found is not None)
    return contents | {"sums": digests}


@dataclass(frozen=True)
class Damaged:
    """What came of a damage: how it is refused, or which contents differ from the original."""

    told: str
    differ: frozenset[str] = frozenset()


def damage(start: Path, folder: Path, seed: int) -> Damaged:
    """Damage a copy of a ledger, read it, and let a server use it."""
    draw = random.Random(seed)
    content = bytearray((start / "ledger.db").read_bytes())
    DAMAGES[seed % len(DAMAGES)](content, draw)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "ledger.db").write_bytes(content)
    original = read(start)
    try:
        found = read(folder)
        use(folder)
    except DealError as error:
        return Damaged(str(error))
    return Damaged("", frozenset(name for name in found if found[name] != original[name]))


def check_damages(start: Path, folder: Path, seeds: range) -> None:
    """Check that damage is named with its remedy, and that what is accepted changes only figures.

    Sums, workers and erasures have hashes. Figures of rounds and versions have none: damage in them
    is noticed only if it is not plausible.
    """
    results = {seed: damage(start, folder, seed) for seed in seeds}
    for seed, result in results.items():
        named = "ledger.db" in result.told and ("restore a" in result.told or "upgr" in result.told)
        assert named or not result.told, (seed, result)
        assert result.differ <= {"figures"}, (seed, result)
    refused = sum(bool(result.told) for result in results.values())
    assert refused > len(seeds) // 3, "hardly any damage was noticed"
    silent = [seed for seed, result in results.items() if result.differ]
    assert len(silent) <= len(seeds) // 50, silent


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ledger")
    write_ledger(folder)
    return folder


def test_a_whole_ledger_is_used(start: Path, tmp_path: Path) -> None:
    shutil.copytree(start, tmp_path / "copy")
    use(tmp_path / "copy")


def test_a_damaged_ledger_is_refused_with_the_remedy_or_has_the_same_model(
    start: Path, tmp_path: Path
) -> None:
    check_damages(start, tmp_path / "copy", range(100))


def test_a_ledger_with_arrays_of_another_name_is_named(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    one = joined("w01", ledger=ledger)
    one.handle([update(1, 2, name="w01", round=1)], 1.0)
    one.handle([], 100.0)
    with closing(ledger), pytest.raises(DealError, match=r"ledger\.db: .*; use .*restore a backup"):
        server(ledger, make=pagerank)


@pytest.mark.parametrize("value", ["'text'", "7", "1.5"])
def test_a_page_of_another_type_is_named(tmp_path: Path, value: str) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    one = joined("w01", ledger=ledger)
    one.handle([update(1, 2, name="w01", round=1)], 1.0)
    one.handle([], 100.0)
    ledger.execute(f"UPDATE pages SET content = {value}")
    with closing(ledger), pytest.raises(DealError, match=r"ledger\.db: .* is damaged; restore a"):
        ledger.find_sum("w01")


@pytest.mark.soak
def test_thousands_of_damaged_ledgers_are_refused_with_the_remedy(
    start: Path, tmp_path: Path
) -> None:
    check_damages(start, tmp_path / "copy", range(1_000, 4_000))


def test_a_truncated_file_is_noticed(start: Path, tmp_path: Path) -> None:
    content = (start / "ledger.db").read_bytes()
    (tmp_path / "ledger.db").write_bytes(content[: len(content) // 2])
    with pytest.raises(BadBytes, match="restore a backup"):
        Ledger(tmp_path / "ledger.db")


@pytest.mark.parametrize("change", ["content = :body", "first = first + 1"])
def test_a_sum_with_another_value_or_place_is_noticed(
    change: str, start: Path, tmp_path: Path
) -> None:
    shutil.copytree(start, tmp_path / "copy")
    with closing(Ledger(tmp_path / "copy" / "ledger.db")) as ledger, ledger.transaction():
        body = {"body": examples(7).to_bytes()}
        ledger._db.execute(f"UPDATE pages SET {change} WHERE owner = 'w01' AND array = 0", body)
    with (
        closing(Ledger(tmp_path / "copy" / "ledger.db")) as ledger,
        pytest.raises(BadBytes, match="sum of w01 is damaged; restore a backup"),
    ):
        server(ledger).handle([update(3, 1, name="w01")], 500.0)


def test_another_key_in_an_index_is_noticed_when_the_file_is_opened(
    start: Path, tmp_path: Path
) -> None:
    """What a look-up does not find would count as nothing."""
    path = Path(shutil.copy(start / "ledger.db", tmp_path))
    change_index(path, "pages_in_order", b"w05", b"w55")
    with pytest.raises(BadBytes, match=r"missing from index pages_in_order.*restore a backup"):
        Ledger(path)


def change_index(path: Path, index: str, key: bytes, other: bytes) -> None:
    """Replace a key in the first page of an index, but not in its table."""
    with closing(sqlite3.connect(path)) as db:
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (number,) = db.execute(query, (index,)).fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    content = bytearray(path.read_bytes())
    place = content.index(key, size * (number - 1), size * number)
    content[place : place + len(key)] = other
    path.write_bytes(content)


CHANGED = "CASE typeof({0}) WHEN 'text' THEN {0} || 'x' WHEN 'blob' THEN X'90' ELSE {0} + 1 END"


@pytest.mark.parametrize(
    ("table", "column"),
    [("workers", name) for name in (*WorkerRow.__struct_fields__, "crc")]
    + [("erasures", name) for name in ("number", "request", "owners", "hash", "chain")],
)
def test_another_value_in_a_row_is_noticed_when_the_file_is_opened(
    table: str, column: str, start: Path, tmp_path: Path
) -> None:
    path = shutil.copy(start / "ledger.db", tmp_path)
    with closing(sqlite3.connect(path)) as db, db:
        value = CHANGED.format(column)
        changed = db.execute(
            f"UPDATE {table} SET {column} = coalesce({value}, 1) WHERE rowid = 1"
            if table == "erasures"
            else f"UPDATE {table} SET {column} = coalesce({value}, 1) WHERE name = 'w01'"
        )
        assert changed.rowcount == 1
    what = "the row of w01x? is" if table == "workers" else "erasure 1 is"
    with pytest.raises(BadBytes, match=f"ledger.db: {what} damaged; restore a backup"):
        Ledger(path)


def test_other_definitions_of_tables_are_noticed(start: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(start / "ledger.db", tmp_path))
    path.write_bytes(
        path.read_bytes().replace(
            b"number INTEGER PRIMARY KEY, request", b"number INTEGER PRIMARY_KEY, request"
        )
    )
    told = r"without CREATE TABLE erasures\); .*restore a backup"
    with pytest.raises(BadBytes, match=told):
        Ledger(path)
    with pytest.raises(BadBytes, match=told), LedgerReader.open(path) as reader:
        reader.erasures()


def test_a_page_that_was_lost_is_noticed_when_the_file_is_opened(
    start: Path, tmp_path: Path
) -> None:
    content = (start / "ledger.db").read_bytes()
    pages = range(PAGE, len(content), PAGE)
    noticed = 0
    for first in pages:
        (tmp_path / "ledger.db").write_bytes(
            content[:first] + bytes(PAGE) + content[first + PAGE :]
        )
        try:
            Ledger(tmp_path / "ledger.db").close()
        except BadBytes:
            noticed += 1
    assert noticed == len(pages), "no page is free"


class Failing(sqlite3.Connection):
    """A connection to a file whose disk fails while one statement runs."""

    statement = ""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if self.statement and sql.startswith(self.statement):
            error = sqlite3.DatabaseError("database disk image is malformed")
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error
        return super().execute(sql, *values)


def test_a_disk_that_fails_after_a_commit_does_not_keep_its_answers_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = partial(sqlite3.connect, factory=Failing)
    with closing(Ledger(tmp_path / "ledger.db", connect=connect)) as ledger:
        one = server(ledger)
        one.handle([announce("w", 0), update(1, name="w")], 1.0)
        monkeypatch.setattr(Failing, "statement", "PRAGMA wal_checkpoint")
        one.remove("w", 2.0)
        monkeypatch.setattr(Failing, "statement", "VACUUM")
        with pytest.raises(BadBytes, match=r"ledger.db cannot be used .* restore a backup"):
            ledger.compact()
        monkeypatch.setattr(Failing, "statement", "")
        one.handle([announce("w", 0)], 3.0)
        assert ledger.checkpoint(), "it is tried again"
