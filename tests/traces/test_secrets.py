"""Modes of files, keys of owners, reasons without values, and stopped runs."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

import dealfl
from dealfl.cli import main
from dealfl.erasure import owner_hash
from dealfl.protocol.messages import Declined, Refusal, Update
from dealfl.runs import RunFolder, back_up, restore
from dealfl.server import Ledger
from dealfl.simulate import finish, start_run
from dealfl.worker import Journal
from tests.federation.parts import (
    assignment,
    examples,
    item,
    joined,
    pagerank,
    row,
    update,
    welcomed,
)

VALUE = 0.7182818284590452


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    files = [folder, *folder.rglob("*")]
    return [str(path.relative_to(folder)) for path in files if path.stat().st_mode & 0o077]


def small_fleet(workers: int = 3) -> dealfl.Fleet:
    people = [f"person {number % 7}" for number in range(60)]
    features = [[number % 5 / 5, number % 7 / 7] for number in range(60)]
    classes = [number % 2 for number in range(60)]
    return dealfl.Fleet.from_arrays(features, classes, owners=people, workers=workers)


@pytest.mark.usefixtures("no_umask")
def test_only_its_owner_can_read_the_files_of_a_run(tmp_path: Path) -> None:
    dealfl.run(small_fleet(), rounds=2, out=tmp_path / "new" / "run", verbose=False)
    assert {"job.toml", "ledger.db", "owners.key", "log.jsonl"} <= {
        file.name for file in (tmp_path / "new" / "run").iterdir()
    }
    back_up(tmp_path / "new" / "run", tmp_path / "new" / "copies" / "monday")
    restore(tmp_path / "new" / "copies" / "monday", tmp_path / "new" / "again")
    assert open_to_others(tmp_path / "new") == []
    keys = {RunFolder(tmp_path / "new" / name).owners_key() for name in ("run", "again")}
    assert len(keys) == 1, "a backup holds the key"


@pytest.mark.usefixtures("no_umask")
def test_only_its_owner_can_read_a_database_and_its_logs(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir(mode=0o700)
    old = tmp_path / "files" / "old.db"
    Journal(old).close()
    old.chmod(0o644)  # as an earlier version left it
    with closing(Ledger(tmp_path / "files" / "l.db")), closing(Journal(old)) as journal:
        with journal.transaction():
            journal.state.refused = "something"
        assert len(list((tmp_path / "files").glob("*-wal"))) == 2
        assert open_to_others(tmp_path / "files") == []


def test_a_reason_for_quarantine_names_the_feature_and_no_value() -> None:
    journal = Journal()
    one = welcomed(journal=journal)
    one.ingest([("ann", row(0.5, 10 + VALUE, 0.5)), ("bob", row(0.5, 0.5, 0.5, target="secret"))])
    one.ingest([("eve", row(0.5, 0.5)), ("joe", row(0.5, float("nan"), 0.5))])
    one.ingest([("kim", b"\xa7address"), ("lea", msgspec.msgpack.encode((["street"], "a")))])
    reasons = [reason for _, reason in journal.quarantined()]
    assert reasons[:4] == [
        "feature 1 is outside [0, 1]",
        "its class is unknown",
        "X has 2 columns; the model has n_features=3",
        "feature 1 is not a finite number",
    ]
    assert reasons[4:] == ["it is not a valid example"] * 2


def test_a_reason_for_an_item_names_no_item() -> None:
    journal = Journal()
    welcomed(pagerank, journal).ingest([("ann", item(4711))])
    assert [reason for _, reason in journal.quarantined()] == [
        "an item is out of range; items are 0 .. 11"
    ]


def test_no_message_and_no_flag_holds_a_value() -> None:
    one = joined("v", "w")
    one.handle([update(1, delta=-examples(77), name="v"), update(1, 1)], 1.0)
    one.handle([], 500.0)
    assert one.workers["v"].flag == "diverged: no examples have this sum"
    damaged = Update(job="job", worker="w", incarnation=1, sequence=2, round=None, delta=b"4711")
    (refusal,) = [
        message for message in one.handle([damaged], 501.0).messages if isinstance(message, Refusal)
    ]
    assert refusal.reason == "bytes that are not statistics of this job"
    device = welcomed()
    (declined,) = [
        message
        for message in device.handle([assignment(1)], 1.0).messages
        if isinstance(message, Declined)
    ]
    assert declined.reason == "no waiting examples"


def test_every_run_draws_its_key_for_owners_and_keeps_it(tmp_path: Path) -> None:
    keys = set()
    for name in ("a", "b"):
        dealfl.run(small_fleet(), rounds=1, out=tmp_path / name, verbose=False)
        keys.add(RunFolder(tmp_path / name).owners_key())
    assert len(keys) == 2
    assert {len(key) for key in keys} == {32}
    dealfl.run(small_fleet(), rounds=1, out=tmp_path / "a", restart=True, verbose=False)
    assert RunFolder(tmp_path / "a").owners_key() not in keys


def test_results_do_not_depend_on_the_key_for_owners() -> None:
    histories = [[number % 11, (3 * number) % 11, (5 * number) % 7] for number in range(40)]
    fleets = [small_fleet(), dealfl.Fleet.from_histories(histories, workers=4)]
    for fleet in fleets:
        outcomes = []
        for key in (b"a" * 32, b"b" * 32):
            with closing(start_run(fleet.with_rounds(4).simulated, owners_key=key)) as run:
                run.pump()
                outcomes.append(finish(run))
        assert outcomes[0] == outcomes[1]


def test_a_stopped_run_can_be_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = small_fleet().save(tmp_path / "job.toml")
    folder = RunFolder(tmp_path / "run")
    fleet = dealfl.Fleet.from_job(job)
    folder.prepare(fleet.job_text())
    with closing(start_run(fleet.simulated, owners_key=folder.owners_key())) as run:
        run.advance()
        folder.save_state(run.fleet.job.scheme, run.state())
    assert folder.resumable
    assert main(["run", str(job), "--out", str(folder.path), "--discard"]) == 0
    assert "Deleted" in capsys.readouterr().out
    assert [file.name for file in folder.path.iterdir()] == ["job.toml"]
    assert main(["run", str(job), "--out", str(folder.path), "--discard"]) == 2


def test_names_of_owners_are_compared_as_people_read_them() -> None:
    assert owner_hash(b"key", "René") == owner_hash(b"key", " Rene\u0301\t")
    assert owner_hash(b"key", "René") != owner_hash(b"key", "Rene")
