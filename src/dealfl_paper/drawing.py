"""Shared parts of the plots: one colour a scheme everywhere, logarithmic axes with plain ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dealfl.escaping import for_plotly
from dealfl.pages import COLOURS, Plot
from dealfl.worker import COMPARED, find_scheme
from dealfl_paper.figure import Row, median, select, values_of

Trace = dict[str, Any]

SCHEMES = COMPARED


def colour(key: int | str) -> str:
    """Return the colour of a scheme, or of a place in a list."""
    key = SCHEMES.index(key) if isinstance(key, str) else key
    return COLOURS[key % len(COLOURS)]


def scheme_label(scheme: str) -> str:
    """Return the name of a scheme as in the paper, which has no incremental one."""
    return find_scheme(scheme).label if scheme in SCHEMES[:3] else scheme


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
        trace["error_y"] = {"type": "data", "array": [width or 0.0 for width in error]}
    return trace | others


def axis(title: str, **others: object) -> dict[str, Any]:
    """Return an axis with a title close to it."""
    return {"title": {"text": title, "standoff": 6}, **others}


def log_axis(title: str, values: Sequence[float | None]) -> dict[str, Any]:
    """Return a logarithmic axis with a tick for each decade, or for 1, 2 and 5 of few decades."""
    positive = [value for value in values if value is not None and value > 0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    steps = (1,) if high - low > 2 else (1, 2, 5)
    ticks = [step * 10.0**decade for decade in range(low, high + 1) for step in steps]
    return axis(title, type="log", tickvals=ticks, tickformat=",~r")


def frequency_plot(title: str, words: str, rows: Sequence[Row], key: str, unit: str) -> Plot:
    """Return a plot of medians by clock frequency: a colour a scheme, a dash a dataset."""
    traces = []
    for index, dataset in enumerate(values_of(rows, "dataset")):
        for scheme in SCHEMES[:3]:
            own = select(rows, dataset=dataset, scheme=scheme)
            clocks = list(own[0][key])
            heights = [median([row[key][mhz] for row in own]) for mhz in clocks]
            short = dataset.replace("yearpredictionmsd-like", "year*")
            trace = line(
                [int(mhz) for mhz in clocks], heights, f"{scheme_label(scheme)}, {short}", scheme
            )
            trace["line"]["dash"] = ("solid", "dash", "dot")[index]
            traces.append(trace)
    values = [height for trace in traces for height in trace["y"]]
    layout = {"xaxis": axis("clock frequency, MHz"), "yaxis": log_axis(unit, values)}
    return Plot(title=title, words=words, traces=traces, layout=layout, height=460)
