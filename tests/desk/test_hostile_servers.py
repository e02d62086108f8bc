"""What a server sends to a desk is text and numbers, never markup, and no page fails on it."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from dealfl.desk.layout import Page, Visit, render
from dealfl.desk.pages import (
    Search,
    energy_page,
    erasure_page,
    fleet_page,
    job_page,
    model_page,
    request_page,
    rounds_page,
    worker_page,
)
from dealfl.desk.tasks import Task
from dealfl.desk.view import View
from dealfl.runs import Changes, RequestStatus, RunProgress, WorkerLine
from dealfl.server import RoundHistory, Version
from tests.report.results import EVIL

VISIT = Visit("0" * 32, True, EVIL)
DEEP = "[" * 20_000


class Tags(HTMLParser):
    """Collects what a browser would act on."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        is_own = tag != "script" or "src" in values or values.get("type") == "application/json"
        leads_out = not (values.get("href") or "/").startswith(("/", "#", "data:image"))
        if tag in ("img", "b") or leads_out or not is_own:
            self.bad.append(f"{tag} {attrs}")
        self.bad += [f"{tag} {name}" for name in values if name.startswith("on")]


def said_by_a_server(text: str) -> Changes:
    """Return changes in which every text is this one."""
    worker: dict[str, Any] = dict.fromkeys(WorkerLine.__struct_fields__, 0) | {
        "name": text, "device": text, "flag": text, "last_declined": text, "heard_s": 1.9e9,
        "training": False, "charging": True, "asleep": True, "fits": False, "battery": 0.5,
        "call_by_s": 1.8e9,
    }  # fmt: skip
    line = WorkerLine(**worker)
    row = RoundHistory(1, 1.9e9, 1.9e9, 1.9e9, text, text, 1, 1, 1, 1, 1, 1, 1, 1.0)
    request = RequestStatus(text, 1, 1, 1, 0, [text], False, 1.9e9, text, text, {text: 1.9e9})
    return Changes(
        since="", whole=True, now_s=1.9e9, timeout_s=1e3, job=text, state="running", digest=text,
        job_text=f"[job]\n{msgspec.json.encode(text).decode()} = {DEEP}\n" if text == DEEP
        else f"[job]\nname = {msgspec.json.encode(text).decode()}\n",
        progress=RunProgress(text, 1, 2, 3, text, 1.9e9), unmet_guarantees=text, problem=text,
        energy_source=text, workers=[line], rounds=[row], versions=[Version(1, 1, text, 1.9e9)],
        erasures=[request], log=[msgspec.json.encode(dict.fromkeys(
            ("time", "level", "event", "worker", "round", "reason"), text)
            | {"figures": {text: text}}).decode(), text],
    )  # fmt: skip


def all_pages(view: View) -> list[Page]:
    (line,), (status,) = view.workers.values(), view.erasures.values()
    task = Task(EVIL, status.name, EVIL, salts={EVIL: EVIL})
    return [
        fleet_page(view, VISIT, Search.read(dict.fromkeys(("search", "state", "sort"), EVIL))),
        fleet_page(view, VISIT, Search()),
        rounds_page(view),
        model_page(view, VISIT),
        energy_page(view),
        job_page(view),
        erasure_page(view, VISIT, [], [task]),
        request_page(view, VISIT, status, None, task),
        worker_page(view, VISIT, line, [{"round": EVIL, "declined": EVIL, "energy_j": EVIL}]),
    ]


@pytest.mark.parametrize("text", [EVIL, DEEP, "", "%s %(x)s {0}"])
def test_nothing_that_a_server_says_is_markup_and_no_page_fails(text: str) -> None:
    view = View()
    view.apply(said_by_a_server(text))
    for page in all_pages(view):
        tags = Tags()
        tags.feed(render(page, view, text))
        assert tags.bad == [], page.name
