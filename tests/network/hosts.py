"""Hosts with a network between them: namespaces of this machine, with loss, delay and cuts.

broker ──┐
server ──┼── switch        every host loses some of the packets that reach it
w1 … w3 ─┘
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Event, Thread

import msgspec
import pytest

from dealfl.network import Credentials
from tests.network.forks import enter
from tests.network.storms import BROKER, SERVER, WORKERS, Loopback, Result

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
HOSTS = (BROKER, SERVER, *WORKERS)
AT_RANDOM = ("-i", "eth0", "-m", "statistic", "--mode", "random", "--probability")
NETWORK = "198.18.7"  # a range for tests of networks; it is not connected to anything


def require_hosts() -> None:
    """Skip a test where the kernel allows no namespaces; where it does, CI needs the programs."""
    if not _works("unshare", "--net", "true"):
        pytest.skip("NO NETWORK NAMESPACES: the kernel does not allow them to this user")
    missing = [one for one in ("ip", "iptables") if not shutil.which(one, path=PATH)]
    if missing:
        reason = f"NO {' AND NO '.join(missing).upper()}: run apt-get install iproute2 iptables"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    if not _works("unshare", "--net", "iptables", "-A", "INPUT", *AT_RANDOM, "0.1", "-j", "DROP"):
        pytest.skip("NO LOSS OF PACKETS: the kernel has no match `statistic` for iptables")


def _works(*words: str) -> bool:
    done = subprocess.run(words, env={**os.environ, "PATH": PATH}, capture_output=True, check=False)
    return done.returncode == 0


class Hosts(Loopback):
    """One namespace for each host, joined by a switch in another one."""

    address = f"{NETWORK}.1"
    cuts = HOSTS

    def __init__(self, name: str, loss: float, cuts_s: Sequence[float]) -> None:
        self._cuts_s, self._slow = cuts_s, Slow()
        self._prefix = f"dealfl-{os.getpid()}-{name}"
        self._switch = f"{self._prefix}-switch"
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "bridge", "up")
        for place, host in enumerate(HOSTS, 1):
            self._add(host, f"{NETWORK}.{place}/24")
            self._filter(host, "-A", "INPUT", *AT_RANDOM, str(loss), "-j", "DROP")

    def _add(self, host: str, address: str) -> None:
        own = self.namespace(host)
        _ip("netns", "add", own)
        _ip("-n", own, "link", "add", "eth0", "type", "veth", "peer", host, "netns", self._switch)
        _ip("-n", self._switch, "link", "set", host, "master", "bridge", "up")
        _ip("-n", own, "address", "add", address, "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", own, "link", "set", device, "up")

    def _filter(self, host: str, *rule: str) -> None:
        _ip("netns", "exec", self.namespace(host), "iptables", "--wait", *rule)

    def namespace(self, host: str) -> str:
        return f"{self._prefix}-{host}"

    def on(self, host: str, call: Callable[[], Result]) -> Result:
        """Call a function in a thread that is in the namespace of a host."""
        with ThreadPoolExecutor(1, initializer=enter, initargs=(self.namespace(host),)) as one:
            return one.submit(call).result()

    def route(self, credentials: Credentials) -> Credentials:
        """Delay what a worker sends and receives."""
        if not self._slow.port:
            run = partial(self._slow.run, credentials)
            self._carrying = Thread(target=self.on, args=(BROKER, run), daemon=True)
            self._carrying.start()
            self._slow.listens.wait(10)
        return msgspec.structs.replace(credentials, port=self._slow.port)

    def cut(self, host: str, draw: random.Random) -> None:
        for chain in ("INPUT", "OUTPUT"):
            self._filter(host, "-I", chain, "-j", "DROP")
        time.sleep(draw.choice(self._cuts_s))
        for chain in ("INPUT", "OUTPUT"):
            self._filter(host, "-D", chain, "-j", "DROP")

    def close(self) -> None:
        self._slow.stop()
        if self._slow.port:
            self._carrying.join()
        for host in (*HOSTS, "switch"):
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", self.namespace(host))


class Slow:
    """Carries bytes to the broker and back, each some time later."""

    def __init__(self) -> None:
        self.port, self.listens, self._over = 0, Event(), Event()
        self._open: list[asyncio.StreamWriter] = []

    def run(self, broker: Credentials) -> None:
        """Carry bytes until stopped."""
        asyncio.run(self._serve(broker.host, broker.port))

    def stop(self) -> None:
        self._over.set()

    async def _serve(self, host: str, port: int) -> None:
        async def carry(down: asyncio.StreamReader, up: asyncio.StreamWriter) -> None:
            self._open.append(up)
            try:
                reader, writer = await asyncio.open_connection(host, port)
            except OSError:  # the broker was killed
                up.close()
                return
            self._open.append(writer)
            await asyncio.gather(_delay(down, writer), _delay(reader, up))

        async with await asyncio.start_server(carry, host, 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            self.listens.set()
            while not self._over.is_set():
                await asyncio.sleep(0.05)
        for writer in self._open:
            writer.transport.abort()
        await asyncio.sleep(0.2)  # what was delayed


async def _delay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    loop, due_s = asyncio.get_running_loop(), 0.0
    with suppress(ConnectionError, TimeoutError):
        while data := await reader.read(1 << 16):
            due_s = max(due_s, loop.time() + random.uniform(0.04, 0.12))
            loop.call_at(due_s, writer.write, data)
    loop.call_at(due_s, writer.close)


def _ip(*words: str) -> None:
    program = shutil.which("ip", path=PATH) or "ip"
    subprocess.run([program, *words], check=True, env={**os.environ, "PATH": PATH})
