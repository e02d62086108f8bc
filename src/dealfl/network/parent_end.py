"""A region's connection to the broker of its parent.

The region is a device there. It follows the parent's epoch, takes each version that is published,
and hands everything to the pump of its server, so that one commit serves both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from dealfl.network.connection import Delivery
from dealfl.network.credentials import Credentials
from dealfl.network.server_link import ServerLink
from dealfl.network.topics import ServerState
from dealfl.protocol import Announce, Declined, Erased, Fetch, Message, Update

_UPWARD = (Announce, Declined, Update, Erased, Fetch)

Take = Callable[[Sequence[Message], Callable[[], None]], None]
Meet = Callable[[Sequence[str], str], None]


class ParentEnd:
    """Carries messages between a region and its parent.

    `take` gets messages of the parent, and what acknowledges them; `meet` its path and schema.
    """

    def __init__(self, job: str, brokers: Sequence[Credentials], take: Take, meet: Meet) -> None:
        self._name = brokers[0].user
        self._take_messages = take
        self._meet_parent = meet
        self._link = ServerLink(
            job, brokers, [self._name], self._take, self._met, follows_model=True
        )
        self.connection = self._link.connection

    @property
    def is_served(self) -> bool:
        """Whether the parent is at its broker."""
        return self._link.is_served

    def send(self, messages: Iterable[Message]) -> list[Message]:
        """Send what is for the parent, as one packet; return what is for workers."""
        others: list[Message] = []
        upward: list[Message] = []
        for message in messages:
            (upward if isinstance(message, _UPWARD) else others).append(message)
        if upward:
            self._link.send(self._name, upward)
        return others

    def _take(self, delivery: Delivery) -> bool:
        """Take a packet of the parent; return whether it is acknowledged later."""
        if delivery.topic == f"{self._link.topics.model}/version" or not delivery.payload:
            return False
        messages = self._link.read(delivery)
        if messages:
            self._take_messages(messages, partial(self.connection.acknowledge, delivery))
        return bool(messages)

    def _met(self, state: ServerState, is_unknown: bool) -> None:
        """Announce the region to a parent that may not know of it."""
        if is_unknown:
            self._meet_parent(state.path, state.schema)
