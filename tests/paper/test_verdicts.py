"""Verdicts come from rows: other rows give other verdicts."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dealfl.learners import PersonalizedPageRank
from dealfl_paper.figure import Verdict
from dealfl_paper.figures import FIGURES
from dealfl_paper.reproduction import reproduce

Change = Callable[[dict[str, Any]], object]


def verdicts(folder: Path, figure: str, change: Change) -> dict[str, Verdict]:
    """Return the verdicts by claim after a change of every row."""
    done = reproduce(folder, [figure], quick=True).figures[0]
    rows = [{**row} for row in done.rows]
    for row in rows:
        change(row)
    return {claim.claim: claim.verdict for claim in done.figure.claims(rows)}


def scaled(key: str, factor: float, **wanted: object) -> Change:
    def change(row: dict[str, Any]) -> None:
        if all(row.get(name) == value for name, value in wanted.items()) and key in row:
            value = row[key]
            row[key] = (
                {name: one * factor for name, one in value.items()}
                if isinstance(value, dict)
                else value * factor
            )

    return change


FLIPS: Sequence[tuple[str, str, Change, Change]] = (
    ("devices", "Five phones", scaled("mhz", 1.0), scaled("mhz", 1.1)),
    (
        "time",
        "naive Bayes: DEAL is 2 orders",
        scaled("host_ms", 1e6, scheme="original"),
        scaled("host_ms", 1e-6, scheme="original"),
    ),
    (
        "time",
        "Tikhonov: DEAL is one to two orders of magnitude faster than NewFL",
        scaled("host_ms", 1e6, scheme="newfl"),
        scaled("host_ms", 1.0),
    ),
    (
        "time",
        "kNN on phishing: DEAL with DVFS",
        scaled("phone_ms", 1e6, scheme="original"),
        scaled("phone_ms", 1e-6, scheme="original"),
    ),
    (
        "accuracy",
        "Tikhonov on phishing",
        scaled("quality", 1.0),
        scaled("quality", 0.5, theta="0.02"),
    ),
    (
        "accuracy",
        "DEAL's models are better",
        scaled("quality", 0.0, scheme="newfl"),
        scaled("quality", 9.0, scheme="newfl"),
    ),
    (
        "energy",
        "81.7 % less energy than Original on average, compute",
        scaled("compute_uah", 1e6, scheme="original"),
        scaled("compute_uah", 1e6, scheme="deal"),
    ),
    (
        "energy",
        "75.6 to 82.4 %",
        scaled("compute_uah", 1e6, scheme="original"),
        scaled("compute_uah", 1.0, scheme="original"),
    ),
    (
        "energy",
        "Tikhonov on housing: saved against Original",
        lambda row: row.update(
            compute_uah={"2112": 8.0 if row.get("scheme") == "original" else 1.0}
        ),
        scaled("compute_uah", 1.0),
    ),
    (
        "energy",
        "Energy falls",
        lambda row: row.update(compute_uah={"1402": 1.0, "2112": 2.0}),
        lambda row: row.update(compute_uah={"1402": 2.0, "2112": 1.0}),
    ),
    (
        "energy",
        "On the CPU's rail",
        scaled("pc", 1.0),
        lambda row: row.update(pc=1.0 / row.get("pc", 1.0)),
    ),
    (
        "energy-datasets",
        "Tikhonov: on every dataset",
        scaled("compute_uah", 1e6, scheme="original"),
        scaled("compute_uah", 1.0),
    ),
    (
        "energy-datasets",
        "Tikhonov: on some datasets",
        scaled("compute_uah", 1e6, scheme="original"),
        scaled("compute_uah", 1e-6, scheme="original"),
    ),
    (
        "convergence",
        "PageRank on movielens: median",
        lambda row: row.update(ms=100.0 if row["scheme"] == "deal" else 9e4),
        scaled("ms", 1.0),
    ),
    (
        "convergence",
        "PageRank on jester: share of the devices",
        scaled("ms", 1e6, scheme="original"),
        scaled("ms", 1e6, scheme="deal"),
    ),
    (
        "convergence",
        "PageRank on jester: DEAL's advantage",
        lambda row: row.update(ms=1.0 + row["device"] * (row["scheme"] == "deal")),
        lambda row: row.update(ms=1.0 + row["device"] * (row["scheme"] == "original")),
    ),
    (
        "governors",
        "DEAL's control",
        scaled("compute_j", 0.1, governor="deal"),
        scaled("compute_j", 10.0, governor="deal"),
    ),
    (
        "images",
        "CIFAR-10",
        scaled("quality", 0.1, scheme="newfl"),
        scaled("quality", 10.0, scheme="newfl"),
    ),
    (
        "selection",
        "Wrong selections",
        lambda row: row.update(tail=True),
        lambda row: row.update(tail=False),
    ),
    ("leak", "Similar people", scaled("floor", 0.0), scaled("quality", 0.0)),
    (
        "leak",
        "PageRank: deleted items",
        lambda row: row.update(quality=1.0),
        scaled("quality", 0.5),
    ),
    ("privacy", "NewFL: all", scaled("held", 1.0), scaled("held", 0.5)),
    ("privacy", "Original: the share", scaled("touched", 1.0), scaled("touched", -1.0)),
    ("privacy", "DEAL: the share", scaled("touched", 1.0), scaled("touched", 0.0)),
)


@pytest.mark.parametrize(("figure", "claim", "true", "false"), FLIPS)
def test_a_verdict_follows_the_rows(
    stored: Path, figure: str, claim: str, true: Change, false: Change
) -> None:
    found = [verdicts(stored, figure, change) for change in (true, false)]
    names = [name for name in found[0] if name.startswith(claim)]
    assert [found[0][name] for name in names] == [Verdict.REPRODUCED]
    assert [found[1][name] for name in names] == [Verdict.NOT_REPRODUCED]


SHOWN = (
    ("energy", "81.7 % less energy than Original on average, whole", "whole_uah"),
    ("swaps", "θ-LRU saves", "saved"),
    ("system", "Ours: less energy", "energy_j"),
)


@pytest.mark.parametrize(("figure", "claim", "key"), SHOWN)
def test_what_the_paper_did_not_measure_is_shown_and_not_judged(
    stored: Path, figure: str, claim: str, key: str
) -> None:
    for factor in (1e-6, 1.0, 1e6):
        found = verdicts(stored, figure, scaled(key, factor))
        judged = {verdict for name, verdict in found.items() if name.startswith(claim)}
        assert judged == {Verdict.NOT_COMPARABLE}


def test_a_mean_that_reaches_the_number_by_chance_judges_nothing(stored: Path) -> None:
    def change(row: dict[str, Any]) -> None:
        saves = 0.0 if row.get("dataset") == "housing" else 1e-9
        if "compute_uah" in row:
            deal = row["scheme"] == "deal"
            row["compute_uah"] = {"2112": 1.0 if not deal or not saves else saves}

    found = verdicts(stored, "energy", change)
    (judged,) = [found[name] for name in found if name.startswith("81.7") and "compute" in name]
    assert judged is Verdict.NOT_COMPARABLE, "100 % on eight of nine datasets, 0 on one"


def test_a_ratio_that_only_the_timed_replica_reaches_is_bound_to_the_implementation(
    stored: Path,
) -> None:
    def change(row: dict[str, Any]) -> None:
        if row.get("scheme") == "original" and "host_ms" in row:
            row["host_ms"] *= 1e6 if row["panel"] == "row at a time" else 1e-6

    found = verdicts(stored, "time", change)
    assert found["kNN: DEAL is 3 orders of magnitude faster than Original"] is (
        Verdict.IMPLEMENTATION_BOUND
    )


def test_a_quick_run_contradicts_no_full_one(stored: Path) -> None:
    for done in reproduce(stored, quick=True).figures:
        for claim in done.claims:
            same = done.settings == done.figure.settings(False)
            assert same or claim.verdict in (Verdict.TOO_SMALL, Verdict.NOT_COMPARABLE)


@pytest.mark.parametrize("figure", ["time", "energy", "energy-datasets"])
def test_stand_in_data_alone_is_not_comparable(stored: Path, figure: str) -> None:
    done = reproduce(stored, [figure], quick=True).figures[0]
    rows = [row for row in done.rows if row.get("dataset") == "yearpredictionmsd-like"]
    found = {claim.verdict for claim in done.figure.claims(rows)}
    assert found == {Verdict.NOT_COMPARABLE}


def test_a_model_that_does_not_forget_is_found_out(
    monkeypatch: pytest.MonkeyPatch, require_data: Callable[[str], None]
) -> None:
    require_data("movielens")
    figure = next(one for one in FIGURES if one.name == "leak")
    setting = {"attack": "forgotten", "trials": 1, "sizes": [1], "seed": 0}
    assert figure.run(setting)[0]["quality"] == 0
    monkeypatch.setattr(PersonalizedPageRank, "forget", lambda *_: None)
    assert figure.run(setting)[0]["quality"] > 0


def test_every_figure_has_a_name_of_its_own() -> None:
    names = [figure.name for figure in FIGURES]
    assert len(set(names)) == len(names)
