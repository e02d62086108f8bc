"""This machine as a worker's device: its meter, its clock, and when it should not train."""

from __future__ import annotations

import logging
import math
import shlex
import subprocess
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from dealfl.errors import BadInput
from dealfl.jobs import MachineKeys
from dealfl.power import Phone, Signalled, machine_clock
from dealfl.power.meters import read_machine
from dealfl.settings import Share
from dealfl.worker import Device

__all__ = ["MachineDevice", "open_clock"]

_LOG = logging.getLogger("dealfl.network")
_FRESH_S = 10.0  # for which an answer of the command counts
_COMMAND_S = 5.0


class _Answer(Struct, frozen=True, forbid_unknown_fields=True):
    """What a command can tell about the device."""

    battery: Share | msgspec.UnsetType = msgspec.UNSET
    charging: bool | msgspec.UnsetType = msgspec.UNSET
    metered: bool | msgspec.UnsetType = msgspec.UNSET
    hot: bool | msgspec.UnsetType = msgspec.UNSET
    busy: bool | msgspec.UnsetType = msgspec.UNSET


def open_clock(keys: MachineKeys, profile: Phone | None, stack: ExitStack) -> Signalled | None:
    """Return the clock of this machine until the stack closes; None if it is not controlled."""
    if keys.clock == "off":
        return None
    frequency_mhz = 0.0
    if keys.clock != "deal":
        with suppress(ValueError):
            frequency_mhz = float(keys.clock)
        if not 0.0 < frequency_mhz < math.inf:
            raise BadInput(f"clock is {keys.clock!r}; it must be off, deal, or a MHz above 0")
    frequency_hz = round(frequency_mhz * 1e6)
    return stack.enter_context(machine_clock(Path(keys.sysfs), profile, frequency_hz))


class MachineDevice:
    """The state of this machine, read when a worker needs it.

    Parameters
    ----------
    keys : MachineKeys
        What to read, and the limits.
    profile : Phone or None
        Profile of the phone, for its name and capacity.
    """

    def __init__(self, keys: MachineKeys, profile: Phone | None = None) -> None:
        self._keys, self._command = keys, shlex.split(keys.device_command)
        battery = profile.battery if profile else None
        self._capacity_j = battery.capacity_c * battery.voltage_v if battery else 0.0
        self._name = profile.name if profile else ""
        self._told: dict[str, Any] = {}
        self._told_s = -math.inf
        self._warned: set[str] = set()

    def __call__(self, now_s: float) -> Device:
        """Return the state of the machine; what cannot be read does not keep it from training."""
        state = read_machine(self._keys.sysfs)
        temperature_c = state.temperature_c
        device = Device(
            self._name,
            state.capacity_j or self._capacity_j,
            1.0 if state.battery is None else state.battery,
            charging=state.charging,
            hot=temperature_c is not None and temperature_c > self._keys.max_temperature_c,
        )
        return replace(device, **self._ask(now_s)) if self._command else device

    def _ask(self, now_s: float) -> dict[str, Any]:
        """Return what the user's command tells; nothing if it fails."""
        if not 0.0 <= now_s - self._told_s < _FRESH_S:
            self._told_s, self._told = now_s, self._run()
        return self._told

    def _run(self) -> dict[str, Any]:
        try:
            done = subprocess.run(  # noqa: S603 - the user's own command
                self._command, capture_output=True, timeout=_COMMAND_S, check=True
            )
            answer = msgspec.json.decode(done.stdout, type=_Answer)
        except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as error:
            if str(error) not in self._warned:
                self._warned.add(str(error))
                _LOG.warning("device_command %r is ignored: %s", self._command[0], error)
            return {}
        return {
            name: value
            for name in answer.__struct_fields__
            if (value := getattr(answer, name)) is not msgspec.UNSET
        }
