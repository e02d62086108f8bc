"""A fleet over several seeds and settings: means and confidence intervals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from dealfl.errors import BadInput, needs_extra
from dealfl.jobs import Data, Document, Plan, Reading
from dealfl.simulate.fleet import FleetSpec, read_fleet
from dealfl.simulate.fleet_run import run_fleet, split_fleet
from dealfl.simulate.outcome import Outcome, Progress
from dealfl.simulate.processes import Processes
from dealfl.simulate.split import load_examples


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % confidence interval.

    Examples
    --------
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
            raise BadInput("an estimate needs at least one value")
        count = len(values)
        mean = math.fsum(values) / count
        if count == 1:
            return cls(mean, None, 1)
        variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
        with needs_extra("scipy", "an interval of several seeds"):
            from scipy.special import stdtrit
        quantile = float(stdtrit(count - 1, 0.975))
        return cls(mean, quantile * math.sqrt(variance / count), count)

    @property
    def low(self) -> float | None:
        """Lower end of the interval; None for a single value."""
        return None if self.half_width is None else self.mean - self.half_width

    @property
    def high(self) -> float | None:
        """Upper end of the interval; None for a single value."""
        return None if self.half_width is None else self.mean + self.half_width

    def as_dict(self) -> dict[str, float | None]:
        """Return mean, interval and number of values by name."""
        return {"mean": self.mean, "low": self.low, "high": self.high, "count": self.count}


@dataclass(frozen=True, slots=True)
class Setting:
    """One combination of values, with an outcome for each seed."""

    values: Mapping[str, object]
    outcomes: tuple[Outcome, ...]

    @property
    def plain_values(self) -> dict[str, int | float | str]:
        """The values, those of other types as texts."""
        plain = int | float | str
        return {k: v if isinstance(v, plain) else str(v) for k, v in self.values.items()}

    def estimates(self) -> dict[str, Estimate]:
        """Return an estimate of every measure that all seeds have, by name."""
        measured = [outcome.measures() for outcome in self.outcomes]
        shared = [name for name in measured[0] if all(name in sample for sample in measured)]
        return {name: Estimate.of([sample[name] for sample in measured]) for name in shared}


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """The progress of a sweep."""

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
    processes: int = 1,
) -> list[Setting]:
    """Simulate every combination of values, with several seeds each.

    All fleets are read before the first one runs, so that an invalid value is reported at once.
    """
    if seeds < 1:
        raise BadInput(f"seeds is {seeds}; it must be a whole number ≥ 1")
    combined = _combinations(vary or {})
    fleets = [_fleets(document, values, seeds, data) for values in combined]
    outcomes = _run_all([fleet for group in fleets for fleet in group], processes, progress)
    return [
        Setting(values, tuple(itertools.islice(outcomes, len(group))))
        for values, group in zip(combined, fleets, strict=True)
    ]


def _run_all(
    fleets: Sequence[FleetSpec], processes: int, progress: Report | None
) -> Iterator[Outcome]:
    """Yield the outcomes of all fleets, in their order."""

    def show(number: int, inside: Progress) -> None:
        if progress is not None:
            progress(SweepProgress(number, len(fleets), inside))

    step = 8 * max(processes, 1)  # a few more than run at a time
    loaded = _Loaded()
    for first in range(0, len(fleets), step):
        loaded.read(fleets[first].plan)  # before processes fork
        outcomes: dict[str, Outcome] = {}
        tasks = {
            f"{number}": partial(_run, fleet, loaded)
            for number, fleet in enumerate(fleets[first : first + step], first + 1)
        }
        with Processes(tasks, processes, outcomes.update) as forked:
            for name, task in tasks.items():
                report = partial(show, int(name))
                if name in forked:
                    forked.finish(name, report, lambda: False)
                yield outcomes.pop(name) if name in outcomes else task(report)


class _Loaded:
    """The examples of the last plan: fleets of a sweep mostly have the same."""

    def __init__(self) -> None:
        self._plan: Plan | None = None

    def read(self, plan: Plan) -> Reading:
        """Return the examples of a plan."""
        if plan != self._plan:
            self._reading = load_examples(plan)
            self._plan = plan
        return self._reading


def _run(fleet: FleetSpec, loaded: _Loaded, show: Callable[[Progress], None]) -> Outcome:
    return run_fleet(fleet, progress=show, split=split_fleet(fleet, loaded.read(fleet.plan)))


def _combinations(vary: Mapping[str, Sequence[object]]) -> list[dict[str, object]]:
    for key, values in vary.items():
        if not values:
            raise BadInput(f"{key} has no values; give at least one")
        if key == "job.seed":
            raise BadInput("job.seed cannot be varied; give a number of seeds instead")
    return [dict(zip(vary, values, strict=True)) for values in itertools.product(*vary.values())]


def _fleets(
    document: Document, values: Mapping[str, object], seeds: int, data: Data | None
) -> list[FleetSpec]:
    for key, value in values.items():
        document = document.replaced(key, value)
    first = read_fleet(document, data).job.seed
    return [read_fleet(document.replaced("job.seed", first + seed), data) for seed in range(seeds)]
