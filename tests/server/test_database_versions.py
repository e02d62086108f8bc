"""Files of older versions are brought up to date, with all that is in them; newer are refused."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dealfl.errors import BadInput
from dealfl.server import Ledger, OpenRound
from dealfl.storage import Database
from dealfl.worker import Journal


class Later(Ledger):
    """A ledger of a version that is yet to come."""

    migrations = (
        *Ledger.migrations,
        "ALTER TABLE rounds ADD COLUMN weather TEXT NOT NULL DEFAULT 'dry'; CREATE TABLE extra (x)",
    )


def tables(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as db:
        names = [row[0] for row in db.execute("SELECT name FROM sqlite_master ORDER BY name")]
        return [(name, str(db.execute(f"PRAGMA table_info({name})").fetchall())) for name in names]


def test_an_older_file_is_brought_up_to_date_with_all_that_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    ledger = Ledger(path)
    ledger.rounds.open(4, 10.0, 70.0, {"w": 3}, eligible=2)
    ledger.close()
    for _ in range(2):  # the second time there is nothing to do
        later = Later(path)
        assert later.version == len(Later.migrations)
        assert later.rounds.find_open() == OpenRound(4, 10.0, 70.0, 1, 0)
        later.close()
    Later(tmp_path / "fresh.db").close()
    assert tables(path) == tables(tmp_path / "fresh.db")


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


def test_a_migration_that_fails_leaves_the_old_version(tmp_path: Path) -> None:
    class Broken(Ledger):
        migrations = (
            *Ledger.migrations,
            "CREATE TABLE extra (x); SELECT nonsense FROM nowhere",
        )

    path = tmp_path / "l.db"
    Ledger(path).close()
    with pytest.raises(ValueError, match="nowhere"):
        Broken(path)
    ledger = Ledger(path)
    assert ledger.version == len(Ledger.migrations)
    ledger.close()
    assert "extra" not in dict(tables(path)), "all or nothing"


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
