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
