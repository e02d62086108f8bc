"""Flower carries the messages: the digest is that of `dealfl run`, whatever is lost or stops."""

import logging
from collections import Counter
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dealfl.cli import main
from dealfl.errors import BadInput, DealError

pytest.importorskip("flwr")
from dealfl import flower
from dealfl.erasure import Evidence, is_about, verify_certificate
from dealfl.flower import client_app
from dealfl.jobs import Document
from dealfl.runs import RunFolder, erase_owners, open_model, readmit_owners
from tests.flower.grids import LocalGrid, people

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    return {"job": str(people(tmp_path)), "folder": str(tmp_path / "run"), "idle-s": 8.0}


def serve(config: dict[str, Any], grid: Any) -> None:
    flower._serve(grid, SimpleNamespace(run_config=config))


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
    monkeypatch.setattr(flower, "_AGAIN_S", 0.2)
    grid = LocalGrid(config, 4, lose)
    serve(config, grid)
    assert _digest(Path(config["folder"])) == _by_run(config)
    assert lose or grid.pushed <= 3 * 4, "an announcement, a welcome and an assignment of each"


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
        serve(config, LocalGrid(config, 4))
    monkeypatch.setattr(LocalGrid, "push_messages", push)
    _by_run(config)  # a run after the erasure would leave the person out from the start
    erased = erase_owners(run, ["p7"], requested_by="dpo", wait_s=0.0)
    assert not erased.erasure.final
    readmit_owners(run, ["p9"], requested_by="dpo", wait_s=0.0)  # has no certificate
    for early in run.path.glob("certificates/*.json"):
        early.unlink()  # then only the request in the queue has the commitments
    serve(config, LocalGrid(config, 4))
    (final,) = (
        erasure
        for path in run.path.glob("certificates/*.json")
        if (erasure := verify_certificate(path, Evidence())[0]).final
    )
    assert (final.persons, final.outstanding) == (1, 0)
    assert final.claimed > 0
    assert is_about(final, "p7", erased.salts["p7"])
    assert not is_about(final, "p8", erased.salts["p7"])
    alone = RunFolder(run.path.parent / "alone")
    erase_owners(alone, ["p7"], requested_by="dpo")
    assert _digest(run.path) == _digest(alone.path)
    assert not list(run.path.glob("requests/*"))


class Usurped(LocalGrid):
    """A grid with a fifth node, which has other data and the name of the first."""

    def __init__(self, config: dict[str, Any], damaged: Iterable[int] = ()) -> None:
        super().__init__(config, 4)
        self._honest, self._damaged, self.answered = config, set(damaged), Counter[int]()
        home = Path(config["folder"]).parent / "usurper"
        home.mkdir()
        job = people(home)
        table = home / "people.csv"
        table.write_text(table.read_text().replace(",0.", ",0.0"))  # other features
        self._own = config | {"job": str(job), "folder": str(home)}

    def get_node_ids(self) -> Iterable[int]:
        return [1, 2, 3, 4, *[5] * (self.answered[1] > 0)]

    def _call(self, message: Any) -> Any:
        node = message.metadata.dst_node_id
        self.answered[node] += 1
        if node < 5:
            answer = super()._call(message)
            if node == 1 and self.answered[1] in self._damaged:
                answer.content["dealfl"]["packet"] = b"nonsense"
            return answer
        key = (Path(self._honest["folder"]) / "owners.key").read_text()
        (Path(self._own["folder"]) / "owners.key").write_text(key)
        node_config = {"partition-id": 0, "num-partitions": 4}
        context = SimpleNamespace(run_config=self._own, node_config=node_config)
        return client_app()(message, context)


@pytest.mark.parametrize("damaged", [(), (2, 3)])  # answers of the first node
def test_a_node_with_the_name_of_another_one_is_refused_and_nothing_of_it_is_counted(
    config: dict[str, Any],
    damaged: Iterable[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(flower, "_AGAIN_S", 0.2)
    monkeypatch.setattr(flower, "_LOOK_S", 0.2)
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    grid = Usurped(config | {"call-s": 1.0, "idle-s": 4.0}, damaged)
    serve(grid._honest, grid)
    assert grid.answered[5] > 1
    assert "node 5: it calls itself 'w1'; give each node one name of its own" in caplog.text
    assert "node 1: it calls itself" not in caplog.text
    assert _digest(Path(config["folder"])) == _by_run(config)


def test_an_answer_that_cannot_be_read_costs_nothing(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    call, answered = LocalGrid._call, list[int]()

    def damage(grid: LocalGrid, message: Any) -> Any:
        answer = call(grid, message)
        answered.append(1)
        if len(answered) in (2, 7):
            answer.content["dealfl"]["packet"] = b"nonsense"
        return answer

    monkeypatch.setattr(LocalGrid, "_call", damage)
    monkeypatch.setattr(flower, "_AGAIN_S", 0.2)
    serve({**config, "call-s": 1.0}, LocalGrid(config, 4))
    assert _digest(Path(config["folder"])) == _by_run(config)


def test_a_bag_that_flower_does_not_take_is_sent_again(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    push = LocalGrid.push_messages

    def refuse(grid: LocalGrid, messages: Iterable[Any]) -> list[str]:
        keys: list[Any] = push(grid, messages)
        keys[:] = [None if key == "bag 3" else key for key in keys]
        return keys

    monkeypatch.setattr(LocalGrid, "push_messages", refuse)
    monkeypatch.setattr(flower, "_AGAIN_S", 0.2)
    serve(config, LocalGrid(config, 4, lose=[3]))
    assert _digest(Path(config["folder"])) == _by_run(config)


def test_wrong_configurations_are_refused(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match=r"job is 'job\.toml'; give an absolute path"):
        serve({**config, "job": "job.toml"}, None)
    with pytest.raises(BadInput, match="the job has 4 workers, the simulation 3 nodes"):
        flower._find_name(Document.read(config["job"]), {"partition-id": 0, "num-partitions": 3})
    monkeypatch.setattr(metadata, "version", lambda _: "1.42.0")
    with pytest.raises(DealError, match=r"flwr 1.42.0 is installed, but .* works with 1.41.x"):
        flower.server_app()
