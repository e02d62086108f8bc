"""Backups that come back whole, lives that begin anew after one, and phones taken out."""

import json
import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from dealfl.cli import main
from dealfl.errors import BadBytes, BadInput, UnknownName
from dealfl.messages import Message
from dealfl.server import Ledger, Server, Terms
from dealfl.server.selection import Everyone
from dealfl.service.backups import MANIFEST, back_up, restore
from dealfl.service.folders import RunFolder
from dealfl.service.models import opened
from dealfl.service.removing import remove_worker
from dealfl.service.status import run_status, worker_states
from dealfl.statistics import Statistics
from dealfl.worker import Journal, State, Worker
from tests.federation.parts import KEY, FixedMeter, announce, bayes, examples, joined, row, update
from tests.service.runs import make_run
from tests.simulate import fleets

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def run(digits_run: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("job.toml", "ledger.db"):
        shutil.copy(digits_run / name, folder / name)
    return folder


# -- copies -------------------------------------------------------------------------------------


def test_a_backup_comes_back_as_it_was(run: Path, tmp_path: Path, capsys: Captured) -> None:
    journal = Journal(run / "w01.db", mark="mark")
    with journal.transaction():
        journal.add([(b"owner", b"body")], State.WAITING)
    before = opened(run).info()["digest"]
    copy = tmp_path / "copies" / "monday"
    assert main(["backup", str(run), "--to", str(copy), "--json"]) == 0
    kinds = {one["file"]: one["kind"] for one in json.loads(capsys.readouterr().out)["files"]}
    assert kinds == {"ledger.db": "ledger", "w01.db": "journal"}
    journal.close()
    shutil.rmtree(run)
    assert main(["restore", str(copy), "--to", str(run)]) == 0
    assert "restored: ledger ledger.db" in capsys.readouterr().out
    assert sorted(path.name for path in run.iterdir()) == ["job.toml", "ledger.db", "w01.db"]
    assert opened(run).info()["digest"] == before
    again = Journal(run / "w01.db")
    assert (again.mark, again.count(State.WAITING)) == ("mark", 1)
    again.close()


def test_one_file_is_copied_and_restored_by_name(run: Path, tmp_path: Path) -> None:
    back_up(run / "ledger.db", tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "other.db")
    restore(tmp_path / "copy" / "ledger.db", tmp_path / "third.db")
    for name in ("other.db", "third.db"):
        assert opened(tmp_path / name).info()["digest"] == opened(run).info()["digest"]


def test_nothing_is_replaced_without_force(run: Path, tmp_path: Path) -> None:
    back_up(run, tmp_path / "copy")
    remove_worker(RunFolder.at(run), "w01")
    after = opened(run).info()["digest"]
    with pytest.raises(BadInput, match=r"ledger\.db is there already; give --force"):
        restore(tmp_path / "copy", run)
    assert opened(run).info()["digest"] == after
    restore(tmp_path / "copy", run, force=True)
    assert opened(run).info()["digest"] != after
    with pytest.raises(BadInput, match="give the name of a new folder"):
        back_up(run, tmp_path / "copy")


def test_the_log_of_the_old_file_is_not_read_into_the_new_one(run: Path, tmp_path: Path) -> None:
    back_up(run, tmp_path / "copy")
    before = opened(run).info()["digest"]
    # a process was killed: what it wrote last is in the log only
    killed = Ledger(run / "ledger.db")
    with killed.transaction():
        killed.put_total(Statistics.zero(opened(run).learner.schema).to_bytes())
    for suffix in ("", "-wal", "-shm"):
        shutil.copy(f"{run / 'ledger.db'}{suffix}", tmp_path / f"dead.db{suffix}")
    killed.close()
    (tmp_path / "dead.db").write_bytes(b"damaged" * 1000)
    restore(tmp_path / "copy" / "ledger.db", tmp_path / "dead.db", force=True)
    assert opened(tmp_path / "dead.db").info()["digest"] == before


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
    with pytest.raises(BadInput, match=r"another backup|that dealfl backup made"):
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
    before = opened(run).info()["digest"]
    with pytest.raises(BadInput):
        restore(file, run / "ledger.db", force=True)
    assert opened(run).info()["digest"] == before
    assert not [path for path in run.iterdir() if path.name.startswith(".")]


def test_a_failure_half_way_leaves_the_old_file(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up(run, tmp_path / "copy")
    remove_worker(RunFolder.at(run), "w01")
    before = opened(run).info()["digest"]

    def fails(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("dealfl.service.backups._replace", fails)
    with pytest.raises(OSError, match="no space left"):
        restore(tmp_path / "copy", run, force=True)
    assert opened(run).info()["digest"] == before
    assert not [path for path in run.iterdir() if path.name.endswith(".part")]
    monkeypatch.setattr("dealfl.database.Database.backup", fails)
    with pytest.raises(OSError, match="no space left"):
        back_up(run, tmp_path / "second")
    assert not list(tmp_path.glob("*second*"))


def test_what_is_no_database_is_told(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "note.txt").write_text("a note")
    words = ["--to", str(tmp_path / "copy")]
    assert main(["backup", str(tmp_path / "note.txt"), *words]) == 2
    assert "is neither a ledger nor a journal" in capsys.readouterr().err
    assert main(["backup", str(tmp_path), *words]) == 2
    assert "there is no ledger and no journal in the folder" in capsys.readouterr().err
    assert main(["restore", str(tmp_path / "nothing"), *words]) == 2
    assert "there is no backup" in capsys.readouterr().err
    with pytest.raises(BadBytes, match="damaged, or neither a ledger nor a journal"):
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


def test_workers_ahead_of_a_restored_ledger_begin_anew_and_nothing_counts_twice(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ledger.db"

    def serving() -> tuple[Server, Ledger]:
        ledger = Ledger(path)
        return Server("job", bayes, ledger, Terms(rounds=1000), Everyone()), ledger

    workers = {
        name: Worker("job", name, bayes, Journal(mark=name), FixedMeter(), key=KEY)
        for name in ("anna", "bob")
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
    assert server.model.digest() == _digest(workers)
    ledger.close()
    restore(tmp_path / "old", path, force=True)
    server, ledger = serving()
    assert server.model.digest() != _digest(workers)
    learn(server, 3000.0)
    learn(server, 4000.0)
    assert server.model.digest() == _digest(workers)
    assert {one.incarnation for one in server.workers.values()} == {2}
    ledger.close()


def _digest(workers: dict[str, Worker]) -> str:
    model = bayes()
    for worker in workers.values():
        held = worker._journal.count(State.LEARNED)
        model.merge(examples(held))
    return model.digest()


# -- removals -----------------------------------------------------------------------------------


def test_a_removed_phone_s_part_is_gone(run: Path, capsys: Captured) -> None:
    before = opened(run).learner
    ledger = Ledger(run / "ledger.db")
    part = Statistics.from_bytes(ledger.sum_of("w01") or b"")
    ledger.close()
    assert part.to_bytes()[200:400] in (run / "ledger.db").read_bytes()
    assert main(["workers", "remove", "w01", str(run), "--yes", "--json"]) == 0
    assert not list(run.glob("ledger.db-*")), "what was deleted is in no log"
    assert part.to_bytes()[200:400] not in (run / "ledger.db").read_bytes()
    removed = json.loads(capsys.readouterr().out)
    assert removed["digest_before"] == before.digest()
    after = opened(run).learner
    assert after.statistics == before.statistics - part
    assert removed["digest_after"] == after.digest() != before.digest()
    states = {one.name: one for one in worker_states(RunFolder.at(run))}
    assert (states["w01"].state, states["w01"].flag) == ("removed", "removed")
    assert states["w01"].incarnation == removed["incarnation"] == 2


def test_a_removal_opens_no_round_and_keeps_the_selector(tmp_path: Path) -> None:
    text = fleets.TEXT.replace("rounds = 8", 'rounds = 3\nselector = "fair_ucb"')
    make_run(tmp_path, text)
    (tmp_path / "job.toml").write_text(text.replace("rounds = 3", "rounds = 30"))
    kept = selector_state(tmp_path)
    known = [f"w{number:02}" for number in range(1, 16) if b"w%02d" % number in kept]
    remove_worker(RunFolder.at(tmp_path), known[0])
    status = run_status(RunFolder.at(tmp_path))
    assert (status.rounds_closed, status.open_round) == (3, None)
    dropped = selector_state(tmp_path)
    assert known[0].encode() not in dropped
    assert known[1].encode() in dropped
    (tmp_path / "job.toml").unlink()
    remove_worker(RunFolder.at(tmp_path), known[1])
    assert selector_state(tmp_path) == dropped, "without a job its state can not be read"


def test_a_removal_leaves_an_open_round_to_the_server(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    server = joined("anna", "bob", "carl", ledger=ledger)
    server.handle([update(1, name=name, round=1) for name in ("anna", "bob")], 1.5e9)
    server.handle([announce(name) for name in ("anna", "bob")], 1.5e9 + 1)
    server.handle([update(2, name="bob", count=3, round=2)], 1.5e9 + 2)
    ledger.close()
    before = run_status(RunFolder.at(tmp_path))
    assert before.open_round is not None
    removed = remove_worker(RunFolder.at(tmp_path), "anna")
    after = run_status(RunFolder.at(tmp_path))
    assert after.open_round == before.open_round
    assert after.updates_waiting == 1, "what waits is counted when the round closes"
    model = bayes()
    model.merge(examples(1))
    assert removed.digest_after == model.digest()


def selector_state(folder: Path) -> bytes:
    ledger = Ledger(folder / "ledger.db")
    state = ledger.setting("selector")
    ledger.close()
    return state


def test_a_removal_has_to_be_meant(
    run: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = opened(run).info()["digest"]
    words = ["workers", "remove", "w01", str(run)]
    monkeypatch.setattr("sys.stdin", Answers("", terminal=False))
    assert main(words) == 2
    assert "can not be undone; give --yes" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", Answers("no\n"))
    assert main(words) == 2
    assert "nothing was changed" in capsys.readouterr().err
    assert opened(run).info()["digest"] == before
    monkeypatch.setattr("sys.stdin", Answers("yes\n"))
    assert main(words) == 0
    assert opened(run).info()["digest"] != before


class Answers:
    """Somebody at a terminal."""

    def __init__(self, line: str, terminal: bool = True) -> None:
        self._line, self._terminal = line, terminal

    def isatty(self) -> bool:
        return self._terminal

    def readline(self) -> str:
        return self._line


def test_an_unknown_phone_is_not_removed(run: Path) -> None:
    with pytest.raises(UnknownName, match="no worker called 'w99'; known: w01"):
        remove_worker(RunFolder.at(run), "w99")


def test_a_failed_removal_changes_nothing(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = opened(run).info()["digest"]

    def fails(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("dealfl.server.ledger.Ledger.drop_updates", fails)
    with pytest.raises(OSError, match="disk full"):
        remove_worker(RunFolder.at(run), "w01")
    monkeypatch.undo()
    assert opened(run).info()["digest"] == before
    assert worker_states(RunFolder.at(run))[0].incarnation == 1


def test_nothing_is_removed_from_a_run_without_a_model(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    joined("anna", ledger=ledger).handle([update(1, name="anna", incarnation=9)], 1.0)
    ledger.close()
    with pytest.raises(BadInput, match="has no model yet: there is nothing of 'anna' in it"):
        remove_worker(RunFolder.at(tmp_path), "anna")
