"""A plain MQTT client that says what it likes, and a record of what the broker delivered to it."""

from __future__ import annotations

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

TIMEOUT_S = 10.0


class Stranger:
    """A client with any identity. `wait` and `publish` run its network loop."""

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
        self.answer = ""  # the broker's answer to CONNECT
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
        self.client.on_connect = self._on_connect
        self.client.on_publish = self._on_publish
        self.client.on_message = self._on_message

    def _on_connect(self, _: Any, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        self.answer = str(reason)

    def _on_publish(self, _: Any, __: Any, number: int, reason: Any, ____: Any) -> None:
        self._answers[number] = str(reason)

    def _on_message(self, _: Any, __: Any, message: Any) -> None:
        self.received.append((message.topic, message.payload))

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

    def wait(self, until: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> bool:
        """Run the network loop until something holds; return whether it does."""
        end_s = time.monotonic() + timeout_s
        while not until() and time.monotonic() < end_s:
            if self.client.loop(0.02) != paho.MQTT_ERR_SUCCESS:
                break
        return until()

    def publish(self, topic: str, payload: bytes, *, retain: bool = False, qos: int = 1) -> str:
        """Publish, and return the broker's answer."""
        sent = self.client.publish(topic, payload, qos, retain)
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
