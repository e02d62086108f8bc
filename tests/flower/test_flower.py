"""Flower carries the messages: the digest is that of `dealfl run`, whatever is lost or stops."""

from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from dealfl.cli import main
from dealfl.errors import BadInput, DealError

pytest.importorskip("flwr")
from dealfl import flower
from dealfl.erasure import Evidence, verify_certificate
from dealfl.jobs import Document
from dealfl.runs import RunFolder, erase_owners, open_model
from tests.flower.grids import LocalGrid, people

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    return {"job": str(people(tmp_path)), "folder": str(tmp_path / "run"), "idle-s": 5.0}


def _digest(folder: Path) -> str:
    return open_model(folder).learner.digest()


def _by_run(config: dict[str, Any]) -> str:
    out = Path(config["folder"]).parent / "alone"
    assert main(["run", config["job"], "--no-compare", "--out", str(out)]) == 0
    return _digest(out)


@pytest.mark.parametrize("lose", [(), (2, 9)])
def test_the_digest_is_that_of_a_run(
    config: dict[str, Any], lose: Iterable[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flower, "_BAG_S", 3.0)
    grid = LocalGrid(config, 4, lose)
    flower._serve(config, grid)
    assert _digest(Path(config["folder"])) == _by_run(config)
    assert lose or grid.pushed <= 3 * 4 + 8  # and two calls of each, while nothing is left to learn


def test_a_server_that_was_killed_continues_and_an_erasure_is_certified(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, push = RunFolder(Path(config["folder"])), LocalGrid.push_messages

    def die(grid: LocalGrid, messages: Iterable[Any]) -> list[str]:
        if grid.pushed >= 8:  # after the first assignments
            raise SystemExit
        return push(grid, messages)

    monkeypatch.setattr(LocalGrid, "push_messages", die)
    with pytest.raises(SystemExit):
        flower._serve(config, LocalGrid(config, 4))
    monkeypatch.setattr(LocalGrid, "push_messages", push)
    erased = erase_owners(run, ["p7"], requested_by="dpo", wait_s=0.0)
    assert not erased.erasure.final
    flower._serve(config, LocalGrid(config, 4))
    (final,) = (
        erasure
        for path in run.path.glob("certificates/*.json")
        if (erasure := verify_certificate(path, Evidence())[0]).final
    )
    assert (final.persons, final.outstanding) == (1, 0)
    assert final.claimed > 0
    _by_run(config)
    alone = RunFolder(run.path.parent / "alone")
    erase_owners(alone, ["p7"], requested_by="dpo")
    assert _digest(run.path) == _digest(alone.path)
    assert not list(run.path.glob("requests/*"))


def test_wrong_configurations_are_refused(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match=r"job is 'job\.toml'; give an absolute path"):
        flower._serve({**config, "job": "job.toml"}, None)
    with pytest.raises(BadInput, match="the job has 4 workers, the simulation 3 nodes"):
        flower._partition(Document.read(config["job"]), {"partition-id": 0, "num-partitions": 3})
    monkeypatch.setattr(metadata, "version", lambda _: "1.42.0")
    with pytest.raises(DealError, match=r"flwr 1.42.0 is installed, but .* works with 1.41.x"):
        flower.server_app()
