"""How a device reaches its server: the search for it, its epoch, and packets from pieces."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec

from dealfl.errors import BadBytes
from dealfl.network.connection import Connection, Delivery, Will
from dealfl.network.credentials import Credentials
from dealfl.network.topics import LOBBY, ServerState, Topics
from dealfl.protocol import Assembly, Message, decode, encode, pack, split
from dealfl.storage import log

RETAINED_S = 1.0  # for what a broker retains
_LOG = logging.getLogger("dealfl.network")
_PATIENCE_S = 20.0  # for a server that is not at this broker, if there are others
_MAX_ASKING_S = 600.0  # between two questions for the state


class ServerLink:
    """The connection of a device, a gateway or a region to the server of its job.

    The epoch of the server is found in its state, which the broker retains, or for which the
    device asks. When it changes, the device subscribes again. With several brokers, it looks for
    one at which the server is; the nodes of a clustered broker are all as good. After a connection
    that it closed itself, it takes the server to be where it was: it subscribes and announces its
    workers at once, and again if the state says otherwise.

    `take` gets a packet of this epoch, and returns whether it acknowledges it later. `met` gets
    each state of the server, and whether the server may not know of the workers.
    """

    def __init__(
        self,
        job: str,
        brokers: Sequence[Credentials],
        workers: Sequence[str],
        take: Callable[[Delivery], bool],
        met: Callable[[ServerState, bool], None],
        *,
        lost: Callable[[], None] = lambda: None,
        follows_model: bool = False,
    ) -> None:
        self.gateway = brokers[0].user
        self.topics = Topics(job, "")
        self.state: ServerState | None = None
        self._workers = workers
        self._take = take
        self._met = met
        self._note_loss = lost
        self._follows_model = follows_model
        self._several = len(brokers) > 1
        self._served = False
        self._asking: asyncio.TimerHandle | None = None
        self._assemblies: dict[str, Assembly] = {}
        lobby = Topics(job, LOBBY)
        self._question = lobby.up(self.gateway, workers[0])
        self._answer = lobby.down(self.gateway, workers[0])
        self.connection = Connection(
            [node for broker in brokers for node in broker.nodes()],
            self._connected,
            self._received,
            will=lambda: Will(self.topics.left(self.gateway), pack(b"")),
            lost=self._lost,
            is_prompt=lambda: self.state is not None and self.state.online,
            spread_s=lambda: 0.0 if self.state is None else self.state.spread_s,
        )

    @property
    def is_served(self) -> bool:
        """Whether the server is at this broker."""
        return self._served and self.connection.is_up

    @property
    def subscriptions(self) -> list[str]:
        """The topics of this epoch."""
        model = [f"{self.topics.model}/#"] * self._follows_model
        own = [self.topics.down(self.gateway, worker) for worker in self._workers]
        return [self.topics.all, *own, *model]

    def send(self, worker: str, messages: Sequence[Message]) -> None:
        """Send messages of a worker as one packet, once the server's limits are known."""
        if self.state is not None:
            for piece in split(encode(messages), self.state.inline_bytes):
                self.connection.publish(self.topics.up(self.gateway, worker), piece)

    def read(self, delivery: Delivery) -> Sequence[Message]:
        """Return the messages of the packet that a delivery completes; none if it does not."""
        limit = self.state.max_bytes if self.state else 0
        model = self.topics.model
        key = model if delivery.topic.startswith(model) else delivery.topic
        packet = self._assemblies.setdefault(key, Assembly(limit)).add(delivery.payload)
        return () if packet is None else decode(packet, limit)

    def drop_pieces(self, topic: str) -> None:
        """Forget the pieces of a packet that is to come again."""
        self._assemblies.pop(topic, None)

    def meet(self, state: ServerState) -> None:
        """Follow the server's epoch."""
        before = self.state or ServerState(online=False)
        self.state = state
        self._note_server(here=state.online)
        if before.epoch != state.epoch:
            if before.epoch:
                self.connection.unsubscribe(self.subscriptions)
            self.topics = Topics(self.topics.job, state.epoch)
            self._assemblies.clear()
            self.connection.subscribe(self.subscriptions)
        is_other = before != msgspec.structs.replace(state, spread_s=before.spread_s)
        self._met(state, state.online and is_other)

    # -- the connection's listener --------------------------------------------------------------

    def _connected(self) -> None:
        """Look for the server; it hears of the workers once it is there."""
        log("connected", worker=self.gateway)
        self._note_server(here=False)
        topics = [self.topics.state, self._answer]
        if self.state is not None:
            topics += self.subscriptions
        self.connection.subscribe(topics)
        if self.state is not None and self.state.online:
            self._met(self.state, True)

    def _lost(self) -> None:
        log("connection lost", worker=self.gateway)
        if self.state is not None:  # who announces itself too soon may be taken for one that left
            self.state = msgspec.structs.replace(self.state, online=False)
        self._note_loss()

    def _note_server(self, *, here: bool) -> None:
        self._served = here
        if self._asking is not None:
            self._asking.cancel()
        if not here:
            self._ask_later(RETAINED_S)
        if self._several and not here:
            asyncio.get_running_loop().call_later(_PATIENCE_S, self._look_elsewhere)

    def _ask_later(self, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._asking = loop.call_later(delay_s, self._ask_for_state, delay_s)

    def _ask_for_state(self, waited_s: float) -> None:
        """Ask the server for its state, which this broker does not retain."""
        if self.connection.is_up:
            self.connection.publish(self._question, pack(b""))
            self._ask_later(min(2 * waited_s, _MAX_ASKING_S))

    def _look_elsewhere(self) -> None:
        if not self._served:
            self.connection.move()

    def _received(self, delivery: Delivery) -> None:
        """Take a packet from the broker."""
        current = f"{self.topics.job_part}/{self.topics.epoch}/"
        try:
            if delivery.topic in (self.topics.state, self._answer):
                self.meet(ServerState.decode(delivery.payload))
            elif delivery.topic.startswith(current) and self._take(delivery):
                return
        except BadBytes as error:
            extra = {"deal_event": "packet dropped", "deal_reason": str(error)}
            _LOG.warning("%s: packet dropped: %s", delivery.topic, error, extra=extra)
        self.connection.acknowledge(delivery)
