"""The page of the job: its keys, and the log."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from dealfl.desk.layout import Page, grid
from dealfl.desk.reported import reported
from dealfl.desk.view import View
from dealfl.escaping import for_html
from dealfl.report import format_number

_LINES = 100


def job_page(view: View) -> Page:
    """Return the page of the job."""
    parts = {"log": _log(view), "keys": _keys(view)}
    if terms := reported(view, "terms"):
        parts["terms"] = terms
    return Page("job", "Job", parts, live="job")


def _keys(view: View) -> str:
    rows = [
        [f"<code>{for_html(key)}</code>", f"<code>{for_html(value)}</code>"]
        for key, value in _list_keys(view.job_text)
    ]
    note = "All other keys have their defaults: see the page of job keys."
    table = grid("Keys that the job file sets", ["key", "value"], rows,
                 empty="The run has no job file.", classes="keys")  # fmt: skip
    return f'<h2>Keys</h2>\n{table}<p class="quiet">{note}</p>'


def _list_keys(text: str) -> Iterator[tuple[str, str]]:
    try:
        yield from _flatten("", tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        yield "job.toml", f"cannot be read: {error}"


def _flatten(above: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        name = f"{above}.{key}" if above else key
        if isinstance(value, dict) and value:
            yield from _flatten(name, value)
        elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            for number, item in enumerate(value, 1):
                yield from _flatten(f"{name} {number}", item)
        else:
            yield name, json.dumps(value, ensure_ascii=False, default=str)


def _log(view: View) -> str:
    rows = [row for row in map(_line, reversed(view.log[-_LINES:])) if row]
    head = ["time", "event", "worker", "round", "reason", "figures"]
    table = grid(f"The last {len(rows):,} events" if rows else "Log", head, rows,
                 empty="The log is empty.", classes="log long")  # fmt: skip
    return f"<h2>Log</h2>\n{table}"


def _line(text: str) -> list[str] | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict):
        return None
    level = str(line.get("level", ""))
    kind = ' class="bad"' if level in ("warning", "error") else ""
    figures = line.get("figures")
    numbers = figures if isinstance(figures, dict) else {}
    shown = ", ".join(f"{key} {_number(value)}" for key, value in numbers.items())
    return [
        for_html(str(line.get("time", ""))[:19].replace("T", " ")),
        f"<span{kind}>{for_html(line.get('event', ''))}</span>",
        *(for_html(line.get(name, "")) for name in ("worker", "round", "reason")),
        f'<span class="quiet">{for_html(shown)}</span>',
    ]


def _number(value: object) -> str:
    return format_number(value) if isinstance(value, float) else str(value)
