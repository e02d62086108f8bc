"""A running fleet: real server, workers and learners under a virtual clock."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import islice

from dealfl.errors import BadInput
from dealfl.exact import Statistics
from dealfl.server import Ledger
from dealfl.simulate.building import build, make_drawer
from dealfl.simulate.fleet import Fleet
from dealfl.simulate.fleet_simulation import FleetSimulation, RunState
from dealfl.simulate.outcome import Progress, Round
from dealfl.simulate.simulation import SERVER, Arrives
from dealfl.simulate.split import split_examples
from dealfl.simulate.traffic import Traffic
from dealfl.simulate.uses import follow_uses
from dealfl.worker import Journal, State

__all__ = ["FleetRun"]

_STALLED_S = 2 * 86_400.0  # energy budgets start again every 24 hours

Report = Callable[[Progress], None]


class FleetRun:
    """A run of a fleet, from its start or a saved state to its end.

    Parameters
    ----------
    fleet : Fleet
        The fleet.
    ledger : Ledger
        Store of the server.
    progress : callable or None
        Function that takes a `Progress`.
    base : Statistics or None
        Statistics of a model to start from.
    owners_key : bytes or None
        Key for hashes of owners; None draws one.

    Raises
    ------
    BadInput
        If the data cannot be read or split.
    """

    def __init__(
        self,
        fleet: Fleet,
        ledger: Ledger,
        progress: Report | None = None,
        base: Statistics | None = None,
        owners_key: bytes | None = None,
    ) -> None:
        self.split = split = split_examples(fleet.plan, fleet.data, fleet.workers, fleet.job.seed)
        self.fleet, self.ledger, self.base = fleet, ledger, base
        self.parts = build(fleet, split, ledger, owners_key or secrets.token_bytes(32))
        self.rounds: list[Round] = []
        self.wake_ups_of_everyone = 0
        self._fingerprint = cache(partial(split.fingerprint, fleet.fingerprint, base))
        self._progress, self._opened_at_s, self._examples = progress, 0.0, (0, 0)
        streams = dict(zip(self.parts.workers, split.streams, strict=True))
        self._streams = dict(zip(streams, map(iter, split.streams), strict=True))
        self.left = {name: len(stream) for name, stream in streams.items()}
        self._taken = dict.fromkeys(self.parts.workers, 0)
        radios = {name: one.radio for name, one in self.parts.devices.items() if one.radio}
        self.simulation = FleetSimulation(
            self.parts.server,
            self.parts.workers.values(),
            self.parts.network,
            dropout_share=fleet.faults.dropout_share,
            seed=fleet.job.seed,
            opened=self._note_round,
            published=self._note_version,
            traffic=Traffic(radios),
            keys=fleet.radio,
        )
        self.simulation.set_action(Arrives, self._take_arrival)
        follow_uses(self.simulation, fleet, streams)
        draw = make_drawer(fleet)
        self._times = {name: fleet.arrival.times(draw(f"arrival/{name}")) for name in self.left}
        for place, name in enumerate(self.parts.workers):
            self.simulation.follow(name, fleet.availability.awake(place, draw(f"awake/{name}")))

    def start(self) -> None:
        """Give the server its base model, and every worker its initial examples."""
        if self.base is not None:
            self.parts.server.start_from(self.base)
        for name in self.parts.workers:
            self._arrive(name, round(self.fleet.arrival.initial_share * self.left[name]))
            self._expect(name)
            self.simulation.expect_use(name)

    # -- new examples ---------------------------------------------------------------------------

    def _arrive(self, name: str, count: int) -> None:
        rows = list(islice(self._streams[name], count))
        self.left[name] -= len(rows)
        if rows:
            self.simulation.traffic.arrive(name, len(rows), self.simulation.now_s)
            self.parts.workers[name].ingest(rows)
            self.simulation.wake(name, self.simulation.now_s)

    def _expect(self, name: str) -> None:
        if self.simulation.healed or not self.left[name]:
            return
        self._taken[name] += 1
        for moment_s, count in islice(self._times[name], 1):
            self.simulation.schedule(moment_s, Arrives(name, count))

    def _take_arrival(self, event: Arrives) -> None:
        if not self.simulation.healed:
            self._arrive(event.name, event.count)
            self._expect(event.name)

    # -- rounds ---------------------------------------------------------------------------------

    def _note_round(self) -> None:
        self._opened_at_s = self.simulation.now_s
        able = (row.fits and row.waiting > 0 for row in self.parts.server.workers.values())
        self.wake_ups_of_everyone += sum(able)
        if self.fleet.arrival.each_round and not self.simulation.healed:
            for name in self.parts.workers:
                self._arrive(name, self.fleet.arrival.each_round)
        self.report()

    def _note_version(self) -> None:
        last = self.ledger.rounds.find_last_closed()
        if last is None or last.number == len(self.rounds) or self.simulation.healed:
            return
        self._opened_at_s = self.simulation.now_s
        evaluated = last.number % self.fleet.job.evaluate_every == 0
        quality = self.split.quality(self.parts.server.model) if evaluated else None
        figures, before = self.ledger.reader.round_figures(last.number), self._examples
        self._examples = learned, evicted = self.ledger.rounds.count_examples()
        self.rounds.append(Round(
            number=last.number, reason=last.reason, duration_s=last.duration_s,
            closed_at_s=self.simulation.now_s, quality=quality, able=figures.eligible,
            selected=figures.selected, replied=figures.replied,
            learned=learned - before[0], evicted=evicted - before[1], **self._energy_j(),
        ))  # fmt: skip
        self.simulation.over = self.parts.server.finished
        self.report()

    def report(self) -> None:
        """Call the progress function, if there is one."""
        if self._progress is None:
            return
        known = (one.quality for one in reversed(self.rounds) if one.quality is not None)
        learned, evicted = self.ledger.rounds.count_examples()
        self._progress(Progress(
            rounds=len(self.rounds), of_rounds=self.fleet.job.most_rounds,
            virtual_s=self.simulation.now_s, quality=next(known, None),
            workers=self.fleet.workers, asleep=len(self.simulation.asleep),
            selected=sum(row.training for row in self.parts.server.workers.values()),
            learned=learned, evicted=evicted, **self._energy_j(),
            last=self.rounds[-1] if self.rounds else None,
        ))  # fmt: skip

    def _energy_j(self) -> dict[str, float]:
        parts = zip(*(device.parts_j for device in self.parts.devices.values()), strict=True)
        return dict(zip(("compute_j", "operating_j", "radio_j"), map(sum, parts), strict=True))

    def erase(self, request: str, entries: Sequence[bytes], requested_by: str) -> None:
        """Ask all workers to forget; the same request again changes nothing.

        Parameters
        ----------
        request : str
            Name of the request.
        entries : sequence of bytes
            Keyed hashes, as for `Server.erase`.
        requested_by : str
            Who requests it.
        """
        step = self.parts.server.erase(request, entries, self.simulation.now_s, requested_by)
        self.simulation.send("", step)

    # -- until the end --------------------------------------------------------------------------

    def pump(
        self,
        stopped: Callable[[], bool] = lambda: False,
        after_step: Callable[[], None] = lambda: None,
    ) -> None:
        """Advance virtual time until the run ends, or until `stopped` returns True.

        Parameters
        ----------
        stopped : callable
            Function without arguments that returns whether to stop.
        after_step : callable
            Function that is called after every time to live; it may save the `state`.
        """
        while not self.reason_to_end() and not stopped():
            self.advance(stopped)
            self.report()
            after_step()

    def advance(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Advance virtual time by the time to live of a round.

        Parameters
        ----------
        stopped : callable
            Function without arguments that returns whether to stop.
        """
        job = self.fleet.job
        until_s = min(self.simulation.now_s + job.terms.ttl_s, job.max_h * 3600.0)
        self.simulation.run(until_s, stopped)

    def reason_to_end(self) -> str:
        """Return why the run is over; empty if it is not."""
        now_s, job = self.simulation.now_s, self.fleet.job
        if self.parts.server.finished:
            return "all rounds" if len(self.rounds) >= job.terms.rounds else "converged"
        if self._nothing_left():
            return "no examples left"
        if now_s - self._opened_at_s > _STALLED_S + job.terms.ttl_s:
            return "no worker could be woken"
        return "max_h reached" if now_s >= job.max_h * 3600.0 else ""

    def _nothing_left(self) -> bool:
        left = any(self.left.values()) or self.ledger.open_round() is not None or self.waiting()
        return not left

    def waiting(self) -> int:
        """Return the number of examples that wait to be learned."""
        return sum(journal.count(State.WAITING) for journal in self.parts.journals.values())

    def close(self) -> None:
        """Close ledger and journals."""
        for database in self._databases().values():
            database.close()

    def _databases(self) -> dict[str, Ledger | Journal]:
        return {SERVER: self.ledger, **self.parts.journals}

    @property
    def size_bytes(self) -> int:
        """Size of ledger and journals."""
        return sum(database.size_bytes for database in self._databases().values())

    # -- resuming -------------------------------------------------------------------------------

    def state(self) -> RunState:
        """Return the state between two events."""
        return RunState(
            fleet=self._fingerprint(),
            owners_key=self.parts.owners_key,
            simulation=self.simulation.fleet_state(),
            contents={name: one.content for name, one in self._databases().items()},
            devices={name: one.state() for name, one in self.parts.devices.items()},
            rounds=self.rounds,
            left=self.left,
            arrivals=self._taken,
            opened_at_s=self._opened_at_s,
            wake_ups_of_everyone=self.wake_ups_of_everyone,
        )

    def restore(self, state: RunState) -> None:
        """Resume from a state of the same fleet.

        Parameters
        ----------
        state : RunState
            Result of `state`.

        Raises
        ------
        BadInput
            If the job, the data or the base changed since.
        """
        if state.fleet != self._fingerprint():
            raise BadInput(
                "the job, its data or its base model changed since the run was interrupted; "
                "undo the change, or start again with --restart"
            )
        for name, one in self._databases().items():
            one.replace_content(state.contents[name]())
        for name in self.parts.journals:
            self.parts.devices[name].restore(state.devices[name])
            _skip(self._streams[name], self.left[name] - state.left[name])
            _skip(self._times[name], state.arrivals[name])
        self.parts.server.reload()
        self.simulation.restore_fleet(state.simulation)
        self.simulation.over = self.parts.server.finished
        self.rounds, self.left, self._taken = list(state.rounds), state.left, state.arrivals
        self._examples = sum(r.learned for r in self.rounds), sum(r.evicted for r in self.rounds)
        self._opened_at_s, self.wake_ups_of_everyone = state.opened_at_s, state.wake_ups_of_everyone


def _skip(things: Iterator[object], count: int) -> None:
    next(islice(things, count, count), None)
