"""The state of a selector as bytes: a header, the names of the workers, and arrays."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadBytes

__all__ = ["COLUMNS", "Saved", "pack", "pack_names", "unpack"]

_HEADER = struct.Struct("<4sBxxxIQiii")
_MAGIC, _VERSION = b"DSEL", 1
_LAST_ROUND = 2**31 - 2

COLUMNS: dict[str, tuple[str, float]] = {  # name: type and maximum; the minimum is 0
    "deficit": ("<f8", 1e300),
    "count": ("<f8", 1e300),
    "mean": ("<f8", 1.0),
    "allowed": ("<f8", 1.0),
    "since": ("<i4", _LAST_ROUND + 1),
    "picked": ("<i4", _LAST_ROUND),
    "first": ("<i4", _LAST_ROUND),
    "awake": ("<i4", _LAST_ROUND),
    "served": ("<i4", _LAST_ROUND),
    "flag": ("|u1", 3),
}
_ROUNDS = ("picked", "first", "awake", "served")
_WIDTH = sum(np.dtype(kind).itemsize for kind, _ in COLUMNS.values())


@dataclass(frozen=True, slots=True)
class Saved:
    """The complete state of a selector of named workers."""

    round_number: int
    reviewed: int
    per_round: int
    names: list[str]
    columns: dict[str, NDArray[np.generic]]


def pack_names(names: list[str]) -> bytes:
    """Return the names as bytes. They change rarely, so a selector caches them."""
    return msgspec.msgpack.encode(names)


def pack(saved: Saved, names: bytes) -> bytes:
    """Return the bytes of a state; equal states have equal bytes."""
    header = _HEADER.pack(
        _MAGIC, _VERSION, len(saved.names), len(names), saved.round_number, saved.reviewed,
        saved.per_round,
    )  # fmt: skip
    arrays = [
        np.ascontiguousarray(saved.columns[name], dtype=kind).tobytes()
        for name, (kind, _) in COLUMNS.items()
    ]
    return b"".join([header, names, *arrays])


def unpack(data: bytes) -> Saved:
    """Return the state in bytes that `pack` wrote; refuse all other bytes."""
    if len(data) < _HEADER.size:
        raise BadBytes(f"selector state has {len(data)} bytes; it must have ≥ {_HEADER.size}")
    magic, version, workers, length, number, reviewed, per_round = _HEADER.unpack_from(data)
    if magic != _MAGIC or version != _VERSION:
        raise BadBytes(f"bytes are no selector state of version {_VERSION}")
    expected = _HEADER.size + length + workers * _WIDTH
    if len(data) != expected:
        raise BadBytes(f"selector state has {len(data)} bytes; its header requires {expected}")
    if min(number, reviewed, per_round) < 0 or number > _LAST_ROUND:
        raise BadBytes("selector state has an invalid header")
    names = _names(data[_HEADER.size : _HEADER.size + length], workers)
    columns = _columns(data, _HEADER.size + length, workers)
    saved = Saved(number, reviewed, per_round, names, columns)
    _check_rounds(saved)
    return saved


def _names(data: bytes, workers: int) -> list[str]:
    try:
        names = msgspec.msgpack.decode(data, type=list[str])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadBytes(f"names in the selector state cannot be decoded: {error}") from error
    if len(names) != workers or len(set(names)) != workers:
        raise BadBytes(f"selector state does not contain {workers} different names")
    return names


def _columns(data: bytes, start: int, workers: int) -> dict[str, NDArray[np.generic]]:
    columns = {}
    for name, (kind, most) in COLUMNS.items():
        column = np.frombuffer(data, dtype=kind, count=workers, offset=start)
        if not ((column >= 0) & (column <= most)).all():  # also refuses NaN
            raise BadBytes(f"selector state has a value of {name} outside [0, {most:g}]")
        columns[name] = column.astype(column.dtype.newbyteorder("="))
        start += column.nbytes
    return columns


def _check_rounds(saved: Saved) -> None:
    latest = saved.round_number
    for name, most in (("since", latest + 1), *((name, latest) for name in _ROUNDS)):
        if (saved.columns[name] > most).any():  # type: ignore[operator]
            raise BadBytes(f"selector state has a value of {name} after its last round, {latest}")
    if (saved.columns["served"] > saved.columns["awake"]).any():  # type: ignore[operator]
        raise BadBytes("selector state has a worker with more selections than waking rounds")
