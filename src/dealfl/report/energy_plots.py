"""Plots of energy: by scheme and round, by cause, and the savings."""

from __future__ import annotations

from collections.abc import Callable

from dealfl.pages import Plot, plotly_text
from dealfl.report.formats import energy_scale, format_energy
from dealfl.report.plotting import NO_ROUNDS, ROUND, axis, colour, label, lines
from dealfl.report.wording import radio_sentence, scheme_name
from dealfl.runs import Result
from dealfl.simulate import Outcome, Round

__all__ = ["energy_plots"]

_CAUSES = {
    "cpu": "processor",
    "awake": "being awake",
    "wifi_active": "radio transfers",
    "wifi_tail": "radio tail",
}


def energy_plots(result: Result) -> list[Plot]:
    """Return the plots of the energy of all schemes, and of the savings of the main one."""
    return [
        _cumulative(
            result,
            "Energy for computing (modelled)",
            "Cumulative energy of all phones to learn and to forget.",
            lambda one: one.compute_j,
        ),
        _cumulative(
            result,
            "Energy of whole devices (modelled)",
            f"Cumulative energy of computing, waking and radio. {radio_sentence(result.main)}",
            lambda one: one.compute_j + one.radio_j,
        ),
        _causes(result),
        _savings(result.main),
    ]


def _cumulative(result: Result, title: str, words: str, value: Callable[[Round], float]) -> Plot:
    largest_j = max((value(one) for made in result.outcomes for one in made.rounds), default=0.0)
    scale_j, unit = energy_scale(largest_j)
    return Plot(
        title=title,
        words=words,
        traces=lines(result, lambda one: value(one) / scale_j, ".3s"),
        layout={"xaxis": ROUND, "yaxis": {"title": axis(f"energy, {unit}"), "rangemode": "tozero"}},
        nothing=NO_ROUNDS,
    )


def _causes(result: Result) -> Plot:
    scale_j, unit = energy_scale(max(one.energy.whole_j for one in result.outcomes))
    found = dict.fromkeys(
        cause for one in result.outcomes for cause, spent in one.energy.by_cause_j.items() if spent
    )
    names = label(scheme_name(one.scheme) for one in result.outcomes)
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "y": [plotly_text(name) for name in names.values()],
            "x": [one.energy.by_cause_j.get(cause, 0.0) / scale_j for one in result.outcomes],
            "name": plotly_text(_CAUSES.get(cause, cause.replace("_", " "))),
            "marker": {"color": colour(place)},
            "hovertemplate": f"%{{y}}: %{{x:.3s}} {unit}",
        }
        for place, cause in enumerate(found)
    ]
    return Plot(
        title="Energy by cause (modelled)",
        words=f"Total of all phones, by scheme. {radio_sentence(result.main)}",
        traces=traces,
        layout={
            "xaxis": {"title": axis(f"energy, {unit}")},
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
        "text": [format_energy(part_j) for part_j in parts.values()],
        "textposition": "auto",
        "marker": {"color": colour(2)},
        "hoverinfo": "text",
    }
    return Plot(
        title=f"Energy saved by {scheme_name(main.scheme)}, by cause (modelled)",
        words="Fewer wake-ups: compared with waking every phone with new examples in each round. "
        "Less work: compared with training on all examples from scratch each time. "
        "Slower clock: compared with the fastest clock for the same work.",
        traces=[trace] if any(parts.values()) else [],
        layout={
            "xaxis": {"title": axis(f"energy saved, {unit}")},
            "yaxis": {"autorange": "reversed", "ticksuffix": " "},
        },
        nothing="No energy was saved.",
    )
