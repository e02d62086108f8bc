"""Transport of messages as bytes, by publish and subscribe.

A transport may lose, repeat and reorder messages; only a receipt proves that a message arrived. The
bytes are a version and a msgpack record. Received bytes are not trusted: the size is checked first,
and unknown tags, fields and types are refused. Pickle is never used.
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

    Parameters
    ----------
    message : Message
        Any message.

    Returns
    -------
    bytes
        Magic bytes, the version of the protocol, and a msgpack map.

    Examples
    --------
    >>> from dealfl.messages import ErasedReceipt
    >>> receipt = ErasedReceipt(job="digits", worker="phone 7", request="r1")
    >>> decode(encode(receipt)) == receipt
    True
    """
    return _MAGIC + bytes([PROTOCOL]) + _ENCODER.encode(message)


def decode(data: bytes, max_bytes: int = MAX_BYTES) -> Message:
    """Return the message in bytes that `encode` wrote.

    Parameters
    ----------
    data : bytes
        Bytes from the network.
    max_bytes : int
        Largest size to read, in bytes.

    Returns
    -------
    Message
        The message, with every field checked.

    Raises
    ------
    BadBytes
        If the bytes are too long, have another protocol, or contain no valid message.
    """
    if len(data) > max_bytes:
        raise BadBytes(f"message has {len(data)} bytes; the limit is {max_bytes}")
    if not data.startswith(_MAGIC) or len(data) < _HEAD:
        raise BadBytes(f"not a dealfl message: it starts with {bytes(data[:8])!r}")
    if data[_HEAD - 1] != PROTOCOL:
        raise BadBytes(
            f"message has protocol version {data[_HEAD - 1]}; this dealfl supports {PROTOCOL}"
        )
    try:
        message: Message = _DECODER.decode(memoryview(data)[_HEAD:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadBytes(f"message cannot be decoded: {error}") from None
    return message


class Transport(Protocol):
    """A carrier of bytes from publishers to subscribers."""

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send a payload to all subscribers of a topic.

        Parameters
        ----------
        topic : str
            Name of the topic.
        payload : bytes
            Bytes to deliver.
        retain : bool
            Whether the payload also reaches later subscribers, until another replaces it.
        """

    def subscribe(self, topic: str, receiver: Receiver) -> None:
        """Call a receiver with every payload of a topic.

        Parameters
        ----------
        topic : str
            Name of the topic.
        receiver : callable
            Function that takes the payload.
        """


class LocalTransport:
    """A transport within a process.

    It calls the subscribers of a topic at once, in the order of their subscription.

    Examples
    --------
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
        """Send a payload to all subscribers of a topic.

        Parameters
        ----------
        topic : str
            Name of the topic.
        payload : bytes
            Bytes to deliver.
        retain : bool
            Whether the payload also reaches later subscribers. An empty payload removes the
            retained one.
        """
        if retain and payload:
            self._retained[topic] = payload
        elif retain:
            self._retained.pop(topic, None)
        for receiver in list(self._receivers.get(topic, ())):
            receiver(payload)

    def subscribe(self, topic: str, receiver: Receiver) -> None:
        """Call a receiver with the retained payload of a topic, then with every new one.

        Parameters
        ----------
        topic : str
            Name of the topic.
        receiver : callable
            Function that takes the payload.
        """
        self._receivers.setdefault(topic, []).append(receiver)
        if topic in self._retained:
            receiver(self._retained[topic])
