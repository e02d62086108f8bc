"""The schemes: which records a worker keeps, and whether it trains on the change or on everything.

Both ways of training give the same delta, because statistics are exact. Only the work differs.
All retentions evict in the same order: least recently used, then earliest, then smallest id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

from dealfl.errors import BadInput, unknown_name
from dealfl.learners import Change, Learner, Work
from dealfl.learners import Record as AnyRecord
from dealfl.registry import Registry
from dealfl.worker.journal import Record

_NOTHING = Fraction(0)


@dataclass(frozen=True, slots=True)
class Eviction:
    """The number of examples to evict now."""

    count: int
    carry: Fraction = _NOTHING  # of an example, to add to the next eviction


class Retention(Protocol):
    """A policy for how many old examples to evict."""

    def evict(self, held: int, forget_fraction: Fraction, carry: Fraction) -> Eviction:
        """Return how many of the learned examples to evict; θ is their share in a training.

        Parameters
        ----------
        held
            Number of examples held before the training.
        forget_fraction
            θ of the training.
        carry
            The fraction that earlier trainings left over.

        Returns
        -------
        Eviction
            Number of examples to evict, and the fraction to carry on.
        """


class KeepAll:
    """Evict nothing, for any θ.

    Examples
    --------
    >>> KeepAll().evict(100, Fraction(1, 2), Fraction(0)).count
    0
    """

    def evict(self, held: int, forget_fraction: Fraction, carry: Fraction) -> Eviction:  # noqa: ARG002
        """Return an eviction of no examples."""
        return Eviction(0)


class Newest:
    """Evict all old examples, for any θ.

    Examples
    --------
    >>> Newest().evict(100, Fraction(0), Fraction(0)).count
    100
    """

    def evict(self, held: int, forget_fraction: Fraction, carry: Fraction) -> Eviction:  # noqa: ARG002
        """Return an eviction of all old examples."""
        return Eviction(held)


class Theta:
    """Evict ⌊θ·held + carry⌋ examples and carry the remainder over to the next training.

    Without the carry, rounding up would leave only one example on a worker that receives one
    example at a time.

    Examples
    --------
    >>> Theta().evict(30, Fraction("0.02"), Fraction(0))
    Eviction(count=0, carry=Fraction(3, 5))
    >>> Theta().evict(31, Fraction("0.02"), Fraction(3, 5))
    Eviction(count=1, carry=Fraction(11, 50))
    """

    def evict(self, held: int, forget_fraction: Fraction, carry: Fraction) -> Eviction:
        """Return the whole part of θ·held + carry, and the remainder as the new carry."""
        # θ·held + carry over the common denominator; sums of fractions take three times as long
        parts = forget_fraction.denominator * carry.denominator
        due = forget_fraction.numerator * held * carry.denominator
        due += carry.numerator * forget_fraction.denominator
        whole, rest = divmod(due, parts)
        return Eviction(min(whole, held), Fraction(rest, parts) if rest else _NOTHING)


@dataclass(frozen=True, slots=True)
class Scheme:
    """A retention policy, and whether a worker trains on the change or on everything."""

    retention: Retention
    from_scratch: bool = False  # whether each training starts with all records held
    selector: str = "uniform"  # of the system that it is compared in
    label: str = ""  # for people
    explanation: str = ""

    def change(
        self,
        learner: Learner,
        learn: Sequence[Record],
        forget: Sequence[Record],
        kept: Sequence[AnyRecord],
    ) -> Change:
        """Return statistics(learn) − statistics(forget), and the work.

        Parameters
        ----------
        learner
            An empty learner of the job.
        learn
            Records to learn.
        forget
            Records to forget.
        kept
            Records that were learned before and stay.

        Returns
        -------
        Change
            The delta and its work.
        """
        if not self.from_scratch:
            return learner.difference(learn, forget, kept)
        everything = learner.difference([*kept, *learn], ())
        sent = learner.difference([*kept, *forget], ())
        return Change(everything.delta - sent.delta, everything.learned, Work(0, 0))


def _admit(name: str, plugin: Any) -> Scheme:  # noqa: ANN401
    """Return a scheme that trains on the change, for a retention policy from a plugin."""
    if isinstance(plugin, Scheme):
        return plugin
    retention = plugin() if isinstance(plugin, type) else plugin
    if not callable(getattr(retention, "evict", None)):
        raise BadInput(f"{plugin!r} is not a dealfl.worker.Retention: it has no method evict")
    return Scheme(retention, label=name)


_OWN = {
    "deal": Scheme(
        Theta(),
        label="DEAL",
        explanation="A phone learns only its new examples and forgets a small fraction of its "
        "old ones in each training. Forgetting is exact, so no model is trained again from "
        "scratch.",
    ),
    "original": Scheme(
        KeepAll(),
        from_scratch=True,
        selector="everyone",
        label="Original",
        explanation="A phone keeps all examples and trains on all of them from scratch each time.",
    ),
    "newfl": Scheme(
        Newest(),
        from_scratch=True,
        selector="everyone",
        label="NewFL",
        explanation="A phone keeps only its newest examples and trains on them from scratch "
        "each time.",
    ),
    "incremental": Scheme(
        KeepAll(),
        label="Incremental",
        explanation="A phone keeps all examples and learns only the new ones.",
    ),
}
COMPARED = tuple(_OWN)
SCHEMES: Registry[Scheme] = Registry("dealfl.retentions", _OWN, _admit)


def find_scheme(name: str) -> Scheme:
    """Return the scheme of that name."""
    if name not in SCHEMES:
        raise unknown_name("scheme", name, SCHEMES)
    return SCHEMES[name]


@lru_cache(maxsize=64)
def exact_fraction(text: str) -> Fraction:
    """Return θ as an exact fraction.

    Examples
    --------
    >>> exact_fraction("0.02")
    Fraction(1, 50)
    """
    try:
        fraction = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise BadInput(
            f"forget_fraction is {text!r}; it must be a decimal such as '0.02'"
        ) from None
    if not 0 <= fraction.numerator <= fraction.denominator:
        raise BadInput(f"forget_fraction is {text}; it must be from 0 to 1")
    return fraction
