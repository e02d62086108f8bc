"""The plots of a result, round by round and scheme by scheme."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from dealfl.pages import COLOURS, Plot, told
from dealfl.report.result import Result
from dealfl.report.words import (
    energy_scale,
    joules,
    labels,
    quality_text,
    radio_sentence,
    scheme_name,
)
from dealfl.simulate import Outcome, Round

__all__ = ["cost_plots", "round_plots"]

Trace = dict[str, Any]

_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_MOST_POINTS = 400
_MOST_BARS = 100
_NO_ROUNDS = "No round was closed."
_SHORTEST_S = 1e-3  # a logarithm has no place for zero
_TICKS_S = [digit * 10.0**power for power in range(-3, 6) for digit in (1, 3)]
_SYMBOLS = ("circle", "diamond", "square", "cross")
_REASONS = {"declined": "all declining"}
_ROUND = {"title": {"text": "round", "standoff": 6}}


def round_plots(result: Result) -> list[Plot]:
    """Return how the schemes learned, and how the rounds of the main one went."""
    main = result.main
    return [_quality(result), _examples(main), _durations(main), _replies(main)]


def cost_plots(result: Result) -> list[Plot]:
    """Return what all schemes spent, on what, and where the main one saved."""
    return [
        _cumulative(
            result,
            "Energy for computing alone (modelled)",
            "What all phones together have spent on learning and forgetting so far.",
            lambda one: one.compute_j,
        ),
        _cumulative(
            result,
            "Energy of whole devices (modelled)",
            f"Computing, waking and the radio together, so far. {radio_sentence(result.main)}",
            lambda one: one.compute_j + one.radio_j,
        ),
        _causes(result),
        _savings(result.main),
    ]


# -- lines, a scheme each -----------------------------------------------------------------------


def _lines(result: Result, value: Callable[[Round], float | None], form: str) -> list[Trace]:
    traces = []
    names = labels(scheme_name(one.scheme) for one in result.outcomes)
    for place, outcome in enumerate(result.outcomes):
        points = _thinned(_known(outcome.rounds, value))
        if points:
            style = {"color": _colour(place), "dash": _DASHES[place % len(_DASHES)], "width": 2}
            traces.append(
                {
                    "x": [number for number, _ in points],
                    "y": [height for _, height in points],
                    "name": told(names[scheme_name(outcome.scheme)]),
                    "mode": "lines" if len(points) > 1 else "markers",
                    "line": style,
                    "marker": {"color": style["color"], "size": 9},
                    "hovertemplate": f"round %{{x}}: %{{y:{form}}}",
                }
            )
    return traces


def _known(
    rounds: Sequence[Round], value: Callable[[Round], float | None]
) -> list[tuple[int, float]]:
    found = ((one.number, value(one)) for one in rounds)
    return [(n, height) for n, height in found if height is not None and math.isfinite(height)]


def _thinned(points: Sequence[Any]) -> list[Any]:
    """Return at most so many as a screen can show, the last one always."""
    step = -(-len(points) // _MOST_POINTS) or 1
    return list(points[::-step][::-1])


def _axis(text: str) -> dict[str, Any]:
    return {"text": text, "standoff": 6}


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def _quality(result: Result) -> Plot:
    metric = result.main.metric
    reached = ", ".join(
        f"{scheme_name(one.scheme)} {quality_text(one.quality)}" for one in result.outcomes
    )
    return Plot(
        title=f"How good the model is: {metric}",
        words=f"{metric[:1].upper()}{metric[1:]} after each round, on examples that no phone has. "
        f"In the end: {reached}.",
        traces=_lines(result, lambda one: one.quality, ".3f"),
        layout={"xaxis": _ROUND, "yaxis": {"title": _axis(told(labels([metric])[metric]))}},
        nothing="The quality was not measured after any round.",
    )


def _cumulative(result: Result, title: str, words: str, value: Callable[[Round], float]) -> Plot:
    largest_j = max((value(one) for made in result.outcomes for one in made.rounds), default=0.0)
    scale_j, unit = energy_scale(largest_j)
    return Plot(
        title=title,
        words=words,
        traces=_lines(result, lambda one: value(one) / scale_j, ".3s"),
        layout={
            "xaxis": _ROUND,
            "yaxis": {"title": _axis(f"energy, {unit}"), "rangemode": "tozero"},
        },
        nothing=_NO_ROUNDS,
    )


# -- bars, a round or a block of rounds each ----------------------------------------------------


def _blocks(rounds: Sequence[Round]) -> tuple[list[Sequence[Round]], str]:
    """Return rounds in blocks of equal length, few enough for bars, and a word on them."""
    length = -(-len(rounds) // _MOST_BARS) or 1
    blocks = [rounds[start : start + length] for start in range(0, len(rounds), length)]
    return blocks, f" A bar is the mean of {length} rounds." if length > 1 else ""


def _per_round(
    blocks: Sequence[Sequence[Round]],
    name: str,
    place: int,
    value: Callable[[Round], float],
) -> Trace:
    means = [sum(value(one) for one in block) / len(block) for block in blocks]
    return {
        "type": "bar",
        "x": [block[0].number for block in blocks],
        "y": means,
        "name": told(name),
        "marker": {"color": _colour(place)},
        "hovertemplate": "round %{x}: %{y:.3~f}",
    }


def _examples(main: Outcome) -> Plot:
    blocks, word = _blocks(main.rounds)
    traces = [
        _per_round(blocks, "learned", 2, lambda one: one.learned),
        _per_round(blocks, "forgotten", 4, lambda one: -one.evicted),
    ]
    return Plot(
        title=f"Examples learned and forgotten in each round ({scheme_name(main.scheme)})",
        words=f"Above zero what went into the model, below zero what was taken out again.{word}",
        traces=traces if main.rounds else [],
        layout={"xaxis": _ROUND, "yaxis": {"title": _axis("examples")}, "barmode": "relative"},
        nothing=_NO_ROUNDS,
    )


def _durations(main: Outcome) -> Plot:
    reasons = Counter(one.reason for one in main.rounds)
    told_reasons = ", ".join(
        f"{count:,} by {_REASONS.get(reason, reason)}" for reason, count in reasons.most_common()
    )
    return Plot(
        title=f"How long rounds took, and what closed them ({scheme_name(main.scheme)})",
        words=f"Virtual time, on a logarithmic scale. Closed: {told_reasons or 'none'}.",
        traces=[_closings(main.rounds, place, reason) for place, reason in enumerate(reasons)],
        layout={
            "xaxis": _ROUND | {"zeroline": False},
            "yaxis": {"title": _axis("seconds"), "type": "log", "tickvals": _TICKS_S},
        },
        nothing=_NO_ROUNDS,
    )


def _closings(rounds: Sequence[Round], place: int, reason: str) -> Trace:
    closed = _thinned([one for one in rounds if one.reason == reason])
    return {
        "x": [one.number for one in closed],
        "y": [max(one.duration_s, _SHORTEST_S) for one in closed],
        "name": told(labels([_REASONS.get(reason, reason)]).popitem()[1]),
        "mode": "markers",
        "marker": {"color": _colour(place), "symbol": _SYMBOLS[place % len(_SYMBOLS)], "size": 8},
        "showlegend": True,
        "hovertemplate": "round %{x}: %{y:.3s} s",
    }


def _replies(main: Outcome) -> Plot:
    blocks, word = _blocks(main.rounds)
    traces = [
        _per_round(blocks, "could have been asked", 6, lambda one: one.able),
        _per_round(blocks, "asked", 0, lambda one: one.selected),
        _per_round(blocks, "replied in time", 2, lambda one: one.replied),
    ]
    return Plot(
        title=f"Phones asked in each round ({scheme_name(main.scheme)})",
        words=f"Out of {main.workers:,}. Who is not asked sleeps on, and spends nothing.{word}",
        traces=traces if main.rounds else [],
        layout={"xaxis": _ROUND, "yaxis": {"title": _axis("phones")}, "barmode": "overlay"},
        nothing=_NO_ROUNDS,
    )


# -- totals -------------------------------------------------------------------------------------

_CAUSES = {
    "cpu": "processor",
    "awake": "being awake",
    "wifi_active": "radio sending",
    "wifi_tail": "radio staying on",
}


def _causes(result: Result) -> Plot:
    scale_j, unit = energy_scale(max(one.energy.whole_j for one in result.outcomes))
    found = dict.fromkeys(
        cause for one in result.outcomes for cause, spent in one.energy.by_cause_j.items() if spent
    )
    names = labels(scheme_name(one.scheme) for one in result.outcomes)
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "y": [told(name) for name in names.values()],
            "x": [one.energy.by_cause_j.get(cause, 0.0) / scale_j for one in result.outcomes],
            "name": told(_CAUSES.get(cause, cause.replace("_", " "))),
            "marker": {"color": _colour(place)},
            "hovertemplate": f"%{{y}}: %{{x:.3s}} {unit}",
        }
        for place, cause in enumerate(found)
    ]
    return Plot(
        title="What the energy went into (modelled)",
        words=f"All phones together, by scheme. {radio_sentence(result.main)}",
        traces=traces,
        layout={
            "xaxis": {"title": _axis(f"energy, {unit}")},
            "yaxis": {"autorange": "reversed", "ticksuffix": " "},
            "barmode": "stack",
        },
        nothing="No energy was spent.",
    )


def _savings(main: Outcome) -> Plot:
    saved = main.energy.savings
    parts = {
        "fewer wake-ups": saved.fewer_wake_ups_j,
        "less work": saved.less_work_j,
        "slower clock": saved.dvfs_j,
    }
    scale_j, unit = energy_scale(max(abs(part_j) for part_j in parts.values()))
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": list(parts),
        "x": [part_j / scale_j for part_j in parts.values()],
        "text": [joules(part_j) for part_j in parts.values()],
        "textposition": "auto",
        "marker": {"color": _colour(2)},
        "hoverinfo": "text",
    }
    return Plot(
        title=f"Where {scheme_name(main.scheme)} saves energy (modelled)",
        words="Fewer wake-ups: against waking every phone that has something new, each round. "
        "Less work: against training on everything from scratch each time. "
        "Slower clock: against the fastest clock for the same work.",
        traces=[trace] if any(parts.values()) else [],
        layout={
            "xaxis": {"title": _axis(f"{unit} saved")},
            "yaxis": {"autorange": "reversed", "ticksuffix": " "},
        },
        nothing="Nothing was saved.",
    )
