"""`dealfl run`: stopped or killed at any moment, and resumed."""

import multiprocessing
import os
import pkgutil
import random
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import dealfl
from dealfl.cli import main
from dealfl.jobs import Document
from dealfl.runs import Interrupted, Run, RunFolder, list_erasures
from dealfl.simulate import Outcome, Progress, read_fleet, start_run
from tests.runs.erased_people import make_fleet
from tests.runs.made_runs import TINY, read_result

FORK = multiprocessing.get_context("fork")


def digests(folder: Path) -> dict[str, str]:
    return {scheme: one["digest"] for scheme, one in read_result(folder)["outcomes"].items()}


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
    assert read_result(job.parent / "runs/tiny")["exact"]


def _kept(folder: Path) -> bool:
    return folder.exists() and any(
        file.name == "outcomes" or file.name.startswith("state-")
        for file in folder.iterdir()
        if not file.name.endswith(".part")
    )


@pytest.mark.parametrize("rounds", [0, 1, 12])
def test_stopped_before_the_first_or_after_the_last_round_it_continues(
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
    folder.prepare(TINY)
    run = Run(read_fleet(Document.read(job)), folder, compare=False)
    with pytest.raises(Interrupted):
        run.run(Stopper())
    state = folder.state("deal")
    assert state is not None
    assert rounds <= len(state.rounds) <= rounds + 1, "it stops soon"
    assert main(["run", str(job), "--no-compare", "--out", "stopped", "--resume"]) == 0
    assert main(["run", str(job), "--no-compare", "--out", "whole"]) == 0
    stopped_once, whole = read_result(Path("stopped")), read_result(Path("whole"))
    for one in (stopped_once, whole):  # how well the server predicted since its own start
        del one["outcomes"]["deal"]["prediction_error"]
        del one["outcomes"]["deal"]["law_error"]
    assert stopped_once == whole


def test_what_a_kill_left_half_written_is_no_state_and_is_swept(job: Path) -> None:
    Path("runs/tiny").mkdir(parents=True)
    Path("runs/tiny/state-dealabc.part").write_bytes(b"half")
    assert main(["run", str(job), "--no-compare"]) == 0
    assert not list(Path("runs/tiny").glob("*.part"))


def test_where_a_run_was_stopped_it_is_not_begun_again_by_accident(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("runs/tiny").mkdir(parents=True)
    Path("runs/tiny/state-deal").write_bytes(b"nonsense")
    assert main(["run", str(job)]) == 2
    told = capsys.readouterr().err
    assert "--resume continues it, --restart discards it" in told
    assert main(["run", str(job), "--resume"]) == 2
    assert "damaged" in capsys.readouterr().err
    assert main(["run", str(job), "--restart", "--no-compare"]) == 0


def test_a_changed_job_does_not_continue(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = start_run(read_fleet(Document.read(job)))
    run.advance()
    Path("runs/tiny").mkdir(parents=True)
    RunFolder(Path("runs/tiny")).owners_key()
    run.state().write(Path("runs/tiny/state-deal"))
    job.write_text(TINY.replace("rounds = 12", "rounds = 13"), encoding="utf-8")
    assert main(["run", str(job), "--resume"]) == 2
    assert "changed since the run was interrupted" in capsys.readouterr().err


class Killed(BaseException):
    """Ends a run as a kill would: nothing is written after it."""


KILLS = (  # steps at the end of a run, and whether it is killed after the step or before
    ("dealfl.runs.erasing.retrain", True),
    ("dealfl.runs.erasing.replace_file", True),
    ("dealfl.runs.erasing.put_request", True),
    ("dealfl.runs.erasing.certify", False),
    ("dealfl.runs.erasing.certify", True),
    ("dealfl.runs.erasing.carry_out", True),
    ("dealfl.runs.run.Run.save", False),
    ("dealfl.runs.run.replace_file", True),
)


def killing(step: Callable[..., object], after: bool) -> Callable[..., object]:
    """Return a function that kills the run instead of a step, or after it."""

    def kill(*given: object, **named: object) -> object:
        if after:
            step(*given, **named)
        raise Killed

    return kill


@pytest.mark.parametrize(("step", "after"), KILLS)
def test_killed_while_it_forgets_a_person_it_forgets_nobody_else(
    step: str, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, out = make_fleet(tmp_path, "naive_bayes"), tmp_path / "run"
    run = partial(dealfl.run, fleet, rounds=2, out=out, verbose=False, compare=False)
    with monkeypatch.context() as patched:
        patched.setattr(step, killing(pkgutil.resolve_name(step), after))
        with pytest.raises(Killed):
            run(forget_one=True)
    note = out / "forgetting"
    assert b"person" not in (note.read_bytes() if note.exists() else b"")
    one = run(forget_one=True, resume=True).outcomes.forgotten
    assert one is not None
    assert one.exact
    assert one.person.startswith("person ")
    assert len(list((out / "certificates").glob("*.json"))) == 1
    assert [request.persons for request in list_erasures(RunFolder.at(out))] == [1]
    assert {"forgetting", "requests"}.isdisjoint(file.name for file in out.iterdir())
