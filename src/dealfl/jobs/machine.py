"""The section [machine]: meter, clock and limits of the machine on which a worker runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from dealfl.power.meters import METERS
from dealfl.settings import Amount, Document, Share, Text, read_section
from dealfl.worker import MIN_BATTERY


class MachineKeys(Struct, frozen=True, kw_only=True):
    """The machine of a worker process; `dealfl work` has a flag for each key."""

    meter: Annotated[
        Text,
        Meta(description=f"energy meter: {', '.join(METERS)}, or a Monsoon CSV file under way"),
    ] = "auto"
    clock: Annotated[
        Text,
        Meta(description="clock of the CPU while it trains: off, deal (by signals), or a MHz"),
    ] = "off"
    min_battery: Annotated[
        Share, Meta(description="charge below which the worker declines without a charger")
    ] = MIN_BATTERY
    max_temperature_c: Annotated[
        Amount, Meta(description="temperature above which the worker declines")
    ] = 85.0
    device_command: Annotated[
        Text,
        Meta(
            description="command that prints a JSON object with what sysfs does not tell: "
            "battery, charging, metered, hot, busy"
        ),
    ] = ""
    sysfs: Annotated[Text, Meta(description="mount point of sysfs")] = "/sys"


def read_machine_keys(document: Document, flags: Mapping[str, object]) -> MachineKeys:
    """Return the section [machine] of a job file."""
    for name, value in flags.items():
        if value is not None:
            document = document.replaced(f"machine.{name}", value)
    return read_section(document, MachineKeys, "machine")
