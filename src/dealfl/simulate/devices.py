"""The sections [[devices]]: how many of which phone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dealfl.errors import BadInput
from dealfl.jobs import Document
from dealfl.jobs.settings import number, read_section, setting, share, text, whole
from dealfl.power import PHONES, Phone, load_phone
from dealfl.worker.device import LEAST_BATTERY

__all__ = ["Devices", "read_devices"]

_BY_HAND = ("capacity_j", "operations_per_s", "joules_per_operation", "wake_j")


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """So many devices of one kind: a phone of which a profile is known, or figures by hand."""

    count: int = setting(whole(1))
    phone: str = setting(text(), "")
    device: str = setting(text(), "phone")
    capacity_j: float = setting(number(0.0), 40_000.0)
    battery: float = setting(share(), 1.0)
    charging_share: float = setting(share(), 0.0)
    charging_w: float = setting(number(0.0), 0.0)
    idle_w: float = setting(number(0.0), 0.0)
    least_battery: float = setting(share(), LEAST_BATTERY)
    operations_per_s: float = setting(number(0.0, above=True), 1e8)
    joules_per_operation: float = setting(number(0.0), 1e-9)
    wake_j: float = setting(number(0.0), 0.0)
    profile: Phone | None = None


def read_devices(document: Document, place: int, table: object) -> Devices:
    """Return one section, with the profile of its phone."""
    name = f"devices.{place}"
    group = read_section(document, Devices, name, table)
    if not group.phone or not isinstance(table, Mapping):
        return group
    for key in _BY_HAND:
        if key in table:
            raise document.error(
                f"{name}.{key}", f"{name}.{key} is known of a phone; give one or the other"
            )
    profile = _profile(document, f"{name}.phone", group.phone)
    battery = profile.battery
    return replace(
        group,
        device=group.device if "device" in table else profile.name,
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
