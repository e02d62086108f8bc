"""The HTML report of a selection laboratory: one file that needs no network."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.escaping import for_html, for_plotly
from dealfl.pages import COLOURS, Plot, page, plot_section
from dealfl.report import format_count
from dealfl.storage import replace_file
from dealfl_paper.laboratory.experiment import Course, Result, compute_bound

Trace = dict[str, Any]


def write_selection_page(result: Result, table: str, path: Path) -> None:
    """Write the HTML report of a selection laboratory, atomically."""
    name = result.setting.plan.name
    body = (
        f"<h1>{for_html(name)}</h1>\n{plot_section(_regret(result))}"
        f"{plot_section(_fractions(result))}<pre>{for_html(table)}</pre>\n"
    )
    replace_file(path, page(name, body))


def _regret(result: Result) -> Plot:
    traces: list[Trace] = []
    for course, colour in zip(result.courses, cycle(COLOURS), strict=False):
        mean = course.regret.mean(axis=0)
        traces.append(_line(result, mean, course.policy.label, {"color": colour}))
        traces += _band(result, course, mean, colour)
        if course.within(result.setting, result.points) is not None:
            allowed = compute_bound(
                result.setting, course.policy.eta, result.points.astype(np.float64)
            )
            line = {"color": colour, "dash": "dot"}
            theory = _line(result, allowed, f"theory, {course.policy.label}", line)
            traces.append(theory | {"visible": "legendonly"})
    return Plot(
        title="Mean regret per round, with 95 % confidence intervals over "
        f"{format_count(result.seeds, 'seed')}",
        words="Reward lost compared with the best possible selection. Click on an entry of the "
        "legend to show its theoretical bound.",
        traces=traces,
        layout={
            "xaxis": {"title": {"text": "round"}, "type": "log", "dtick": 1},
            "yaxis": {"title": {"text": "regret per round"}},
        },
        height=460,
    )


def _line(result: Result, values: NDArray[np.float64], name: str, line: Trace) -> Trace:
    points, heights = result.points.tolist(), values.tolist()
    return {"x": points, "y": heights, "name": for_plotly(name), "mode": "lines", "line": line}


def _band(result: Result, course: Course, mean: NDArray[np.float64], colour: str) -> list[Trace]:
    if result.seeds < 2:
        return []
    half = 1.96 * course.regret.std(axis=0, ddof=1) / np.sqrt(result.seeds)
    there_and_back = np.concatenate([result.points, result.points[::-1]])
    edges = np.concatenate([mean + half, (mean - half)[::-1]])
    area = {"fill": "toself", "fillcolor": colour, "opacity": 0.2, "line": {"width": 0}}
    outline = {"x": there_and_back.tolist(), "y": edges.tolist(), "mode": "lines"}
    return [outline | area | {"hoverinfo": "skip", "showlegend": False}]


def _fractions(result: Result) -> Plot:
    workers = [f"worker {number}" for number in range(1, result.setting.workers + 1)]
    traces: list[Trace] = [
        {
            "type": "bar",
            "x": workers,
            "y": course.fractions.mean(axis=0).tolist(),
            "name": for_plotly(course.policy.label),
            "marker": {"color": colour},
        }
        for course, colour in zip(result.courses, cycle(COLOURS), strict=False)
    ]
    for values, name, symbol, size in (
        (result.setting.fairness, "guarantee", "line-ew-open", 30),
        (result.optimum.fractions, "optimum", "diamond-open", 12),
    ):
        marker = {"symbol": symbol, "size": size, "line": {"width": 3}}
        points = {"x": workers, "y": np.asarray(values).tolist(), "mode": "markers"}
        traces.append(points | {"name": name, "marker": marker, "meta": "ink"})
    return Plot(
        title="Selections of each worker, and its fairness guarantee",
        words="A bar below the guarantee means that the worker was selected too rarely.",
        traces=traces,
        layout={"yaxis": {"title": {"text": "fraction of rounds"}}, "barmode": "group"},
        height=460,
    )
