"""Names, terms and sentences of the report, for readers who do not know the paper."""

from __future__ import annotations

from collections.abc import Iterable

from dealfl.report.formats import format_count, format_quality
from dealfl.simulate import Outcome

__all__ = ["explain_terms", "radio_sentence", "scheme_name", "verdict"]

_NAMES = {"deal": "DEAL", "original": "Original", "newfl": "NewFL", "incremental": "Incremental"}
_SCHEMES = {
    "deal": "A phone learns only its new examples and forgets a small fraction of its old ones in "
    "each training. Forgetting is exact, so no model is trained again from scratch.",
    "original": "A phone keeps all examples and trains on all of them from scratch each time.",
    "newfl": "A phone keeps only its newest examples and trains on them from scratch each time.",
    "incremental": "A phone keeps all examples and learns only the new ones.",
}
_TERMS = {
    "Round": "The server wakes some phones. Each phone learns its new examples and sends the "
    "change of its statistics, never the examples. A round closes when more than half of the "
    "phones have replied (majority), or when its time is over (time to live).",
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
    "Slower clock": "A processor without a deadline runs at a lower frequency and needs less "
    "energy.",
}


def scheme_name(scheme: str) -> str:
    """Return the name of a scheme for display."""
    return _NAMES.get(scheme, scheme)


def explain_terms(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Return explanations of the schemes shown and of all terms."""
    known = [one.scheme for one in outcomes if one.scheme in _SCHEMES]
    return {scheme_name(scheme): _SCHEMES[scheme] for scheme in known} | _TERMS


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


def radio_sentence(main: Outcome) -> str:
    """Return a sentence on the radio's share of the energy."""
    energy = main.energy
    if not energy.whole_j:
        return "No energy was spent."
    if not energy.radio_j:
        return "These devices have no radio model: all energy is computing."
    share = 100.0 * energy.radio_j / energy.whole_j
    more = "more" if share > 50.0 else "less"
    return (
        f"{share:.0f} % of the energy is radio and waking up, so waking devices less often saves "
        f"{more} than computing less."
    )
