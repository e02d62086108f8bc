"""The page of the laboratory for selection in a real browser."""

from pathlib import Path

from dealfl.cli import main
from tests.report.browsing import Browsing


def write(path: Path) -> None:
    options = ["--seeds", "3", "--set", "setting.rounds=200"]
    assert main(["simulate", "selection", *options, "--page", str(path)]) == 0


def test_the_laboratory_is_drawn_and_readable_and_asks_for_nothing(browsing: Browsing) -> None:
    page = browsing.open("laboratory", write)
    for width in (400, 1280):
        page.at(width)
        assert len(page.find("titles")) == 2
        assert page.find("undrawn") == []
        assert page.find("unreadable") == []
        assert page.find("wide") == []
        assert page.find("small", 12) == []
        assert page.find("faint", 4.5) == []
    assert page.requests == [page.path.as_uri()]
    assert page.problems == []
