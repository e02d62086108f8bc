"""The plots of a run: over its rounds, of its energy, and by kind of phone."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import fsum
from typing import Any

from dealfl.escaping import for_plotly
from dealfl.pages import COLOURS, Plot
from dealfl.report.wording import (
    energy_scale,
    format_energy,
    format_quality,
    scheme_name,
)
from dealfl.runs import RunRecord
from dealfl.simulate import Outcome, Participant, Round

Trace = dict[str, Any]

NO_ROUNDS = "No round was closed."
ROUND = {"title": {"text": "round", "standoff": 6}}
HOURS = {"title": {"text": "virtual time, hours", "standoff": 6}}

_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_MOST_POINTS = 400
_MAX_LABEL = 22


def lines(result: RunRecord, value: Callable[[Round], float | None], form: str) -> list[Trace]:
    """Return a line over time for each scheme; rounds without a value are skipped."""
    traces = []
    for index, (name, outcome) in enumerate(
        zip(scheme_labels(result), result.outcomes, strict=True)
    ):
        values = ((row.closed_at_s / 3600.0, value(row)) for row in outcome.rounds)
        points = thin([(n, y) for n, y in values if y is not None and math.isfinite(y)])
        if points:
            style = {"color": colour(index), "dash": _DASHES[index % len(_DASHES)], "width": 2}
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
    x: Iterable[Any], y: Iterable[Any], name: str, index: int, hover: str, **others: object
) -> Trace:
    """Return bars in the colour of an index."""
    marker = {"color": colour(index)}
    named = {"name": for_plotly(name), "marker": marker, "hovertemplate": hover}
    return {"type": "bar", "x": list(x), "y": list(y), **named, **others}


def scheme_labels(result: RunRecord) -> list[str]:
    """Return a short, unique label for each scheme."""
    names = [scheme_name(outcome.scheme) for outcome in result.outcomes]
    labels = label(names)
    return [for_plotly(labels[name]) for name in names]


def thin(points: Sequence[Any]) -> list[Any]:
    """Return evenly spaced points, as many as a screen can show, and always the last."""
    step = -(-len(points) // _MOST_POINTS) or 1
    return list(points[::-step][::-1])


def axis(text: str) -> dict[str, Any]:
    """Return the title of an axis, close to it."""
    return {"text": text, "standoff": 6}


def colour(index: int) -> str:
    """Return the colour of a position, the same in all plots."""
    return COLOURS[index % len(COLOURS)]


def label(names: Iterable[str]) -> dict[str, str]:
    """Return a short, unique label for each name.

    >>> label(["a phone whose name is very long indeed", "mi"])
    {'a phone whose name is very long indeed': 'a phone whose name is…', 'mi': 'mi'}
    """
    labels: dict[str, str] = {}
    for name in dict.fromkeys(names):
        short = name if len(name) <= _MAX_LABEL else f"{name[: _MAX_LABEL - 1]}…"
        labels[name] = f"{short} ({len(labels) + 1})" if short in labels.values() else short
    return labels


_MOST_BARS = 100
_NOISE = 2.8  # standard errors; the 95 % limit of a difference between two qualities
_SHORTEST_S = 1e-3  # a logarithmic axis cannot show zero
_SYMBOLS = ("circle", "diamond", "square", "cross")
_REASONS = {"declined": "all declining"}
_CAUSES = {
    "cpu": "processor",
    "awake": "being awake",
    "radio_active": "radio transfers",
    "radio_tail": "radio tail",
}
_TOP_DOWN = {"autorange": "reversed", "ticksuffix": " "}


def round_plots(result: RunRecord) -> list[Plot]:
    """Return the plots of the quality of all schemes, and of the rounds of the main one."""
    main = result.main
    return [_quality(result), *participation_plots(main.rounds, main.scheme, main.workers)]


def participation_plots(rounds: Sequence[Round], scheme: str, workers: int) -> list[Plot]:
    """Return the plots of the examples, the duration and the workers of rounds."""
    name = f" ({scheme_name(scheme)})" if scheme else ""
    return [_examples(rounds, name), _durations(rounds, name), _replies(rounds, name, workers)]


def _quality(result: RunRecord) -> Plot:
    metric = result.main.metric
    reached = ", ".join(
        f"{scheme_name(outcome.scheme)} {format_quality(outcome.quality)}"
        for outcome in result.outcomes
    )
    return Plot(
        title=f"Quality of the model: {metric}",
        words=f"{metric[:1].upper()}{metric[1:]} after each round, on held-out test examples. "
        f"Final: {reached}.{_describe_dips(result)}",
        traces=_with_noise(result, lines(result, lambda row: row.quality, ".3f")),
        layout={"xaxis": HOURS, "yaxis": {"title": axis(for_plotly(label([metric])[metric]))}},
        nothing="The quality was not measured.",
    )


def _with_noise(result: RunRecord, traces: list[Trace]) -> list[Trace]:
    """Return the lines with the noise of the test set at their ends, if all schemes have one."""
    if len(traces) == len(result.outcomes):
        for trace, outcome in zip(traces, result.outcomes, strict=True):
            widths = [0.0] * (len(trace["y"]) - 1) + [1.96 * outcome.quality_error]
            trace["error_y"] = {"type": "data", "array": widths, "thickness": 2, "width": 0}
    return traces


def _describe_dips(result: RunRecord) -> str:
    """Return where curves fall beyond the noise and rise again, and why if the learner shows it."""
    if result.main.changed_at_s:  # after a change, every model is wrong for a while
        return ""
    dips = {scheme_name(outcome.scheme): _find_dip(outcome) for outcome in result.outcomes}
    deep = {name: dip for name, dip in dips.items() if dip is not None}
    listed = ", ".join(
        f"{name} to {format_quality(low)} with {examples:,} examples"
        for name, (low, examples) in deep.items()
    )
    features = result.main.dip_at
    near = any(features / 2 <= examples <= 2 * features for _, examples in deep.values())
    why = (
        f" Near as many examples as features ({features:,}) the model fits noise; with more "
        "examples that ends (double descent)."
    )
    return f" Dips: {listed}.{why if near else ''}" if listed else ""


def _find_dip(outcome: Outcome) -> tuple[float, int] | None:
    """Return the lowest quality of the deepest dip, and the number of examples in the model."""
    counts = accumulate(done.learned - done.evicted for done in outcome.rounds)
    pairs = [(done.quality, count) for done, count in zip(outcome.rounds, counts, strict=True)]
    points = [(q, count) for q, count in pairs if q is not None and math.isfinite(q)]
    best, deepest, dip = -math.inf, _NOISE * outcome.quality_error, None
    for index, (quality, count) in enumerate(points):
        best = max(best, quality)
        later = max(after for after, _ in points[index:])
        depth = min(best, later) - quality  # it rises again
        if depth > deepest:
            deepest, dip = depth, (quality, count)
    return dip


def _bars(
    rounds: Sequence[Round],
    title: str,
    words: str,
    unit: str,
    mode: str,
    values: Sequence[tuple[str, int, Callable[[Round], float]]],
) -> Plot:
    """Return bars for each round, or for blocks of equal length if there are many rounds."""
    length = -(-len(rounds) // _MOST_BARS) or 1
    starts = range(0, len(rounds), length)
    blocks = [rounds[start : start + length] for start in starts]
    traces = [
        bar(
            (block[0].number for block in blocks),
            (sum(value(row) for row in block) / len(block) for block in blocks),
            name,
            index,
            "round %{x}: %{y:.3~f}",
        )
        for name, index, value in values
    ]
    return Plot(
        title=title,
        words=words + (f" Each bar is the mean of {length} rounds." if length > 1 else ""),
        traces=traces if rounds else [],
        layout={"xaxis": ROUND, "yaxis": {"title": axis(unit)}, "barmode": mode},
        nothing=NO_ROUNDS,
    )


def _examples(rounds: Sequence[Round], name: str) -> Plot:
    words = "Examples added to the model are above zero, removed examples below."
    values = [
        ("learned", 2, lambda row: row.learned),
        ("forgotten", 4, lambda row: -row.evicted),
    ]
    title = f"Examples learned and forgotten per round{name}"
    return _bars(rounds, title, words, "examples", "relative", values)


def _replies(rounds: Sequence[Round], name: str, workers: int) -> Plot:
    words = f"Out of {workers:,}. Phones that are not selected do not train."
    values = [
        ("available", 6, lambda row: row.able),
        ("selected", 0, lambda row: row.selected),
        ("replied in time", 2, lambda row: row.replied),
    ]
    return _bars(rounds, f"Phones selected per round{name}", words, "phones", "overlay", values)


def _durations(rounds: Sequence[Round], name: str) -> Plot:
    lasting = [row for row in rounds if row.reason != "booked"]
    reasons, booked = Counter(row.reason for row in lasting), len(rounds) - len(lasting)
    listed = ", ".join(
        f"{count:,} by {_REASONS.get(reason, reason)}" for reason, count in reasons.most_common()
    )
    more = f" {booked:,} more closed at once: their phones sleep and train when they call."
    times_s = [max(row.duration_s, _SHORTEST_S) for row in lasting] or [1.0]
    digits = (1, 2, 5) if max(times_s) < 100 * min(times_s) else (1,)
    ticks_s = [digit * 10.0**power for power in range(-4, 8) for digit in digits]
    low_s = max(tick for tick in ticks_s if tick <= min(times_s))
    high_s = min((tick for tick in ticks_s if tick > max(times_s)), default=max(times_s))
    shown = [math.log10(low_s), math.log10(high_s)]  # at least two ticks
    clock = "Virtual time" if name else "Seconds"
    return Plot(
        title=f"Duration of rounds{', by reason of closing' * (len(reasons) > 1)}{name}",
        words=f"{clock} on a logarithmic scale. Closed: {listed or 'none'}."
        + (more if booked else ""),
        traces=[
            _closings(lasting, index, reason) | {"showlegend": len(reasons) > 1}
            for index, reason in enumerate(reasons)
        ],
        layout={
            "xaxis": ROUND | {"zeroline": False},
            "yaxis": {
                "title": axis("duration, s"),
                "type": "log",
                "tickvals": ticks_s,
                "range": shown,
            },
        },
        nothing=NO_ROUNDS,
    )


def _closings(rounds: Sequence[Round], index: int, reason: str) -> Trace:
    closed = thin([row for row in rounds if row.reason == reason])
    return {
        "x": [row.number for row in closed],
        "y": [max(row.duration_s, _SHORTEST_S) for row in closed],
        "name": for_plotly(label([_REASONS.get(reason, reason)]).popitem()[1]),
        "mode": "markers",
        "marker": {"color": colour(index), "symbol": _SYMBOLS[index % len(_SYMBOLS)], "size": 8},
        "hovertemplate": "round %{x}: %{y:.3s} s",
    }


# -- energy -------------------------------------------------------------------------------------


def energy_plots(result: RunRecord) -> list[Plot]:
    """Return the plots of the energy of all schemes, and of the savings of the main one."""
    return [
        _cumulative(
            result,
            "Energy for computing (modelled)",
            "Cumulative energy of all phones to learn and to forget.",
            lambda row: row.compute_j,
        ),
        _cumulative(
            result,
            "Energy of whole devices (modelled)",
            "Cumulative energy of computing, waking and radio.",
            lambda row: row.compute_j + row.radio_j,
        ),
        _causes(result),
        _savings(result),
    ]


def _cumulative(result: RunRecord, title: str, words: str, value: Callable[[Round], float]) -> Plot:
    largest_j = max((value(row) for made in result.outcomes for row in made.rounds), default=0.0)
    scale_j, unit = energy_scale(largest_j)
    return Plot(
        title=title,
        words=words,
        traces=lines(result, lambda row: value(row) / scale_j, ".3s"),
        layout={"xaxis": HOURS, "yaxis": {"title": axis(f"energy, {unit}"), "rangemode": "tozero"}},
        nothing=NO_ROUNDS,
    )


def _causes(result: RunRecord) -> Plot:
    scale_j, unit = energy_scale(max(outcome.energy.whole_j for outcome in result.outcomes))
    causes = dict.fromkeys(
        cause
        for outcome in result.outcomes
        for cause, spent in outcome.energy.by_cause_j.items()
        if spent
    )
    traces = [
        bar(
            (outcome.energy.by_cause_j.get(cause, 0.0) / scale_j for outcome in result.outcomes),
            scheme_labels(result),
            _CAUSES.get(cause, cause.replace("_", " ")),
            index,
            f"%{{y}}: %{{x:.3s}} {unit}",
            orientation="h",
        )
        for index, cause in enumerate(causes)
    ]
    return Plot(
        title="Energy by cause (modelled)",
        words="Total of all phones, by scheme.",
        traces=traces,
        layout={
            "xaxis": {"title": axis(f"energy, {unit}")},
            "yaxis": _TOP_DOWN,
            "barmode": "stack",
        },
        nothing="No energy was spent.",
    )


def _savings(result: RunRecord) -> Plot:
    beside = result.against("original")
    parts = beside.levers_j if beside else {}
    scale_j, unit = energy_scale(max(map(abs, parts.values()), default=0.0))
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": [f"{name}<br>{format_energy(part_j)}" for name, part_j in parts.items()],
        "x": [part_j / scale_j for part_j in parts.values()],
        "marker": {"color": colour(0)},
        "hoverinfo": "y",
    }
    return Plot(
        title=f"Energy saved by {scheme_name(result.main.scheme)} against Original (modelled)",
        words="The parts add up to the difference between both systems.",
        traces=[trace] if any(parts.values()) else [],
        layout={"xaxis": {"title": axis(f"energy saved, {unit}")}, "yaxis": _TOP_DOWN},
        nothing="",
    )


_MOST_KINDS = 10
_OTHERS = "other kinds"
_NEARLY_FULL = 99.0

Kinds = dict[str, list[Participant]]  # the phones of each kind


def phone_plots(result: RunRecord) -> list[Plot]:
    """Return the plots of the phones: wake-ups and selections by scheme, the rest of the main."""
    kinds = _group(result.main.participants)
    by_kind = (_selected, _energy, _battery)
    return [_wake_ups(result), *(plot(result, kinds) for plot in by_kind)]


def _group(participants: Iterable[Participant]) -> Kinds:
    """Return the phones by kind; rare kinds are combined."""
    grouped: defaultdict[str, list[Participant]] = defaultdict(list)
    for participant in participants:
        grouped[participant.device].append(participant)
    if len(grouped) <= _MOST_KINDS:
        return grouped
    ordered = sorted(grouped.items(), key=lambda item: -len(item[1]))
    others = [participant for _, group in ordered[_MOST_KINDS - 1 :] for participant in group]
    return {**dict(ordered[: _MOST_KINDS - 1]), _OTHERS: others}


def _is_single(kinds: Kinds) -> bool:
    """Whether there is one kind alone: a plot by kind would have one bar, and is left out."""
    return len(kinds) == 1


def _named(kinds: Kinds) -> list[str]:
    return [for_plotly(name) for name in label(kinds).values()]


def _means(kinds: Kinds, name: str, scale: float = 1.0) -> list[float]:
    """Return the mean of a figure over the phones of each kind."""
    groups = kinds.values()
    return [
        fsum(getattr(participant, name) for participant in group) / len(group) / scale
        for group in groups
    ]


def _layout(title: str, mode: str) -> dict[str, object]:
    return {"yaxis": {"title": {"text": title}}, "barmode": mode}


def _wake_ups(result: RunRecord) -> Plot:
    names, bursts = scheme_labels(result), [outcome.energy.bursts for outcome in result.outcomes]
    trained = [burst.get("training", 0) for burst in bursts]
    others = [sum(burst.values()) - own for burst, own in zip(bursts, trained, strict=True)]
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


def _selected(result: RunRecord, kinds: Kinds) -> Plot:
    traces = []
    for index, (name, outcome) in enumerate(
        zip(scheme_labels(result), result.outcomes, strict=True)
    ):
        phones = _group(outcome.participants)
        times = _means(phones, "selected")
        if any(times):
            traces.append(bar(_named(phones), times, "", index, "%{x}: %{y:.2f}") | {"name": name})
    return Plot(
        title="Selections per phone, by kind",
        words="Mean over all phones of a kind.",
        traces=[] if _is_single(kinds) else traces,
        layout=_layout("selections", "group"),
        nothing="" if _is_single(kinds) else "No phone was selected.",
    )


def _energy(result: RunRecord, kinds: Kinds) -> Plot:
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
        traces=traces if largest_j and not _is_single(kinds) else [],
        layout=_layout(f"energy per phone, {unit}", "stack"),
        nothing="" if _is_single(kinds) else "No energy was spent.",
    )


def _battery(result: RunRecord, kinds: Kinds) -> Plot:
    means = _means(kinds, "battery")
    levels = [[participant.battery for participant in group] for group in kinds.values()]
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
        traces=[trace] if len(kinds) > 1 and min(left) < _NEARLY_FULL else [],
        layout={"yaxis": {"title": {"text": "battery, %"}, "range": [0, 105]}},
        nothing="",
    )
