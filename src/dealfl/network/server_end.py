"""The server's end of the network: packets in, packets out, over one broker or several."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

import msgspec

from dealfl.errors import BadBytes
from dealfl.messages import Assignment, Message, Published
from dealfl.network.connection import Connection, Delivery, Will
from dealfl.network.credentials import Credentials
from dealfl.network.pump import Handle, Pump
from dealfl.network.state import ServerState
from dealfl.network.topics import Topics
from dealfl.transport import Assembly, decode, encode, split

__all__ = ["ServerEnd"]

_LOG = logging.getLogger("dealfl.network")
_SESSION_S = 7 * 24 * 3600
_MAX_SENDERS = 100_000
_RETURNS_PER_S = 200.0  # workers that may connect again in a second


class ServerEnd:
    """Carries messages between a server and the brokers that it is connected to.

    A reply goes over the connection on which the worker was heard last. The sender of a message is
    the worker in its topic, which the broker checked; a message in the name of another is dropped.
    """

    def __init__(
        self,
        job: str,
        handle: Handle,
        state: ServerState,
        brokers: Sequence[Credentials],
        *,
        ttl_s: Callable[[], float],
        asked: Callable[[str, bytes], bytes] | None = None,
    ) -> None:
        self.state, self.topics = state, Topics(job, state.epoch)
        self.dropped: dict[str, int] = {}  # by gateway: bad packets, strangers' messages
        self.connections = [_Broker(self, one).connection for one in brokers]
        self._pump = Pump(handle, self.send)
        self._ttl_s, self._asked = ttl_s, asked
        self._routes: dict[str, tuple[Connection, str]] = {}
        self._assemblies: dict[tuple[str, str], Assembly] = {}
        self._model: list[bytes] = []
        self._pieces = 0  # retained by the brokers

    async def run(self, stopped: asyncio.Event) -> None:
        """Serve until stopped, then say goodbye."""
        ends = [asyncio.ensure_future(one.run(stopped)) for one in self.connections]
        try:
            pump = asyncio.ensure_future(self._pump.run(stopped))
            waits = asyncio.ensure_future(stopped.wait())
            done, _ = await asyncio.wait({pump, waits}, return_when=asyncio.FIRST_COMPLETED)
            if pump in done:
                pump.result()  # raises what ended it
            pump.cancel()
        finally:
            stopped.set()
            for one in self.connections:
                one.publish(self.topics.state, self._offline(), retain=True)
            await asyncio.gather(*ends, return_exceptions=True)

    def wake(self) -> None:
        """Call the server soon."""
        self._pump.wake()

    def send(self, messages: Iterable[Message]) -> None:
        """Send messages: one packet for each recipient."""
        packets: dict[str, list[Message]] = {}
        for message in messages:
            if isinstance(message, Published):
                self._publish(message)
            else:
                packets.setdefault(message.worker, []).append(message)
        for worker, grouped in packets.items():
            self._send_to(worker, grouped)

    def _publish(self, message: Published) -> None:
        self._model = split(encode([message]), self.state.inline_bytes)
        for connection in self.connections:
            self.publish_model(connection)

    def publish_model(self, connection: Connection) -> None:
        """Publish the last version on a connection; devices fetch it when they need it."""
        self._pieces = max(self._pieces, len(self._model))
        for place in range(self._pieces):
            piece = self._model[place] if place < len(self._model) else b""
            connection.publish(f"{self.topics.model}/{place}", piece, retain=True)

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
        expiry_s = self._ttl_s() if any(isinstance(m, Assignment) for m in messages) else None
        for piece in pieces:
            route[0].publish(self.topics.down(route[1], worker), piece, expiry_s=expiry_s)

    def receive(self, connection: Connection, delivery: Delivery) -> None:
        """Take a packet from a broker."""
        sender = self.topics.sender(delivery.topic)
        operator = self.topics.user(delivery.topic, "control/ask")
        if operator and self._asked is not None:
            answer = self._asked(operator, delivery.payload)
            connection.publish(self.topics.answer(operator), answer)
        elif len(sender) == 2:
            gateway, worker = sender
            try:
                messages = self._messages(gateway, worker, delivery.payload)
            except BadBytes as error:
                self._drop(gateway, str(error))
                messages = ()
            if messages:
                self._route(worker, connection, gateway)
                self._pump.put(messages, lambda: connection.acknowledge([delivery]))
                return
        connection.acknowledge([delivery])

    def _route(self, worker: str, connection: Connection, gateway: str) -> None:
        """Remember how a worker is reached; let a larger fleet return more slowly."""
        self._routes[worker] = (connection, gateway)
        spread_s = len(self._routes) / _RETURNS_PER_S
        if spread_s >= 2.0 * max(self.state.spread_s, 1.0):
            self.state = msgspec.structs.replace(self.state, spread_s=spread_s)
            for one in self.connections:
                one.publish(self.topics.state, self.state.encode(), retain=True)

    def _messages(self, gateway: str, worker: str, payload: bytes) -> Sequence[Message]:
        if len(self._assemblies) > _MAX_SENDERS:
            self._assemblies.clear()
        assembly = self._assemblies.setdefault((gateway, worker), Assembly(self.state.max_bytes))
        packet = assembly.add(payload)
        if packet is None:
            return ()
        del self._assemblies[gateway, worker]
        messages = decode(packet, self.state.max_bytes)
        own = [one for one in messages if one.worker == worker and one.job == self.topics.job]
        if len(own) < len(messages):
            self._drop(gateway, f"a message in the name of another than {worker!r}")
        return own

    def _drop(self, gateway: str, reason: str) -> None:
        self.dropped[gateway] = self.dropped.get(gateway, 0) + 1
        if self.dropped[gateway] in (1, 10, 100, 1_000):
            _LOG.warning("%s: %s packets dropped: %s", gateway, self.dropped[gateway], reason)

    def _offline(self) -> bytes:
        return ServerState(epoch=self.state.epoch, online=False).encode()


class _Broker:
    """One of the server's connections."""

    def __init__(self, end: ServerEnd, credentials: Credentials) -> None:
        self._end = end
        self.connection = Connection(
            credentials, self, will=self._will, session_s=_SESSION_S, keepalive_s=30
        )

    def _will(self) -> Will:
        return Will(self._end.topics.state, self._end._offline(), retain=True)

    def connected(self) -> None:
        topics = self._end.topics
        self.connection.subscribe([topics.up("+", "+"), topics.left("+"), topics.ask("+")])
        self.connection.publish(topics.state, self._end.state.encode(), retain=True)
        self._end.publish_model(self.connection)

    def received(self, delivery: Delivery) -> None:
        self._end.receive(self.connection, delivery)
