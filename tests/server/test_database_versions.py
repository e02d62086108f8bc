"""Files of other versions are refused; copies are sound; deleted rows leave no bytes."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dealfl.errors import BadInput
from dealfl.server import Ledger
from dealfl.storage import Database
from dealfl.worker import Journal


@pytest.mark.parametrize("kind", [Ledger, Journal])
def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path, kind: type[Database]) -> None:
    path = tmp_path / "new.db"
    kind(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(BadInput, match=rf"{kind.kind} .* version 99; .* up to .*upgrade"):
        kind(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (99,)


def test_a_file_whose_tables_cannot_be_created_stays_empty(tmp_path: Path) -> None:
    class Broken(Ledger):
        tables = f"{Ledger.tables}; SELECT nonsense FROM nowhere"

    path = tmp_path / "l.db"
    with pytest.raises(ValueError, match="nowhere"):
        Broken(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT * FROM sqlite_master").fetchall() == [], "all or nothing"
    Ledger(path).close()


def test_a_backup_is_a_sound_copy_of_the_moment(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    with journal.transaction():
        journal.state.refused = "green"
    Journal.back_up(tmp_path / "j.db", tmp_path / "copy.db")
    with journal.transaction():
        journal.state.refused = "red"
    copy = Journal(tmp_path / "copy.db")
    assert copy.state.refused == "green"
    with pytest.raises(BadInput, match="exists; choose"):
        Journal.back_up(tmp_path / "j.db", tmp_path / "copy.db")
    with pytest.raises(BadInput, match="cannot be written"):
        Journal.back_up(tmp_path / "j.db", tmp_path / "nowhere" / "copy.db")
    assert sorted(file.name for file in tmp_path.glob("*.part")) == []


@pytest.mark.parametrize("secret", ["secret " * 4000, "secret"], ids=["pages", "a part of one"])
def test_content_in_memory_has_no_bytes_of_deleted_rows(secret: str) -> None:
    journal = Journal()
    for text in (secret, "grey"):
        with journal.transaction():
            journal.state.refused = text
    assert secret[-100:].encode() not in journal.content()


def test_content_in_memory_can_be_taken_out_and_put_back() -> None:
    journal = Journal()
    with journal.transaction():
        journal.state.refused = "green"
    content = journal.content()
    other = Journal()
    other.replace_content(content)
    assert other.state.refused == "green"
    assert other.id == journal.id
    with pytest.raises(ValueError, match="cannot be used"):
        other.replace_content(b"nonsense" * 1000)
