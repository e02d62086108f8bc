"""Running a fleet: start or resume it, run it to its end, and compare with central training."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path

from dealfl.exact import Statistics
from dealfl.learners import statistics_of
from dealfl.power import Spent
from dealfl.server import Ledger
from dealfl.simulate.building import SimulatedDevice
from dealfl.simulate.device_groups import BASE_LOADS
from dealfl.simulate.energy import find_better_clock, fleet_energy
from dealfl.simulate.fleet import Fleet
from dealfl.simulate.fleet_run import FleetRun, Report
from dealfl.simulate.fleet_simulation import RunState
from dealfl.simulate.outcome import Outcome, Participant
from dealfl.worker import State

__all__ = ["finish", "run_fleet", "start_run"]

_MAX_REPEATS = 200


def run_fleet(
    fleet: Fleet, ledger: str | Path = ":memory:", progress: Report | None = None
) -> Outcome:
    """Run a fleet to its end. The same fleet and seed give the same outcome.

    Parameters
    ----------
    fleet : Fleet
        The fleet.
    ledger : str or Path
        File of the ledger. The default is a database in memory.
    progress : callable or None
        Function that takes a `Progress`. It is called when a round opens or closes, and after each
        time to live.

    Returns
    -------
    Outcome
        The results.
    """
    with closing(start_run(fleet, ledger=ledger, progress=progress)) as run:
        run.pump()
        return finish(run)


def start_run(
    fleet: Fleet,
    state: RunState | None = None,
    *,
    ledger: str | Path = ":memory:",
    progress: Report | None = None,
    base: Statistics | None = None,
    owners_key: bytes | None = None,
) -> FleetRun:
    """Return a run at its start, or at a saved state.

    Parameters
    ----------
    fleet : Fleet
        The fleet.
    state : RunState or None
        State to resume from; None starts a new run.
    ledger : str or Path
        File of the ledger. The default is a database in memory.
    progress : callable or None
        Function that takes a `Progress`.
    base : Statistics or None
        Statistics of a model to start from.
    owners_key : bytes or None
        Key for the hashes of owners; None draws one. A saved state keeps its own.

    Returns
    -------
    FleetRun
        The run; the caller closes it.

    Raises
    ------
    BadInput
        If the job, the data or the base changed since the state was saved.
    """
    key = owners_key if state is None else state.owners_key
    run = FleetRun(fleet, Ledger(ledger), progress, base, key)
    if state is None:
        run.start()
    else:
        run.restore(state)
    return run


def finish(run: FleetRun) -> Outcome:
    """End a run: open no more rounds, deliver all updates, and return the outcome.

    Parameters
    ----------
    run : FleetRun
        The run.

    Returns
    -------
    Outcome
        The results, with the digest of central training.
    """
    ended = run.reason_to_end() or "stopped"
    virtual_s = run.rounds[-1].closed_at_s if run.rounds else run.simulation.now_s
    radios = [device.radio for device in run.parts.devices.values() if device.radio]
    for radio in radios:
        radio.keep_alive(run.simulation.now_s)
    _settle(run)
    server, journals = run.parts.server, run.parts.journals.values()
    spent = [device.spent for device in run.parts.devices.values()]
    return Outcome(
        job=run.fleet.job.name,
        scheme=run.fleet.job.scheme,
        learner=run.fleet.learner,
        seed=run.fleet.job.seed,
        workers=run.fleet.workers,
        places=run.fleet.job.terms.selected,
        rounds=tuple(run.rounds),
        participants=_participants(run),
        ended=ended,
        metric=run.split.metric,
        quality=run.split.quality(server.model),
        tested=run.split.tested,
        trivial=run.split.trivial,
        selector=run.fleet.job.selector,
        learned=sum(int(journal.setting("total_learned", "0")) for journal in journals),
        evicted=sum(int(journal.setting("total_forgotten", "0")) for journal in journals),
        quarantined=len(run.split.quarantine) + sum(len(one.quarantined()) for one in journals),
        first_quarantined=_first_quarantined(run),
        not_learned=sum(run.left.values()) + run.waiting(),
        updates=sum(row.counted for row in server.workers.values()),
        energy=replace(
            fleet_energy(spent, run.wake_ups_of_everyone, [one.traffic for one in radios]),
            better_clocks=_better_clocks(run, spent),
        ),
        dip_at=server.model.settings["n_features"] if server.model.dips_at_features else 0,
        capacity_j=sum(group.count * group.capacity_j for group in run.fleet.devices),
        median_delay_s=run.simulation.traffic.median_delay_s,
        unmet_guarantees=server.over_promised,
        prediction_error=server.predictions.median_error,
        virtual_s=virtual_s,
        digest=server.model.digest(),
        central_digest=_train_centrally(run),
        notes=run.split.notes,
        recovered=sum(int(journal.setting("total_recovered", "0")) for journal in journals),
        single_updates=sum(
            one.learned + one.evicted == 1 for one in run.ledger.reader.selections()
        ),
    )


def _better_clocks(run: FleetRun, spent: Iterable[Spent]) -> dict[str, tuple[float, float]]:
    """Return, by kind of phone, a fixed clock that dominates the one that the phones had."""
    found: dict[str, tuple[float, float]] = {}
    each = iter(spent)
    for group in run.fleet.devices:
        total = sum(islice(each, group.count), Spent())
        if group.profile is not None and total.cycles:
            better = find_better_clock(group.profile, BASE_LOADS[group.base_load], total)
            found |= {group.device: better} if better else {}
    return found


def _first_quarantined(run: FleetRun) -> str:
    """Return the place of the first quarantined row, or the reason for the first record."""
    if run.split.quarantine.first:
        return run.split.quarantine.first[0].place
    for name, journal in run.parts.journals.items():
        for _, reason in journal.quarantined():
            return f"{name}: {reason}"
    return ""


def _settle(run: FleetRun) -> None:
    """Wait until every update has its receipt and is counted."""
    run.parts.server.drain()
    run.simulation.heal()
    for _ in range(_MAX_REPEATS):
        due_s = max(journal.next_send_s() or 0.0 for journal in run.parts.journals.values())
        run.simulation.run(max(due_s, run.simulation.now_s + run.fleet.job.terms.ttl_s))
        if _settled(run):
            return
    raise AssertionError("an update has no receipt although no message is lost")


def _settled(run: FleetRun) -> bool:
    if run.ledger.open_round() is not None or run.ledger.updates.waiting():
        return False
    return not any(journal.outgoing for journal in run.parts.journals.values())


def _participants(run: FleetRun) -> tuple[Participant, ...]:
    figures = {one.row.name: one for one in run.ledger.reader.workers()}
    own = run.fleet.job.forget_fraction

    def participant(name: str, device: SimulatedDevice) -> Participant:
        spent, chosen, journal = device.spent, figures.get(name), run.parts.journals[name]
        return Participant(
            name=name, device=run.parts.kinds[name], selected=chosen.selected if chosen else 0,
            replied=chosen.replied if chosen else 0,
            learned=int(journal.setting("total_learned", "0")), held=journal.count(State.LEARNED),
            compute_j=spent.compute.total_j, operating_j=spent.operating.total_j,
            radio_j=spent.radio.total_j, by_cause_j=spent.whole.by_cause_j,
            battery=device(run.simulation.now_s).battery,
            forget_fraction=float(Fraction(journal.setting("theta", own))),
        )  # fmt: skip

    return tuple(participant(name, device) for name, device in run.parts.devices.items())


def _train_centrally(run: FleetRun) -> str:
    """Return the digest of training on the base and all learned records on one computer."""
    make, journals = run.split.make, run.parts.journals.values()
    central = make()
    if central.whole_owners:  # an owner of histories may be on several workers
        together = [record for one in journals for record in one.records(State.LEARNED)]
        statistics = statistics_of(make, together)[0]  # smaller than a second model
        return (statistics if run.base is None else run.base + statistics).digest()
    if run.base is not None:
        central.merge(run.base)
    for journal in journals:
        central.merge(statistics_of(make, journal.records(State.LEARNED))[0])
    return central.digest()
