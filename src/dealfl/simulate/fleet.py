"""Running a fleet to its end, in one go or with a state on disk to go on from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dealfl.server import Ledger
from dealfl.simulate.closing import closed
from dealfl.simulate.config import Fleet
from dealfl.simulate.fleet_run import FleetRun
from dealfl.simulate.outcome import Outcome, Progress
from dealfl.simulate.problem import problem_of
from dealfl.simulate.run_state import RunState
from dealfl.statistics import Statistics

__all__ = ["resumable_run", "run_fleet"]

Report = Callable[[Progress], None]


def run_fleet(
    fleet: Fleet, ledger: str | Path = ":memory:", progress: Report | None = None
) -> Outcome:
    """Simulate a fleet; the same fleet and seed give the same outcome.

    `progress` is called whenever a round was opened or closed, or a time to live has passed.
    """
    run = FleetRun(fleet, problem_of(fleet, fleet.job.seed), Ledger(ledger), progress)
    try:
        run.begin()
        while not run.ended():
            run.advance()
            run.report()
        return closed(run, run.ended())
    finally:
        run.close()


def resumable_run(
    fleet: Fleet,
    state: RunState | None = None,
    progress: Report | None = None,
    base: Statistics | None = None,
) -> FleetRun:
    """Return a run that stands at its start, or where the state was taken.

    `base` are the statistics of a model that the fleet goes on from.
    """
    run = FleetRun(fleet, problem_of(fleet, fleet.job.seed), Ledger(), progress, base)
    if state is None:
        run.begin()
    else:
        run.restore(state)
    return run
