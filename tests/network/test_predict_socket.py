"""The path of the socket for predictions: whose it is, and what is there already."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dealfl.errors import BadInput
from dealfl.network.predict_socket import PredictSocket

QUESTION = b'{"rubbish": 1}\n'


def make(path: Path) -> PredictSocket:
    plan: Any = SimpleNamespace(subject=SimpleNamespace(source=None))
    end: Any = None
    return PredictSocket(path, plan, {}, end)


async def ask_while_it_runs(path: Path) -> dict[str, Any]:
    stopped = asyncio.Event()
    running = asyncio.ensure_future(make(path).run(stopped))
    while True:
        try:
            reader, writer = await asyncio.open_unix_connection(path)
        except OSError:
            assert not running.done()
            await asyncio.sleep(0.001)
        else:
            break
    assert path.stat().st_mode & 0o777 == 0o600
    writer.write(QUESTION)
    answer: dict[str, Any] = json.loads(await reader.readline())
    writer.close()
    stopped.set()
    await running
    return answer


async def ask(path: Path, worker: str) -> dict[str, Any]:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(json.dumps({"owner": "ann", "worker": worker}).encode() + b"\n")
    answer: dict[str, Any] = json.loads(await reader.readline())
    writer.close()
    return answer


class End:
    """Counts the models that are fetched."""

    def __init__(self) -> None:
        self.connection = SimpleNamespace(is_up=True, is_resting=False)
        self.fetched = list[str]()

    async def update_model(self, name: str, timeout_s: float) -> None:
        self.fetched.append(name)
        await asyncio.sleep(0.01)


async def ask_at(path: Path, times_s: list[float], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ask a worker with a model and one without at some times, each twice; return the fetches."""
    answered = SimpleNamespace(tolist=lambda: [0.5]), SimpleNamespace(tolist=lambda: [0.5])
    plan: Any = SimpleNamespace(subject=SimpleNamespace(source=None))
    end: Any = End()
    workers: Any = {
        name: SimpleNamespace(model_version=version, recommend=lambda *_: answered)
        for name, version in (("some", 3), ("none", 0))
    }
    stopped = asyncio.Event()
    predict = PredictSocket(path, plan, workers, end)
    running = asyncio.ensure_future(predict.run(stopped))
    while not path.exists():
        await asyncio.sleep(0.001)
    for now_s in times_s:
        clock = SimpleNamespace(monotonic=lambda: now_s)  # noqa: B023
        monkeypatch.setattr("dealfl.network.predict_socket.time", clock)
        for answer in await asyncio.gather(*(ask(path, name) for name in [*workers] * 2)):
            assert "error" not in answer
    stopped.set()
    await running
    fetched: list[str] = end.fetched
    return fetched


def test_a_model_is_looked_for_now_and_then_and_sooner_if_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times_s = [0.0, 9.0, 11.0, 59.0, 61.0]
    fetched = asyncio.run(asyncio.wait_for(ask_at(tmp_path / "p", times_s, monkeypatch), 60))
    assert fetched.count("some") == 2
    assert fetched.count("none") == 3


def test_a_request_of_more_than_a_mebibyte_is_refused(tmp_path: Path) -> None:
    async def ask_much(path: Path) -> str:
        stopped = asyncio.Event()
        running = asyncio.ensure_future(make(path).run(stopped))
        while not path.exists():
            await asyncio.sleep(0.001)
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b" " * ((1 << 20) + 1) + b"\n")
        answer = await reader.readline()
        writer.close()
        stopped.set()
        await running
        return answer.decode()

    told = asyncio.run(asyncio.wait_for(ask_much(tmp_path / "predict"), 60))
    assert "a request has at most 1,048,576 bytes" in told


async def start_and_stop(path: Path) -> None:
    stopped = asyncio.Event()
    stopped.set()
    await make(path).run(stopped)


def leave_by_a_killed_process(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))


@pytest.mark.parametrize("was_killed", [False, True])
def test_the_socket_of_a_killed_process_is_replaced(tmp_path: Path, was_killed: bool) -> None:
    path = tmp_path / "predict"
    if was_killed:
        leave_by_a_killed_process(path)
    answer = asyncio.run(asyncio.wait_for(ask_while_it_runs(path), 60))
    assert "rubbish" in answer["error"]
    assert not path.exists(), "it removes its socket"
    (tmp_path / "folder").mkdir()
    assert (tmp_path / "folder").stat().st_mode & 0o700 == 0o700, "only the socket is private"


def test_a_process_that_answers_keeps_its_socket(tmp_path: Path) -> None:
    path = tmp_path / "predict"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(BadInput, match="another process answers there; use another path"):
            asyncio.run(start_and_stop(path))
        assert path.is_socket()


def test_a_file_is_no_socket_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "predict"
    path.write_text("mine")
    with pytest.raises(BadInput, match="predict cannot be a socket"):
        asyncio.run(start_and_stop(path))
    assert path.read_text() == "mine"
