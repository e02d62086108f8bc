"""The section [arrival]: when examples reach a worker.

Some are present at the start, the others arrive later. With a `spread` the rates of workers are
log-normal.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Annotated, ClassVar, Protocol

from msgspec import Meta, Struct

from dealfl.settings import Count, Positive, Share

__all__ = ["ARRIVALS", "Arrival", "AtOnce", "EachRound", "Poisson", "Steady"]

_HOUR_S = 3_600.0

InitialShare = Annotated[Share, Meta(description="share of the examples present at the start")]
Rate = Annotated[Positive, Meta(description="examples that reach each worker per hour")]
Batch = Annotated[Count, Meta(description="examples that arrive together")]
Spread = Annotated[
    float,
    Meta(
        ge=0,
        le=5,
        description="standard deviation of the logarithm of the workers' rates; 0: all are equal",
    ),
]


class Arrival(Protocol):
    """A schedule of new examples."""

    @property
    def initial_share(self) -> float:
        """Share of a worker's examples that are present at the start."""

    @property
    def each_round(self) -> int:
        """Number of examples that arrive when a round opens."""

    def times(self, draw: random.Random) -> Iterator[tuple[float, int]]:
        """Yield times and numbers of arriving examples without end."""


class AtOnce(Struct, frozen=True, tag_field="pattern", tag="at_once"):
    """All examples are present at the start."""

    initial_share: InitialShare = 1.0
    each_round: ClassVar[int] = 0

    def times(self, draw: random.Random) -> Iterator[tuple[float, int]]:  # noqa: ARG002
        """Yield nothing."""
        yield from ()


class EachRound(Struct, frozen=True, tag_field="pattern", tag="each_round"):
    """A number of examples arrives whenever a round opens."""

    initial_share: InitialShare = 0.2
    examples_per_round: Annotated[
        Count, Meta(description="examples that reach each worker when a round opens")
    ] = 1

    @property
    def each_round(self) -> int:
        """Number of examples that arrive when a round opens."""
        return self.examples_per_round

    def times(self, draw: random.Random) -> Iterator[tuple[float, int]]:  # noqa: ARG002
        """Yield nothing; rounds cause the arrivals."""
        yield from ()


class Steady(Struct, frozen=True, tag_field="pattern", tag="steady"):
    """Examples arrive at equal intervals, starting at a random time of the first interval."""

    initial_share: InitialShare = 0.2
    examples_per_hour: Rate = 1.0
    batch: Batch = 1
    spread: Spread = 0.0
    each_round: ClassVar[int] = 0

    def times(self, draw: random.Random) -> Iterator[tuple[float, int]]:
        """Yield times at equal intervals."""
        gap_s = self.batch * _HOUR_S / _rate(self.examples_per_hour, self.spread, draw)
        now_s = draw.random() * gap_s
        while True:
            yield now_s, self.batch
            now_s += gap_s


class Poisson(Struct, frozen=True, tag_field="pattern", tag="poisson"):
    """Examples arrive at random, independently of each other."""

    initial_share: InitialShare = 0.2
    examples_per_hour: Rate = 1.0
    batch: Batch = 1
    spread: Spread = 0.0
    each_round: ClassVar[int] = 0

    def times(self, draw: random.Random) -> Iterator[tuple[float, int]]:
        """Yield times with exponential intervals."""
        gap_s = self.batch * _HOUR_S / _rate(self.examples_per_hour, self.spread, draw)
        now_s = 0.0
        while True:
            now_s += draw.expovariate(1.0 / gap_s)
            yield now_s, self.batch


def _rate(mean: float, spread: float, draw: random.Random) -> float:
    """Return a worker's rate: a few get many examples, most get few, and the mean is given."""
    return mean * draw.lognormvariate(-spread * spread / 2, spread) if spread else mean


ARRIVALS: tuple[type[AtOnce | EachRound | Poisson | Steady], ...] = (
    AtOnce,
    EachRound,
    Steady,
    Poisson,
)
