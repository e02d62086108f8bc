"""Plots over the rounds of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from dealfl.pages import Plot, plotly_text
from dealfl.report.formats import format_quality
from dealfl.report.plotting import NO_ROUNDS, ROUND, Trace, axis, colour, label, lines, thin
from dealfl.report.wording import scheme_name
from dealfl.runs import Result
from dealfl.simulate import Outcome, Round

__all__ = ["round_plots"]

_MOST_BARS = 100
_SHORTEST_S = 1e-3  # a logarithmic axis cannot show zero
_SYMBOLS = ("circle", "diamond", "square", "cross")
_REASONS = {"declined": "all declining"}


def round_plots(result: Result) -> list[Plot]:
    """Return the plots of the quality of all schemes, and of the rounds of the main one."""
    main = result.main
    return [_quality(result), _examples(main), _durations(main), _replies(main)]


def _quality(result: Result) -> Plot:
    metric = result.main.metric
    reached = ", ".join(
        f"{scheme_name(one.scheme)} {format_quality(one.quality)}" for one in result.outcomes
    )
    return Plot(
        title=f"Quality of the model: {metric}",
        words=f"{metric[:1].upper()}{metric[1:]} after each round, on held-out test examples. "
        f"Final: {reached}.",
        traces=lines(result, lambda one: one.quality, ".3f"),
        layout={"xaxis": ROUND, "yaxis": {"title": axis(plotly_text(label([metric])[metric]))}},
        nothing="The quality was not measured.",
    )


# -- bars, a round or a block of rounds each ----------------------------------------------------


def _blocks(rounds: Sequence[Round]) -> tuple[list[Sequence[Round]], str]:
    """Return rounds in blocks of equal length, few enough for bars, and a sentence on them."""
    length = -(-len(rounds) // _MOST_BARS) or 1
    blocks = [rounds[start : start + length] for start in range(0, len(rounds), length)]
    return blocks, f" Each bar is the mean of {length} rounds." if length > 1 else ""


def _per_round(
    blocks: Sequence[Sequence[Round]], name: str, place: int, value: Callable[[Round], float]
) -> Trace:
    means = [sum(value(one) for one in block) / len(block) for block in blocks]
    return {
        "type": "bar",
        "x": [block[0].number for block in blocks],
        "y": means,
        "name": plotly_text(name),
        "marker": {"color": colour(place)},
        "hovertemplate": "round %{x}: %{y:.3~f}",
    }


def _examples(main: Outcome) -> Plot:
    blocks, word = _blocks(main.rounds)
    traces = [
        _per_round(blocks, "learned", 2, lambda one: one.learned),
        _per_round(blocks, "forgotten", 4, lambda one: -one.evicted),
    ]
    return Plot(
        title=f"Examples learned and forgotten per round ({scheme_name(main.scheme)})",
        words=f"Examples added to the model are above zero, removed examples below.{word}",
        traces=traces if main.rounds else [],
        layout={"xaxis": ROUND, "yaxis": {"title": axis("examples")}, "barmode": "relative"},
        nothing=NO_ROUNDS,
    )


def _durations(main: Outcome) -> Plot:
    reasons = Counter(one.reason for one in main.rounds)
    listed = ", ".join(
        f"{count:,} by {_REASONS.get(reason, reason)}" for reason, count in reasons.most_common()
    )
    return Plot(
        title=f"Duration of rounds, by reason of closing ({scheme_name(main.scheme)})",
        words=f"Virtual time on a logarithmic scale. Closed: {listed or 'none'}.",
        traces=[_closings(main.rounds, place, reason) for place, reason in enumerate(reasons)],
        layout={
            "xaxis": ROUND | {"zeroline": False},
            "yaxis": {"title": axis("duration, s"), "type": "log", "tickvals": _ticks_s(main)},
        },
        nothing=NO_ROUNDS,
    )


def _ticks_s(main: Outcome) -> list[float]:
    """Return ticks at 1, 2, 5 of each decade, or at powers of ten if the range is large."""
    times_s = [max(one.duration_s, _SHORTEST_S) for one in main.rounds] or [1.0]
    digits = (1, 2, 5) if max(times_s) < 100 * min(times_s) else (1,)
    return [digit * 10.0**power for power in range(-3, 7) for digit in digits]


def _closings(rounds: Sequence[Round], place: int, reason: str) -> Trace:
    closed = thin([one for one in rounds if one.reason == reason])
    return {
        "x": [one.number for one in closed],
        "y": [max(one.duration_s, _SHORTEST_S) for one in closed],
        "name": plotly_text(label([_REASONS.get(reason, reason)]).popitem()[1]),
        "mode": "markers",
        "marker": {"color": colour(place), "symbol": _SYMBOLS[place % len(_SYMBOLS)], "size": 8},
        "showlegend": True,
        "hovertemplate": "round %{x}: %{y:.3s} s",
    }


def _replies(main: Outcome) -> Plot:
    blocks, word = _blocks(main.rounds)
    traces = [
        _per_round(blocks, "available", 6, lambda one: one.able),
        _per_round(blocks, "selected", 0, lambda one: one.selected),
        _per_round(blocks, "replied in time", 2, lambda one: one.replied),
    ]
    return Plot(
        title=f"Phones selected per round ({scheme_name(main.scheme)})",
        words=f"Out of {main.workers:,}. Phones that are not selected stay asleep and use no "
        f"energy.{word}",
        traces=traces if main.rounds else [],
        layout={"xaxis": ROUND, "yaxis": {"title": axis("phones")}, "barmode": "overlay"},
        nothing=NO_ROUNDS,
    )
