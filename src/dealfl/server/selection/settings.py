"""The keys that several selectors share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from dealfl.settings import Positive, Share, Whole

__all__ = ["OTHERS", "Eta", "Fairness", "Guarantee", "Price", "Seed", "WeightCap"]

Seed = Annotated[Whole, Meta(description="seed of the selector; by default the job's seed")]
Guarantee = Annotated[
    Share | Mapping[str, Share],
    Meta(
        description="minimum share of the rounds for each worker: one number, or a table by name "
        'with "*" for the others'
    ),
]
Eta = Annotated[
    float, Meta(gt=0, extra={"inf": True}, description="weight of rewards against fairness")
]
WeightCap = Annotated[
    Positive, Meta(description="number of waiting examples above which more do not count")
]
Price = Annotated[
    Share,
    Meta(
        description="workers below this share of the best score are not woken, unless fairness or "
        "overdue examples require it"
    ),
]


OTHERS = "*"


@dataclass(frozen=True, slots=True)
class Fairness:
    """The minimum share of the rounds for each worker, by name and for all others.

    Examples
    --------
    >>> Fairness.of({"phone": 0.25, "*": 0.01}).rate("tablet")
    0.01
    """

    named: Mapping[str, float]
    others: float

    @classmethod
    def of(cls, value: float | Mapping[str, float]) -> Fairness:
        """Return the guarantee for a valid value of the key `fairness`."""
        if not isinstance(value, Mapping):
            return cls({}, value)
        named = dict(value)
        return cls(named, named.pop(OTHERS, 0.0))

    def rate(self, name: str) -> float:
        """Return a worker's share."""
        return self.named.get(name, self.others)
