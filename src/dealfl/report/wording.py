"""Numbers, names and sentences of reports, for readers who do not know the paper."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dealfl.runs import FAIR, Comparison, RunRecord
from dealfl.simulate import Outcome
from dealfl.worker import SCHEMES

_NOTHING = "–"
_SAME_SHARE = 0.005
_SCALES = ((1e6, "MJ"), (1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"))
_AGES = ((86_400.0, "days"), (3600.0, "h"), (60.0, "min"))


def format_count(count: int, noun: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> format_count(1, "phone"), format_count(1200, "phone")
    ('1 phone', '1,200 phones')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_number(figure: float | None) -> str:
    """Return a number with about three significant digits, never with an exponent.

    Examples
    --------
    >>> format_number(None), format_number(0.24817), format_number(1234.5)
    ('–', '0.248', '1,234')
    >>> format_number(22_503_901.0), format_number(0.0000867), format_number(0.0)
    ('22.5 million', '0.0001', '0')
    """
    if figure is None:
        return _NOTHING
    size = abs(figure)
    if size >= 1e6:
        return f"{figure / 1e6:,.1f} million"
    if size >= 100:
        return f"{figure:,.0f}"
    return f"{figure:.3g}" if size >= 0.01 else f"{figure:.4f}".rstrip("0").rstrip(".")


def format_quality(quality: float | None) -> str:
    """Return a quality with four decimals.

    Examples
    --------
    >>> format_quality(0.91), format_quality(None)
    ('0.9100', '–')
    """
    return _NOTHING if quality is None or not math.isfinite(quality) else f"{quality:.4f}"


def energy_scale(largest_j: float) -> tuple[float, str]:
    """Return a suitable unit for an energy: its size in joules, and its name."""
    fitting = (scale for scale in _SCALES if abs(largest_j) >= scale[0])
    return next(fitting, _SCALES[-1] if largest_j else (1.0, "J"))


def format_energy(energy_j: float) -> str:
    """Return an energy with three significant digits.

    Examples
    --------
    >>> format_energy(0.5734), format_energy(35.36), format_energy(0.0)
    ('573 mJ', '35.4 J', '0 J')
    """
    scale_j, unit = energy_scale(energy_j)
    value = energy_j / scale_j
    decimals = 0 if abs(value) >= 100 or not value else 1 if abs(value) >= 10 else 2
    return f"{value:,.{decimals}f} {unit}"


def format_duration(elapsed_s: float) -> str:
    """Return a duration.

    Examples
    --------
    >>> format_duration(0.0123), format_duration(0.84), format_duration(8.67e-8)
    ('12.3 ms', '0.84 s', '0 s')
    >>> format_duration(195.6), format_duration(7500.0)
    ('3 min 16 s', '2 h 5 min')
    """
    if elapsed_s < 0.00005:
        return "0 s"
    if elapsed_s < 0.1:
        return f"{1000.0 * elapsed_s:.1f} ms"
    if elapsed_s < 60.0:
        return f"{elapsed_s:.2f} s" if elapsed_s < 10.0 else f"{elapsed_s:.0f} s"
    minutes, seconds = divmod(round(elapsed_s), 60)
    hours, rest = divmod(minutes, 60)
    return f"{hours:,} h {rest} min" if hours else f"{minutes} min {seconds} s"


def format_age(seconds: float) -> str:
    """Return an approximate age.

    Examples
    --------
    >>> format_age(7.0), format_age(200.0), format_age(8000.0), format_age(200_000.0)
    ('7 s', '3 min', '2 h', '2 days')
    """
    for size, unit in _AGES:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def format_saving(saved: float | None) -> str:
    """Return a saved fraction as a percentage.

    Examples
    --------
    >>> format_saving(0.19), format_saving(-0.013), format_saving(None)
    ('19\\xa0% less', '1.3\\xa0% more', '–')
    """
    if saved is None:
        return _NOTHING
    size = 100.0 * abs(saved)
    shown = f"{size:.0f}" if size >= 10.0 else f"{size:.1f}"
    return f"{shown}\u00a0% {'less' if saved >= 0.0 else 'more'}"


# -- names and sentences ------------------------------------------------------------------------

_TERMS = {
    "Round": "The server wakes some phones. Each phone learns its new examples and sends the "
    "change of its statistics, never the examples. A round closes when more than half of the "
    "phones have replied (majority), or when its time is over (time to live). If all its phones "
    "sleep, it closes at once (booked): their assignments wait until they call.",
    "Learned and forgotten": "Examples added to the model, and examples removed from it.",
    "Digest": "A hash of all numbers in the model. Central training means that one computer "
    "learns all examples that the phones still hold. Equal digests prove that no trace of a "
    "forgotten example remains and that no other example is lost.",
    "Modelled": "Computed from the work and from the power of such phones; not measured.",
    "Computing, whole device": "Computing is the processor's work to learn and to forget. The "
    "whole device adds waking up and the radio, which stays on for a while after the last byte.",
    "Operations": "The part of computing that is proportional to the work. The rest is a fixed "
    "overhead per call.",
    "Uncertainty": "The computing speed of a phone is known to a factor of about three. The range "
    "gives the total energy if phones are three times as fast or as slow as assumed.",
    "Virtual": "Time on the simulated phones, not the duration of this run.",
    "Slower clock": "A processor without a deadline runs at a lower frequency with less energy.",
}


def scheme_name(scheme: str) -> str:
    """Return the name of a scheme for display."""
    return SCHEMES[scheme].label if scheme in SCHEMES else scheme


def explain_terms(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Return explanations of the schemes shown and of all terms."""
    schemes = [SCHEMES[outcome.scheme] for outcome in outcomes if outcome.scheme in SCHEMES]
    explained = {scheme.label: scheme.explanation for scheme in schemes if scheme.explanation}
    return explained | _TERMS


def verdict(main: Outcome) -> str:
    """Return the result in one sentence."""
    reached = f", {main.metric} {format_quality(main.quality)}" if main.quality is not None else ""
    proof = (
        "the digest equals that of central training"
        if main.exact
        else "the digest DIFFERS from that of central training: this is a bug"
    )
    return (
        f"{scheme_name(main.scheme)} learned {format_count(main.learned, 'example')} on "
        f"{format_count(main.workers, 'phone')}, forgot {main.evicted:,}{reached}; {proof}."
    )


def reference_sentence(main: Outcome, central: float | None) -> str:
    """Return what the quality is to be compared with, and the noise of the test set."""
    if main.quality is None:
        return ""
    exact = "" if central is None else f", all examples on one computer {format_quality(central)}"
    return (
        f"{main.metric[:1].upper()}{main.metric[1:]} {format_quality(main.quality)} "
        f"± {1.96 * main.quality_error:.4f} ({main.tested:,} test examples); "
        f"{main.trivial.name} {format_quality(main.trivial.quality)}{exact}."
    )


def fair_sentence(result: RunRecord) -> str:
    """Return the energy beside that of the fair baseline at equal delay; empty without one."""
    main = result.main
    if not result.curve or main.delays is None:
        return ""
    own = f"{format_energy(main.example_j)} an example"
    fair = f"a fair baseline ({FAIR}, uniform; it sleeps and waits for examples, too)"
    delay = format_duration(main.delays.mean_s)
    if result.fair_j is None:
        return (
            f"Energy (modelled): {own}. None of the thresholds of {fair}\n  has the same mean "
            f"delay, {delay}, and learns as many examples."
        )
    saved = format_saving(1.0 - main.example_j / result.fair_j)
    return (
        f"Energy (modelled): {own}; {fair}\n  needs {format_energy(result.fair_j)} at the same "
        f"mean delay, {delay}: {saved}."
    )


def change_sentence(result: RunRecord) -> str:
    """Return how long each system needs after a change of the world; empty without one."""
    main = result.main
    if not main.changed_at_s:
        return ""

    def describe(outcome: Outcome) -> str:
        name = scheme_name(outcome.scheme)
        if outcome.recovery_s is None:
            left = format_age(max(outcome.virtual_s - outcome.changed_at_s, 0.0))
            return f"{name} not within {left}"
        return f"{name} after {format_duration(outcome.recovery_s)}"

    return (
        f"The world changed after {format_duration(main.changed_at_s)}. Within 3 points of the "
        f"{main.metric} before it:\n  {'; '.join(map(describe, result.outcomes))}."
    )


COMPARISON = ("beside", "whole devices", "quality", "saved most by", "loses in")


def compare_rows(result: RunRecord) -> list[list[str]]:
    """Return what the job's system saves beside each other one, and where it loses (modelled)."""
    return [_compare_row(result, beside) for beside in result.comparisons()]


def _compare_row(result: RunRecord, beside: Comparison) -> list[str]:
    main = result.main
    other = next(outcome for outcome in result.outcomes if outcome.scheme == beside.scheme)
    energy = format_saving(beside.whole_saved)
    if beside.whole_saved is None:
        energy = f"computing {format_saving(beside.compute_saved)}"
    points = _NOTHING
    if beside.quality_points is not None:
        points = f"{round(beside.quality_points, 1) + 0.0:+.1f} points"  # no −0.0
        points += " (noise)" if beside.is_noise else ""
    lever, most_j = max(beside.levers_j.items(), key=lambda pair: pair[1], default=("", 0.0))
    saved = f"{lever} {format_energy(most_j)}" if most_j > 0 else _NOTHING
    losses = _losses(main, other, beside) or _NOTHING
    return [f"{beside.scheme}, {other.selector}", energy, points, saved, losses]


def _losses(main: Outcome, other: Outcome, beside: Comparison) -> str:
    """Return where the job's system is worse than another one."""
    levers = ((lever.split()[-1], j) for lever, j in beside.levers_j.items())
    lost = [f"{what} {format_energy(-j)}" for what, j in levers if j < 0]
    if main.median_delay_s and other.median_delay_s and main.median_delay_s > other.median_delay_s:
        lost.append("median delay")
    if main.least_share < other.least_share - _SAME_SHARE:
        lost.append("least share of rounds")
    if main.learned < other.learned:
        lost.append("examples learned")
    if (beside.quality_points or 0.0) < 0.0 and not beside.is_noise:
        lost.append(main.metric)
    return ", ".join(lost)


def radio_sentence(main: Outcome) -> str:
    """Return a sentence on the radio's share of the energy."""
    energy = main.energy
    if not energy.whole_j:
        return "No energy was spent."
    if not energy.radio_j:
        return "These devices have no radio model: all energy is computing."
    share = 100.0 * energy.radio_j / energy.whole_j
    return (
        f"{share:.0f} % of the energy is radio and waking up, so waking devices less often saves "
        f"{'more' if share > 50.0 else 'less'} than computing less."
    )


_MEND = {  # by what most bursts without a training are for
    "announcement": "set job.sleep = true, so that phones call when a call is worth a burst",
    "keep-alive": "set job.sleep = true, so that no connection is kept alive",
    "handshake": "raise job.min_waiting: phones call, and find no place in a round",
    "model": 'set radio.fetch = "calls", so that a call brings the newest version',
    "receipt": "lower job.ttl_s or raise job.min_waiting: receipts come after the burst",
    "retry": "raise job.retry_after_s: updates are sent again before their receipt can come",
}


def burst_sentence(main: Outcome) -> str:
    """Return which key would mend bursts without a training, if most are; empty if few are."""
    bursts = main.energy.bursts
    others = {cause: count for cause, count in bursts.items() if cause != "training"}
    if 2 * sum(others.values()) <= sum(bursts.values()):
        return ""
    cause = max(others, key=lambda cause: others[cause])
    mend = _MEND.get(cause, "raise job.min_waiting, so that each call brings more")
    return (
        f"{sum(others.values()):,} of {sum(bursts.values()):,} bursts carried no training, most of "
        f"them for {cause}: {mend}."
    )


def radios_sentence(main: Outcome) -> str:
    """Return what phones of each radio learned, and how evenly; empty if there is only one."""
    radios = sorted({phone.radio for phone in main.participants if phone.radio}, reverse=True)
    if len(radios) < 2:
        return ""
    parts = []
    for radio in radios:
        phones = [phone for phone in main.participants if phone.radio == radio]
        learned = sum(phone.learned for phone in phones)
        waits = sum(phone.learned * (phone.delay_s or 0.0) for phone in phones) / max(learned, 1)
        parts.append(
            f"{radio} ({format_count(len(phones), 'phone')}) "
            f"{learned / max(main.learned, 1):.0%} of the examples, "
            f"after {format_duration(waits)} on average"
        )
    learned_by = [phone.learned for phone in main.participants]
    least = min(learned_by) * len(learned_by) / max(main.learned, 1)
    return (
        f"By radio: {'; '.join(parts)}. Jain's index of the selections is {main.jain:.2f}; the "
        f"phone that learned least learned {least:.2f} of the mean."
    )


def clock_sentence(main: Outcome) -> str:
    """Return which fixed clocks dominate those that the phones had; empty if none does."""
    listed = ", ".join(
        f"{name} at {mhz:,.0f} MHz ({format_saving(saved)})"
        for name, (mhz, saved) in main.energy.better_clocks.items()
    )
    words = f"A fixed clock computes the same work as fast with less energy (modelled): {listed}."
    return words if listed else ""


def exposure_sentence(main: Outcome) -> str:
    """Return how many updates showed the server a single example; empty if none did."""
    words = (
        f"{main.single_updates:,} of {format_count(main.updates, 'update')} held one example: the "
        "server can compute the example from such an update (min_examples_per_update)."
    )
    return words if main.single_updates else ""
