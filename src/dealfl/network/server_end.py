"""The server's ends of the network: one for its workers, and a region's for its parent."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from dealfl.errors import BadBytes
from dealfl.network.connection import Connection, Delivery, Will
from dealfl.network.credentials import Credentials
from dealfl.network.pump import RealPump, carry
from dealfl.network.server_link import ServerLink
from dealfl.network.topics import LOBBY, ServerState, Topics
from dealfl.protocol import (
    MAX_BYTES,
    Announce,
    Asleep,
    Assembly,
    Assignment,
    Declined,
    Erase,
    Erased,
    Fetch,
    Message,
    Published,
    Step,
    Unread,
    Update,
    encode,
    split,
)
from dealfl.server import FromParent, Region, Server
from dealfl.storage import log

_UPWARD = (Announce, Declined, Update, Erased, Fetch)

Take = Callable[[Sequence[Message], Callable[[], None]], None]
Meet = Callable[[Sequence[str], str], None]
_LOG = logging.getLogger("dealfl.network")
_RETURNS_PER_S = 200.0  # workers that may connect again in a second
_MAX_SENDERS = 100_000
_TURN = 64  # messages of one sender that are decoded before anything else happens
_MAX_ASSEMBLIES = 4  # packets of the largest size
_PARENT = "^"  # is no worker


@dataclass(frozen=True, slots=True)
class Quota:
    """What a worker may send in a minute: at once or spread, and no more in the long run."""

    packets: int = 6_000
    messages: int = 20_000
    size_bytes: int = 2 * MAX_BYTES


class _Inbox:
    """Makes packets of what arrives, and refuses what no honest sender sends."""

    def __init__(self, max_bytes: int, quota: Quota) -> None:
        self._max_bytes = max_bytes
        self._quota = quota
        self._senders: OrderedDict[str, _Sender] = OrderedDict()  # by topic, silent ones first
        self._assembled = 0  # bytes of pieces

    def take(self, delivery: Delivery) -> bytes | None:
        """Return the packet that a delivery completes; None while pieces are missing."""
        sender = self._sender(delivery.topic)
        if not delivery.qos:
            raise BadBytes("sent with quality of service 0, which the server cannot slow down")
        if not sender.spend(len(delivery.payload), self._quota):
            raise BadBytes("more packets, messages or bytes than a sender's quota")
        return self._assemble(sender, delivery.payload)

    def count(self, delivery: Delivery, messages: int) -> None:
        """Count the messages that a delivery completed."""
        self._sender(delivery.topic).count(messages)

    def _sender(self, topic: str) -> _Sender:
        sender = self._senders.pop(topic, None) or _Sender(self._max_bytes)
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
            if self._assembled <= _MAX_ASSEMBLIES * self._max_bytes:
                break
            self._assembled -= other.assembly.size_bytes
            other.assembly = Assembly(self._max_bytes)
        return packet


class _Sender:
    """A worker as the network knows it: the pieces of its packet, and the rest of its quota."""

    def __init__(self, max_bytes: int) -> None:
        self.assembly = Assembly(max_bytes)
        self._since_s = 0.0
        self._packets = 0.0
        self._size_bytes = 0.0
        self._messages = 0.0

    def spend(self, size_bytes: int, quota: Quota) -> bool:
        """Count a packet; return whether it is within the quota."""
        now_s = time.monotonic()
        share = min((now_s - self._since_s) / 60.0, 1.0)
        packets = max(self._packets - share * quota.packets, 0.0) + 1
        size = max(self._size_bytes - share * quota.size_bytes, 0.0) + size_bytes
        messages = max(self._messages - share * quota.messages, 0.0)
        if packets > quota.packets or size > quota.size_bytes or messages >= quota.messages:
            return False
        self._since_s = now_s
        self._packets = packets
        self._size_bytes = size
        self._messages = messages
        return True

    def count(self, messages: int) -> None:
        """Count the messages of a packet; the next one is refused if they are too many."""
        self._messages += messages


@dataclass(slots=True)
class Reading:
    """A packet of which messages are read; one bad message refuses it as a whole."""

    unread: Iterator[Message]
    finish: Callable[[Sequence[Message]], None]
    refuse: Callable[[BadBytes], None]
    messages: list[Message] = field(default_factory=list)

    def read(self, count: int) -> bool:
        """Read some messages; return whether that is the end of the packet."""
        before = len(self.messages)
        try:
            self.messages.extend(islice(self.unread, count))
        except BadBytes as error:
            self.refuse(error)
            return True
        if len(self.messages) == before + count:
            return False
        self.finish(self.messages)
        return True


class Turns:
    """Lets senders have their packets read in turn, so that nobody waits for who sends many.

    A packet is read at once if it is short and nothing of its sender waits. Packets of a sender are
    finished in the order in which they came. Between two turns other things happen.
    """

    def __init__(self, later: Callable[[Callable[[], None]], object]) -> None:
        self._later = later
        self._waiting: dict[str, deque[Reading]] = {}  # by sender, in turn

    def add(self, sender: str, reading: Reading) -> None:
        """Read a packet when it is its turn."""
        if sender in self._waiting:
            self._waiting[sender].append(reading)
        elif not reading.read(_TURN):
            self._waiting[sender] = deque([reading])
            if len(self._waiting) == 1:
                self._later(self._take)

    def _take(self) -> None:
        """Give the first sender a turn, then its place at the end."""
        sender = next(iter(self._waiting))
        packets = self._waiting.pop(sender)
        if packets[0].read(_TURN):
            packets.popleft()
        if packets:
            self._waiting[sender] = packets
        if self._waiting:
            self._later(self._take)


class ServerEnd:
    """Carries messages between a server and the brokers that it is connected to.

    A reply goes over the connection on which the worker was heard last. The sender of a message is
    the worker in its topic, which the broker checked; a message in the name of another is dropped.
    When the server begins a new epoch, its connections are opened again with the new topics.
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
        self.state = msgspec.structs.replace(
            limits or ServerState(),
            epoch=server.epoch,
            path=server.path,
            schema=server.schema_digest,
        )
        self.parent: ParentEnd | None = None
        self.topics = Topics(server.job, server.epoch)
        self.dropped: dict[str, int] = {}  # packets by user
        self._numbers: dict[Connection, str] = {}  # of connections that were accepted
        self.connections = [self._connect(broker) for broker in brokers]
        self._server = server
        self.answer = answer
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pump = RealPump(partial(server.handle, decoded=True), self.send, self._failed)
        self._turns = Turns(asyncio.get_running_loop().call_soon)
        self._inbox = _Inbox(self.state.max_bytes, quota or Quota())
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
            log("connected", job=self.topics.job, reason=f"{credentials.host}:{credentials.port}")
            every_epoch = Topics(self.topics.job)  # what is retained under another is cleared, too
            up = every_epoch.up("+", "+")
            connection.subscribe([up, self.topics.left("+"), self.topics.ask("+")])
            self._numbers[connection] = secrets.token_hex(4)
            connection.publish(self.topics.state, self._state_on(connection), retain=True)
            self._publish_model(connection)
            self._forget_routes(connection)

        def received(delivery: Delivery) -> None:
            self._receive(connection, delivery)

        def lost() -> None:
            log("connection lost", job=self.topics.job, level="warning")
            self._forget_routes(connection)

        connection = Connection(
            credentials.nodes(),
            connected,
            received,
            will=will,
            lost=lost,
            keepalive_s=30,
            max_pause_s=5.0,
        )
        return connection

    def _state_on(self, connection: Connection) -> bytes:
        """Return the state; after a new connection, workers announce themselves again."""
        number = self._numbers[connection]
        return msgspec.structs.replace(self.state, connection=number).encode()

    @property
    def problem(self) -> str:
        """Why the server can write nothing now; empty if it can."""
        return self._pump.problem

    async def run(self, stopped: asyncio.Event) -> None:
        """Serve until stopped."""
        upward = [] if self.parent is None else [self.parent.connection]
        await carry([*self.connections, *upward], [self._pump], self._failed, stopped)

    # -- the parent -----------------------------------------------------------------------------

    def put_from_parent(self, messages: Sequence[Message], done: Callable[[], None]) -> None:
        """Take messages of the parent; `done` is called after they are durable."""
        marked: list[Any] = [FromParent(message) for message in messages]
        self._pump.put(marked, done, _PARENT)

    def meet_parent(self, region: Region, path: Sequence[str], schema: str) -> None:
        """Let the region know its parent, and those below how they reach the root."""

        def meet() -> None:
            region.meet(path, schema)
            self.state = msgspec.structs.replace(self.state, path=region.path)
            self._publish_state()

        self._pump.change(meet)

    # -- out ------------------------------------------------------------------------------------

    def emit(self, step: Step) -> None:
        """Send the messages of a change that no message caused; the server continues at once."""
        self.send(step.messages)
        self._pump.call()  # which finds out when it must be called next

    def send(self, messages: Iterable[Message]) -> None:
        """Send messages: one packet for each recipient."""
        if self._server.epoch != self.topics.epoch:
            self._enter_epoch()
        packets: dict[str, list[Message]] = {}
        if self.parent is not None:
            messages = self.parent.send(messages)
        for message in messages:
            if isinstance(message, Published) and not message.worker:
                self._model = split(encode([message]), self.state.inline_bytes)
                self._version = message.version
                for connection in self.connections:
                    self._publish_model(connection)
            elif isinstance(message, Erase) and not message.worker:
                self._send_to("", [message])  # a large request has several: none is a large packet
            else:
                packets.setdefault(message.worker, []).append(message)
        for worker, grouped in packets.items():
            self._send_to(worker, grouped)

    def _enter_epoch(self) -> None:
        """Connect again with the topics of a new epoch; workers follow when they see its state."""
        self._model = []
        version = f"{self.topics.model}/version"
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
        for index in range(self._pieces):
            piece = self._model[index] if index < len(self._model) else b""
            connection.publish(f"{self.topics.model}/{index}", piece, retain=True)
        if self._model:
            confirm = partial(self._pump.change, partial(self._server.confirm, self._version))
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
        deadlines = [m.deadline_s for m in messages if isinstance(m, Assignment)]
        expiry_s = max(deadlines) - time.time() if deadlines else None
        connection, gateway = route
        for piece in pieces:
            connection.publish(self.topics.down(gateway, worker), piece, expiry_s=expiry_s)

    # -- in -------------------------------------------------------------------------------------

    def _receive(self, connection: Connection, delivery: Delivery) -> None:
        """Take a packet from a broker; its messages are read when it is its sender's turn."""
        kind, *users = self.topics.parse(delivery.topic) or ("", "")
        acknowledge = partial(connection.acknowledge, delivery)

        def finish(messages: Sequence[Message]) -> None:
            if messages:
                self._pump.put(messages, acknowledge, users[0])
            else:
                acknowledge()

        def refuse(error: BadBytes) -> None:
            self._drop(users[0], str(error), users[1] if kind in ("up", "lost") else "")
            acknowledge()

        try:
            unread = self._open(kind, connection, delivery, users)
        except BadBytes as error:
            refuse(error)
        else:
            self._turns.add(users[0], Reading(unread, finish, refuse))

    def _open(
        self, kind: str, connection: Connection, delivery: Delivery, users: Sequence[str]
    ) -> Iterator[Message]:
        """Return what reads the messages of a packet; do what it asks if it holds none."""
        if delivery.retained:
            self._clear(connection, delivery)
        elif kind == "up":
            return self._unread(connection, delivery, *users)
        elif kind == "lost":
            self._show_state(connection, delivery, *users)
        elif kind == "left":
            return self._asleep(connection, delivery, *users)
        elif kind == "ask":
            self._reply(connection, delivery, *users)
        return iter(())

    def _unread(
        self, connection: Connection, delivery: Delivery, gateway: str, worker: str
    ) -> Iterator[Message]:
        """Return what reads the messages that a packet completes, all of them from this worker."""
        packet = self._inbox.take(delivery)
        if packet is None:
            return iter(())
        unread = Unread(packet, self.state.max_bytes)
        self._inbox.count(delivery, len(unread))

        def read() -> Iterator[Message]:
            for message in unread:
                if message.worker != worker or message.job != self.topics.job:
                    raise BadBytes(f"a message in the name of another than {worker!r}")
                yield message
            if len(unread):
                self._route(worker, connection, gateway)

        return read()

    def _asleep(
        self, connection: Connection, delivery: Delivery, gateway: str
    ) -> Iterator[Message]:
        """Return that workers are asleep, unless they are heard through another broker by now."""
        self._inbox.take(delivery)

        def read() -> Iterator[Message]:
            for worker in sorted(self._heard.get((connection, gateway), ())):
                yield Asleep(job=self.topics.job, worker=worker)

        return read()

    def _forget_routes(self, connection: Connection) -> None:
        """Note that workers which this connection reached, or none, must announce themselves."""
        gone = [
            worker
            for worker in self._server.workers
            if self._routes.get(worker, (connection,))[0] is connection
        ]
        for worker in gone:
            self._forget_route(worker)
        self._pump.put([Asleep(job=self.topics.job, worker=worker) for worker in gone])

    def _show_state(
        self, connection: Connection, delivery: Delivery, gateway: str, worker: str
    ) -> None:
        """Answer a packet of another epoch: a worker does not know this one."""
        lobby = Topics(self.topics.job, LOBBY)
        self._inbox.take(delivery._replace(topic=lobby.up(gateway, worker)))  # of any epoch
        connection.publish(lobby.down(gateway, worker), self._state_on(connection))

    def _reply(self, connection: Connection, delivery: Delivery, operator: str) -> None:
        packet = self._inbox.take(delivery)
        if packet is not None and self.answer is not None:
            for piece in split(self.answer(operator, packet), self.state.inline_bytes):
                connection.publish(self.topics.answer(operator), piece)

    def _route(self, worker: str, connection: Connection, gateway: str) -> None:
        """Remember how a worker is reached; let a larger fleet return more slowly."""
        self._forget_route(worker)
        self._routes[worker] = (connection, gateway)
        self._heard.setdefault((connection, gateway), set()).add(worker)
        if len(self._routes) > _MAX_SENDERS:
            self._forget_route(next(iter(self._routes)))  # heard longest ago
        spread_s = len(self._routes) / _RETURNS_PER_S
        if spread_s >= 1.5 * max(self.state.spread_s, 0.5):
            self.state = msgspec.structs.replace(self.state, spread_s=spread_s)
            self._publish_state()

    def _publish_state(self) -> None:
        for each in self.connections:
            if each.is_up:
                each.publish(self.topics.state, self._state_on(each), retain=True)

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
            extra = {"deal_event": "packets dropped", "deal_worker": user, "deal_reason": reason}
            count = self.dropped[user]
            _LOG.warning("%s: %s packets dropped: %s", user, count, reason, extra=extra)
            self._pump.change(partial(self._server.flag, worker, f"packet refused: {reason}"))


class ParentEnd:
    """Carries messages between a region and its parent, at whose broker the region is a device.

    It follows the parent's epoch, takes each version that is published, and hands everything to the
    pump of the region's server, so that one commit serves both sides. `take` gets messages of the
    parent, and what acknowledges them; `meet` its path and schema.
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
