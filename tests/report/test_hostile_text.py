"""Text of unknown origin reaches no terminal, page, spreadsheet or metric unescaped."""

import csv
import io
import json
import re
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealfl.cli import main
from dealfl.escaping import for_csv, for_html, for_plotly, for_terminal
from dealfl.pages import page, table
from dealfl.report import LiveView, PlainView, summarize
from dealfl.runs import RunFolder, read_status, serve_metrics
from dealfl.server import Ledger, WorkerRow
from tests.report.results import by_hand
from tests.report.test_live_view import Terminal, progress
from tests.runs.made_runs import FILMS, HOUSES, make_run, write_houses, write_ratings

Captured = pytest.CaptureFixture[str]
EVIL = "\x1b[2J\x1b]0;owned\x07\rFAKE\u202etxt\x9b31m\u2028"
MARKUP = ["x[/y]", "[bold red]x", "[link=https://example.org]x[/link]", "[", "]", "\\[", "[/]"]
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def evil_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run whose ledger has a hostile worker, as an older dealfl could have stored it."""
    folder = tmp_path_factory.mktemp("runs") / "houses"
    write_houses(folder)
    make_run(folder, HOUSES)
    with closing(Ledger(folder / "ledger.db")) as ledger, ledger.transaction():
        hostile = WorkerRow(f"{EVIL}w", 1, EVIL, device=EVIL, flag=f"{EVIL}\nFAKE LINE")
        ledger.put_workers([hostile])
        ledger.execute("UPDATE selections SET declined = ?", (EVIL,))
        ledger.execute("UPDATE rounds SET reason = ?", (EVIL,))
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["status", "RUN"],
        ["workers", "list", "RUN"],
        ["workers", "show", "RUN", f"{EVIL}w"],
        ["workers", "show", "RUN", "w1"],
        ["model", "info", "RUN"],
        ["model", "score", "RUN", "RUN/houses.csv"],
        ["status", f"no-{EVIL}"],
        ["workers", "remove", "RUN", f"no-{EVIL}", "--yes"],
        ["run", f"{EVIL}.toml"],
        ["datasets", "fetch", EVIL],
        ["devices", "show", EVIL],
        ["simulate", f"{EVIL}.toml"],
    ],
    ids=lambda words: " ".join(words[:2]).replace(EVIL, "EVIL"),
)
def test_no_command_prints_what_a_terminal_obeys(
    words: list[str], evil_run: Path, capsys: Captured
) -> None:
    code = main([word.replace("RUN", str(evil_run)) for word in words])
    shown = capsys.readouterr()
    assert shown.out + shown.err
    assert code in (0, 1, 2)
    assert CONTROL.findall(shown.out + shown.err) == []
    assert "FAKE LINE" not in [line.strip() for line in shown.out.splitlines()]


def test_json_has_the_text_as_it_is(evil_run: Path, capsys: Captured) -> None:
    assert main(["workers", "list", str(evil_run), "--json"]) == 0
    out = capsys.readouterr().out
    assert CONTROL.findall(out) == []
    assert f"{EVIL}w" in [one["name"] for one in json.loads(out)["workers"]]


def test_metrics_are_one_line_each(evil_run: Path) -> None:
    from urllib.request import urlopen

    served = serve_metrics(partial(read_status, RunFolder.at(evil_run)))
    try:
        with urlopen(served.address) as page:
            text = page.read().decode()
    finally:
        served.close()
    sample = re.compile(r'(#.*|[a-z_]+(\{([a-z]+="([^"\\\n]|\\.)*",?)*\})? [-+0-9.eEinfa]+)')
    assert [line for line in text.split("\n") if line and not sample.fullmatch(line)] == []


@pytest.mark.parametrize("name", [*MARKUP, EVIL])
def test_the_live_view_shows_any_name_of_a_job(name: str) -> None:
    stream = Terminal()
    with LiveView(stream, name) as view:
        view.start_scheme("deal", 1, 4)
        view.show_progress(progress(7))
    assert for_terminal(name) in stream.getvalue()
    plain = io.StringIO()
    PlainView(plain, clock=iter(range(0, 10_000, 100)).__next__).show(lambda: name)
    assert plain.getvalue() == for_terminal(name) + "\n"


def test_summary_and_page_show_any_name_of_a_job() -> None:
    result = replace(by_hand(), job=EVIL + "<script>")
    assert CONTROL.findall(summarize(result)) == []
    shown = page(result.job, table(result.job, [result.job], [[result.job]]))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert shown.count("&lt;script&gt;") >= 3


def test_a_prediction_is_no_formula(tmp_path: Path, capsys: Captured) -> None:
    write_ratings(tmp_path)
    make_run(tmp_path, FILMS)
    owners = ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "p1", "-5", EVIL.replace("\r", "")]
    rows = "".join(f'"{owner}",alien,5\n' for owner in owners)
    (tmp_path / "new.csv").write_text(f"who,film,stars\n{rows}", encoding="utf-8")
    out, words = (
        tmp_path / "out.csv",
        ["model", "predict", str(tmp_path), str(tmp_path / "new.csv")],
    )
    assert main([*words, "--out", str(out)]) == 0
    with out.open(newline="", encoding="utf-8") as lines:
        cells = [cell for row in csv.reader(lines) for cell in row]
    assert [one for one in cells if one[:1] in tuple("=+-@\t\r") and one != "-5"] == []
    assert "'=1+1" in cells
    capsys.readouterr()
    assert main(words) == 0
    assert CONTROL.findall(capsys.readouterr().out) == []


def test_a_job_with_an_unprintable_name_is_refused(tmp_path: Path, capsys: Captured) -> None:
    for name in ("\\u001b[2J", "x" * 129, ""):
        (tmp_path / "job.toml").write_text(f'[job]\nname = "{name}"\n[[devices]]\ncount = 1\n')
        assert main(["simulate", str(tmp_path / "job.toml")]) == 2
        told = capsys.readouterr().err
        assert "a string of at most 128 printable characters" in told
        assert CONTROL.findall(told) == []


@given(st.text())
def test_escaped_text_is_harmless_everywhere(text: str) -> None:
    shown = for_terminal(text)
    assert CONTROL.search(shown) is None
    assert "\n" not in shown
    assert len(for_terminal(text, 9)) <= 9
    cell = str(for_csv(text))
    assert cell[:1] not in ("=", "@", "\t", "\r")
    assert not CONTROL.search(cell.replace("\t", ""))
    assert not {"<", ">", '"', "'"} & set(for_html(text))
    assert not {"<", ">"} & set(for_plotly(text))
    if text.isprintable():
        assert shown == text
