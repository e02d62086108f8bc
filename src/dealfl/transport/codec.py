"""Messages as bytes: a version and a msgpack record; nothing is trusted that comes in.

The size is compared with the limit first; what the record is, its tag says; unknown tags, fields
and types are refused. There is no pickle.
"""

from __future__ import annotations

import msgspec

from dealfl.errors import BadBytes
from dealfl.messages import PROTOCOL, Message

__all__ = ["MAX_BYTES", "decode", "encode"]

MAX_BYTES = 1 << 26

_MAGIC = b"DEAL"
_HEAD = len(_MAGIC) + 1
_DECODER = msgspec.msgpack.Decoder(Message)
_ENCODER = msgspec.msgpack.Encoder()


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
