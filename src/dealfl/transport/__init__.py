"""How messages travel: publish and subscribe."""

from dealfl.transport.base import Transport
from dealfl.transport.codec import decode, encode
from dealfl.transport.local import LocalTransport

__all__ = ["LocalTransport", "Transport", "decode", "encode"]
