"""Running a fleet: real server, real workers, real learners; only the clock is virtual."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from dealfl.server import Ledger, Server, Terms
from dealfl.server.selection import Everyone, Selector, Uniform
from dealfl.simulate.config import Fleet
from dealfl.simulate.devices import Devices
from dealfl.simulate.energy import fleet_energy
from dealfl.simulate.equipment import equipped
from dealfl.simulate.fleet_simulation import FleetSimulation
from dealfl.simulate.meter import Accounting
from dealfl.simulate.network import Network
from dealfl.simulate.outcome import Outcome, Progress, Round
from dealfl.simulate.problem import Problem, problem_of
from dealfl.worker import Journal, Record, State, Worker
from dealfl.worker.material import material_for

__all__ = ["run_fleet"]

_KEY = b"key of a simulated job"
_SELECTORS: dict[str, Callable[[int], Selector]] = {
    "uniform": Uniform,
    "everyone": lambda seed: Everyone(),  # noqa: ARG005
}
_STALLED_S = 2 * 86_400.0  # budgets begin anew every 24 hours: after two days nothing will come
_MOST_REPEATS = 200

Report = Callable[[Progress], None]


def run_fleet(
    fleet: Fleet, ledger: str | Path = ":memory:", progress: Report | None = None
) -> Outcome:
    """Simulate a fleet; the same fleet and seed give the same outcome.

    `progress` is called whenever a round was closed or a time to live has passed.
    """
    books = Ledger(ledger)
    try:
        return _Run(fleet, books, progress or (lambda _: None)).outcome()
    finally:
        books.close()


class _Run:
    """One simulation on its way."""

    def __init__(self, fleet: Fleet, ledger: Ledger, progress: Report) -> None:
        self._fleet, self._ledger, self._progress = fleet, ledger, progress
        self._problem: Problem = problem_of(fleet, fleet.job.seed)
        self._rounds: list[Round] = []
        self._opened_at_s = 0.0
        self._journals: dict[str, Journal] = {}
        self._accounts: list[Accounting] = []
        self._wake_ups_of_everyone = 0
        self._rest: dict[str, Iterator[tuple[str, bytes]]] = {}
        self._left: dict[str, int] = {}
        workers = [self._worker(place, group) for place, group in enumerate(_each(fleet))]
        self._simulation = self._simulated(workers)
        for place, name in enumerate(self._journals):
            awake = fleet.availability.awake(place, self._draw(f"awake/{name}"))
            self._simulation.follow(name, awake)
            self._arrive(name, round(fleet.arrival.initial_share * self._left[name]))
            self._expect(name, fleet.arrival.times(self._draw(f"arrival/{name}")))

    def _draw(self, purpose: str) -> random.Random:
        return random.Random(f"{self._fleet.job.seed}/{purpose}")  # noqa: S311

    # -- building -------------------------------------------------------------------------------

    def _worker(self, place: int, group: Devices) -> Worker:
        job = self._fleet.job
        name = f"w{place + 1:0{len(str(self._fleet.workers))}}"
        stream = self._problem.streams[place]
        self._rest[name], self._left[name] = iter(stream), len(stream)
        self._journals[name] = Journal(mark=f"{job.seed}/{name}")
        equipment = equipped(self._fleet, group, name, self._draw)
        self._accounts.append(equipment.accounts)
        return Worker(
            job.name,
            name,
            self._problem.make,
            self._journals[name],
            equipment.meter,
            key=_KEY,
            scheme_name=job.scheme,
            forget_fraction=job.forget_fraction,
            announce_every_s=job.announce_every_s,
            send_again_after_s=job.send_again_after_s,
            device=equipment.device,
            least_battery=group.least_battery,
        )

    def _simulated(self, workers: list[Worker]) -> FleetSimulation:
        job, faults = self._fleet.job, self._fleet.faults
        terms = Terms(
            rounds=job.rounds,
            workers_per_round=job.workers_per_round,
            over_select=job.over_select,
            ttl_s=job.ttl_s,
            heard_within_s=3 * job.announce_every_s,
            battery_budget=job.battery_budget,
            tolerance=job.tolerance,
            patience=job.patience,
        )
        selector = _SELECTORS[job.selector](job.seed)
        network = Network(
            loss=faults.loss,
            repetition=faults.repetition,
            shortest_s=faults.shortest_delay_s,
            longest_s=faults.longest_delay_s,
            seed=job.seed,
        )
        return FleetSimulation(
            Server(job.name, self._problem.make, self._ledger, terms, selector),
            workers,
            network,
            dropout_share=faults.dropout_share,
            seed=job.seed,
            opened=self._round_opened,
            published=self._model_published,
        )

    # -- new examples ---------------------------------------------------------------------------

    def _arrive(self, name: str, count: int) -> None:
        rows = list(islice(self._rest[name], count))
        self._left[name] -= len(rows)
        if rows:
            self._simulation.workers[name].ingest(rows)
            self._simulation.wake(name, self._simulation.now_s)

    def _expect(self, name: str, times: Iterator[tuple[float, int]]) -> None:
        coming = next(times, None) if self._left[name] and not self._simulation.healed else None
        if coming is None:
            return
        moment_s, count = coming

        def arrives() -> None:
            if not self._simulation.healed:
                self._arrive(name, count)
                self._expect(name, times)

        self._simulation.at(moment_s, arrives)

    # -- rounds ---------------------------------------------------------------------------------

    def _round_opened(self) -> None:
        self._opened_at_s = self._simulation.now_s
        able = (row.fits and row.waiting > 0 for row in self._simulation.server.workers.values())
        self._wake_ups_of_everyone += sum(able)
        if self._fleet.arrival.each_round and not self._simulation.healed:
            for name in self._journals:
                self._arrive(name, self._fleet.arrival.each_round)

    def _model_published(self) -> None:
        closed = self._ledger.rounds()
        if len(closed) == len(self._rounds) or self._simulation.healed:
            return
        number, reason, duration_s, _ = closed[-1]
        asked = number % self._fleet.job.evaluate_every == 0
        quality = self._problem.quality(self._simulation.server.model) if asked else None
        now_s = self._simulation.now_s
        self._rounds.append(Round(number, reason, duration_s, now_s, quality))
        self._report()

    def _report(self) -> None:
        known = [one.quality for one in self._rounds if one.quality is not None]
        done, of = len(self._rounds), self._fleet.job.rounds
        now_s = self._simulation.now_s
        self._progress(Progress(done, of, now_s, known[-1] if known else None))

    # -- from the start to the end --------------------------------------------------------------

    def outcome(self) -> Outcome:
        """Run to the end, let everything under way arrive, and compare with central training."""
        ended = self._run()
        virtual_s = self._rounds[-1].closed_at_s if self._rounds else self._simulation.now_s
        self._settle()
        server = self._simulation.server
        journals = self._journals.values()
        return Outcome(
            job=self._fleet.job.name,
            seed=self._fleet.job.seed,
            workers=self._fleet.workers,
            rounds=tuple(self._rounds),
            ended=ended,
            metric=self._problem.metric,
            quality=self._problem.quality(server.model),
            learned=sum(int(journal.setting("total_learned", "0")) for journal in journals),
            evicted=sum(int(journal.setting("total_forgotten", "0")) for journal in journals),
            quarantined=sum(len(journal.quarantined()) for journal in journals),
            not_learned=sum(self._left.values()) + self._waiting(),
            updates=sum(row.folded for row in server.workers.values()),
            energy=fleet_energy(
                (accounts.spent for accounts in self._accounts), self._wake_ups_of_everyone
            ),
            virtual_s=virtual_s,
            digest=server.model.digest(),
            central_digest=self._central_digest(),
        )

    def _run(self) -> str:
        """Let virtual time pass; return why that was enough."""
        simulation, job = self._simulation, self._fleet.job
        while simulation.now_s < job.longest_h * 3600.0:
            if simulation.server.finished:
                return "all rounds" if len(self._rounds) >= job.rounds else "converged"
            if self._nothing_left():
                return "no examples left"
            if simulation.now_s - self._opened_at_s > _STALLED_S + job.ttl_s:
                return "nobody could be woken any more"
            simulation.run(simulation.now_s + job.ttl_s)
            self._report()
        return "longest_h is over"

    def _nothing_left(self) -> bool:
        if any(self._left.values()) or self._ledger.open_round() is not None:
            return False
        return not self._waiting()

    def _waiting(self) -> int:
        return sum(journal.count(State.WAITING) for journal in self._journals.values())

    def _settle(self) -> None:
        """Open no more rounds, and wait until every update has its receipt and was counted."""
        simulation = self._simulation
        simulation.server.terms = replace(simulation.server.terms, rounds=self._ledger.last_round())
        simulation.heal()
        for _ in range(_MOST_REPEATS):
            due_s = max(journal.next_send_s() or 0.0 for journal in self._journals.values())
            simulation.run(max(due_s, simulation.now_s + self._fleet.job.ttl_s))
            if self._settled():
                return
        raise AssertionError("an update is still under way although nothing is lost any more")

    def _settled(self) -> bool:
        if self._ledger.open_round() is not None or self._ledger.pending():
            return False
        return not any(journal.outbox() for journal in self._journals.values())

    def _central_digest(self) -> str:
        """Train one learner on everything that all workers hold as learned."""
        records: list[Record] = []
        for journal in self._journals.values():
            records += journal.records(State.LEARNED)
        central = self._problem.make()
        central.merge(material_for(self._problem.make).statistics(records)[0])
        return central.digest()


def _each(fleet: Fleet) -> Iterator[Devices]:
    for group in fleet.devices:
        yield from [group] * group.count
