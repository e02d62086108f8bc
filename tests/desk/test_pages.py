"""Every page in a real browser: drawn, readable, without complaints, on its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.desk.browsing import Tab
from tests.desk.desks import RunningDesk, Visitor

PAGES = ("fleet", "rounds", "model", "energy", "erasure", "job")


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_every_page_is_drawn_without_complaints_and_asks_nobody_else(
    chromium: Browser, shown: RunningDesk, width: int, scheme: str
) -> None:
    folder = os.environ.get("DEALFL_PICTURES")
    with Tab(chromium, shown, width=width, scheme=scheme) as tab:
        for name in PAGES:
            page = tab.open(name)
            if folder:
                picture = Path(folder) / f"desk-{name}-{width}-{scheme}.png"
                page.screenshot(path=picture, full_page=True)
            assert page.locator("nav a[aria-current]").inner_text().lower() == name
            assert not tab.is_wide(), name
            assert tab.faults() == [], name
        assert tab.problems == []
        assert tab.hosts == {f"127.0.0.1:{shown.port}"}
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (max(map(int, paper[4:-1].split(","))) < 60) == (scheme == "dark")


def test_the_state_is_there_without_scripts(chromium: Browser, shown: RunningDesk) -> None:
    with Tab(chromium, shown, scripts=False) as tab:
        page = tab.page
        assert page.locator("#rows tbody tr").count() == 4
        page.fill("input[name=search]", "w2")
        page.click("#searching button")
        assert page.locator("#rows tbody th a").all_inner_texts() == ["w2"]
        page.click("nav >> text=Erasure")
        assert "Nobody was erased yet" in page.inner_text("#requests")
        assert "finished" in page.inner_text("#state")
        page.click("nav >> text=Rounds")  # no empty boxes where plots would be
        plot = page.locator("div.plot").first.bounding_box()
        assert plot is not None
        assert 0 < plot["height"] < 100


def test_a_finished_run_has_no_states_to_choose_and_times_of_its_own_clock(
    visitor: Visitor,
) -> None:
    page = visitor.get("/fleet").text
    assert '<select name="state"' not in page
    assert 'data-name="heard">at ' in page
    handle = page.partition("/fleet/worker/")[2].partition('"')[0]
    worker = visitor.get(f"/fleet/worker/{handle}").text
    assert "energy today" not in worker
    assert "Last heard: at " in worker


def test_search_and_order_work_while_typing_and_names_are_in_no_address(
    chromium: Browser, shown: RunningDesk
) -> None:
    with Tab(chromium, shown) as tab:
        page, addresses = tab.page, list[str]()
        page.on("request", lambda request: addresses.append(request.url))
        page.fill("input[name=search]", "w3")
        page.wait_for_function("() => document.querySelectorAll('#rows tbody tr').length === 1")
        page.click("#rows a")
        assert page.locator("h1").inner_text() == "w3"
        assert "Rounds" in page.inner_text("#history")
        assert not [address for address in addresses if "w3" in address]
        assert tab.problems == []


def test_pages_work_by_keyboard(chromium: Browser, shown: RunningDesk) -> None:
    with Tab(chromium, shown) as tab:
        page = tab.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        for _ in range(2):
            page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Rounds"
        page.keyboard.press("Enter")
        page.wait_for_url("**/rounds")


def test_a_finished_run_has_the_content_of_its_report(visitor: Visitor, finished: Path) -> None:
    report = (finished / "report.html").read_text()
    for page, title in {
        "rounds": "Examples learned and forgotten per round (DEAL)",
        "energy": "Energy by cause (modelled)",
        "model": "All schemes on the same phones and data; energy is modelled",
        "job": "A phone keeps all examples and trains on all of them from scratch each time.",
    }.items():
        assert title in report
        assert title in visitor.get(f"/{page}").text


def test_the_model_can_be_exported(visitor: Visitor) -> None:
    answer = visitor.post("/model/export")
    assert answer.status == 200
    assert answer.headers["content-disposition"] == 'attachment; filename="model.deal"'
    assert answer.text.startswith("DEALFILE")
