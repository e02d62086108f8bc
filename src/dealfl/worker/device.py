"""The device under a worker: what it says of itself now, and when it would rather not train."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["LEAST_BATTERY", "Device", "DeviceNow", "always"]

LEAST_BATTERY = 0.15


@dataclass(frozen=True, slots=True)
class Device:
    """What a worker says of the device it runs on, at one moment."""

    name: str = ""
    capacity_j: float = 0.0
    battery: float = 1.0
    charging: bool = False
    metered: bool = False
    hot: bool = False
    busy: bool = False

    def reason_to_decline(self, least_battery: float = LEAST_BATTERY) -> str:
        """Return why it should not train now; nothing if it may.

        >>> Device(battery=0.1).reason_to_decline()
        'low battery'
        >>> Device(battery=0.1, charging=True).reason_to_decline()
        ''
        """
        reasons = {
            "low battery": self.battery < least_battery and not self.charging,
            "metered network": self.metered,
            "hot": self.hot,
            "busy": self.busy,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")


DeviceNow = Callable[[float], Device]  # what a device says at a time


def always(device: Device | DeviceNow | None) -> DeviceNow:
    """Return a device that says the same at all times, unless it can be asked."""
    if device is None or isinstance(device, Device):
        fixed = device or Device()
        return lambda now_s: fixed  # noqa: ARG005
    return device
