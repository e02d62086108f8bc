"""Backups that come back whole, and incarnations that begin after one."""

import json
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.errors import BadBytes, BadInput
from dealfl.exact import Statistics
from dealfl.protocol.messages import Message
from dealfl.runs import MANIFEST, RunFolder, back_up, open_model, remove_worker, restore
from dealfl.server import Ledger, Rules, Server
from dealfl.server.selection import Everyone
from dealfl.worker import Journal, State, Worker
from tests.federation.parts import KEY, FixedMeter, bayes, examples, row

Captured = pytest.CaptureFixture[str]


# -- copies -------------------------------------------------------------------------------------


def test_a_backup_comes_back_as_it_was(run: Path, tmp_path: Path, capsys: Captured) -> None:
    journal = Journal(run / "w01.db", journal_id="mark")
    with journal.transaction():
        journal.add([(b"owner", b"body")], State.WAITING)
    before = open_model(run).info()["digest"]
    copy = tmp_path / "copies" / "monday"
    assert main(["backup", str(run), "--to", str(copy), "--json"]) == 0
    kinds = {one["file"]: one["kind"] for one in json.loads(capsys.readouterr().out)["files"]}
    assert kinds == {"ledger.db": "ledger", "w01.db": "journal"}
    journal.close()
    shutil.rmtree(run)
    assert main(["restore", str(copy), "--to", str(run)]) == 0
    assert "restored: ledger ledger.db" in capsys.readouterr().out
    assert sorted(path.name for path in run.iterdir()) == ["job.toml", "ledger.db", "w01.db"]
    assert open_model(run).info()["digest"] == before
    again = Journal(run / "w01.db")
    assert (again.id, again.count(State.WAITING)) == ("mark", 1)
    again.close()


def test_one_file_is_copied_and_restored_by_name(run: Path, tmp_path: Path) -> None:
    back_up(run / "ledger.db", tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "other.db")
    restore(tmp_path / "copy" / "ledger.db", tmp_path / "third.db")
    for name in ("other.db", "third.db"):
        assert open_model(tmp_path / name).info()["digest"] == open_model(run).info()["digest"]


def test_a_backup_of_a_backup_leaves_the_first_one_as_it_was(run: Path, tmp_path: Path) -> None:
    back_up(run, tmp_path / "first")
    before = {path.name: path.read_bytes() for path in (tmp_path / "first").iterdir()}
    back_up(tmp_path / "first" / "ledger.db", tmp_path / "second")
    assert {path.name: path.read_bytes() for path in (tmp_path / "first").iterdir()} == before
    for name in ("first", "second"):
        restore(tmp_path / name, tmp_path / f"{name}.db")


def test_a_newer_ledger_is_refused_by_its_name(run: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(run / "ledger.db")) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(BadInput, match=f"{run}/ledger.db has schema version 99"):
        back_up(run, tmp_path / "copy")
    assert not list(tmp_path.glob("*copy*"))


def test_nothing_is_replaced_without_force(run: Path, tmp_path: Path) -> None:
    back_up(run, tmp_path / "copy")
    remove_worker(RunFolder.at(run), "w01")
    after = open_model(run).info()["digest"]
    with pytest.raises(BadInput, match=r"ledger\.db already exists; use --force"):
        restore(tmp_path / "copy", run)
    assert open_model(run).info()["digest"] == after
    restore(tmp_path / "copy", run, force=True)
    assert open_model(run).info()["digest"] != after
    with pytest.raises(BadInput, match="give the name of a new folder"):
        back_up(run, tmp_path / "copy")


def test_the_log_of_the_old_file_is_not_read_into_the_new_one(run: Path, tmp_path: Path) -> None:
    back_up(run, tmp_path / "copy")
    before = open_model(run).info()["digest"]
    # a process was killed: what it wrote last is in the log only
    killed = Ledger(run / "ledger.db")
    with killed.transaction():
        killed.sums.replace_total(Statistics.zero(open_model(run).learner.schema))
    for suffix in ("", "-wal", "-shm"):
        shutil.copy(f"{run / 'ledger.db'}{suffix}", tmp_path / f"dead.db{suffix}")
    killed.close()
    (tmp_path / "dead.db").write_bytes(b"damaged" * 1000)
    restore(tmp_path / "copy" / "ledger.db", tmp_path / "dead.db", force=True)
    assert open_model(tmp_path / "dead.db").info()["digest"] == before


@pytest.mark.parametrize("damage", ["cut", "flip", "newer", "manifest", "no manifest"])
def test_a_backup_that_is_not_sound_is_refused(damage: str, run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    back_up(run, copy)
    file = copy / "ledger.db"
    data = bytearray(file.read_bytes())
    if damage == "cut":
        file.write_bytes(data[: len(data) // 2])
    elif damage == "flip":
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    elif damage == "newer":
        db = sqlite3.connect(file)
        db.execute("PRAGMA user_version = 99")
        db.close()
    elif damage == "manifest":
        (copy / MANIFEST).write_text("nonsense")
    else:
        (copy / MANIFEST).unlink()
    with pytest.raises(BadInput, match=r"another backup|written by dealfl backup"):
        restore(copy, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("damage", ["cut", "newer"])
def test_a_single_file_is_checked_before_it_replaces(
    damage: str, run: Path, tmp_path: Path
) -> None:
    file = tmp_path / "copy.db"
    shutil.copy(run / "ledger.db", file)
    if damage == "cut":
        file.write_bytes(file.read_bytes()[: 5 * 4096])
    else:
        db = sqlite3.connect(file)
        db.execute("PRAGMA user_version = 99")
        db.close()
    before = open_model(run).info()["digest"]
    with pytest.raises(BadInput):
        restore(file, run / "ledger.db", force=True)
    assert open_model(run).info()["digest"] == before
    assert not [path for path in run.iterdir() if path.name.startswith(".")]


def test_a_failure_half_way_leaves_the_old_file(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up(run, tmp_path / "copy")
    remove_worker(RunFolder.at(run), "w01")
    before = open_model(run).info()["digest"]

    def fails(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fails)
        with pytest.raises(OSError, match="no space left"):
            restore(tmp_path / "copy", run, force=True)
    assert open_model(run).info()["digest"] == before
    assert not [path for path in run.iterdir() if path.name.endswith(".part")]
    monkeypatch.setattr("dealfl.storage.Database.back_up", fails)
    with pytest.raises(OSError, match="no space left"):
        back_up(run, tmp_path / "second")
    assert not list(tmp_path.glob("*second*"))


def test_what_is_no_database_is_reported(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "note.txt").write_text("a note")
    words = ["--to", str(tmp_path / "copy")]
    assert main(["backup", str(tmp_path / "note.txt"), *words]) == 2
    assert "is neither a ledger nor a journal" in capsys.readouterr().err
    assert main(["backup", str(tmp_path), *words]) == 2
    assert "has no ledger and no journal" in capsys.readouterr().err
    assert main(["restore", str(tmp_path / "nothing"), *words]) == 2
    assert "does not exist; give a folder written by dealfl backup" in capsys.readouterr().err
    with pytest.raises(BadBytes, match="damaged, or not a ledger or a journal"):
        restore(tmp_path / "note.txt", tmp_path / "x.db")


# -- after an old ledger came back --------------------------------------------------------------


def exchange(server: Server, workers: dict[str, Worker], now_s: float) -> None:
    """Carry messages until nobody has anything to say."""
    to_server: list[Message] = []
    for worker in workers.values():
        to_server += worker.handle([], now_s).messages
    for _ in range(50):
        replies: Iterable[Message] = server.handle(to_server, now_s).messages
        to_server = []
        for message in replies:
            for name in [message.worker] if message.worker else list(workers):
                to_server += workers[name].handle([message], now_s).messages
        if not to_server:
            return
    raise AssertionError("they never stop talking")


def test_workers_ahead_of_a_restored_ledger_begin_again_and_nothing_counts_twice(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ledger.db"

    def serving() -> tuple[Server, Ledger]:
        ledger = Ledger(path)
        return Server("job", bayes, ledger, Rules(rounds=1000), Everyone()), ledger

    journals = {name: Journal(journal_id=name) for name in ("anna", "bob")}
    workers = {
        name: Worker("job", name, bayes, journals[name], FixedMeter(), key=KEY) for name in journals
    }

    def learn(server: Server, now_s: float) -> None:
        for name, worker in workers.items():
            worker.ingest([(f"{name} {now_s}", row(0.0, 0.5, 1.0))])
        for step in range(3):
            exchange(server, workers, now_s + 61.0 * step)

    server, ledger = serving()
    learn(server, 0.0)
    back_up(path, tmp_path / "old")
    learn(server, 1000.0)
    learn(server, 2000.0)
    assert server.model.digest() == _digest(journals)
    ledger.close()
    restore(tmp_path / "old", path, force=True)
    server, ledger = serving()
    assert server.model.digest() != _digest(journals)
    learn(server, 3000.0)
    learn(server, 4000.0)
    assert server.model.digest() == _digest(journals)
    assert {one.incarnation for one in server.workers.values()} == {2}
    ledger.close()


def _digest(journals: dict[str, Journal]) -> str:
    model = bayes()
    for journal in journals.values():
        model.merge(examples(journal.count(State.LEARNED)))
    return model.digest()
