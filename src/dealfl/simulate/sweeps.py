"""A fleet over several seeds and settings: means and confidence intervals."""

from __future__ import annotations

import hashlib
import itertools
import math
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from dealfl.errors import BadBytes, BadInput, argument, needs_extra
from dealfl.jobs import Data, Document, Plan, Reading, change
from dealfl.parallel import AnyExecutor, call_each
from dealfl.simulate.fleet import FleetSpec, read_fleet
from dealfl.simulate.fleet_run import run_fleet, split_fleet
from dealfl.simulate.outcome import Outcome, Progress
from dealfl.simulate.processes import Processes
from dealfl.simulate.split import load_examples
from dealfl.storage import make_folder, replace_file


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

    def differences(self, other: Setting) -> dict[str, Estimate]:
        """Return by how much each measure exceeds another setting's, paired by seed.

        Both have the same seeds, so what a seed does to both is not part of the interval.
        """
        pairs = [
            (own.measures(), others.measures())
            for own, others in zip(self.outcomes, other.outcomes, strict=True)
        ]
        shared = [name for name in pairs[0][0] if all(name in a and name in b for a, b in pairs)]
        return {name: Estimate.of([a[name] - b[name] for a, b in pairs]) for name in shared}


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """The progress of a sweep: the simulation under way, or, on an executor, how many are done."""

    simulation: int
    of_simulations: int
    inside: Progress | None = None


Report = Callable[[SweepProgress], None]


def sweep(
    document: Document,
    seeds: int = 1,
    vary: Mapping[str, Sequence[object]] | None = None,
    progress: Report | None = None,
    data: Data | None = None,
    processes: int = 1,
    executor: AnyExecutor | None = None,
    kept: KeptOutcomes | None = None,
) -> list[Setting]:
    """Simulate every combination of values, with several seeds each.

    All fleets are read before the first one runs, so that an invalid value is reported at once.
    """
    if seeds < 1:
        raise BadInput(f"seeds is {seeds}; it must be a whole number ≥ 1")
    combined = _combinations(vary or {})
    groups = [_simulations(document, values, seeds, data) for values in combined]
    simulations = dict(enumerate(simulation for group in groups for simulation in group))
    keys = {number: one.key for number, one in simulations.items()} if kept is not None else {}
    outcomes = {}
    for number, key in keys.items():
        if kept is not None and (known := kept.get(key)) is not None:
            outcomes[number] = known
    left = {number: one for number, one in simulations.items() if number not in outcomes}

    def show(number: int, inside: Progress | None) -> None:
        if progress is not None:
            progress(SweepProgress(number, len(simulations), inside))

    ended = (
        _run_here(left, processes, show)
        if executor is None
        else _run_elsewhere(left, executor, partial(show, inside=None), len(outcomes))
    )
    for number, outcome in ended:
        outcomes[number] = outcome
        if kept is not None:
            kept.put(keys[number], outcome)
    in_order = (outcomes[number] for number in simulations)
    return [
        Setting(values, tuple(itertools.islice(in_order, len(group))))
        for values, group in zip(combined, groups, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Simulation:
    """A fleet to simulate, and the document that describes it to another machine."""

    document: Document
    fleet: FleetSpec
    data: Data | None

    @property
    def key(self) -> str:
        """A hash of all that determines the outcome."""
        subject = self.fleet.plan.subject.key if self.data is None else self.data.text()
        return hashlib.sha256(f"{self.fleet.fingerprint} {subject}".encode()).hexdigest()

    def sent(self) -> tuple[Any, ...]:
        """Return the document as values that can be sent; paths are absolute."""
        document = self.document
        return document.tables, document.name, document.folder.resolve(), self.data


class KeptOutcomes:
    """Outcomes in a folder, from which a sweep that was stopped continues."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "outcomes"

    def __len__(self) -> int:
        return len(list(self._folder.glob("*.msgpack")))

    def clear(self) -> None:
        """Delete all outcomes."""
        for file in self._folder.glob("*.msgpack"):
            file.unlink()

    def get(self, key: str) -> Outcome | None:
        """Return the outcome of a simulation; None if it has not ended."""
        path = self._path(key)
        if not path.exists():
            return None
        try:
            return msgspec.msgpack.decode(path.read_bytes(), type=Outcome)
        except msgspec.MsgspecError as error:
            raise BadBytes(
                f"{path} is damaged ({error}); run again with {argument('restart', True)}"
            ) from error

    def put(self, key: str, outcome: Outcome) -> None:
        """Store the outcome of a simulation."""
        make_folder(self._folder)
        replace_file(self._path(key), msgspec.msgpack.encode(outcome))

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.msgpack"


Show = Callable[[int, Progress], None]


def _run_here(
    simulations: Mapping[int, _Simulation], processes: int, show: Show
) -> Iterator[tuple[int, Outcome]]:
    """Yield the outcomes of all simulations, in their order."""
    step = 8 * max(processes, 1)  # a few more than run at a time
    loaded, left = _Loaded(), iter(simulations.items())
    while batch := dict(itertools.islice(left, step)):
        loaded.read(next(iter(batch.values())).fleet.plan)  # before processes fork
        outcomes: dict[str, Outcome] = {}
        tasks = {f"{number}": partial(_run, one.fleet, loaded) for number, one in batch.items()}
        with Processes(tasks, processes, outcomes.update) as forked:
            for name, task in tasks.items():
                report = partial(show, int(name) + 1)
                if name in forked:
                    forked.finish(name, report, lambda: False)
                yield int(name), outcomes.pop(name) if name in outcomes else task(report)


def _run_elsewhere(
    simulations: Mapping[int, _Simulation],
    executor: AnyExecutor,
    show: Callable[[int], None],
    done: int,
) -> Iterator[tuple[int, Outcome]]:
    """Yield the outcomes of all simulations as they end on an executor."""
    show(done)
    sweep = uuid.uuid4().hex
    calls = ((number, (sweep, *one.sent())) for number, one in simulations.items())
    for ended, (number, outcome) in enumerate(call_each(executor, _run_sent, calls), done + 1):
        show(ended)
        yield number, outcome


_loaded: dict[str, _Loaded] = {}  # of the last sweep that used this process


def _run_sent(
    sweep: str, tables: Mapping[str, Any], name: str, folder: Path, data: Data | None
) -> Outcome:
    """Simulate the fleet of a document that was sent."""
    loaded = _loaded.get(sweep) or _Loaded()
    _loaded.clear()
    _loaded[sweep] = loaded
    fleet = read_fleet(Document(tables, name, folder), data)
    return _run(fleet, loaded, lambda _: None)


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
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise BadInput(f"{key} is varied over {values!r}; give a list of values")
        if not values:
            raise BadInput(f"{key} has no values; give at least one")
        if key == "job.seed":
            raise BadInput("job.seed cannot be varied; give a number of seeds instead")
    return [dict(zip(vary, values, strict=True)) for values in itertools.product(*vary.values())]


def _simulations(
    document: Document, values: Mapping[str, object], seeds: int, data: Data | None
) -> list[_Simulation]:
    document = change(document, values)
    first = read_fleet(document, data).job.seed
    seeded = [document.replaced("job.seed", first + seed) for seed in range(seeds)]
    return [_Simulation(one, read_fleet(one, data), data) for one in seeded]
