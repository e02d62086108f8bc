"""Pages with plots in one HTML file that needs no network, for people with any browser.

Whatever comes from data is escaped here, and only here.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from typing import Any

from dealfl.errors import DealError

__all__ = [
    "COLOURS", "Cell", "Plot", "details", "escaped", "page", "plot_section", "plotly_text", "table",
]  # fmt: skip

# Nothing is fetched and nothing is sent, whatever a name in the data may try.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"

# Of middle lightness: at least 3 to 1 against the light page and the dark one.
COLOURS = ("#3b82c4", "#d9701a", "#2a9a68", "#a964c9", "#d1495b", "#a88a00", "#7a8594")

_LAYOUT = {
    "margin": {"l": 56, "r": 16, "t": 8, "b": 40},
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "hovermode": "closest",
    "dragmode": False,  # a finger that scrolls the page must not zoom
    "legend": {
        "orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom",
        "traceorder": "normal",
    },
    "colorway": COLOURS,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot: traces and layout as plotly takes them, and words for those who can not see it.

    Without traces, `nothing` is said in its place. Names in traces go through `plotly_text`.
    """

    title: str
    words: str
    traces: Sequence[dict[str, Any]]
    layout: dict[str, Any] = field(default_factory=dict)
    height: int = 340
    nothing: str = "There is nothing to draw."


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table whose text is not what it is sorted by."""

    text: str
    value: float


def escaped(text: object) -> str:
    """Return text that HTML shows as it is.

    >>> escaped("<b>")
    '&lt;b&gt;'
    """
    return html.escape(str(text))


def plotly_text(text: object) -> str:
    """Return text that plotly shows as it is: it takes some tags for its own."""
    return html.escape(str(text), quote=False)


def plot_section(plot: Plot) -> str:
    """Return a plot under its title, or why there is none."""
    return (
        f'<figure class="box"><h3>{escaped(plot.title)}</h3>{_drawing(plot)}'
        f"<figcaption>{escaped(plot.words)}</figcaption></figure>\n"
    )


def _drawing(plot: Plot) -> str:
    if not plot.traces:
        return f'<p class="nothing">{escaped(plot.nothing)}</p>'
    content = _finite({"data": list(plot.traces), "layout": _LAYOUT | plot.layout})
    # Inside a script no entity is decoded, but \u003c is: no tag can begin or end here.
    text = json.dumps(content, allow_nan=False).replace("<", "\\u003c").replace("&", "\\u0026")
    return (
        f'<div class="plot" role="img" style="height: {plot.height}px" '
        f'aria-label="{escaped(f"{plot.title}. {plot.words}")}"></div>'
        f'<script type="application/json">{text}</script>'
    )


def _finite(content: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return it with a gap wherever a figure is not finite: JSON has no word for it."""
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[object]], *, sortable: bool = False
) -> str:
    """Return a table that scrolls inside its box; the first column names the rows."""
    box, kind = ("scroll long", "sortable") if sortable else ("scroll", "plain")
    names = "".join(f'<th scope="col">{escaped(name)}</th>' for name in head)
    body = "".join(f"<tr>{_row(row)}</tr>\n" for row in rows)
    return (
        f'<div class="{box}" tabindex="0" role="region" aria-label="{escaped(caption)}">'
        f'<table class="{kind}"><caption>{escaped(caption)}</caption>'
        f"<thead><tr>{names}</tr></thead>"
        f"<tbody>\n{body}</tbody></table></div>\n"
    )


def _row(row: Sequence[object]) -> str:
    first, *others = row
    return f'<th scope="row">{escaped(first)}</th>' + "".join(_cell(one) for one in others)


def _cell(content: object) -> str:
    if isinstance(content, Cell):
        return f'<td data-value="{content.value!r}">{escaped(content.text)}</td>'
    return f"<td>{escaped(content)}</td>"


def details(summary: str, inside: str) -> str:
    """Return markup that opens when its summary is chosen."""
    return f"<details><summary>{escaped(summary)}</summary>\n{inside}</details>\n"


def page(title: str, body: str) -> str:
    """Return the whole page; the body is markup in which everything is escaped."""
    parts = files("dealfl.pages")
    style = parts.joinpath("page.css").read_text(encoding="utf-8")
    script = parts.joinpath("page.js").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escaped(title)}</title>\n<style>\n{style}</style></head>\n"
        f"<body><main>\n{body}</main>\n"
        f"<script>{_plotly()}</script>\n<script>\n{script}</script></body></html>\n"
    )


def _plotly() -> str:
    try:
        offline: Any = import_module("plotly.offline")
    except ImportError as error:
        raise DealError(
            "pages with plots need plotly; install it with: pip install 'dealfl[report]'"
        ) from error
    source: str = offline.get_plotlyjs()
    return source
