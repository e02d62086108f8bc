"""`dealfl run`: stopped at any moment and resumed, run twice, with typos, in foreign places."""

import json
import multiprocessing
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dealfl.cli import main
from dealfl.jobs import Document
from dealfl.runs import Interrupted, Run, RunFolder
from dealfl.simulate import Outcome, Progress, read_fleet, start_run

FORK = multiprocessing.get_context("fork")
JOB = """
[job]
name = "tiny"
dataset = "digits"
learner = "naive_bayes"
rounds = 12
workers_per_round = 3
forget_fraction = "0.1"
selector = "fair_ucb"

[[devices]]
count = 3
phone = "honor"

[[devices]]
count = 3
phone = "nexus"

[data]
rows = 200

[arrival]
pattern = "poisson"
initial_share = 0.3
examples_per_hour = 60

[availability]
kind = "markov"
up_s = 600
down_s = 200

[faults]
loss = 0.1
dropout_share = 0.1
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.toml"
    path.write_text(JOB, encoding="utf-8")
    return path


def result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return found


def digests(folder: Path) -> dict[str, str]:
    return {scheme: one["digest"] for scheme, one in result(folder)["outcomes"].items()}


def test_a_job_leaves_everything_in_one_folder(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(job)]) == 0
    folder = Path("runs/tiny")
    assert sorted(file.name for file in folder.iterdir()) == [
        "job.toml", "ledger.db", "log.jsonl", "owners.key", "report.html", "result.json",
    ]  # fmt: skip
    told = capsys.readouterr().out
    assert "deal" in told
    assert "original" in told
    assert "equals that of central training" in told
    assert str(folder / "report.html") in told
    assert "forget_fraction = " in (folder / "report.html").read_text(encoding="utf-8")
    found = result(folder)
    assert found["exact"]
    assert list(found["outcomes"]) == ["deal", "original", "newfl", "incremental"]
    assert main(["status", str(folder)]) == 0
    assert main(["model", "info", str(folder)]) == 0
    assert found["outcomes"]["deal"]["digest"][:12] in capsys.readouterr().out


def test_a_second_run_is_the_same_and_never_overwrites_the_first(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", str(job), "--no-compare", "--set", "job.rounds=2"]
    assert main(words) == 0
    first = Path("runs/tiny/result.json")
    written = first.stat().st_mtime_ns
    assert main([*words, "--out", "runs/tiny"]) == 2
    assert "runs/tiny holds a finished run; --restart" in capsys.readouterr().err
    assert main(words) == 0
    assert result(Path("runs/tiny-2")) == result(Path("runs/tiny"))
    assert main([*words, "--restart"]) == 0
    assert sorted(path.name for path in Path("runs").glob("tiny*")) == ["tiny", "tiny-2"]
    assert first.stat().st_mtime_ns == written, "only the latest run is discarded"
    Path("runs/tiny-2/state-deal").write_bytes(b"nonsense")
    assert main(words) == 2
    assert "runs/tiny-2 holds a run that was stopped" in capsys.readouterr().err


def test_json_is_one_object(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(job), "--no-compare", "--json", "--out", "there"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["folder"] == "there"
    assert told["outcomes"]["deal"]["exact"]


def test_a_set_value_is_in_the_job_that_is_kept(job: Path) -> None:
    assert main(["run", str(job), "--no-compare", "--set", "job.rounds=3"]) == 0
    assert len(result(Path("runs/tiny"))["outcomes"]["deal"]["rounds"]) == 3
    assert "rounds = 3" in Path("runs/tiny/job.toml").read_text(encoding="utf-8")


def test_a_new_folder_of_runs_is_ignored_by_git(job: Path) -> None:
    assert main(["run", str(job), "--no-compare", "--set", "job.rounds=1"]) == 0
    ignored = Path("runs/.gitignore")
    assert ignored.read_text().splitlines()[-1] == "*"
    ignored.unlink()
    assert main(["run", str(job), "--no-compare", "--set", "job.rounds=1"]) == 0
    assert not ignored.exists(), "only a new folder is"
    assert main(["run", str(job), "--no-compare", "--set", "job.rounds=1", "--out", "mine/a"]) == 0
    assert not Path("mine/.gitignore").exists()


def test_a_job_goes_on_from_a_model(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(job), "--no-compare"]) == 0
    assert main(["model", "export", "runs/tiny", "--out", "tiny.deal"]) == 0
    assert main(["run", str(job), "--no-compare", "--from", "tiny.deal", "--out", "next"]) == 0
    first = result(Path("runs/tiny"))["outcomes"]["deal"]
    second = result(Path("next"))["outcomes"]["deal"]
    assert second["exact"]
    assert "(plus tiny.deal)" in capsys.readouterr().out
    assert second["digest"] != first["digest"], "it knows everything twice now"


@pytest.mark.parametrize(("old", "new"), [("--alone", "--no-compare"), ("--fresh", "--restart")])
def test_an_old_flag_is_answered_with_the_new_one(
    old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["run", old])
    assert stopped.value.code == 2
    assert f"{old} is now called {new}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["nothing.toml"], "nothing.toml cannot be read"),
        (["job.toml", "--resume"], "holds no run that was stopped"),
        (["job.toml", "--resume", "--restart"], "give one of them"),
        (["job.toml", "--set", "job.ronds=3"], "did you mean 'rounds'"),
        (["job.toml", "--set", "job.name='a/b'"], "is not a valid folder name"),
        (["job.toml", "--from", "nothing.deal"], "nothing.deal"),
        (["job.toml", "--out", "job.toml/x"], "cannot be written"),
    ],
)
def test_what_can_not_be_done_is_told_with_exit_code_2(
    job: Path, words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *words]) == 2
    assert problem in capsys.readouterr().err


def test_a_difference_is_not_hidden(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Outcome, "exact", property(lambda self: False))
    assert main(["run", str(job), "--no-compare"]) == 1
    assert "NOT EXACT: deal" in capsys.readouterr().out


def test_without_plotly_there_is_a_summary_and_no_page(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    assert main(["run", str(job), "--no-compare"]) == 0
    told = capsys.readouterr()
    assert "dealfl[report]" in told.err
    assert "equals that of central training" in told.out
    assert not Path("runs/tiny/report.html").exists()
    assert not RunFolder(Path("runs/tiny")).resumable, "nothing is left to go on from"


def test_rounds_add_up_to_what_was_learned(job: Path) -> None:
    assert main(["run", str(job), "--no-compare", "--set", "faults.loss=0"]) == 0
    outcome = result(Path("runs/tiny"))["outcomes"]["deal"]
    by_round = sum(one["learned"] for one in outcome["rounds"])
    assert 0 < by_round <= outcome["learned"]
    assert by_round >= 0.8 * outcome["learned"], "late replies count, too"


# -- stopped and resumed ------------------------------------------------------------------------


def run_in_child(words: tuple[str, ...]) -> None:
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.default_int_handler)
    with Path("told.txt").open("w") as told:
        os.dup2(told.fileno(), 1)
        os.dup2(told.fileno(), 2)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    sys.exit(main(["run", "job.toml", *words]))


def stopped(folder: Path, words: tuple[str, ...], events: int, number: int) -> tuple[int, str]:
    """Run it in a process of its own; send a signal when so many events are logged.

    Return exit code and words. The process is forked: it need not import everything again.
    """
    log = folder / "runs/tiny/log.jsonl"
    log.unlink(missing_ok=True)
    process = FORK.Process(target=run_in_child, args=(words,))
    process.start()
    assert process.pid is not None
    while process.is_alive() and _lines(log) < events:
        time.sleep(0.002)
    if process.is_alive():
        os.kill(process.pid, number)
    process.join(120)
    assert process.exitcode is not None
    return process.exitcode, Path("told.txt").read_text()


def _lines(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_stopped_at_any_moment_it_ends_as_if_it_had_not_been(job: Path, number: int) -> None:
    assert main(["run", str(job), "--out", "whole"]) == 0
    draw = random.Random(number)
    words: tuple[str, ...] = ("--restart",)
    stops = 0
    while stops < 5:
        code, told = stopped(job.parent, words, draw.randint(1, 16), number)
        if code == 0:
            break  # it was faster
        assert code in (130, -number), told
        stops += 1
        # killed before the first state was kept, there is nothing to go on from
        words = ("--resume",) if _kept(job.parent / "runs/tiny") else ("--restart",)
    else:
        assert main(["run", str(job), *words]) == 0
    assert stops > 0
    assert digests(job.parent / "runs/tiny") == digests(job.parent / "whole")
    assert result(job.parent / "runs/tiny")["exact"]


def _kept(folder: Path) -> bool:
    return folder.exists() and any(
        file.name == "outcomes" or file.name.startswith("state-")
        for file in folder.iterdir()
        if not file.name.endswith(".part")
    )


@pytest.mark.parametrize("rounds", [0, 1, 12])
def test_stopped_before_the_first_or_after_the_last_round_it_goes_on(
    job: Path, rounds: int
) -> None:
    """A signal may come while data is read, or when only the end is left to do."""

    class Stopper:
        def start_scheme(self, scheme: str, place: int, of: int) -> None:
            if rounds == 0:
                run.stop()

        def show_progress(self, progress: Progress) -> None:
            if rounds and progress.rounds >= rounds:
                run.stop()

        def finish_scheme(self, outcome: Outcome) -> None:
            pass

    folder = RunFolder(job.parent / "stopped")
    folder.prepare(JOB)
    run = Run(read_fleet(Document.read(job)), folder, compare=False)
    with pytest.raises(Interrupted):
        run.run(Stopper())
    state = folder.state("deal")
    assert state is not None
    assert rounds <= len(state.rounds) <= rounds + 1, "it stops soon"
    assert main(["run", str(job), "--no-compare", "--out", "stopped", "--resume"]) == 0
    assert main(["run", str(job), "--no-compare", "--out", "whole"]) == 0
    stopped_once, whole = result(Path("stopped")), result(Path("whole"))
    for one in (stopped_once, whole):  # how well the server predicted since its own start
        del one["outcomes"]["deal"]["prediction_error"]
    assert stopped_once == whole


def test_what_a_kill_left_half_written_is_no_state_and_is_swept(job: Path) -> None:
    Path("runs/tiny").mkdir(parents=True)
    Path("runs/tiny/state-dealabc.part").write_bytes(b"half")
    assert main(["run", str(job), "--no-compare"]) == 0
    assert not list(Path("runs/tiny").glob("*.part"))


def test_where_a_run_was_stopped_it_is_not_begun_anew_by_accident(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("runs/tiny").mkdir(parents=True)
    Path("runs/tiny/state-deal").write_bytes(b"nonsense")
    assert main(["run", str(job)]) == 2
    told = capsys.readouterr().err
    assert "--resume (resume=True) continues it, --restart (restart=True) discards it" in told
    assert main(["run", str(job), "--resume"]) == 2
    assert "damaged" in capsys.readouterr().err
    assert main(["run", str(job), "--restart", "--no-compare"]) == 0


def test_a_changed_job_does_not_go_on(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = start_run(read_fleet(Document.read(job)))
    run.advance()
    Path("runs/tiny").mkdir(parents=True)
    run.state().write(Path("runs/tiny/state-deal"))
    job.write_text(JOB.replace("rounds = 12", "rounds = 13"), encoding="utf-8")
    assert main(["run", str(job), "--resume"]) == 2
    assert "changed since the run was interrupted" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_told(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("runs").mkdir(mode=0o500)
    assert main(["run", str(job)]) == 2
    assert "give another with --out" in capsys.readouterr().err
