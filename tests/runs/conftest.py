"""Runs that several tests look at; who changes one copies it first."""

import shutil
from pathlib import Path

import pytest

import dealfl
from dealfl.runs import RunFolder
from tests.runs.erased_people import make_fleet
from tests.runs.made_runs import FILMS, HOUSES, TINY, make_run, write_houses, write_ratings


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "digits"
    assert make_run(folder).exact
    return folder


@pytest.fixture(scope="session")
def houses_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "houses"
    write_houses(folder)
    assert make_run(folder, HOUSES).exact
    return folder


@pytest.fixture(scope="session")
def films_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "films"
    write_ratings(folder)
    assert make_run(folder, FILMS).exact
    return folder


@pytest.fixture
def run(digits_run: Path, tmp_path: Path) -> Path:
    """Return a copy of a run, to be changed."""
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("job.toml", "ledger.db"):
        shutil.copy(digits_run / name, folder / name)
    return folder


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a small job for `dealfl run`, in the current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.toml"
    path.write_text(TINY, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def finished_with_people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run, to be copied."""
    folder = tmp_path_factory.mktemp("people")
    dealfl.run(make_fleet(folder, "naive_bayes"), rounds=4, out=folder / "run", verbose=False)
    return folder / "run"


@pytest.fixture
def people_run(finished_with_people: Path, tmp_path: Path) -> RunFolder:
    """Return a copy of a run with twelve people, to be changed."""
    shutil.copytree(finished_with_people, tmp_path / "run")
    return RunFolder.at(tmp_path / "run")
