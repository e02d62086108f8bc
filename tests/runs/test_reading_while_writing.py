"""Looking at a ledger that another process writes to, and changing nothing behind its back."""

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.errors import BadInput
from dealfl.runs import RunFolder, back_up, open_model, read_status, remove_worker, restore
from dealfl.storage import require_unused

ROOT = Path(__file__).parents[2]


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Path]:
    """Return a run whose server is writing."""
    words = [sys.executable, "-m", "tests.runs.writing", str(tmp_path / "ledger.db")]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "begun\n"
        yield tmp_path
        assert writer.poll() is None, "looking on must not stop the writer"
        writer.kill()


def test_the_status_is_always_of_one_moment(written: Path) -> None:
    run, seen = RunFolder.at(written), 0
    while seen < 30:
        status = read_status(run)
        assert status.rounds_closed >= seen
        # a round is closed and published, and its updates are counted, in one transaction
        assert status.version == status.rounds_closed
        assert status.published_digest == status.round_digest
        assert status.updates_counted + status.updates_waiting >= 2 * status.rounds_closed
        assert status.examples_learned == status.updates_counted + status.updates_waiting
        seen = status.rounds_closed


def test_a_model_is_read_and_copied_meanwhile(written: Path, tmp_path: Path) -> None:
    run = RunFolder.at(written)
    while not read_status(run).rounds_closed:
        pass
    assert open_model(written).learner.statistics["counts"].to_dict()[0] >= 2
    back_up(written, tmp_path / "copy")
    assert read_status(RunFolder.at(tmp_path / "copy")).rounds_closed >= 1


def test_nothing_is_changed_behind_a_server(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadInput, match="in use by another process; stop it"):
        remove_worker(RunFolder.at(written), "anna")
    assert main(["workers", "remove", str(written), "anna", "--yes"]) == 2
    assert "in use by another process" in capsys.readouterr().err
    back_up(written, tmp_path / "copy")
    with pytest.raises(BadInput, match="in use by another process"):
        restore(tmp_path / "copy", written, force=True)
    require_unused(tmp_path / "copy" / "ledger.db")


def test_who_only_looks_for_a_moment_stops_no_change(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    looking = sqlite3.connect(path, check_same_thread=False)
    looking.execute("PRAGMA journal_mode = WAL")
    looking.execute("CREATE TABLE rounds (round INTEGER)")
    leaving = threading.Timer(0.2, looking.close)
    leaving.start()
    require_unused(path)
    leaving.join()
