"""Bytes that nobody would send: the codec answers with its own error, and takes little memory.

Run as a program, it is a part of `make soak`: a million inputs. A failure names its seed.
"""

from __future__ import annotations

import os
import random
import struct
import time
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

import msgspec

from dealfl.errors import BadBytes
from dealfl.protocol.messages import Message
from dealfl.protocol.transport import Assembly, decode, encode, split

LIMIT = 1 << 22
HEADS = [b"", b"DEAL", *(b"DEAL\x01" + bytes([kind]) for kind in range(4))]
# what announces much in msgpack: strings, bytes, extensions, lists and maps of the largest sizes
LENGTHS = [bytes([first]) + b"\xff" * 4 for first in b"\xdb\xc6\xc9\xdd\xdf\xda\xc5\xc8\xdc\xde"]


def valid_packets() -> list[bytes]:
    """Return packets with every message, alone and together, short, compressed and in pieces."""
    values: dict[type, object] = {str: "a", int: 3, float: 0.5, bytes: b"\x01", bool: True}
    messages: list[Any] = []
    for kind in get_args(Message):
        types = get_type_hints(kind)
        fields = {
            field.name: (b"a", b"b")
            if "tuple" in str(field.type)
            else values.get(types[field.name])
            for field in msgspec.structs.fields(kind)
            if field.required
        }
        messages.append(kind(**(fields | {"worker": "w"})))
    noise = random.Random(0).randbytes(3_000)
    update = next(one for one in messages if hasattr(one, "delta"))
    long = [msgspec.structs.replace(update, delta=delta) for delta in (bytes(2_000), noise)]
    packets = [encode([one]) for one in (*messages, *long)] + [encode(messages * 3)]
    return packets + [piece for packet in packets for piece in split(packet, 700)]


class Fuzz:
    """Makes inputs; all of them follow from a seed."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._valid, self._bombs = valid_packets(), bombs()
        self._kinds: list[Callable[[], bytes]] = [
            self.noise, *[self.mutate] * 6, self.splice, self.confuse,
        ]  # fmt: skip

    def input(self) -> tuple[bytes, bool]:
        """Return one input, and whether it is a bomb: about one of 1,000 is."""
        if self._draw.random() < 0.001:
            return self._draw.choice(self._bombs), True
        return self._draw.choice(self._kinds)(), False

    def noise(self) -> bytes:
        return self._draw.choice(HEADS) + self._draw.randbytes(self._draw.randrange(80))

    def mutate(self) -> bytes:
        """Change, cut, repeat or insert some bytes of a packet, before or after compression."""
        packet = self._draw.choice(self._valid)
        if packet[5] == 1 and self._draw.random() < 0.5:
            return _compressed(self._change(zlib.decompress(packet[10:])))
        return packet[:6] + self._change(packet[6:])

    def _change(self, body: bytes) -> bytes:
        data = bytearray(body)
        for _ in range(self._draw.choice([1, 1, 2, 5])):
            place = self._draw.randrange(len(data) + 1)
            end = place + self._draw.choice([1, 2, 4, 30])
            what = self._draw.randrange(5)
            if what == 0 and place < len(data):
                data[place] ^= 1 << self._draw.randrange(8)
            elif what == 1:
                data[place:end] = self._draw.randbytes(end - place)
            elif what == 2:
                del data[place:end]
            elif what == 3:
                data[place:place] = data[place:end]
            else:
                data[place : place + 1] = self._draw.choice(LENGTHS)
        return bytes(data)

    def splice(self) -> bytes:
        one, other = self._draw.choices(self._valid, k=2)
        return one[: self._draw.randrange(len(one))] + other[self._draw.randrange(len(other)) :]

    def confuse(self) -> bytes:
        """Replace a value of a message by one of another type."""
        packet = self._draw.choice([one for one in self._valid if one[5] == 0])
        records = msgspec.msgpack.decode(packet[6:])
        record = self._draw.choice(records)
        strange: list[object] = [
            None,
            -1,
            2**63,
            1e308,
            float("nan"),
            "\x00",
            "x" * 200,
            b"",
            [],
            {},
            [[]] * 9,
        ]
        record[self._draw.choice([*record, "more"])] = self._draw.choice(strange)
        return packet[:6] + msgspec.msgpack.encode(records)


def bombs() -> list[bytes]:
    """Return short packets that could take much memory or time."""
    erase = {"type": "Erase", "job": "j", "worker": "w", "owners": [b"ab"] * 4096}
    many = msgspec.msgpack.encode([erase] * 4096)
    receipt = {"type": "Receipt", "job": "j", "worker": "w", "incarnation": 1, "sequence": 1}
    pieces = [struct.pack("<32sIII", bytes(32), 0, n, 1 << 31) + bytes(600) for n in (1, 1 << 30)]
    return [
        *(_compressed(bytes(LIMIT), length) for length in (10, LIMIT, LIMIT + 1, 1 << 31)),
        _compressed(bytes(50 * LIMIT), LIMIT),
        *(_compressed(nested * (LIMIT // 2)) for nested in (b"\x91", b"\x81\x90", b"\x92\x91")),
        *(encode([_update(bytes(LIMIT - less))]) for less in (0, 75, 500, 1_099, 1_100, 9_000)),
        _compressed(many[:LIMIT]),
        _compressed(many),
        *(_compressed(msgspec.msgpack.encode([erase] * count)) for count in (7, 8, 50, 255)),
        *(_compressed(msgspec.msgpack.encode([receipt] * count)) for count in (4096, 9000)),
        *(HEADS[4] + piece for piece in pieces),
    ]


def _update(delta: bytes) -> Any:
    record = {"type": "Update", "job": "j", "worker": "w", "incarnation": 1, "sequence": 1}
    return record | {"round": None, "delta": delta}


def _compressed(body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return HEADS[3] + struct.pack("<I", size) + zlib.compress(body, 1)


def feed(seed: int, count: int) -> tuple[int, int]:
    """Give inputs to the codec; return how many were accepted, and the most memory that it took."""
    fuzz, assembly, accepted, most = Fuzz(seed), Assembly(LIMIT), 0, 0
    for number in range(count):
        data, is_bomb = fuzz.input()
        try:
            if is_bomb or number % 100 == 0:  # others are too short to take much
                tracemalloc.start()
            accepted += _read(data, assembly)
        except BaseException as error:
            error.add_note(f"input {number} of seed {seed}")
            raise
        finally:
            most = max(most, tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    return accepted, most


def _read(data: bytes, assembly: Assembly) -> bool:
    try:
        packet = assembly.add(data)
        messages = () if packet is None else decode(packet, LIMIT)
    except BadBytes:
        return False
    if 0 < len(messages) < 100 and len(data) < 1_000:
        assert encode(decode(encode(messages))) == encode(messages)
    return packet is not None


def test_only_the_own_error_and_at_most_twice_the_limit() -> None:
    accepted, taken = feed(seed=0, count=30_000)
    assert accepted > 100
    assert taken <= 2 * LIMIT


def _soak(million: int = 1_000_000, part: int = 100_000) -> None:
    first = 1 + int(os.environ.get("SOAK_SEED", "0")) * 1_000
    for seed in range(first, first + million // part):
        start_s = time.monotonic()
        accepted, taken = feed(seed, part)
        assert taken <= 2 * LIMIT, f"seed {seed}: {taken / LIMIT:.2f} times the limit"
        print(
            f"fuzz, seed {seed}: {part:,} inputs, {accepted:,} accepted, no other error, "
            f"{taken / LIMIT:.2f} of 2 times the limit, {time.monotonic() - start_s:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    _soak()
