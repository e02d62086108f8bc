"""Damaged files of a run folder end in an error that names the file and a remedy."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.erasure import ErasureRequest
from dealfl.runs import RunFolder
from dealfl.runs.erasures import put_request


def empty(file: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def replace_by_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def replace_by_loop(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


LOST: list[Callable[[Path], None]] = [Path.unlink, replace_by_folder, replace_by_loop]


def put_one(run: RunFolder) -> Path:
    return put_request(run, ErasureRequest.erasing(["person 1"], [], run.owners_key(), "test"))


def refusal(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a command says that is refused."""
    capsys.readouterr()
    assert main(words) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("damage", [*LOST, empty, cut])
def test_a_lost_key_of_owners_is_neither_drawn_again_nor_taken_as_it_is(
    people_run: RunFolder, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    damage(people_run.path / "owners.key")
    for command in ("show", "erase", "readmit"):
        told = refusal([command, str(people_run.path), "person 1"], capsys)
        assert "owners.key" in told
        assert "restore a copy of it" in told
    assert not (people_run.path / "requests").exists()


@pytest.mark.parametrize("damage", LOST)
def test_nobody_is_erased_from_a_run_without_its_job(
    people_run: RunFolder, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    damage(people_run.path / "job.toml")
    told = refusal(["erase", str(people_run.path), "person 1"], capsys)
    assert "job.toml is missing, or no file; restore a backup of it" in told
    assert not (people_run.path / "requests").exists()


@pytest.mark.parametrize("damage", [*LOST, empty])
def test_a_finished_run_without_a_ledger_is_not_starting(
    people_run: RunFolder, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    damage(people_run.ledger)
    told = refusal(["erasures", "list", str(people_run.path)], capsys)
    assert "has lost its ledger.db; restore a backup of it" in told


def test_an_empty_journal_is_not_a_new_one(
    people_run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = next((people_run.path / "workers").glob("*.db"))
    empty(journal)
    told = refusal(["erase", str(people_run.path), "person 1"], capsys)
    assert f"the journal {journal} is empty; restore a backup of it" in told
    assert not journal.stat().st_size


@pytest.mark.parametrize("damage", [replace_by_folder, replace_by_loop, empty, cut])
def test_a_damaged_request_is_named(
    people_run: RunFolder, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    file = put_one(people_run)
    damage(file)
    told = refusal(["erasures", "list", str(people_run.path)], capsys)
    assert file.name in told
    assert "delete it, and ask again" in told


def test_a_request_without_persons_is_damaged(
    people_run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    put_one(people_run).write_text('{"name": "r", "requested_by": "", "entries": []}')
    told = refusal(["erase", str(people_run.path), "person 2"], capsys)
    assert "delete it, and ask again" in told


@pytest.mark.parametrize("damage", [replace_by_folder, replace_by_loop])
def test_a_signing_key_that_cannot_be_read_is_not_replaced(
    people_run: RunFolder, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["erase", str(people_run.path), "person 1"]) == 0
    damage(people_run.path / "certificates" / "signing.key")
    told = refusal(["erase", str(people_run.path), "person 2"], capsys)
    assert "signing.key cannot be read" in told
    assert "restore a backup of it" in told


def test_a_certificate_needs_no_peaks(people_run: RunFolder) -> None:
    assert main(["erase", str(people_run.path), "person 1"]) == 0
    replace_by_folder(people_run.path / "certificates" / "peaks")
    assert main(["erase", str(people_run.path), "person 2"]) == 0
    assert main(["verify", str(people_run.path)]) == 0


@pytest.mark.parametrize("name", ["requests", "certificates"])
def test_a_file_in_place_of_a_folder_is_named(
    people_run: RunFolder, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (people_run.path / name).touch()
    told = refusal(["erase", str(people_run.path), "person 1"], capsys)
    assert f"{people_run.path / name}" in told


@pytest.mark.parametrize("name", [b"", b"\xff", b"../outside.csv", b"..", None])
def test_a_damaged_note_of_the_copied_data_deletes_nothing_elsewhere(
    people_run: RunFolder, name: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    note, outside = people_run.path / "copied_data", people_run.path.parent / "outside.csv"
    outside.touch()
    note.mkdir() if name is None else note.write_bytes(name)
    told = refusal(["erase", str(people_run.path), "person 1"], capsys)
    assert f"{note}" in told
    assert "delete it, and the copy of the data that lies beside it" in told
    assert outside.exists()
    note.rmdir() if name is None else note.unlink()
    assert main(["erase", str(people_run.path), "person 2"]) == 0  # and what waits
    assert main(["verify", str(people_run.path), "--retrain"]) == 0
    assert len(list((people_run.path / "certificates").glob("*.json"))) == 2


def test_folders_called_like_files_are_no_exports_and_no_certificates(
    people_run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    (people_run.path / "old.deal").mkdir()
    assert main(["erase", str(people_run.path), "person 1"]) == 0
    (people_run.path / "certificates" / "pending").mkdir()
    told = refusal(["erase", str(people_run.path), "person 2"], capsys)
    assert "pending cannot be read: Is a directory; delete it" in told
    (people_run.path / "certificates" / "pending").rmdir()
    (people_run.path / "erased.json").mkdir()
    told = refusal(["readmit", str(people_run.path), "person 3"], capsys)
    assert "erased.json cannot be read: Is a directory; run again with --restart" in told
