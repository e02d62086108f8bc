"""The state of a run in one file."""

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
_MAX_BYTES = 1 << 31


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run between two events.

    Parameters
    ----------
    fleet : str
        Fingerprint of the fleet, its data and its base.
    simulation : FleetState
        State of the clock, the queue of events and the sleeping workers.
    ledger : bytes
        Content of the ledger.
    journals : dict of str to bytes
        Content of each worker's journal.
    devices : dict of str to DeviceState
        State of each worker's device.
    rounds : list of Round
        Closed rounds.
    left : dict of str to int
        Number of examples that have not reached each worker yet.
    arrivals : dict of str to int
        Number of arrival times drawn for each worker.
    opened_at_s : float
        Virtual time at which the last round opened.
    wake_ups_of_everyone : int
        Number of wake-ups if every worker with examples were woken.
    """

    fleet: str
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
    """Write a state to a file atomically: after a crash, the old or the new state exists.

    Parameters
    ----------
    state : RunState
        The state.
    path : Path
        File to create or replace.

    Raises
    ------
    BadInput
        If the path cannot be written.
    WriteFailed
        If the disk is full or fails.
    """
    body = zlib.compress(msgspec.msgpack.encode(state), 1)
    replace_file(path, _MAGIC + hashlib.sha256(body).digest() + body)


def read_state(path: Path) -> RunState:
    """Return the state in a file.

    Parameters
    ----------
    path : Path
        File that `write_state` wrote.

    Returns
    -------
    RunState
        The state.

    Raises
    ------
    BadInput
        If the file cannot be read.
    BadBytes
        If the file is damaged or has another version.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(
            f"{path} cannot be read ({error.strerror}); start again with --restart"
        ) from error
    start = len(_MAGIC) + 32
    body = content[start:]
    if content[: len(_MAGIC)] != _MAGIC or hashlib.sha256(body).digest() != content[8:start]:
        raise BadBytes(f"{path} is damaged or has another version; start again with --restart")
    plain = zlib.decompressobj().decompress(body, _MAX_BYTES)
    try:
        return msgspec.msgpack.decode(plain, type=RunState)
    except msgspec.MsgspecError as error:
        raise BadBytes(f"{path} cannot be used ({error}); start again with --restart") from error
