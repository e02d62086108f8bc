"""The parts of a fleet: server, workers, and their simulated devices with meter and battery."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import msgspec

from dealfl.learners import cycles_of
from dealfl.power import Energy, PhoneSpending, Radio, Spent, Traffic
from dealfl.server import Ledger, Server
from dealfl.server.selection import make_selector
from dealfl.simulate.device_groups import BASE_LOADS, Devices
from dealfl.simulate.fleet import Faults, Fleet
from dealfl.simulate.lossy_network import Draws, Network
from dealfl.simulate.split import Split
from dealfl.worker import Cost, Device, Done, Journal, Meter, PhoneMeter, Worker

__all__ = ["DeviceState", "Parts", "SimulatedDevice", "SpeedMeter", "build", "make_drawer"]

Drawer = Callable[[str], random.Random]


class Accounting(Meter, Protocol):
    """A meter that adds up the spent energy."""

    spent: Spent  # so far

    def signal(self, signal: int, /) -> None:
        """Take a worker's signal to the clock."""


@dataclass(slots=True)
class SpeedMeter:
    """A model of the cost of work from constant speed and energy per operation.

    Examples
    --------
    >>> from dealfl.learners import Work
    >>> meter = SpeedMeter(operations_per_s=1e6, joules_per_operation=1e-6, wake_j=0.5)
    >>> meter.cost(Done(learned=Work(2_000_000, 0)))
    Cost(elapsed_s=2.0, energy_j=2.5, source='modelled', transfer_s=0.0, is_measured=False)
    """

    operations_per_s: float
    joules_per_operation: float
    wake_j: float = 0.0
    spent: Spent = field(default_factory=Spent, init=False)

    def start(self) -> None:
        """Do nothing; a model needs no start."""

    def signal(self, signal: int, /) -> None:
        """Do nothing; the speed is constant."""

    def cost(self, done: Done) -> Cost:
        """Return the cost of work; forgetting costs as much as learning."""
        operations, review = done.work.operations, self._compute(sum(done.reviewed))
        compute = self._compute(operations) + review
        radio = Energy(awake_j=self.wake_j if done.wakes else 0.0)
        scratch = done.learned.operations * done.held / done.examples if done.examples else 0.0
        self.spent = self.spent + Spent(
            compute=compute,
            operating=compute,
            radio=radio,
            fastest=compute + radio,
            fastest_compute_j=compute.total_j,
            scratch_j=self._compute(scratch).total_j,
            operations=operations,
            wake_ups=int(done.wakes),
            pages_in=done.pages_in,
            pages_out=done.pages_out,
            refactorisations=done.refactorisations,
            review_j=review.total_j,
        )
        return Cost(compute.elapsed_s, compute.total_j + radio.total_j)

    def _compute(self, operations: float) -> Energy:
        elapsed_s = operations / self.operations_per_s
        return Energy(cpu_j=operations * self.joules_per_operation, elapsed_s=elapsed_s)


class DeviceState(msgspec.Struct, frozen=True):
    """The spent energy, the battery, the random generator, and the traffic."""

    spent: Spent
    battery: tuple[float, float, float]
    draws: Draws
    traffic: Traffic


class SimulatedDevice:
    """A worker's device: a meter of the cost of training, and a battery.

    On a charger, the battery charges and training does not drain it. `delays` draws which trainings
    take `straggler_factor` times as long, with the same energy. With a `radio`, all its traffic
    counts; the meter only predicts that of a training.

    Examples
    --------
    >>> device = SimulatedDevice(Device("phone", 100.0), SpeedMeter(1e6, 1e-6), idle_w=0.5)
    >>> device(now_s=20.0).battery
    0.9
    """

    def __init__(
        self,
        device: Device,
        meter: Accounting,
        *,
        idle_w: float = 0.0,
        charging_w: float = 0.0,
        faults: Faults | None = None,
        delays: random.Random | None = None,
        radio: Radio | None = None,
    ) -> None:
        self._device, self._meter, self.radio = device, meter, radio
        self.signal = meter.signal
        self._faults, self._delays = faults or Faults(), delays or random.Random(0)  # noqa: S311
        self._level_j = device.battery * device.capacity_j
        self._power_w = charging_w if device.charging else -idle_w
        self._at_s = self._known_j = 0.0
        self._basis: object = None  # of `_radio_energy`
        self._radio_energy = Energy()

    @property
    def spent(self) -> Spent:
        """Energy spent so far."""
        spent, traffic = self._meter.spent, self._traffic
        if self.radio is None:
            return spent
        return replace(spent, radio=traffic, fastest=spent.fastest + (traffic - spent.radio))

    @property
    def parts_j(self) -> tuple[float, float, float]:
        """Joules of computing, of its operations alone, and of the radio so far."""
        spent = self._meter.spent
        return spent.compute.total_j, spent.operating.total_j, self._traffic.total_j

    @property
    def _traffic(self) -> Energy:
        if self.radio is None:
            return self._meter.spent.radio
        basis = self.radio.traffic.active_s, self.radio.traffic.tail_s
        if basis != self._basis:
            self._basis, self._radio_energy = basis, self.radio.energy
        return self._radio_energy

    def start(self) -> None:
        """Start the meter."""
        self._meter.start()

    def cost(self, done: Done) -> Cost:
        """Return the cost of work, with a possible delay."""
        cost = self._meter.cost(done)
        late = self._delays.random() < self._faults.straggler_share
        elapsed_s = cost.elapsed_s * self._faults.straggler_factor
        return replace(cost, elapsed_s=elapsed_s) if late else cost

    def __call__(self, now_s: float) -> Device:
        """Return the device with the current charge of its battery."""
        if self._device.capacity_j <= 0.0:
            return self._device
        passed_s = max(now_s - self._at_s, 0.0)
        spent_j = (self._meter.spent.compute + self._traffic).total_j
        drawn_j = 0.0 if self._device.charging else spent_j - self._known_j
        level_j = self._level_j - drawn_j + self._power_w * passed_s
        self._level_j = min(max(level_j, 0.0), self._device.capacity_j)
        self._at_s, self._known_j = max(now_s, self._at_s), spent_j
        return replace(self._device, battery=self._level_j / self._device.capacity_j)

    def state(self) -> DeviceState:
        """Return the state of the device."""
        version, numbers, spare = self._delays.getstate()
        battery = (self._level_j, self._at_s, self._known_j)
        traffic = Traffic() if self.radio is None else self.radio.traffic
        return DeviceState(self._meter.spent, battery, (version, numbers, spare), traffic)

    def restore(self, state: DeviceState) -> None:
        """Resume from a state."""
        self._meter.spent = state.spent
        self._level_j, self._at_s, self._known_j = state.battery
        self._delays.setstate(state.draws)
        if self.radio is not None:
            self.radio.traffic = state.traffic


# -- construction -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a fleet; those of a worker are found by its name."""

    server: Server
    workers: dict[str, Worker]
    journals: dict[str, Journal]
    devices: dict[str, SimulatedDevice]
    kinds: dict[str, str]
    network: Network
    owners_key: bytes


def make_drawer(fleet: Fleet) -> Drawer:
    """Return a function from a purpose to its own seeded random generator."""
    return lambda purpose: random.Random(f"{fleet.job.seed}/{purpose}")  # noqa: S311


def build(fleet: Fleet, split: Split, ledger: Ledger, owners_key: bytes) -> Parts:
    """Return the server and the workers, enrolled with the key for hashes of owners."""
    job, faults, draw = fleet.job, fleet.faults, make_drawer(fleet)
    groups = [group for group in fleet.devices for _ in range(group.count)]
    width = len(str(len(groups)))
    named = {f"w{place:0{width}}": group for place, group in enumerate(groups, 1)}
    journals = {name: Journal(journal_id=f"{job.seed}/{name}") for name in named}
    devices = {name: _make_device(fleet, group, name, draw) for name, group in named.items()}
    workers = {
        name: Worker(
            job.name, name, split.make, journals[name], devices[name], key=owners_key,
            scheme_name=job.scheme, forget_fraction=job.forget_fraction,
            announce_every_s=faults.announce_every_s, retry_after_s=job.retry_after_s,
            device=devices[name], min_battery=group.min_battery, sleeps=job.first_call,
            min_examples=job.terms.min_examples_per_update,
            clock=devices[name], keys=fleet.worker,
        )
        for name, group in named.items()
    }  # fmt: skip
    selector = make_selector(job.selector, fleet.selection)
    server = Server(job.name, split.make, ledger, job.server_terms, selector)
    network = Network(
        faults.loss, faults.repetition, faults.min_delay_s, faults.max_delay_s, job.seed
    )
    kinds = {name: group.device for name, group in named.items()}
    return Parts(server, workers, journals, devices, kinds, network, owners_key)


def _make_device(fleet: Fleet, group: Devices, name: str, draw: Drawer) -> SimulatedDevice:
    meter: Accounting = SpeedMeter(group.operations_per_s, group.joules_per_operation, group.wake_j)
    radio, keys = None, fleet.radio
    if group.profile is not None:
        radio = Radio(
            group.profile, keep_alive_s=keys.keep_alive_s, handshake_bytes=keys.handshake_bytes
        )
        laws, base = cycles_of(fleet.learner), BASE_LOADS[group.base_load]
        cycles = laws.of_resident if fleet.worker.is_resident else laws.of_worker
        meter = PhoneMeter(PhoneSpending(group.profile, cycles, base, group.make_clock()))
    charging = draw(f"charging/{name}").random() < group.charging_share
    return SimulatedDevice(
        Device(group.device, group.capacity_j, group.battery, charging),
        meter,
        idle_w=group.idle_w,
        charging_w=group.charging_w,
        faults=fleet.faults,
        delays=draw(f"straggler/{name}"),
        radio=radio,
    )
