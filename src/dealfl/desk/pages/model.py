"""The page of the model: its quality, versions and digests, and its export."""

from __future__ import annotations

from dealfl.desk.layout import Page, Visit, figure, figures, form, grid, moment
from dealfl.desk.reported import reported
from dealfl.desk.view import View
from dealfl.escaping import for_html
from dealfl.pages import plot_section
from dealfl.report import round_plots

_LISTED = 50


def model_page(view: View, visit: Visit) -> Page:
    """Return the page of the model."""
    export = form("/model/export", visit, "", button="Export the model", change=False)
    parts = {"now": _now(view)}
    if view.record is not None:
        parts["report"] = reported(view, "summary")
        parts["quality"] = plot_section(round_plots(view.record)[0])
        parts["schemes"] = reported(view, "schemes")
    else:
        parts["quality"] = (
            '<p class="quiet">The quality is not measured while a server runs: the test examples '
            "are not on it. <code>dealfl model score</code> measures it with a file of yours.</p>"
        )
    parts["versions"] = _versions(view)
    parts["export"] = (
        "<h2>Export</h2>\n<p>A file for <code>dealfl model predict</code> and for Python.</p>"
        f"{export}"
    )
    return Page("model", "Model", parts, plots=True, live="model", fixed=frozenset({"export"}))


def _now(view: View) -> str:
    last = view.versions[max(view.versions)] if view.versions else None
    digest = view.now.digest if view.now else ""
    if last is None:
        return figures([figure("published version", "none", "no version was published yet")])
    same = digest == last.digest
    now = ("published", "the statistics are those of this version")
    if not same:
        now = ("changed since", "the statistics have changed since; not published yet")
    learned = sum(line.learned for line in view.workers.values())
    evicted = sum(line.evicted for line in view.workers.values())
    return figures(
        [
            figure("published version", f"{last.number:,}", f"after round {last.round:,}"),
            figure("digest", f"<code>{for_html(last.digest[:16])}…</code>", now[1],
                   kind="good" if same else ""),
            figure("examples learned", f"{learned:,}", f"{evicted:,} forgotten by policy"),
        ]
    )  # fmt: skip


def _versions(view: View) -> str:
    head = ["version", "published", "after round", "digest", "erasures in it", "delivered"]
    rows = [
        [
            f"{version.number:,}",
            moment(version.published_s),
            f"{version.round:,}",
            f"<code>{for_html(version.digest)}</code>",
            f"{version.erased:,}",
            "yes" if version.delivered else "not yet",
        ]
        for version in sorted(view.versions.values(), key=lambda each: -each.number)[:_LISTED]
    ]
    caption = f"The last {len(rows):,} published versions" if rows else "Versions"
    table = grid(caption, head, rows, empty="No version was published yet.")
    return f"<h2>Versions</h2>\n{table}"
