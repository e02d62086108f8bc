"""The page from stored rows, in a real browser: drawn, readable, self-contained."""

import json
from pathlib import Path

from dealfl_paper.figures import FIGURES
from dealfl_paper.page import as_results, write_results
from dealfl_paper.reproduction import reproduce
from tests.report.browsing import Browsing


def test_the_page_is_drawn_and_readable_and_asks_for_nothing(
    browsing: Browsing, stored: Path, pictures: Path | None
) -> None:
    found = reproduce(stored, quick=True)

    def write(path: Path) -> None:
        write_results(found, path.parent)[0].rename(path)

    page = browsing.open("reproduced", write)
    for width in (400, 1280):
        page.at(width)
        assert page.find("undrawn") == []
        assert page.find("unreadable") == []
        assert page.find("wide") == []
        assert page.find("small", 12) == []
        if pictures:
            page.page.screenshot(path=pictures / f"reproduced-{width}.png", full_page=True)
    assert page.find("faint", 4.5) == []
    page.page.emulate_media(color_scheme="dark")
    page.settle()
    assert page.find("lightness") < 0.05
    assert page.find("faint", 4.5) == []
    claims = sum(len(done.claims) for done in found.figures)
    assert page.page.locator("table.claims tbody tr").count() == claims > 0
    assert page.page.locator("h2[id]").count() == len(FIGURES)
    plots = sum(len(done.figure.plot(done.rows)) for done in found.figures)
    assert len(page.find("titles")) == plots >= len(FIGURES)
    assert page.requests == [page.path.as_uri()]
    assert page.problems == []


def test_results_hold_the_claims_and_the_rows_of_every_figure(stored: Path) -> None:
    found = reproduce(stored, quick=True)
    results = json.loads(json.dumps(as_results(found), allow_nan=False))
    assert {tuple(claim) for claim in results["claims"]} == {
        ("figure", "claim", "paper", "here", "verdict", "why", "replica")
    }
    assert all(all(claim.values()) for claim in results["claims"])
    assert set(results["figures"]) == {figure.name for figure in FIGURES}
    assert all(figure["rows"] for figure in results["figures"].values())
