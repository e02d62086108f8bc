"""A real mosquitto on a free port of this machine: started, killed, started again."""

import os
import random
import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from dealfl.network import Broker, BrokerSettings, Credentials, create_broker

JOB = "test"


class RunningBroker:
    """A mosquitto process and the folder of its files; the port stays the same."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._process: subprocess.Popen[bytes] = broker.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def server(self) -> Credentials:
        """New credentials of the server."""
        return self.broker.admit_server()

    def enrol(self, name: str, *, workers: tuple[str, ...] = ()) -> Credentials:
        """Admit a device, or a gateway for some workers."""
        return self.broker.enrol([name], workers=workers)[0]

    def kill(self) -> None:
        """Kill −9: the broker forgets everything, as it stores nothing."""
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        self.kill()
        self._process = self.broker.start()


def start_broker(
    folder: Path, *, job: str = JOB, tls: bool = False, host: str = "127.0.0.1"
) -> RunningBroker:
    """Start a broker with passwords, or with TLS and certificates.

    Without mosquitto the test is skipped; in CI it fails.
    """
    require_mosquitto()
    settings = BrokerSettings(job=job, host=host, port=free_port(), tls=tls, listen=host)
    return RunningBroker(create_broker(folder, settings))


def free_port() -> int:
    """Return a port that nobody listens on, below those that the kernel gives to clients.

    While a broker is down, a client of it could get its port, and even be connected to itself.
    """
    for _ in range(1_000):
        port = random.randrange(10_000, 32_000)
        with suppress(OSError), socket.socket() as free:
            # not listening: a process that another thread starts may have it for a moment
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind(("127.0.0.1", port))
            return port
    raise OSError("no free port")


def require_mosquitto() -> None:
    if shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin"):
        return
    reason = "NO MOSQUITTO: the tests of the network need it; run: apt-get install mosquitto"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
