"""One MQTT 5 connection under asyncio: paho with acknowledgement by the receiver.

A connection is opened again after a failure, with a random delay that grows; the server announces
over how many seconds its workers spread, so that a fleet does not return all at once. A message is
acknowledged by its receiver, after it is durable; acknowledgements of an earlier connection are
dropped, because their numbers may belong to other messages. What is published without a connection
is lost: workers and server repeat what matters.
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from dealfl.network.credentials import Credentials

__all__ = ["Connection", "Delivery", "Listener", "Will"]

_IN_FLIGHT = 500
_MAX_BACKOFF_S = 120.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message from the broker, and the numbers that acknowledge it."""

    topic: str
    payload: bytes
    number: int
    generation: int
    qos: int


@dataclass(frozen=True, slots=True)
class Will:
    """A message that the broker publishes if the connection ends without a goodbye."""

    topic: str
    payload: bytes
    retain: bool = False
    delay_s: int = 0


class Listener(Protocol):
    """The owner of a connection."""

    def connected(self) -> None:
        """Subscribe, and repeat what the broker may have lost."""

    def received(self, delivery: Delivery) -> None:
        """Take a message; acknowledge it later."""


class Connection:
    """A connection that lasts until it is closed."""

    def __init__(
        self,
        credentials: Credentials,
        listener: Listener,
        *,
        will: Callable[[], Will | None] = lambda: None,
        spread_s: Callable[[], float] = lambda: 0.0,
        session_s: int = 3600,
        keepalive_s: int = 600,
        receive_maximum: int = _IN_FLIGHT,
    ) -> None:
        self.sent_bytes = self.received_bytes = self.sent_packets = self.received_packets = 0
        self._credentials, self._listener, self._will = credentials, listener, will
        self._session_s, self._keepalive_s = session_s, keepalive_s
        self._spread_s = spread_s
        self._receive_maximum = receive_maximum
        self._in_flight = _IN_FLIGHT
        self._generation = 0
        self._client: paho.Client | None = None
        self._up = False
        self._lost = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    @property
    def is_up(self) -> bool:
        """Whether the broker has accepted the connection."""
        return self._up

    # -- what the owner calls -------------------------------------------------------------------

    def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, expiry_s: float | None = None
    ) -> bool:
        """Send a message at least once, or return False without a connection."""
        if not self._up or self._client is None:
            return False
        expiry = {} if expiry_s is None else {"MessageExpiryInterval": max(1, int(expiry_s))}
        properties = _properties(PacketTypes.PUBLISH, **expiry)
        self._client.publish(topic, payload, qos=1, retain=retain, properties=properties)
        self.sent_bytes += len(payload)
        self.sent_packets += 1
        return True

    def subscribe(self, topics: Sequence[str]) -> None:
        """Receive the messages of some topics."""
        if self._client is not None and topics:
            self._client.subscribe([(topic, SubscribeOptions(qos=1)) for topic in topics])

    def unsubscribe(self, topics: Sequence[str]) -> None:
        """Receive nothing more of some topics."""
        if self._client is not None and topics:
            self._client.unsubscribe(list(topics))

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Tell the broker that messages are durable here."""
        for one in deliveries:
            if one.generation == self._generation and one.qos and self._client is not None:
                self._client.ack(one.number, one.qos)

    # -- the life of a connection ---------------------------------------------------------------

    async def run(self, stopped: asyncio.Event) -> None:
        """Stay connected until stopped."""
        attempt = 0
        while not stopped.is_set():
            self._lost.clear()
            was_up = await self._stay(stopped)
            attempt = 0 if was_up else attempt + 1
            if stopped.is_set():
                break
            longest_s = max(self._spread_s(), 0.5) * 2.0 ** min(attempt, 10)
            delay_s = min(longest_s, _MAX_BACKOFF_S) * random.random()  # noqa: S311
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), delay_s)

    async def _stay(self, stopped: asyncio.Event) -> bool:
        """Open one connection and wait for its end; return whether the broker accepted it."""
        client = self._client = self._make()
        self._generation += 1
        generation, accepted = self._generation, False
        try:
            where = self._credentials
            await self._loop.run_in_executor(None, self._open, client, where.host, where.port)
        except (OSError, ValueError):  # refused, unknown host, bad certificate
            return False
        try:
            self._register(client)
            ends = asyncio.ensure_future(self._lost.wait())
            stop = asyncio.ensure_future(stopped.wait())
            while not ends.done() and not stop.done():
                await asyncio.wait(
                    {ends, stop}, timeout=min(5.0, self._keepalive_s / 4),
                    return_when=asyncio.FIRST_COMPLETED,
                )  # fmt: skip
                accepted = accepted or self._up
                client.loop_misc()
            ends.cancel()
            stop.cancel()
        finally:
            if generation == self._generation:
                self._up = False
            self._shut(client)
        return accepted

    def _make(self) -> paho.Client:
        where = self._credentials
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=where.user,
            protocol=MQTTProtocolVersion.MQTTv5,
            manual_ack=True,
        )
        if where.password:
            client.username_pw_set(where.user, where.password)
        context = where.tls_context()
        if context is not None:
            client.tls_set_context(context)
        client.max_inflight_messages_set(self._in_flight)
        client.max_queued_messages_set(0)
        will = self._will()
        if will is not None:
            properties = _properties(PacketTypes.WILLMESSAGE, WillDelayInterval=will.delay_s)
            client.will_set(will.topic, will.payload, 1, will.retain, properties)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        client.on_socket_register_write = self._on_want_write
        client.on_socket_unregister_write = self._on_written
        client.on_socket_close = self._on_close
        return client

    def _open(self, client: paho.Client, host: str, port: int) -> None:
        properties = _properties(
            PacketTypes.CONNECT,
            SessionExpiryInterval=self._session_s,
            ReceiveMaximum=self._receive_maximum,
        )
        client.connect(host, port, self._keepalive_s, clean_start=False, properties=properties)

    def _register(self, client: paho.Client) -> None:
        sock: Any = client.socket()
        if sock is None:
            self._lost.set()
            return
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._loop.add_reader(sock, self._read, client, sock)
        self._want_write(client)

    def _read(self, client: paho.Client, sock: Any) -> None:  # noqa: ANN401 - plain or TLS
        client.loop_read()
        while client.socket() is sock and isinstance(sock, ssl.SSLSocket) and sock.pending():
            client.loop_read()

    def _want_write(self, client: paho.Client) -> None:
        sock = client.socket()
        if client is self._client and sock is not None and client.want_write():
            self._loop.add_writer(sock, client.loop_write)

    def _forget(self, sock: Any) -> None:  # noqa: ANN401 - plain or TLS
        with suppress(ValueError, OSError):
            self._loop.remove_reader(sock)
            self._loop.remove_writer(sock)

    def _end(self, client: paho.Client) -> None:
        if client is self._client:
            self._up = False
            self._lost.set()

    def _shut(self, client: paho.Client) -> None:
        client.disconnect()
        while client.want_write() and client.socket() is not None:
            if client.loop_write() != paho.MQTT_ERR_SUCCESS:
                break
        sock = client.socket()
        if sock is not None:
            self._forget(sock)
            with suppress(OSError):
                sock.close()

    # -- what paho calls, from any thread -------------------------------------------------------

    def _on_connect(self, client: Any, _: Any, __: Any, reason: Any, properties: Any) -> None:  # noqa: ANN401
        if client is not self._client or reason.is_failure:
            self._lost.set()
            return
        allowed = getattr(properties, "ReceiveMaximum", _IN_FLIGHT)
        if allowed < self._in_flight:  # paho takes it only before a connection
            self._in_flight = allowed
            self._lost.set()
            return
        self._up = True
        self._listener.connected()

    def _on_disconnect(self, client: Any, *_: object) -> None:  # noqa: ANN401
        self._loop.call_soon_threadsafe(self._end, client)

    def _on_want_write(self, client: Any, *_: object) -> None:  # noqa: ANN401
        self._loop.call_soon_threadsafe(self._want_write, client)

    def _on_written(self, _: object, __: object, sock: Any) -> None:  # noqa: ANN401
        self._loop.remove_writer(sock)

    def _on_close(self, _: object, __: object, sock: Any) -> None:  # noqa: ANN401
        self._forget(sock)

    def _on_message(self, client: Any, _: object, message: Any) -> None:  # noqa: ANN401
        if client is not self._client:
            return
        self.received_bytes += len(message.payload)
        self.received_packets += 1
        self._listener.received(
            Delivery(message.topic, message.payload, message.mid, self._generation, message.qos)
        )


def _properties(packet: int, **values: int) -> Properties:
    properties = Properties(packet)  # type: ignore[no-untyped-call]
    for name, value in values.items():
        setattr(properties, name, value)
    return properties
