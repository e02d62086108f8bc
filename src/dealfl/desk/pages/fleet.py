"""The page of the fleet: who is awake, asleep, overdue; batteries, energy, what went wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from dealfl.desk.layout import (
    Page,
    Visit,
    figure,
    figures,
    form,
    grid,
    meter,
    moment,
    until,
)
from dealfl.desk.view import STATES, View
from dealfl.escaping import for_html
from dealfl.report import format_count, format_energy, format_number
from dealfl.runs import WorkerLine

AT_ONCE = 100  # workers on a page
_LOW, _MIDDLE = 0.2, 0.5  # of a battery
_SORTS: Mapping[str, tuple[str, Callable[[View, WorkerLine], tuple[object, ...]]]] = {
    "attention": ("needs attention", lambda view, line: (_urgency(view, line), line.name)),
    "name": ("name", lambda _, line: (line.name,)),
    "battery": ("battery, low first", lambda _, line: (line.battery, line.name)),
    "energy": ("energy, most first", lambda view, line: (-_energy_j(view, line), line.name)),
    "heard": ("last heard, longest ago first", lambda _, line: (line.heard_s or 0.0, line.name)),
    "waiting": ("examples waiting, most first", lambda _, line: (-line.waiting, line.name)),
}


@dataclass(frozen=True, slots=True)
class Search:
    """What the reader wants to see of the fleet."""

    text: str = ""
    state: str = ""
    sort: str = "attention"
    page: int = 1

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> Search:
        """Return the search in the fields of a form; what is wrong is left out."""
        state, sort, page = (fields.get(name, "") for name in ("state", "sort", "page"))
        return cls(
            fields.get("search", "").strip()[:200],
            state if state in STATES else "",
            sort if sort in _SORTS else "attention",
            int(page) if page.isdecimal() and len(page) < 7 and int(page) else 1,
        )


def fleet_page(view: View, visit: Visit, search: Search) -> Page:
    """Return the page of the fleet."""
    sections = {
        "counts": fleet_counts(view),
        "search": _search_form(view, visit, search),
        "rows": fleet_rows(view, visit, search),
    }
    fixed = frozenset({"search", "rows"})  # the script fetches the rows that are searched for
    return Page("fleet", "Fleet", sections, live="fleet", fixed=fixed)


def fleet_counts(view: View) -> str:
    """Return the figures at the top."""
    states, total = view.states(), len(view.workers)
    if view.finished:
        took = figure("workers", f"{total:,}", "took part in the run")
    else:
        took = "".join(
            figure(state, f"{states[state]:,}", _share(states[state], total), kind=f"is-{state}")
            for state in STATES
            if states[state] or state in ("awake", "asleep")
        )
    flagged = sum(bool(line.flag) or not line.fits for line in view.workers.values())
    strip = "" if view.finished else _strip(states, total)
    return figures([took, *_costs(view), *_flagged(flagged)]) + strip


def _share(count: int, total: int) -> str:
    return f"{count / total:.0%} of {total:,}" if total else "no workers yet"


def _flagged(count: int) -> list[str]:
    return [figure("flagged", f"{count:,}", "had an irregularity", kind="bad")] if count else []


def _costs(view: View) -> list[str]:
    lines = [line for line in view.workers.values() if line.heard_s is not None]
    batteries = [line.battery for line in lines]
    low = sum(share < _LOW for share in batteries)
    spent_j = math.fsum(_energy_j(view, line) for line in lines)
    when = "all trainings" if view.finished else "in the present 24 hours"
    return [
        figure(
            "battery",
            f"{fmean(batteries):.0%}" if batteries else "–",
            f"mean; {low:,} below {_LOW:.0%}",
        ),
        figure("energy", for_html(format_energy(spent_j)), when, tag=view.energy_source),
    ]


def _energy_j(view: View, line: WorkerLine) -> float:
    return line.energy_j if view.finished else view.spent_today_j(line)


def _strip(states: Mapping[str, int], total: int) -> str:
    """Return one bar of all workers, by state."""
    if not total:
        return ""
    words = ", ".join(f"{count:,} {state}" for state, count in states.items() if count)
    parts = "".join(
        f'<span class="is-{state}" style="flex-grow: {count}"></span>'
        for state, count in states.items()
        if count
    )
    return f'<div class="strip" role="img" aria-label="{words}">{parts}</div>'


def _search_form(view: View, visit: Visit, search: Search) -> str:
    sorts = "".join(
        f'<option value="{name}"{" selected" if name == search.sort else ""}>{title}</option>'
        for name, (title, _) in _SORTS.items()
    )
    states = "".join(
        f'<option value="{state}"{" selected" if state == search.state else ""}>'
        f"{state or 'all states'}</option>"
        for state in ("", *STATES)
    )
    inside = (
        '<label class="wide">Search<input type="search" name="search" '
        f'value="{for_html(search.text)}" placeholder="name, device, flag" maxlength="200" '
        'autocapitalize="off" spellcheck="false"></label>'
        + ("" if view.finished else f'<label>State<select name="state">{states}</select></label>')
        + f'<label>Order<select name="sort">{sorts}</select></label>'
    )
    shown = form("/fleet", visit, inside, button="Show", change=False)
    return f'<div class="search" id="searching">{shown}</div>'


def fleet_rows(view: View, visit: Visit, search: Search) -> str:
    """Return the workers that are searched for, a page of them."""
    found = _find(view, search)
    last = max(math.ceil(len(found) / AT_ONCE), 1)
    page = min(search.page, last)
    first = AT_ONCE * (page - 1)
    shown = found[first : first + AT_ONCE]
    caption = format_count(len(found), "worker")
    if len(found) > AT_ONCE:
        caption = f"Workers {first + 1:,} to {first + len(shown):,} of {len(found):,}"
    head = ["worker", "state", "battery", _energy_title(view), "waiting", "heard", "rounds", "note"]
    empty = "No worker matches." if view.workers else "No worker has announced itself yet."
    return grid(
        caption, head, [_row(view, line) for line in shown], empty=empty, classes="fleet"
    ) + _turns(visit, search, page, last)


def _energy_title(view: View) -> str:
    return "energy" if view.finished else "energy today"


def _find(view: View, search: Search) -> list[WorkerLine]:
    lines: Sequence[WorkerLine] = list(view.workers.values())
    if search.state:
        lines = [line for line in lines if view.state_of(line) == search.state]
    if wanted := search.text.casefold():
        lines = [
            line
            for line in lines
            if any(
                wanted in text.casefold()
                for text in (line.name, line.device, line.flag, line.last_declined)
            )
        ]
    key = _SORTS[search.sort][1]
    return sorted(lines, key=lambda line: key(view, line))


def _urgency(view: View, line: WorkerLine) -> int:
    """Return the place of a worker among those that need attention: the first come first."""
    state = view.state_of(line)
    if state == "overdue":
        return 0
    if line.flag or not line.fits:
        return 1
    return 2 if line.last_declined else 3 + STATES.index(state)


def _row(view: View, line: WorkerLine) -> list[str]:
    return [
        (
            f'<a href="/fleet/worker/{view.handle(line.name)}">{for_html(line.name)}</a>'
            f'<span class="quiet">{for_html(line.device)}</span>'
        ),
        state_cell(view, line),
        battery_cell(line),
        for_html(format_energy(_energy_j(view, line))),
        f"{line.waiting:,}",
        moment(line.heard_s),
        f"{line.replied:,} of {line.selected:,}",
        note_cell(line),
    ]


def state_cell(view: View, line: WorkerLine) -> str:
    """Return the state of a worker, and until when it sleeps."""
    state = view.state_of(line)
    if view.finished and state != "removed":
        return '<span class="dot is-asleep">took part</span>'
    more = ""
    if state == "asleep" and line.call_by_s:
        more = f' <span class="quiet">{until(view, line.call_by_s)}</span>'
    if state == "overdue":
        more = f' <span class="quiet">due {moment(line.call_by_s)}</span>'
    return f'<span class="dot is-{state}">{state}</span>{more}'


def battery_cell(line: WorkerLine) -> str:
    """Return the battery of a worker as a bar."""
    kind = "low" if line.battery < _LOW else "middle" if line.battery < _MIDDLE else "full"
    charging = " charging" if line.charging else ""
    return meter(line.battery, kind, f"{line.battery:.0%}{charging}")


def note_cell(line: WorkerLine) -> str:
    """Return what is odd about a worker."""
    notes = [] if line.fits else ["does not fit the job"]
    notes += [line.flag] if line.flag else []
    shown = "".join(f'<span class="flag">{for_html(note)}</span>' for note in notes)
    if line.last_declined:
        shown += f'<span class="declined">declined: {for_html(line.last_declined)}</span>'
    return shown


def _turns(visit: Visit, search: Search, page: int, last: int) -> str:
    """Return buttons to the pages before and after."""
    if last == 1:
        return ""
    fields = (
        f'<input type="hidden" name="search" value="{for_html(search.text)}">'
        f'<input type="hidden" name="state" value="{search.state}">'
        f'<input type="hidden" name="sort" value="{search.sort}">'
    )
    buttons = [
        f'<button name="page" value="{number}"{" disabled" if not 1 <= number <= last else ""}>'
        f"{title}</button>"
        for number, title in ((page - 1, "Before"), (page + 1, "After"))
    ]
    return (
        '<form method="post" action="/fleet" class="turns">'
        f'<input type="hidden" name="form_token" value="{visit.form_token}">{fields}{buttons[0]}'
        f'<span class="quiet">page {page:,} of {last:,}</span>{buttons[1]}</form>\n'
    )


# -- one worker -----------------------------------------------------------------------------------


def worker_page(
    view: View, visit: Visit, line: WorkerLine, rounds: Sequence[Mapping[str, object]]
) -> Page:
    """Return the page of one worker."""
    inside = '<label class="check"><input type="checkbox" name="confirmed" value="yes" required>'
    inside += "Remove all updates of this worker from the model. This cannot be undone.</label>"
    remove = form(
        f"/fleet/worker/{view.handle(line.name)}/remove",
        visit, inside, button="Remove the worker", kind="danger",
    )  # fmt: skip
    sections = {
        "about": worker_figures(view, line),
        "history": _history(rounds),
        "remove": f"<h2>A lost phone</h2><p>If the phone returns, it sends its examples again.</p>"
        f"{remove}",
    }
    title = line.name
    live = f"fleet/worker/{view.handle(line.name)}"
    return Page("fleet", title, sections, live=live, fixed=frozenset({"history", "remove"}))


def worker_figures(view: View, line: WorkerLine) -> str:
    """Return the figures of one worker."""
    reward = line.reward / line.selected if line.selected else None
    return figures(
        [
            figure("state", state_cell(view, line), line.device),
            figure("battery", f"{line.battery:.0%}", "charging" if line.charging else ""),
            figure(_energy_title(view), for_html(format_energy(_energy_j(view, line))),
                   "all trainings" if view.finished
                   else f"{format_energy(line.energy_j)} in all trainings"),
            figure("examples held", f"{line.held:,}", f"{line.waiting:,} wait to be learned"),
            figure("updates counted", f"{line.counted:,}", f"{line.updates_waiting:,} waiting"),
            figure("mean reward", format_number(reward),
                   f"replied in {line.replied:,} of {line.selected:,} rounds"),
        ]
    ) + f"<p>Last heard: {moment(line.heard_s)}.</p>{note_cell(line)}"  # fmt: skip


def _history(rounds: Sequence[Mapping[str, object]]) -> str:
    names = ("round", "replied_s", "learned", "evicted", "energy_j", "reward", "declined")
    cells = [[_cell(name, row.get(name)) for name in names] for row in rounds[-AT_ONCE:]]
    head = ["round", "replied", "learned", "forgotten", "energy", "reward", "declined"]
    caption = f"The last {format_count(len(cells), 'round')} it was selected for"
    table = grid(caption, head, reversed(cells), empty="It was never selected.")
    return f"<h2>Rounds</h2>{table}"


def _cell(name: str, value: object) -> str:
    if name == "replied_s":
        return moment(value if isinstance(value, float) else None, "no reply")
    if name == "energy_j" and isinstance(value, int | float):
        return for_html(format_energy(value))
    if isinstance(value, float):
        return for_html(format_number(value))
    return for_html(value if value not in (None, "") else "–")
