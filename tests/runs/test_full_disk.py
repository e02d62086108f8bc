"""A full disk is a failure, exit code 1: the message names the file, and old files stay."""

import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.errors import WriteFailed
from dealfl.runs import (
    RunFolder,
    erase_owners,
    find_holdings,
    list_erasures,
    read_status,
    read_workers,
    retrain,
)
from dealfl.runs.erasures import find_queued
from dealfl.server import Ledger

Captured = pytest.CaptureFixture[str]

JOB = """
[job]
name = "tiny"
dataset = "digits"
rounds = 1
[data]
rows = 50
[[devices]]
count = 2
"""


@contextmanager
def small_files(size_bytes: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def mounted_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """Mount a disk of a size in a folder; only root may, for others the test is skipped."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("no disk can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with mounted_disk(folder, 64 << 10):
        yield folder


def commands(run: Path, out: Path, work: Path) -> list[list[str]]:
    """Return commands that write more than a few bytes into a folder."""
    (work / "job.toml").write_text(JOB)
    assert main(["backup", str(run), "--to", str(work / "copy")]) == 0
    assert main(["model", "export", str(run), "--out", str(work / "m.deal")]) == 0
    shutil.copy(work / "copy" / "ledger.db", work / "ledger.db")
    return [
        ["run", str(work / "job.toml"), "--out", str(out / "run")],
        ["backup", str(work / "ledger.db"), "--to", str(out / "backup")],
        ["restore", str(work / "copy"), "--to", str(out / "restored")],
        ["model", "export", str(work / "m.deal"), "--out", str(out / "m.deal")],
        ["model", "export", str(work / "m.deal"), "--arrays", str(out / "m.npz")],
    ]


def test_files_that_cannot_grow_fail_with_1(
    digits_run: Path, tmp_path: Path, capsys: Captured
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for words in commands(digits_run, out, tmp_path):
        with small_files(1_000 if words[0] == "model" else 40_000):
            assert main(words) == 1, words
        told = capsys.readouterr().err
        assert f"dealfl: {out}/" in told
        assert "cannot be written: " in told
    left = {path.name for path in out.rglob("*") if path.is_file()}
    left -= {"state-original", "state-newfl", "state-incremental"}  # whole, of other processes
    assert left <= {"job.toml", "log.jsonl", "owners.key", "progress.json"}, (
        "no file is half written"
    )


def test_a_full_disk_fails_with_1(
    digits_run: Path, small_disk: Path, tmp_path: Path, capsys: Captured
) -> None:
    made = commands(digits_run, small_disk, tmp_path)
    (small_disk / "filling").write_bytes(bytes(60_000))
    for words in made:
        assert main(words) == 1, words
        told = capsys.readouterr().err
        assert f"dealfl: {small_disk}/" in told
        assert "disk is full" in told or "No space left on device" in told


def test_a_change_that_finds_the_disk_full_is_undone(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    with ledger.transaction():
        ledger.put_parts("big", {"part": b"before"})
    with small_files(200_000), pytest.raises(WriteFailed, match="free disk space"):  # noqa: SIM117
        with ledger.transaction():
            ledger.put_parts("big", {"part": bytes(1_000_000)})
    assert ledger.list_parts("big") == {"part": b"before"}
    ledger.close()
    with small_files(4096), pytest.raises(WriteFailed, match="cannot be written"):
        Ledger.back_up(tmp_path / "ledger.db", tmp_path / "copy.db")


def test_output_that_goes_to_a_full_disk_fails_with_1(digits_run: Path) -> None:
    command = [sys.executable, "-m", "dealfl", "status", str(digits_run)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "dealfl: the output cannot be written: No space left on device\n"


def erase_on_small_disk(run: RunFolder, size_bytes: int, capsys: Captured) -> int:
    """Erase a person while no file can grow beyond a size; return the exit code."""
    with small_files(size_bytes):
        code = main(["erase", str(run.path), "person 3"])
    told = capsys.readouterr().err
    if code:
        assert "cannot be written" in told, told
        assert "Traceback" not in told
    return code


@pytest.mark.parametrize("size_bytes", [0, 2_000, 30_000])
def test_an_erasure_that_finds_the_disk_full_is_completed_by_a_repetition(
    people_run: RunFolder, capsys: Captured, size_bytes: int
) -> None:
    assert main(["erasures", "rotate-key", str(people_run.path)]) == 0
    assert erase_on_small_disk(people_run, size_bytes, capsys) == 1
    erased = erase_owners(people_run, ["person 3"], requested_by="test").erasure
    assert erased.final
    assert erased.after is not None
    assert erased.after.digest == retrain(people_run)
    assert find_holdings(people_run, "person 3") == []
    requests = list_erasures(people_run)
    assert all(request.published for request in requests)
    folder = people_run.path / "certificates"
    assert len([*folder.glob("*.json")]) == len(requests), "each request has one certificate"
    assert find_queued(people_run) == {}
    for path in folder.glob("*.json"):
        assert main(["verify", str(path)]) == 0


@pytest.mark.parametrize("size_bytes", [0, 100, 1_000])
def test_a_certificate_that_finds_the_disk_full_is_written_by_a_repetition(
    people_run: RunFolder, capsys: Captured, size_bytes: int
) -> None:
    erased = erase_owners(people_run, ["person 3"], requested_by="test").erasure
    words = ["erasures", "certify", str(people_run.path), erased.request]
    with small_files(size_bytes):
        assert main(words) == 1
    assert "cannot be written" in capsys.readouterr().err
    assert main(words) == 0
    folder = people_run.path / "certificates"
    certificates = [str(path) for path in folder.glob("*.json")]
    assert len(certificates) == 2, "the first, and the repetition"
    assert main(["verify", *certificates, "--log", str(folder)]) == 0


def test_a_removal_that_finds_the_disk_full_is_done_by_a_repetition(
    people_run: RunFolder, capsys: Captured
) -> None:
    before = read_status(people_run)
    name = read_workers(people_run)[0].name
    words = ["workers", "remove", str(people_run.path), name, "--yes"]
    with small_files(2_000):
        assert main(words) == 1
    assert "cannot be written" in capsys.readouterr().err
    assert read_status(people_run) == before, "nothing is half done"
    assert main(words) == 0
    assert read_status(people_run).statistics_digest != before.statistics_digest
