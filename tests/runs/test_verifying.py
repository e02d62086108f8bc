"""`dealfl verify RUN` finds certificates that are gone, renamed or given twice."""

import json
import shutil
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.erasure import (
    Evidence,
    find_lost,
    list_certificates,
    verify_certificate,
    write_certificate,
)
from dealfl.runs import RunFolder, certify
from tests.erasure.certified import ERASURE


@pytest.fixture
def certificates(people_run: RunFolder) -> Path:
    for person in range(3):
        assert main(["erase", str(people_run.path), f"person {person}"]) == 0
    return people_run.path / "certificates"


def problems(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return by file what is wrong with the certificates of a run."""
    capsys.readouterr()
    code = main(["verify", str(folder.parent), "--json"])
    found = json.loads(capsys.readouterr().out)
    wrong = {Path(one["file"]).name: one["problem"] for one in found if not one["valid"]}
    assert code == (2 if wrong else 0)
    return wrong


def test_a_certificate_that_is_gone_is_missed(
    certificates: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert problems(certificates, capsys) == {}
    gone = "it is gone, but the log has its entry; restore a copy of it"
    for number in (3, 1, 2):
        (certificates / f"000{number}.json").unlink()
        assert problems(certificates, capsys)[f"000{number}.json"] == gone


def test_certificates_that_changed_places_are_refused(
    certificates: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = list_certificates(certificates)
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    shutil.copy(third, certificates / "0004.json")
    shutil.copy(third, certificates / "copy.json")
    wrong = problems(certificates, capsys)
    assert sorted(wrong) == ["0001.json", "0002.json", "0004.json"]
    assert "entry 2 of the log, which is called 0002.json: files were renamed" in wrong["0001.json"]


def test_a_certificate_that_waits_for_its_name_is_not_lost(certificates: Path) -> None:
    (certificates / "0003.json").rename(certificates / "pending")
    assert find_lost(certificates) == []


def test_a_head_that_claims_very_many_entries_ends_at_once(
    certificates: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = certificates / "head"
    head.write_text(head.read_text().replace("\n3\n", f"\n{10**15}\n"))
    assert len(problems(certificates, capsys)) == 3
    assert main(["erase", str(certificates.parent), "person 3"]) == 2
    assert "is not what its head says; restore a backup of it" in capsys.readouterr().err


def test_the_ten_thousandth_certificate_is_the_last(tmp_path: Path) -> None:
    for name in ("10000.json", "9999.json", "0002.json"):
        (tmp_path / name).touch()
    names = [path.name for path in list_certificates(tmp_path)]
    assert names == ["0002.json", "9999.json", "10000.json"]


def test_an_earlier_request_that_is_certified_again_is_not_compared_with_the_present(
    certificates: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunFolder.at(certificates.parent)
    first, _ = verify_certificate(certificates / "0001.json", Evidence())
    assert certify(run, first.request).name == "0004.json"
    capsys.readouterr()
    assert main(["verify", str(run.path), "--retrain", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert ["retrained" in one for one in told] == [False, False, True, False]


def test_equal_certificates_have_an_entry_each(tmp_path: Path) -> None:
    files = [write_certificate(tmp_path, ERASURE) for _ in range(2)]
    entries = [verify_certificate(file, Evidence(log=tmp_path))[1] for file in files]
    assert entries == [0, 1]
