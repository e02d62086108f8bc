"""What a simulated worker runs on: a meter of what it spends, and a device with a battery."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from dealfl.power import PhoneSpending, cycles_of
from dealfl.simulate.battery import Battery
from dealfl.simulate.config import Fleet
from dealfl.simulate.devices import Devices
from dealfl.simulate.meter import Accounting, SpeedMeter, Straggling
from dealfl.simulate.run_state import EquipmentState
from dealfl.worker import Device, PhoneMeter

__all__ = ["Equipment", "equipped"]


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
        """Go on from there."""
        self.accounts.spent = state.spent
        self.device.restore(state.battery)
        self.meter.draw.setstate(state.draws)


def equipped(
    fleet: Fleet, group: Devices, name: str, draw: Callable[[str], random.Random]
) -> Equipment:
    """Return what the worker of that name runs on."""
    faults = fleet.faults
    accounts = _accounts(group, fleet.learner)
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


def _accounts(group: Devices, learner: str) -> Accounting:
    if group.profile is not None:
        return PhoneMeter(PhoneSpending(group.profile, cycles_of(learner).of_worker))
    return SpeedMeter(group.operations_per_s, group.joules_per_operation, group.wake_j)
