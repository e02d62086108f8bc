"""Single examples, readmission, new keys, and requests to a run that is under way."""

import dataclasses
import json
import math
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import dealfl
from dealfl.cli import main
from dealfl.erasure import ErasureRequest, owner_hash
from dealfl.errors import BadInput
from dealfl.report import summarize
from dealfl.runs import (
    RunFolder,
    erase_owners,
    find_holdings,
    list_erasures,
    readmit_owners,
    retrain,
)
from dealfl.runs.erasing import carry_out
from dealfl.runs.erasures import find_queued, put_request
from dealfl.runs.finished_run import open_finished
from dealfl.simulate import FleetRun
from dealfl.worker import State
from dealfl.worker.trainer import Trainer
from tests.runs.erased_people import LEARNERS, make_fleet

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def run(people_run: RunFolder) -> RunFolder:
    return people_run


def find_ids(run: RunFolder, owner: str) -> list[str]:
    return [identity for one in find_holdings(run, owner) for identity in one.ids]


def find_holder(run: RunFolder) -> str:
    return next(name for n in range(12) if len(find_ids(run, name := f"person {n}")) > 1)


@pytest.mark.parametrize("learner", LEARNERS)
def test_one_example_is_erased_and_its_owner_keeps_the_others(learner: str, tmp_path: Path) -> None:
    dealfl.run(make_fleet(tmp_path, learner), rounds=3, out=tmp_path / "run", verbose=False)
    run = RunFolder.at(tmp_path / "run")
    holder = find_holder(run)
    ids = find_ids(run, holder)
    before = retrain(run)
    erased = erase_owners(run, [], requested_by="test", examples=[ids[0][:12]]).erasure
    assert (erased.examples, erased.final, erased.persons) == (ids.count(ids[0]), True, 1)
    assert erased.after is not None
    assert erased.after.digest == retrain(run) != before
    assert find_ids(run, holder) == [one for one in ids if one != ids[0]]


def test_an_unknown_or_ambiguous_example_is_answered(run: RunFolder, capsys: Captured) -> None:
    where = [str(run.path)]
    assert main(["erase", *where, "--example", "0" * 10]) == 2
    assert "0 examples have an id that begins with '0000000000'" in capsys.readouterr().err
    assert main(["erase", *where, "--example", ""]) == 2
    assert main(["erase", *where, "--example", "z" * 64]) == 2
    assert "is not the id of an example" in capsys.readouterr().err
    assert main(["erase", *where, "--example", "0" * 64, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["examples"] == 0
    assert main(["show", *where, find_holder(run), "--ids"]) == 0
    assert find_ids(run, find_holder(run))[0] in capsys.readouterr().out


def test_a_readmitted_person_brings_new_examples_only(run: RunFolder) -> None:
    holder = find_holder(run)
    bodies = held_bodies(run, owner_hash(run.owners_key(), holder))
    erase_owners(run, [holder], requested_by="test")
    assert ingest(run, holder, bodies) == 0, "an erased person cannot come back"
    assert readmit_owners(run, [holder, "nobody"], requested_by="ann herself") == 1
    assert ingest(run, holder, bodies) == 0, "the old examples stay erased"
    others = held_bodies(run)
    worker = next(name for name in others if bodies[name])
    new = next(body for body in others[worker] if body not in bodies[worker])
    assert ingest(run, holder, {worker: [new]}) == 1
    kinds = [(one.kind, one.requested_by) for one in list_erasures(run)]
    assert kinds == [("erase", "test"), ("readmit", "ann herself")]
    again = erase_owners(run, [holder], requested_by="test")
    assert (again.erasure.claimed, again.known_before, again.erasure.final) == (1, 0, True)


def held_bodies(run: RunFolder, owner: bytes | None = None) -> dict[str, list[bytes]]:
    """Return the learned examples of an owner, or of all, by worker."""
    with open_finished(run, run.owners_key()) as parts:
        return {
            name: [
                one.body
                for one in journal.records(State.LEARNED)
                if owner is None or one.owner == owner
            ]
            for name, journal in parts.journals.items()
        }


def ingest(run: RunFolder, owner: str, bodies: dict[str, list[bytes]]) -> int:
    """Return how many examples the workers accept."""
    with open_finished(run, run.owners_key()) as parts:
        done = [
            parts.simulation.workers[name].ingest([(owner, body) for body in own])
            for name, own in bodies.items()
        ]
        return sum(one.waiting + one.held_back for one in done)


def test_certificates_of_a_rotated_key_stay_valid(run: RunFolder, capsys: Captured) -> None:
    first = erase_owners(run, ["person 1"], requested_by="test").certificate
    where, log = [str(run.path)], ["--log", str(run.path / "certificates")]
    assert main(["verify", str(first), *log]) == 0
    assert main(["erasures", "rotate-key", *where]) == 0
    assert main(["verify", str(first), *log]) == 0, "the head is signed by the old key"
    second = erase_owners(run, ["person 2"], requested_by="test").certificate
    for path in (first, second):
        assert main(["verify", str(path), *log]) == 0
    keys = sorted((run.path / "certificates" / "keys").glob("*.pem"))
    assert len(keys) == 2
    assert sorted(main(["verify", str(first), "--key", str(key)]) for key in keys) == [0, 2]


def test_status_names_the_workers_that_have_not_answered(run: RunFolder, capsys: Captured) -> None:
    where = [str(run.path)]
    erase_owners(run, ["person 1"], requested_by="test")
    assert main(["erasures", "status", *where]) == 0
    assert "All workers have answered" in capsys.readouterr().out
    with open_finished(run, run.owners_key()) as parts:  # the request reaches nobody
        parts.server.erase("late", [b"x" * 32], 5.0, "test")
    assert main(["erasures", "status", *where, "--json"]) == 0
    waiting = json.loads(capsys.readouterr().out)
    assert {one["worker"] for one in waiting} == {"w1", "w2", "w3", "w4"}
    assert {(one["request"], one["since_s"]) for one in waiting} == {("late", 5.0)}
    assert main(["erasures", "status", *where]) == 0
    assert "s after the start" in capsys.readouterr().out


class UnderWay:
    """A run in a thread that stops at its first round until it is released."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._entered, self._go_on = threading.Event(), threading.Event()
        advance = FleetRun.advance

        def wait(run: FleetRun, *rest: object) -> None:
            advance(run, *rest)  # type: ignore[arg-type]
            self._entered.set()
            self._go_on.wait(60)

        self._patch = monkeypatch
        monkeypatch.setattr(FleetRun, "advance", wait)
        monkeypatch.setattr("dealfl.runs.run._SAVE_EVERY_S", -1.0)
        monkeypatch.setattr("dealfl.runs.run._SAVING_SHARE", math.inf)
        fleet = make_fleet(folder, "naive_bayes")
        words = {"rounds": 3, "out": folder / "run", "verbose": False, "compare": True}
        self.thread = threading.Thread(target=lambda: dealfl.run(fleet, **words))  # type: ignore[arg-type]
        self.thread.start()
        self._entered.wait(60)

    def release(self) -> None:
        self._patch.setattr("dealfl.runs.run._SAVE_EVERY_S", 60.0)
        self._go_on.set()
        self.thread.join(60)


def test_a_run_under_way_erases_and_certifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, run = UnderWay(tmp_path, monkeypatch), RunFolder(tmp_path / "run")
    new = ErasureRequest.erasing(["person 3"], [], run.owners_key(), "dpo")
    put_request(run, new)
    one.release()
    assert find_holdings(run, "person 3") == []
    (status,) = list_erasures(run)
    assert (status.requested_by, status.published, status.outstanding) == ("dpo", True, [])
    assert [path.name for path in (run.path / "certificates").glob("*.json")] == ["0001.json"]
    assert not (run.path / "requests").exists()
    erased = erase_owners(run, ["person 3"], requested_by="test")
    assert erased.erasure.after is not None
    assert (erased.known_before, erased.erasure.after.digest) == (1, retrain(run))


def test_a_request_waits_for_the_run_no_longer_than_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, run = UnderWay(tmp_path, monkeypatch), RunFolder(tmp_path / "run")
    while not run.ledger.exists():
        one._go_on.set()
        time.sleep(0.01)
    monkeypatch.setattr("dealfl.runs.run._SAVE_EVERY_S", 60.0)
    lines: list[str] = []
    erased = erase_owners(run, ["person 3"], requested_by="", wait_s=60.0, progress=lines.append)
    one.release()
    assert erased.erasure.final
    assert find_holdings(run, "person 3") == []


def test_a_stopped_run_answers_with_a_certificate_that_is_not_final(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, run = make_fleet(tmp_path, "naive_bayes"), RunFolder(tmp_path / "run")
    advance, calls = FleetRun.advance, []

    def interrupt(one: FleetRun, *rest: object) -> None:
        advance(one, *rest)  # type: ignore[arg-type]
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(FleetRun, "advance", interrupt)
    monkeypatch.setattr("dealfl.runs.run._SAVE_EVERY_S", -1.0)
    monkeypatch.setattr("dealfl.runs.run._SAVING_SHARE", math.inf)
    with pytest.raises(KeyboardInterrupt):
        dealfl.run(fleet, rounds=8, out=run.path, verbose=False)
    monkeypatch.setattr("dealfl.runs.run._SAVE_EVERY_S", 60.0)
    lines: list[str] = []
    erased = erase_owners(run, ["person 3"], requested_by="", progress=lines.append).erasure
    assert (erased.final, erased.outstanding) == (False, erased.workers)
    assert "the run is stopped" in lines[0]
    assert [one.kind for one in list_erasures(run)] == ["queued"]
    dealfl.run(fleet, rounds=8, out=run.path, verbose=False, resume=True)
    assert [one.published for one in list_erasures(run)] == [True]
    assert find_holdings(run, "person 3") == []
    (run.path / "requests").mkdir()
    (run.path / "requests" / "bad.json").write_text("{")
    with pytest.raises(BadInput, match="is damaged"):
        erase_owners(run, ["person 4"], requested_by="")


def test_a_run_can_end_with_an_erasure(tmp_path: Path) -> None:
    fleet = make_fleet(tmp_path, "naive_bayes")
    result = dealfl.run(fleet, rounds=4, out=tmp_path / "run", verbose=False, forget_one=True)
    one = result.outcomes.forgotten
    assert one is not None
    assert (one.exact, result.exact, one.examples > 0) == (True, True, True)
    assert result.digest != one.digest == one.never_saw_digest == result.model.digest()
    assert main(["verify", str(tmp_path / "run"), one.certificate, "--retrain"]) == 0
    text, page = repr(result), (tmp_path / "run" / "report.html").read_text("utf-8")
    for written in (one.digest[:32], one.certificate):
        assert written in text
        assert written in page
    changed = dataclasses.replace(one, never_saw_digest="0" * 64)
    wrong = dataclasses.replace(result.outcomes, forgotten=changed)
    assert not wrong.exact
    assert "NOT EQUAL" in summarize(wrong)


def test_a_process_killed_after_the_certificate_does_not_certify_again(
    people_run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ErasureRequest.erasing(["person 3"], [], people_run.owners_key(), "test")
    file = put_request(people_run, request)

    unlink = Path.unlink

    def killed(path: Path, missing_ok: bool = False) -> None:
        if path == file:
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            carry_out(people_run)
    (certificate,) = (people_run.path / "certificates").glob("*.json")
    assert file.exists(), "the request is still in the queue"
    assert carry_out(people_run) == {file: certificate}
    assert [*(people_run.path / "certificates").glob("*.json")] == [certificate]


def test_the_file_of_a_request_holds_no_name_and_no_salt(people_run: RunFolder) -> None:
    request = ErasureRequest.erasing(["person 3"], [], people_run.owners_key(), "test")
    content = put_request(people_run, request).read_bytes()
    (salt,) = request.salts.values()
    assert salt.encode() not in content
    assert b"person 3" not in content


def test_copies_are_deleted_although_somebody_is_readmitted_in_the_same_queue(
    people_run: RunFolder,
) -> None:
    key = people_run.owners_key()
    model = people_run.path / "model.deal"
    model.write_bytes(b"DEALFILE")
    put_request(people_run, ErasureRequest.readmitting(["person 1"], key, "test"))
    put_request(people_run, ErasureRequest.erasing(["person 3"], [], key, "test"))
    carry_out(people_run)
    assert not model.exists()


@pytest.mark.parametrize("calls", [pytest.param(1, marks=pytest.mark.soak), 6])
def test_a_request_of_many_persons_killed_midway_is_completed_and_certified_as_one(
    people_run: RunFolder, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    names = [f"person {number}" for number in range(12_001)]
    learned = sum(one.learned for name in names[:12] for one in find_holdings(people_run, name))
    apply, left = Trainer.apply_request, iter(range(calls))

    def killed(trainer: Trainer, entries: Sequence[bytes], now_s: float) -> int:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return apply(trainer, entries, now_s)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "apply_request", killed)
        with pytest.raises(KeyboardInterrupt):
            erase_owners(people_run, names, requested_by="test")
    (status,) = list_erasures(people_run)
    assert (status.persons, status.published) == (12_001, False)
    assert len(status.outstanding) == 4, "no worker has answered all of it"
    erasure = erase_owners(people_run, names, requested_by="test").erasure
    first, again = list_erasures(people_run)
    assert (first.persons, first.published, first.outstanding) == (12_001, True, [])
    assert (again.persons, again.published, again.outstanding) == (12_001, True, [])
    assert first.examples + again.examples == learned
    assert (erasure.persons, erasure.final) == (12_001, True)
    assert erasure.after is not None
    assert erasure.after.digest == retrain(people_run)
    assert find_queued(people_run) == {}
    certificates = [*(people_run.path / "certificates").glob("*.json")]
    assert len(certificates) == 2, "one for each request"
    assert not any(held_bodies(people_run).values())
