"""Messages as bytes: every record comes back, nothing hostile comes through."""

import random
from typing import get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dealfl.errors import BadBytes
from dealfl.protocol.messages import Message, Update
from dealfl.protocol.transport import decode, encode

UPDATE = Update(
    job="j", worker="w", incarnation=1, sequence=2, round=None, delta=b"\x00\xff", energy_j=0.25
)


@pytest.mark.parametrize("kind", get_args(Message), ids=lambda kind: kind.__name__)
def test_every_record_comes_back_as_it_was(kind: type[msgspec.Struct]) -> None:
    values: dict[type, object] = {str: "ä", int: 3, float: 0.5, bytes: b"\x01", bool: True}
    types = get_type_hints(kind)
    fields = {
        field.name: (b"a", b"b") if "tuple" in str(field.type) else values.get(types[field.name])
        for field in msgspec.structs.fields(kind)
        if field.required
    }
    message = kind(**(fields | {"worker": "w-7_A"}))
    assert decode(encode([message])) == (message,)  # type: ignore[list-item]


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_refused(noise: bytes) -> None:
    for data in (noise, b"DEAL\x01\x00" + noise, b"DEAL\x01\x01" + noise, b"DEAL\x01\x02" + noise):
        try:
            decode(data)
        except BadBytes:
            continue
        assert encode(decode(data))


def test_every_truncation_is_refused() -> None:
    data = encode([UPDATE])
    for length in range(len(data)):
        with pytest.raises(BadBytes):
            decode(data[:length])


def test_a_flipped_bit_is_refused_or_a_sound_message() -> None:
    whole = encode([UPDATE])
    for place in random.Random(0).sample(range(len(whole) * 8), 300):
        data = bytearray(whole)
        data[place // 8] ^= 1 << place % 8
        try:
            message = decode(bytes(data))
        except BadBytes:
            continue
        assert encode(decode(encode(message))) == encode(message)


def test_unknown_records_fields_and_types_are_refused() -> None:
    for record in (
        {"type": "Execute", "job": "j", "worker": "w"},
        {"type": "Receipt", "job": "j", "worker": "w", "incarnation": 1, "sequence": "x"},
        {"type": "ErasedReceipt", "job": "j", "worker": "w", "request": "r", "extra": 1},
        {"type": "ErasedReceipt", "job": "j"},
    ):
        with pytest.raises(BadBytes, match="cannot be decoded"):
            decode(b"DEAL\x01\x00" + msgspec.msgpack.encode([record]))


def test_other_protocols_and_sizes_are_named() -> None:
    with pytest.raises(BadBytes, match="protocol version 9; this dealfl supports 1"):
        decode(b"DEAL\x09" + encode([UPDATE])[5:])
    with pytest.raises(BadBytes, match="the limit is 10"):
        decode(encode([UPDATE]), max_bytes=10)
    with pytest.raises(BadBytes, match="not a dealfl packet"):
        decode(b"GET / HTTP/1.1")


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(BadBytes):
        decode(b"DEAL\x01" + b"\x91" * 200_000)
