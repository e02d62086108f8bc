"""Plots by kind of phone: selections, energy, battery."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import fsum

from dealfl.escaping import for_plotly
from dealfl.pages import COLOURS, Plot
from dealfl.report.plotting import bar, label, scheme_labels
from dealfl.report.wording import energy_scale, scheme_name
from dealfl.runs import Result
from dealfl.simulate import Participant

__all__ = ["phone_plots"]

_MOST_KINDS = 10
_OTHERS = "other kinds"
_NEARLY_FULL = 99.0

Kinds = dict[str, list[Participant]]  # the phones of each kind


def phone_plots(result: Result) -> list[Plot]:
    """Return the plots of the phones: wake-ups and selections by scheme, the rest of the main."""
    kinds = _group(result.main.participants)
    return [_wake_ups(result), _selected(result), _energy(result, kinds), _battery(result, kinds)]


def _group(participants: Iterable[Participant]) -> Kinds:
    """Return the phones by kind; rare kinds are combined."""
    grouped: defaultdict[str, list[Participant]] = defaultdict(list)
    for one in participants:
        grouped[one.device].append(one)
    if len(grouped) <= _MOST_KINDS:
        return grouped
    ordered = sorted(grouped.items(), key=lambda item: -len(item[1]))
    others = [one for _, group in ordered[_MOST_KINDS - 1 :] for one in group]
    return {**dict(ordered[: _MOST_KINDS - 1]), _OTHERS: others}


def _named(kinds: Kinds) -> list[str]:
    return [for_plotly(name) for name in label(kinds).values()]


def _means(kinds: Kinds, name: str, scale: float = 1.0) -> list[float]:
    """Return the mean of a figure over the phones of each kind."""
    groups = kinds.values()
    return [fsum(getattr(one, name) for one in group) / len(group) / scale for group in groups]


def _layout(title: str, mode: str) -> dict[str, object]:
    return {"yaxis": {"title": {"text": title}}, "barmode": mode}


def _wake_ups(result: Result) -> Plot:
    names, bursts = scheme_labels(result), [one.energy.bursts for one in result.outcomes]
    trained = [one.get("training", 0) for one in bursts]
    others = [sum(one.values()) - own for one, own in zip(bursts, trained, strict=True)]
    hover = "%{x}: %{y:,}"
    return Plot(
        title="Bursts of the radio",
        words="Each burst keeps the radio on for a while. Bursts without a training are "
        "announcements, receipts, downloads and keep-alives.",
        traces=[
            bar(names, trained, "with a training", 0, hover),
            bar(names, others, "without", 6, hover),
        ]
        if any(map(sum, zip(trained, others, strict=True)))
        else [],
        layout=_layout("bursts", "stack"),
        nothing="No phone with a radio model was woken.",
    )


def _selected(result: Result) -> Plot:
    traces = []
    for place, (name, outcome) in enumerate(
        zip(scheme_labels(result), result.outcomes, strict=True)
    ):
        kinds = _group(outcome.participants)
        times = _means(kinds, "selected")
        if any(times):
            traces.append(bar(_named(kinds), times, "", place, "%{x}: %{y:.2f}") | {"name": name})
    return Plot(
        title="Selections per phone, by kind",
        words="Mean over all phones of a kind.",
        traces=traces,
        layout=_layout("selections", "group"),
        nothing="No phone was selected.",
    )


def _energy(result: Result, kinds: Kinds) -> Plot:
    totals = zip(_means(kinds, "compute_j"), _means(kinds, "radio_j"), strict=True)
    largest_j = max(map(sum, totals), default=0.0)
    scale_j, unit = energy_scale(largest_j)
    names, hover = _named(kinds), "%{x}: %{y:.3s}"
    traces = [
        bar(names, _means(kinds, "compute_j", scale_j), "computing", 0, hover),
        bar(names, _means(kinds, "radio_j", scale_j), "radio and waking", 1, hover),
    ]
    return Plot(
        title=f"Energy per phone, by kind (modelled, {scheme_name(result.main.scheme)})",
        words="Mean over all phones of a kind, for the whole job.",
        traces=traces if largest_j else [],
        layout=_layout(f"energy per phone, {unit}", "stack"),
        nothing="No energy was spent.",
    )


def _battery(result: Result, kinds: Kinds) -> Plot:
    means = _means(kinds, "battery")
    levels = [[one.battery for one in group] for group in kinds.values()]
    pairs: Sequence[tuple[float, list[float]]] = list(zip(means, levels, strict=True))
    spread = {
        "type": "data",
        "symmetric": False,
        "array": [100.0 * (max(level) - mean) for mean, level in pairs],
        "arrayminus": [100.0 * (mean - min(level)) for mean, level in pairs],
        "color": COLOURS[6],
    }
    left = [100.0 * mean for mean in means]
    trace = bar(_named(kinds), left, "battery left", 2, "%{x}: %{y:.1f}", error_y=spread)
    return Plot(
        title=f"Battery at the end, by kind (modelled, {scheme_name(result.main.scheme)})",
        words="Mean over all phones of a kind; the line shows the minimum and the maximum.",
        traces=[trace] if kinds and min(left) < _NEARLY_FULL else [],
        layout={"yaxis": {"title": {"text": "battery, %"}, "range": [0, 105]}},
        nothing="",
    )
