"""The page of a result in a real browser: all drawn, nothing asked of a network, readable."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dealfl.report import report_sections, write_page
from dealfl.report.wording import format_energy
from dealfl.runs import RunRecord
from tests.report.browsing import Browsing, Opened
from tests.report.results import (
    EVIL,
    LINK,
    by_hand,
    crowd,
    hostile,
    nobody_came,
    nothing_happened,
    of_kinds,
)

MAKERS: dict[str, Callable[[RunRecord], RunRecord]] = {
    "real": lambda result: result,
    "alone": lambda result: RunRecord("alone", result.outcomes[:1]),
    "by hand": lambda result: by_hand(),
    "nothing": nothing_happened,
    "nobody": nobody_came,
    "crowd": crowd,
    "hostile": hostile,
}
PLOTS = 12
SAYING_LITTLE = 2  # levers under one selector, full batteries: left out
BY_KIND_TITLES = [
    "Selections per phone, by kind", "Energy per phone, by kind", "Battery at the end, by kind",
]  # fmt: skip
BY_KIND = 2  # selections and energy of one kind of phone: left out
ONE_KIND = ("nothing", "by hand")

Open = Callable[[str], Opened]


@pytest.fixture
def opened(browsing: Browsing, result: RunRecord) -> Open:
    """Opens a page at 400 pixels, as on a phone."""

    def open_(name: str) -> Opened:
        return browsing.open(name, lambda path: write_page(MAKERS[name](result), path))

    return open_


# One test a page, for a browser takes seconds to open it.
@pytest.mark.parametrize("name", MAKERS)
def test_a_page_is_drawn_and_readable_and_asks_for_nothing(opened: Open, name: str) -> None:
    page = opened(name)
    for width in (400, 1280):
        page.at(width)
        assert page.find("undrawn") == []
        assert page.find("unreadable") == []
        assert page.find("wide") == []
        assert page.find("small", 12) == []
    told = page.page.locator(".nothing").all_inner_texts()
    assert all(told)
    most = PLOTS - BY_KIND * (name in ONE_KIND)
    assert most - SAYING_LITTLE <= len(page.find("titles")) + len(told) <= most
    assert (name in ("nothing", "nobody", "by hand")) == bool(told)
    assert page.requests == [page.path.as_uri()]
    assert page.problems == []


def test_where_nothing_happened_no_empty_frame_is_drawn(opened: Open) -> None:
    assert opened("nothing").find("titles") == []
    assert opened("nobody").find("titles") == []


@pytest.mark.parametrize("kinds", [1, 2])
def test_plots_by_kind_appear_only_if_there_are_kinds_to_compare(
    result: RunRecord, kinds: int
) -> None:
    sections = report_sections(of_kinds(result, kinds))["Phones"]
    assert "Bursts of the radio" in sections
    drawn = [title for title in BY_KIND_TITLES if title in sections]
    assert drawn == (BY_KIND_TITLES if kinds > 1 else [])


def test_all_schemes_and_causes_are_in_the_legends(opened: Open) -> None:
    names = set(opened("real").page.locator(".legendtext").all_text_contents())
    assert {"DEAL", "Original", "NewFL", "Incremental"} <= names
    assert {"processor", "being awake", "radio transfers", "radio tail"} <= names


def test_on_a_phone_the_rows_of_a_table_are_lists(opened: Open) -> None:
    inside = "boxes => boxes.map(box => [box.scrollWidth, box.clientWidth])"
    tables = opened("real").at(390).page.locator(".scroll:has(.plain)")
    assert all(content <= shown for content, shown in tables.evaluate_all(inside))
    named = "cells => getComputedStyle(cells[0], '::before').content"
    assert tables.first.locator("td").evaluate_all(named) == '"whole devices: "'
    wide = opened("real").at(1200).page.locator(".plain thead").first
    assert wide.is_visible()


def test_captions_are_true_of_the_run(opened: Open) -> None:
    text = opened("real").page.locator("main").inner_text()
    assert "use no energy" not in text
    assert "Phones that are not selected do not train." in text


def test_text_stands_out_in_light_and_dark_and_print_is_on_white(opened: Open) -> None:
    page = opened("alone")
    assert page.find("lightness") > 0.8
    assert page.find("faint", 4.5) == []
    page.page.emulate_media(color_scheme="dark")
    page.settle()
    assert page.find("lightness") < 0.05
    assert page.find("faint", 4.5) == []
    assert page.find("undrawn") == []
    page.page.emulate_media(media="print", color_scheme="dark")
    page.settle()
    assert page.find("lightness") == 1.0
    assert page.find("faint", 4.5) == []
    page.page.emulate_media(media="screen", color_scheme="light")
    page.settle()
    assert page.problems == []


def test_the_figures_are_those_of_the_result(opened: Open, result: RunRecord) -> None:
    page, main, beside = opened("real").page, result.main, result.against("original")
    assert beside is not None
    text = page.inner_text("main")
    said = f"DEAL learned {main.learned:,} examples on 45 phones, forgot {main.evicted:,}, accuracy"
    assert said in text
    assert "the digest equals that of central training" in text
    assert f"{100 * main.energy.radio_j / main.energy.whole_j:.0f} % of the energy is radio" in text
    figures = page.locator(".figure").all_inner_texts()
    assert beside.whole_saved is None, "the same selector"
    assert format_energy(main.energy.whole_j) in figures[0]
    assert f"{main.battery_per_day:.3%}" in figures[1]
    assert f"{main.quality:.4f}" in figures[3]
    assert "equal" in figures[4]
    assert "modelled" in figures[0]
    assert "modelled" in figures[1]
    small = page.locator("table.plain").first
    names = small.locator("tbody th").all_inner_texts()
    assert [name.split(",")[0] for name in names] == ["original", "newfl", "incremental"]
    rows = page.locator("table.plain").last.locator("tbody tr").all_inner_texts()
    assert [row.split()[0] for row in rows] == ["DEAL", "Original", "NewFL", "Incremental"]
    assert all(row.split()[-1] == "equal" for row in rows)


def test_hostile_names_are_only_text(opened: Open) -> None:
    page = opened("hostile").page
    assert page.evaluate("window.owned === undefined")
    assert page.title() == " ".join(EVIL.split())
    assert page.locator("h1").inner_text() == EVIL
    assert page.locator("img, a, iframe, main b").count() == 0
    assert page.locator("pre").text_content() == EVIL
    assert "<b>deal</b>" in page.locator(".legendtext").all_text_contents()
    assert LINK.format(0) in page.locator(".xtick").all_text_contents()
    assert "NOT EQUAL" in page.inner_text(".figures")


def test_phones_are_sorted_by_what_is_asked_for(opened: Open) -> None:
    page = opened("alone").page
    page.locator("summary", has_text="All phones").click()
    selected = page.get_by_role("button", name="selected")
    selected.click()
    up = _column(page, 2)
    selected.click()
    down = _column(page, 2)
    assert up == sorted(up)
    assert down == sorted(down, reverse=True)
    assert up != down
    assert page.locator("th[aria-sort=descending]").count() == 1
    page.get_by_role("button", name="radio and waking").click()
    energies = page.locator("table.sortable td:nth-child(8)").evaluate_all(
        "cells => cells.map(cell => Number(cell.dataset.value))"
    )
    assert energies == sorted(energies)


def _column(page: Any, place: int) -> list[int]:
    cells = page.locator(f"table.sortable td:nth-child({place + 1})").all_inner_texts()
    return [int(cell) for cell in cells]


def test_a_crowd_is_reported_by_kind_and_the_page_stays_small(opened: Open) -> None:
    page = opened("crowd")
    assert page.path.stat().st_size < 6_000_000
    assert page.page.locator("table.sortable tbody tr").count() == 1000
    assert "the 1,000 with the most energy" in (
        page.page.text_content("table.sortable caption") or ""
    )
    assert "other kinds" in page.page.locator(".xtick").all_text_contents()


WRONG = """\
<p style="font-size: 9px">small</p><p style="color: #999">faint</p>
<div style="width: 3000px">wide</div><img alt="" src="http://127.0.0.1:9/picture.png">
<script>console.error("wrong"); setTimeout(() => { throw Error("thrown") })</script>
</main>"""


def test_what_is_wrong_with_a_page_is_found(browsing: Browsing, opened: Open) -> None:
    text = opened("alone").path.read_text(encoding="utf-8")
    lawless = text.replace("Content-Security-Policy", "None")
    broken = lawless.replace("</main>", WRONG, 1).replace('"hovermode"', '"hovermood"', 1)
    page = browsing.open("broken", lambda path: _write(path, broken))
    assert page.requests[1:] == ["http://127.0.0.1:9/picture.png"]
    assert {"wrong", "thrown"} <= set(page.problems)
    assert any("hovermood" in wrong for wrong in page.find("undrawn"))
    assert [page.find(what) != [] for what in ("wide", "unreadable")] == [True, False]
    assert len(page.find("small", 12)) == 1
    assert len(page.find("faint", 4.5)) == 1
    page.page.evaluate("document.querySelectorAll('.mlayer > .trace')[3].remove()")
    assert any("traces" in wrong for wrong in page.find("undrawn"))
    page.page.evaluate(
        "document.querySelector('.legend').setAttribute('transform', 'translate(80, 120)')"
    )
    assert page.find("unreadable") != []


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def test_pictures_for_people(opened: Open, pictures: Path | None) -> None:
    if pictures is None:
        return
    for name in MAKERS:
        for width in (1280, 400):
            path = pictures / f"{name}-{width}.png"
            opened(name).at(width).page.screenshot(path=path, full_page=True)
