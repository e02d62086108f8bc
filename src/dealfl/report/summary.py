"""The result of a job in words and one table, for people at a terminal."""

from __future__ import annotations

from dealfl.runs import Comparison, Result
from dealfl.simulate import Outcome

__all__ = ["figure", "summary"]


def figure(value: float, unit: str) -> str:
    """Return a figure with three digits and a unit that suits it.

    >>> figure(0.01234, "J"), figure(72.84, "J"), figure(5436.2, "s"), figure(0.0, "s")
    ('12.3 mJ', '72.8 J', '5,436 s', '0 s')
    """
    if value == 0.0:
        return f"0 {unit}"
    for limit, scale, prefix in ((1e-3, 1e6, "µ"), (1.0, 1e3, "m")):
        if abs(value) < limit:
            return f"{value * scale:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}" if abs(value) < 1000.0 else f"{value:,.0f} {unit}"


def summary(result: Result) -> str:
    """Return what came out: a table of schemes, what was saved, and what the digests say."""
    main = result.main
    head = (
        f"{result.job}: {main.workers} workers, {len(main.rounds)} rounds, "
        f"{main.learned:,} examples learned, {main.evicted:,} forgotten ({main.scheme})"
    )
    parts = [head, _table(result), *_sentences(result), *_warnings(main), _verdict(result)]
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
        "–" if outcome.quality is None else f"{outcome.quality:.4f}",
        figure(energy.operating_j, "J"),
        figure(energy.compute_j, "J"),
        figure(energy.whole_j, "J"),
        radio,
        f"{energy.wake_ups:,}",
        f"{outcome.learned:,}",
        f"{outcome.evicted:,}",
        figure(energy.compute_s, "s"),
        figure(outcome.virtual_s, "s"),
        "yes" if outcome.exact else "NO",
    ]


def _sentences(result: Result) -> list[str]:
    return [_told(result.main, one) for one in result.comparisons() if one.scheme == "original"]


def _warnings(main: Outcome) -> list[str]:
    found = []
    if main.quarantined:
        found.append(
            f"{main.quarantined:,} examples can not be used and were left out; "
            f"the first: {main.first_quarantined}."
        )
    if main.over_promised is not None:
        found.append(f"More was promised to some workers than can be: {main.over_promised}.")
    return found


def _told(main: Outcome, beside: Comparison) -> str:
    operating, compute, whole = beside.operating_saved, beside.compute_saved, beside.whole_saved
    if operating is None or compute is None or whole is None:
        return ""
    quality = ""
    if beside.quality_points is not None:
        points = round(beside.quality_points, 1) + 0.0  # no −0.0
        quality = f", at {points:+.1f} points of {main.metric}"
    energy = main.energy
    return (
        f"Computing took {_less(operating)} energy than retraining on everything each time\n"
        f"({beside.scheme}){quality}.\nWith what each call takes, however little it does: "
        f"{_less(compute)}.\nWhole devices took {_less(whole)}: "
        f"{energy.radio_j / energy.whole_j:.0%} of what they spend is the radio's, so there it is\n"
        "fewer and fuller wake-ups that save, not less computing."
    )


def _less(saved: float) -> str:
    return f"{saved:.1%} less" if saved >= 0 else f"{-saved:.1%} more"


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
