"""HTML pages with plots, each in one file that needs no network.

All text from data is escaped here, and only here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from typing import Any

from dealfl.errors import DealError
from dealfl.escaping import for_html, for_plotly

__all__ = [
    "COLOURS",
    "Cell",
    "Plot",
    "details",
    "draw",
    "page",
    "page_file",
    "plot_section",
    "plotly_script",
    "table",
]

# The browser fetches and sends nothing, even if a name in the data contains markup.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"

# Medium lightness: a contrast of at least 3 to 1 on the light and on the dark page.
COLOURS = ("#3b82c4", "#d9701a", "#2a9a68", "#a964c9", "#d1495b", "#a88a00", "#7a8594")

_LAYOUT = {
    "margin": {"l": 56, "r": 16, "t": 8, "b": 40},
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "hovermode": "closest",
    "dragmode": False,  # scrolling on a touch screen must not zoom
    "legend": {
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "y": 1.02,
        "yanchor": "bottom",
        "traceorder": "normal",
    },
    "colorway": COLOURS,
}


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot with a title and a description."""

    title: str
    words: str
    traces: Sequence[dict[str, Any]]
    layout: dict[str, Any] = field(default_factory=dict)
    height: int = 340
    nothing: str = "No data."


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table with a sort key."""

    text: str
    value: float


def plot_section(plot: Plot) -> str:
    """Return the HTML of a plot with its title and caption."""
    if not (plot.traces or plot.nothing):
        return ""
    return (
        f'<figure class="box"><h3>{for_html(plot.title)}</h3>{_drawing(plot)}'
        f"<figcaption>{for_html(plot.words)}</figcaption></figure>\n"
    )


def _drawing(plot: Plot) -> str:
    if not plot.traces:
        return f'<p class="nothing">{for_html(plot.nothing)}</p>'
    content = _finite({"data": list(plot.traces), "layout": _LAYOUT | plot.layout})
    # A script decodes \u003c but no HTML entities, so no tag can start or end here.
    text = json.dumps(content, allow_nan=False).replace("<", "\\u003c").replace("&", "\\u0026")
    return (
        f'<div class="plot" role="img" style="height: {plot.height}px" '
        f'aria-label="{for_html(f"{plot.title}. {plot.words}")}"></div>'
        f'<script type="application/json">{text}</script>'
    )


def _finite(content: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return the content with None for numbers that are not finite, which JSON cannot express."""
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[object]], *, sortable: bool = False
) -> str:
    """Return the HTML of a table that scrolls inside its box; on a phone, a row is a list."""
    box, kind = ("scroll long", "sortable") if sortable else ("scroll", "plain")
    names = "".join(f'<th scope="col">{for_html(name)}</th>' for name in head)
    body = "".join(f"<tr>{_row(row, head)}</tr>\n" for row in rows)
    return (
        f'<div class="{box}" tabindex="0" role="region" aria-label="{for_html(caption)}">'
        f'<table class="{kind}"><caption>{for_html(caption)}</caption>'
        f"<thead><tr>{names}</tr></thead>"
        f"<tbody>\n{body}</tbody></table></div>\n"
    )


def _row(row: Sequence[object], head: Sequence[str]) -> str:
    first, *others = row
    cells = "".join(map(_cell, others, head[1:]))
    return f'<th scope="row">{for_html(first)}</th>{cells}'


def _cell(content: object, name: str) -> str:
    named = f' data-name="{for_html(name)}"' if name else ""
    if isinstance(content, Cell):
        return f'<td{named} data-value="{content.value!r}">{for_html(content.text)}</td>'
    return f"<td{named}>{for_html(content)}</td>"


def details(summary: str, inside: str) -> str:
    """Return HTML that opens with a click on its summary."""
    return f"<details><summary>{for_html(summary)}</summary>\n{inside}</details>\n"


def page(title: str, body: str) -> str:
    """Return a whole HTML page, with the scripts and styles it needs."""
    style, script = page_file("page.css"), page_file("page.js")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{for_html(title)}</title>\n<style>\n{style}</style></head>\n"
        f"<body><main>\n{body}</main>\n"
        f"<script>{plotly_script()}</script>\n<script>\n{script}</script></body></html>\n"
    )


def draw(plot: Plot) -> Any:  # noqa: ANN401 - plotly is optional
    """Return a plot as a figure of plotly, with its title."""
    layout = _LAYOUT | plot.layout | {"height": plot.height, "dragmode": "zoom"}
    title = {"text": for_plotly(plot.title), "font": {"size": 15}}
    content = _finite({"data": list(plot.traces), "layout": layout})
    figure = _import_plotly("plotly.graph_objects").Figure(content)
    return figure.update_layout(title=title, margin={"t": 72}, template="plotly_white")


def page_file(name: str) -> str:
    """Return the text of `page.css` or `page.js`."""
    return files("dealfl.pages").joinpath(name).read_text(encoding="utf-8")


def plotly_script() -> str:
    """Return the source of plotly.js."""
    source: str = _import_plotly("plotly.offline").get_plotlyjs()
    return source


def _import_plotly(module: str) -> Any:  # noqa: ANN401
    try:
        return import_module(module)
    except ImportError as error:
        raise DealError(
            "plotly is not installed; install it with: pip install 'dealfl[report]'"
        ) from error
