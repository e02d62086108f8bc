"""What a simulated worker runs on: a meter of what it spends, and a device with a battery."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import msgspec

from dealfl.power import Energy, PhoneSpending, Spent, cycles_of
from dealfl.simulate.config import Fleet
from dealfl.simulate.devices import Devices
from dealfl.worker import Cost, Device, Done, Meter, PhoneMeter

__all__ = ["Battery", "Equipment", "EquipmentState", "SpeedMeter", "equip"]


class Accounting(Meter, Protocol):
    """A meter that adds up what was spent."""

    spent: Spent  # so far


@dataclass(slots=True)
class SpeedMeter:
    """Models cost from the work done, and adds up what was spent.

    >>> from dealfl.learners import Work
    >>> meter = SpeedMeter(operations_per_s=1e6, joules_per_operation=1e-6, wake_j=0.5)
    >>> meter.cost(Done(learned=Work(2_000_000, 0)))
    Cost(elapsed_s=2.0, energy_j=2.5, source='modelled', transfer_s=0.0)
    """

    operations_per_s: float
    joules_per_operation: float
    wake_j: float = 0.0
    spent: Spent = field(default_factory=Spent, init=False)

    def start(self) -> None:
        """Do nothing: a model needs no beginning."""

    def cost(self, done: Done) -> Cost:
        """Return what work cost; forgetting costs as much as learning."""
        operations = done.work.operations
        compute = self._compute(operations)
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
        )
        return Cost(compute.elapsed_s, compute.total_j + radio.total_j)

    def _compute(self, operations: float) -> Energy:
        elapsed_s = operations / self.operations_per_s
        return Energy(cpu_j=operations * self.joules_per_operation, elapsed_s=elapsed_s)


@dataclass(slots=True)
class Straggling:
    """A share of trainings takes `factor` times as long, and no more energy."""

    meter: Meter
    share: float
    factor: float
    draw: random.Random

    def start(self) -> None:
        """Start the meter."""
        self.meter.start()

    def cost(self, done: Done) -> Cost:
        """Return the cost, late or not."""
        cost = self.meter.cost(done)
        late = self.draw.random() < self.share
        return replace(cost, elapsed_s=cost.elapsed_s * self.factor) if late else cost


class Battery:
    """A battery falls with what is spent; `spent_j` returns all that work has taken so far.

    On a charger it rises, and work takes nothing from it.

    >>> battery = Battery(Device("phone", capacity_j=100.0), lambda: 30.0, idle_w=0.5)
    >>> battery(now_s=20.0).battery
    0.6
    """

    def __init__(
        self,
        device: Device,
        spent_j: Callable[[], float],
        *,
        idle_w: float = 0.0,
        charging_w: float = 0.0,
    ) -> None:
        self._device, self._spent_j = device, spent_j
        self._level_j = device.battery * device.capacity_j
        self._power_w = charging_w if device.charging else -idle_w
        self._at_s = self._known_j = 0.0

    def state(self) -> tuple[float, float, float]:
        """Return where it stands."""
        return self._level_j, self._at_s, self._known_j

    def restore(self, state: tuple[float, float, float]) -> None:
        """Continue from there."""
        self._level_j, self._at_s, self._known_j = state

    def __call__(self, now_s: float) -> Device:
        """Return the device with what is left by now."""
        if self._device.capacity_j <= 0.0:
            return self._device
        passed_s = max(now_s - self._at_s, 0.0)
        spent_j = self._spent_j()
        drawn_j = 0.0 if self._device.charging else spent_j - self._known_j
        level_j = self._level_j - drawn_j + self._power_w * passed_s
        self._level_j = min(max(level_j, 0.0), self._device.capacity_j)
        self._at_s, self._known_j = max(now_s, self._at_s), spent_j
        return replace(self._device, battery=self._level_j / self._device.capacity_j)


class EquipmentState(msgspec.Struct, frozen=True):
    """What a worker's device has spent, what is left, and where its draws stand."""

    spent: Spent
    battery: tuple[float, float, float]
    draws: tuple[int, tuple[int, ...], float | None]


@dataclass(frozen=True, slots=True)
class Equipment:
    """The meter as the worker sees it, the accounts behind it, and the device."""

    meter: Straggling
    accounts: Accounting
    device: Battery

    def state(self) -> EquipmentState:
        """Return where it stands."""
        version, numbers, spare = self.meter.draw.getstate()
        return EquipmentState(self.accounts.spent, self.device.state(), (version, numbers, spare))

    def restore(self, state: EquipmentState) -> None:
        """Continue from there."""
        self.accounts.spent = state.spent
        self.device.restore(state.battery)
        self.meter.draw.setstate(state.draws)


def equip(
    fleet: Fleet, group: Devices, name: str, draw: Callable[[str], random.Random]
) -> Equipment:
    """Return what the worker of that name runs on."""
    faults = fleet.faults
    accounts = _make_accounts(group, fleet.learner)
    late = draw(f"straggler/{name}")
    meter = Straggling(accounts, faults.straggler_share, faults.straggler_factor, late)
    charging = draw(f"charging/{name}").random() < group.charging_share
    battery = Battery(
        Device(group.device, group.capacity_j, group.battery, charging),
        lambda: accounts.spent.whole.total_j,
        idle_w=group.idle_w,
        charging_w=group.charging_w,
    )
    return Equipment(meter, accounts, battery)


def _make_accounts(group: Devices, learner: str) -> Accounting:
    if group.profile is not None:
        return PhoneMeter(PhoneSpending(group.profile, cycles_of(learner).of_worker))
    return SpeedMeter(group.operations_per_s, group.joules_per_operation, group.wake_j)
