"""What senders may put upon the server: a quota for each, and a bounded memory for pieces."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass

from dealfl.errors import BadBytes
from dealfl.network.connection import Delivery
from dealfl.protocol import MAX_BYTES, Assembly

__all__ = ["MAX_SENDERS", "Inbox", "Quota"]

MAX_SENDERS = 100_000
_MAX_ASSEMBLIES = 4  # packets of the largest size


@dataclass(frozen=True, slots=True)
class Quota:
    """What a worker may send in a minute: at once or spread, and no more in the long run.

    Parameters
    ----------
    packets : int
        Number of packets and pieces.
    size_bytes : int
        Their size in bytes.
    """

    packets: int = 6_000
    size_bytes: int = 2 * MAX_BYTES


class Inbox:
    """Makes packets of what arrives, and refuses what no honest sender sends."""

    def __init__(self, max_bytes: int, quota: Quota) -> None:
        self._max_bytes, self._quota = max_bytes, quota
        self._senders: OrderedDict[str, _Sender] = OrderedDict()  # by topic, silent ones first
        self._assembled = 0  # bytes of pieces

    def take(self, delivery: Delivery) -> bytes | None:
        """Return the packet that a delivery completes; None while pieces are missing."""
        sender = self._sender(delivery.topic)
        if not delivery.qos:
            raise BadBytes("sent with quality of service 0, which the server cannot slow down")
        if not sender.spend(len(delivery.payload), self._quota):
            raise BadBytes("more packets or bytes than a sender's quota")
        return self._assemble(sender, delivery.payload)

    def _sender(self, topic: str) -> _Sender:
        sender = self._senders.pop(topic, None) or _Sender(self._max_bytes)
        self._senders[topic] = sender
        while len(self._senders) > MAX_SENDERS:
            self._assembled -= self._senders.popitem(last=False)[1].assembly.size_bytes
        return sender

    def _assemble(self, sender: _Sender, payload: bytes) -> bytes | None:
        """Add a packet or a piece; beyond the memory for pieces, drop those of silent senders."""
        self._assembled -= sender.assembly.size_bytes
        try:
            packet = sender.assembly.add(payload)
        finally:
            self._assembled += sender.assembly.size_bytes
        for other in self._senders.values():
            if self._assembled <= _MAX_ASSEMBLIES * self._max_bytes:
                break
            self._assembled -= other.assembly.size_bytes
            other.assembly = Assembly(self._max_bytes)
        return packet


class _Sender:
    """A worker as the network knows it: the pieces of its packet, and the rest of its quota."""

    def __init__(self, max_bytes: int) -> None:
        self.assembly = Assembly(max_bytes)
        self._since_s, self._spent = 0.0, (0.0, 0.0)

    def spend(self, size_bytes: int, quota: Quota) -> bool:
        """Count a packet; return whether it is within the quota."""
        now_s = time.monotonic()
        share = min((now_s - self._since_s) / 60.0, 1.0)
        packets = max(self._spent[0] - share * quota.packets, 0.0) + 1
        size = max(self._spent[1] - share * quota.size_bytes, 0.0) + size_bytes
        within = packets <= quota.packets and size <= quota.size_bytes
        if within:
            self._since_s, self._spent = now_s, (packets, size)
        return within
