"""The sections [[devices]]: how many of which phone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from dealfl.errors import BadInput
from dealfl.power import PHONES, Phone, load_phone
from dealfl.settings import Amount, Count, Document, Positive, Share, Text, read_tables
from dealfl.worker import LEAST_BATTERY

__all__ = ["Devices", "read_devices"]

_BY_HAND = ("capacity_j", "operations_per_s", "joules_per_operation", "wake_j")


class Devices(Struct, frozen=True, kw_only=True):
    """Devices of one kind: a phone with a profile, or figures given by hand."""

    count: Annotated[Count, Meta(description="number of these devices")]
    phone: Annotated[
        Text, Meta(description="phone of `dealfl devices`, or path of a phone's TOML file")
    ] = ""
    device: Annotated[Text, Meta(description="name of the kind; by default the phone's")] = "phone"
    capacity_j: Annotated[Amount, Meta(description="energy of a full battery")] = 40_000.0
    battery: Annotated[Share, Meta(description="charge of the battery at the start")] = 1.0
    charging_share: Annotated[
        Share, Meta(description="share of these devices that are on a charger")
    ] = 0.0
    charging_w: Annotated[Amount, Meta(description="power of the charger")] = 0.0
    idle_w: Annotated[Amount, Meta(description="power drawn while idle")] = 0.0
    least_battery: Annotated[
        Share, Meta(description="charge below which a device declines to train")
    ] = LEAST_BATTERY
    operations_per_s: Annotated[
        Positive, Meta(description="multiply-adds of the learner in a second")
    ] = 1e8
    joules_per_operation: Annotated[Amount, Meta(description="energy of a multiply-add")] = 1e-9
    wake_j: Annotated[Amount, Meta(description="energy of waking up, radio included")] = 0.0
    profile: Phone | None = None


def read_devices(document: Document) -> tuple[Devices, ...]:
    """Return all sections, each with the profile of its phone."""
    groups = enumerate(read_tables(document, Devices, "devices"))
    return tuple(_with_profile(document, place, group) for place, group in groups)


def _with_profile(document: Document, place: int, group: Devices) -> Devices:
    if not group.phone:
        return group
    name, given = f"devices.{place + 1}", document.tables["devices"][place]
    for key in _BY_HAND:
        if key in given:
            raise document.error(
                f"{name}.{key}", f"{name}.{key} is known of a phone; give one or the other"
            )
    profile = _profile(document, f"{name}.phone", group.phone)
    battery = profile.battery
    return replace(
        group,
        device=group.device if "device" in given else profile.name,
        capacity_j=battery.capacity_c * battery.voltage_v,
        profile=profile,
    )


def _profile(document: Document, key: str, name: str) -> Phone:
    if name in PHONES:
        return PHONES[name]
    if Path(name).suffix != ".toml":
        known = ", ".join(f'"{phone}"' for phone in PHONES)
        raise document.error(
            key, f"{key} is {name!r}; it takes one of {known}, or the path of a phone's TOML file"
        )
    try:
        return load_phone(document.folder / name)
    except BadInput as error:
        raise document.error(key, f"{key}: {error}") from None
