"""The state of a selector as parts of a few kilobytes: a header, and blocks of workers.

A reward touches one block, so that saving it costs the same for any number of workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.errors import BadBytes

__all__ = ["BLOCK", "COLUMNS", "HEADER", "Saved", "pack", "unpack"]

BLOCK = 64  # workers in a part: at most 8 KB with names of 64 bytes
HEADER, _VERSION = "header", 2
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

_Number = Annotated[int, Meta(ge=0, le=_LAST_ROUND)]


class _Header(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    workers: _Number
    round_number: _Number
    reviewed: _Number
    per_round: _Number


class _Block(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    names: list[str]
    columns: list[bytes]  # in the order of COLUMNS


@dataclass(frozen=True, slots=True)
class Saved:
    """The complete state of a selector of named workers."""

    round_number: int
    reviewed: int
    per_round: int
    names: list[str]
    columns: dict[str, NDArray[Any]]


def pack(saved: Saved, blocks: set[int]) -> dict[str, bytes]:
    """Return the header and some blocks by name; a block without workers is empty."""
    header = _Header(
        _VERSION, len(saved.names), saved.round_number, saved.reviewed, saved.per_round
    )
    return {HEADER: msgspec.msgpack.encode(header)} | {
        str(block): _packed(saved, slice(block * BLOCK, (block + 1) * BLOCK))
        for block in sorted(blocks)
    }


def _packed(saved: Saved, part: slice) -> bytes:
    names = saved.names[part]
    columns = [
        np.ascontiguousarray(saved.columns[name][part], dtype=kind).tobytes()
        for name, (kind, _) in COLUMNS.items()
    ]
    return msgspec.msgpack.encode(_Block(names, columns)) if names else b""


def unpack(parts: Mapping[str, bytes]) -> Saved:
    """Return the state in parts that `pack` wrote; refuse all others."""
    header = _decoded(parts, HEADER, _Header)
    if header.version != _VERSION:
        raise BadBytes(
            f"selector state has version {header.version}; this dealfl supports {_VERSION}"
        )
    expected = [HEADER, *map(str, range(-(-header.workers // BLOCK)))]
    if set(parts) != set(expected):
        raise BadBytes(
            f"selector state has {len(parts)} parts; its {header.workers} workers require "
            f"{len(expected)}"
        )
    blocks = [_decoded(parts, name, _Block) for name in expected[1:]]
    names = [name for block in blocks for name in block.names]
    if len(names) != header.workers or len(set(names)) != header.workers:
        raise BadBytes(f"selector state does not contain {header.workers} different names")
    columns = _columns(blocks)
    saved = Saved(header.round_number, header.reviewed, header.per_round, names, columns)
    _check_rounds(saved)
    return saved


def _decoded(parts: Mapping[str, bytes], name: str, kind: type[Any]) -> Any:  # noqa: ANN401
    try:
        return msgspec.msgpack.decode(parts.get(name, b""), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadBytes(f"part {name} of the selector state is damaged: {error}") from error


def _columns(blocks: list[_Block]) -> dict[str, NDArray[Any]]:
    sizes = [np.dtype(kind).itemsize for kind, _ in COLUMNS.values()]
    for number, block in enumerate(blocks):
        if [len(column) for column in block.columns] != [size * len(block.names) for size in sizes]:
            raise BadBytes(f"part {number} of the selector state does not fit its names")
    columns = {}
    for place, (name, (kind, most)) in enumerate(COLUMNS.items()):
        column = np.frombuffer(b"".join(block.columns[place] for block in blocks), dtype=kind)
        if not ((column >= 0) & (column <= most)).all():  # also refuses NaN
            raise BadBytes(f"selector state has a value of {name} outside [0, {most:g}]")
        columns[name] = column.astype(column.dtype.newbyteorder("="))
    return columns


def _check_rounds(saved: Saved) -> None:
    latest = saved.round_number
    for name, most in (("since", latest + 1), *((name, latest) for name in _ROUNDS)):
        if (saved.columns[name] > most).any():
            raise BadBytes(f"selector state has a value of {name} after its last round, {latest}")
    if (saved.columns["served"] > saved.columns["awake"]).any():
        raise BadBytes("selector state has a worker with more selections than waking rounds")
