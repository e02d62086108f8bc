"""This machine as a worker's device: its state, the user's command, and other traffic."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from dealfl.errors import BadInput
from dealfl.jobs import MachineKeys
from dealfl.power import Phone, Signalled, machine_clock, read_machine
from dealfl.settings import Share
from dealfl.worker import Device

_LOG = logging.getLogger("dealfl.network")
_FRESH_S = 10.0  # for which an answer of a command that has ended counts
_COMMAND_S = 5.0  # for the first answer of a command
_MAX_PAUSE_S = 600.0  # between two starts of a command that fails
_GOODBYE_S = 0.5
_MAX_ANSWER = 65_536  # bytes
_MAX_BAD_LINES = 100  # of a running command, one after the other
_LOOPBACK = "772"  # in the file `type` of an interface
_NOISE_BYTES = 1_000  # in one look: fewer are not worth a ride


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
    """The state of this machine, read when a worker needs it."""

    def __init__(self, keys: MachineKeys, profile: Phone | None = None) -> None:
        self._keys = keys
        words = shlex.split(keys.device_command)
        self._command = DeviceCommand(words) if words else None
        self._name = ""
        self._capacity_j = 0.0
        if profile:
            self._name = profile.name
            self._capacity_j = profile.battery.capacity_c * profile.battery.voltage_v

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
        if self._command is None:
            return device
        told = self._command.ask(now_s)
        return replace(device, **{key: told[key] for key in told if key != "network_active"})

    @property
    def network_active(self) -> bool | None:
        """Whether other traffic has the radio on; None if no running command tells."""
        return None if self._command is None else self._command.network_active

    @property
    def told_s(self) -> float:
        """When the command printed its last object, by the monotonic clock."""
        return -math.inf if self._command is None else self._command.told_s

    def follow(self, changed: Callable[[], None]) -> None:
        """Call a function after each object that a running command prints."""
        if self._command is not None:
            self._command.changed = changed

    def close(self) -> None:
        """End the command."""
        if self._command is not None:
            self._command.close()


# -- the user's command ---------------------------------------------------------------------------


class _Answer(Struct, frozen=True, forbid_unknown_fields=True):
    """What a command can tell about the device."""

    battery: Share | UnsetType = UNSET
    charging: bool | UnsetType = UNSET
    metered: bool | UnsetType = UNSET
    hot: bool | UnsetType = UNSET
    busy: bool | UnsetType = UNSET
    network_active: bool | UnsetType = UNSET


class DeviceCommand:
    """The user's command, which prints objects of JSON; the last one counts.

    A command that ends is started again when its answer is needed and ten seconds old. One that
    keeps running prints an object whenever something changes. What fails is logged once.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self.changed: Callable[[], None] = lambda: None  # after an object of a running command
        self._process: subprocess.Popen[bytes] | None = None
        self._output = b""  # the beginning of an object
        self._told: dict[str, Any] | None = None
        self.told_s = -math.inf  # when, by the monotonic clock
        self._next_s = -math.inf  # of the next start
        self._failures = 0
        self._bad = ""  # why the last line cannot be used
        self._bad_lines = 0  # since the last object
        self._warned: set[str] = set()

    def ask(self, now_s: float) -> dict[str, Any]:
        """Return what the command tells now; nothing if it fails."""
        self._read()
        is_recent = self._next_s - self._pause_s <= now_s < self._next_s
        if self._process is None and not is_recent:
            self._start()
            self._next_s = now_s + self._pause_s
        return self._told or {}

    @property
    def network_active(self) -> bool | None:
        """Whether other traffic has the radio on; None unless a running command tells.

        An object counts for ten seconds: a command may print one when traffic begins, and no other.
        """
        active = (self._told or {}).get("network_active")
        if active is None or self._process is None:
            return None
        return bool(active) and time.monotonic() < self.told_s + _FRESH_S

    def close(self) -> None:
        """End a command that keeps running, and what it has started."""
        process, self._process = self._process, None
        if process is None or process.stdout is None:
            return
        with suppress(RuntimeError):  # there is no event loop
            asyncio.get_running_loop().remove_reader(process.stdout)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
        process.wait()

    @property
    def _pause_s(self) -> float:
        """Time between two starts: a command that hangs must not stop the worker every time."""
        return min(_FRESH_S * 2.0 ** min(self._failures, 10), _MAX_PAUSE_S)

    def _start(self) -> None:
        """Start the command, and wait for its first object."""
        self._output = b""
        self._bad = ""
        self._bad_lines = 0
        self._told = None
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own command
                self._words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            self._fail(str(error))
            return
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        os.set_blocking(output, False)
        until_s = time.monotonic() + _COMMAND_S
        while self._process is not None and self._told is None:
            left_s = max(until_s - time.monotonic(), 0.0)
            if not select.select([output], [], [], left_s)[0]:
                self._fail(f"it has printed no object of JSON for {_COMMAND_S:g} s")
                return
            self._read()
        if self._process is not None:
            with suppress(RuntimeError):  # without an event loop, it is read when it is asked
                asyncio.get_running_loop().add_reader(output, self._notice)

    def _notice(self) -> None:
        if self._read():
            self.changed()

    def _read(self) -> bool:
        """Take what the command has printed; return whether there is a new object."""
        process = self._process
        if process is None or process.stdout is None:
            return False
        try:
            data = os.read(process.stdout.fileno(), _MAX_ANSWER)
        except BlockingIOError:
            return False
        *lines, rest = data.split(b"\n")
        objects = sum(self._take(line + b"\n") for line in lines)
        self._output += rest
        if not data:
            objects += self._take(b"\n")
            self._end(process)
        elif self._bad_lines > _MAX_BAD_LINES:
            self._fail(self._bad)
        return objects > 0

    def _take(self, text: bytes) -> bool:
        """Take the end of a line; return whether it completes an object, which may have several."""
        self._output += text
        if not self._output.strip():
            return False
        try:
            answer = msgspec.json.decode(self._output, type=_Answer)
        except msgspec.MsgspecError as error:
            if "truncated" not in str(error) or len(self._output) > _MAX_ANSWER:
                self._output = b""
                self._bad = str(error)
                self._bad_lines += 1
                self._warn(self._bad)
            return False
        self._output = b""
        self._told = msgspec.to_builtins(answer)  # only what is set
        self.told_s = time.monotonic()
        self._failures = self._bad_lines = 0
        return True

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Note that the command has closed its output."""
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GOODBYE_S)
        code = process.returncode
        self.close()
        if code:
            self._fail(f"it ended with the code {code}")
        elif self._told is None:
            self._fail(self._bad or "it printed no object of JSON")

    def _fail(self, problem: str) -> None:
        self.close()
        self._told = None
        self._failures += 1
        self._warn(problem)

    def _warn(self, problem: str) -> None:
        if problem not in self._warned:
            self._warned.add(problem)
            extra = {"deal_event": "device command ignored", "deal_reason": problem}
            _LOG.warning("device_command %r is ignored: %s", self._words[0], problem, extra=extra)


# -- other traffic --------------------------------------------------------------------------------


class InterfaceCounters:
    """The bytes that each network interface of this machine has carried; loopback is left out.

    An interface has other traffic if it has sent something since the last look, and has sent and
    received a thousand bytes: what a network sends to everybody wakes nobody.
    """

    def __init__(self, sysfs: str | Path = "/sys") -> None:
        self._folder = Path(sysfs) / "class" / "net"
        self._last: dict[str, tuple[int, int]] = {}  # received and sent bytes
        self._warned: set[str] = set()

    @property
    def can_look(self) -> bool:
        """Whether there is an interface whose bytes can be read; why not is logged once."""
        if self._read():
            return True
        self._warn("", f"{self._folder} shows no interface; workers call without rides")
        return False

    def forget(self) -> None:
        """Let the next look be the first: the bytes before it are the worker's own."""
        self._last = {}

    def look(self) -> bool:
        """Return whether there was other traffic since the last look."""
        before, self._last = self._last, self._read()
        for name in before.keys() - self._last.keys():
            self._warn(name, f"{name} has vanished; its traffic is not seen")
        active = {name for name in before if self._is_active(name, *before[name])}
        return bool(active)

    def _is_active(self, name: str, received: int, sent: int) -> bool:
        now_received, now_sent = self._last.get(name, (received, sent))
        if now_received < received or now_sent < sent:  # a reset, or 32 bits were full
            self._warn(name, f"the counters of {name} ran backwards; one look is skipped")
            return False
        total = now_received - received + now_sent - sent
        return now_sent > sent and total >= _NOISE_BYTES

    def _read(self) -> dict[str, tuple[int, int]]:
        """Return the bytes of each interface; what cannot be read is left out."""
        counters = {}
        try:
            folders = list(self._folder.iterdir())
        except OSError as error:
            self._warn(
                "", f"{self._folder} cannot be read ({error.strerror}); workers call without rides"
            )
            return {}
        for folder in folders:
            with suppress(OSError, ValueError):
                if (folder / "type").read_text().strip() != _LOOPBACK:
                    received = int((folder / "statistics/rx_bytes").read_bytes())
                    counters[folder.name] = (
                        received,
                        int((folder / "statistics/tx_bytes").read_bytes()),
                    )
        return counters

    def _warn(self, name: str, problem: str) -> None:
        """Log a problem of an interface once."""
        if name not in self._warned:
            self._warned.add(name)
            extra = {"deal_event": "other traffic", "deal_reason": problem}
            _LOG.warning("other traffic: %s", problem, extra=extra)
