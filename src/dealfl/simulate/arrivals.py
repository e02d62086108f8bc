"""When new examples reach a worker: some are there at the start, the others come one by one.

Workers may differ in how much they get: with a `spread` their rates are log-normal.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from dealfl.jobs.settings import number, setting, share, whole

__all__ = ["ARRIVALS", "Arrival", "AtOnce", "EachRound", "Poisson", "Steady"]

_HOUR_S = 3_600.0


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


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Everything is there at the start."""

    initial_share: float = setting(share(), 1.0)
    each_round = 0

    def times(self, draw: random.Random) -> Iterator[tuple[float, int]]:  # noqa: ARG002
        """Yield nothing."""
        yield from ()


@dataclass(frozen=True, slots=True)
class EachRound:
    """Some come whenever a round is opened."""

    initial_share: float = setting(share(), 0.2)
    examples_per_round: int = setting(whole(1), 1)

    @property
    def each_round(self) -> int:
        """How many come whenever a round is opened."""
        return self.examples_per_round

    def times(self, draw: random.Random) -> Iterator[tuple[float, int]]:  # noqa: ARG002
        """Yield nothing: it is rounds that matter."""
        yield from ()


@dataclass(frozen=True, slots=True)
class Steady:
    """The same number comes after the same time, from a random moment of the first period on."""

    initial_share: float = setting(share(), 0.2)
    examples_per_hour: float = setting(number(0.0, above=True), 1.0)
    batch: int = setting(whole(1), 1)
    spread: float = setting(number(0.0, most=5.0), 0.0)
    each_round = 0

    def times(self, draw: random.Random) -> Iterator[tuple[float, int]]:
        """Yield equal steps."""
        gap_s = self.batch * _HOUR_S / _rate(self.examples_per_hour, self.spread, draw)
        now_s = draw.random() * gap_s
        while True:
            yield now_s, self.batch
            now_s += gap_s


@dataclass(frozen=True, slots=True)
class Poisson:
    """They come at random, independent of each other."""

    initial_share: float = setting(share(), 0.2)
    examples_per_hour: float = setting(number(0.0, above=True), 1.0)
    batch: int = setting(whole(1), 1)
    spread: float = setting(number(0.0, most=5.0), 0.0)
    each_round = 0

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


ARRIVALS: dict[str, type[AtOnce | EachRound | Poisson | Steady]] = {
    "at_once": AtOnce,
    "each_round": EachRound,
    "steady": Steady,
    "poisson": Poisson,
}
