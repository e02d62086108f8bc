"""A simulated device's battery: it falls with what is spent, and rises on a charger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dealfl.worker import Device

__all__ = ["Battery"]


class Battery:
    """Says what its device is at a time; `spent_j` counts all that work took so far.

    On a charger, what work takes comes from there.

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
        """Go on from there."""
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
