"""The HTML report of a run: one file, for readers who do not know the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dealfl.errors import unknown_name
from dealfl.escaping import for_html
from dealfl.pages import Cell, details, draw, page, plot_section, table
from dealfl.report.plots import energy_plots, phone_plots, round_plots
from dealfl.report.wording import (
    COMPARISON,
    burst_sentence,
    change_sentence,
    clock_sentence,
    compare_rows,
    explain_terms,
    exposure_sentence,
    fair_sentence,
    format_count,
    format_duration,
    format_energy,
    format_quality,
    format_saving,
    radio_sentence,
    radios_sentence,
    scheme_name,
    verdict,
)
from dealfl.runs import Forgotten, RunRecord
from dealfl.simulate import Outcome, Participant
from dealfl.storage import replace_file

_PLOTS = {
    "Round by round": (round_plots, ("quality", "examples", "durations", "replies")),
    "Energy": (energy_plots, ("compute_energy", "whole_energy", "energy_causes", "savings")),
    "Phones": (phone_plots, ("wake_ups", "selected", "phone_energy", "battery")),
}

_MOST_PARTICIPANTS = 1000
_BASELINE = "original"


def write_page(result: RunRecord, path: str | Path) -> None:
    """Write the HTML report of a run, atomically; the page needs no network."""
    parts = report_sections(result)
    order = ("summary", "forgotten", *_PLOTS, "schemes")
    body = "".join(parts[name] for name in order)
    body += "<h2>Details</h2>\n" + parts["participants"] + parts["settings"] + parts["terms"]
    replace_file(path, page(result.job, body))


def report_sections(result: RunRecord) -> dict[str, str]:
    """Return the sections of a report as HTML, by name; those of plots have their titles."""
    return {
        "summary": _head(result),
        "forgotten": _forgotten(result.forgotten),
        **{title: _section(title, result) for title in _PLOTS},
        "schemes": f"<h2>All schemes</h2>\n{_schemes(result)}",
        "participants": _participants(result.main),
        "settings": _settings(result),
        "terms": _terms(result),
    }


def _section(title: str, result: RunRecord) -> str:
    drawn = "".join(plot_section(plot) for plot in _PLOTS[title][0](result))
    return f'<h2>{for_html(title)}</h2>\n<div class="plots">\n{drawn}</div>\n'


def plot_names() -> tuple[str, ...]:
    """Return the names of all plots, in the order of the page.

    Examples
    --------
    >>> plot_names()[:2]
    ('quality', 'examples')
    """
    return tuple(name for _, names in _PLOTS.values() for name in names)


def draw_plot(result: RunRecord, name: str) -> Any:  # noqa: ANN401 - plotly is optional
    """Return a plot of a result."""
    for make, names in _PLOTS.values():
        if name in names:
            return draw(make(result)[names.index(name)])
    raise unknown_name("plot", name, plot_names())


# -- the top ------------------------------------------------------------------------------------


def _head(result: RunRecord) -> str:
    main = result.main
    others = ", ".join(scheme_name(outcome.scheme) for outcome in result.outcomes[1:])
    beside = f"Compared with {others} on the same phones and data. " if others else ""
    rounds = format_count(len(main.rounds), "round")
    about = (
        f"{beside}{rounds} in {format_duration(main.virtual_s)}; "
        f"stopped by: {main.ended}. Learner {main.learner}, seed {main.seed}. "
        "Energy is modelled, not measured; time is virtual."
    )
    return (
        f"<h1>{for_html(result.job)}</h1>\n"
        f'<p class="verdict">{for_html(verdict(main))}</p>\n'
        f'<p class="quiet">{for_html(about)}</p>\n'
        f'<div class="figures">\n{"".join(_figures(result))}</div>\n'
        f"{_sentences(result)}"
    )


def _sentences(result: RunRecord) -> str:
    main = result.main
    described = [fair_sentence(result), change_sentence(result)]
    described += [radio_sentence(main), radios_sentence(main), burst_sentence(main)]
    described += [clock_sentence(main), exposure_sentence(main)]
    sentences = "".join(f"<p>{for_html(words)}</p>\n" for words in described if words)
    rows = compare_rows(result)
    if not rows:
        return sentences
    head = [COMPARISON[0], COMPARISON[1], main.metric, *COMPARISON[3:]]
    title = f"{scheme_name(main.scheme)} beside other systems; energy is modelled"
    return sentences + table(title, head, rows)


def _figures(result: RunRecord) -> list[str]:
    main, beside = result.main, result.against(_BASELINE)
    if beside is None and len(result.outcomes) > 1:
        beside = result.comparisons()[0]
    whole, against = format_energy(main.energy.whole_j), "all phones, the whole run"
    if beside is not None and beside.whole_saved is not None:
        whole, against = format_saving(beside.whole_saved), f"than {scheme_name(beside.scheme)}"
    if result.fair_j is not None:
        whole = format_saving(1.0 - main.example_j / result.fair_j)
        against = "for an example, than a fair baseline at the same mean delay"
    daily, delay_s = main.battery_per_day, main.median_delay_s
    digest = ("equal", "good") if main.exact else ("NOT EQUAL", "bad")
    noise = f"± {1.96 * main.quality_error:.4f}; {main.trivial.name} {main.trivial.quality:.4f}"
    return [
        _figure("energy of whole devices", whole, against, tag="modelled"),
        _figure(
            "battery per phone and day",
            "–" if daily is None else f"{daily:.3%}",
            f"{main.candidates_per_place:.1f} candidates for a place; "
            f"least selected in {main.least_share:.1%} of the rounds",
            tag="modelled",
        ),
        _figure(
            "median delay of an example",
            "–" if delay_s is None else format_duration(delay_s),
            "from its arrival until its update leaves",
        ),
        _figure(main.metric, format_quality(main.quality), noise if main.quality else "not tested"),
        _figure("digest and central training", digest[0], f"{main.digest[:16]}…", kind=digest[1]),
    ]


def _figure(name: str, value: str, words: str, *, tag: str = "", kind: str = "") -> str:
    label = f' <span class="tag">{for_html(tag)}</span>' if tag else ""
    return (
        f'<div class="box figure"><span class="quiet">{for_html(name)}</span>{label}'
        f'<strong class="{kind}">{for_html(value)}</strong>'
        f'<span class="quiet">{for_html(words)}</span></div>\n'
    )


def _forgotten(forgotten: Forgotten | None) -> str:
    """Return the section about the person who was erased at the end."""
    if forgotten is None:
        return ""
    rows = [
        ["the model forgot the person", f"{forgotten.digest[:32]}…"],
        ["training that never saw the person", f"{forgotten.never_saw_digest[:32]}…"],
        ["both digests", "equal" if forgotten.exact else "NOT EQUAL"],
        ["certificate", forgotten.certificate],
    ]
    caption = (
        "One person is forgotten on request: "
        f"{format_count(forgotten.examples, 'example')} deleted from all workers"
    )
    return f"<h2>One person was forgotten</h2>\n{table(caption, ['', ''], rows)}"


# -- tables -------------------------------------------------------------------------------------


def _schemes(result: RunRecord) -> str:
    head = [
        "scheme",
        result.main.metric,
        "examples learned",
        "forgotten",
        "wake-ups",
        "operations",
        "computing",
        "radio and waking",
        "whole devices (uncertainty)",
        "virtual time",
        "rounds",
        "digest",
    ]
    rows = [_scheme(outcome) for outcome in result.outcomes]
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
    everyone = sorted(
        main.participants, key=lambda participant: -(participant.compute_j + participant.radio_j)
    )
    shown = everyone[:_MOST_PARTICIPANTS]
    if len(shown) == len(everyone):
        shown = list(main.participants)  # in their original order if all are shown
    head = [
        "phone",
        "kind",
        "selected",
        "replied",
        "examples learned",
        "still held",
        "computing",
        "radio and waking",
        "battery left",
    ]
    whom = "" if len(shown) == len(everyone) else f", the {len(shown):,} with the most energy"
    caption = f"Work of each phone with {scheme_name(main.scheme)}{whom}; energy is modelled"
    rows = table(caption, head, [_participant(participant) for participant in shown], sortable=True)
    return details(f"All phones: {format_count(len(everyone), 'phone')}", rows)


def _participant(participant: Participant) -> list[object]:
    return [
        participant.name,
        participant.device,
        participant.selected,
        participant.replied,
        participant.learned,
        participant.held,
        Cell(format_energy(participant.compute_j), participant.compute_j),
        Cell(format_energy(participant.radio_j), participant.radio_j),
        Cell(f"{participant.battery:.1%}", participant.battery),
    ]


def _settings(result: RunRecord) -> str:
    if not result.settings:
        return ""
    return details("Settings of the job", f'<pre tabindex="0">{for_html(result.settings)}</pre>\n')


def _terms(result: RunRecord) -> str:
    listed = "".join(
        f"<dt>{for_html(word)}</dt><dd>{for_html(meaning)}</dd>\n"
        for word, meaning in explain_terms(result.outcomes).items()
    )
    return f"<h2>Terms</h2>\n<dl>\n{listed}</dl>\n"
