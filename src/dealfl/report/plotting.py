"""Shared parts of the plots: lines, bars, colours, labels, titles of axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dealfl.escaping import for_plotly
from dealfl.pages import COLOURS
from dealfl.report.wording import scheme_name
from dealfl.runs import Result
from dealfl.simulate import Round

__all__ = [
    "HOURS", "NO_ROUNDS", "ROUND", "Trace", "axis", "bar", "colour", "label", "lines",
    "scheme_labels", "thin",
]  # fmt: skip

Trace = dict[str, Any]

NO_ROUNDS = "No round was closed."
ROUND = {"title": {"text": "round", "standoff": 6}}
HOURS = {"title": {"text": "virtual time, hours", "standoff": 6}}

_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_MOST_POINTS = 400
_MAX_LABEL = 22


def lines(result: Result, value: Callable[[Round], float | None], form: str) -> list[Trace]:
    """Return a line over time for each scheme; rounds without a value are skipped."""
    traces = []
    for place, (name, outcome) in enumerate(
        zip(scheme_labels(result), result.outcomes, strict=True)
    ):
        found = ((one.closed_at_s / 3600.0, value(one)) for one in outcome.rounds)
        points = thin([(n, y) for n, y in found if y is not None and math.isfinite(y)])
        if points:
            style = {"color": colour(place), "dash": _DASHES[place % len(_DASHES)], "width": 2}
            traces.append(
                {
                    "x": [number for number, _ in points],
                    "y": [height for _, height in points],
                    "name": name,
                    "mode": "lines" if len(points) > 1 else "markers",
                    "line": style,
                    "marker": {"color": style["color"], "size": 9},
                    "hovertemplate": f"%{{x:.2f}} h: %{{y:{form}}}",
                }
            )
    return traces


def bar(
    x: Iterable[Any], y: Iterable[Any], name: str, place: int, hover: str, **others: object
) -> Trace:
    """Return bars in the colour of a place."""
    marker = {"color": colour(place)}
    named = {"name": for_plotly(name), "marker": marker, "hovertemplate": hover}
    return {"type": "bar", "x": list(x), "y": list(y), **named, **others}


def scheme_labels(result: Result) -> list[str]:
    """Return a short, unique label for each scheme."""
    names = [scheme_name(one.scheme) for one in result.outcomes]
    labels = label(names)
    return [for_plotly(labels[name]) for name in names]


def thin(points: Sequence[Any]) -> list[Any]:
    """Return evenly spaced points, as many as a screen can show, and always the last."""
    step = -(-len(points) // _MOST_POINTS) or 1
    return list(points[::-step][::-1])


def axis(text: str) -> dict[str, Any]:
    """Return the title of an axis, close to it."""
    return {"text": text, "standoff": 6}


def colour(place: int) -> str:
    """Return the colour of a position, the same in all plots."""
    return COLOURS[place % len(COLOURS)]


def label(names: Iterable[str]) -> dict[str, str]:
    """Return a short, unique label for each name.

    >>> label(["a phone whose name is very long indeed", "mi"])
    {'a phone whose name is very long indeed': 'a phone whose name is…', 'mi': 'mi'}
    """
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        short = name if len(name) <= _MAX_LABEL else f"{name[: _MAX_LABEL - 1]}…"
        found[name] = f"{short} ({len(found) + 1})" if short in found.values() else short
    return found
