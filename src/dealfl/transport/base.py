"""The protocol: publish under a topic, subscribe to a topic. Delivery is not promised.

A transport may lose, repeat and reorder messages; only receipts prove that something arrived.
"""

from collections.abc import Callable
from typing import Protocol

__all__ = ["Receiver", "Transport"]

Receiver = Callable[[bytes], None]


class Transport(Protocol):
    """Carries bytes from whoever publishes to whoever has subscribed."""

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send to all subscribers of a topic; a retained payload also reaches later ones."""

    def subscribe(self, topic: str, receiver: Receiver) -> None:
        """Have a receiver called with every payload of a topic."""
