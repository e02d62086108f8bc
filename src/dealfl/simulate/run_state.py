"""A run written down: everything needed to resume it, in one file."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

import msgspec

from dealfl.atomic_files import replace_file
from dealfl.errors import BadBytes, BadInput
from dealfl.simulate.fleet_simulation import FleetState
from dealfl.simulate.outcome import Round
from dealfl.simulate.simulated_device import DeviceState

__all__ = ["RunState", "read_state", "write_state"]

_MAGIC = b"DEALRUN\x01"
_MOST_BYTES = 1 << 31


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run stands between two events."""

    fleet: str  # fingerprint of what is simulated
    simulation: FleetState
    ledger: bytes
    journals: dict[str, bytes]
    devices: dict[str, DeviceState]
    rounds: list[Round]
    left: dict[str, int]
    arrivals: dict[str, int]
    opened_at_s: float
    wake_ups_of_everyone: int


def write_state(state: RunState, path: Path) -> None:
    """Replace a file by this state; a crash leaves the old one or the new one."""
    body = zlib.compress(msgspec.msgpack.encode(state), 1)
    replace_file(path, _MAGIC + hashlib.sha256(body).digest() + body)


def read_state(path: Path) -> RunState:
    """Return the state in a file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} can not be read ({error.strerror}); begin anew") from error
    start = len(_MAGIC) + 32
    body = content[start:]
    if content[: len(_MAGIC)] != _MAGIC or hashlib.sha256(body).digest() != content[8:start]:
        raise BadBytes(f"{path} is damaged or of another version; remove it and begin anew")
    plain = zlib.decompressobj().decompress(body, _MOST_BYTES)
    try:
        return msgspec.msgpack.decode(plain, type=RunState)
    except msgspec.MsgspecError as error:
        raise BadBytes(f"{path} can not be used ({error}); remove it and begin anew") from error
