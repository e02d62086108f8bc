"""Everything in one process: the twin of a broker, and the default."""

from __future__ import annotations

from dealfl.transport.base import Receiver

__all__ = ["LocalTransport"]


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
        """Have a receiver called with every payload of a topic, the retained one first."""
        self._receivers.setdefault(topic, []).append(receiver)
        if topic in self._retained:
            receiver(self._retained[topic])
