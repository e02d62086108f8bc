"""Rows are stored and resumed; missing data is skipped; the command reports what it did."""

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dealfl.cli import main
from dealfl.data import CATALOG
from dealfl.errors import BadBytes, DatasetMissing
from dealfl_paper.figure import Figure, Row, Setting
from dealfl_paper.figures import FIGURES
from dealfl_paper.reproduction import Step, reproduce

DEVICES = FIGURES[0]


def only(monkeypatch: pytest.MonkeyPatch, *figures: Figure) -> None:
    monkeypatch.setattr("dealfl_paper.reproduction.FIGURES", figures)


def test_stored_rows_are_not_run_again(
    figure: Figure, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(setting: Setting) -> Sequence[Row]:
        pytest.fail(f"runs again; store the rows again, as conftest.py says: {setting}")

    only(monkeypatch, replace(figure, run=run))
    done = reproduce(stored, quick=True).figures[0]
    assert done.rows
    judged = figure.claims(done.rows)
    assert [one.claim for one in done.claims] == [one.claim for one in judged]


def test_a_stopped_run_resumes_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def run(setting: Setting) -> Sequence[Row]:
        ran.append(setting["phone"])
        if len(ran) == 3:
            raise KeyboardInterrupt
        return DEVICES.run(setting)

    only(monkeypatch, replace(DEVICES, run=run))
    with pytest.raises(KeyboardInterrupt):
        reproduce(tmp_path)
    path = tmp_path / "rows" / "devices.jsonl"
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) == 2
    path.write_text("\n".join(lines)[:-9], "utf-8")  # as a kill leaves it
    steps: list[Step] = []
    done = reproduce(tmp_path, progress=steps.append).figures[0]
    assert ran == ["honor", "lenovo", "zte", "lenovo", "zte", "mi", "nexus"]
    assert [(step.number, step.of) for step in steps] == [(n, 5) for n in range(2, 6)]
    assert steps[0].left_s > steps[-1].left_s > 0
    assert [row["phone"] for row in done.rows][-1] == "nexus"
    reproduce(tmp_path)
    assert len(ran) == 7
    reproduce(tmp_path, restart=True)
    assert len(ran) == 12


def test_missing_data_is_skipped_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(setting: Setting) -> Sequence[Row]:
        if setting["phone"] == "mi":
            raise DatasetMissing("dataset movielens is missing (why): /some/path")
        return DEVICES.run(setting)

    only(monkeypatch, replace(DEVICES, run=run, datasets=lambda _: ["movielens"]))
    done = reproduce(tmp_path).figures[0]
    assert done.skipped == ("movielens is missing: dealfl datasets fetch movielens",)
    assert {row["phone"] for row in done.rows} == {"honor", "lenovo", "zte", "nexus"}


def test_the_command_writes_page_and_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "devices", "--quick", "--out", str(tmp_path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert "Table 1" in (tmp_path / "index.html").read_text("utf-8")
    assert main(["reproduce", "devices", "--out", str(tmp_path)]) == 0
    assert f"Page: {tmp_path / 'index.html'}" in capsys.readouterr().out
    assert main(["reproduce", "device", "--out", str(tmp_path)]) == 2
    assert "no figure called 'device'" in capsys.readouterr().err


def test_processes_leave_the_same_rows(tmp_path: Path, require_data: Callable[[str], None]) -> None:
    require_data("movielens")
    alone = reproduce(tmp_path / "one", ["devices", "swaps"], quick=True)
    shared = reproduce(tmp_path / "two", ["devices", "swaps"], quick=True, processes=2)
    assert [done.rows for done in shared.figures] == [done.rows for done in alone.figures]
    assert all(done.rows for done in alone.figures)


def test_settings_that_measure_time_run_alone_and_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    class Recorded(ThreadPoolExecutor):
        def submit(self, *given: Any, **more: Any) -> Future[Any]:
            events.append("submitted")
            future: Future[Any] = super().submit(*given, **more)
            return future

    def run(setting: Setting) -> Sequence[Row]:
        here = threading.current_thread() is threading.main_thread()
        events.append(f"{setting['phone']} {'here' if here else 'elsewhere'}")
        return DEVICES.run(setting)

    timed = replace(DEVICES, run=run, measures=lambda setting: setting["phone"] in ("mi", "nexus"))
    only(monkeypatch, timed)
    with Recorded(2) as executor:
        done = reproduce(tmp_path, executor=executor).figures[0]
    assert events[:2] == ["mi here", "nexus here"], "before any call runs elsewhere"
    assert {*events[2:]} == {f"{phone} elsewhere" for phone in ("honor", "lenovo", "zte")} | {
        "submitted"
    }
    assert {row["phone"] for row in done.rows} == {"honor", "lenovo", "zte", "mi", "nexus"}


def test_no_process_at_all_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "devices", "--processes", "0", "--out", str(tmp_path)]) == 2
    assert "processes is 0; it must be a whole number ≥ 1" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["reproduce"], ["simulate", "selection"]])
def test_without_an_installation_the_remedy_is_named(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dealfl.registry.plugins", lambda group: {})
    assert main(words) == 1
    assert "dealfl_paper; run `pip install dealfl`" in capsys.readouterr().err


def test_damaged_data_skips_its_settings_and_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(setting: Setting) -> Sequence[Row]:
        raise BadBytes("housing_scale.gz: truncated or damaged")

    figure = next(one for one in FIGURES if one.name == "energy-datasets")
    settings = [{"dataset": "housing"}]
    changed = replace(figure, run=run, settings=lambda _: settings, cost_s=lambda _: 1.0)
    only(monkeypatch, changed)
    (why,) = reproduce(tmp_path).figures[0].skipped
    assert why == "housing is damaged: dealfl datasets check housing"


def test_without_data_the_command_stops_at_its_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "leak", "theta", "--out", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    for name in ("movielens", "phishing", "covtype", "cadata"):
        assert told.count(f"\n  {name} is missing: dealfl datasets fetch {name}\n") == 1
    assert "\n  jester is missing: get jester_dataset_1_1.zip" in told
    assert "`dealfl datasets fetch --paper` downloads" in told
    assert not (tmp_path / "out").exists()


def test_a_skip_is_listed_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "leak", "swaps", "--quick", "--skip-missing", "--out", str(tmp_path)]
    assert main([*words, "--processes", "1"]) == 0
    skipped = "movielens is missing: dealfl datasets fetch movielens"
    assert capsys.readouterr().out.count(skipped) == 1
    page = (tmp_path / "index.html").read_text("utf-8")
    assert page.count(skipped) == 1
    assert f"<li>{skipped} (for leak" in page


def test_the_catalog_marks_what_the_figures_need() -> None:
    needed = {
        dataset
        for figure in FIGURES
        for setting in figure.settings(False)
        for dataset in figure.datasets(setting)
    }
    marked = {name for name, dataset in CATALOG.items() if dataset.of_paper}
    assert marked == {name for name in needed if name in CATALOG and CATALOG[name].files}
