"""The schemes: which records a worker keeps, and whether it trains on the change or on everything.

Both ways of training give the same delta, because statistics are exact. Only the work differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dealfl.errors import BadInput, unknown_name
from dealfl.learners import Change, Learner, Work
from dealfl.learners import Record as AnyRecord
from dealfl.plugins import Registry
from dealfl.worker.retention import KeepAll, Newest, Retention, Theta
from dealfl.worker.tables import Record

__all__ = ["SCHEMES", "Scheme", "exact_fraction", "find_scheme"]


@dataclass(frozen=True, slots=True)
class Scheme:
    """A retention policy, and whether a worker trains on the change or on everything.

    Parameters
    ----------
    retention : Retention
        Decides which records are evicted.
    needs_everything : bool
        Whether each training starts from scratch, with all records held.
    """

    retention: Retention
    needs_everything: bool = False

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
        learner : Learner
            An empty learner; it does not change.
        learn, forget : sequence of Record
            Records to learn and to forget.
        kept : sequence of Record
            All other records, or only those of the same histories.

        Returns
        -------
        Change
            The difference; from scratch, the work is that of training on all records.
        """
        if not self.needs_everything:
            return learner.difference(learn, forget, kept)
        everything = learner.difference([*kept, *learn], ())
        sent = learner.difference([*kept, *forget], ())
        return Change(everything.delta - sent.delta, everything.learned, Work(0, 0))


def _admit(name: str, found: Any) -> Scheme:  # noqa: ANN401, ARG001
    """Return a scheme that trains on the change, for a retention policy from a plugin."""
    if isinstance(found, Scheme):
        return found
    retention = found() if isinstance(found, type) else found
    if not callable(getattr(retention, "evict", None)):
        raise BadInput(
            f"{found!r} is not a dealfl.worker.retention.Retention: it has no method evict"
        )
    return Scheme(retention)


SCHEMES: Registry[Scheme] = Registry(
    "dealfl.retentions",
    {
        "original": Scheme(KeepAll(), needs_everything=True),
        "newfl": Scheme(Newest(), needs_everything=True),
        "deal": Scheme(Theta()),
        "incremental": Scheme(KeepAll()),
    },
    _admit,
)


def find_scheme(name: str) -> Scheme:
    """Return the scheme of that name."""
    if name not in SCHEMES:
        raise unknown_name("scheme", name, SCHEMES)
    return SCHEMES[name]


@lru_cache(maxsize=64)
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
    if not 0 <= fraction.numerator <= fraction.denominator:
        raise BadInput(f"forget_fraction is {text}; it must be from 0 to 1")
    return fraction
