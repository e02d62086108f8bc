"""Files of older versions are brought up to date, with all that is in them; newer are refused."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dealfl.database import Database
from dealfl.errors import BadInput
from dealfl.server import Ledger
from dealfl.worker import Journal

WORKER = "'w', 1, 'mark', 3, 5, 7, 'honor', 0.5, 0, 4.0, 6.0, 0, 0.0, 1, 2.0, 1.0, 0.5, ''"


def older(path: Path, kind: type[Database], version: int, *rows: str) -> Path:
    with closing(sqlite3.connect(path)) as db:
        for script in kind.migrations[:version]:
            db.executescript(script)
        for row in rows:
            db.execute(row)
        db.execute(f"PRAGMA user_version = {version}")
        db.commit()
    return path


def test_a_ledger_of_version_1_keeps_everything(tmp_path: Path) -> None:
    path = older(
        tmp_path / "l.db", Ledger, 1,
        f"INSERT INTO workers VALUES ({WORKER})",
        "INSERT INTO rounds (number, opened_s, deadline_s) VALUES (4, 10.0, 70.0)",
        "INSERT INTO selections (round, worker, replied_s) VALUES (4, 'w', 12.0)",
        "INSERT INTO erasures (request, owners, asked_s) VALUES ('r', x'90', 1.0)",
        "INSERT INTO answers VALUES ('r', 'w', 2)",
    )  # fmt: skip
    ledger = Ledger(path)
    assert ledger.version == len(Ledger.migrations)
    assert ledger.workers()["w"].folded == 3
    assert ledger.selected(4) == {"w": 12.0}
    assert ledger.answers() == {"r": {"w": 2}}
    assert ledger.unsettled() == [], "an answer of then counts"
    ledger.close()
    again = Ledger(path)
    assert again.version == len(Ledger.migrations)
    again.close()


def test_a_journal_of_version_1_keeps_everything(tmp_path: Path) -> None:
    path = older(
        tmp_path / "j.db", Journal, 1,
        "INSERT INTO settings VALUES ('mark', 'old mark')",
        "INSERT INTO answers VALUES ('r', 2, 5.0)",
    )  # fmt: skip
    journal = Journal(path)
    assert journal.mark == "old mark"
    assert journal.due_answers(6.0, 10.0) == [("r", 2, 0)]
    journal.close()


@pytest.mark.parametrize("kind", [Ledger, Journal])
def test_every_version_leads_to_the_same_tables(tmp_path: Path, kind: type[Database]) -> None:
    def tables(path: Path) -> list[tuple[str, str]]:
        with closing(sqlite3.connect(path)) as db:
            names = [row[0] for row in db.execute("SELECT name FROM sqlite_master ORDER BY name")]
            return [
                (name, str(db.execute(f"PRAGMA table_info({name})").fetchall())) for name in names
            ]

    fresh = tmp_path / "fresh.db"
    kind(fresh).close()
    for version in range(1, len(kind.migrations)):
        path = older(tmp_path / f"{version}.db", kind, version)
        kind(path).close()
        assert tables(path) == tables(fresh)


@pytest.mark.parametrize("kind", [Ledger, Journal])
def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path, kind: type[Database]) -> None:
    path = older(tmp_path / "new.db", kind, 1)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(BadInput, match=rf"{kind.what} .* version 99; .* up to .*newer"):
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
    assert not ledger.read("SELECT 1 FROM sqlite_master WHERE name = 'extra'"), "all or nothing"
    ledger.close()


def test_a_backup_is_a_sound_copy_of_the_moment(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    with journal.transaction():
        journal.set_setting("colour", "green")
    journal.backup(tmp_path / "copy.db")
    with journal.transaction():
        journal.set_setting("colour", "red")
    copy = Journal(tmp_path / "copy.db")
    assert copy.setting("colour", "") == "green"
    with pytest.raises(BadInput, match="exists already"):
        journal.backup(tmp_path / "copy.db")
    with pytest.raises(BadInput, match="can not be written"):
        journal.backup(tmp_path / "nowhere" / "copy.db")
    assert sorted(file.name for file in tmp_path.glob("*.part")) == []


def test_content_in_memory_can_be_taken_out_and_put_back() -> None:
    journal = Journal()
    with journal.transaction():
        journal.set_setting("colour", "green")
    content = journal.content()
    other = Journal()
    other.replace_content(content)
    assert other.setting("colour", "") == "green"
    assert other.mark == journal.mark
    with pytest.raises(ValueError, match="can not be used"):
        other.replace_content(b"nonsense" * 1000)
