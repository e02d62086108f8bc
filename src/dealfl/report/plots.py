"""Every plot of a result by its name."""

from __future__ import annotations

from typing import Any

from dealfl.errors import unknown_name
from dealfl.pages import draw
from dealfl.report.energy_plots import energy_plots
from dealfl.report.phone_plots import phone_plots
from dealfl.report.round_plots import round_plots
from dealfl.runs import Result

__all__ = ["draw_plot", "plot_names"]

_PLOTS = {
    round_plots: ("quality", "examples", "durations", "replies"),
    energy_plots: ("compute_energy", "whole_energy", "energy_causes", "savings"),
    phone_plots: ("wake_ups", "selected", "phone_energy", "battery"),
}


def plot_names() -> tuple[str, ...]:
    """Return the names of all plots, in the order of the page.

    Returns
    -------
    tuple of str
        The names.

    Examples
    --------
    >>> plot_names()[:2]
    ('quality', 'examples')
    """
    return tuple(name for names in _PLOTS.values() for name in names)


def draw_plot(result: Result, name: str) -> Any:  # noqa: ANN401 - plotly is optional
    """Return a plot of a result.

    Parameters
    ----------
    result
        The outcomes to plot.
    name
        One of `plot_names()`.

    Returns
    -------
    plotly.graph_objects.Figure
        The plot.

    Raises
    ------
    UnknownName
        If there is no such plot.
    DealError
        If plotly is not installed.
    """
    for make, names in _PLOTS.items():
        if name in names:
            return draw(make(result)[names.index(name)])
    raise unknown_name("plot", name, plot_names())
