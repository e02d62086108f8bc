"""The live view: what a terminal shows, what a file gets, and that neither costs much."""

import io
import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from dealfl.report import LiveView, PlainView, choose_line, choose_view
from dealfl.report.live import NotebookView, Remaining, SilentView, sparkline
from dealfl.simulate import Progress, SweepProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def progress(rounds: int, **other: Any) -> Progress:
    figures: dict[str, Any] = {
        "rounds": rounds, "of_rounds": 30, "of_h": 0.0, "virtual_s": 60.0 * rounds, "quality": 0.5,
        "workers": 45, "asleep": 5, "selected": 3, "learned": 10 * rounds, "evicted": rounds,
        "compute_j": 0.25, "operating_j": 0.1, "radio_j": 2.0, "last": None,
    }  # fmt: skip
    return Progress(**(figures | other))


def test_a_terminal_gets_a_panel_and_a_file_gets_lines() -> None:
    assert isinstance(choose_view(Terminal(), "job"), LiveView)
    assert isinstance(choose_view(io.StringIO(), "job"), PlainView)


def test_the_panel_shows_rounds_workers_quality_energy_and_what_was_forgotten() -> None:
    stream = Terminal()
    with LiveView(stream, "digits") as view:
        view.start_scheme("deal", 1, 4)
        view.show_progress(progress(7))
    shown = stream.getvalue()
    for words in ("digits", "deal (1 of 4)", "7 of 30", "40 awake, 3 of them selected, 5 asleep",
                  "0.5000", "250 mJ computing, 2.00 J radio", "70 learned, 7 forgot"):  # fmt: skip
        assert words in shown


def test_one_bar_is_for_all_schemes_and_says_how_long_it_takes() -> None:
    stream, now_s = Terminal(), [0.0]
    shares = []
    with LiveView(stream, "digits", clock=lambda: now_s[0]) as view:
        for place in (1, 2):
            view.start_scheme(("deal", "original")[place - 1], place, 2)
            for rounds in range(0, 31, 3):
                view.show_progress(progress(rounds))
                shown = re.sub("\x1b.*?m", "", stream.getvalue()).rpartition("whole run")[2]
                shares.append(float(shown.partition("%")[0]))
                now_s[0] += 1.0
    assert shares == sorted(shares), "it never goes back"
    assert shares[-1] == 100.0
    assert "50 %, about 10 s left" in stream.getvalue()


def test_what_was_done_before_a_run_was_resumed_does_not_count() -> None:
    remaining = Remaining()
    remaining.start_scheme(2, of=2)
    remaining.update(0.5, now_s=100.0)
    assert remaining.left_s is None
    remaining.update(0.7, now_s=120.0)
    assert remaining.share == 0.85
    left_s: float | None = remaining.left_s
    assert left_s == pytest.approx(30.0)


def test_the_panel_is_drawn_ten_times_a_second_at_most() -> None:
    stream, now_s = Terminal(), [0.0]
    with LiveView(stream, "digits", clock=lambda: now_s[0]) as view:
        view.start_scheme("deal", 1, 1)
        drawn = stream.getvalue().count("digits")
        for step in range(100):
            now_s[0] = step / 1000
            view.show_progress(progress(step))
    assert stream.getvalue().count("digits") <= drawn + 2


def test_lines_come_every_five_seconds() -> None:
    stream, now_s = io.StringIO(), [0.0]
    with PlainView(stream, clock=lambda: now_s[0]) as view:
        view.start_scheme("deal", 1, 4)
        for tenth in range(100):
            now_s[0] = tenth / 10
            view.show_progress(progress(tenth // 10))
    told = stream.getvalue().splitlines()
    assert told == [
        "deal (1 of 4): round 2 of 30, quality 0.5000, 2.25 J; whole run 2 %",
        "deal (1 of 4): round 7 of 30, quality 0.5000, 2.25 J; whole run 6 %, about 113 s left",
    ]


def test_a_terminal_without_rich_gets_one_line_that_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    stream = Terminal()
    with choose_view(stream, "job") as view:
        assert isinstance(view, PlainView)
        view.start_scheme("deal", 1, 1)
        view.show(lambda: "too early")
    assert stream.getvalue() == ""
    now_s = [0.0]
    with PlainView(stream, clock=lambda: now_s[0]) as view:
        view.start_scheme("deal", 1, 1)
        for rounds in (1, 2):
            now_s[0] += 1.0
            view.show_progress(progress(rounds))
    lines = stream.getvalue().split("\r")
    assert lines[1].startswith("deal (1 of 1): round 1 of 30")
    assert lines[2].startswith("deal (1 of 1): round 2 of 30")
    assert lines[3].strip() == lines[4] == "", "the line is removed in the end"


def test_nothing_is_shown_to_who_wants_nothing() -> None:
    now_s = [0.0]
    for stream in (Terminal(), io.StringIO()):
        with SilentView(stream, clock=lambda: now_s[0]) as view:
            view.start_scheme("deal", 1, 1)
            now_s[0] += 100.0
            view.show_progress(progress(3))
        assert isinstance(choose_view(stream, "job", verbose=False), SilentView)
        assert isinstance(choose_line(stream, verbose=False), SilentView)
        assert stream.getvalue() == ""


class Cell:
    """The output of a notebook's cell: what it shows, one text after the other."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(self, content: dict[str, str], raw: bool, display_id: bool) -> "Cell":
        assert raw
        assert display_id
        self.update(content, raw)
        return self

    def update(self, content: dict[str, str], raw: bool) -> None:
        assert raw
        self.shown.append(content["text/plain"])


def test_a_cell_shows_one_line_which_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    cell, stream, now_s = Cell(), io.StringIO(), [0.0]
    shell = SimpleNamespace(kernel=object())
    notebook = SimpleNamespace(get_ipython=lambda: shell, display=cell)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    assert isinstance(choose_view(stream, "job"), NotebookView)
    assert isinstance(choose_line(stream), NotebookView)
    with NotebookView(stream, clock=lambda: now_s[0]) as view:
        view.start_scheme("deal", 1, 2)
        for rounds in (1, 2):
            now_s[0] += 1.0
            view.show_progress(progress(rounds))
        now_s[0] += 1.0
        view.show_sweep(SweepProgress(2, 6, progress(4)))
    assert stream.getvalue() == "", "a cell has its own output"
    first, second, sweep, removed = cell.shown
    assert first.startswith("deal (1 of 2): round 1 of 30")
    assert second.startswith("deal (1 of 2): round 2 of 30")
    assert sweep.startswith("simulation 2 of 6, round 4 of 30")
    assert removed == ""
    shell.kernel = None  # IPython in a terminal is no notebook
    assert not isinstance(choose_line(stream), NotebookView)


def test_a_sparkline_of_nothing_or_of_one_value_is_no_error() -> None:
    assert sparkline([]) == ""
    assert sparkline([0.3]) == "▁"
    assert len(sparkline([0.1] * 100)) == 32


def test_a_run_that_time_ends_shows_hours_and_no_number_of_rounds() -> None:
    late = progress(310, of_rounds=10_000, of_h=48.0, virtual_s=36 * 3600.0)
    assert str(late) == "round 310, hour 36 of 48"
    assert late.share == 0.75
    assert str(progress(7)) == "round 7 of 30"
    assert progress(15).share == 0.5
