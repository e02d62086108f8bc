"""The server's end of the network: packets in, packets out, over one broker or several."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from dealfl.errors import BadBytes
from dealfl.messages import Assignment, Message, Published
from dealfl.network.connection import Connection, Delivery, Will
from dealfl.network.credentials import Credentials
from dealfl.network.pump import Handle, Pump
from dealfl.network.state import ServerState
from dealfl.network.topics import Topics
from dealfl.transport import MAX_BYTES, Assembly, decode, encode, split

__all__ = ["Quota", "ServerEnd"]

_LOG = logging.getLogger("dealfl.network")
_MAX_SENDERS = 100_000
_RETURNS_PER_S = 200.0  # workers that may connect again in a second
_MAX_ASSEMBLIES = 4  # packets of the largest size


@dataclass(frozen=True, slots=True)
class Quota:
    """What one worker may send: a minute's worth at once, and no more in the long run."""

    packets: int = 6_000
    size_bytes: int = 2 * MAX_BYTES


class ServerEnd:
    """Carries messages between a server and the brokers that it is connected to.

    A reply goes over the connection on which the worker was heard last. The sender of a message is
    the worker in its topic, which the broker checked; a message in the name of another is dropped.

    Parameters
    ----------
    job : str
        Name of the job.
    handle : callable
        `Server.handle`.
    state : ServerState
        Epoch of the ledger, and limits that the server announces.
    brokers : sequence of Credentials
        The server's credentials for each broker.
    ttl_s : callable
        Returns the time to live of a round, in seconds; an assignment expires after it.
    answer : callable or None
        Returns the answer to a question of an operator.
    confirm : callable
        Receives the number of a version once a broker keeps it.
    quota : Quota or None
        What one worker may send.
    """

    def __init__(
        self,
        job: str,
        handle: Handle,
        state: ServerState,
        brokers: Sequence[Credentials],
        *,
        ttl_s: Callable[[], float],
        answer: Callable[[str, bytes], bytes] | None = None,
        confirm: Callable[[int], None] = lambda version: None,  # noqa: ARG005
        quota: Quota | None = None,
    ) -> None:
        self.state, self.topics = state, Topics(job, state.epoch)
        self.dropped: dict[str, int] = {}  # packets by gateway
        self.connections = [_Broker(self, one).connection for one in brokers]
        self._pump = Pump(handle, self.send)
        self._ttl_s, self._answer, self._quota = ttl_s, answer, quota or Quota()
        self._senders: OrderedDict[str, _Sender] = OrderedDict()  # by topic, silent ones first
        self._assembled = 0  # bytes of pieces
        self._confirm = confirm  # a version that a broker keeps
        self._routes: dict[str, tuple[Connection, str]] = {}
        self._model: list[bytes] = []
        self._version = 0
        self._pieces = 0  # retained by the brokers

    async def run(self, stopped: asyncio.Event) -> None:
        """Serve until stopped.

        Parameters
        ----------
        stopped : asyncio.Event
            Ends the connections when it is set.
        """
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
            await asyncio.gather(*ends, return_exceptions=True)

    def wake(self) -> None:
        """Call the server soon."""
        self._pump.wake()

    # -- out ------------------------------------------------------------------------------------

    def send(self, messages: Iterable[Message]) -> None:
        """Send messages: one packet for each recipient.

        Parameters
        ----------
        messages : iterable of Message
            Messages of one step.
        """
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
        self._version = message.version
        for connection in self.connections:
            self.publish_model(connection)

    def publish_model(self, connection: Connection) -> None:
        """Publish the last version on a connection; devices fetch it when they need it.

        Parameters
        ----------
        connection : Connection
            Connection to one broker.
        """
        self._pieces = max(self._pieces, len(self._model))
        for place in range(self._pieces):
            piece = self._model[place] if place < len(self._model) else b""
            connection.publish(f"{self.topics.model}/{place}", piece, retain=True)
        if self._model:
            connection.publish(
                f"{self.topics.model}/version", b"%d" % self._version, retain=True,
                done=partial(self._confirm, self._version),
            )  # fmt: skip

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

    # -- in -------------------------------------------------------------------------------------

    def receive(self, connection: Connection, delivery: Delivery) -> None:
        """Take a packet from a broker.

        Parameters
        ----------
        connection : Connection
            Connection on which it arrived.
        delivery : Delivery
            The packet.
        """
        sender = self.topics.sender(delivery.topic)
        operator = self.topics.user(delivery.topic, "control/ask")
        if delivery.retained:  # else every new connection would repeat it
            self._clear(connection, delivery)
        elif operator and self._answer is not None:
            answer = self._answer(operator, delivery.payload)
            connection.publish(self.topics.answer(operator), answer)
        elif len(sender) == 2:
            gateway, worker = sender
            try:
                messages = self._messages(worker, delivery)
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
        self._routes.pop(worker, None)
        self._routes[worker] = (connection, gateway)
        if len(self._routes) > _MAX_SENDERS:
            del self._routes[next(iter(self._routes))]  # heard longest ago
        spread_s = len(self._routes) / _RETURNS_PER_S
        if spread_s >= 2.0 * max(self.state.spread_s, 1.0):
            self.state = msgspec.structs.replace(self.state, spread_s=spread_s)
            for one in self.connections:
                one.publish(self.topics.state, self.state.encode(), retain=True)

    def _clear(self, connection: Connection, delivery: Delivery) -> None:
        if delivery.payload:
            connection.publish(delivery.topic, b"", retain=True)
            self._drop(delivery.topic.rpartition("/")[2], "sent with the flag `retain`")

    def _messages(self, worker: str, delivery: Delivery) -> Sequence[Message]:
        """Return the messages that a packet completes; refuse what a worker may not send."""
        sender = self._sender(delivery.topic)
        if not delivery.qos:
            raise BadBytes("sent with quality of service 0, which the server cannot slow down")
        if not sender.spend(len(delivery.payload), self._quota):
            raise BadBytes("more packets or bytes than the quota of a worker")
        packet = self._assemble(sender, delivery.payload)
        if packet is None:
            return ()
        messages = decode(packet, self.state.max_bytes)
        if any(one.worker != worker or one.job != self.topics.job for one in messages):
            raise BadBytes(f"a message in the name of another than {worker!r}")
        return messages

    def _sender(self, topic: str) -> _Sender:
        sender = self._senders.pop(topic, None) or _Sender(self.state.max_bytes)
        self._senders[topic] = sender
        while len(self._senders) > _MAX_SENDERS:
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
            if self._assembled <= _MAX_ASSEMBLIES * self.state.max_bytes:
                break
            self._assembled -= other.assembly.size_bytes
            other.assembly = Assembly(self.state.max_bytes)
        return packet

    def _drop(self, gateway: str, reason: str) -> None:
        self.dropped[gateway] = self.dropped.get(gateway, 0) + 1
        if self.dropped[gateway] in (1, 10, 100, 1_000):
            _LOG.warning("%s: %s packets dropped: %s", gateway, self.dropped[gateway], reason)


class _Sender:
    """A worker as the network knows it: the pieces of its packet, and the rest of its quota."""

    __slots__ = ("_since_s", "_spent", "assembly")

    def __init__(self, max_bytes: int) -> None:
        self.assembly = Assembly(max_bytes)
        self._since_s, self._spent = 0.0, (0.0, 0.0)

    def spend(self, size_bytes: int, quota: Quota) -> bool:
        """Count a packet; return whether it is within the quota."""
        now_s = asyncio.get_running_loop().time()
        share = min((now_s - self._since_s) / 60.0, 1.0)
        packets = max(self._spent[0] - share * quota.packets, 0.0) + 1
        size = max(self._spent[1] - share * quota.size_bytes, 0.0) + size_bytes
        within = packets <= quota.packets and size <= quota.size_bytes
        if within:
            self._since_s, self._spent = now_s, (packets, size)
        return within


class _Broker:
    """One of the server's connections."""

    def __init__(self, end: ServerEnd, credentials: Credentials) -> None:
        self._end = end
        self.connection = Connection([credentials], self, will=self._will, keepalive_s=30)

    def _will(self) -> Will:
        state = ServerState(epoch=self._end.state.epoch, online=False)
        return Will(self._end.topics.state, state.encode(), retain=True)

    def connected(self) -> None:
        topics = self._end.topics
        every_epoch = Topics(topics.job)  # what is retained under a wrong epoch is cleared, too
        self.connection.subscribe([every_epoch.up("+", "+"), topics.left("+"), topics.ask("+")])
        self.connection.publish(topics.state, self._end.state.encode(), retain=True)
        self._end.publish_model(self.connection)

    def received(self, delivery: Delivery) -> None:
        self._end.receive(self.connection, delivery)
