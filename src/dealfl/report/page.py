"""The HTML report of a run: one file, for readers who do not know the paper."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dealfl.atomic_files import replace_file
from dealfl.pages import Cell, Plot, details, escaped, page, plot_section, table
from dealfl.report.energy_plots import energy_plots
from dealfl.report.formats import (
    format_count,
    format_duration,
    format_energy,
    format_quality,
    format_saving,
)
from dealfl.report.phone_plots import phone_plots
from dealfl.report.round_plots import round_plots
from dealfl.report.wording import explain_terms, radio_sentence, scheme_name, verdict
from dealfl.runs import Result
from dealfl.simulate import Outcome, Participant

__all__ = ["write_page"]

_MOST_PARTICIPANTS = 1000
_BASELINE = "original"


def write_page(result: Result, path: str | Path) -> None:
    """Write the HTML report of a run, atomically; the page needs no network.

    Parameters
    ----------
    result : Result
        Result of a run.
    path : str or Path
        HTML file to write or replace.

    Raises
    ------
    DealError
        If plotly is not installed.
    """
    body = "".join(
        [
            _head(result),
            _section("Round by round", round_plots(result)),
            _section("Energy", energy_plots(result)),
            _section("Phones", phone_plots(result)),
            "<h2>All schemes</h2>\n",
            _schemes(result),
            "<h2>Details</h2>\n",
            _participants(result.main),
            _settings(result),
            _terms(result),
        ]
    )
    replace_file(path, page(result.job, body))


def _section(title: str, plots: Iterable[Plot]) -> str:
    drawn = "".join(plot_section(plot) for plot in plots)
    return f'<h2>{escaped(title)}</h2>\n<div class="plots">\n{drawn}</div>\n'


# -- the top ------------------------------------------------------------------------------------


def _head(result: Result) -> str:
    main = result.main
    others = ", ".join(scheme_name(one.scheme) for one in result.outcomes[1:])
    beside = f"Compared with {others} on the same phones and data. " if others else ""
    rounds = format_count(len(main.rounds), "round")
    about = (
        f"{beside}{rounds} in {format_duration(main.virtual_s)}; "
        f"stopped by: {main.ended}. Learner {main.learner}, seed {main.seed}. "
        "Energy is modelled, not measured; time is virtual."
    )
    return (
        f"<h1>{escaped(result.job)}</h1>\n"
        f'<p class="verdict">{escaped(verdict(main))}</p>\n'
        f'<p class="quiet">{escaped(about)}</p>\n'
        f'<div class="figures">\n{"".join(_figures(result))}</div>\n'
        f"<p>{escaped(radio_sentence(main))}</p>\n"
    )


def _figures(result: Result) -> list[str]:
    main, beside = result.main, result.against(_BASELINE)
    if beside is None and len(result.outcomes) > 1:
        beside = result.comparisons()[0]
    against = "no other scheme ran" if beside is None else f"than {scheme_name(beside.scheme)}"
    operating = (
        "" if beside is None else f"; without call overhead {format_saving(beside.operating_saved)}"
    )
    compute = format_saving(None if beside is None else beside.compute_saved)
    whole = format_saving(None if beside is None else beside.whole_saved)
    digest = ("equal", "good") if main.exact else ("NOT EQUAL", "bad")
    tested = "on held-out test examples" if main.quality is not None else "not measured"
    return [
        _figure(main.metric, format_quality(main.quality), tested),
        _figure("energy for computing", compute, against + operating, tag="modelled"),
        _figure("energy of whole devices", whole, against, tag="modelled"),
        _figure("digest and central training", digest[0], f"{main.digest[:16]}…", kind=digest[1]),
    ]


def _figure(name: str, value: str, words: str, *, tag: str = "", kind: str = "") -> str:
    label = f' <span class="tag">{escaped(tag)}</span>' if tag else ""
    return (
        f'<div class="box figure"><span class="quiet">{escaped(name)}</span>{label}'
        f'<strong class="{kind}">{escaped(value)}</strong>'
        f'<span class="quiet">{escaped(words)}</span></div>\n'
    )


# -- tables -------------------------------------------------------------------------------------


def _schemes(result: Result) -> str:
    head = [
        "scheme", result.main.metric, "examples learned", "forgotten", "wake-ups",
        "operations", "computing", "radio and waking", "whole devices (uncertainty)",
        "virtual time", "rounds", "digest",
    ]  # fmt: skip
    rows = [_scheme(one) for one in result.outcomes]
    return table("All schemes on the same phones and data; energy is modelled", head, rows)


def _scheme(outcome: Outcome) -> list[object]:
    energy = outcome.energy
    low_j, high_j = energy.band_j
    return [
        scheme_name(outcome.scheme),
        format_quality(outcome.quality),
        f"{outcome.learned:,}",
        f"{outcome.evicted:,}",
        f"{energy.wake_ups:,}",
        format_energy(energy.operating_j),
        format_energy(energy.compute_j),
        format_energy(energy.radio_j),
        f"{format_energy(energy.whole_j)} ({format_energy(low_j)} to {format_energy(high_j)})",
        format_duration(outcome.virtual_s),
        f"{len(outcome.rounds):,}",
        "equal" if outcome.exact else "NOT EQUAL",
    ]


def _participants(main: Outcome) -> str:
    everyone = sorted(main.participants, key=lambda one: -(one.compute_j + one.radio_j))
    shown = everyone[:_MOST_PARTICIPANTS]
    if len(shown) == len(everyone):
        shown = list(main.participants)  # in their original order if all are shown
    head = [
        "phone", "kind", "selected", "replied", "examples learned", "still held", "computing",
        "radio and waking", "battery left",
    ]  # fmt: skip
    whom = "" if len(shown) == len(everyone) else f", the {len(shown):,} with the most energy"
    caption = f"Work of each phone with {scheme_name(main.scheme)}{whom}; energy is modelled"
    rows = table(caption, head, [_participant(one) for one in shown], sortable=True)
    return details(f"All phones: {format_count(len(everyone), 'phone')}", rows)


def _participant(one: Participant) -> list[object]:
    return [
        one.name,
        one.device,
        one.selected,
        one.replied,
        one.learned,
        one.held,
        Cell(format_energy(one.compute_j), one.compute_j),
        Cell(format_energy(one.radio_j), one.radio_j),
        Cell(f"{one.battery:.1%}", one.battery),
    ]


def _settings(result: Result) -> str:
    if not result.settings:
        return ""
    return details("Settings of the job", f'<pre tabindex="0">{escaped(result.settings)}</pre>\n')


def _terms(result: Result) -> str:
    listed = "".join(
        f"<dt>{escaped(word)}</dt><dd>{escaped(meaning)}</dd>\n"
        for word, meaning in explain_terms(result.outcomes).items()
    )
    return f"<h2>Terms</h2>\n<dl>\n{listed}</dl>\n"
