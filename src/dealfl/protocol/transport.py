"""Messages as bytes: packets, compression, and pieces of packets that are too long for a broker.

A network may lose, repeat and reorder packets; only a receipt proves that a message arrived. Bytes
from the network are not trusted: sizes are checked before memory is allocated, and unknown tags,
fields and types are refused. Pickle is never used.

    "DEAL"  protocol, 1 byte  kind, 1 byte  body

The body is a msgpack list of messages, the same list compressed by zlib after its length, or a
piece: hash of the whole packet, index, number of pieces, length of the packet, bytes.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from dealfl.errors import BadBytes
from dealfl.protocol.bounds import find_tiny
from dealfl.protocol.messages import PROTOCOL, MaskedUpdate, Message, Opened

MAX_BYTES = 1 << 26
MAX_MESSAGES = 4096
INLINE_BYTES = 96 * 1024  # some managed brokers accept 128 KB

_MAGIC = b"DEAL"
_PLAIN, _COMPRESSED, _PIECE = 0, 1, 2
_HEAD = len(_MAGIC) + 2
_LENGTH = struct.Struct("<I")
_PIECE_HEAD = struct.Struct("<32sIII")
_MIN_PIECE = 512  # bytes; the number of pieces is bounded
_STEP = 1 << 16  # bytes that are decompressed at once
_WORTH = 256  # bytes; shorter packets are not compressed
_OBJECT_BYTES = 1024  # of a message that consists of one field
_ITEM_BYTES = 128  # an owner or a position as an object; one in a packet can have two bytes
_LISTS = ("owners", "erased", "plus", "minus")
_LIST = msgspec.msgpack.Decoder(Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MAX_MESSAGES)])
_MESSAGE = msgspec.msgpack.Decoder(Message)
_UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_ENCODER = msgspec.msgpack.Encoder()


def encode(messages: Sequence[Message]) -> bytes:
    """Return the bytes of some messages, compressed where that makes them shorter.

    Examples
    --------
    >>> from dealfl.protocol.messages import ErasedReceipt
    >>> receipt = ErasedReceipt(job="digits", worker="w7", request="r1")
    >>> decode(encode([receipt])) == (receipt,)
    True
    """
    return pack(_ENCODER.encode(messages), sum(map(_count_noise, messages)))


def _count_noise(message: Message) -> int:
    """Return how many bytes of a message are masked or encrypted: nothing makes them shorter."""
    if isinstance(message, MaskedUpdate):
        return len(message.delta)
    return len(message.sealed) if isinstance(message, Opened) else 0


def pack(body: bytes, noise: int = 0) -> bytes:
    """Return a packet with any content, compressed where that makes it shorter.

    It is not tried if most bytes are noise.
    """
    if len(body) >= _WORTH and 2 * noise < len(body):
        short = _LENGTH.pack(len(body)) + zlib.compress(body, 1)
        if len(short) < len(body):
            return _head(_COMPRESSED) + short
    return _head(_PLAIN) + body


def decode(packet: bytes, max_bytes: int = MAX_BYTES) -> tuple[Message, ...]:
    """Return the messages in a packet that `encode` wrote."""
    return tuple(Unread(packet, max_bytes))


class Unread:
    """The messages of a packet, counted but not yet decoded: each is when it is reached.

    Examples
    --------
    >>> len(Unread(encode([])))
    0
    """

    def __init__(self, packet: bytes, max_bytes: int = MAX_BYTES) -> None:
        self._max_items = max_bytes // _ITEM_BYTES
        try:
            self._encoded = _LIST.decode(unpack(packet, max_bytes))
        except _UNDECODABLE as error:
            raise BadBytes(f"packet cannot be decoded: {error}") from None

    def __len__(self) -> int:
        return len(self._encoded)

    def __iter__(self) -> Iterator[Message]:
        items = 0
        for encoded in self._encoded:
            message = _decode_one(encoded)
            items += sum(len(getattr(message, name, ())) for name in _LISTS)
            if items > self._max_items:
                raise BadBytes(f"packet has more than {self._max_items} list items")
            yield message


def _decode_one(encoded: msgspec.Raw) -> Message:
    try:
        message: Message = _MESSAGE.decode(encoded)
    except _UNDECODABLE as error:
        raise BadBytes(f"packet cannot be decoded: {error}") from None
    if (wrong := find_tiny(message)) is not None:
        raise BadBytes(f"packet cannot be decoded: {wrong} is out of bounds")
    return message


def unpack(packet: bytes, max_bytes: int = MAX_BYTES) -> memoryview:
    """Return the content of a packet that `pack` wrote."""
    kind, body = _open(packet, max_bytes)
    if kind == _COMPRESSED:
        return memoryview(_decompress(body, max_bytes))
    if kind != _PLAIN:
        raise BadBytes(f"packet has the kind {kind}; expected 0 or 1")
    return body


def split(packet: bytes, inline_bytes: int = INLINE_BYTES) -> list[bytes]:
    """Return a packet as it is, or in pieces if it is too long to be sent at once."""
    if len(packet) <= inline_bytes:
        return [packet]
    size = max(inline_bytes - _HEAD - _PIECE_HEAD.size, _MIN_PIECE)
    count, key = -(-len(packet) // size), hashlib.sha256(packet).digest()
    return [
        _head(_PIECE)
        + _PIECE_HEAD.pack(key, index, count, len(packet))
        + packet[index * size : (index + 1) * size]
        for index in range(count)
    ]


class Assembly:
    """The pieces of one packet from one sender; pieces of another packet replace them.

    Examples
    --------
    >>> packet, assembly = bytes(1_000), Assembly()
    >>> [assembly.add(piece) == packet for piece in split(b"DEAL" + packet, 600)]
    [False, False]
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._start(())

    def _start(self, packet: tuple[bytes | int, ...]) -> None:
        self._packet, self.size_bytes = packet, 0
        self._pieces: dict[int, memoryview] = {}

    def add(self, data: bytes) -> bytes | None:
        """Take a packet or a piece from the network."""
        kind, body = _open(data, self._max_bytes)
        if kind != _PIECE:
            return data
        if len(body) < _PIECE_HEAD.size:
            raise BadBytes(f"piece of a packet has {len(body)} bytes, too few for its head")
        key, index, count, length = _PIECE_HEAD.unpack_from(body)
        piece = body[_PIECE_HEAD.size :]
        self._check(index, count, length, len(piece))
        if self._packet != (key, count, length):
            self._start((key, count, length))
        self.size_bytes += len(piece) - len(self._pieces.get(index, b""))
        self._pieces[index] = piece
        if len(self._pieces) < count:
            return None
        packet = b"".join(self._pieces[index] for index in range(count))
        self._start(())
        if hashlib.sha256(packet).digest() != key:
            raise BadBytes("the pieces of a packet do not have the hash that they state")
        return packet

    def _check(self, index: int, count: int, length: int, piece: int) -> None:
        if length > self._max_bytes:
            raise BadBytes(f"packet has {length} bytes; the limit is {self._max_bytes}")
        fits = piece >= _MIN_PIECE and (count - 1) * piece < length
        if not index < count or not (fits if index < count - 1 else 0 < piece <= length):
            raise BadBytes(f"piece {index + 1} of {count} has {piece} of {length} bytes")


def _head(kind: int) -> bytes:
    return _MAGIC + bytes([PROTOCOL, kind])


def _open(packet: bytes, max_bytes: int) -> tuple[int, memoryview]:
    """Return the kind and the body of a packet."""
    if len(packet) > max_bytes:
        raise BadBytes(f"packet has {len(packet)} bytes; the limit is {max_bytes}")
    if not packet.startswith(_MAGIC) or len(packet) < _HEAD:
        raise BadBytes(f"not a dealfl packet: it starts with {bytes(packet[:8])!r}")
    if packet[_HEAD - 2] != PROTOCOL:
        raise BadBytes(
            f"packet has protocol version {packet[_HEAD - 2]}; this dealfl supports {PROTOCOL}"
        )
    return packet[_HEAD - 1], memoryview(packet)[_HEAD:]


def _decompress(body: memoryview, max_bytes: int) -> bytearray:
    if len(body) < _LENGTH.size:
        raise BadBytes("packet is too short for the length of its content")
    length = _LENGTH.unpack_from(body)[0]
    if length > max_bytes - _OBJECT_BYTES:  # content and messages take twice the limit together
        raise BadBytes(f"packet has {length} bytes uncompressed; the limit is {max_bytes}")
    content, filled, unpack = bytearray(length), 0, zlib.decompressobj()
    try:
        for start in range(_LENGTH.size, len(body), _STEP):
            rest: bytes | memoryview = body[start : start + _STEP]
            while rest and not unpack.eof:
                part = unpack.decompress(rest, _STEP)
                rest, end = unpack.unconsumed_tail, filled + len(part)
                if end > length:
                    raise BadBytes(f"packet contains more than the {length} bytes that it states")
                content[filled:end] = part
                filled = end
    except zlib.error as error:
        raise BadBytes(f"packet cannot be decompressed: {error}") from None
    if filled != length or not unpack.eof or unpack.unused_data:
        raise BadBytes(f"packet does not contain the {length} bytes that it states")
    return content
