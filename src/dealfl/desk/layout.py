"""The frame of all pages: head, navigation, sections that are kept up to date, forms, times."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from dealfl.desk.view import REAL_FROM_S, View
from dealfl.escaping import for_html
from dealfl.pages import plotly_script
from dealfl.report import format_age, format_duration

PAGES = {
    "fleet": "Fleet",
    "rounds": "Rounds",
    "model": "Model",
    "energy": "Energy",
    "erasure": "Erasure",
    "job": "Job",
}
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Crect width='16' height='16' rx='4' fill='%232a9a68'/%3E"
    "%3Cpath d='M4 8.5l2.6 2.6L12 5.4' stroke='white' stroke-width='2' fill='none'/%3E%3C/svg%3E"
)


@dataclass(frozen=True, slots=True)
class Visit:
    """Who looks at a page: the token of its forms, and whether they may change anything."""

    form_token: str
    may_change: bool
    who: str
    can_retrain: bool = True  # the examples are here, not on devices


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its sections by name, in order; live ones are replaced when they change."""

    name: str  # in the navigation
    title: str
    sections: Mapping[str, str]
    plots: bool = False
    live: str = ""  # what the stream of events is asked for; empty for a page that stays
    fixed: frozenset[str] = frozenset()  # sections that are not replaced: forms


def render(page: Page, view: View, where: str) -> str:
    """Return the HTML of a page."""
    items = "".join(
        f'<a href="/{name}"{_current(name == page.name)}>{for_html(title)}</a>'
        for name, title in PAGES.items()
    )
    sections = "".join(
        f'<section id="{name}"{"" if name in page.fixed else " data-live"}>{content}</section>\n'
        for name, content in page.sections.items()
    )
    job = view.now.job if view.now else "dealfl"
    live = f' data-events="/events?page={page.live}"' if page.live else ""
    body = (
        '<a class="skip" href="#main">Skip to the content</a>\n'
        f'<header><div class="bar"><p class="brand"><strong>{for_html(job)}</strong>'
        f'<span class="quiet where">{for_html(where)}</span></p>'
        f'<div id="state" data-live>{state_line(view)}</div></div>'
        f'<nav aria-label="Pages">{items}</nav></header>\n'
        f'<main id="main"{live}>\n'
        f'<div id="banner" data-live role="status">{banner(view)}</div>\n'
        f"<h1>{for_html(page.title)}</h1>\n{sections}</main>\n"
    )
    return document(f"{page.title} · {job}", body, plots=page.plots)


def _current(yes: bool) -> str:
    return ' aria-current="page"' if yes else ""


def document(title: str, body: str, *, plots: bool = False, script: str = "desk") -> str:
    """Return a whole document; scripts and styles are files of the desk."""
    drawing = '<script src="/static/plotly.js" defer></script>\n' if plots else ""
    body += unwanted_styles() if plots else ""
    drawing += '<script src="/static/page.js" defer></script>\n' if script == "desk" else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<title>{for_html(title)}</title>\n<link rel="icon" href="{_ICON}">\n'
        '<link rel="stylesheet" href="/static/page.css">\n'
        '<link rel="stylesheet" href="/static/desk.css">\n'
        f'{drawing}<script src="/static/{script}.js" defer></script>\n'
        f"</head>\n<body>\n{body}</body></html>\n"
    )


@cache
def unwanted_styles() -> str:
    """Return elements with the ids of style sheets, for maps, that plotly adds if they are missing.

    The policy of the pages forbids them.
    """
    ids = re.findall(r'getElementById\("([0-9a-f]{64})"\)', plotly_script())
    return "".join(f'<template id="{each}"></template>\n' for each in dict.fromkeys(ids))


def error_page(title: str, text: str) -> str:
    """Return a page with one sentence."""
    body = (
        f'<main class="narrow"><h1>{for_html(title)}</h1><p class="verdict">{for_html(text)}</p>'
        '<p><a href="/fleet">Back to the desk</a></p></main>\n'
    )
    return document(title, body)


# -- the state of the run -------------------------------------------------------------------------

_WORDS = {
    "starting": "starting",
    "running": "running",
    "stopped": "stopped",
    "finished": "finished",
    "": "serving",
}


def state_line(view: View) -> str:
    """Return the state of the run, and when it was looked at."""
    if view.now is None:
        return '<span class="pill wait">connecting</span>'
    kind, word = ("bad", "no contact") if view.problem else ("", _WORDS[view.now.state])
    kind = kind or ("still" if view.now.state in ("finished", "stopped") else "good")
    progress = view.now.progress
    where = ""
    if progress is not None and not view.problem:
        where = f'<span class="quiet">{for_html(progress.where or "reading the data")}, '
        where += f"{for_html(progress.scheme)} ({progress.place} of {progress.of})</span>"
    return f'{where}<span class="pill {kind}">{word}</span>'


def banner(view: View) -> str:
    """Return what everybody must know: no contact, a full disk, a run that begins."""
    if view.problem:
        seen = f" What you see is from {clock(view.looked_s)}." if view.looked_s else ""
        problem = for_html(sentence(view.problem))
        return f'<p class="notice bad-notice">No contact: {problem}{seen}</p>'
    if view.now is None:
        return '<p class="notice">The run is being read.</p>'
    lines = [f"Waiting: {view.now.problem}"] if view.now.problem else []
    if view.now.state == "starting":
        lines.append("The run has not saved its ledger yet; the page of the job has its log")
    if view.now.unmet_guarantees:
        lines.append(f"Some fairness guarantees cannot be met: {view.now.unmet_guarantees}")
    return "".join(f'<p class="notice">{for_html(sentence(line))}</p>' for line in lines)


def sentence(text: str) -> str:
    """Return a text with a full stop; it may begin with a name, so its first letter stays.

    >>> sentence("no answer; is it there?"), sentence("ann may not erase")
    ('no answer; is it there?', 'ann may not erase.')
    """
    return text if text.endswith((".", "?", "!")) else f"{text}."


# -- parts of pages -------------------------------------------------------------------------------


def figure(name: str, value: str, words: str = "", *, tag: str = "", kind: str = "") -> str:
    """Return a figure in a box."""
    label = f' <span class="tag">{for_html(tag)}</span>' if tag else ""
    below = f'<span class="quiet">{for_html(words)}</span>' if words else ""
    return (
        f'<div class="box figure"><span class="quiet">{for_html(name)}</span>{label}'
        f'<strong class="{kind}">{value}</strong>{below}</div>\n'
    )


def figures(parts: Iterable[str]) -> str:
    """Return a row of figures."""
    return f'<div class="figures">\n{"".join(parts)}</div>\n'


def grid(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    empty: str,
    classes: str = "",
) -> str:
    """Return a table of cells that are HTML; on a narrow screen each row is a card."""
    body = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row">{cell}</th>'
            if place == 0
            else f'<td data-name="{for_html(head[place])}">{cell}</td>'
            for place, cell in enumerate(row)
        )
        + "</tr>\n"
        for row in rows
    )
    if not body:
        return f'<p class="nothing">{for_html(empty)}</p>\n'
    names = "".join(f'<th scope="col">{for_html(name)}</th>' for name in head)
    return (
        f'<div class="scroll cards {classes}" tabindex="0" role="region" '
        f'aria-label="{for_html(caption)}"><table><caption>{for_html(caption)}</caption>'
        f"<thead><tr>{names}</tr></thead><tbody>\n{body}</tbody></table></div>\n"
    )


def meter(share: float, kind: str, text: str) -> str:
    """Return a bar that is filled in part, with its text beside it."""
    width = 100.0 * min(max(share, 0.0), 1.0)
    return (
        f'<span class="meter"><span class="fill {kind}" style="width: {width:.1f}%"></span></span>'
        f'<span class="beside">{for_html(text)}</span>'
    )


def form(
    action: str, visit: Visit, inside: str, *, button: str, kind: str = "", change: bool = True
) -> str:
    """Return a form; one that changes something is locked for who may only look."""
    locked = change and not visit.may_change
    off = " disabled" if locked else ""
    note = (
        '<p class="quiet">This desk only shows. Start it with <code>--allow-changes</code> to '
        "change something here.</p>"
        if locked
        else ""
    )
    return (
        f'<form method="post" action="{action}" autocomplete="off">'
        f'<input type="hidden" name="form_token" value="{visit.form_token}">{inside}'
        f'<button class="{kind}"{off}>{for_html(button)}</button>{note}</form>\n'
    )


def hidden(name: str, value: str) -> str:
    """Return a field that the reader does not see."""
    return f'<input type="hidden" name="{name}" value="{for_html(value)}">'


def entry(name: str, title: str, *, hint: str = "", value: str = "", required: bool = True) -> str:
    """Return a field for a line of text, with its title."""
    needed = " required" if required else ""
    more = f' <span class="quiet">{for_html(hint)}</span>' if hint else ""
    return (
        f'<label><span>{for_html(title)}{more}</span><input name="{name}" '
        f'value="{for_html(value)}" maxlength="500" autocapitalize="off" spellcheck="false"'
        f"{needed}></label>"
    )


# -- times ----------------------------------------------------------------------------------------


def moment(time_s: float | None, nothing: str = "–") -> str:
    """Return a time of the server's clock; the script of the page turns it into an age."""
    if time_s is None or time_s <= 0.0:
        return nothing
    if time_s < REAL_FROM_S:
        return f"at {format_virtual(time_s)}"
    return f'<time datetime="{_iso(time_s)}" data-age="{time_s:.0f}">{clock(time_s)}</time>'


def format_virtual(time_s: float) -> str:
    """Return a time of a virtual clock, which starts at 0."""
    return format_duration(time_s) if time_s < 7200.0 else f"{time_s / 3600.0:,.1f} h"


def until(view: View, time_s: float) -> str:
    """Return how long it takes until a time of the server's clock; negative times are over."""
    left_s = time_s - view.now_s
    if not view.is_real:
        return f"until {format_virtual(time_s)}"
    text = f"{format_age(left_s)} left" if left_s > 0 else "over"
    return f'<time datetime="{_iso(time_s)}" data-until="{time_s:.1f}">{text}</time>'


def _iso(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def clock(time_s: float) -> str:
    """Return a time of the clock on the wall, with the day if it is not today."""
    then, today = time.localtime(time_s), time.localtime()
    form = "%H:%M:%S" if then[:3] == today[:3] else "%d %b %H:%M"
    return time.strftime(form, then)
