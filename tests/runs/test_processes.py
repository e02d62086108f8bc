"""Schemes that run at the same time, in processes: the results of one process, whoever dies."""

import dataclasses
import json
import os
import signal
import sys
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
    closed: dict[str, list[int]] = {}
    for line in map(json.loads, Path("3/log.jsonl").read_text().splitlines()):
        if line["event"] == "round closed":
            closed.setdefault(line["scheme"], []).append(line["round"])
    outcomes = read_result(Path("3"))["outcomes"].items()
    assert closed == {scheme: [r["number"] for r in one["rounds"]] for scheme, one in outcomes}


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


def _give_much_when_stopped(show: Show) -> Outcome:
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    signal.alarm(60)  # ends it if nobody takes what it sends
    Path("child").write_text(f"{os.getpid()}")
    while not stopped:
        time.sleep(0.01)
    return dataclasses.replace(OUTCOME, job="x" * 10**6)


def _wait_to_end_when_stopped(show: Show) -> Outcome:
    Path("child").write_text(f"{os.getpid()}")
    while not Path("again").exists():
        time.sleep(0.01)
    return OUTCOME


def _state(process: int) -> str:
    stat = Path(f"/proc/{process}/stat")
    return stat.read_text().split()[2] if stat.exists() else "Z"


def _lives(process: int) -> bool:
    return _state(process) != "Z"


def test_outcomes_are_kept_as_they_come_and_errors_are_raised() -> None:
    found: dict[str, Outcome] = {}
    tasks = {"first": _give, "second": _refuse}
    with Processes(tasks, 2, found.update) as processes:
        processes.finish("first", lambda _: None, lambda: False)
        assert found == {"first": OUTCOME}
        with pytest.raises(WriteFailed, match="full"):
            processes.finish("second", lambda _: None, lambda: False)


def test_what_a_stopped_task_still_sends_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found: dict[str, Outcome] = {}

    def stop() -> None:
        with Processes({"one": _give_much_when_stopped}, 2, found.update) as processes:
            while not Path("child").exists():
                processes.poll(timeout_s=0.01)
            raise WriteFailed("the disk is full")

    with pytest.raises(WriteFailed, match="full"):
        stop()
    assert {name: len(one.job) for name, one in found.items()} == {"one": 10**6}


def test_ctrl_c_shows_no_error_of_any_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parent = os.fork()
    if not parent:
        os.setsid()
        os.dup2(os.open("told.txt", os.O_WRONLY | os.O_CREAT), 2)
        sys.stderr = sys.__stderr__
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with Processes(dict.fromkeys("abcd", _note_and_wait), 2, lambda _: None) as processes:
                while True:
                    processes.poll(timeout_s=0.01)
        except KeyboardInterrupt:
            os._exit(130)
    children = Path(f"/proc/{parent}/task/{parent}/children")
    while not Path("child").exists() or {_state(int(one)) for one in _words(children)} != {"S"}:
        time.sleep(0.01)
    assert len(_words(children)) == 4
    os.killpg(parent, signal.SIGINT)
    assert os.waitstatus_to_exitcode(os.waitpid(parent, 0)[1]) == 130
    assert Path("told.txt").read_text() == ""


def test_a_stop_that_reaches_a_task_twice_shows_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found: dict[str, Outcome] = {}

    def stop_or_interrupt(number: int, _: object) -> None:  # as a run does
        Path("stopped").touch()
        signal.signal(number, signal.default_int_handler)

    handlers = {n: signal.signal(n, stop_or_interrupt) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        with Processes({"one": _wait_to_end_when_stopped}, 2, found.update) as processes:
            while not Path("child").exists() or not Path("child").read_text():
                processes.poll(timeout_s=0.01)
            child = int(Path("child").read_text())
            os.kill(child, signal.SIGTERM)
            while not Path("stopped").exists():
                time.sleep(0.01)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGINT):
                os.kill(child, number)
            Path("again").touch()
            processes.finish("one", lambda _: None, lambda: False)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert (found, capfd.readouterr().err) == ({"one": OUTCOME}, "")


def _words(path: Path) -> list[str]:
    return path.read_text().split()


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
    until_s = time.monotonic() + 60.0
    while _lives(child) and time.monotonic() < until_s:
        time.sleep(0.01)
    assert not _lives(child)


def test_a_number_of_processes_below_1_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="processes is 0; it must be a whole number ≥ 1"):
        Processes({}, 0, lambda _: None)
    assert main(["run", "--processes", "0", "--out", str(tmp_path / "none")]) == 2
    assert not (tmp_path / "none").exists(), "no empty folder is left"
