"""The page of the energy: by cause, by round, and of the batteries of each kind of phone."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate
from math import fsum

from dealfl.desk.layout import Page, figure, figures, grid, meter
from dealfl.desk.reported import reported
from dealfl.desk.view import View
from dealfl.escaping import for_html, for_plotly
from dealfl.pages import COLOURS, Plot, plot_section
from dealfl.report import axis, bar, energy_scale, format_energy, thin
from dealfl.runs import WorkerLine

_MAX_KINDS, _DRAWN = 40, 8


def energy_page(view: View) -> Page:
    """Return the page of the energy; a finished run has that of its report."""
    parts = {"now": _now(view)}
    if view.record is not None:
        parts["report"] = reported(view, "Energy") + reported(view, "Phones")
    else:
        parts["plot-0"] = plot_section(_by_round(view))
        parts["plot-1"] = plot_section(_by_kind(view))
        parts["causes"] = (
            '<p class="quiet">Workers report one figure for each training, so the causes '
            "(processor, being awake, radio) are not known here. The report of a simulated run "
            "has them.</p>"
        )
    parts["kinds"] = _kinds(view)
    return Page("energy", "Energy", parts, plots=True, live="energy")


def _now(view: View) -> str:
    lines = list(view.workers.values())
    total_j, learned = fsum(line.energy_j for line in lines), sum(line.learned for line in lines)
    today_j = fsum(view.spent_today_j(line) for line in lines)
    source = view.energy_source
    shown = [
        figure("trainings", for_html(format_energy(total_j)), "all replies", tag=source),
        figure("for each example", for_html(format_energy(total_j / learned)) if learned else "–",
               f"{learned:,} learned", tag=source),
    ]  # fmt: skip
    if not view.finished:
        text = "of the budgets of all workers"
        shown.insert(0, figure("present 24 hours", for_html(format_energy(today_j)), text))
        shown.append(figure("battery per phone and day", _percent(_daily(view, lines)), "mean"))
    return figures(shown)


def _daily(view: View, lines: list[WorkerLine]) -> float | None:
    """Return the mean share of a battery that phones have spent in the present 24 hours."""
    shares = [view.spent_today_j(line) / line.capacity_j for line in lines if line.capacity_j]
    return fsum(shares) / len(shares) if shares else None


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.3%}"


def _by_round(view: View) -> Plot:
    closed = view.closed_rounds()
    sums_j = list(accumulate(row.energy_j for row in closed))
    scale_j, unit = energy_scale(sums_j[-1] if sums_j else 0.0)
    points = thin(
        [(row.number, sum_j / scale_j) for row, sum_j in zip(closed, sums_j, strict=True)]
    )
    trace = {
        "x": [number for number, _ in points],
        "y": [height for _, height in points],
        "mode": "lines" if len(points) > 1 else "markers",
        "line": {"color": COLOURS[0], "width": 2},
        "hovertemplate": f"round %{{x}}: %{{y:.3s}} {unit}<extra></extra>",
    }
    return Plot(
        title=f"Energy of trainings ({view.energy_source})",
        words=f"Cumulative over the last {len(closed):,} rounds.",
        traces=[trace] if points else [],
        layout={"xaxis": {"title": axis("round")}, "yaxis": {"title": axis(f"energy, {unit}"),
                "rangemode": "tozero"}},
        nothing="No round was closed yet.",
    )  # fmt: skip


def _by_kind(view: View) -> Plot:
    kinds = _group(view)[:_DRAWN]
    means_j = [fsum(view.spent_today_j(line) for line in lines) / len(lines) for _, lines in kinds]
    scale_j, unit = energy_scale(max(means_j, default=0.0))
    names = [for_plotly(kind[:22] or "not stated") for kind, _ in kinds]
    hover = f"%{{x}}: %{{y:.3s}} {unit}<extra></extra>"
    return Plot(
        title="Energy per phone in the present 24 hours, by kind",
        words="Mean over all phones of a kind, of what counts towards their budgets.",
        traces=[bar(names, [mean_j / scale_j for mean_j in means_j], "", 0, hover)]
        if any(means_j) and len(kinds) > 1  # one bar compares nothing
        else [],
        layout={"yaxis": {"title": axis(f"energy per phone, {unit}")}},
        nothing="" if len(kinds) == 1 else "No energy was spent in this time.",
    )


def _group(view: View) -> list[tuple[str, list[WorkerLine]]]:
    """Return the phones by kind, the most frequent first."""
    kinds: defaultdict[str, list[WorkerLine]] = defaultdict(list)
    for line in view.workers.values():
        kinds[line.device].append(line)
    return sorted(kinds.items(), key=lambda item: (-len(item[1]), item[0]))


def _kinds(view: View) -> str:
    """Return a table of the kinds of phones."""
    ordered = _group(view)[:_MAX_KINDS]
    head = ["kind", "phones", "battery, mean", "lowest", "energy of trainings", "battery per day"]
    rows = [
        [
            for_html(kind or "not stated"),
            f"{len(lines):,}",
            meter(_mean_battery(lines), "full", f"{_mean_battery(lines):.0%}"),
            f"{min(line.battery for line in lines):.0%}",
            for_html(format_energy(fsum(line.energy_j for line in lines))),
            _percent(_daily(view, lines)),
        ]
        for kind, lines in ordered
    ]
    caption = "Phones by kind; battery per day is the mean of the present 24 hours"
    return "<h2>Kinds of phones</h2>\n" + grid(caption, head, rows, empty="No worker yet.")


def _mean_battery(lines: list[WorkerLine]) -> float:
    return fsum(line.battery for line in lines) / len(lines)
