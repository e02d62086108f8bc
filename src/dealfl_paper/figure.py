"""What a figure of the paper is here: settings, a run that returns rows, plots and claims of them.

A setting and a row hold plain JSON values. Rows are stored, so plots and verdicts never run
anything again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dealfl.pages import Plot
from dealfl.simulate import Estimate

Row = Mapping[str, Any]
Setting = Mapping[str, Any]


class Verdict(StrEnum):
    """The result of a comparison with the paper."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    IMPLEMENTATION_BOUND = "implementation-bound"  # the timed replica reaches it, we do not
    NOT_COMPARABLE = "not comparable"
    TOO_SMALL = "too small to judge"  # in a quick run


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of the paper beside the number here; the verdict is computed from rows."""

    claim: str
    paper: str
    here: str
    verdict: Verdict
    why: str
    replica: str = "–"  # the same with a replica of the paper's way


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure or table: how its rows are made, drawn and judged.

    `run` draws nothing, `plot` and `claims` run nothing. `cost_s` is a rough duration of a setting,
    from which the remaining time is estimated. A setting that `measures` time runs alone, and
    reads `datasets`.
    """

    name: str
    title: str
    paper: str
    method: str
    settings: Callable[[bool], Sequence[Setting]]
    run: Callable[[Setting], Sequence[Row]]
    plot: Callable[[Sequence[Row]], Sequence[Plot]]
    claims: Callable[[Sequence[Row]], Sequence[Claim]]
    cost_s: Callable[[Setting], float] = lambda _: 1.0
    measures: Callable[[Setting], bool] = lambda _: False
    datasets: Callable[[Setting], Sequence[str]] = lambda setting: (
        [setting["dataset"]] if "dataset" in setting else []
    )


def key_of(setting: Setting) -> str:
    """Return the canonical text of a setting: the key of its rows."""
    return json.dumps(setting, sort_keys=True, ensure_ascii=False)


# -- rows ---------------------------------------------------------------------------------------


def select(rows: Sequence[Row], **keys: object) -> list[Row]:
    """Return the rows with these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in keys.items())]


def values_of(rows: Sequence[Row], key: str) -> list[Any]:
    """Return the different values of a key, in their order."""
    return list(dict.fromkeys(row[key] for row in rows if key in row))


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile, interpolated between neighbours.

    >>> quantile([1.0, 2.0, 4.0], 0.75)
    3.0
    """
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return quantile(values, 0.5)


def estimate(rows: Sequence[Row], key: str) -> Estimate:
    """Return the mean of a key over rows, with its 95 % confidence interval."""
    return Estimate.of([row[key] for row in rows])


def show_number(value: float) -> str:
    """Return a number with three digits, or as a whole number if it is large.

    >>> show_number(1234.5), show_number(0.03124)
    ('1,234', '0.0312')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def mean_with_interval(values: Sequence[float]) -> str:
    """Return a mean and half of its 95 % confidence interval as text; one value has no interval.

    >>> mean_with_interval([1.0, 2.0, 3.0]), mean_with_interval([1.0])
    ('2 ± 2.48', '1')
    """
    average = Estimate.of(values)
    spread = "" if average.half_width is None else f" ± {show_number(average.half_width)}"
    return f"{show_number(average.mean)}{spread}"


# -- verdicts -----------------------------------------------------------------------------------


def judge(holds: bool, *, comparable: bool = True, replica_holds: bool = False) -> Verdict:
    """Return the verdict on a claim that holds or not; stand-in data is not comparable.

    >>> judge(False, replica_holds=True).value
    'implementation-bound'
    """
    if not comparable:
        return Verdict.NOT_COMPARABLE
    if not holds and replica_holds:
        return Verdict.IMPLEMENTATION_BOUND
    return Verdict.REPRODUCED if holds else Verdict.NOT_REPRODUCED


def at_least(measured: float, orders: float) -> bool:
    """Return whether a ratio is at least that many orders of magnitude."""
    return measured >= float(10.0**orders)


def describe_ratio(ratio: float) -> str:
    """Return a ratio as text.

    >>> describe_ratio(1234.5), describe_ratio(0.0312)
    ('1,234 times', '0.0312 times')
    """
    return f"{show_number(ratio)} times"
