"""The result of a job in words and one table, for people at a terminal."""

from __future__ import annotations

from dealfl.report.result import Comparison, Result
from dealfl.simulate import Outcome

__all__ = ["summary"]


def summary(result: Result) -> str:
    """Return what came out: a table of schemes, what was saved, and what the digests say."""
    main = result.main
    head = (
        f"{result.job}: {main.workers} workers, {len(main.rounds)} rounds, "
        f"{main.learned:,} examples learned, {main.evicted:,} forgotten ({main.scheme})"
    )
    parts = [head, _table(result), *_sentences(result), _verdict(result)]
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
    "operations, J (modelled)",
    "  with call overhead",
    "whole devices, J (modelled)",
    "  of it radio",
    "wake-ups",
    "examples learned",
    "examples forgotten",
    "time, s (virtual)",
    "digest = central training",
)


def _column(outcome: Outcome) -> list[str]:
    energy = outcome.energy
    radio = f"{energy.radio_j / energy.whole_j:.0%}" if energy.whole_j else "–"
    return [
        "–" if outcome.quality is None else f"{outcome.quality:.4f}",
        f"{energy.operating_j:,.3f}",
        f"{energy.compute_j:,.3f}",
        f"{energy.whole_j:,.2f}",
        radio,
        f"{energy.wake_ups:,}",
        f"{outcome.learned:,}",
        f"{outcome.evicted:,}",
        f"{outcome.virtual_s:,.0f}",
        "yes" if outcome.exact else "NO",
    ]


def _sentences(result: Result) -> list[str]:
    return [_told(result.main, one) for one in result.comparisons() if one.scheme == "original"]


def _told(main: Outcome, beside: Comparison) -> str:
    operating, compute, whole = beside.operating_saved, beside.compute_saved, beside.whole_saved
    if operating is None or compute is None or whole is None:
        return ""
    quality = ""
    if beside.quality_points is not None:
        quality = f", at {beside.quality_points:+.1f} points of {main.metric}"
    energy = main.energy
    return (
        f"Computing took {_less(operating)} energy than retraining on everything each time\n"
        f"({beside.scheme}){quality}; with what each call takes however little it does, "
        f"{_less(compute)}.\nWhole devices took {_less(whole)}: "
        f"{energy.radio_j / energy.whole_j:.0%} of what they spend is the radio's, so there it is\n"
        "fewer and fuller wake-ups that save, not less computing."
    )


def _less(saved: float) -> str:
    return f"{saved:.1%} less" if saved >= 0 else f"{-saved:.1%} more"


def _verdict(result: Result) -> str:
    if result.exact:
        digest = result.main.digest[:16]
        return (
            f"The server's digest {digest}… is, bit for bit, that of central training on all that\n"
            "the workers still hold: what was forgotten has left no trace."
        )
    wrong = ", ".join(one.scheme for one in result.outcomes if not one.exact)
    return f"NOT EXACT: {wrong}. This is a bug; please report it with the job file."
