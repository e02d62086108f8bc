"""What each lever of a job saves: the fair baseline with it, and the job without it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from msgspec.structs import replace

from dealfl.runs.result import FAIR, Threshold, Watcher, find_at_delay, is_comparable
from dealfl.simulate import (
    FleetSpec,
    Outcome,
    Processes,
    Progress,
    require_processes,
    run_fleet,
    split_fleet,
)

Made = Callable[[FleetSpec, FleetSpec], FleetSpec]
"""Function of a fleet and the fleet of which it takes a lever."""


def _take_rules(*names: str) -> Made:
    def take(fleet: FleetSpec, source: FleetSpec) -> FleetSpec:
        rules = replace(fleet.job.rules, **{n: getattr(source.job.rules, n) for n in names})
        return replace(fleet, job=replace(fleet.job, rules=rules))

    return take


def _take_batching(fleet: FleetSpec, source: FleetSpec) -> FleetSpec:
    made = _take_rules("min_waiting")(fleet, source)
    return replace(made, job=replace(made.job, sleep=source.job.sleep))


def _take_selection(fleet: FleetSpec, source: FleetSpec) -> FleetSpec:
    job = replace(fleet.job, selector=source.job.selector)
    return replace(fleet, job=job, selection=source.selection)


def _take_learning(fleet: FleetSpec, source: FleetSpec) -> FleetSpec:
    job = replace(fleet.job, scheme=source.job.scheme)
    return replace(fleet, job=job, worker=source.worker)


def _take_forgetting(fleet: FleetSpec, source: FleetSpec) -> FleetSpec:
    job = replace(fleet.job, forget_fraction=source.job.forget_fraction)
    return replace(fleet, job=job)


def _take_clock(fleet: FleetSpec, source: FleetSpec) -> FleetSpec:
    return replace(fleet, devices=source.devices)


LEVERS: dict[str, Made] = {
    "riding along": _take_rules("ride_along"),
    "sleep and batching": _take_batching,
    "selection": _take_selection,
    "decremental learning": _take_learning,
    "θ": _take_forgetting,
    "DVFS": _take_clock,
    "price of radios": _take_rules("wait_j"),
}


def _without_levers(fleet: FleetSpec) -> FleetSpec:
    """Return the fair baseline without what it shares with the job: nobody sleeps or batches."""
    made = fleet.as_system(f"{FAIR}@1")
    job = replace(made.job, sleep=False, forget_fraction="0")
    return replace(made, job=job)


def _keep_measuring(fleet: FleetSpec, made: FleetSpec) -> FleetSpec:
    """Return a system whose model is tested as often as that of the job."""
    return replace(made, job=replace(made.job, evaluate_every=fleet.job.evaluate_every))


def _baseline(fleet: FleetSpec, waiting: int, *, rides: bool) -> FleetSpec:
    made = fleet.as_system(f"{FAIR}@{waiting}")
    rules = replace(made.job.rules, ride_along=rides)
    return replace(made, job=replace(made.job, rules=rules, forget_fraction="0"))


@dataclass(frozen=True, slots=True)
class AblatedSystem:
    """What one system costs; energy is modelled. Shares are None where no curve has its delay."""

    system: str
    energy_j: float
    example_j: float
    delay_s: float | None  # of an example, on average
    p90_delay_s: float | None
    learned: int
    quality: float | None
    of_fair: float | None  # joules per example, as a share of the fair baseline's at equal delay
    of_riding: float | None  # the same, of the baseline that rides along
    exact: bool


@dataclass(frozen=True, slots=True)
class Ablation:
    """The fair baseline, the job, and both with one lever changed."""

    job: str
    systems: tuple[AblatedSystem, ...]
    curve: tuple[Threshold, ...]  # of the fair baseline
    riding_curve: tuple[Threshold, ...]

    @property
    def exact(self) -> bool:
        """Whether every digest equals that of central training."""
        return all(row.exact for row in self.systems)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return dataclasses.asdict(self) | {"exact": self.exact}


def list_systems(fleet: FleetSpec) -> dict[str, FleetSpec]:
    """Return the systems of an ablation by name; a lever that the job does not use has none."""
    own = fleet.job.rules.min_waiting
    bare = _keep_measuring(fleet, _without_levers(fleet))
    fair = _keep_measuring(fleet, _baseline(fleet, own, rides=False))
    systems = {"no lever": bare, "fair baseline": fair}
    for name, take in LEVERS.items():
        systems[f"fair baseline + {name}"] = take(fair, fleet)
    systems["DEAL"] = fleet
    for name, take in LEVERS.items():
        systems[f"DEAL − {name}"] = take(fleet, bare)
    kept: dict[str, FleetSpec] = {}
    for name, made in systems.items():
        if made not in kept.values():
            kept[name] = made
    return kept


def ablate(fleet: FleetSpec, watcher: Watcher, processes: int) -> Ablation:
    """Run all systems of an ablation, and the baselines along their thresholds."""
    systems = list_systems(fleet)
    curves = {
        (rides, waiting): f"{'riding' if rides else 'fair'} baseline, {waiting} waiting"
        for rides in (False, True)
        for waiting in fleet.thresholds
    }
    named = systems | {
        name: _baseline(fleet, waiting, rides=rides) for (rides, waiting), name in curves.items()
    }
    outcomes = _run_all(fleet, named, watcher, require_processes(processes))
    by_rides = [
        tuple(Threshold.of(outcomes[name]) for (has, _), name in curves.items() if has == rides)
        for rides in (False, True)
    ]
    rows = tuple(_row(name, outcomes[name], *by_rides) for name in systems)
    return Ablation(fleet.job.name, rows, *by_rides)


def _run_all(
    fleet: FleetSpec, systems: dict[str, FleetSpec], watcher: Watcher, count: int
) -> dict[str, Outcome]:
    split = split_fleet(fleet)

    def run(made: FleetSpec, show: Callable[[Progress], None]) -> Outcome:
        return run_fleet(made, progress=show, split=split)

    tasks = {name: partial(run, made) for name, made in systems.items()}
    outcomes: dict[str, Outcome] = {}
    with Processes(tasks, count, outcomes.update) as forked:
        for number, (name, task) in enumerate(tasks.items(), 1):
            watcher.start_scheme(name, number, len(tasks))
            if name in forked:
                forked.finish(name, watcher.show_progress, lambda: False)
            if name not in outcomes:  # it was killed, or nothing could be forked
                outcomes[name] = task(watcher.show_progress)
    return outcomes


def _row(
    name: str, outcome: Outcome, fair: tuple[Threshold, ...], riding: tuple[Threshold, ...]
) -> AblatedSystem:
    delays = outcome.delays
    return AblatedSystem(
        system=name,
        energy_j=outcome.energy_j,
        example_j=outcome.example_j,
        delay_s=delays and delays.mean_s,
        p90_delay_s=delays and delays.p90_s,
        learned=outcome.learned,
        quality=outcome.quality,
        of_fair=_share(outcome, fair),
        of_riding=_share(outcome, riding),
        exact=outcome.exact,
    )


def _share(outcome: Outcome, curve: tuple[Threshold, ...]) -> float | None:
    other = find_at_delay(curve, outcome.delays.mean_s) if outcome.delays else None
    if other is None or not is_comparable(outcome, other):
        return None
    return outcome.example_j / other.example_j
