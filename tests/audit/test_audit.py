"""Attacks on models whose answer is obvious, and the audit of a run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import dealfl
from dealfl.audit import Counts, audit_run, find_touched_items, try_attacks
from dealfl.cli import main
from dealfl.errors import DatasetMissing
from dealfl.runs import RunFolder
from tests.runs.erased_people import LEARNERS, make_fleet

# user 0 has the items 0, 1; item 3 goes with item 1 only; item 4 with nobody of them
HISTORIES = sparse.csr_array(
    np.array([[1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 0, 1], [1, 0, 0, 0, 1]])
)


def test_the_papers_attack_flags_too_much_and_the_refined_one_does_not() -> None:
    whole = Counts.of(HISTORIES)
    now = whole.without(np.array([0, 1]))
    assert (now.items == Counts.of(HISTORIES[1:]).items).all()
    assert (now.pairs == Counts.of(HISTORIES[1:]).pairs).all()
    literal = find_touched_items(whole, now, refined=False)
    assert literal.tolist() == [True, True, True, True, True]
    refined = find_touched_items(whole, now, refined=True)
    assert refined.tolist() == [True, True, False, False, False]
    assert not find_touched_items(now, now, refined=False).any(), "nothing to compare"


def test_a_single_erasure_is_exposed_and_a_batch_less() -> None:
    points = try_attacks("regression", trials=20, sizes=(1, 32))
    best = {(one.attack, one.size): one.quality for one in points}
    assert best["one update, ridge", 1] > 0.999
    assert best["two ridge models", 1] > 0.95
    assert best["one erasure among others, ridge", 32] < 0.3
    for one in points:
        assert one.quality > one.floor


def test_attacks_on_movielens(require_data: Callable[[str], None]) -> None:
    require_data("movielens")
    points = try_attacks("recommender", trials=12, sizes=(1, 128))
    found = {(one.attack, one.size, one.measure): one.quality for one in points}
    assert found["stale model, as in the paper", 1, "mean recall"] == 1.0
    assert found["stale model, as in the paper", 1, "mean precision"] < 0.1
    assert found["stale model, refined", 1, "mean recall"] >= 0.99
    assert found["stale model, refined", 1, "mean precision"] >= 0.99
    exposed = "two versions of similarities", "share of histories exposed"
    assert found[exposed[0], 1, exposed[1]] == 1.0
    assert found[exposed[0], 128, exposed[1]] < 0.9
    update = "one update, similarities", "overlap with the nearest history"
    assert found[update[0], 1, update[1]] == 1.0, "an update of one person is the person"
    assert found[update[0], 128, update[1]] > 0.9, "somebody has an item of their own"


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_run_is_inspected_and_not_changed(
    learner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attack(subject: str, *_: object, **__: object) -> list[object]:
        if subject == "recommender":
            raise DatasetMissing("words of a library")
        return []

    monkeypatch.setattr("dealfl.audit.auditing.try_attacks", attack)
    dealfl.run(make_fleet(tmp_path, learner), rounds=3, out=tmp_path / "run", verbose=False)
    run = RunFolder.at(tmp_path / "run")
    before = {path: path.read_bytes() for path in run.path.glob("workers/*.db")}
    audit = audit_run(run)
    assert audit.holds
    assert audit.notes[0] == (
        "attacks on a recommender model are left out: movielens is missing; "
        "`dealfl datasets fetch movielens` downloads it"
    )
    assert {path: path.read_bytes() for path in run.path.glob("workers/*.db")} == before
    bytes_found = audit.findings[-1]
    assert bytes_found.after == 0
    assert (bytes_found.before or 0) > 0 or learner == "personalized_pagerank"


def test_a_ghost_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dealfl.audit.auditing.try_attacks", lambda *_, **__: [])
    dealfl.run(make_fleet(tmp_path, "naive_bayes"), rounds=3, out=tmp_path / "run", verbose=False)
    assert main(["audit", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["holds"]
    assert "no trace was found" in (tmp_path / "run" / "audit.html").read_text("utf-8")
    largest = max((tmp_path / "run" / "workers").glob("*.db"), key=lambda one: one.stat().st_size)
    other = next(one for one in (tmp_path / "run" / "workers").glob("*.db") if one != largest)
    shutil.copy(other, largest)  # the journal no longer holds what the model has
    assert main(["audit", str(tmp_path / "run")]) == 1
    assert "NO" in capsys.readouterr().out
    assert main(["audit", str(tmp_path / "run"), "--trials", "0"]) == 2
