"""`run --desk` and `serve --desk`: a desk that lives as long as its parent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.desk.desks import ChildDesk, Visitor, pid_of
from tests.network.forks import Forks, is_alive, wait_for
from tests.runs.made_runs import TINY


def test_a_desk_watches_a_run_from_its_start_and_ends_with_it(forks: Forks, tmp_path: Path) -> None:
    options = ["--out", tmp_path / "run", "--desk", "--no-compare", "--processes", 1]
    run = forks.start(tmp_path / "run.log", ["run", *options])
    desk = ChildDesk(tmp_path / "run.log")
    visitor = Visitor(desk)
    wait_for(lambda: "digits" in visitor.get("/job").text, "the job")
    wait_for(lambda: "round closed" in visitor.get("/job").text, "the log of the first rounds")
    wait_for(lambda: "deal (1 of 1)" in visitor.get("/rounds").text, "the progress")
    assert "has not saved its ledger yet" in visitor.get("/fleet").text
    refused = visitor.post("/erasure/erase", owner="1", confirmed="yes")
    assert "only shows" in refused.text
    pid = pid_of(tmp_path / "run")
    forks.end(run)  # kill −9
    wait_for(lambda: not is_alive(pid), "the end of the desk")


def test_a_run_without_starlette_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from dealfl.cli import desk, main

    monkeypatch.setattr(desk, "find_spec", lambda _: None)
    job = tmp_path / "job.toml"
    job.write_text(TINY)
    assert main(["run", str(job), "--out", str(tmp_path / "run"), "--desk"]) == 1
    assert "pip install 'dealfl[desk]'" in capsys.readouterr().err
