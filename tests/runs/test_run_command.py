"""`dealfl run`: run twice, with typos, in foreign places."""

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.runs import Interrupted, RunFolder
from dealfl.simulate import Outcome
from tests.runs.made_runs import read_result


def test_a_job_leaves_everything_in_one_folder(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(job)]) == 0
    folder = Path("runs/tiny")
    assert sorted(file.name for file in folder.iterdir()) == [
        "job.toml", "ledger.db", "log.jsonl", "owners.key", "record", "report.html",
        "result.json", "workers",
    ]  # fmt: skip
    told = capsys.readouterr().out
    assert "deal" in told
    assert "original" in told
    assert "equals that of central training" in told
    assert str(folder / "report.html") in told
    assert "forget_fraction = " in (folder / "report.html").read_text(encoding="utf-8")
    found = read_result(folder)
    assert found["exact"]
    assert list(found["outcomes"]) == ["deal", "original", "newfl", "incremental"]
    assert main(["status", str(folder)]) == 0
    assert main(["model", "info", str(folder)]) == 0
    assert found["outcomes"]["deal"]["digest"][:12] in capsys.readouterr().out


def test_the_report_is_written_again(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(job), "--set", "job.rounds=2"]) == 0
    page = Path("runs/tiny/report.html")
    written = page.read_text("utf-8")
    page.unlink()
    capsys.readouterr()
    assert main(["report", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"] == str(page)
    assert page.read_text("utf-8") == written
    assert main(["report", "runs/tiny", "--out", "other.html"]) == 0
    assert Path("other.html").read_text("utf-8") == written
    Path("runs/tiny/record").unlink()
    assert main(["report", "runs/tiny"]) == 2
    assert "runs/tiny has no finished run" in capsys.readouterr().err


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
    assert read_result(Path("runs/tiny-2")) == read_result(Path("runs/tiny"))
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
    assert len(read_result(Path("runs/tiny"))["outcomes"]["deal"]["rounds"]) == 3
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


def test_a_job_continues_from_a_model(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(job), "--no-compare"]) == 0
    assert main(["model", "export", "runs/tiny", "--out", "tiny.deal"]) == 0
    assert main(["run", str(job), "--no-compare", "--from", "tiny.deal", "--out", "next"]) == 0
    first = read_result(Path("runs/tiny"))["outcomes"]["deal"]
    second = read_result(Path("next"))["outcomes"]["deal"]
    assert second["exact"]
    assert "(plus tiny.deal)" in capsys.readouterr().out
    assert second["digest"] != first["digest"], "it knows everything twice now"


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
def test_what_cannot_be_done_is_reported_with_exit_code_2(
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
    outcome = read_result(Path("runs/tiny"))["outcomes"]["deal"]
    by_round = sum(one["learned"] for one in outcome["rounds"])
    assert 0 < by_round <= outcome["learned"]
    assert by_round >= 0.8 * outcome["learned"], "late replies count, too"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_reported(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("runs").mkdir(mode=0o500)
    assert main(["run", str(job)]) == 2
    assert "give another with --out" in capsys.readouterr().err


def test_a_run_that_learns_nothing_ends_and_forgets_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--no-compare", "--json", "--out", str(tmp_path / "run")]
    assert main(["run", *options, "--set", "job.max_h=0.01"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["outcomes"]["deal"]["learned"] == 0
    assert told["forgotten"] is None


def test_the_command_that_resumes_has_all_options_and_is_quoted(
    job: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise Interrupted

    monkeypatch.setattr("dealfl.api.run", stop)
    words = ["run", str(job), "--out", "my runs/first", "--set", "job.name=it's", "--no-compare"]
    assert main([*words, "--discard-data", "--processes", "1", "--restart"]) == 130
    command = capsys.readouterr().err.partition("continue with: ")[2].strip()
    resumed = shlex.split(command)
    assert resumed[:3] == ["dealfl", "run", "--resume"]
    rest = ["--out", "my runs/first", "--set", "job.name=it's", "--no-compare", "--discard-data"]
    assert sorted(resumed[3:]) == sorted([str(job), *rest, "--processes", "1"])
