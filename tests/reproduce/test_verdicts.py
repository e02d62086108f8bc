"""Verdicts come from rows: other rows give other verdicts."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dealfl.reproduce import FIGURES, reproduce
from dealfl.reproduce.figure import Verdict

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
)


@pytest.mark.parametrize(("figure", "claim", "true", "false"), FLIPS)
def test_a_verdict_follows_the_rows(
    stored: Path, figure: str, claim: str, true: Change, false: Change
) -> None:
    found = [verdicts(stored, figure, change) for change in (true, false)]
    names = [name for name in found[0] if name.startswith(claim)]
    assert [found[0][name] for name in names] == [Verdict.REPRODUCED]
    assert [found[1][name] for name in names] == [Verdict.NOT_REPRODUCED]


def test_stand_in_data_alone_is_not_comparable(stored: Path) -> None:
    done = reproduce(stored, ["time"], quick=True).figures[0]
    rows = [row for row in done.rows if row["dataset"] == "yearpredictionmsd-like"]
    found = {claim.verdict for claim in done.figure.claims(rows)}
    assert found == {Verdict.NOT_COMPARABLE}


def test_every_figure_has_a_name_of_its_own() -> None:
    names = [figure.name for figure in FIGURES]
    assert len(set(names)) == len(names)
