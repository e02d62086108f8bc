"""The same fleet over several seeds and settings: means, and how sure of them one can be."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

from dealfl.errors import BadInput
from dealfl.jobs import Data, Document
from dealfl.simulate.fleet import Fleet, fleet_of
from dealfl.simulate.outcome import Outcome, Progress
from dealfl.simulate.running import run_fleet

__all__ = ["Estimate", "Setting", "SweepProgress", "sweep"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, and the half width of its 95 % confidence interval (None for a single value).

    >>> estimate = Estimate.of([1.0, 2.0, 3.0])
    >>> estimate.mean, round(estimate.half_width, 3)
    (2.0, 2.484)
    """

    mean: float
    half_width: float | None
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Return the estimate from independent values, by Student's t distribution."""
        if not values:
            raise BadInput("no values: there is nothing to estimate from")
        count = len(values)
        mean = math.fsum(values) / count
        if count == 1:
            return cls(mean, None, 1)
        variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
        quantile = float(stdtrit(count - 1, 0.975))
        return cls(mean, quantile * math.sqrt(variance / count), count)

    @property
    def low(self) -> float | None:
        """The lower end of the interval."""
        return None if self.half_width is None else self.mean - self.half_width

    @property
    def high(self) -> float | None:
        """The upper end of the interval."""
        return None if self.half_width is None else self.mean + self.half_width


@dataclass(frozen=True, slots=True)
class Setting:
    """One combination of values, with an outcome for each seed."""

    values: Mapping[str, object]
    outcomes: tuple[Outcome, ...]

    def estimates(self) -> dict[str, Estimate]:
        """Return every measure that all seeds have."""
        measured = [outcome.measures() for outcome in self.outcomes]
        shared = [name for name in measured[0] if all(name in one for one in measured)]
        return {name: Estimate.of([one[name] for one in measured]) for name in shared}


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """Which of all simulations is running, and how far it is."""

    simulation: int
    of_simulations: int
    inside: Progress


Report = Callable[[SweepProgress], None]


def sweep(
    document: Document,
    seeds: int = 1,
    vary: Mapping[str, Sequence[object]] | None = None,
    progress: Report | None = None,
    data: Data | None = None,
) -> list[Setting]:
    """Simulate every combination of values with the fleet's seed and those that follow it.

    Every fleet is read before the first one runs, so that a bad value is told at once.
    """
    if seeds < 1:
        raise BadInput(f"seeds={seeds}: give a whole number from 1 on")
    combined = _combinations(vary or {})
    fleets = [_fleets(document, values, seeds, data) for values in combined]
    total = len(combined) * seeds
    counted = itertools.count(1)
    return [
        Setting(values, tuple(_run(fleet, next(counted), total, progress) for fleet in group))
        for values, group in zip(combined, fleets, strict=True)
    ]


def _combinations(vary: Mapping[str, Sequence[object]]) -> list[dict[str, object]]:
    for key, values in vary.items():
        if not values:
            raise BadInput(f"{key} has no values to vary over")
        if key == "job.seed":
            raise BadInput("job.seed can not be varied over: say how many seeds instead")
    return [dict(zip(vary, values, strict=True)) for values in itertools.product(*vary.values())]


def _fleets(
    document: Document, values: Mapping[str, object], seeds: int, data: Data | None
) -> list[Fleet]:
    for key, value in values.items():
        document = document.replaced(key, value)
    first = fleet_of(document, data).job.seed
    return [fleet_of(document.replaced("job.seed", first + seed), data) for seed in range(seeds)]


def _run(fleet: Fleet, number: int, total: int, progress: Report | None) -> Outcome:
    if progress is None:
        return run_fleet(fleet)
    return run_fleet(fleet, progress=lambda inside: progress(SweepProgress(number, total, inside)))
