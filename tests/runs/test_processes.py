"""Schemes that run at the same time, in processes: the results of one process, whoever dies."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dealfl import Fleet, compare
from dealfl.cli import main
from dealfl.errors import BadInput, WriteFailed
from dealfl.jobs import Document
from dealfl.simulate import Outcome, Processes, Progress, read_fleet, run_fleet
from tests.runs.made_runs import TINY, read_result

Show = Callable[[Progress], None]


def test_schemes_in_processes_have_the_results_of_one_process(job: Path) -> None:
    for count in ("1", "3"):
        assert main(["run", str(job), "--out", count, "--processes", count]) == 0
    assert read_result(Path("3")) == read_result(Path("1"))


def test_values_in_processes_have_the_results_of_one_process(job: Path) -> None:
    fleet = Fleet.from_job(job)
    tables = [compare(fleet, seeds=2, rounds=2, verbose=False, processes=n) for n in (1, 2)]
    assert tables[0].equals(tables[1])


def test_a_scheme_whose_process_is_killed_runs_again(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["run", str(job), "--out", "whole", "--processes", "1"]) == 0
    here = os.getpid()

    def die_elsewhere(*_: object, **__: object) -> None:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr("dealfl.runs.run.log", die_elsewhere)  # at the end of a scheme
    assert main(["run", str(job), "--out", "killed", "--processes", "2"]) == 0
    assert read_result(Path("killed")) == read_result(Path("whole"))


OUTCOME = run_fleet(read_fleet(Document.parse(TINY, "job.toml").replaced("job.rounds", 1)))


def _give(show: Show) -> Outcome:
    return OUTCOME


def _refuse(show: Show) -> Outcome:
    raise WriteFailed("the disk is full")


def _note_and_wait(show: Show) -> Outcome:
    Path("child").write_text(f"{os.getpid()}")
    time.sleep(60.0)
    return OUTCOME


def _lives(process: int) -> bool:
    state = Path(f"/proc/{process}/stat")
    return state.exists() and state.read_text().split()[2] != "Z"


def test_outcomes_are_kept_as_they_come_and_errors_are_raised() -> None:
    found: dict[str, Outcome] = {}
    tasks = {"first": _give, "second": _refuse}
    with Processes(tasks, 2, found.update) as processes:
        processes.finish("first", lambda _: None, lambda: False)
        assert found == {"first": OUTCOME}
        with pytest.raises(WriteFailed, match="full"):
            processes.finish("second", lambda _: None, lambda: False)


def test_processes_end_with_the_one_that_started_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parent = os.fork()
    if not parent:
        processes = Processes({"one": _note_and_wait}, 2, lambda _: None)
        while True:
            processes.poll(timeout_s=0.01)
    while not Path("child").exists() or not Path("child").read_text():
        time.sleep(0.01)
    child = int(Path("child").read_text())
    assert _lives(child)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    until_s = time.monotonic() + 20.0
    while _lives(child) and time.monotonic() < until_s:
        time.sleep(0.01)
    assert not _lives(child)


def test_a_number_of_processes_below_1_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="processes is 0; it must be a whole number ≥ 1"):
        Processes({}, 0, lambda _: None)
    assert main(["run", "--processes", "0", "--out", str(tmp_path / "none")]) == 2
    assert not (tmp_path / "none").exists(), "no empty folder is left"
