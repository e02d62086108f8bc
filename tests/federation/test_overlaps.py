"""One writer at a time: locks that end with their process, terms that fence, totals that add up."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.errors import BadBytes, BadInput, Fenced
from dealfl.exact import ArraySpec, Entries, Schema, Statistics
from dealfl.server import Ledger, Server, rebuild_total
from dealfl.worker import Journal
from tests.federation.parts import Connect, bayes, examples, joined, row, server, update, worker


def test_a_second_server_on_a_ledger_is_refused_with_the_process_that_has_it(
    tmp_path: Path,
) -> None:
    first = Ledger(tmp_path / "l.db")
    server(first)
    second = Ledger(tmp_path / "l.db")
    with pytest.raises(BadInput, match=rf"in use by process {os.getpid()}"):
        server(second)
    first.close()
    server(second)
    second.close()
    assert not (tmp_path / "l.db-lock").exists()


def test_a_second_worker_on_a_journal_is_refused(tmp_path: Path) -> None:
    first, second = Journal(tmp_path / "j.db"), Journal(tmp_path / "j.db")
    worker(journal=first)
    with pytest.raises(BadInput, match=r"journal .* is in use by process"):
        worker(journal=second)
    first.close()
    second.close()


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from dealfl.server import Ledger; "
        "Ledger(sys.argv[1]).claim(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "l.db")], check=False)
    assert (tmp_path / "l.db-lock").exists(), "it was killed while it held the lock"
    ledger = Ledger(tmp_path / "l.db")
    server(ledger)
    ledger.close()


def overlapping(path: Path) -> tuple[Ledger, Server, Server]:
    """Return two servers on one ledger, as on a file system without locks."""
    first = Ledger(path)
    old = joined("v", "w", ledger=first)
    old.handle([update(1, 3, name="v", round=1)], 1.0)
    Path(f"{path}-lock").unlink()  # nobody sees the lock
    second = Ledger(path)
    new = server(second)
    return second, old, new


def test_an_older_server_that_still_writes_is_fenced_and_writes_nothing(tmp_path: Path) -> None:
    second, old, new = overlapping(tmp_path / "l.db")
    new.handle([update(1, 2, name="w", round=1)], 2.0)
    with pytest.raises(Fenced, match="opened by another process"):
        old.handle([update(2, 5, name="v")], 3.0)
    with pytest.raises(Fenced):
        old.erase("r", [b"ann"], 3.0)
    new.handle([], 500.0)
    assert second.updates.find("v", 1, 2) is None
    assert new.model.statistics == examples(5)
    assert server(second).model.digest() == new.model.digest()
    second.close()


def test_a_server_object_that_was_replaced_on_the_same_ledger_is_fenced() -> None:
    ledger = Ledger()
    old = joined(ledger=ledger)
    server(ledger)
    with pytest.raises(Fenced):
        old.handle([], 1.0)


def test_an_older_worker_that_still_writes_is_fenced() -> None:
    journal = Journal()
    old = worker(journal=journal)
    worker(journal=journal)
    with pytest.raises(Fenced):
        old.ingest([("ann", row(0.0, 0.5, 1.0))])
    with pytest.raises(Fenced):
        old.handle([], 1.0)


# -- the total is the sum of all workers --------------------------------------------------------


def stale(path: Path) -> Ledger:
    """Return a ledger whose total was written by a process that did not see all updates."""
    connect = Connect()
    ledger = Ledger(path, connect=connect)
    one = joined("v", "w", ledger=ledger)
    one.handle([update(1, 3, name="v", round=1), update(1, 2, name="w", round=1)], 1.0)
    ledger.sums.replace_total(examples(3))
    return ledger


def test_a_total_that_is_not_the_sum_of_its_workers_is_found_at_the_start(tmp_path: Path) -> None:
    ledger = stale(tmp_path / "l.db")
    with pytest.raises(BadBytes, match="total is not the sum of its workers; compute it again"):
        server(ledger)
    assert rebuild_total(ledger, bayes).statistics == examples(5)
    assert server(ledger).model.statistics == examples(5)
    ledger.close()


def test_a_rebuilt_total_is_the_sum_also_where_a_fingerprint_was_wrong() -> None:
    ledger = Ledger()
    one = joined("v", "w", ledger=ledger)
    one.handle([update(1, 3, name="v", round=1), update(1, 2, name="w", round=1)], 1.0)
    ledger.sums.replace("v", examples(4), 12345)
    with pytest.raises(BadBytes, match="not the sum"):
        server(ledger)
    assert rebuild_total(ledger, bayes).statistics == examples(6)
    assert server(ledger).model.statistics == examples(6)


def test_restoring_a_ledger_onto_itself_computes_its_total_again(tmp_path: Path) -> None:
    stale(tmp_path / "ledger.db").close()
    words = ["restore", str(tmp_path / "ledger.db"), "--to", str(tmp_path), "--force"]
    assert main(words) == 0
    ledger = Ledger(tmp_path / "ledger.db")
    assert server(ledger).model.statistics == examples(5)
    ledger.close()


def test_a_base_model_is_part_of_the_total_and_of_no_worker() -> None:
    ledger = Ledger()
    one = joined(ledger=ledger)
    one.start_from(examples(7))
    one.handle([update(1, 2, round=1)], 1.0)
    assert server(ledger).model.statistics == examples(9)
    again = server(ledger)
    again.remove("w", 2.0)
    assert again.model.statistics == examples(7)
    again.start_from(examples(1))
    assert server(ledger).model.statistics == examples(1)


@pytest.mark.parametrize("wide", [False, True])
def test_a_fingerprint_is_exact_and_additive(wide: bool) -> None:
    draw = random.Random(5)
    schema = Schema("x", {}, (ArraySpec("a", 10**6, wide), ArraySpec("b", 10**6, wide)))
    top = 2**62 if not wide else 2**90

    def some(count: int) -> Statistics:
        arrays = {
            name: Entries.of(
                {draw.randrange(10**6): draw.randint(-top, top) for _ in range(count)}, wide
            )
            for name in ("a", "b")
        }
        return Statistics(schema, arrays)

    first, second = some(200), some(100)
    prime = 2**61 - 1
    assert (first + second).fingerprint(9) == (first.fingerprint(9) + second.fingerprint(9)) % prime
    assert (-first).fingerprint(9) == -first.fingerprint(9) % prime
    changed = {**first.arrays, "a": first["a"] + Entries.of({7: 1}, wide)}
    assert Statistics(schema, changed).fingerprint(9) != first.fingerprint(9)
    swapped = {"a": first["b"], "b": first["a"]}
    assert Statistics(schema, swapped).fingerprint(9) != first.fingerprint(9)
    # against integers of Python: the key of each index is what one value there gives
    entries, expected = first["a"], 0
    for index, value in entries.to_dict().items():
        alone = {"a": Entries.of({index: 1}, wide), "b": Entries.of({}, wide)}
        expected += value * Statistics(schema, alone).fingerprint(9)
    only = {"a": entries, "b": Entries.of({}, wide)}
    assert Statistics(schema, only).fingerprint(9) == expected % prime


def test_a_fingerprint_is_the_same_in_every_version() -> None:
    assert examples(3).fingerprint(9) == 2_032_020_623_055_448_942


# -- run folders --------------------------------------------------------------------------------


def test_two_runs_in_one_folder_do_not_both_succeed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = (
        "import sys; from pathlib import Path; from dealfl.runs import RunFolder\n"
        "with RunFolder(Path(sys.argv[1])).locked():\n"
        "    print('locked', flush=True); sys.stdin.read()"
    )
    out = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        assert main(["run", "--out", str(out), "--no-compare", "--set", "job.rounds=1"]) == 2
        assert f"in use by process {other.pid}" in capsys.readouterr().err
        assert sorted(file.name for file in out.iterdir()) == ["running"]
        other.kill()
        other.communicate()
    shutil.rmtree(out)
