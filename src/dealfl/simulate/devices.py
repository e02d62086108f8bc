"""The devices of a fleet: groups of phones or explicit values, each with a meter and a battery."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Protocol

from msgspec import Meta, Struct
from msgspec.structs import replace

from dealfl.errors import BadInput
from dealfl.jobs import Document
from dealfl.power import (
    CLOCKS,
    PHONES,
    RADIOS,
    BaseLoad,
    Energy,
    Phone,
    PhoneClock,
    Radio,
    Spent,
    Traffic,
    Training,
    load_phone,
    phone_clock,
)
from dealfl.settings import Amount, Count, OneOf, Positive, Share, Text, read_tables
from dealfl.simulate.simulation import Draws
from dealfl.worker import MIN_BATTERY, Cost, Device, Meter

_MAX_WORKERS = 100_000
_EXPLICIT = ("capacity_j", "operations_per_s", "joules_per_operation", "wake_j")
_OF_PHONES = ("governor", "frequency_mhz", "base_load", "radio")
_NO_ENERGY = Energy()
BASE_LOADS = {base.name.lower(): base for base in BaseLoad}


class Devices(Struct, frozen=True, kw_only=True):
    """Devices of one kind: a phone with a profile, or explicit values."""

    count: Annotated[Count, Meta(description="number of these devices")]
    phone: Annotated[
        Text, Meta(description="phone of `dealfl devices`, or path of a phone's TOML file")
    ] = ""
    device: Annotated[Text, Meta(description="name of the kind; by default the phone's")] = "phone"
    capacity_j: Annotated[Amount, Meta(description="energy of a full battery")] = 40_000.0
    battery: Annotated[
        Share, Meta(description="charge of the battery at the start, as a share")
    ] = 1.0
    charging_share: Annotated[
        Share, Meta(description="share of these devices that are on a charger")
    ] = 0.0
    charging_w: Annotated[Amount, Meta(description="power of the charger")] = 0.0
    idle_w: Annotated[Amount, Meta(description="power drawn while idle")] = 0.0
    min_battery: Annotated[
        Share,
        Meta(description="charge below which a device declines to train"),
    ] = MIN_BATTERY
    operations_per_s: Annotated[
        Positive, Meta(description="multiply-adds of the learner per second")
    ] = 1e8
    joules_per_operation: Annotated[Amount, Meta(description="energy of a multiply-add")] = 1e-9
    wake_j: Annotated[Amount, Meta(description="energy of a wake-up, including the radio")] = 0.0
    governor: Annotated[
        str,
        OneOf(CLOCKS),
        Meta(description="what sets a phone's clock: a worker's signals (deal), or a governor"),
    ] = CLOCKS[0]
    frequency_mhz: Annotated[
        Amount, Meta(description="fixed clock frequency of a phone instead; 0 for none")
    ] = 0.0
    base_load: Annotated[
        str,
        OneOf(BASE_LOADS),
        Meta(description="parts of a phone that draw current beside the CPU while it trains"),
    ] = "awake"
    radio: Annotated[
        str, OneOf(RADIOS), Meta(description="how these phones reach the server: wifi or lte")
    ] = RADIOS[0]
    profile: Phone | None = None

    def make_clock(self) -> PhoneClock:
        """Return a new clock of the phone; raises BadInput if it lacks the frequency."""
        assert self.profile is not None
        return phone_clock(self.profile, self.governor, round(self.frequency_mhz * 1e6))


def read_devices(
    document: Document, rtt_s: float | None, tail_s: float | None
) -> tuple[Devices, ...]:
    """Return all groups of devices, each with the profile of its phone and the radio it uses."""
    groups = read_tables(document, Devices, "devices")
    total = sum(group.count for group in groups)
    if total > _MAX_WORKERS:
        raise document.error(
            "devices.1.count", f"{total} workers are too many; the maximum is {_MAX_WORKERS}"
        )
    profiled = (_with_profile(document, index, group) for index, group in enumerate(groups))
    return tuple(
        replace(group, profile=group.profile and group.profile.over(group.radio, rtt_s, tail_s))
        for group in profiled
    )


def _with_profile(document: Document, index: int, group: Devices) -> Devices:
    name, given = f"devices.{index + 1}", document.tables["devices"][index]
    if not group.phone:
        for key in filter(given.__contains__, _OF_PHONES):
            raise document.error(
                f"{name}.{key}",
                f"{name}.{key} needs the profile of a phone; "
                f"add {name}.phone, or remove {name}.{key}",
            )
        return group
    for key in filter(given.__contains__, _EXPLICIT):
        raise document.error(
            f"{name}.{key}",
            f"{name}.{key} is part of the phone's profile; remove it or {name}.phone",
        )
    profile = _profile(document, f"{name}.phone", group.phone)
    battery = profile.battery
    group = replace(
        group,
        device=group.device if "device" in given else profile.name,
        capacity_j=battery.capacity_c * battery.voltage_v,
        profile=profile,
    )
    _check_clock(document, name, given, group)
    return group


def _check_clock(
    document: Document, name: str, given: Mapping[str, object], group: Devices
) -> None:
    key = f"{name}.frequency_mhz"
    if group.frequency_mhz and "governor" in given:
        raise document.error(key, f"{key} fixes the clock; remove it or {name}.governor")
    try:
        group.make_clock()
    except BadInput as error:
        raise document.error(key, f"{key}: {error}") from None


def _profile(document: Document, key: str, name: str) -> Phone:
    if name in PHONES:
        return PHONES[name]
    if Path(name).suffix != ".toml":
        phones = ", ".join(f'"{phone}"' for phone in PHONES)
        raise document.error(
            key,
            f"{key} is {name!r}; it must be one of {phones}, or the path of a phone's TOML file",
        )
    try:
        return load_phone(document.folder / name)
    except BadInput as error:
        raise document.error(key, f"{key}: {error}") from None


# -- a device in a simulation --------------------------------------------------------------------


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
    >>> meter = SpeedMeter(operations_per_s=1e6, joules_per_operation=1e-6, wake_j=0.5)
    >>> meter.cost(Training(learned_operations=2_000_000))
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

    def cost(self, training: Training) -> Cost:
        """Return the cost of work; forgetting costs as much as learning."""
        operations = training.operations
        review = self._compute(sum(training.reviewed_operations))
        compute = self._compute(operations) + review
        radio = Energy(awake_j=self.wake_j if training.wakes else 0.0)
        self.spent = self.spent + Spent(
            compute=compute,
            operating=compute,
            radio=radio,
            fastest=compute + radio,
            fastest_compute_j=compute.total_j,
            scratch_j=self._compute(training.scratch_operations).total_j,
            operations=operations,
            wake_ups=int(training.wakes),
            pages_in=training.pages_in,
            pages_out=training.pages_out,
            refactorisations=training.refactorisations,
            review_j=review.total_j,
            fastest_review_j=review.total_j,
        )
        return Cost(compute.elapsed_s, compute.total_j + radio.total_j)

    def _compute(self, operations: float) -> Energy:
        elapsed_s = operations / self.operations_per_s
        return Energy(cpu_j=operations * self.joules_per_operation, elapsed_s=elapsed_s)


class DeviceState(Struct, frozen=True):
    """The spent energy, the battery, the random generator, and the traffic."""

    spent: Spent
    battery: tuple[float, float, float]
    draws: Draws | None  # None before the first
    traffic: Traffic


class SimulatedDevice:
    """A worker's device: a meter of the cost of training, and a battery.

    On a charger, the battery charges and training does not drain it. `delays` returns the generator
    that draws which trainings take `straggler_factor` times as long, with the same energy. With a
    `radio`, all its traffic counts; the meter only predicts that of a training.

    Examples
    --------
    >>> device = SimulatedDevice(Device("phone", 100.0), SpeedMeter(1e6, 1e-6), idle_w=0.5)
    >>> device(now_s=20.0).battery
    0.9
    """

    __slots__ = (
        "_at_s",
        "_basis",
        "_delays",
        "_device",
        "_known_j",
        "_level_j",
        "_make_delays",
        "_meter",
        "_power_w",
        "_radio_energy",
        "_straggler_factor",
        "_straggler_share",
        "radio",
    )

    def __init__(
        self,
        device: Device,
        meter: Accounting,
        *,
        idle_w: float = 0.0,
        charging_w: float = 0.0,
        straggler_share: float = 0.0,
        straggler_factor: float = 1.0,
        delays: Callable[[], random.Random] = random.Random,
        radio: Radio | None = None,
    ) -> None:
        self._device = device
        self._meter = meter
        self.radio = radio
        self._straggler_share = straggler_share
        self._straggler_factor = straggler_factor
        self._make_delays = delays
        self._delays: random.Random | None = None  # its state takes 2.5 KB
        self._level_j = device.battery * device.capacity_j
        self._power_w = charging_w if device.charging else -idle_w
        self._at_s = self._known_j = 0.0
        self._basis: object = None  # of `_radio_energy`
        self._radio_energy = _NO_ENERGY

    @property
    def spent(self) -> Spent:
        """Energy spent so far."""
        spent, traffic = self._meter.spent, self._traffic
        if self.radio is None:
            return spent
        return dataclasses.replace(
            spent, radio=traffic, fastest=spent.fastest + (traffic - spent.radio)
        )

    @property
    def parts_j(self) -> tuple[float, float, float]:
        """Joules of computing, of its operations alone, and of the radio so far."""
        spent = self._meter.spent
        return spent.compute.total_j, spent.operating.total_j, self._traffic.total_j

    @property
    def _traffic(self) -> Energy:
        if self.radio is None:
            return self._meter.spent.radio
        basis = self.radio.traffic.active_s, self.radio.traffic.added_s
        if basis != self._basis:
            self._basis, self._radio_energy = basis, self.radio.energy
        return self._radio_energy

    def start(self) -> None:
        """Start the meter."""
        self._meter.start()

    def signal(self, signal: int, /) -> None:
        """Take a worker's signal to the clock."""
        self._meter.signal(signal)

    def cost(self, training: Training) -> Cost:
        """Return the cost of work, with a possible delay."""
        cost = self._meter.cost(training)
        if not self._straggler_share or self._draws().random() >= self._straggler_share:
            return cost
        return dataclasses.replace(cost, elapsed_s=cost.elapsed_s * self._straggler_factor)

    def _draws(self) -> random.Random:
        if self._delays is None:
            self._delays = self._make_delays()
        return self._delays

    def __call__(self, now_s: float) -> Device:
        """Return the device with the current charge of its battery."""
        if self._device.capacity_j <= 0.0:
            return self._device
        passed_s = max(now_s - self._at_s, 0.0)
        spent_j = (self._meter.spent.compute + self._traffic).total_j
        drawn_j = 0.0 if self._device.charging else spent_j - self._known_j
        level_j = self._level_j - drawn_j + self._power_w * passed_s
        self._level_j = min(max(level_j, 0.0), self._device.capacity_j)
        self._at_s = max(now_s, self._at_s)
        self._known_j = spent_j
        return dataclasses.replace(self._device, battery=self._level_j / self._device.capacity_j)

    def state(self) -> DeviceState:
        """Return the state of the device."""
        draws = None if self._delays is None else self._delays.getstate()
        battery = (self._level_j, self._at_s, self._known_j)
        traffic = Traffic() if self.radio is None else self.radio.traffic
        return DeviceState(self._meter.spent, battery, draws, traffic)

    def restore(self, state: DeviceState) -> None:
        """Resume from a state."""
        self._meter.spent = state.spent
        self._level_j, self._at_s, self._known_j = state.battery
        if state.draws is not None:
            self._draws().setstate(state.draws)
        if self.radio is not None:
            self.radio.traffic = state.traffic
