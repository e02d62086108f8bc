"""What a report notes by itself: dips of a curve, booked rounds, a fixed clock that is better."""

from dataclasses import replace
from pathlib import Path

import pytest

from dealfl.report import summarize, write_page
from dealfl.runs import RunRecord
from dealfl.simulate import Outcome, read_fleet, run_fleet
from tests.simulate.fleets import document


def written(result: RunRecord, folder: Path) -> str:
    write_page(result, folder / "report.html")
    return (folder / "report.html").read_text("utf-8")


def with_curve(main: Outcome, qualities: list[float], dip_at: int) -> RunRecord:
    rounds = tuple(
        replace(main.rounds[0], number=n, quality=quality, learned=30, evicted=0)
        for n, quality in enumerate(qualities, 1)
    )
    return RunRecord("curve", (replace(main, rounds=rounds, dip_at=dip_at, tested=400),))


@pytest.mark.parametrize(
    ("qualities", "features", "words", "why"),
    [
        ([0.6, 0.8, 0.5, 0.9], 100, "Dips: DEAL to 0.5000 with 90 examples.", True),
        ([0.6, 0.8, 0.5, 0.9], 200, "Dips: DEAL to 0.5000 with 90 examples.", False),
        ([0.6, 0.8, 0.5, 0.9], 0, "Dips: DEAL to 0.5000 with 90 examples.", False),
        ([0.6, 0.8, 0.79, 0.9], 100, "", False),  # within the noise
        ([0.6, 0.8, 0.5, 0.5], 100, "", False),  # it does not rise again
    ],
)
def test_a_dip_is_noted_and_explained_where_examples_match_features(
    tmp_path: Path, result: RunRecord, qualities: list[float], features: int, words: str, why: bool
) -> None:
    page = written(with_curve(result.main, qualities, features), tmp_path)
    assert words in page
    assert ("Dips:" in page) == bool(words)
    assert (f"as many examples as features ({features:,})" in page) == why


def test_a_ridge_model_dips_at_its_features_and_others_do_not() -> None:
    for learner, features in (("tikhonov_classifier", 64), ("naive_bayes", 0)):
        made = document(
            {"job.learner": learner, "job.rounds": 1},
            {"features": {"map": "identity", "bound": 16.0}},
        )
        assert run_fleet(read_fleet(made)).dip_at == features


def test_booked_rounds_are_explained_and_have_no_duration(
    tmp_path: Path, result: RunRecord
) -> None:
    first, *rest = result.main.rounds
    main = replace(result.main, rounds=(replace(first, reason="booked", duration_s=0.0), *rest))
    page = written(RunRecord("booked", (main,)), tmp_path)
    assert "1 more closed at once: their phones sleep and train when they call." in page
    assert "by booked" not in page
    assert "(booked)" in page  # among the terms


@pytest.mark.parametrize(("clock", "better"), [({"frequency_mhz": 2016.0}, 2112), ({}, None)])
def test_a_fixed_clock_that_dominates_is_named(
    tmp_path: Path, clock: dict[str, float], better: int | None
) -> None:
    phones = {"devices": [{"phone": "honor", "count": 4} | clock]}
    result = RunRecord("clock", (run_fleet(read_fleet(document({"job.rounds": 3}, phones))),))
    words = f"less energy (modelled): honor at {better:,} MHz (1.4\u00a0% less)." if better else ""
    for text in (summarize(result), written(result, tmp_path)):
        assert ("A fixed clock" in text) == bool(better)
        assert words in text
