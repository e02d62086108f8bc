"""The state of a worker's device: its battery, charger, network and temperature."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dealfl.power import Signalled

__all__ = ["MIN_BATTERY", "Device", "DeviceNow", "NoSignals", "always", "signalled"]

MIN_BATTERY = 0.15


@dataclass(frozen=True, slots=True)
class Device:
    """The state of a device at one moment.

    Parameters
    ----------
    name : str
        Device model, e.g. "honor".
    capacity_j : float
        Energy in a full battery, in joules; 0 if unknown.
    battery : float
        Battery level, from 0 to 1.
    charging, metered, hot, busy : bool
        Whether the device is on a charger, its network bills by volume, it is too hot to train,
        and it is busy with other work.
    """

    name: str = ""
    capacity_j: float = 0.0
    battery: float = 1.0
    charging: bool = False
    metered: bool = False
    hot: bool = False
    busy: bool = False

    def reason_to_decline(self, min_battery: float = MIN_BATTERY) -> str:
        """Return the reason not to train now.

        Parameters
        ----------
        min_battery : float
            Lowest battery level at which the device trains without a charger,
            from 0 to 1.

        Returns
        -------
        str
            The first reason that applies, e.g. "low battery"; empty if the device can train.

        Examples
        --------
        >>> Device(battery=0.1).reason_to_decline()
        'low battery'
        >>> Device(battery=0.1, charging=True).reason_to_decline()
        ''
        """
        reasons = {
            "low battery": self.battery < min_battery and not self.charging,
            "metered network": self.metered,
            "hot": self.hot,
            "busy": self.busy,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")


DeviceNow = Callable[[float], Device]  # the state of a device at a time in seconds


def always(device: Device | DeviceNow | None) -> DeviceNow:
    """Return a function from the time to the device; a fixed device never changes."""
    if device is None or isinstance(device, Device):
        fixed = device or Device()
        return lambda now_s: fixed  # noqa: ARG005
    return device


class NoSignals:
    """The clock of a device that nobody controls."""

    def signal(self, signal: int, /) -> None:
        """Do nothing."""


@contextmanager
def signalled(clock: Signalled, *, learns: bool, forgets: bool) -> Iterator[None]:
    """Signal to a clock that its device learns (+1), forgets (-1), and is done (0)."""
    try:
        for signal, given in ((1, learns), (-1, forgets)):
            if given:
                clock.signal(signal)
        yield
    finally:
        clock.signal(0)
