"""Shared parts of the plots: lines, colours, labels, titles of axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dealfl.pages import COLOURS, plotly_text
from dealfl.report.wording import scheme_name
from dealfl.runs import Result
from dealfl.simulate import Round

__all__ = ["NO_ROUNDS", "ROUND", "Trace", "axis", "colour", "label", "lines", "thin"]

Trace = dict[str, Any]

NO_ROUNDS = "No round was closed."
ROUND = {"title": {"text": "round", "standoff": 6}}

_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_MOST_POINTS = 400
_MAX_LABEL = 22


def lines(result: Result, value: Callable[[Round], float | None], form: str) -> list[Trace]:
    """Return a line for each scheme; rounds without a value are skipped."""
    traces = []
    names = label(scheme_name(one.scheme) for one in result.outcomes)
    for place, outcome in enumerate(result.outcomes):
        points = thin(_known(outcome.rounds, value))
        if points:
            style = {"color": colour(place), "dash": _DASHES[place % len(_DASHES)], "width": 2}
            traces.append(
                {
                    "x": [number for number, _ in points],
                    "y": [height for _, height in points],
                    "name": plotly_text(names[scheme_name(outcome.scheme)]),
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
