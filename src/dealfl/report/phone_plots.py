"""Plots by kind of phone: selections, energy, battery."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum

from dealfl.pages import COLOURS, Plot, plotly_text
from dealfl.report.formats import energy_scale
from dealfl.report.plotting import Trace, colour, label
from dealfl.report.wording import radio_sentence, scheme_name
from dealfl.runs import Result
from dealfl.simulate import Participant

__all__ = ["phone_plots"]

_MOST_KINDS = 10
_OTHERS = "other kinds"


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of device: means over its devices, and the range of the battery."""

    device: str
    count: int
    selected: float
    compute_j: float
    radio_j: float
    battery: float
    min_battery: float
    max_battery: float


def phone_plots(result: Result) -> list[Plot]:
    """Return the plots of the phones: wake-ups and selections by scheme, the rest of the main."""
    found = _kinds(result.main.participants)
    return [_wake_ups(result), _selected(result), _energy(result, found), _battery(result, found)]


def _named(found: Sequence[_Kind]) -> list[str]:
    return [plotly_text(name) for name in label(kind.device for kind in found).values()]


def _bar(x: Sequence[str], y: Sequence[float], name: str, place: int, form: str) -> Trace:
    return {
        "type": "bar",
        "x": list(x),
        "y": list(y),
        "name": plotly_text(name),
        "marker": {"color": colour(place)},
        "hovertemplate": f"%{{x}}: %{{y:{form}}}",
    }


def _wake_ups(result: Result) -> Plot:
    names = [
        plotly_text(name) for name in label(scheme_name(o.scheme) for o in result.outcomes).values()
    ]
    everyone = [one.energy.wake_ups_of_everyone for one in result.outcomes]
    woken = [one.energy.wake_ups for one in result.outcomes]
    traces = [
        _bar(names, everyone, "if all phones with new examples were woken", 6, ","),
        _bar(names, woken, "woken", 0, ","),
    ]
    return Plot(
        title="Total wake-ups",
        words="Number of wake-ups for the job, over all phones and rounds.",
        traces=traces if any(everyone) or any(woken) else [],
        layout={"yaxis": {"title": {"text": "wake-ups"}}, "barmode": "group"},
        nothing="No phone was woken.",
    )


def _selected(result: Result) -> Plot:
    traces = []
    names = label(scheme_name(one.scheme) for one in result.outcomes)
    for place, outcome in enumerate(result.outcomes):
        found = _kinds(outcome.participants)
        times = [kind.selected for kind in found]
        if any(times):
            name = names[scheme_name(outcome.scheme)]
            traces.append(_bar(_named(found), times, name, place, ".2f"))
    return Plot(
        title="Selections per phone, by kind",
        words="Mean over all phones of a kind.",
        traces=traces,
        layout={"yaxis": {"title": {"text": "selections"}}, "barmode": "group"},
        nothing="No phone was selected.",
    )


def _energy(result: Result, found: Sequence[_Kind]) -> Plot:
    largest_j = max((kind.compute_j + kind.radio_j for kind in found), default=0.0)
    scale_j, unit = energy_scale(largest_j)
    names, form = _named(found), ".3s"
    compute = [kind.compute_j / scale_j for kind in found]
    radio = [kind.radio_j / scale_j for kind in found]
    traces = [
        _bar(names, compute, "computing", 0, form),
        _bar(names, radio, "radio and waking", 1, form),
    ]
    return Plot(
        title=f"Energy per phone, by kind (modelled, {scheme_name(result.main.scheme)})",
        words=f"Mean over all phones of a kind, for the whole job. {radio_sentence(result.main)}",
        traces=traces if largest_j else [],
        layout={"yaxis": {"title": {"text": f"energy per phone, {unit}"}}, "barmode": "stack"},
        nothing="No energy was spent.",
    )


def _battery(result: Result, found: Sequence[_Kind]) -> Plot:
    left = [100.0 * kind.battery for kind in found]
    bar = _bar(_named(found), left, "battery left", 2, ".1f")
    bar["error_y"] = {
        "type": "data",
        "symmetric": False,
        "array": [100.0 * (kind.max_battery - kind.battery) for kind in found],
        "arrayminus": [100.0 * (kind.battery - kind.min_battery) for kind in found],
        "color": COLOURS[6],
    }
    return Plot(
        title=f"Battery at the end, by kind (modelled, {scheme_name(result.main.scheme)})",
        words="Mean over all phones of a kind; the line shows the minimum and the maximum.",
        traces=[bar] if found else [],
        layout={"yaxis": {"title": {"text": "battery, %"}, "range": [0, 105]}},
        nothing="No phone took part.",
    )


def _kinds(participants: Iterable[Participant]) -> list[_Kind]:
    """Return the mean device of each kind; rare kinds are combined."""
    grouped: defaultdict[str, list[Participant]] = defaultdict(list)
    for one in participants:
        grouped[one.device].append(one)
    if len(grouped) <= _MOST_KINDS:
        return [_kind(device, group) for device, group in grouped.items()]
    ordered = sorted(grouped.items(), key=lambda item: -len(item[1]))
    shown, rest = ordered[: _MOST_KINDS - 1], ordered[_MOST_KINDS - 1 :]
    others = [one for _, group in rest for one in group]
    return [*(_kind(device, group) for device, group in shown), _kind(_OTHERS, others)]


def _kind(device: str, group: Sequence[Participant]) -> _Kind:
    count = len(group)
    batteries = [one.battery for one in group]
    return _Kind(
        device=device,
        count=count,
        selected=sum(one.selected for one in group) / count,
        compute_j=fsum(one.compute_j for one in group) / count,
        radio_j=fsum(one.radio_j for one in group) / count,
        battery=fsum(batteries) / count,
        min_battery=min(batteries),
        max_battery=max(batteries),
    )
