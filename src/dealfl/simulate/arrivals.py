"""When new examples reach a worker: some are there at the start, the others come one by one.

Workers may differ in how much they get: with a `spread` their rates are log-normal.
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
Rate = Annotated[Positive, Meta(description="examples that reach each worker in an hour")]
Batch = Annotated[Count, Meta(description="examples that arrive together")]
Spread = Annotated[
    float,
    Meta(
        ge=0,
        le=5,
        description="how much workers differ: standard deviation of the logarithm of their rates",
    ),
]


class Arrival(Protocol):
    """Says how many examples come at which moment."""

    @property
    def initial_share(self) -> float:
        """The share of a worker's examples that it has at the start."""

    @property
    def each_round(self) -> int:
        """How many come whenever a round is opened."""

    def times(self, draw: random.Random) -> Iterator[tuple[float, int]]:
        """Yield moments, and how many examples come then, for as long as there are some."""


class AtOnce(Struct, frozen=True, tag_field="pattern", tag="at_once"):
    """Everything is there at the start."""

    initial_share: InitialShare = 1.0
    each_round: ClassVar[int] = 0

    def times(self, draw: random.Random) -> Iterator[tuple[float, int]]:  # noqa: ARG002
        """Yield nothing."""
        yield from ()


class EachRound(Struct, frozen=True, tag_field="pattern", tag="each_round"):
    """Some come whenever a round is opened."""

    initial_share: InitialShare = 0.2
    examples_per_round: Annotated[
        Count, Meta(description="examples that reach each worker when a round opens")
    ] = 1

    @property
    def each_round(self) -> int:
        """How many come whenever a round is opened."""
        return self.examples_per_round

    def times(self, draw: random.Random) -> Iterator[tuple[float, int]]:  # noqa: ARG002
        """Yield nothing: it is rounds that matter."""
        yield from ()


class Steady(Struct, frozen=True, tag_field="pattern", tag="steady"):
    """The same number comes after the same time, from a random moment of the first period on."""

    initial_share: InitialShare = 0.2
    examples_per_hour: Rate = 1.0
    batch: Batch = 1
    spread: Spread = 0.0
    each_round: ClassVar[int] = 0

    def times(self, draw: random.Random) -> Iterator[tuple[float, int]]:
        """Yield equal steps."""
        gap_s = self.batch * _HOUR_S / _rate(self.examples_per_hour, self.spread, draw)
        now_s = draw.random() * gap_s
        while True:
            yield now_s, self.batch
            now_s += gap_s


class Poisson(Struct, frozen=True, tag_field="pattern", tag="poisson"):
    """They come at random, independent of each other."""

    initial_share: InitialShare = 0.2
    examples_per_hour: Rate = 1.0
    batch: Batch = 1
    spread: Spread = 0.0
    each_round: ClassVar[int] = 0

    def times(self, draw: random.Random) -> Iterator[tuple[float, int]]:
        """Yield exponential steps."""
        gap_s = self.batch * _HOUR_S / _rate(self.examples_per_hour, self.spread, draw)
        now_s = 0.0
        while True:
            now_s += draw.expovariate(1.0 / gap_s)
            yield now_s, self.batch


def _rate(mean: float, spread: float, draw: random.Random) -> float:
    """Return a worker's own rate: a few get much, most get little, and the mean stays."""
    return mean * draw.lognormvariate(-spread * spread / 2, spread) if spread else mean


ARRIVALS: tuple[type[AtOnce | EachRound | Poisson | Steady], ...] = (
    AtOnce,
    EachRound,
    Steady,
    Poisson,
)
