"""Schemes, terms and sentences for people who do not know the paper."""

from __future__ import annotations

from collections.abc import Iterable

from dealfl.report.formats import format_count, format_quality
from dealfl.simulate import Outcome

__all__ = ["explain_terms", "radio_sentence", "scheme_name", "verdict"]

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


def scheme_name(scheme: str) -> str:
    """Return a scheme's name as people write it."""
    return _NAMES.get(scheme, scheme)


def explain_terms(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Return what the words on a page mean, those for the schemes shown first."""
    known = [one.scheme for one in outcomes if one.scheme in _SCHEMES]
    return {scheme_name(scheme): _SCHEMES[scheme] for scheme in known} | _TERMS


def verdict(main: Outcome) -> str:
    """Return in one sentence what came out."""
    reached = f", {main.metric} {format_quality(main.quality)}" if main.quality is not None else ""
    proof = (
        "its digest equals that of central training, bit for bit"
        if main.exact
        else "its digest is NOT that of central training, which is a bug"
    )
    return (
        f"{scheme_name(main.scheme)} learned {format_count(main.learned, 'example')} on "
        f"{format_count(main.workers, 'phone')}, forgot {main.evicted:,}{reached}; {proof}."
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
