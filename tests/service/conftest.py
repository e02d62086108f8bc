"""Runs that several tests look at; who changes one copies it first."""

from pathlib import Path

import pytest

from tests.service.runs import FILMS, HOUSES, make_run, write_houses, write_ratings


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
