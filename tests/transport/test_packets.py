"""Packets: compressed where that is shorter, in pieces where they are long."""

import random
import struct
import tracemalloc
import zlib
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dealfl.errors import BadBytes
from dealfl.learners import PersonalizedPageRank
from dealfl.protocol.messages import Erase, MaskedUpdate, Message, Opened, Receipt, Update
from dealfl.protocol.transport import Assembly, decode, encode, split

HEAD = b"DEAL\x01"


def update(delta: bytes) -> Update:
    return Update(job="j", worker="w", incarnation=1, sequence=1, round=1, delta=delta)


def test_a_step_is_one_packet_in_order() -> None:
    messages = [Receipt(job="j", worker="w", incarnation=1, sequence=n) for n in range(1, 51)]
    assert decode(encode(messages)) == tuple(messages)
    assert decode(encode([])) == ()


def test_what_compresses_is_compressed_and_noise_is_not() -> None:
    noise = random.Random(0).randbytes(10_000)
    assert len(encode([update(bytes(10_000))])) < 300
    assert len(encode([update(noise)])) < 10_300
    assert decode(encode([update(noise)])) == (update(noise),)


def test_nothing_tries_to_compress_masked_and_encrypted_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[bytes] = []

    def compress(body: bytes, _: int) -> bytes:
        tried.append(body)
        return body

    monkeypatch.setattr(zlib, "compress", compress)
    noise, hash_ = random.Random(0).randbytes(10_000), bytes(32)
    masked = MaskedUpdate(
        job="j", worker="w", incarnation=1, sequence=1, round=1, delta=noise, keyholder="k",
        nonce=hash_, fresh=1, seal=hash_,
    )  # fmt: skip
    opened = Opened(job="j", worker="w", request=hash_, nonce=hash_, sealed=noise)
    assert decode(encode([masked, opened])) == (masked, opened)
    assert not tried
    erase = Erase(job="j", worker="", request="r", owners=(bytes(32),) * 500)
    encode([masked, erase])  # most of it is not masked
    encode([update(noise)])
    assert len(tried) == 2


def test_a_delta_of_many_pairs_takes_less_than_a_byte_for_each() -> None:
    """The figure for real histories is in the benchmark."""
    draw, weights = np.random.default_rng(0), 1.0 / np.arange(1, 1683)
    weights /= weights.sum()
    histories = [draw.choice(1682, size=40, replace=False, p=weights).tolist() for _ in range(60)]
    delta = PersonalizedPageRank(n_items=1682).learn(histories)
    pairs = {pair for one in histories for pair in combinations(sorted(one), 2)}
    assert len(encode([update(delta.to_bytes())])) < len(pairs)


@pytest.mark.parametrize("kind", [b"\x01", b"\x02"])
def test_a_bomb_is_refused_before_memory_is_taken(kind: bytes) -> None:
    limit = 1 << 20
    content = zlib.compress(bytes(1 << 28), 1)
    bombs = [struct.pack("<I", length) + content for length in (10, limit, limit + 1, 1 << 31)]
    bombs.append(struct.pack("<32sIII", bytes(32), 0, 1 << 30, 1 << 31) + b"x" * 600)
    bombs.append(struct.pack("<32sIII", bytes(32), 0, limit, limit) + b"x")
    packets = [HEAD + kind + bomb[: limit - 10] for bomb in bombs]
    tracemalloc.start()
    for packet in packets:
        for read in (partial(decode, max_bytes=limit), partial(_assemble, limit=limit)):
            with pytest.raises(BadBytes):
                read(packet)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * limit


def test_many_short_items_are_refused_before_each_becomes_an_object() -> None:
    limit = 1 << 22
    erase = Erase(job="j", worker="w", owners=(b"ab",) * 4096, request="r")
    packet = encode([erase] * 250)
    assert len(packet) < 30_000
    tracemalloc.start()
    with pytest.raises(BadBytes, match="more than 32768 list items"):
        decode(packet, limit)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * limit


def _assemble(packet: bytes, limit: int) -> tuple[Message, ...]:
    return decode(Assembly(limit).add(packet) or b"", limit)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(600, 5_000), st.integers(1, 20_000))
def test_pieces_in_any_order_and_repeated_are_the_packet(seed: int, inline: int, size: int) -> None:
    draw = random.Random(seed)
    packet = HEAD + b"\x00" + draw.randbytes(size)
    pieces = split(packet, inline)
    assert all(len(piece) <= max(inline, 600) for piece in pieces)
    order = [*pieces, *draw.sample(pieces, len(pieces) // 2)]
    draw.shuffle(order)
    assembly = Assembly()
    whole = [done for done in map(assembly.add, order) if done is not None]
    assert whole
    assert set(whole) == {packet}


def test_pieces_of_a_newer_packet_replace_older_ones() -> None:
    old, new = (split(HEAD + b"\x00" + bytes([n]) * 5_000, 1_000) for n in (1, 2))
    assembly = Assembly()
    for piece in old[:-1]:
        assert assembly.add(piece) is None
    assert [assembly.add(piece) for piece in new][-1] == HEAD + b"\x00" + b"\x02" * 5_000


def test_pieces_that_lie_are_refused() -> None:
    pieces = split(HEAD + b"\x00" + bytes(5_000), 1_000)
    assembly = Assembly()
    for piece in pieces[:-1]:
        assembly.add(piece)
    with pytest.raises(BadBytes, match="hash"):
        assembly.add(pieces[-1][:-1] + b"x")
    for place, count, length, size in [(3, 3, 2_000, 10), (0, 2, 2_000, 0), (0, 9, 600, 600)]:
        head = struct.pack("<32sIII", bytes(32), place, count, length)
        with pytest.raises(BadBytes, match="piece"):
            Assembly().add(HEAD + b"\x02" + head + bytes(size))
    with pytest.raises(BadBytes, match="too few"):
        Assembly().add(HEAD + b"\x02123")


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from([b"", b"\x00", b"\x01", b"\x02"]))
def test_noise_never_ends_in_another_error(noise: bytes, kind: bytes) -> None:
    assembly = Assembly(1 << 12)
    for data in (noise, HEAD + kind + noise):
        try:
            packet = assembly.add(data)
            if packet is not None:
                decode(packet, 1 << 12)
        except BadBytes:
            continue
