"""Phones that are taken out of the model of a run."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dealfl.cli import main
from dealfl.errors import BadInput, UnknownName
from dealfl.runs import (
    RunFolder,
    export_model,
    open_model,
    read_status,
    read_workers,
    remove_worker,
)
from dealfl.server import Ledger
from tests.federation.parts import announce, bayes, examples, joined, update
from tests.runs.made_runs import make_run
from tests.simulate import fleets

Captured = pytest.CaptureFixture[str]


def test_a_removed_phone_s_part_is_gone(run: Path, capsys: Captured) -> None:
    before = open_model(run).learner
    ledger = Ledger(run / "ledger.db")
    part = ledger.find_sum("w01")
    query = "SELECT content FROM pages WHERE owner = 'w01' ORDER BY length(content) DESC"
    needle = ledger.execute(query).fetchone()[0][200:400]
    ledger.close()
    assert part is not None
    assert needle in (run / "ledger.db").read_bytes()
    assert main(["workers", "remove", str(run), "w01", "--yes", "--json"]) == 0
    assert not list(run.glob("ledger.db-*")), "what was deleted is in no log"
    assert needle not in (run / "ledger.db").read_bytes()
    removed = json.loads(capsys.readouterr().out)
    assert removed["digest_before"] == before.digest()
    after = open_model(run).learner
    assert after.statistics == before.statistics - part
    assert removed["digest_after"] == after.digest() != before.digest()
    states = {one.name: one for one in read_workers(RunFolder.at(run))}
    assert (states["w01"].state, states["w01"].flag) == ("removed", "removed")
    assert states["w01"].incarnation == removed["incarnation"] == 2


def test_status_and_model_say_alike_that_the_published_version_is_older(
    run: Path, capsys: Captured
) -> None:
    version = read_status(RunFolder.at(run)).version
    assert main(["workers", "remove", str(run), "w01", "--yes"]) == 0
    told = capsys.readouterr().out
    assert f"still version {version}. Version {version + 1} will not contain them." in told
    status, info = read_status(RunFolder.at(run)), open_model(run).info()
    assert status.statistics_digest == info["digest"]
    assert status.published_digest != info["digest"]
    assert (info["version"], info["changed_since_version"]) == (version, True)
    assert main(["status", str(run)]) == 0
    shown = capsys.readouterr().out
    assert f"version {version} after" in shown
    assert f"; changed since to {info['digest'][:16]}…, not published yet" in shown
    assert main(["model", "info", str(run)]) == 0
    assert re.search(r"changed since version +yes", capsys.readouterr().out)
    export_model(open_model(run), run / "model.deal")
    assert open_model(run / "model.deal").info()["changed_since_version"] is True


def test_a_removal_opens_no_round_and_keeps_the_selector(tmp_path: Path) -> None:
    text = fleets.TEXT.replace("rounds = 8", 'rounds = 3\nselector = "fair_ucb"')
    make_run(tmp_path, text)
    (tmp_path / "job.toml").write_text(text.replace("rounds = 3", "rounds = 30"))
    kept = selector_state(tmp_path)
    known = [f"w{number:02}" for number in range(1, 16) if b"w%02d" % number in kept]
    remove_worker(RunFolder.at(tmp_path), known[0])
    status = read_status(RunFolder.at(tmp_path))
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
    before = read_status(RunFolder.at(tmp_path))
    assert before.open_round is not None
    removed = remove_worker(RunFolder.at(tmp_path), "anna")
    after = read_status(RunFolder.at(tmp_path))
    assert after.open_round == before.open_round
    assert after.updates_waiting == 1, "what waits is counted when the round closes"
    model = bayes()
    model.merge(examples(1))
    assert removed.digest_after == model.digest()


def selector_state(folder: Path) -> bytes:
    ledger = Ledger(folder / "ledger.db")
    state = ledger.list_parts("selector")
    ledger.close()
    return b"".join(state.values())


def test_a_removal_has_to_be_meant(
    run: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = open_model(run).info()["digest"]
    words = ["workers", "remove", str(run), "w01"]
    monkeypatch.setattr("sys.stdin", Answers("", terminal=False))
    assert main(words) == 2
    assert "cannot be undone; confirm with --yes" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", Answers("no\n"))
    assert main(words) == 2
    assert "nothing was changed" in capsys.readouterr().err
    assert open_model(run).info()["digest"] == before
    monkeypatch.setattr("sys.stdin", Answers("yes\n"))
    assert main(words) == 0
    assert open_model(run).info()["digest"] != before


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
    before = open_model(run).info()["digest"]

    def fails(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("dealfl.server.ledger.UpdateStore.drop", fails)
    with pytest.raises(OSError, match="disk full"):
        remove_worker(RunFolder.at(run), "w01")
    monkeypatch.undo()
    assert open_model(run).info()["digest"] == before
    assert read_workers(RunFolder.at(run))[0].incarnation == 1


def test_nothing_is_removed_from_a_run_without_a_model(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    joined("anna", ledger=ledger).handle([update(1, name="anna", incarnation=9)], 1.0)
    ledger.close()
    with pytest.raises(BadInput, match="has no model yet, so 'anna' has no part in it"):
        remove_worker(RunFolder.at(tmp_path), "anna")
