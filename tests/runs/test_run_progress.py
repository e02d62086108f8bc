"""The progress of a run, as `dealfl status` shows it from the first moment to the last."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.errors import BadInput
from dealfl.jobs import Document
from dealfl.runs import Interrupted, Run, RunFolder, read_status
from dealfl.simulate import Outcome, Progress, read_fleet

Captured = pytest.CaptureFixture[str]

JOB = """
[job]
name = "tiny"
dataset = "digits"
learner = "naive_bayes"
rounds = 3
[data]
rows = 60
[[devices]]
count = 3
"""


class Looking:
    """A watcher that looks at the status of a run while it runs."""

    def __init__(self, look: Callable[[str, int], None]) -> None:
        self._look, self._scheme = look, ""

    def start_scheme(self, scheme: str, place: int, of: int) -> None:
        self._scheme = scheme
        self._look(scheme, -1)

    def show_progress(self, progress: Progress) -> None:
        self._look(self._scheme, progress.rounds)

    def finish_scheme(self, outcome: Outcome) -> None:
        pass


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dealfl.runs.result._WRITTEN_EVERY_S", 0.0)
    made = RunFolder(Path("runs/tiny"))
    made.prepare(JOB)
    return made


def test_status_follows_a_run_from_its_start(folder: RunFolder, capsys: Captured) -> None:
    shown: list[str] = []

    def look(scheme: str, rounds: int) -> None:
        assert main(["status"]) == 0
        shown.append(capsys.readouterr().out)

    assert main(["status"]) == 0
    assert "starting: no round is saved yet" in capsys.readouterr().out
    with pytest.raises(BadInput, match=r"no ledger\.db yet: its run is starting; try again soon"):
        RunFolder.at("runs/tiny")
    run = Run(read_fleet(Document.parse(JOB, "tiny.toml")), folder)
    run.save(run.run(Looking(look)), None)
    assert shown[0] == "tiny (runs/tiny/ledger.db)\n  run  deal (1 of 4): reading the data\n"
    assert "  run  deal (1 of 4): round 0 of 3\n" in shown[1]
    second = [text for text in shown if "original (2 of 4): round 2 of 3" in text]
    assert "; the rows below are of the job's own scheme\n  rounds      " in second[0]
    assert "of 3 closed" not in second[0], "the own scheme has no more rounds"
    assert "took part" in second[0]
    assert main(["status"]) == 0
    assert "  run         finished: no examples left\n" in capsys.readouterr().out
    assert folder.progress() is None


def test_the_status_of_a_starting_run_is_an_object(folder: RunFolder, capsys: Captured) -> None:
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "ledger": "runs/tiny/ledger.db", "job": "tiny", "progress": None, "state": "starting",
    }  # fmt: skip


def test_a_stopped_run_says_so(folder: RunFolder, capsys: Captured) -> None:
    run = Run(read_fleet(Document.parse(JOB, "tiny.toml")), folder)

    def look(scheme: str, rounds: int) -> None:
        if scheme == "original" and rounds == 1:
            run.stop()

    with pytest.raises(Interrupted):
        run.run(Looking(look))
    status = read_status(folder)
    assert status.state == "stopped"
    assert status.progress is not None
    assert (status.progress.scheme, status.progress.place) == ("original", 2)
    assert main(["status"]) == 0
    said = capsys.readouterr().out
    assert "  run         stopped in original (2 of 4), round" in said
    assert "continues it; the rows below are of the job's own scheme\n" in said
    Run(read_fleet(Document.parse(JOB, "tiny.toml")), folder).run(Looking(lambda *_: None))
    assert read_status(folder).state == "running", "it is over when its result is saved"
