"""Figures and schemes in words for people who do not know the paper."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dealfl.simulate import Outcome

__all__ = [
    "NO_FIGURE", "counted", "duration", "energy_scale", "joules", "labels", "less", "quality_text",
    "radio_sentence", "scheme_name", "terms", "verdict",
]  # fmt: skip

NO_FIGURE = "–"

_NAMES = {"deal": "DEAL", "original": "Original", "newfl": "NewFL", "incremental": "Incremental"}
_SCHEMES = {
    "deal": "A phone learns only what is new and forgets a small share of what is old each time; "
    "forgetting is exact, so nothing has to be trained again.",
    "original": "A phone keeps everything and trains on all of it from scratch each time.",
    "newfl": "A phone keeps only its newest examples and trains on them from scratch each time.",
    "incremental": "A phone keeps everything, and learns only what is new.",
}
_TERMS = {
    "Round": "The server wakes some phones; each learns what it has gathered and sends what "
    "changed, never the examples themselves. A round closes when more than half of the phones "
    "have replied (majority), or when its time is up (time to live).",
    "Learned and forgotten": "Examples that went into the model, and examples whose influence was "
    "taken out of it again.",
    "Digest": "A fingerprint of all numbers in the model. Central training means one computer "
    "that learns at once all examples which the phones still hold. Equal digests prove that "
    "nothing is left of what was forgotten, and that nothing else was lost.",
    "Modelled": "Computed from the work done and from the power that phones of this kind draw; "
    "not measured with a meter.",
    "Computing alone, whole device": "Computing is the processor's work for learning and "
    "forgetting. The whole device adds waking up and the radio, with the time it stays on "
    "after the last byte.",
    "Operations alone": "The part of computing that grows with the work. The rest is what every "
    "call takes, however little it does.",
    "Band": "How fast a phone computes is known to a factor of about three. The band tells the "
    "whole energy if phones were three times as fast, or three times as slow, as assumed.",
    "Virtual": "Time as the simulated phones would have spent it, not the time this run took.",
    "Slower clock": "A processor that need not hurry runs at a lower frequency and draws less.",
}
_SCALES = ((1e6, "MJ"), (1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"))
_LONGEST_LABEL = 22


def scheme_name(scheme: str) -> str:
    """Return a scheme's name as people write it."""
    return _NAMES.get(scheme, scheme)


def terms(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Return what the words on a page mean, those for the schemes shown first."""
    known = [one.scheme for one in outcomes if one.scheme in _SCHEMES]
    return {scheme_name(scheme): _SCHEMES[scheme] for scheme in known} | _TERMS


def counted(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "phone"), counted(1200, "phone")
    ('1 phone', '1,200 phones')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def energy_scale(largest_j: float) -> tuple[float, str]:
    """Return the unit in which an energy is easy to read, in joules and by name."""
    fitting = (scale for scale in _SCALES if abs(largest_j) >= scale[0])
    return next(fitting, _SCALES[-1] if largest_j else (1.0, "J"))


def joules(energy_j: float) -> str:
    """Return an energy for people.

    >>> joules(0.5734), joules(35.36), joules(0.0)
    ('573 mJ', '35.4 J', '0.00 J')
    """
    scale_j, unit = energy_scale(energy_j)
    value = energy_j / scale_j
    decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{decimals}f} {unit}"


def duration(elapsed_s: float) -> str:
    """Return a time for people.

    >>> duration(0.84), duration(195.6), duration(7500.0)
    ('0.84 s', '3 min 16 s', '2 h 5 min')
    """
    if elapsed_s < 60.0:
        return f"{elapsed_s:.2f} s" if elapsed_s < 10.0 else f"{elapsed_s:.0f} s"
    minutes, seconds = divmod(round(elapsed_s), 60)
    hours, rest = divmod(minutes, 60)
    return f"{hours:,} h {rest} min" if hours else f"{minutes} min {seconds} s"


def quality_text(quality: float | None) -> str:
    """Return a quality, or a dash if there is none."""
    return NO_FIGURE if quality is None or not math.isfinite(quality) else f"{quality:.3f}"


def less(saved: float | None) -> str:
    """Return a fraction saved for people.

    >>> less(0.19), less(-0.013), less(None)
    ('19\\xa0% less', '1.3\\xa0% more', '–')
    """
    if saved is None:
        return NO_FIGURE
    size = 100.0 * abs(saved)
    shown = f"{size:.0f}" if size >= 10.0 else f"{size:.1f}"  # its unit stays on the same line
    return f"{shown}\u00a0% {'less' if saved >= 0.0 else 'more'}"


def verdict(main: Outcome) -> str:
    """Return in one sentence what came out."""
    reached = f", {main.metric} {quality_text(main.quality)}" if main.quality is not None else ""
    proof = (
        "its digest equals that of central training, bit for bit"
        if main.exact
        else "its digest is NOT that of central training, which is a bug"
    )
    return (
        f"{scheme_name(main.scheme)} learned {counted(main.learned, 'example')} on "
        f"{counted(main.workers, 'phone')}, forgot {main.evicted:,}{reached}; {proof}."
    )


def radio_sentence(main: Outcome) -> str:
    """Return the radio's share in words."""
    energy = main.energy
    if not energy.whole_j:
        return "No energy was spent."
    if not energy.radio_j:
        return "No radio is modelled for these devices: all they spent went into computing."
    share = 100.0 * energy.radio_j / energy.whole_j
    return (
        f"{share:.0f} % of what the devices spent in a round is radio and waking, not computing: "
        "fewer and fuller wake-ups save the most."
    )


def labels(names: Iterable[str]) -> dict[str, str]:
    """Return for each name a short one for plots; no two are the same.

    >>> labels(["a phone whose name is very long indeed", "mi"])
    {'a phone whose name is very long indeed': 'a phone whose name is…', 'mi': 'mi'}
    """
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        short = name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…"
        found[name] = f"{short} ({len(found) + 1})" if short in found.values() else short
    return found
