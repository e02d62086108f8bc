"""A result or a sweep in words and one table, for people at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dealfl.report.formats import (
    format_duration,
    format_energy,
    format_number,
    format_quality,
    format_saving,
)
from dealfl.runs import Result
from dealfl.simulate import Estimate, Outcome, Setting

__all__ = ["summarize", "summarize_setting"]


def summarize(result: Result) -> str:
    """Return what came out: a table of schemes, what was saved, and what the digests say."""
    main = result.main
    head = (
        f"{result.job}: {main.workers} workers, {len(main.rounds)} rounds, "
        f"{main.learned:,} examples learned, {main.evicted:,} forgotten ({main.scheme})"
    )
    parts = [head, _table(result), _compare(result), *_warnings(main), _verdict(result)]
    return "\n\n".join(part for part in parts if part)


def _table(result: Result) -> str:
    columns = [[result.main.metric, *_ROWS], *(_column(one) for one in result.outcomes)]
    titles = ["", *(one.scheme for one in result.outcomes)]
    widths = [
        max(len(text) for text in [title, *column])
        for title, column in zip(titles, columns, strict=True)
    ]
    lines = [titles, *zip(*columns, strict=True)]
    return "\n".join(
        "  ".join(
            text.ljust(width) if place == 0 else text.rjust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


_ROWS = (
    "operations, modelled",
    "  with call overhead",
    "whole devices, modelled",
    "  of it radio",
    "wake-ups",
    "examples learned",
    "examples forgotten",
    "training, modelled",
    "rounds, virtual time",
    "digest = central training",
)


def _column(outcome: Outcome) -> list[str]:
    energy = outcome.energy
    radio = f"{energy.radio_j / energy.whole_j:.0%}" if energy.whole_j else "–"
    return [
        format_quality(outcome.quality),
        format_energy(energy.operating_j),
        format_energy(energy.compute_j),
        format_energy(energy.whole_j),
        radio,
        f"{energy.wake_ups:,}",
        f"{outcome.learned:,}",
        f"{outcome.evicted:,}",
        format_duration(energy.compute_s),
        format_duration(outcome.virtual_s),
        "yes" if outcome.exact else "NO",
    ]


def _warnings(main: Outcome) -> list[str]:
    found = []
    if main.quarantined:
        found.append(
            f"{main.quarantined:,} examples cannot be used and were left out; "
            f"the first: {main.first_quarantined}."
        )
    found += [f"Left out: {note}." for note in main.notes]
    if main.over_promised is not None:
        found.append(f"Some fairness guarantees cannot be met: {main.over_promised}.")
    return found


def _compare(result: Result) -> str:
    main, beside = result.main, result.against("original")
    if beside is None or beside.operating_saved is None or not main.energy.whole_j:
        return ""
    quality = ""
    if beside.quality_points is not None:
        points = round(beside.quality_points, 1) + 0.0  # no −0.0
        quality = f", at {points:+.1f} points of {main.metric}"
    radio = 100.0 * main.energy.radio_j / main.energy.whole_j
    return (
        f"Computing took {format_saving(beside.operating_saved)} energy than retraining on "
        f"everything each time\n({beside.scheme}){quality}. "
        f"Including per-call overhead: {format_saving(beside.compute_saved)}.\n"
        f"Whole devices took {format_saving(beside.whole_saved)}: {radio:.0f} % of the energy is "
        "radio, so waking devices\nless often saves more than computing less."
    )


def _verdict(result: Result) -> str:
    if result.exact:
        digest = result.main.digest[:16]
        base = f"\non top of {result.went_on_from}" if result.went_on_from else ""
        return (
            f"The server's digest {digest}… is, bit for bit, that of central training on all that\n"
            f"the workers still hold{base}: what was forgotten has left no trace."
        )
    wrong = ", ".join(one.scheme for one in result.outcomes if not one.exact)
    return f"NOT EXACT: {wrong}. This is a bug; please report it with the job file."


# -- sweeps -------------------------------------------------------------------------------------


def summarize_setting(setting: Setting) -> str:
    """Return the estimates of one setting of a sweep, and whether all digests are exact."""
    first = setting.outcomes[0]
    title = f"{first.job}: {first.workers} workers"
    if setting.values:
        title += ", " + ", ".join(f"{key} = {value}" for key, value in setting.values.items())
    if len(setting.outcomes) > 1:
        title += f"; mean of {len(setting.outcomes)} seeds, ± half a 95 % confidence interval"
    rows = [
        (_MEASURES.get(name, name), _format_estimate(name, estimate, first.metric))
        for name, estimate in setting.estimates().items()
    ]
    rows.append(("ended by", ", ".join(dict.fromkeys(one.ended for one in setting.outcomes))))
    over = next((one.over_promised for one in setting.outcomes if one.over_promised), None)
    rows += [] if over is None else [("over-promised", str(over))]
    width = max(len(name) for name, _ in rows)
    lines = [f"  {name.ljust(width)}  {text}" for name, text in rows]
    return "\n".join([title, *lines, _digests(setting.outcomes)])


_MEASURES = {
    "energy_j": "energy, modelled",
    "compute_j": "  of it computing",
    "radio_j": "  of it radio",
    "virtual_s": "virtual time",
}


def _format_estimate(name: str, estimate: Estimate, metric: str) -> str:
    form: Callable[[float], str] = format_number
    if name.endswith("_j"):
        form = format_energy
    elif name.endswith("_s"):
        form = format_duration
    elif name == metric:
        form = format_quality
    spread = "" if estimate.half_width is None else f" ± {form(estimate.half_width)}"
    return form(estimate.mean) + spread


def _digests(outcomes: Sequence[Outcome]) -> str:
    wrong = [str(outcome.seed) for outcome in outcomes if not outcome.exact]
    if wrong:
        return (
            f"NOT EXACT with seed {', '.join(wrong)}: the server's digest is not that of central "
            "training.\nThis is a bug; please report it with the file and the seed."
        )
    return (
        "The server's digest is, bit for bit, that of central training on all that the workers\n"
        f"still hold: {outcomes[0].digest[:16]}…"
    )
