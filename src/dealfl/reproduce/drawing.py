"""Shared parts of the plots: one colour a scheme everywhere, logarithmic axes with plain ticks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dealfl.escaping import for_plotly
from dealfl.pages import COLOURS

__all__ = ["SCHEMES", "Trace", "axis", "bars", "colour", "line", "log_axis", "scheme_label"]

Trace = dict[str, Any]

SCHEMES = ("deal", "original", "newfl", "incremental")
_LABELS = {"deal": "DEAL", "original": "Original", "newfl": "NewFL", "incremental": "incremental"}


def colour(place: int | str) -> str:
    """Return the colour of a scheme, or of a place in a list."""
    place = SCHEMES.index(place) if isinstance(place, str) else place
    return COLOURS[place % len(COLOURS)]


def scheme_label(scheme: str) -> str:
    """Return the name of a scheme as in the paper."""
    return _LABELS.get(scheme, scheme)


def line(
    x: Sequence[Any], y: Sequence[Any], name: str, shade: int | str, **others: object
) -> Trace:
    """Return a line with markers."""
    shown: Trace = {"x": list(x), "y": list(y), "name": for_plotly(name)}
    shown["mode"] = "lines+markers" if len(x) <= 60 else "lines"
    shown |= {"line": {"color": colour(shade), "width": 2}, "marker": {"color": colour(shade)}}
    return shown | others


def bars(
    x: Sequence[Any],
    y: Sequence[float | None],
    name: str,
    shade: int | str,
    error: Sequence[float | None] | None = None,
    **others: object,
) -> Trace:
    """Return bars, with intervals if there are any."""
    trace: Trace = {"type": "bar", "x": list(x), "y": list(y), "name": for_plotly(name)}
    trace["marker"] = {"color": colour(shade)}
    if error is not None:
        trace["error_y"] = {"type": "data", "array": [one or 0.0 for one in error]}
    return trace | others


def axis(title: str, **others: object) -> dict[str, Any]:
    """Return an axis with a title close to it."""
    return {"title": {"text": title, "standoff": 6}, **others}


def log_axis(title: str) -> dict[str, Any]:
    """Return a logarithmic axis with one tick a decade."""
    return axis(title, type="log", dtick=1, tickformat=",~r")
