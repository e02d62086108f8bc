"""Text summaries of results and sweeps for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

from dealfl.escaping import for_terminal
from dealfl.report.wording import (
    COMPARISON,
    burst_sentence,
    change_sentence,
    clock_sentence,
    compare_rows,
    exposure_sentence,
    fair_sentence,
    format_count,
    format_duration,
    format_energy,
    format_number,
    format_quality,
    radios_sentence,
    reference_sentence,
    scheme_name,
)
from dealfl.runs import Ablation, RunRecord
from dealfl.simulate import Estimate, Outcome, Setting


def summarize(result: RunRecord) -> str:
    """Return a text summary: a table of schemes, the energy saved, and the check of digests."""
    main = result.main
    head = (
        f"{for_terminal(result.job)}: {format_count(main.workers, 'worker')}, "
        f"{format_count(len(main.rounds), 'round')}, {format_count(main.learned, 'example')} "
        f"learned, {main.evicted:,} forgotten ({main.scheme})"
    )
    reference = reference_sentence(main, result.central)
    parts = [
        head,
        "\n".join(filter(None, [fair_sentence(result), change_sentence(result)])),
        _compare(result),
        _table(result),
        radios_sentence(main),
        _forgetness(main),
        reference,
        *_warnings(main),
        _verdict(result),
        _forgotten(result),
    ]
    return "\n\n".join(part for part in parts if part)


def _forgetness(main: Outcome) -> str:
    """Return how much was forgotten by policy, and how much of it was learned again."""
    fractions = [participant.forget_fraction for participant in main.participants]
    if not main.evicted or not fractions:
        return ""
    low, mean, high = min(fractions), fmean(fractions), max(fractions)
    between = "" if low == high else f" ({low:.3g} to {high:.3g})"
    return (
        f"Level of forgetness: {main.level_of_forgetness:.3f} forgotten per learned example; "
        f"{main.recovered:,} recovered, θ now {mean:.3g} on average{between}."
    )


def _table(result: RunRecord) -> str:
    columns = [[*_ROWS], *(_column(outcome) for outcome in result.outcomes)]
    columns[0][4] = result.main.metric
    titles = ["", *(outcome.scheme for outcome in result.outcomes)]
    widths = [
        max(len(text) for text in [title, *column])
        for title, column in zip(titles, columns, strict=True)
    ]
    lines = [titles, *zip(*columns, strict=True)]
    return "\n".join(
        "  ".join(
            text.ljust(width) if index == 0 else text.rjust(width)
            for index, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


_ROWS = (
    "selector",
    "candidates for a place",
    "whole devices, modelled",
    "battery per phone and day",
    "quality",
    "energy per example, modelled",
    "median delay of an example",
    "  mean; 90th percentile",
    "least selected, of rounds",
    "bursts of the radio",
    "  without a training",
    "wake-ups",
    "examples learned",
    "examples forgotten",
    "computing, modelled",
    "  operations alone",
    "  reviews of evictions",
    "rounds, virtual time",
    "digest = central training",
)


def _column(outcome: Outcome) -> list[str]:
    energy, delay_s, daily = outcome.energy, outcome.median_delay_s, outcome.battery_per_day
    bursts = sum(energy.bursts.values())
    return [
        outcome.selector,
        f"{outcome.candidates_per_place:.1f}",
        format_energy(energy.whole_j),
        "–" if daily is None else f"{daily:.3%}",
        format_quality(outcome.quality),
        format_energy(outcome.example_j),
        "–" if delay_s is None else format_duration(delay_s),
        _format_delays(outcome),
        f"{outcome.least_share:.1%}",
        f"{bursts:,}",
        f"{bursts - energy.bursts.get('training', 0):,}",
        f"{energy.wake_ups:,}",
        f"{outcome.learned:,}",
        f"{outcome.evicted:,}",
        format_energy(energy.compute_j),
        format_energy(energy.operating_j),
        format_energy(energy.review_j),
        format_duration(outcome.virtual_s),
        "yes" if outcome.exact else "NO",
    ]


def _format_delays(outcome: Outcome) -> str:
    delays = outcome.delays
    return f"{delays.mean_s / 3600:.1f}, {delays.p90_s / 3600:.1f} h" if delays else "–"


def _warnings(main: Outcome) -> list[str]:
    warnings = []
    if main.quarantined:
        warnings.append(
            f"{main.quarantined:,} examples are not valid and were skipped; "
            f"the first: {main.first_quarantined}."
        )
    warnings += [f"Skipped: {note}." for note in main.notes]
    warnings += filter(None, [burst_sentence(main), clock_sentence(main), exposure_sentence(main)])
    if main.unmet_guarantees is not None:
        warnings.append(f"Some fairness guarantees cannot be met: {main.unmet_guarantees}.")
    return warnings


def _compare(result: RunRecord) -> str:
    rows = compare_rows(result)
    if not rows:
        return ""
    head = [f"{scheme_name(result.main.scheme)} {COMPARISON[0]}", *COMPARISON[1:]]
    head[2] = result.main.metric
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _verdict(result: RunRecord) -> str:
    if result.exact:
        digest = result.main.digest[:16]
        base = f"\n(plus {result.started_from})" if result.started_from else ""
        return (
            f"The server's digest {digest}… equals that of central training on the\n"
            f"examples that the workers still hold{base}: no trace of a forgotten example remains."
        )
    wrong = ", ".join(outcome.scheme for outcome in result.outcomes if not outcome.exact)
    return f"NOT EXACT: {wrong}. This is a bug; please report it with the job file."


def _forgotten(result: RunRecord) -> str:
    """Return both digests of the model that forgot a person, one below the other."""
    forgotten = result.forgotten
    if forgotten is None:
        return ""
    equal = "equal" if forgotten.exact else "NOT EQUAL: this is a bug; please report it"
    return (
        f"Person {for_terminal(forgotten.person)} is forgotten on request "
        f"({format_count(forgotten.examples, 'example')}):\n"
        f"  the model forgot the person     {forgotten.digest[:32]}…\n"
        f"  training that never saw them    {forgotten.never_saw_digest[:32]}…  {equal}\n"
        f"  certificate                     {for_terminal(forgotten.certificate)}"
    )


# -- sweeps -------------------------------------------------------------------------------------


_ABLATION_HEAD = (
    "",
    "J",
    "mJ an example",
    "mean, p90 delay h",
    "learned",
    "quality",
    "of the fair baseline",
    "of the riding one",
)


def summarize_ablation(ablation: Ablation) -> str:
    """Return a table of the systems of an ablation."""
    rows = [list(_ABLATION_HEAD)]
    for system in ablation.systems:
        times = (system.delay_s, system.p90_delay_s)
        rows.append(
            [
                system.system,
                f"{system.energy_j:,.1f}",
                f"{1e3 * system.example_j:,.1f}",
                ", ".join("–" if time_s is None else f"{time_s / 3600:.2f}" for time_s in times),
                f"{system.learned:,}",
                format_quality(system.quality),
                *("–" if s is None else f"{s:.0%}" for s in (system.of_fair, system.of_riding)),
            ]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = "\n".join(
        "  ".join(
            text.rjust(width) if index else text.ljust(width)
            for index, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
    waits = ", ".join(str(point.waiting) for point in ablation.curve)
    return (
        f"{for_terminal(ablation.job)}: what each lever saves. Energy is that of whole devices, "
        f"modelled.\n\n{table}\n\nThe last columns compare joules per learned example at equal "
        f"mean delay, along baselines that wait\nfor {waits} examples; – where none of them has "
        "that delay, or learned over 2 % more examples."
    )


def summarize_sweep(settings: Sequence[Setting]) -> str:
    """Return a text summary of a sweep: one table of its settings, with the check of digests."""
    first = settings[0].outcomes[0]
    title = f"{for_terminal(first.job)}: {first.workers} workers"
    if len(settings[0].outcomes) > 1:
        seeds = len(settings[0].outcomes)
        title += f"; mean over {seeds} seeds ± half of the 95 % confidence interval"
    table = _measures(settings[0]) if len(settings) == 1 else _settings_table(settings)
    outcomes = [outcome for setting in settings for outcome in setting.outcomes]
    return "\n".join([title, *table, _digests(outcomes)])


def _settings_table(settings: Sequence[Setting]) -> list[str]:
    """Return a line for each setting, and one for its difference to the first, paired by seed."""
    first, *others = settings
    metric = first.outcomes[0].metric
    names = [name for name in (metric, *_COMPARED) if all(name in s.estimates() for s in settings)]
    rows = [
        ["", *(_MEASURES.get(name, name).strip() for name in names)],
        _setting_row(first, names),
    ]
    for setting in others:
        found = setting.differences(first)
        cells = [_format_difference(name, found.get(name), metric) for name in names]
        rows += [_setting_row(setting, names), ["  minus the first", *cells]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [map(str.ljust, row, widths) for row in rows]
    more = [
        "Differences are paired: each is the mean of the differences of simulations with the same"
    ]
    more += ["seed. --json prints all measures."]
    return [*("  ".join(["", *cells]).rstrip() for cells in lines), *more]


def _setting_row(setting: Setting, names: Sequence[str]) -> list[str]:
    label = ", ".join(f"{key} = {value}" for key, value in setting.values.items())
    estimates, metric = setting.estimates(), setting.outcomes[0].metric
    cells = [_format_estimate(name, estimates[name], metric) for name in names]
    return [for_terminal(label), *cells]


def _measures(setting: Setting) -> list[str]:
    """Return a line for each measure of a setting."""
    first = setting.outcomes[0]
    rows = [
        (_MEASURES.get(name, name), _format_estimate(name, estimate, first.metric))
        for name, estimate in setting.estimates().items()
    ]
    rows.append(
        ("stopped by", ", ".join(dict.fromkeys(outcome.ended for outcome in setting.outcomes)))
    )
    over = next(
        (outcome.unmet_guarantees for outcome in setting.outcomes if outcome.unmet_guarantees), None
    )
    rows += [] if over is None else [("fairness not met", str(over))]
    if setting.values:
        named = ", ".join(f"{key} = {value}" for key, value in setting.values.items())
        rows.insert(0, ("setting", for_terminal(named)))
    width = max(len(name) for name, _ in rows)
    return [f"  {name.ljust(width)}  {text}" for name, text in rows]


_COMPARED = ("energy_j", "radio_j", "wake-ups", "examples learned", "median_delay_s")


_MEASURES = {
    "energy_j": "energy, modelled",
    "compute_j": "  computing",
    "radio_j": "  radio",
    "median_delay_s": "median delay",
    "mean_delay_s": "mean delay",
    "p90_delay_s": "delay, 90 % are below",
    "virtual_s": "virtual time",
}


def _form(name: str, metric: str) -> Callable[[float], str]:
    """Return how the values of a measure are written."""
    if name.endswith("_j"):
        return format_energy
    if name.endswith("_s"):
        return format_duration
    return format_quality if name == metric else format_number


def _format_estimate(name: str, estimate: Estimate, metric: str) -> str:
    form = _form(name, metric)
    spread = "" if estimate.half_width is None else f" ± {form(estimate.half_width)}"
    return form(estimate.mean) + spread


def _format_difference(name: str, estimate: Estimate | None, metric: str) -> str:
    if estimate is None:
        return "–"
    sign = "−" if estimate.mean < 0 else "+"
    return sign + _format_estimate(name, replace(estimate, mean=abs(estimate.mean)), metric)


def _digests(outcomes: Sequence[Outcome]) -> str:
    wrong = [str(outcome.seed) for outcome in outcomes if not outcome.exact]
    if wrong:
        return (
            f"NOT EXACT with seed {', '.join(wrong)}: the server's digest differs from that of "
            "central training.\nThis is a bug; please report it with the file and the seed."
        )
    if len(outcomes) > 1:
        return (
            f"Each of the {len(outcomes)} digests equals that of central training on the examples\n"
            "that the workers still hold."
        )
    return (
        f"The server's digest {outcomes[0].digest[:16]}… equals that of central training on the\n"
        "examples that the workers still hold."
    )
