"""The page of the rounds: the open one, and the history with late replies."""

from __future__ import annotations

from dealfl.desk.layout import Page, figure, figures, grid, meter, moment, until
from dealfl.desk.reported import reported
from dealfl.desk.view import View
from dealfl.escaping import for_html
from dealfl.pages import plot_section
from dealfl.report import format_duration, format_energy, participation_plots
from dealfl.server import RoundHistory
from dealfl.simulate import Round

_LISTED = 50


def rounds_page(view: View) -> Page:
    """Return the page of the rounds; a finished run has that of its report."""
    parts = {"now": _now(view)} if not view.finished else {}
    report = reported(view, "Round by round")
    if report:
        parts["report"] = report
    elif view.rounds:
        plots = participation_plots(_as_rounds(view), "", len(view.workers))
        for number, plot in enumerate(plots):
            parts[f"plot-{number}"] = plot_section(plot)
    parts["history"] = _history(view)
    return Page("rounds", "Rounds", parts, plots=True, live="rounds")


def _now(view: View) -> str:
    open_round, closed = view.open_round(), view.closed_rounds()
    planned = view.now.rounds_planned if view.now else None
    count = view.now.rounds_closed if view.now else 0
    late = sum(row.late for row in closed)
    converged = "; converged" if view.now and view.now.converged else ""
    shown = [
        figure("closed", f"{count:,}", (f"of {planned:,}" if planned else "") + converged),
        figure("late replies", f"{late:,}", f"in the last {len(closed):,} rounds; they count, too"),
    ]
    if closed:
        last = closed[-1]
        took = format_duration(_duration_s(last))
        shown.append(figure("last round", for_html(took), f"closed by {last.reason}"))
    return _open(view, open_round) + figures(shown)


def _open(view: View, row: RoundHistory | None) -> str:
    if row is None:
        return '<div class="box open-round"><p>No round is open.</p></div>'
    replied = row.replied + row.declined
    declined = f", {row.declined:,} of them declined" if row.declined else ""
    return (
        f'<div class="box open-round"><h2>Round {row.number:,} is open</h2>'
        f"<p>{meter(replied / max(row.selected, 1), 'replied', '')}"
        f"<strong>{replied:,} of {row.selected:,}</strong> have replied{declined}. "
        f"Deadline: {until(view, row.deadline_s)}.</p></div>\n"
    )


def _duration_s(row: RoundHistory) -> float:
    return (row.closed_s or row.opened_s) - row.opened_s


def _as_rounds(view: View) -> list[Round]:
    """Return the rounds of the ledger as those of a report."""
    return [
        Round(
            number=row.number,
            reason=row.reason,
            duration_s=_duration_s(row),
            closed_at_s=row.closed_s or 0.0,
            quality=None,
            able=row.eligible,
            selected=row.selected,
            replied=row.replied,
            learned=row.learned,
            evicted=row.evicted,
            compute_j=0.0,
            operating_j=0.0,
            radio_j=0.0,
        )
        for row in view.closed_rounds()
    ]


def _history(view: View) -> str:
    closed = view.closed_rounds()[-_LISTED:][::-1]
    head = ["round", "closed", "by", "lasted", "replied", "late", "learned", "forgotten", "energy"]
    rows = [
        [
            f"{row.number:,}",
            moment(row.closed_s),
            for_html(row.reason),
            for_html(format_duration(_duration_s(row))),
            f"{row.replied:,} of {row.selected:,}"
            + (f" ({row.declined:,} declined)" if row.declined else ""),
            f"{row.late:,}",
            f"{row.learned:,}",
            f"{row.evicted:,}",
            for_html(format_energy(row.energy_j)),
        ]
        for row in closed
    ]
    caption = f"The last {len(rows):,} closed rounds" if rows else "Rounds"
    return "<h2>History</h2>\n" + grid(caption, head, rows, empty="No round was closed yet.")
