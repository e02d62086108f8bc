"""What a reproduction leaves: one HTML page for people and results.json for programs."""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dealfl.escaping import for_html
from dealfl.exact import CHOICE
from dealfl.pages import details, page, plot_section, table
from dealfl.power import SPEED_BAND
from dealfl.storage import make_folder, replace_file
from dealfl_paper.figure import Claim, Verdict
from dealfl_paper.reproduction import Done, Reproduction

_TITLE = "The evaluation of DEAL, reproduced"
_CLASSES = {
    Verdict.REPRODUCED: "good",
    Verdict.NOT_REPRODUCED: "bad",
    Verdict.IMPLEMENTATION_BOUND: "good",
    Verdict.NOT_COMPARABLE: "quiet",
    Verdict.TOO_SMALL: "quiet",
}
_PACKAGES = ("dealfl", "numpy", "scipy", "numba", "plotly")


def write_results(reproduction: Reproduction, folder: Path) -> tuple[Path, Path]:
    """Write index.html and results.json into a folder, each atomically."""
    make_folder(folder)
    html, results = folder / "index.html", folder / "results.json"
    content = as_results(reproduction)
    replace_file(results, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False))
    replace_file(html, page(_TITLE, _body(reproduction, content["machine"])))
    return html, results


def as_results(reproduction: Reproduction) -> dict[str, Any]:
    """Return the content of results.json."""
    return {
        "quick": reproduction.quick,
        "machine": _describe_machine(),
        "claims": [
            {"figure": done.figure.name, **asdict(claim)}
            for done in reproduction.figures
            for claim in done.claims
        ],
        "figures": {
            done.figure.name: {
                "title": done.figure.title,
                "paper": done.figure.paper,
                "method": done.figure.method,
                "skipped": list(done.skipped),
                "elapsed_s": round(done.elapsed_s, 1),
                "rows": list(done.rows),
            }
            for done in reproduction.figures
        },
    }


def _describe_machine() -> dict[str, str]:
    """Return versions and the processor, as text."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    versions |= {"processor": _processor(), "cores": str(os.cpu_count())}
    return versions | {
        "loops": "numpy" if CHOICE.mode == "never" else "compiled from the first call"
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


# -- the page -----------------------------------------------------------------------------------


def _body(reproduction: Reproduction, machine: dict[str, str]) -> str:
    claims = [(done.figure.name, claim) for done in reproduction.figures for claim in done.claims]
    counts = Counter(claim.verdict for _, claim in claims)
    totals = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    size = "Quick run: few and small settings. " if reproduction.quick else ""
    intro = (
        f"<p>{size}Host time is measured on this machine. Time, energy and charge of phones "
        "are <em>modelled</em> from counted operations and the profiles of the phones; they "
        f"hold within a factor of {SPEED_BAND:g}. Verdicts are computed from the rows in "
        "results.json. No setting was chosen to reach a number of the paper. "
        "<em>Implementation-bound</em>: a replica that handles one row at a time, timed, reaches "
        "the paper's threshold, and the fast implementation does not, because it leaves Original "
        "less to save. The abstract says 2–4X where the text says 2–4 orders of magnitude; the "
        "text is judged. The published image goodlab/deal could not be obtained.</p>\n"
    )
    parts = [
        f"<h1>{for_html(_TITLE)}</h1>\n",
        f'<p class="verdict">{len(claims)} claims: {for_html(totals)}.</p>\n',
        intro,
        _skipped(reproduction.figures),
        _claims_table(claims),
        _contents(reproduction.figures),
        *(_section(done) for done in reproduction.figures),
        "<h2>Machine and versions</h2>\n",
        table("What ran this", ["name", "value"], machine.items()),
    ]
    return "".join(parts)


def _skipped(figures: Sequence[Done]) -> str:
    """Return what was skipped, each reason once, with the figures it concerns."""
    reasons: dict[str, list[str]] = {}
    for done in figures:
        for why in done.skipped:
            reasons.setdefault(why, []).append(done.figure.name)
    items = "".join(
        f"<li>{for_html(why)} (for {for_html(', '.join(names))})</li>"
        for why, names in reasons.items()
    )
    return f'<div class="bad"><p>Skipped:</p><ul>{items}</ul></div>\n' if items else ""


def _claims_table(claims: Sequence[tuple[str, Claim]]) -> str:
    body = "".join(_claim_row(name, claim) for name, claim in claims)
    head = "".join(f'<th scope="col">{name}</th>' for name in _HEAD)
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Claims of the paper">'
        f'<table class="claims"><caption>Claims of the paper</caption><thead><tr>{head}</tr>'
        f"</thead><tbody>\n{body}</tbody></table></div>\n"
    )


_HEAD = ("claim", "paper", "fast implementation", "replica", "verdict")


def _claim_row(figure: str, claim: Claim) -> str:
    first = f'<a href="#{figure}">{for_html(claim.claim)}</a>'
    verdict = f'<strong class="{_CLASSES[claim.verdict]}">{claim.verdict}</strong>'
    here = f'<span title="{for_html(claim.why)}">{for_html(claim.here)}</span>'
    cells = (for_html(claim.paper), here, for_html(claim.replica), verdict)
    others = "".join(
        f'<td data-name="{name}">{cell}</td>' for name, cell in zip(_HEAD[1:], cells, strict=True)
    )
    return f'<tr><th scope="row">{first}</th>{others}</tr>\n'


def _contents(figures: Sequence[Done]) -> str:
    links = (f'<a href="#{done.figure.name}">{for_html(done.figure.title)}</a>' for done in figures)
    return f"<p>Figures: {' · '.join(links)}</p>\n"


def _section(done: Done) -> str:
    figure = done.figure
    plots = "".join(plot_section(plot) for plot in figure.plot(done.rows)) if done.rows else ""
    skipped = '<p class="bad">Some settings are skipped: see above.</p>\n' if done.skipped else ""
    return (
        f'<h2 id="{figure.name}">{for_html(figure.title)}</h2>\n'
        f"<p><strong>In the paper.</strong> {for_html(figure.paper)}</p>\n"
        f"<p><strong>Here.</strong> {for_html(figure.method)}</p>\n{skipped}{_reasons(done)}"
        f'<div class="plots">{plots}</div>\n'
        + details(
            f"Settings of {figure.name}: {len(done.settings)}, {len(done.rows):,} rows, "
            f"{done.elapsed_s:,.0f} s",
            f"<pre>{for_html(_settings_text(done))}</pre>",
        )
    )


def _reasons(done: Done) -> str:
    """Return why each claim has its verdict; the table of claims is to fit a screen."""
    listed = "".join(
        f"<li><strong>{for_html(claim.claim)}</strong>: {claim.verdict}. {for_html(claim.why)}</li>"
        for claim in done.claims
    )
    return f"<ul>{listed}</ul>\n" if listed else ""


def _settings_text(done: Done) -> str:
    return "\n".join(
        ", ".join(f"{key} = {json.dumps(value)}" for key, value in setting.items())
        for setting in done.settings
    )
