"""Real processes over a real broker with a keyholder: commands, kill −9, erasure, equal digests."""

import json
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.errors import BadInput
from dealfl.jobs import PrivacyKeys
from dealfl.keyholder import KeyholderFolder
from dealfl.masks import SERVER, WORKER, Enrolment
from dealfl.network.processes import read_enrolment
from dealfl.runs import back_up, restore, run_demo
from tests.network.brokers import require_mosquitto


def test_processes_under_masks_end_with_the_digest_of_central_training() -> None:
    """Broker, server, keyholder and workers; worker and keyholder are killed −9, ann is erased."""
    require_mosquitto()
    steps: list[str] = []
    proof = run_demo(steps.append, workers=5, private=True)
    assert proof.holds, steps
    text = "\n".join(steps)
    assert "killed the keyholder (kill −9)" in text
    assert "each of 3 workers or more" in text


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    assert main(["keyholder", "init", str(folder), "--cohort", "2"]) == 0
    return folder


def test_a_keyholder_enrols_each_name_once(vault: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keyholder", "enrol", str(vault), "w1", "w2", "--json"]) == 0
    files = json.loads(capsys.readouterr().out.splitlines()[-1])["files"]
    assert [Path(file).name for file in files] == ["w1.enrolment", "w2.enrolment"]
    assert all(Path(file).stat().st_mode & 0o777 == 0o600 for file in files)
    assert main(["keyholder", "enrol", str(vault), "w1"]) == 2
    assert "is enrolled; its file is given once" in capsys.readouterr().err
    assert main(["keyholder", "enrol", str(vault)]) == 2
    assert main(["keyholder", "init", str(vault)]) == 2
    assert main(["keyholder", "init", str(vault / "x"), "--cohort", "1"]) == 2


def test_a_restored_keyholder_has_a_new_key_and_new_files(vault: Path, tmp_path: Path) -> None:
    folder = KeyholderFolder(vault)
    folder.enrol(["server"], server=True, again=False)
    folder.enrol(["w1"], server=False, again=False)
    before = Enrolment.read(vault / "enrolments" / "w1.enrolment", WORKER)
    copies = back_up(vault, tmp_path / "copy")
    assert [copy.kind for copy in copies] == ["keyholder"]
    with pytest.raises(BadInput, match="dealfl keyholder restore"):
        restore(tmp_path / "copy", tmp_path / "again")
    copy = tmp_path / "copy" / "keyholder.db"
    assert main(["keyholder", "restore", str(vault), "--from", str(copy)]) == 0
    after = Enrolment.read(vault / "enrolments" / "w1.enrolment", WORKER)
    assert after.keyholder != before.keyholder
    assert after.private_key != before.private_key
    assert Enrolment.read(vault / "enrolments" / "server.enrolment", SERVER).role == SERVER
    with folder.open() as keyholder:
        assert (keyholder.workers, keyholder.openings) == (["w1"], 0)


def test_an_enrolment_moves_into_the_folder_of_its_process(vault: Path, tmp_path: Path) -> None:
    KeyholderFolder(vault).enrol(["w1"], server=False, again=False)
    given, keys = vault / "enrolments" / "w1.enrolment", PrivacyKeys(keyholder="keyholder")
    home = tmp_path / "home"
    home.mkdir()
    with pytest.raises(BadInput, match="give the file that the keyholder's operator wrote"):
        read_enrolment(keys, home, None, WORKER, "w1")
    with pytest.raises(BadInput, match="is for the worker 'w1', not for 'w2'"):
        read_enrolment(keys, home, given, WORKER, "w2")
    first = read_enrolment(keys, home, given, WORKER, "w1")
    assert not given.exists()
    assert read_enrolment(keys, home, None, WORKER, "w1") == first
    with pytest.raises(BadInput, match=r"the job has no section \[privacy\]"):
        read_enrolment(PrivacyKeys(), home, home / "keyholder.enrolment", WORKER, "w1")
