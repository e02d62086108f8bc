"""A finished run, and processes that tests start; each test that changes a run has its own copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dealfl.cli import main
from tests.browser import chromium
from tests.desk.desks import RunningDesk, Visitor
from tests.network.forks import Forks
from tests.report.results import EVIL
from tests.runs.made_runs import FILMS, write_ratings

__all__ = ["chromium"]  # a fixture


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Starts processes of dealfl."""
    running = Forks()
    yield running
    running.close()


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that nobody changes; one of its persons has markup as a name."""
    folder = tmp_path_factory.mktemp("finished")
    write_ratings(folder)
    with (folder / "ratings.csv").open("a") as file:
        file.write("".join(f'"{EVIL.replace(chr(34), chr(34) * 2)}",{film},5\n' for film in "ab"))
    text = FILMS.replace("ratings.csv", str(folder / "ratings.csv"))
    text = text.replace('"fargo"]', '"fargo", "a", "b"]')
    text = text.replace("count = 4", 'count = 2\nphone = "honor"\n\n[[devices]]\ncount = 2')
    (folder / "job.toml").write_text(text)
    assert main(["run", str(folder / "job.toml"), "--out", str(folder / "run"), "--json"]) == 0
    return folder / "run"


@pytest.fixture
def own_run(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run, beside its data."""
    shutil.copytree(finished.parent, tmp_path / "own", ignore=shutil.ignore_patterns("*.log"))
    return tmp_path / "own" / "run"


@pytest.fixture(scope="module")
def shown(forks: Forks, finished: Path) -> Iterator[RunningDesk]:
    """A desk that only shows the finished run."""
    desk = RunningDesk(forks, finished)
    yield desk
    desk.kill()


@pytest.fixture
def start(forks: Forks) -> Iterator[Callable[..., RunningDesk]]:
    """Starts desks, and ends them after the test."""
    started: list[RunningDesk] = []

    def begin(run: Path, *options: object) -> RunningDesk:
        started.append(RunningDesk(forks, run, *options))
        return started[-1]

    yield begin
    for desk in started:
        desk.end()


@pytest.fixture(scope="module")
def visitor(shown: RunningDesk) -> Visitor:
    """Somebody who was let in."""
    return Visitor(shown)
