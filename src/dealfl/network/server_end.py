"""The server's end of the network: packets in, packets out, over one broker or several."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec

from dealfl.errors import BadBytes
from dealfl.network.clock import Clock, carry
from dealfl.network.connection import Connection, Delivery, Will
from dealfl.network.credentials import Credentials
from dealfl.network.inbox import MAX_SENDERS, Inbox, Quota
from dealfl.network.state import ServerState
from dealfl.network.topics import Topics
from dealfl.protocol import Asleep, Assignment, Message, Published, decode, encode, split
from dealfl.server import Server

__all__ = ["ServerEnd"]

_LOG = logging.getLogger("dealfl.network")
_RETURNS_PER_S = 200.0  # workers that may connect again in a second


class ServerEnd:
    """Carries messages between a server and the brokers that it is connected to.

    A reply goes over the connection on which the worker was heard last. The sender of a message is
    the worker in its topic, which the broker checked; a message in the name of another is dropped.
    When the server begins a new epoch, its connections are opened again with the new topics.

    Parameters
    ----------
    server : Server
        The server.
    brokers : sequence of Credentials
        The server's credentials for each broker.
    limits : ServerState or None
        Limits of packets; None uses the defaults.
    answer : callable or None
        Returns the answer to an operator's question, both as packets.
    quota : Quota or None
        What one worker may send in a minute; None uses the defaults.
    """

    def __init__(
        self,
        server: Server,
        brokers: Sequence[Credentials],
        *,
        limits: ServerState | None = None,
        answer: Callable[[str, bytes], bytes] | None = None,
        quota: Quota | None = None,
    ) -> None:
        self.state = msgspec.structs.replace(limits or ServerState(), epoch=server.epoch)
        self.topics = Topics(server.job, server.epoch)
        self.dropped: dict[str, int] = {}  # packets by user
        self.connections = [self._connect(one) for one in brokers]
        self._server, self._answer = server, answer
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._clock = Clock(server.handle, self.send, self._failed)
        self._inbox = Inbox(self.state.max_bytes, quota or Quota())
        self._routes: dict[str, tuple[Connection, str]] = {}
        self._heard: dict[tuple[Connection, str], set[str]] = {}  # workers by how they are reached
        self._model: list[bytes] = []
        self._version = 0
        self._pieces = 0  # retained by the brokers

    def _connect(self, credentials: Credentials) -> Connection:
        """Return a connection to a broker, which keeps the server's state and the model."""

        def will() -> Will:
            state = msgspec.structs.replace(self.state, online=False)
            return Will(self.topics.state, state.encode(), retain=True)

        def connected() -> None:
            every_epoch = Topics(self.topics.job)  # what is retained under another is cleared, too
            ways = [every_epoch.up("+", "+"), self.topics.left("+"), self.topics.ask("+")]
            connection.subscribe(ways)
            connection.publish(self.topics.state, self.state.encode(), retain=True)
            self._publish_model(connection)
            self._forget_routes(connection)

        def received(delivery: Delivery) -> None:
            self._receive(connection, delivery)

        connection = Connection(
            [credentials], connected, received, will=will, keepalive_s=30, max_pause_s=5.0
        )
        return connection

    async def run(self, stopped: asyncio.Event) -> None:
        """Serve until stopped.

        Parameters
        ----------
        stopped : asyncio.Event
            Ends the call when it is set.
        """
        await carry(self.connections, [self._clock], self._failed, stopped)

    # -- out ------------------------------------------------------------------------------------

    def send(self, messages: Iterable[Message]) -> None:
        """Send messages: one packet for each recipient.

        Parameters
        ----------
        messages : iterable of Message
            Messages of the server.
        """
        if self._server.epoch != self.topics.epoch:
            self._enter_epoch()
        packets: dict[str, list[Message]] = {}
        for message in messages:
            if isinstance(message, Published) and not message.worker:
                self._model = split(encode([message]), self.state.inline_bytes)
                self._version = message.version
                for connection in self.connections:
                    self._publish_model(connection)
            else:
                packets.setdefault(message.worker, []).append(message)
        for worker, grouped in packets.items():
            self._send_to(worker, grouped)

    def _enter_epoch(self) -> None:
        """Connect again with the topics of a new epoch; workers follow when they see its state."""
        self._model, version = [], f"{self.topics.model}/version"
        for connection in self.connections:
            self._publish_model(connection)
            connection.publish(version, b"", retain=True)
            connection.move()
        self._pieces = 0
        self.topics = Topics(self.topics.job, self._server.epoch)
        self.state = msgspec.structs.replace(self.state, epoch=self._server.epoch)

    def _publish_model(self, connection: Connection) -> None:
        """Publish the last version on a connection; devices fetch it when they need it."""
        self._pieces = max(self._pieces, len(self._model))
        for place in range(self._pieces):
            piece = self._model[place] if place < len(self._model) else b""
            connection.publish(f"{self.topics.model}/{place}", piece, retain=True)
        if self._model:
            confirm = partial(self._server.confirm, self._version)
            number = b"%d" % self._version
            connection.publish(f"{self.topics.model}/version", number, retain=True, done=confirm)

    def _send_to(self, worker: str, messages: list[Message]) -> None:
        pieces = split(encode(messages), self.state.inline_bytes)
        if not worker:
            for connection in self.connections:
                for piece in pieces:
                    connection.publish(self.topics.all, piece)
            return
        route = self._routes.get(worker)
        if route is None:
            return  # not heard since the start; it will be when it announces itself
        deadlines = [one.deadline_s for one in messages if isinstance(one, Assignment)]
        expiry_s = max(deadlines) - time.time() if deadlines else None
        for piece in pieces:
            route[0].publish(self.topics.down(route[1], worker), piece, expiry_s=expiry_s)

    # -- in -------------------------------------------------------------------------------------

    def _receive(self, connection: Connection, delivery: Delivery) -> None:
        """Take a packet from a broker."""
        kind, *users = self.topics.parse(delivery.topic) or ("",)
        acknowledge = partial(connection.acknowledge, delivery)
        messages: Sequence[Message] = ()
        try:
            if delivery.retained:
                self._clear(connection, delivery)
            elif kind == "up":
                messages = self._messages(connection, delivery, *users)
            elif kind == "left":
                messages = self._asleep(connection, delivery, *users)
            elif kind == "ask":
                self._reply(connection, delivery, *users)
        except BadBytes as error:
            self._drop(users[0], str(error), users[1] if kind == "up" else "")
        if messages:
            self._clock.put(messages, acknowledge)
        else:
            acknowledge()

    def _messages(
        self, connection: Connection, delivery: Delivery, gateway: str, worker: str
    ) -> Sequence[Message]:
        """Return the messages that a packet completes, all of them from this worker."""
        packet = self._inbox.take(delivery)
        messages = () if packet is None else decode(packet, self.state.max_bytes)
        if any(one.worker != worker or one.job != self.topics.job for one in messages):
            raise BadBytes(f"a message in the name of another than {worker!r}")
        if messages:
            self._route(worker, connection, gateway)
        return messages

    def _asleep(self, connection: Connection, delivery: Delivery, gateway: str) -> list[Message]:
        """Return that workers are asleep, unless they are heard through another broker by now."""
        self._inbox.take(delivery)
        gone = sorted(self._heard.get((connection, gateway), ()))
        return [Asleep(job=self.topics.job, worker=one) for one in gone]

    def _forget_routes(self, connection: Connection) -> None:
        """Note that workers which this connection reached, or none, must announce themselves."""
        gone = [
            one for one in self._server.workers
            if self._routes.get(one, (connection,))[0] is connection
        ]  # fmt: skip
        for one in gone:
            self._forget_route(one)
        self._clock.put([Asleep(job=self.topics.job, worker=one) for one in gone])

    def _reply(self, connection: Connection, delivery: Delivery, operator: str) -> None:
        packet = self._inbox.take(delivery)
        if packet is not None and self._answer is not None:
            for piece in split(self._answer(operator, packet), self.state.inline_bytes):
                connection.publish(self.topics.answer(operator), piece)

    def _route(self, worker: str, connection: Connection, gateway: str) -> None:
        """Remember how a worker is reached; let a larger fleet return more slowly."""
        self._forget_route(worker)
        self._routes[worker] = (connection, gateway)
        self._heard.setdefault((connection, gateway), set()).add(worker)
        if len(self._routes) > MAX_SENDERS:
            self._forget_route(next(iter(self._routes)))  # heard longest ago
        spread_s = len(self._routes) / _RETURNS_PER_S
        if spread_s >= 1.5 * max(self.state.spread_s, 0.5):
            self.state = msgspec.structs.replace(self.state, spread_s=spread_s)
            for one in self.connections:
                one.publish(self.topics.state, self.state.encode(), retain=True)

    def _forget_route(self, worker: str) -> None:
        route = self._routes.pop(worker, None)
        if route is not None:
            self._heard[route].discard(worker)
            if not self._heard[route]:
                del self._heard[route]

    def _clear(self, connection: Connection, delivery: Delivery) -> None:
        """Remove a packet that a broker would repeat at every new connection."""
        if delivery.payload:
            connection.publish(delivery.topic, b"", retain=True)
            self._drop(delivery.topic.rpartition("/")[2], "sent with the flag `retain`")

    def _drop(self, user: str, reason: str, worker: str = "") -> None:
        """Count a refused packet of a user; flag the worker that it came from."""
        self.dropped[user] = self.dropped.get(user, 0) + 1
        if self.dropped[user] in (1, 10, 100, 1_000):
            _LOG.warning("%s: %s packets dropped: %s", user, self.dropped[user], reason)
            self._server.flag(worker, f"packet refused: {reason}")
