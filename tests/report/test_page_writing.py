"""How a page gets on disk, what it needs for that, and what it does without a browser."""

import sys
from pathlib import Path

import pytest

from dealfl.errors import DealError
from dealfl.escaping import for_html
from dealfl.pages import Plot, page, plot_section, table
from dealfl.report import write_page
from dealfl.runs import RunRecord
from tests.browser import no_browser


def test_without_plotly_the_extra_is_named_and_nothing_is_written(
    tmp_path: Path, result: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(DealError, match=r"pip install 'dealfl\[report\]'"):
        write_page(result, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_data_cannot_leave_its_place() -> None:
    evil = "</script><script>&"
    section = plot_section(Plot(evil, evil, [{"y": [1.0, float("nan")], "name": evil}]))
    assert section.count("<script") == 1
    assert section.count("</script>") == 1
    assert "[1.0, null]" in section
    assert for_html(evil) in section
    rows = table(evil, [evil], [[evil, evil]])
    assert "<script" not in rows + page(evil, "").partition("</title>")[0]


def test_a_page_forbids_itself_to_ask_a_network() -> None:
    assert "default-src 'none'" in page("title", "body").partition("<body>")[0]


def test_a_missing_browser_is_a_failure_in_ci_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="make browser"):
        no_browser()
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="make browser"):
        no_browser()
