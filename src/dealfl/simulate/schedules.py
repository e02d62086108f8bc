"""The sections [arrival] and [availability]: when examples reach a worker, and when it is awake.

Both are the same for the same seed. Some examples are present at the start, the others arrive
later; with a `spread` the rates of workers are log-normal.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from dealfl.errors import BadInput, unreadable
from dealfl.settings import Count, Positive, Share, Text

_DAY_S = 86_400.0
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


Recurs = Annotated[
    bool,
    Meta(description="when all examples of a worker have come, they come again, in another order"),
]


class Arrival(Struct, frozen=True, tag_field="pattern"):
    """A schedule of new examples."""

    initial_share: InitialShare = 0.2

    @property
    def is_endless(self) -> bool:
        """Whether the examples of a worker come again when all have come."""
        return False

    @property
    def each_round(self) -> int:
        """Number of examples that arrive when a round opens."""
        return 0

    def times(self, draw: random.Random) -> Iterator[tuple[float, int]]:  # noqa: ARG002
        """Yield times and numbers of arriving examples; by default none."""
        yield from ()


class AtOnce(Arrival, frozen=True, tag="at_once"):
    """All examples are present at the start."""

    initial_share: InitialShare = 1.0


class EachRound(Arrival, frozen=True, tag="each_round"):
    """A number of examples arrives whenever a round opens."""

    examples_per_round: Annotated[
        Count, Meta(description="examples that reach each worker when a round opens")
    ] = 1

    @property
    def each_round(self) -> int:
        """Number of examples that arrive when a round opens."""
        return self.examples_per_round


class _Stream(Arrival, frozen=True):
    """Batches of examples at a mean rate, without end."""

    examples_per_hour: Rate = 1.0
    batch: Batch = 1
    spread: Spread = 0.0
    recurs: Recurs = False

    @property
    def is_endless(self) -> bool:
        """Whether the examples of a worker come again when all have come."""
        return self.recurs

    def _gap_s(self, draw: random.Random) -> float:
        """Return the mean time between two batches of a worker, in seconds."""
        return self.batch * _HOUR_S / _rate(self.examples_per_hour, self.spread, draw)


class Steady(_Stream, frozen=True, tag="steady"):
    """Examples arrive at equal intervals, starting at a random time of the first interval."""

    def times(self, draw: random.Random) -> Iterator[tuple[float, int]]:
        """Yield times at equal intervals."""
        gap_s = self._gap_s(draw)
        now_s = draw.random() * gap_s
        while True:
            yield now_s, self.batch
            now_s += gap_s


class Poisson(_Stream, frozen=True, tag="poisson"):
    """Examples arrive at random, independently of each other."""

    def times(self, draw: random.Random) -> Iterator[tuple[float, int]]:
        """Yield times with exponential intervals."""
        gap_s, now_s = self._gap_s(draw), 0.0
        while True:
            now_s += draw.expovariate(1.0 / gap_s)
            yield now_s, self.batch


def _rate(mean: float, spread: float, draw: random.Random) -> float:
    """Return a worker's rate: a few get many examples, most get few, and the mean is given."""
    return mean * draw.lognormvariate(-spread * spread / 2, spread) if spread else mean


ARRIVALS: tuple[type[Arrival], ...] = (AtOnce, EachRound, Steady, Poisson)


# -- awake --------------------------------------------------------------------------------------

Interval = tuple[float, float]
Hour = Annotated[float, Meta(ge=0, le=24)]


class Availability(Struct, frozen=True, tag_field="kind"):
    """A schedule of the times at which workers are awake."""

    def awake(self, worker: int, draw: random.Random) -> Iterator[Interval]:
        """Yield start and end of each interval in seconds, ascending and disjoint."""
        raise NotImplementedError

    def load(self, folder: Path, workers: int) -> Availability:  # noqa: ARG002
        """Return the schedule with its files read, for a number of workers."""
        return self


class Always(Availability, frozen=True, tag="always"):
    """All workers are always awake.

    Examples
    --------
    >>> list(Always().awake(0, random.Random(1)))
    [(0.0, inf)]
    """

    def awake(self, worker: int, draw: random.Random) -> Iterator[Interval]:  # noqa: ARG002
        """Yield one endless interval."""
        yield (0.0, math.inf)


class Markov(Availability, frozen=True, tag="markov"):
    """Times awake and asleep are exponential; the start is in the stationary state."""

    up_s: Annotated[Positive, Meta(description="mean time for which a worker is awake")]
    down_s: Annotated[Positive, Meta(description="mean time for which a worker is asleep")]

    def awake(self, worker: int, draw: random.Random) -> Iterator[Interval]:  # noqa: ARG002
        """Yield the intervals of a Markov chain in continuous time."""
        now_s = 0.0
        if draw.random() >= self.up_s / (self.up_s + self.down_s):
            now_s = draw.expovariate(1.0 / self.down_s)
        while True:
            until_s = now_s + draw.expovariate(1.0 / self.up_s)
            yield (now_s, until_s)
            now_s = until_s + draw.expovariate(1.0 / self.down_s)


class DayNight(Availability, frozen=True, tag="daynight"):
    """Workers are awake between two hours of the day, each shifted by up to `spread_h` hours.

    Examples
    --------
    >>> [interval for interval, _ in zip(DayNight(22, 6).awake(0, random.Random(1)), range(2))]
    [(0.0, 21600.0), (79200.0, 108000.0)]
    """

    from_h: Annotated[Hour, Meta(description="hour of the day from which workers are awake")]
    to_h: Annotated[Hour, Meta(description="hour of the day until which workers are awake")]
    spread_h: Annotated[
        float, Meta(ge=0, le=12, description="maximum shift of a worker, in hours")
    ] = 0.0
    start_h: Annotated[Hour, Meta(description="hour of the day at which virtual time begins")] = 0.0

    def awake(self, worker: int, draw: random.Random) -> Iterator[Interval]:  # noqa: ARG002
        """Yield one interval per day; virtual time begins at `start_h`."""
        shift_s = draw.uniform(-self.spread_h, self.spread_h) * _HOUR_S
        first_s = (self.from_h - self.start_h) * _HOUR_S + shift_s
        length_s = ((self.to_h - self.from_h) % 24.0 or 24.0) * _HOUR_S
        if length_s == _DAY_S:
            yield (0.0, math.inf)
            return
        first_s -= math.ceil((first_s + length_s) / _DAY_S) * _DAY_S
        while True:
            first_s += _DAY_S
            yield (max(first_s, 0.0), first_s + length_s)


class Trace(Availability, frozen=True, tag="trace"):
    """Workers are awake as a CSV file says, with the header worker,from_s,to_s.

    The first name in the file is the first worker of the fleet, and so on.
    """

    file: Annotated[
        Text, Meta(description="CSV file of worker, from_s, to_s; relative to the job file")
    ]
    intervals: tuple[tuple[Interval, ...], ...] = ()

    def awake(self, worker: int, draw: random.Random) -> Iterator[Interval]:  # noqa: ARG002
        """Yield the intervals of a worker in the file."""
        yield from self.intervals[worker]

    def load(self, folder: Path, workers: int) -> Trace:
        """Return the schedule with the file read."""
        path = folder / self.file
        try:
            with path.open(encoding="utf-8", newline="") as lines:
                traced = _traced(csv.DictReader(lines), path)
        except OSError as error:
            raise unreadable(path, error) from error
        if len(traced) < workers:
            raise BadInput(f"trace {path} has {len(traced)} workers; the fleet needs {workers}")
        return Trace(self.file, tuple(_checked(name, traced[name], path) for name in traced))


def _traced(rows: csv.DictReader[str], path: Path) -> dict[str, list[Interval]]:
    if rows.fieldnames is None or set(rows.fieldnames) != {"worker", "from_s", "to_s"}:
        raise BadInput(
            f"trace {path}: the header is {rows.fieldnames}; it must be worker,from_s,to_s"
        )
    intervals: dict[str, list[Interval]] = {}
    for row in rows:
        interval = _interval(row)
        if interval is None:
            raise BadInput(
                f"trace {path}, line {rows.line_num}: from_s={row['from_s']!r} and "
                f"to_s={row['to_s']!r}; give seconds ≥ 0 with from_s < to_s"
            )
        intervals.setdefault(row["worker"], []).append(interval)
    return intervals


def _interval(row: Mapping[str, str]) -> Interval | None:
    try:
        from_s, to_s = float(row["from_s"]), float(row["to_s"])
    except (TypeError, ValueError):
        return None
    return (from_s, to_s) if 0.0 <= from_s < to_s else None


def _checked(name: str, intervals: list[Interval], path: Path) -> tuple[Interval, ...]:
    ordered = sorted(intervals)
    for (_, to_s), (from_s, _) in pairwise(ordered):
        if from_s < to_s:
            raise BadInput(f"trace {path}: two intervals of {name} overlap at {from_s:g} s")
    return tuple(ordered)


AVAILABILITIES: tuple[type[Availability], ...] = (Always, Markov, DayNight, Trace)
