"""The section [availability]: when workers are awake, the same for the same seed."""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from dealfl.errors import BadInput
from dealfl.settings import Positive, Text

__all__ = ["AVAILABILITIES", "Always", "Availability", "DayNight", "Independent", "Markov", "Trace"]

_DAY_S = 86_400.0
_HOUR_S = 3_600.0
Interval = tuple[float, float]
Hour = Annotated[float, Meta(ge=0, le=24)]


class Availability(Protocol):
    """A schedule of the times at which workers are awake."""

    def awake(self, worker: int, draw: random.Random) -> Iterator[Interval]:
        """Yield start and end of each interval in seconds, ascending and disjoint."""

    def load(self, folder: Path, workers: int) -> Availability:
        """Return the schedule with its files read, for a number of workers."""


class Always(Struct, frozen=True, tag_field="kind", tag="always"):
    """All workers are always awake.

    Examples
    --------
    >>> list(Always().awake(0, random.Random(1)))
    [(0.0, inf)]
    """

    def awake(self, worker: int, draw: random.Random) -> Iterator[Interval]:  # noqa: ARG002
        """Yield one endless interval."""
        yield (0.0, math.inf)

    def load(self, folder: Path, workers: int) -> Always:  # noqa: ARG002
        """Return the schedule itself."""
        return self


class Independent(Struct, frozen=True, tag_field="kind", tag="iid"):
    """In each time slot a worker is awake with the same probability, independently."""

    probability: Annotated[
        float, Meta(gt=0, le=1, description="probability of being awake in a slot")
    ]
    slot_s: Annotated[Positive, Meta(description="length of a slot")] = 600.0

    def awake(self, worker: int, draw: random.Random) -> Iterator[Interval]:  # noqa: ARG002
        """Yield consecutive slots as one interval."""
        slot = 0
        while True:
            slot += _geometric(draw, 1.0 - self.probability)
            length = 1 + _geometric(draw, self.probability)
            yield (slot * self.slot_s, (slot + length) * self.slot_s)
            slot += length + 1  # the slot that ended the run

    def load(self, folder: Path, workers: int) -> Independent:  # noqa: ARG002
        """Return the schedule itself."""
        return self


def _geometric(draw: random.Random, probability: float) -> int:
    """Return how often in a row an event of a probability occurs."""
    if probability <= 0.0:
        return 0
    if probability >= 1.0:
        return 1 << 60
    return int(math.log(1.0 - draw.random()) / math.log(probability))


class Markov(Struct, frozen=True, tag_field="kind", tag="markov"):
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

    def load(self, folder: Path, workers: int) -> Markov:  # noqa: ARG002
        """Return the schedule itself."""
        return self


class DayNight(Struct, frozen=True, tag_field="kind", tag="daynight"):
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

    def load(self, folder: Path, workers: int) -> DayNight:  # noqa: ARG002
        """Return the schedule itself."""
        return self


class Trace(Struct, frozen=True, tag_field="kind", tag="trace"):
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
                found = _traced(csv.DictReader(lines), path)
        except OSError as error:
            raise BadInput(f"trace {path} cannot be read: {error.strerror}") from error
        if len(found) < workers:
            raise BadInput(f"trace {path} has {len(found)} workers; the fleet needs {workers}")
        return Trace(self.file, tuple(_checked(name, found[name], path) for name in found))


def _traced(rows: csv.DictReader[str], path: Path) -> dict[str, list[Interval]]:
    if rows.fieldnames is None or set(rows.fieldnames) != {"worker", "from_s", "to_s"}:
        raise BadInput(
            f"trace {path}: the header is {rows.fieldnames}; it must be worker,from_s,to_s"
        )
    found: dict[str, list[Interval]] = {}
    for row in rows:
        interval = _interval(row)
        if interval is None:
            raise BadInput(
                f"trace {path}, line {rows.line_num}: from_s={row['from_s']!r} and "
                f"to_s={row['to_s']!r}; give seconds ≥ 0 with from_s < to_s"
            )
        found.setdefault(row["worker"], []).append(interval)
    return found


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


AVAILABILITIES: tuple[type[Always | DayNight | Independent | Markov | Trace], ...] = (
    Always,
    Independent,
    Markov,
    DayNight,
    Trace,
)
