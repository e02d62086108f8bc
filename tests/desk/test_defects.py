"""A page of the desk that fails: a sentence for its reader, the line for the log, no more."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from dealfl.desk import app as pages
from dealfl.desk.app import Desk
from dealfl.desk.guard import Door
from dealfl.desk.sources import FolderSource
from dealfl.desk.view import Watch
from dealfl.runs import RunFolder
from dealfl.storage import log_to


async def get(run: Path, path: str) -> tuple[int, str]:
    """Ask the application for a page, without a server; return status and text."""
    door = Door(1, ["127.0.0.1"])
    session = door.open(door.token)
    app = Desk(Watch(FolderSource(RunFolder(run))), door, may_change=False).make()
    headers = {"host": "127.0.0.1:1", "cookie": f"{door.cookie}={session}"}
    scope = {
        "type": "http", "method": "GET", "path": path, "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent)
    return int(sent[0]["status"]), body.decode()


def fail(*_: object) -> None:
    raise ZeroDivisionError("ann owes 5")


def test_an_error_that_nobody_expected_is_a_sentence_and_an_entry_in_the_log(
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(pages, "rounds_page", fail)
    with log_to(tmp_path / "desk.jsonl"):
        status, text = asyncio.run(get(finished, "/rounds"))
        works, _ = asyncio.run(get(finished, "/model"))
    assert (status, works) == (500, 200)
    assert "The desk has a defect here; its file desk.jsonl says where." in text
    assert "ZeroDivisionError" not in text
    logged = (tmp_path / "desk.jsonl").read_text()
    (entry,) = map(json.loads, logged.splitlines())
    line = fail.__code__.co_firstlineno + 1
    assert (entry["event"], entry["level"]) == ("a page failed", "error")
    assert entry["reason"] == f"ZeroDivisionError at {Path(__file__).name}:{line}"
    assert "ann" not in logged + text, "the text of an error may contain names"
    assert capfd.readouterr() == ("", "")
