"""How messages travel: as bytes, by publish and subscribe.

A transport may lose, repeat and reorder messages; only receipts prove that something arrived. The
bytes are a version and a msgpack record, and nothing that arrives is trusted: the size is compared
with the limit first, and unknown tags, fields and types are refused. There is no pickle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from dealfl.errors import BadBytes
from dealfl.messages import PROTOCOL, Message

__all__ = ["MAX_BYTES", "LocalTransport", "Transport", "decode", "encode"]

MAX_BYTES = 1 << 26

_MAGIC = b"DEAL"
_HEAD = len(_MAGIC) + 1
_DECODER = msgspec.msgpack.Decoder(Message)
_ENCODER = msgspec.msgpack.Encoder()

Receiver = Callable[[bytes], None]


def encode(message: Message) -> bytes:
    """Return the bytes of a message.

    >>> from dealfl.messages import ErasedReceipt
    >>> receipt = ErasedReceipt(job="digits", worker="phone 7", request="r1")
    >>> decode(encode(receipt)) == receipt
    True
    """
    return _MAGIC + bytes([PROTOCOL]) + _ENCODER.encode(message)


def decode(data: bytes, max_bytes: int = MAX_BYTES) -> Message:
    """Return the message that `encode` wrote, or raise `BadBytes`."""
    if len(data) > max_bytes:
        raise BadBytes(f"a message of {len(data)} bytes; at most {max_bytes} are read")
    if not data.startswith(_MAGIC) or len(data) < _HEAD:
        raise BadBytes(f"not a message: it begins with {bytes(data[:8])!r}")
    if data[_HEAD - 1] != PROTOCOL:
        raise BadBytes(f"a message of protocol {data[_HEAD - 1]}; this program speaks {PROTOCOL}")
    try:
        message: Message = _DECODER.decode(memoryview(data)[_HEAD:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadBytes(f"a message that can not be read: {error}") from None
    return message


class Transport(Protocol):
    """Carries bytes from publishers to subscribers."""

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send to all subscribers of a topic; a retained payload also reaches later ones."""

    def subscribe(self, topic: str, receiver: Receiver) -> None:
        """Call a receiver with every payload of a topic."""


class LocalTransport:
    """Calls the subscribers of a topic at once, in the order in which they subscribed.

    >>> transport, heard = LocalTransport(), []
    >>> transport.publish("model", b"version 1", retain=True)
    >>> transport.subscribe("model", heard.append)
    >>> transport.publish("model", b"version 2")
    >>> heard
    [b'version 1', b'version 2']
    """

    def __init__(self) -> None:
        self._receivers: dict[str, list[Receiver]] = {}
        self._retained: dict[str, bytes] = {}

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send to all subscribers of a topic; an empty retained payload clears the last one."""
        if retain and payload:
            self._retained[topic] = payload
        elif retain:
            self._retained.pop(topic, None)
        for receiver in list(self._receivers.get(topic, ())):
            receiver(payload)

    def subscribe(self, topic: str, receiver: Receiver) -> None:
        """Call a receiver with every payload of a topic, the retained one first."""
        self._receivers.setdefault(topic, []).append(receiver)
        if topic in self._retained:
            receiver(self._retained[topic])
