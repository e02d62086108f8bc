"""A run of a fleet: real server, workers and learners under a virtual clock, to its outcome."""

from __future__ import annotations

import hashlib
import random
import secrets
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from dealfl.errors import BadBytes, BadInput, DealError, argument
from dealfl.exact import Statistics, prefer_loops
from dealfl.jobs import Reading, Records
from dealfl.learners import StoredRecord, cycles_of, statistics_of
from dealfl.masks import find_bits
from dealfl.power import OwnTraffic, PhoneSpending, Radio, Spent
from dealfl.server import Ledger, Server
from dealfl.server.selection import make_selector
from dealfl.simulate.crew import Crew
from dealfl.simulate.devices import (
    BASE_LOADS,
    Accounting,
    Devices,
    DeviceState,
    SimulatedDevice,
    SpeedMeter,
)
from dealfl.simulate.fleet import FleetSpec
from dealfl.simulate.outcome import (
    Outcome,
    Participant,
    Progress,
    Round,
    find_better_clock,
    fleet_energy,
)
from dealfl.simulate.simulation import (
    SERVER,
    Arrives,
    FleetSimulation,
    FleetState,
    Network,
    Recalled,
)
from dealfl.simulate.split import Split, split_examples
from dealfl.simulate.traffic import Askers, Traffic
from dealfl.simulate.vault import Vault, VaultState
from dealfl.storage import replace_file
from dealfl.worker import SCHEMES, Device, Identity, Journal, PhoneMeter, Record, State, Worker

_MAGIC = b"DEALRUN\x04"
_MAX_BYTES = 1 << 31
_STALLED_S = 2 * 86_400.0  # energy budgets start again every 24 hours
_MAX_REPEATS = 200
_REPORT_EVERY_S = 600.0  # virtual time
_SAMPLED_RECORDS = 8
_MANY_OPERATIONS = 1e9  # about a second of numpy
_CENTRAL_RECORDS = 1 << 10  # that the central model learns at once
_VAULT = "keyholder"  # no name of a worker
_PARTS = ("compute_j", "operating_j", "radio_j")

Report = Callable[[Progress], None]
_device_of = cache(Device)  # the same object for all phones alike


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run between two events."""

    fleet: str  # fingerprint of the fleet, its data and its base
    owners_key: bytes
    simulation: FleetState
    contents: dict[str, Any]  # functions that return the content of the ledger and each journal
    devices: dict[str, DeviceState]
    rounds: list[Round]
    left: dict[str, int]  # examples that have not reached each worker yet
    arrivals: dict[str, int]  # arrival times drawn for each worker
    opened_at_s: float
    wake_ups_of_everyone: int
    vault: VaultState | None = None  # of a fleet under masks

    def write(self, path: Path) -> None:
        """Write the state to a file atomically: after a crash, the old or the new state exists.

        Only one of the contents is in memory at a time.
        """
        replace_file(path, self._parts())

    def _parts(self) -> Iterator[bytes]:
        """Yield the file: compressed records, each after its length, and their hash."""
        hashed, packer = hashlib.sha256(), zlib.compressobj(1)
        head = msgspec.structs.replace(self, contents=dict.fromkeys(self.contents))
        yield _MAGIC
        for content in (lambda: msgspec.msgpack.encode(head), *self.contents.values()):
            record = content()
            packed = packer.compress(len(record).to_bytes(8, "little")) + packer.compress(record)
            hashed.update(packed)
            yield packed
        hashed.update(end := packer.flush())
        yield end + hashed.digest()

    @classmethod
    def read(cls, path: Path) -> RunState:
        """Read the state in a file."""
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BadInput(
                f"{path} cannot be read ({error.strerror}); start again with "
                f"{argument('restart', True)}"
            ) from error
        body = memoryview(content)[len(_MAGIC) : -32]
        if content[: len(_MAGIC)] + content[-32:] != _MAGIC + hashlib.sha256(body).digest():
            raise BadBytes(
                f"{path} is damaged or has another version; start again with "
                f"{argument('restart', True)}"
            )
        head, *contents = _split(memoryview(zlib.decompressobj().decompress(body, _MAX_BYTES)))
        try:
            state = msgspec.msgpack.decode(head, type=cls)
        except msgspec.MsgspecError as error:
            raise BadBytes(
                f"{path} cannot be used ({error}); start again with {argument('restart', True)}"
            ) from error
        named = zip(state.contents, contents, strict=True)
        return msgspec.structs.replace(
            state, contents={n: partial(bytes, content) for n, content in named}
        )


def _split(plain: memoryview) -> Iterator[memoryview]:
    """Yield records that follow their lengths."""
    while plain:
        end = 8 + int.from_bytes(plain[:8], "little")
        yield plain[8:end]
        plain = plain[end:]


class FleetRun:
    """A run of a fleet, from its start or a saved state to its end."""

    def __init__(
        self,
        fleet: FleetSpec,
        ledger: Ledger,
        progress: Report | None = None,
        base: Statistics | None = None,
        owners_key: bytes | None = None,
        split: Split | None = None,
        vault: VaultState | None = None,
        most_awake: int | None = None,
    ) -> None:
        self.fleet = fleet
        self.ledger = ledger
        self.base = base
        self.split = split or split_fleet(fleet)
        self._fingerprint = cache(partial(self.split.fingerprint, fleet.fingerprint, base))
        self._progress = progress
        self._owners_key = owners_key or secrets.token_bytes(32)
        groups = [group for group in fleet.devices for _ in range(group.count)]
        width = len(str(len(groups)))
        self.groups = {f"w{number:0{width}}": group for number, group in enumerate(groups, 1)}
        self.vault = self._make_vault(vault)
        # of each group of phones: a training leaves nothing behind in it
        self._spendings: dict[int, PhoneSpending] = {}
        self.devices = {name: self._make_device(name) for name in self.groups}
        self._spent_j = np.zeros((len(_PARTS), len(self.groups)))  # as `_energy_j` read it last
        self._indices = {name: index for index, name in enumerate(self.groups)}
        self.workers = Crew(
            self.groups, self._identify, self._make_worker, fleet.job.seed, most_awake
        )
        self.server = Server(
            fleet.job.name,
            self.split.make,
            ledger,
            fleet.job.server_rules,
            make_selector(fleet.job.selector, fleet.selection),
            None if self.vault is None else self.vault.make_privacy(),
        )
        self.rounds: list[Round] = []
        self.wake_ups_of_everyone = 0
        self._opened_at_s = 0.0
        self._examples = (0, 0)  # learned and evicted, until the last round
        streams = dict(zip(self.workers, self.split.streams, strict=True))
        self._initial = {
            name: round(fleet.arrival.initial_share * len(stream))
            for name, stream in streams.items()
        }
        orders = {name: self._order(name, len(stream)) for name, stream in streams.items()}
        self._streams = Recalled(lambda name, first: _ordered(streams[name], orders[name], first))
        self._changed = split_fleet(fleet, changed=True) if fleet.change.at_h else None
        later = dict(
            zip(self.workers, self._changed.streams if self._changed else (), strict=False)
        )
        self._changed_streams = Recalled(
            lambda name, first: _ordered(later[name], orders[name], first)
        )
        self.left = {name: len(order) for name, order in orders.items()}
        self._left = sum(self.left.values())
        self._times = Recalled(self._arrivals)
        asks = fleet.radio.uses_per_day
        zipf = fleet.radio.uses_zipf
        self.simulation = FleetSimulation(
            self.server,
            self.workers.values(),
            self._make_network(),
            dropout_share=fleet.faults.dropout_share,
            seed=fleet.job.seed,
            opened=self._note_round,
            published=self._note_version,
            traffic=Traffic(
                {name: device.radio for name, device in self.devices.items() if device.radio},
                announced=fleet.job.selector != "everyone",
            ),
            keys=fleet.radio,
            askers={
                name: Askers((owner for owner, _ in stream), zipf, f"{fleet.job.seed}/{name}")
                for name, stream in streams.items()
                if len(stream) and asks
            },
            keyholder=None if self.vault is None else self.vault.keyholder,
            awake=self._awake,
        )
        self.simulation.set_action(Arrives, self._take_arrival)
        for name in self.workers:
            self.simulation.follow(name)

    def _arrivals(self, name: str, first: int) -> Iterator[tuple[float, int]]:
        times = self.fleet.arrival.times(self._draw(f"arrival/{name}"))
        return islice(times, first, None)

    def _awake(self, name: str, first: int) -> Iterator[tuple[float, float]]:
        draw = self._draw(f"awake/{name}")
        return islice(self.fleet.availability.awake(self._indices[name], draw), first, None)

    def _order(self, name: str, count: int) -> Sequence[int]:
        """Return the order in which the examples of a worker come, again and again if they do."""
        fleet = self.fleet
        if not fleet.arrival.is_endless or not count:
            return range(count)
        until_s = 3600.0 * fleet.job.max_h
        times = takewhile(lambda each: each[0] <= until_s, self._arrivals(name, 0))
        arriving = (batch for _, batch in times)
        total = self._initial[name] + sum(arriving)
        order = list(range(count))
        draw = self._draw(f"recurs/{name}")
        while len(order) < total:
            order += draw.sample(range(count), count)
        return order[:total]

    # -- its parts ------------------------------------------------------------------------------

    def _draw(self, purpose: str) -> random.Random:
        """Return the seeded random generator of a purpose."""
        return random.Random(f"{self.fleet.job.seed}/{purpose}")  # noqa: S311

    def _make_vault(self, state: VaultState | None) -> Vault | None:
        keys, job = self.fleet.privacy, self.fleet.job
        if not keys.keyholder:
            return None
        entry = self.split.make().max_entry
        bits = find_bits(entry, len(self.groups), job.rules.max_examples)
        return Vault(keys, job.name, self.groups, bits, state)

    def _make_network(self) -> Network:
        faults = self.fleet.faults
        return Network(
            faults.loss,
            faults.repetition,
            faults.min_delay_s,
            faults.max_delay_s,
            self.fleet.job.seed,
        )

    def _identify(self, name: str) -> Identity:
        device = self.devices[name]
        secret = b""
        if self.fleet.worker.validation_share:
            secret = self._draw(f"held back/{name}").randbytes(32)  # the same for the same seed
        masker = None if self.vault is None else self.vault.make_masker(name)
        least = self.groups[name].min_battery
        return Identity(name, device, device, device, least, secret, masker)

    def _make_worker(self, identity: Identity, journal: Journal) -> Worker:
        job = self.fleet.job
        return Worker(
            job.name,
            identity.name,
            self.split.make,
            journal,
            identity.meter,
            key=self._owners_key,
            secret=identity.secret,
            scheme_name=job.scheme,
            forget_fraction=job.forget_fraction,
            announce_every_s=self.fleet.faults.announce_every_s,
            retry_after_s=job.retry_after_s,
            device=identity.device,
            min_battery=identity.min_battery,
            sleeps=job.first_sleep,
            min_examples=job.rules.min_examples_per_update,
            enough=job.rules.min_waiting,
            notices_traffic=self.fleet.radio.own_per_hour > 0,
            clock=identity.clock,
            keys=self.fleet.worker,
            masker=identity.masker,
        )

    def _make_device(self, name: str) -> SimulatedDevice:
        group = self.groups[name]
        faults = self.fleet.faults
        share = group.charging_share
        charging = share > 0 and self._draw(f"charging/{name}").random() < share
        delays = (
            partial(self._draw, f"straggler/{name}") if faults.straggler_share else random.Random
        )
        return SimulatedDevice(
            _device_of(group.device, group.capacity_j, group.battery, charging),
            self._make_meter(group),
            idle_w=group.idle_w,
            charging_w=group.charging_w,
            straggler_share=faults.straggler_share,
            straggler_factor=faults.straggler_factor,
            delays=delays,
            radio=self._make_radio(name, group),
        )

    def _make_meter(self, group: Devices) -> Accounting:
        if group.profile is None:
            return SpeedMeter(group.operations_per_s, group.joules_per_operation, group.wake_j)
        spending = self._spendings.get(id(group))
        if spending is None:
            laws = cycles_of(self.fleet.learner)
            cycles = laws.of_resident if self.fleet.worker.is_resident else laws.of_worker
            base = BASE_LOADS[group.base_load]
            spending = PhoneSpending(group.profile, cycles, base, group.make_clock())
            self._spendings[id(group)] = spending
        return PhoneMeter(spending)

    def _make_radio(self, name: str, group: Devices) -> Radio | None:
        keys = self.fleet.radio
        if group.profile is None:
            return None
        profile = group.profile
        own = None
        if keys.own_per_hour:
            seed = f"{self.fleet.job.seed}/{name}"
            own = OwnTraffic(keys.own_per_hour, profile.link.tail_s, seed, keys.own_scale)
        return Radio(
            profile, keep_alive_s=keys.keep_alive_s, handshake_bytes=keys.handshake_bytes, own=own
        )

    # -- new examples ---------------------------------------------------------------------------

    def start(self) -> None:
        """Give the server its base model, and every worker its initial examples."""
        if self.base is not None:
            self.server.start_from(self.base)
        for name in self.workers:
            self._arrive(name, self._initial[name])
            self._expect(name)
            self.simulation.expect_use(name)
            self.simulation.expect_own_traffic(name)
            self.simulation.traffic.state.wanted.add(name)

    def _arrive(self, name: str, count: int) -> None:
        rows = self._streams.take(name, count)
        if self._changed is not None:
            changed = self._changed_streams.take(name, count)
            rows = changed if self._is_changed else rows
        self.left[name] -= len(rows)
        self._left -= len(rows)
        if rows:
            self.simulation.traffic.arrive(name, len(rows), self.simulation.now_s)
            self.workers[name].ingest(rows)
            self.simulation.wake(name, self.simulation.now_s)

    @property
    def _is_changed(self) -> bool:
        return 0.0 < self.fleet.change.at_h * 3600.0 <= self.simulation.now_s

    def quality(self) -> float | None:
        """Return the quality of the server's model on the test set of the present world."""
        split = self._changed if self._changed and self._is_changed else self.split
        return split.quality(self.server.model)

    def _expect(self, name: str) -> None:
        if self.simulation.healed or not self.left[name]:
            return
        for moment_s, count in self._times.take(name, 1):
            self.simulation.schedule(moment_s, Arrives(name, count))

    def _take_arrival(self, event: Arrives) -> None:
        if not self.simulation.healed:
            self._arrive(event.name, event.count)
            self._expect(event.name)

    # -- rounds ---------------------------------------------------------------------------------

    def _note_round(self) -> None:
        self._note_closed()
        self._opened_at_s = self.simulation.now_s
        self.wake_ups_of_everyone += self.server.tally.able
        if self.fleet.arrival.each_round and not self.simulation.healed:
            for name in self.workers:
                self._arrive(name, self.fleet.arrival.each_round)
        self.report()

    def _note_version(self) -> None:
        if not self.simulation.healed and self._note_closed():
            self._opened_at_s = self.simulation.now_s
            self.simulation.over = self.server.finished
            self.report()

    def _note_closed(self) -> bool:
        """Note the rounds that the ledger closed since the last time; return whether any did.

        Several can close at once. The examples since the last time count in the first of them.
        """
        closed = self.ledger.reader.closed_rounds(after=len(self.rounds))
        every = self.fleet.job.evaluate_every
        for row in closed:
            evaluated = row.number % every == 0 and not self.simulation.healed
            figures = self.ledger.reader.round_figures(row.number)
            before = self._examples
            tally = self.server.tally
            self._examples = learned, evicted = tally.learned, tally.evicted
            self.rounds.append(
                Round(
                    number=row.number,
                    reason=row.reason,
                    duration_s=row.duration_s,
                    closed_at_s=row.closed_s,
                    quality=self.quality() if evaluated else None,
                    able=figures.eligible,
                    selected=figures.selected,
                    replied=figures.replied,
                    learned=learned - before[0],
                    evicted=evicted - before[1],
                    **self._energy_j(),
                )
            )
        return bool(closed)

    def finished_rounds(self) -> tuple[Round, ...]:
        """Return the closed rounds, with all replies that arrived in the end."""
        self._note_closed()
        figures = self.ledger.reader.round_figures
        return tuple(replace(row, replied=figures(row.number).replied) for row in self.rounds)

    def report(self) -> None:
        """Call the progress function, if there is one."""
        if self._progress is None:
            return
        qualities = (
            closed.quality for closed in reversed(self.rounds) if closed.quality is not None
        )
        tally = self.server.tally
        self._progress(
            Progress(
                rounds=len(self.rounds),
                of_rounds=self.fleet.job.rules.rounds,
                of_h=self.fleet.job.ends_at_h,
                virtual_s=self.simulation.now_s,
                quality=next(qualities, None),
                workers=self.fleet.workers,
                asleep=len(self.simulation.asleep),
                selected=tally.training,
                learned=tally.learned,
                evicted=tally.evicted,
                **self._energy_j(),
                last=self.rounds[-1] if self.rounds else None,
            )
        )

    def _energy_j(self) -> dict[str, float]:
        """Return the joules of all devices; only those are read that may have spent some."""
        touched = self.simulation.touched
        for name in touched & self._indices.keys():
            self._spent_j[:, self._indices[name]] = self.devices[name].parts_j
        touched.clear()
        totals = np.add.accumulate(self._spent_j, axis=1)[:, -1]  # in order: always the same bits
        return dict(zip(_PARTS, totals.tolist(), strict=True))

    def erase(self, request: str, entries: Sequence[bytes], requested_by: str) -> None:
        """Ask all workers to forget; the same request again changes nothing."""
        step = self.server.erase(request, entries, self.simulation.now_s, requested_by)
        self.simulation.send("", step)

    # -- until the end --------------------------------------------------------------------------

    def pump(
        self,
        stopped: Callable[[], bool] = lambda: False,
        after_step: Callable[[], None] = lambda: None,
    ) -> None:
        """Advance virtual time until the run ends, or until `stopped` returns True."""
        reported_s = self.simulation.now_s
        while not self.reason_to_end() and not stopped():
            self.advance(stopped)
            if self.simulation.now_s >= reported_s + _REPORT_EVERY_S:  # rounds are reported, too
                reported_s = self.simulation.now_s
                self.report()
            after_step()

    def advance(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Advance virtual time by the time to live of a round."""
        job = self.fleet.job
        until_s = min(self.simulation.now_s + job.rules.ttl_s, job.max_h * 3600.0)
        self.simulation.run(until_s, stopped)

    def reason_to_end(self) -> str:
        """Return why the run is over; empty if it is not."""
        now_s, job = self.simulation.now_s, self.fleet.job
        if self.server.finished:
            return "all rounds" if len(self.rounds) >= job.rules.rounds else "converged"
        if self._nothing_left():
            return "no examples left"
        if now_s - self._opened_at_s > _STALLED_S + job.rules.ttl_s:
            return "no worker could be woken"
        return "max_h reached" if now_s >= job.max_h * 3600.0 else ""

    def _nothing_left(self) -> bool:
        is_open = self.ledger.rounds.find_open() is not None
        return not (self._left or is_open or self.workers.waiting)

    def close(self) -> None:
        """Close ledger and journals."""
        self.ledger.close()
        self.workers.close()
        if self.vault is not None:
            self.vault.journal.close()

    @property
    def size_bytes(self) -> int:
        """Size of ledger and journals."""
        vault = 0 if self.vault is None else self.vault.journal.size_bytes
        workers = sum(member.size_bytes for member in self.workers.values())
        return self.ledger.size_bytes + workers + vault

    # -- resuming -------------------------------------------------------------------------------

    def state(self) -> RunState:
        """Return the state between two events."""
        return RunState(
            fleet=self._fingerprint(),
            owners_key=self._owners_key,
            simulation=self.simulation.fleet_state(),
            contents={SERVER: self.ledger.content}
            | {name: member.content for name, member in self.workers.items()}
            | ({} if self.vault is None else {_VAULT: self.vault.journal.content}),
            devices={name: device.state() for name, device in self.devices.items()},
            rounds=self.rounds,
            left=self.left,
            arrivals=self._times.taken,
            opened_at_s=self._opened_at_s,
            wake_ups_of_everyone=self.wake_ups_of_everyone,
            vault=None if self.vault is None else self.vault.state,
        )

    def restore(self, state: RunState) -> None:
        """Resume from a state of the same fleet."""
        if state.fleet != self._fingerprint():
            raise BadInput(
                "the job, its data or its base model changed since the run was interrupted; "
                f"undo the change, or start again with {argument('restart', True)}"
            )
        self.ledger.replace_content(state.contents[SERVER]())
        if self.vault is not None:
            self.vault.journal.replace_content(state.contents[_VAULT]())
        for name in self.workers:
            self.workers.restore(name, state.contents[name]())
            self.devices[name].restore(state.devices[name])
        arrived = {name: self.left[name] - state.left[name] for name in self.workers}
        self._streams.resume(arrived)
        self._changed_streams.resume(arrived)
        self.server.reload()
        self.simulation.restore_fleet(state.simulation)
        self.simulation.over = self.server.finished
        self.rounds = list(state.rounds)
        self.left = state.left
        self._left = sum(self.left.values())
        self._times.resume(state.arrivals)
        self.simulation.touched.update(self.workers)
        self._examples = sum(r.learned for r in self.rounds), sum(r.evicted for r in self.rounds)
        self._opened_at_s = state.opened_at_s
        self.wake_ups_of_everyone = state.wake_ups_of_everyone


def _ordered(stream: Records, order: Sequence[int], first: int) -> Iterator[tuple[str, bytes]]:
    """Yield records in an order in which they may recur, without the first ones."""
    if isinstance(order, range):
        yield from stream[first:]
        return
    records = list(stream)
    for index in islice(order, first, None):
        yield records[index]


# -- from start to end ---------------------------------------------------------------------------


def split_fleet(
    fleet: FleetSpec, reading: Reading | None = None, *, changed: bool = False
) -> Split:
    """Split the examples of a fleet, or those after a change; they are read now, if not before."""
    change = fleet.change if changed else None
    return split_examples(fleet.plan, fleet.data, fleet.workers, fleet.job.seed, reading, change)


def run_fleet(
    fleet: FleetSpec,
    ledger: str | Path = ":memory:",
    progress: Report | None = None,
    split: Split | None = None,
) -> Outcome:
    """Run a fleet to its end. The same fleet and seed give the same outcome."""
    with closing(start_run(fleet, ledger=ledger, progress=progress, split=split)) as run:
        run.pump()
        return finish(run)


def start_run(
    fleet: FleetSpec,
    state: RunState | None = None,
    *,
    ledger: str | Path = ":memory:",
    progress: Report | None = None,
    base: Statistics | None = None,
    owners_key: bytes | None = None,
    split: Split | None = None,
    most_awake: int | None = None,
) -> FleetRun:
    """Return a run at its start, or at a saved state; its examples may be split already."""
    key = owners_key if state is None else state.owners_key
    vault = None if state is None else state.vault
    run = FleetRun(fleet, Ledger(ledger), progress, base, key, split, vault, most_awake)
    if _plan_operations(run) >= _MANY_OPERATIONS:
        prefer_loops()
    if state is None:
        run.start()
    else:
        run.restore(state)
    return run


def _plan_operations(run: FleetRun) -> float:
    """Return an estimate of the multiply-adds of all trainings, from those of a few records."""
    streams = run.split.streams
    sample = [
        StoredRecord(owner.encode(), body)
        for owner, body in islice(max(streams, key=len), _SAMPLED_RECORDS)
    ]
    try:
        operations = statistics_of(run.split.make, sample)[1].operations
    except DealError:  # a record that the worker will quarantine
        return 0.0
    job = run.fleet.job
    trainings = job.most_rounds * job.rules.selected / run.fleet.workers
    if not SCHEMES[job.scheme].from_scratch:
        trainings = 1.0
    return operations / max(len(sample), 1) * sum(map(len, streams)) * trainings


def finish(run: FleetRun) -> Outcome:
    """End a run: open no more rounds, deliver all updates, and return the outcome."""
    ended = run.reason_to_end() or "stopped"
    virtual_s = run.rounds[-1].closed_at_s if run.rounds else run.simulation.now_s
    radios = [device.radio for device in run.devices.values() if device.radio]
    for radio in radios:
        radio.keep_alive(run.simulation.now_s)
    _deliver_all(run)
    server, held = run.server, _Held(run)
    spent = [device.spent for device in run.devices.values()]
    return Outcome(
        job=run.fleet.job.name,
        scheme=run.fleet.job.scheme,
        learner=run.fleet.learner,
        seed=run.fleet.job.seed,
        workers=run.fleet.workers,
        places=run.fleet.job.rules.selected,
        min_waiting=run.fleet.job.rules.min_waiting,
        changed_at_s=3600.0 * run.fleet.change.at_h,
        rounds=run.finished_rounds(),
        participants=_participants(run, held),
        ended=ended,
        metric=run.split.metric,
        quality=run.quality(),
        tested=run.split.tested,
        trivial=run.split.trivial,
        selector=run.fleet.job.selector,
        learned=sum(worker.learned for worker in held.workers.values()),
        evicted=held.evicted,
        quarantined=len(run.split.quarantine) + held.quarantined,
        first_quarantined=_first_quarantined(run) or held.first_quarantined,
        not_learned=sum(run.left.values()) + run.workers.waiting,
        updates=sum(row.counted for row in server.workers.values()),
        energy=fleet_energy(
            spent,
            run.wake_ups_of_everyone,
            [radio.traffic for radio in radios],
            _better_clocks(run, spent),
        ),
        dip_at=server.model.settings["n_features"] if server.model.dips_at_features else 0,
        capacity_j=sum(group.count * group.capacity_j for group in run.fleet.devices),
        delays=run.simulation.traffic.delays,
        unmet_guarantees=server.over_promised,
        prediction_error=server.predictions.median_error,
        law_error=server.predictions.median_law_error,
        virtual_s=virtual_s,
        digest=server.model.digest(),
        central_digest=held.digest(),
        notes=(*run.split.notes, *_note_unopened(run)),
        recovered=held.recovered,
        alarms=held.alarms,
        single_updates=sum(
            selection.learned + selection.evicted == 1
            for selection in run.ledger.reader.selections()
        ),
    )


def _better_clocks(run: FleetRun, spent: Sequence[Spent]) -> dict[str, tuple[float, float]]:
    """Return, by kind of phone, a fixed clock that dominates the one that the phones had."""
    clocks: dict[str, tuple[float, float]] = {}
    each = iter(spent)
    for group in run.fleet.devices:
        total = sum(islice(each, group.count), Spent())
        if group.profile is not None and total.cycles:
            better = find_better_clock(group.profile, BASE_LOADS[group.base_load], total)
            clocks |= {group.device: better} if better else {}
    return clocks


def _first_quarantined(run: FleetRun) -> str:
    """Return the place of the first quarantined row; empty if there is none."""
    first = run.split.quarantine.first
    return first[0].location if first else ""


def _deliver_all(run: FleetRun) -> None:
    """Wait until every update has its receipt and is counted."""
    run.server.drain()
    run.simulation.heal()
    for _ in range(_MAX_REPEATS):
        due_s = max(worker.next_send_s or 0.0 for worker in run.workers.values())
        run.simulation.run(max(due_s, run.simulation.now_s + run.fleet.job.rules.ttl_s))
        if _is_all_delivered(run):
            return
    raise AssertionError("an update has no receipt although no message is lost")


def _is_all_delivered(run: FleetRun) -> bool:
    if run.ledger.rounds.find_open() is not None:
        return False
    if any(worker.has_outgoing for worker in run.workers.values()):
        return False
    if run.vault is None:
        return not run.ledger.updates.waiting()
    return run.ledger.reader.masks().request is None  # a few may wait for a cohort


def _note_unopened(run: FleetRun) -> list[str]:
    """Return how many updates of a fleet under masks wait for a cohort."""
    count = len(run.server.list_unopened())
    cohort = run.fleet.privacy.cohort
    return [f"{count} updates that wait for fresh examples of {cohort} workers"] if count else []


def _participants(run: FleetRun, held: _Held) -> tuple[Participant, ...]:
    figures = {worker.row.name: worker for worker in run.ledger.reader.workers()}
    job_theta = Fraction(run.fleet.job.forget_fraction)

    def participant(name: str, device: SimulatedDevice) -> Participant:
        spent = device.spent
        chosen = figures.get(name)
        own = held.workers[name]
        return Participant(
            name=name,
            device=run.groups[name].device,
            selected=chosen.selected if chosen else 0,
            replied=chosen.replied if chosen else 0,
            learned=own.learned,
            held=own.held,
            compute_j=spent.compute.total_j,
            operating_j=spent.operating.total_j,
            radio_j=spent.radio.total_j,
            by_cause_j=spent.whole.by_cause_j,
            battery=device(run.simulation.now_s).battery,
            forget_fraction=float(job_theta if own.theta is None else own.theta),
            radio=run.groups[name].radio if device.radio else "",
            delay_s=run.simulation.traffic.mean_delay_s(name),
        )

    return tuple(participant(name, device) for name, device in run.devices.items())


class _HeldBy(NamedTuple):
    """What a journal says of its worker at the end."""

    learned: int  # records, so far
    held: int
    theta: Fraction | None


class _Held:
    """What all journals hold at the end of a run, read one after the other.

    A model of the base and all learned records is trained from them on one computer.
    """

    def __init__(self, run: FleetRun) -> None:
        self._make = run.split.make
        self._central = self._make()
        self._others = [] if run.base is None else [run.base]  # that no journal has
        if run.vault is not None:
            unopened = run.server.list_unopened()
            self._others.append(-run.vault.unmask(unopened, self._central, run.server.epoch))
        self._records: list[Record] = []  # that the central model lacks
        self.workers: dict[str, _HeldBy] = {}
        self.evicted = self.recovered = self.alarms = self.quarantined = 0
        self.first_quarantined = ""
        for name, journal in run.workers.journals():
            self._add(name, journal)

    def _add(self, name: str, journal: Journal) -> None:
        state = journal.state
        learned = journal.records(State.LEARNED)
        self.workers[name] = _HeldBy(state.learned, len(learned), state.theta)
        self.evicted += state.forgotten
        self.recovered += state.recovered
        self.alarms += state.drift.alarms
        quarantined = journal.quarantined()
        self.quarantined += len(quarantined)
        if quarantined and not self.first_quarantined:
            self.first_quarantined = f"{name}: {quarantined[0][1]}"
        self._records += learned
        # an owner of histories may be on several workers: all of them are learned at once
        if len(self._records) >= _CENTRAL_RECORDS and not self._central.whole_owners:
            self._learn()

    def _learn(self) -> None:
        self._central.merge(statistics_of(self._make, self._records)[0])
        self._records = []

    def digest(self) -> str:
        """Return the digest of training on one computer."""
        if not self._central.whole_owners:
            self._learn()
            for statistics in self._others:
                self._central.merge(statistics)
            return self._central.digest()
        whole = statistics_of(self._make, self._records)[0]  # smaller than a second model
        return sum(self._others, whole).digest()
