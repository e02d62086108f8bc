"""The summary: what was left out and what can not be kept is said, too."""

from dataclasses import replace

from dealfl.report import summarize
from dealfl.runs import RunRecord
from dealfl.server.selection import OverPromise


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


def test_whoever_is_not_exact_is_named(result: RunRecord) -> None:
    wrong = replace(result.outcomes[1], central_digest="another")
    told = summarize(RunRecord(result.job, (result.main, wrong, *result.outcomes[2:])))
    assert f"NOT EXACT: {wrong.scheme}" in told


def test_more_work_is_a_loss_and_no_saving(result: RunRecord) -> None:
    energy = result.main.energy
    for times, said in ((1e6, "It loses in work ("), (1e-6, "less work ")):
        changed = replace(
            energy,
            compute_j=energy.compute_j * times,
            fastest_compute_j=energy.fastest_compute_j * times,
        )
        main = replace(result.main, selector="another", energy=changed)
        told = summarize(RunRecord(result.job, (main, *result.outcomes[1:])))
        assert said in told
        assert "less work -" not in told
