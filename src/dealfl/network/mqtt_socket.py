"""The socket of a paho client in the event loop, instead of paho's threads; what it carried."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

__all__ = ["PATIENCE_S", "MqttSocket", "Traffic"]

PATIENCE_S = 10.0  # for a broker that accepts no connection, or nothing more
_GOODBYE_S = 1.0
_AT_ONCE = 200  # packets that are read before anything else happens


@dataclass(slots=True)
class Traffic:
    """What a connection carried; a burst is what follows a second of silence.

    >>> one = Traffic()
    >>> for now_s in (0.0, 5.0, 5.5):
    ...     one.count(now_s, b"packet", None)
    >>> one.count_training()
    >>> one.count_training()
    >>> (one.bursts, one.own_bursts)
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
            self.bursts, self.own_bursts, self._trains = self.bursts + 1, self.own_bursts + 1, False
        self._last_s = now_s
        self.sent_bytes += len(sent or b"")
        self.sent_packets += sent is not None
        self.received_bytes += len(received or b"")
        self.received_packets += received is not None

    def count_training(self) -> None:
        """Note that the last burst delivers a training."""
        self.own_bursts, self._trains = self.own_bursts - (not self._trains), True


class MqttSocket:
    """Reads and writes the packets of a connected client."""

    def __init__(
        self, client: paho.Client, loop: asyncio.AbstractEventLoop, traffic: Traffic
    ) -> None:
        self._client, self._loop, self._traffic = client, loop, traffic
        sock: Any = client.socket()  # plain or TLS
        self._sock = sock
        client.on_socket_close = lambda *_: self._forget()
        if sock is None:
            return  # closed already
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # a network that ends without a word
            patience_ms = int(1e3 * PATIENCE_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, patience_ms)
        loop.add_reader(sock, self._read)
        self.finish_writing()

    def _read(self) -> None:
        """Read packets while there are more, so that one commit serves many."""
        for _ in range(_AT_ONCE):
            before = self._traffic.received_packets
            self._client.loop_read()
            if self._client.socket() is None:
                break
            more = isinstance(self._sock, ssl.SSLSocket) and self._sock.pending()
            if not more and self._traffic.received_packets == before:
                break

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
        client, until_s = self._client, self._loop.time() + _GOODBYE_S
        client.disconnect(ReasonCode(PacketTypes.DISCONNECT, identifier=4))
        while client.want_write() and client.socket() is not None:
            if client.loop_write() != paho.MQTT_ERR_SUCCESS or self._loop.time() > until_s:
                break
            await asyncio.sleep(0.001)
        if client.socket() is not None:
            self._forget()
            with suppress(OSError):
                self._sock.close()
