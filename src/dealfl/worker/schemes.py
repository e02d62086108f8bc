"""The schemes: which records a worker keeps, and whether it trains on the change or on everything.

Both ways of training give the same delta, because statistics are exact. Only the work differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from dealfl.errors import BadInput, unknown_name
from dealfl.learners import Change, Learner, Work
from dealfl.plugins import Registry
from dealfl.retention import KeepAll, Newest, Retention, Theta
from dealfl.worker.tables import Record

__all__ = [
    "SCHEMES",
    "OnlyTheChange",
    "Scheme",
    "Scratch",
    "Training",
    "exact_fraction",
    "find_scheme",
]


class Training(Protocol):
    """Interface: turn what is learned and forgotten into a delta."""

    @property
    def needs_everything(self) -> bool:
        """Whether `change` needs all records held, or only those that change."""

    def change(
        self,
        learner: Learner,
        learn: Sequence[Record],
        forget: Sequence[Record],
        kept: Sequence[Record],
    ) -> Change:
        """Return statistics(learn) − statistics(forget), and the work; the learner is empty."""


class OnlyTheChange:
    """Learn new and changed records, and forget their previous state, in one pass."""

    needs_everything = False

    def change(
        self,
        learner: Learner,
        learn: Sequence[Record],
        forget: Sequence[Record],
        kept: Sequence[Record],
    ) -> Change:
        """Return the difference; `kept` are records of the same histories."""
        return learner.difference(learn, forget, kept)


class Scratch:
    """Train on all records from scratch, and send the difference to the last statistics."""

    needs_everything = True

    def change(
        self,
        learner: Learner,
        learn: Sequence[Record],
        forget: Sequence[Record],
        kept: Sequence[Record],
    ) -> Change:
        """Return the difference; the work is that of training on all records."""
        everything = learner.difference([*kept, *learn], ())
        sent = learner.difference([*kept, *forget], ())
        return Change(everything.delta - sent.delta, everything.learned, Work(0, 0))


@dataclass(frozen=True, slots=True)
class Scheme:
    """A retention policy and a way of training.

    Parameters
    ----------
    retention : Retention
        Decides which records are evicted.
    training : Training
        Computes the delta: from the change only, or from scratch.
    """

    retention: Retention
    training: Training


def _admit(name: str, found: Any) -> Scheme:  # noqa: ANN401, ARG001
    """Return a scheme that trains on the change, for a retention policy from a plugin."""
    if isinstance(found, Scheme):
        return found
    retention = found() if isinstance(found, type) else found
    if not callable(getattr(retention, "evict", None)):
        raise BadInput(f"{found!r} is not a dealfl.retention.Retention: it has no method evict")
    return Scheme(retention, OnlyTheChange())


SCHEMES: Registry[Scheme] = Registry(
    "dealfl.retentions",
    {
        "original": Scheme(KeepAll(), Scratch()),
        "newfl": Scheme(Newest(), Scratch()),
        "deal": Scheme(Theta(), OnlyTheChange()),
        "incremental": Scheme(KeepAll(), OnlyTheChange()),
    },
    _admit,
)


def find_scheme(name: str) -> Scheme:
    """Return the scheme of that name."""
    if name not in SCHEMES:
        raise unknown_name("scheme", name, SCHEMES)
    return SCHEMES[name]


def exact_fraction(text: str) -> Fraction:
    """Return θ as an exact fraction.

    Parameters
    ----------
    text : str
        A decimal from 0 to 1, e.g. "0.02".

    Returns
    -------
    Fraction
        The exact value.

    Raises
    ------
    BadInput
        If the text is not a number from 0 to 1.

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
    if not 0 <= fraction <= 1:
        raise BadInput(f"forget_fraction is {text}; it must be from 0 to 1")
    return fraction
