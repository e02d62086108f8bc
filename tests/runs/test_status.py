"""What `dealfl status` and `dealfl workers` say of a run, against the ledger's own account."""

import json
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.errors import BadBytes, BadInput
from dealfl.protocol.messages import Asleep, Erase
from dealfl.report import format_energy
from dealfl.runs import RunFolder, read_status, read_worker_rounds, read_workers
from dealfl.server import Ledger
from dealfl.server.selection import OverPromise
from tests.federation.parts import announce, joined, update
from tests.runs.made_runs import make_run

ROOT = Path(__file__).parents[2]
Captured = pytest.CaptureFixture[str]


def test_the_status_is_what_the_simulation_counted(tmp_path: Path) -> None:
    outcome = make_run(tmp_path)
    status = read_status(RunFolder.at(tmp_path))
    assert status.rounds_closed == len(outcome.rounds) == status.rounds_planned == 8
    assert status.rounds_by_reason == {
        "majority": outcome.by_majority,
        "time to live": outcome.by_ttl,
    }
    assert status.last_reason == outcome.rounds[-1].reason
    assert status.updates_counted == outcome.updates
    assert status.updates_waiting == 0
    assert status.examples_learned == outcome.learned
    assert status.energy_j == pytest.approx(outcome.energy_j)
    assert status.energy_source == "modelled"
    assert status.published_digest == status.round_digest == outcome.digest
    assert sum(status.workers.values()) == outcome.workers
    assert status.open_round is None


def test_an_open_round_and_states_of_workers_are_reported(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    server = joined("anna", "bob", "carl", ledger=ledger)
    server.handle([update(1, name="bob", round=1, learned=1)], 5.0)
    status = read_status(RunFolder.at(tmp_path / "ledger.db"))
    assert status.open_round is not None
    assert (status.open_round.selected, status.open_round.replied) == (3, 1)
    assert status.workers == {"awake": 1, "training": 2, "asleep": 0, "removed": 0}
    assert status.updates_waiting == 1
    assert status.version == 0
    assert status.energy_source == "not stated"
    server.handle([announce("carl")], 1000.0)
    assert read_status(RunFolder.at(tmp_path)).workers["asleep"] == 2
    ledger.close()


def test_whoever_is_flagged_or_removed_is_reported(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    server = joined("anna", "bob", ledger=ledger)
    server.handle([update(1, name="bob", incarnation=7)], 1.0)
    server.remove("anna", 2.0)
    status = read_status(RunFolder.at(tmp_path))
    assert (status.flagged, status.workers["removed"]) == (2, 1)
    by_name = {one.name: one for one in read_workers(RunFolder.at(tmp_path))}
    assert by_name["bob"].flag == "update has incarnation 7; the worker has 1"
    assert by_name["anna"].last_heard_s is None
    ledger.close()


def test_promises_that_cannot_be_kept_are_reported(tmp_path: Path, capsys: Captured) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    with ledger.transaction():
        ledger.change_state(over_promised=OverPromise(("v", "w"), 1.5, 1.0))
    ledger.close()
    assert main(["status", str(tmp_path)]) == 0
    assert "1.50 picks a round, 1.00 possible: v, w" in capsys.readouterr().out


def test_an_erasure_is_pending_until_a_version_shows_it(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    server = joined("anna", ledger=ledger)
    server.handle([update(1, count=2, name="anna", round=1)], 1.0)
    (order,) = server.erase("request", [b"owner"], 2.0).messages
    assert isinstance(order, Erase)
    status = read_status(RunFolder.at(tmp_path))
    assert (status.erasures, status.erasures_pending) == (1, 1)
    server.handle([announce("anna", erased=(order.after,), sequence=1)], 3.0)
    server.handle([update(2, name="anna", round=2)], 4.0)
    server.confirm(2)
    status = read_status(RunFolder.at(tmp_path))
    assert (status.erasures, status.erasures_pending) == (1, 0)
    ledger.close()


def test_an_erasure_of_many_owners_counts_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    server = joined("anna", ledger=ledger)
    server.erase("request", [number.to_bytes(32, "big") for number in range(12_001)], 2.0)
    status = read_status(RunFolder.at(tmp_path))
    assert (status.erasures, status.erasures_pending) == (1, 1)
    ledger.close()


@pytest.mark.parametrize(
    ("free", "problem"),
    [(1_000, "is full"), (400_000, "has 0.4 MB left"), (1 << 25, ""), (1 << 27, "")],
)
def test_little_space_on_the_disk_of_the_ledger_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, problem: str
) -> None:
    Ledger(tmp_path / "ledger.db").close()
    usage = shutil.disk_usage(tmp_path)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    found = read_status(RunFolder.at(tmp_path)).problem
    assert problem in found
    assert bool(found) == bool(problem)


def test_a_worker_is_shown_with_its_rounds(digits_run: Path) -> None:
    run = RunFolder.at(digits_run)
    for worker in read_workers(run):
        rounds = read_worker_rounds(run, worker.name)
        assert len(rounds) == worker.selected
        assert sum(one["energy_j"] for one in rounds) == pytest.approx(worker.energy_j)
        if rounds:
            mean = sum(one["reward"] for one in rounds) / len(rounds)
            assert worker.mean_reward == pytest.approx(mean)


def test_a_real_worker_is_awake_until_its_connection_ends(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    left = Asleep(job="job", worker="bob")
    then_s = time.time() - 1000.0
    joined("anna", ledger=ledger).handle([announce("bob", 0), announce("cleo", 0), left], then_s)
    ledger.close()
    states = {one.name: one.state for one in read_workers(RunFolder.at(tmp_path))}
    assert (states["bob"], states["cleo"]) == ("asleep", "awake")


# -- commands -----------------------------------------------------------------------------------


def test_status_without_a_name_takes_the_latest_run(
    digits_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["status"]) == 2
    assert "runs/ has no run; give a run folder" in capsys.readouterr().err
    shutil.copytree(digits_run, tmp_path / "runs" / "digits")
    assert main(["status"]) == 0
    told = capsys.readouterr().out
    assert "8 of 8 closed (" in told
    assert "J for trainings, modelled" in told


def test_status_prints_one_json_object(digits_run: Path, capsys: Captured) -> None:
    assert main(["status", str(digits_run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == read_status(RunFolder.at(digits_run)).as_dict()
    assert found["version"] == 8


def test_workers_are_listed_and_shown(digits_run: Path, capsys: Captured) -> None:
    assert main(["workers", "list", str(digits_run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["NAME", "STATE", "DEVICE", "BATTERY"]
    assert [line.split()[0] for line in lines[1:]] == [f"w{n:02}" for n in range(1, 16)]
    assert main(["workers", "show", str(digits_run), "w13", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["device"] == "slow phone"
    assert main(["workers", "show", str(digits_run), "nobody"]) == 2
    assert "no worker called 'nobody'; known: w01" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["status"], ["show", "--owners"], ["model", "info"]])
def test_a_job_that_is_no_text_is_named(run: Path, words: list[str], capsys: Captured) -> None:
    (run / "owners.key").write_text("00" * 32)
    (run / "job.toml").write_bytes((run / "job.toml").read_bytes() + b"# \xff\n")
    assert main([*words, str(run)]) == 2
    assert f"{run / 'job.toml'} is not UTF-8 text" in capsys.readouterr().err


def test_watching_ends_cleanly(digits_run: Path) -> None:
    words = [sys.executable, "-m", "dealfl", "status", str(digits_run)]
    words += ["--watch", "--every", "0.1", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as seen:
        assert seen.stdout is not None
        first, second = (json.loads(seen.stdout.readline()) for _ in range(2))
        assert first == second
        seen.send_signal(2)
        _, problems = seen.communicate(timeout=60)
    assert (seen.returncode, problems) == (0, "")


@pytest.mark.parametrize("every", ["0", "nan", "-1"])
def test_a_pause_that_is_none_is_refused(every: str, digits_run: Path, capsys: Captured) -> None:
    assert main(["status", str(digits_run), "--watch", f"--every={every}"]) == 2
    assert "--every" in capsys.readouterr().err


# -- files that are no ledgers ------------------------------------------------------------------


def test_what_is_no_ledger_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"has no ledger\.db"):
        RunFolder.at(tmp_path)
    with pytest.raises(BadInput, match="does not exist"):
        RunFolder.at(tmp_path / "nothing.db")
    (tmp_path / "ledger.db").write_bytes(b"SQLite format 3\x00 and then nonsense" * 100)
    with pytest.raises(BadBytes, match="cannot be read"):
        read_status(RunFolder.at(tmp_path))
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE workers (name)")
    other.close()
    with pytest.raises(BadInput, match="is no ledger"):
        read_status(RunFolder.at(tmp_path / "other.db"))


@pytest.mark.parametrize("version", [0, 99])
def test_a_ledger_of_another_version_is_not_touched(
    version: int, digits_run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.db"
    shutil.copy(digits_run / "ledger.db", path)
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {version}")
    db.close()
    with pytest.raises(BadInput, match="upgrade dealfl"):
        read_status(RunFolder.at(path))
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (version,)
    db.close()


def test_a_finished_run_says_why_it_ended_and_the_energy_of_the_summary(
    job: Path, capsys: Captured
) -> None:
    assert main(["run", str(job), "--no-compare", "--json"]) == 0
    (outcome,) = json.loads(capsys.readouterr().out)["outcomes"].values()
    assert main(["status"]) == 0
    told = capsys.readouterr().out
    assert f"finished: {outcome['ended']}" in told
    assert "6 took part" in told
    assert " of 12 closed" not in told
    assert f"; {format_energy(outcome['energy_j'])} for whole devices" in told
