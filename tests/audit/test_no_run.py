"""`dealfl audit` on what is no run, and on a run of few persons."""

import shutil
from pathlib import Path

import pytest

import dealfl
from dealfl.audit import audit_run
from dealfl.cli import main
from dealfl.errors import BadInput, DealError
from dealfl.runs import RunFolder
from tests.runs.erased_people import make_fleet

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("few")
    dealfl.run(make_fleet(folder, "naive_bayes"), rounds=2, out=folder / "run", verbose=False)
    return folder / "run"


def test_what_is_no_run_gets_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "copytree", lambda *_: pytest.fail("it copies the folder"))
    Path("houses.csv").write_text("size,price\n1,2\n")
    for given, message in (
        ("houses.csv", "houses.csv is not a ledger; give a run folder or a ledger file"),
        (".", ". has no ledger.db; give a run folder or a ledger file"),
        ("nothing", "nothing does not exist"),
    ):
        assert main(["audit", given]) == 2
        assert message in capsys.readouterr().err


def test_a_ledger_alone_and_a_run_without_data_get_a_sentence(
    finished: Path, tmp_path: Path, capsys: Captured
) -> None:
    shutil.copy(finished / "ledger.db", tmp_path / "copy.db")
    assert main(["audit", str(tmp_path / "copy.db")]) == 2
    assert f"{tmp_path} has no job.toml; audit the folder" in capsys.readouterr().err
    shutil.copytree(finished, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "workers")
    with pytest.raises(BadInput, match="has no journals of workers"):
        audit_run(RunFolder.at(tmp_path / "run"))


def test_an_error_names_the_run_and_not_its_copy(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "run" / "owners.key").write_text("no key")
    with pytest.raises(DealError, match="damaged") as raised:
        audit_run(RunFolder.at(tmp_path / "run"))
    assert str(tmp_path / "run" / "owners.key") in str(raised.value)


def test_too_few_persons_are_no_evidence(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dealfl.audit.auditing.SUBJECTS", ())
    audit = audit_run(RunFolder.at(finished))
    (membership,) = [one for one in audit.findings if one.what.startswith("membership")]
    assert "persons are too few to say" in membership.what
    assert (membership.before, membership.after, membership.holds) == (None, None, None)
