"""One MQTT 5 connection under asyncio: paho with acknowledgement by the receiver.

A connection is opened again after a failure, to the next broker if there are several, and with a
random delay: the server announces over how many seconds its workers spread. A message is
acknowledged by its receiver, after it is durable; acknowledgements of an earlier connection are
dropped, because their numbers may belong to other messages. Who knows what to say says it behind
CONNECT, without waiting for the broker's answer, which MQTT 5 permits and which saves round trips;
a broker that refuses the connection drops it. What is published without a connection is lost:
workers and server repeat what matters. The broker keeps nothing for those who are away:
mosquitto 2.0.11 crashes when it reads its rules again while it keeps the session of such a user.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from dealfl.network.credentials import Credentials

_LOG = logging.getLogger("dealfl.network")
_IN_FLIGHT = 500
_PATIENCE_S = 10.0  # for a broker that accepts no connection, or nothing more
_GOODBYE_S = 1.0
_AT_ONCE = 10  # packets that are read before anything else happens
_RETAINS_NOT = 0x9A  # why a broker refuses a will that is to be retained
_NOT_AUTHORIZED = 0x87  # why some brokers end a connection that writes to a forbidden topic


class Delivery(NamedTuple):
    """A message from the broker, and the numbers that acknowledge it."""

    topic: str
    payload: bytes
    number: int
    generation: int
    qos: int
    retained: bool = False


class Will(NamedTuple):
    """A message that the broker publishes when the connection has ended, for any reason."""

    topic: str
    payload: bytes
    retain: bool = False


@dataclass(slots=True)
class Traffic:
    """What a connection carried; a burst is what follows a second of silence.

    >>> traffic = Traffic()
    >>> for now_s in (0.0, 5.0, 5.5):
    ...     traffic.count(now_s, b"packet", None)
    >>> traffic.count_training()
    >>> traffic.count_training()
    >>> (traffic.bursts, traffic.own_bursts)
    (2, 1)
    """

    sent_bytes: int = 0
    sent_packets: int = 0
    received_bytes: int = 0
    received_packets: int = 0
    bursts: int = 0
    own_bursts: int = 0  # without a training
    _last_s: float = -inf
    _trains: bool = False

    def count(self, now_s: float, sent: bytes | None, received: bytes | None) -> None:
        """Count a packet that is sent or received."""
        if now_s > self._last_s + 1.0:
            self.bursts += 1
            self.own_bursts += 1
            self._trains = False
        self._last_s = now_s
        self.sent_bytes += len(sent or b"")
        self.sent_packets += sent is not None
        self.received_bytes += len(received or b"")
        self.received_packets += received is not None

    def count_training(self) -> None:
        """Note that the last burst delivers a training."""
        if not self._trains:
            self.own_bursts -= 1
            self._trains = True


class _Socket:
    """Reads and writes the packets of a connected client in the event loop, not by threads."""

    def __init__(
        self,
        client: paho.Client,
        loop: asyncio.AbstractEventLoop,
        traffic: Traffic,
        failed: Callable[[Exception], None],
    ) -> None:
        self._client = client
        self._loop = loop
        self._traffic = traffic
        self._failed = failed
        sock: Any = client.socket()  # plain or TLS
        self._sock = sock
        client.on_socket_close = lambda *_: self._forget()
        if sock is None:
            return  # closed already
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # a network that ends without a word
            patience_ms = int(1e3 * _PATIENCE_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, patience_ms)
        loop.add_reader(sock, self._read)
        self.finish_writing()

    def _read(self) -> None:
        """Read packets, but nothing more after one that fails: paho would try it for ever."""
        try:
            self._read_packets()
        except Exception as error:
            self._forget()
            self._failed(error)

    def _read_packets(self) -> None:
        """Read packets while there are more, so that one commit serves many; then give a turn."""
        for _ in range(_AT_ONCE):
            before = self._traffic.received_packets
            self._client.loop_read()
            if self._client.socket() is None:
                return
            if not self._has_decrypted() and self._traffic.received_packets == before:
                return
        if self._has_decrypted():  # which does not make the socket readable
            self._loop.call_soon(self._read)

    def _has_decrypted(self) -> bool:
        return isinstance(self._sock, ssl.SSLSocket) and self._sock.pending() > 0

    def finish_writing(self) -> None:
        """Write the rest when the socket takes it: paho writes at once, but not in a callback."""
        if self._client.socket() is not None and self._client.want_write():
            self._loop.add_writer(self._sock, self._write)

    def _write(self) -> None:
        self._client.loop_write()
        if self._client.socket() is not None and not self._client.want_write():
            self._loop.remove_writer(self._sock)

    def _forget(self) -> None:
        with suppress(ValueError, OSError):
            self._loop.remove_reader(self._sock)
            self._loop.remove_writer(self._sock)

    async def close(self) -> None:
        """Leave in a way that lets the broker publish the will; do not wait long for it."""
        client = self._client
        until_s = self._loop.time() + _GOODBYE_S
        client.disconnect(ReasonCode(PacketTypes.DISCONNECT, identifier=4))
        while client.socket() is not None:
            if client.loop_write() != paho.MQTT_ERR_SUCCESS or self._loop.time() > until_s:
                break
            await asyncio.sleep(0.001)
        if client.socket() is not None:
            self._forget()
            with suppress(OSError):
                self._sock.close()


class Connection:
    """A connection to one of some brokers, until it is stopped.

    `connected` subscribes, and repeats what the broker may have lost; it is called when the broker
    has accepted the connection, or before, if `is_prompt`. `received` takes a message, which it
    acknowledges later. `lost` is called when a connection has failed or ended by itself.
    """

    def __init__(
        self,
        brokers: Sequence[Credentials],
        connected: Callable[[], None],
        received: Callable[[Delivery], None],
        *,
        will: Callable[[], Will | None] = lambda: None,
        lost: Callable[[], None] = lambda: None,
        is_prompt: Callable[[], bool] = lambda: False,
        spread_s: Callable[[], float] = lambda: 0.0,
        keepalive_s: int = 600,
        max_pause_s: float = 120.0,
    ) -> None:
        self.traffic = Traffic()
        self._connected = connected
        self._received = received
        self._will = will
        self._note_loss = lost
        self._is_prompt = is_prompt
        self._spread_s = spread_s
        contexts = {broker.certificate: broker.tls_context() for broker in brokers}
        self._brokers = itertools.cycle([(each, contexts[each.certificate]) for each in brokers])
        for _ in range(random.randrange(len(brokers))):  # noqa: S311
            next(self._brokers)
        self._keepalive_s = keepalive_s
        self._max_pause_s = max_pause_s
        self._in_flight = _IN_FLIGHT
        self._retains = True  # until a broker says that it does not
        self._generation = 0
        self.problem = ""  # why there is no connection
        self._client: paho.Client | None = None
        self._socket: _Socket | None = None
        self._awaited: dict[int, Callable[[], None]] = {}  # acknowledgements of the broker
        self._topics: dict[int, Sequence[str]] = {}  # of packets that it has not answered
        self.refused: dict[str, str] = {}  # topics, and why the broker does not allow them
        self.is_up = self._accepted = False  # whether the broker accepted it, now and at all
        self.is_open = False  # whether packets can be sent
        self._lost = asyncio.Event()
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._unwanted = asyncio.Event()
        self._has_rested = False  # whether it ended on purpose, even if it is wanted again
        self._loop = asyncio.get_running_loop()

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        expiry_s: float | None = None,
        done: Callable[[], None] | None = None,
    ) -> None:
        """Send a message if there is a connection; `done` is called when the broker has it."""
        if not self.is_open or self._client is None:
            return
        properties = None
        if expiry_s is not None:
            seconds = max(1, int(expiry_s))
            properties = _properties(PacketTypes.PUBLISH, MessageExpiryInterval=seconds)
        sent = self._client.publish(topic, payload, 1, retain and self._retains, properties)
        self._topics[sent.mid] = (topic,)
        if done is not None:
            self._awaited[sent.mid] = done
        self.traffic.count(self._loop.time(), payload, None)
        self._finish_writing()

    def subscribe(self, topics: Sequence[str]) -> None:
        """Receive the messages of some topics, but those of this connection."""
        if self._client is not None and topics:
            options = SubscribeOptions(qos=1, noLocal=True, retainAsPublished=True)
            _, number = self._client.subscribe([(topic, options) for topic in topics])
            if number is not None:
                self._topics[number] = topics
            self._finish_writing()

    def unsubscribe(self, topics: Sequence[str]) -> None:
        """Receive nothing more of some topics."""
        if self._client is not None and topics:
            self._client.unsubscribe(list(topics))
            self._finish_writing()

    def acknowledge(self, delivery: Delivery) -> None:
        """Tell the broker that a message is durable here."""
        current = delivery.generation == self._generation
        if current and delivery.qos and self._client is not None:
            self._client.ack(delivery.number, delivery.qos)
            self._finish_writing()

    @property
    def place(self) -> str:
        """Host and port of the broker of this connection."""
        return f"{self._broker.host}:{self._broker.port}"

    def move(self) -> None:
        """Leave this broker for the next one."""
        self._lost.set()

    def rest(self) -> None:
        """Close the connection until `resume`."""
        if self._wanted.is_set():
            self._wanted.clear()
            self._has_rested = True
            self._unwanted.set()
            self._lost.set()

    @property
    def is_resting(self) -> bool:
        """Whether the connection is closed on purpose."""
        return not self._wanted.is_set()

    def resume(self) -> None:
        """Open the connection again after a rest."""
        self._wanted.set()
        self._unwanted.clear()

    # -- the life of a connection ---------------------------------------------------------------

    async def run(self, stopped: asyncio.Event) -> None:
        """Stay connected until stopped."""
        attempt = 0
        while not stopped.is_set():
            if not self._wanted.is_set():
                await first_of(self._wanted, stopped)
                continue
            self._lost.clear()
            self._has_rested = False
            was_up = await self._stay(*next(self._brokers), stopped)
            attempt = 0 if was_up else attempt + 1
            if stopped.is_set() or self._has_rested:
                continue
            self._note_loss()
            spread_s = max(self._spread_s(), 0.5)
            longest_s = min(spread_s * 2.0 ** min(attempt // 4, 10), self._max_pause_s)
            delay_s = max(longest_s, spread_s) * random.random()  # noqa: S311
            await first_of(stopped, self._unwanted, timeout_s=delay_s)

    async def _stay(
        self, broker: Credentials, tls: ssl.SSLContext | None, stopped: asyncio.Event
    ) -> bool:
        """Open one connection and wait for its end; return whether the broker accepted it."""
        self._broker = broker
        client = self._make(broker, tls)
        self._client = client
        self._accepted = False
        self._awaited.clear()
        self._topics.clear()
        self.refused.clear()
        self._generation += 1
        try:
            await self._loop.run_in_executor(None, self._open, client, broker.host, broker.port)
        except (OSError, ValueError) as error:  # no route, unknown host, bad certificate
            hint = "; run `dealfl broker renew` there" if "expired" in str(error) else ""
            hint = "; start `dealfl broker run` there" if "refused" in str(error) else hint
            self._explain(f"{error}{hint}")
            return False
        self._socket = _Socket(client, self._loop, self.traffic, self._end)
        if client.socket() is None:
            self._lost.set()
        elif self._is_prompt():
            self._begin()
        try:
            await self._wait(client, stopped)
        finally:
            self.is_up = self.is_open = False
            await self._socket.close()
        return self._accepted

    def _begin(self) -> None:
        """Let packets be sent, once in each connection."""
        if not self.is_open:
            self.is_open = True
            self._connected()

    async def _wait(self, client: paho.Client, stopped: asyncio.Event) -> None:
        until_s = self._loop.time() + _PATIENCE_S
        while not (self._lost.is_set() or stopped.is_set()):
            timeout_s = self._keepalive_s / 4 if self._accepted else _PATIENCE_S / 2
            await first_of(self._lost, stopped, timeout_s=timeout_s)
            client.loop_misc()
            self._finish_writing()
            if not self._accepted and self._loop.time() > until_s:
                self._explain("the broker does not answer")
                break

    def _end(self, error: Exception) -> None:
        """End the connection because of a packet; the next one begins from the start."""
        kind = type(error).__name__
        self._explain(f"a packet of the broker cannot be read ({kind}); is it an MQTT 5 broker?")
        self._on_disconnect(self._client)

    def _finish_writing(self) -> None:
        if self._socket is not None:
            self._socket.finish_writing()

    def _explain(self, problem: str) -> None:
        """Log why there is no connection, once for each reason."""
        if problem and problem != self.problem:
            user = self._broker.user
            extra = {"deal_event": "no connection", "deal_worker": user, "deal_reason": problem}
            host = self._broker.host
            _LOG.warning("%s: no connection to %s: %s", user, host, problem, extra=extra)
        self.problem = problem

    def _make(self, broker: Credentials, tls: ssl.SSLContext | None) -> paho.Client:
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            broker.user,
            protocol=MQTTProtocolVersion.MQTTv5,
            manual_ack=True,
        )
        if broker.password:
            client.username_pw_set(broker.user, broker.password)
        if tls is not None:
            client.tls_set_context(tls)
        client.max_inflight_messages_set(self._in_flight)
        will = self._will()
        if will is not None:
            client.will_set(will.topic, will.payload, 1, will.retain and self._retains)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        client.on_subscribe = self._on_subscribe
        return client

    def _open(self, client: paho.Client, host: str, port: int) -> None:
        properties = _properties(PacketTypes.CONNECT, ReceiveMaximum=_IN_FLIGHT)
        client.connect(host, port, self._keepalive_s, clean_start=True, properties=properties)

    # -- what paho calls, from any thread -------------------------------------------------------

    def _on_connect(self, client: Any, _: Any, __: Any, reason: Any, properties: Any) -> None:  # noqa: ANN401
        allowed = getattr(properties, "ReceiveMaximum", _IN_FLIGHT)
        if not getattr(properties, "RetainAvailable", 1) or reason.value == _RETAINS_NOT:
            self._retains = False
        if reason.is_failure:
            self._explain("" if reason.value == _RETAINS_NOT else str(reason))
            self._on_disconnect(client)
        elif allowed < self._in_flight:  # paho takes it only before a connection
            self._in_flight = allowed
            self._on_disconnect(client)
        elif client is self._client:
            self.is_up = self._accepted = True
            self._explain("")
            self._begin()

    def _on_disconnect(self, client: Any, *given: Any) -> None:  # noqa: ANN401
        if client is self._client:
            reason = given[2] if len(given) > 2 else None
            if isinstance(reason, ReasonCode) and reason.value == _NOT_AUTHORIZED:
                for number in list(self._topics):  # one of those that it has not answered
                    self._check(number, [reason] * len(self._topics[number]))
            self.is_up = self.is_open = False
            self._loop.call_soon_threadsafe(self._lost.set)

    def _on_publish(self, client: Any, _: object, number: int, reason: Any, *__: object) -> None:  # noqa: ANN401
        if client is self._client:
            done = self._awaited.pop(number, None)
            self._check(number, [reason])
            if done is not None and not reason.is_failure:
                done()

    def _on_subscribe(self, client: Any, _: object, number: int, reasons: Any, *__: object) -> None:  # noqa: ANN401
        if client is self._client:
            self._check(number, reasons)

    def _check(self, number: int, reasons: Sequence[Any]) -> None:
        """Name the topics that the broker refuses, each once in a connection."""
        for topic, reason in zip(self._topics.pop(number, ()), reasons, strict=False):
            if reason.is_failure and topic not in self.refused:
                self.refused[topic] = str(reason)
                user, host = self._broker.user, self._broker.host
                extra = {"deal_worker": user, "deal_reason": f"topic refused: {reason}"}
                _LOG.warning(
                    "%s: the broker %s refuses the topic %s (%s): are its access rules those of "
                    "this job, and is %s enrolled there?",
                    user, host, topic, reason, user, extra=extra,
                )  # fmt: skip

    def _on_message(self, client: Any, _: object, message: Any) -> None:  # noqa: ANN401
        if client is not self._client:
            return
        self.traffic.count(self._loop.time(), None, message.payload)
        numbers = (message.mid, self._generation, message.qos, message.retain)
        self._received(Delivery(message.topic, message.payload, *numbers))


def describe(connection: Connection) -> str:
    """Return the state of a worker's connection, and what it carried, as text for people."""
    traffic = connection.traffic
    up = "connected" if connection.is_up else "not connected"
    trainings = traffic.bursts - traffic.own_bursts
    share = f" ({traffic.own_bursts / trainings:.2f} for each training)" if trainings else ""
    return (
        f"{'asleep' if connection.is_resting else up}, "
        f"{traffic.sent_bytes / 1e3:,.1f} kB sent in {traffic.sent_packets} packets, "
        f"{traffic.received_bytes / 1e3:,.1f} kB received, {traffic.bursts} bursts, "
        f"{traffic.own_bursts} of them without a training{share}"
    )


async def first_of(*events: asyncio.Event, timeout_s: float | None = None) -> None:
    """Wait for the first of some events."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


def _properties(packet: int, **values: int) -> Properties:
    properties = Properties(packet)  # type: ignore[no-untyped-call]
    for name, value in values.items():
        setattr(properties, name, value)
    return properties
