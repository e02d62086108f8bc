"""A plain MQTT client that says what it likes, and a record of what the broker delivered to it."""

from __future__ import annotations

import socket
import ssl
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.subscribeoptions import SubscribeOptions

from dealfl.network import Credentials

PATIENT_S = 60.0  # the machine may be busy


class Stranger:
    """A client with any identity. `wait` and `publish` run its network loop.

    What paho calls does not refer to this object: without a cycle, the sockets of a client are
    closed as soon as a test drops it, and never by a garbage collection in a later test.
    """

    def __init__(
        self,
        where: Credentials,
        *,
        user: str | None = None,
        client_id: str | None = None,
        context: ssl.SSLContext | None = None,
        will: str | None = None,
        version: MQTTProtocolVersion = MQTTProtocolVersion.MQTTv5,
    ) -> None:
        self.received: list[tuple[str, bytes]] = []
        self._replies: list[str] = []  # of the broker to CONNECT
        self._answers: dict[int, str] = {}  # and to publications
        self._where = where
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2, where.user if client_id is None else client_id,
            protocol=version,
        )  # fmt: skip
        if where.password:
            self.client.username_pw_set(where.user if user is None else user, where.password)
        elif user is not None:
            self.client.username_pw_set(user)
        chosen = context or where.tls_context()
        if chosen is not None:
            self.client.tls_set_context(chosen)
        if will is not None:
            self.client.will_set(will, b"will", 1)
        received, replies, answers = self.received, self._replies, self._answers

        def note_answer(_: Any, __: Any, number: int, reason: Any, ___: Any) -> None:
            answers[number] = str(reason)

        def send_at_once(_: Any, __: Any, sock: Any) -> None:  # as a worker does
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        self.client.on_connect = lambda _, __, ___, reason, ____: replies.append(str(reason))
        self.client.on_publish = note_answer
        self.client.on_socket_open = send_at_once
        self.client.on_message = lambda _, __, message: received.append(
            (message.topic, bytes(message.payload))
        )

    @property
    def answer(self) -> str:
        """The broker's answer to CONNECT; empty before."""
        return self._replies[-1] if self._replies else ""

    def connect(self) -> Stranger:
        """Connect, and wait for the broker's answer."""
        try:
            self.client.connect(self._where.host, self._where.port)
        except OSError as error:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)  # paho does not close its socket
                traceback.clear_frames(error.__traceback__)
            raise
        self.wait(lambda: bool(self.answer))
        return self

    def wait(self, until: Callable[[], bool], timeout_s: float = PATIENT_S) -> bool:
        """Run the network loop until something holds; return whether it does."""
        end_s = time.monotonic() + timeout_s
        while not until() and time.monotonic() < end_s:
            if self.client.loop(0.02) != paho.MQTT_ERR_SUCCESS:
                break
        return until()

    def publish(self, topic: str, payload: bytes, *, retain: bool = False, qos: int = 1) -> str:
        """Publish, and return the broker's answer."""
        sent = self.client.publish(topic, payload, qos, retain)
        self._answers.pop(sent.mid, None)  # of a publication before 65,535 others
        self.wait(lambda: sent.mid in self._answers)
        return self._answers.get(sent.mid, "no answer")

    def subscribe(self, *topics: str) -> None:
        done: list[int] = []
        self.client.on_subscribe = lambda *_: done.append(1)
        self.client.subscribe([(topic, SubscribeOptions(qos=1)) for topic in topics])
        self.wait(lambda: bool(done))

    def die(self) -> None:
        """End the connection without a word."""
        sock = self.client.socket()
        assert sock is not None
        sock.close()
        self.client.loop(0.02)

    def leave(self) -> None:
        self.client.disconnect()
        self.wait(lambda: not self.client.is_connected(), 1.0)
