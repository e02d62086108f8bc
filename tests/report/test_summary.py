"""The summary: what was left out and what can not be kept is said, too."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from dealfl.report import summarize, write_page
from dealfl.report.wording import compare_rows
from dealfl.runs import RunRecord, Threshold
from dealfl.server.selection import OverPromise
from dealfl.simulate.traffic import Delays


def test_what_was_left_out_or_promised_too_often_is_said(result: RunRecord) -> None:
    plain = summarize(result)
    assert "left out" not in plain
    assert "guarantees" not in plain
    main = replace(
        result.main,
        quarantined=3,
        first_quarantined="line 7, column 'age': 'old' is not a number",
        unmet_guarantees=OverPromise(("w1", "w2"), promised=1.5, possible=1.0),
    )
    told = summarize(RunRecord(result.job, (main, *result.outcomes[1:])))
    assert "3 examples are not valid and were skipped; the first: line 7, column 'age'" in told
    assert "1.50 picks a round, 1.00 possible: w1, w2" in told


def test_one_round_is_no_rounds(result: RunRecord) -> None:
    main = replace(result.main, workers=1, learned=1, rounds=result.main.rounds[:1])
    told = summarize(RunRecord(result.job, (main,))).splitlines()[0]
    assert ": 1 worker, 1 round, 1 example learned," in told


def test_whoever_is_not_exact_is_named(result: RunRecord) -> None:
    wrong = replace(result.outcomes[1], central_digest="another")
    told = summarize(RunRecord(result.job, (result.main, wrong, *result.outcomes[2:])))
    assert f"NOT EXACT: {wrong.scheme}" in told


def test_more_work_is_a_loss_and_no_saving(result: RunRecord) -> None:
    energy = result.main.energy
    for times, is_loss in ((1e6, True), (1e-6, False)):
        changed = replace(
            energy,
            compute_j=energy.compute_j * times,
            fastest_compute_j=energy.fastest_compute_j * times,
        )
        main = replace(result.main, selector="another", energy=changed)
        rows = compare_rows(RunRecord(result.job, (main, *result.outcomes[1:])))
        assert rows
        for *_, saved, losses in rows:
            assert ("work " in losses) == is_loss
            assert "less work -" not in saved


def test_each_other_system_has_one_row_in_a_small_table(result: RunRecord) -> None:
    told = summarize(result)
    assert "Against" not in told
    for outcome in result.outcomes[1:]:
        assert len(re.findall(rf"^{outcome.scheme}, {outcome.selector}  ", told, re.M)) == 1


def test_energy_is_compared_with_the_fair_baseline_at_the_same_mean_delay(
    result: RunRecord, tmp_path: Path
) -> None:
    main = replace(result.main, delays=Delays(3000.0, 5091.0, 9000.0), changed_at_s=3600.0)
    fair_j = 4.0 * main.example_j
    curve = tuple(
        Threshold(waiting, fair_j * factor, delay_s, main.learned)
        for waiting, factor, delay_s in ((5, 2**0.5, 3600.0), (10, 0.5**0.5, 7200.0))
    )
    record = replace(result, outcomes=(main, *result.outcomes[1:]), curve=curve)
    assert record.fair_j == pytest.approx(fair_j, rel=1e-3)
    told = summarize(record)
    assert "at the same mean delay, 1 h 24 min: 75\u00a0% less." in told
    assert "The world changed after 1 h 0 min." in told
    write_page(record, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "for an example, than a fair baseline at the same mean delay" in page
    more = replace(main, learned=int(main.learned * 0.97))
    assert replace(record, outcomes=(more,)).fair_j is None, "the baseline learns more"


def test_results_are_readable_where_python_shows_them(result: RunRecord) -> None:
    shown = repr(result)
    assert len(shown.splitlines()) == 1 + len(result.outcomes)
    assert max(map(len, shown.splitlines())) < 160
    assert repr(result.main.energy).startswith("FleetEnergy(")
    assert "modelled" in repr(result.main.energy)
