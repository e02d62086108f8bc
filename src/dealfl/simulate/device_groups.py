"""The devices of a fleet: groups of phones with a profile and a clock, or explicit values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from dealfl.errors import BadInput
from dealfl.jobs import Document
from dealfl.power import CLOCKS, PHONES, BaseLoad, Phone, PhoneClock, load_phone, phone_clock
from dealfl.settings import Amount, Count, Formerly, OneOf, Positive, Share, Text, read_tables
from dealfl.worker import MIN_BATTERY

__all__ = ["BASE_LOADS", "Devices", "read_devices"]

_MAX_WORKERS = 100_000
_EXPLICIT = ("capacity_j", "operations_per_s", "joules_per_operation", "wake_j")
_OF_PHONES = ("governor", "frequency_mhz", "base_load")
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
        Formerly("least_battery"),
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
    profile: Phone | None = None

    def make_clock(self) -> PhoneClock:
        """Return a new clock of the phone; raises BadInput if it lacks the frequency."""
        assert self.profile is not None
        return phone_clock(self.profile, self.governor, round(self.frequency_mhz * 1e6))


def read_devices(document: Document) -> tuple[Devices, ...]:
    """Return all groups of devices, each with the profile of its phone."""
    groups = read_tables(document, Devices, "devices")
    total = sum(group.count for group in groups)
    if total > _MAX_WORKERS:
        raise document.error(
            "devices.1.count", f"{total} workers are too many; the maximum is {_MAX_WORKERS}"
        )
    return tuple(_with_profile(document, place, group) for place, group in enumerate(groups))


def _with_profile(document: Document, place: int, group: Devices) -> Devices:
    name, given = f"devices.{place + 1}", document.tables["devices"][place]
    if not group.phone:
        for key in filter(given.__contains__, _OF_PHONES):
            raise document.error(
                f"{name}.{key}",
                f"{name}.{key} needs the table of clock frequencies of a phone; "
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
        known = ", ".join(f'"{phone}"' for phone in PHONES)
        raise document.error(
            key, f"{key} is {name!r}; it must be one of {known}, or the path of a phone's TOML file"
        )
    try:
        return load_phone(document.folder / name)
    except BadInput as error:
        raise document.error(key, f"{key}: {error}") from None
