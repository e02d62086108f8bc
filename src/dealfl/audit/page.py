"""The HTML page of an audit: one file, for readers who decide on the settings of a job."""

from __future__ import annotations

from pathlib import Path

from dealfl.audit.attacks import Point
from dealfl.audit.auditing import Audit
from dealfl.escaping import for_html, for_plotly
from dealfl.pages import Plot, page, plot_section, table
from dealfl.storage import replace_file

_PLOTS = (
    (
        "Two published versions: how much they expose of the erased persons",
        ("two versions of similarities", "two ridge models"),
        "persons erased between two versions",
    ),
    (
        "One erased person among others, by release_batch",
        ("one erasure among others, similarities", "one erasure among others, ridge"),
        "release_batch",
    ),
    (
        "One update: how much it exposes of one of its examples",
        ("one update, ridge", "one update, similarities"),
        "examples or histories in the update",
    ),
)


def write_audit(audit: Audit, path: Path) -> Path:
    """Write the page of an audit, atomically; it needs no network."""
    verdict = "no trace was found" if audit.holds else "TRACES WERE FOUND"
    drawn = "".join(plot_section(plot) for plot in _draw(audit.points))
    body = (
        f"<h1>Audit of {for_html(audit.run)}</h1>\n"
        f'<p class="verdict">After an erasure, {verdict}.</p>\n'
        f"<h2>This run</h2>\n{_findings(audit)}"
        f'<h2>What models and updates expose</h2>\n<div class="plots">\n{drawn}</div>\n'
        f"{_points(audit)}"
        + "".join(f'<p class="quiet">{for_html(note)}</p>\n' for note in audit.notes)
    )
    return replace_file(path, page(f"Audit of {audit.run}", body))


def _findings(audit: Audit) -> str:
    head = ["looked for", "before an erasure", "after", "expected", "as expected"]
    rows = [finding.cells("–") for finding in audit.findings]
    return table("Traces of persons in the model and the files of this run", head, rows)


def _points(audit: Audit) -> str:
    head = ["attack", "mixed", "quality", "floor", "trials", "measure"]
    rows = [
        [
            point.attack,
            point.size,
            f"{point.quality:.3f}",
            f"{point.floor:.3f}",
            point.trials,
            point.measure,
        ]
        for point in audit.points
    ]
    return table("All attacks; 1 is a complete reconstruction, the floor is chance", head, rows)


def _draw(points: list[Point]) -> list[Plot]:
    plots = []
    for title, attacks, axis in _PLOTS:
        traces = []
        for attack in attacks:
            own = [point for point in points if point.attack == attack]
            for name, values, dash in (
                (attack, [point.quality for point in own], "solid"),
                (f"floor of {attack}", [point.floor for point in own], "dot"),
            ):
                traces.append(
                    {
                        "x": [point.size for point in own],
                        "y": values,
                        "name": for_plotly(name),
                        "mode": "lines+markers",
                        "line": {"dash": dash},
                    }
                )
        layout = {
            "xaxis": {"title": {"text": axis}, "type": "log"},
            "yaxis": {"title": {"text": "quality"}, "range": [0, 1.05]},
        }
        words = "1 is a complete reconstruction; dotted lines show what chance reaches."
        plots.append(Plot(title=title, words=words, traces=traces, layout=layout))
    return plots
