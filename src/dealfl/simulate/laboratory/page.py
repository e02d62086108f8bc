"""One HTML file with the plots of a laboratory's result; it needs no network."""

from __future__ import annotations

import html
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from dealfl.errors import DealError
from dealfl.simulate.laboratory.experiment import Course, Result, bound

__all__ = ["write_page"]

_COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f")


def write_page(result: Result, table: str, path: Path) -> None:
    """Write the regret over time, the fractions against what was promised, and the table."""
    try:
        graphs: Any = import_module("plotly.graph_objects")
    except ImportError as error:
        raise DealError(
            "plots need plotly; install it with: pip install 'dealfl[report]'"
        ) from error
    regret = _regret(graphs, result).to_html(full_html=False, include_plotlyjs="inline")
    fractions = _fractions(graphs, result).to_html(full_html=False, include_plotlyjs=False)
    name = html.escape(result.setting.plan.name)
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title></head>'
        f'<body style="font-family: sans-serif; max-width: 70em; margin: auto"><h1>{name}</h1>'
        f"{regret}{fractions}<pre>{html.escape(table)}</pre></body></html>\n"
    )
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DealError(f"{path} can not be written: {error.strerror}") from error


def _regret(graphs: Any, result: Result) -> Any:  # noqa: ANN401
    figure = graphs.Figure()
    for course, colour in zip(result.courses, _COLOURS * len(result.courses), strict=False):
        mean = course.regret.mean(axis=0)
        figure.add_scatter(
            x=result.points, y=mean, name=course.policy.label, mode="lines",
            line={"color": colour},
        )  # fmt: skip
        _band(figure, result, course, mean, colour)
        if course.within(result.setting, result.points) is not None:
            allowed = bound(result.setting, course.policy.eta, result.points.astype(np.float64))
            figure.add_scatter(
                x=result.points, y=allowed, name=f"theory, {course.policy.label}", mode="lines",
                line={"color": colour, "dash": "dot"}, visible="legendonly",
            )  # fmt: skip
    figure.update_layout(
        title=f"Regret a round so far, with 95 % intervals over {result.seeds} seeds",
        xaxis={"title": "round", "type": "log"},
        yaxis={"title": "regret a round"},
    )
    return figure


def _band(figure: Any, result: Result, course: Course, mean: Any, colour: str) -> None:  # noqa: ANN401
    if result.seeds < 2:
        return
    half = 1.96 * course.regret.std(axis=0, ddof=1) / np.sqrt(result.seeds)
    figure.add_scatter(
        x=np.concatenate([result.points, result.points[::-1]]),
        y=np.concatenate([mean + half, (mean - half)[::-1]]),
        fill="toself", fillcolor=colour, opacity=0.2, line={"width": 0}, hoverinfo="skip",
        showlegend=False,
    )  # fmt: skip


def _fractions(graphs: Any, result: Result) -> Any:  # noqa: ANN401
    figure = graphs.Figure()
    workers = [f"worker {place}" for place in range(1, result.setting.workers + 1)]
    for course, colour in zip(result.courses, _COLOURS * len(result.courses), strict=False):
        figure.add_bar(
            x=workers, y=course.fractions.mean(axis=0), name=course.policy.label,
            marker={"color": colour},
        )  # fmt: skip
    for values, name, symbol in (
        (result.setting.fairness, "promised", "line-ew-open"),
        (result.optimum.fractions, "optimum", "diamond-open"),
    ):
        figure.add_scatter(
            x=workers, y=values, name=name, mode="markers",
            marker={"symbol": symbol, "size": 14, "color": "black", "line": {"width": 2}},
        )  # fmt: skip
    figure.update_layout(
        title="How often each worker was chosen, and what it was promised",
        yaxis={"title": "fraction of rounds"},
        barmode="group",
    )
    return figure
