"""A real cluster of RabbitMQ on loopback addresses: its nodes are killed and started again.

The nodes run in a chroot of a Debian release that has RabbitMQ 4; `make rabbitmq` makes it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dealfl.network import Broker, BrokerSettings, Credentials, create_broker
from tests.network.brokers import free_port

CHROOT = Path(os.environ.get("DEALFL_RABBITMQ", Path(__file__).parents[2] / ".rabbitmq"))
PROGRAMS = "/usr/lib/rabbitmq/bin"
START_S = 120.0


def require_rabbitmq() -> None:
    """Skip a test where there is no RabbitMQ, and where it cannot be started."""
    if not (CHROOT / PROGRAMS[1:] / "rabbitmq-server").exists():
        pytest.skip("NO RABBITMQ: run make rabbitmq")
    if os.geteuid():
        pytest.skip("RabbitMQ runs in a chroot, which needs root")


class Rabbits:
    """The nodes of a cluster, from the files that `dealfl broker init --kind rabbitmq` writes."""

    def __init__(self, folder: Path, job: str, nodes: int = 3) -> None:
        self.hosts = [f"127.0.0.{number}" for number in range(1, nodes + 1)]
        settings = BrokerSettings(
            job=job, host=self.hosts[0], others=tuple(self.hosts[1:]), port=free_port(), tls=True,
            kind="rabbitmq",
        )  # fmt: skip
        self.broker: Broker = create_broker(folder / "broker", settings)
        self.server: Credentials = self.broker.admit_server()
        self.users: dict[str, Credentials] = {"server": self.server}
        self._root = CHROOT / "tmp" / f"cluster-{os.getpid()}-{settings.port}"
        self._epmd = str(free_port())
        self._ports = {host: str(free_port()) for host in self.hosts}
        self._alive: dict[str, subprocess.Popen[bytes]] = {}

    def enrol(self, name: str, *, workers: tuple[str, ...] = ()) -> Credentials:
        """Admit a device; it can connect after `import_users`."""
        self.users[name] = self.broker.enrol([name], workers=workers)[0]
        return self.users[name]

    def find_node(self, pid: int) -> str:
        """Return the host of the node that a process is connected to; empty if to none."""
        found = subprocess.run(
            ["ss", "-tnpH", "state", "established", f"( dport = :{self.server.port} )"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        lines = [line.split() for line in found.stdout.splitlines() if f"pid={pid}," in line]
        return lines[0][3].rpartition(":")[0] if lines else ""

    # -- nodes ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all nodes, and wait until they are one cluster with the users."""
        for host in self.hosts:
            self._write(host)
        for host in self.hosts:
            self.start_node(host, wait=False)
        for host in self.hosts:
            self._wait(host)
        self.import_users()

    def start_node(self, host: str, *, wait: bool = True) -> None:
        with (self._at(host) / "output").open("wb") as output:
            self._alive[host] = subprocess.Popen(
                self._command(host, "rabbitmq-server"),
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        if wait:
            self._wait(host)

    def kill(self, host: str) -> None:
        """Kill −9 a node."""
        process = self._alive.pop(host)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def memory_mb(self, host: str) -> float:
        """Return the resident memory of a node."""
        pid = (self._at(host) / "pid").read_text()
        pages = int(Path(f"/proc/{pid.strip()}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def import_users(self) -> None:
        """Bring the users to the cluster, as an operator would, and wait until it has them."""
        host = next(iter(self._alive))
        shutil.copy(self.broker.folder / "rabbitmq" / "definitions.json", self._at(host))
        self.control(host, "import_definitions", f"{self._inside(host)}/definitions.json")
        rules = self.broker._rules()
        until_s = time.monotonic() + START_S
        while rules and self._count_rules(host) < 1 + len(rules):
            assert time.monotonic() < until_s, "the users are not there"
            time.sleep(0.5)

    def _count_rules(self, host: str) -> int:
        code = "length(rabbit_auth_backend_internal:list_topic_permissions())."
        return int(self.control(host, "eval", code))

    def control(self, host: str, *words: str) -> str:
        """Run rabbitmqctl on a node."""
        node = ("--longnames", "--node", self._name(host))
        done = subprocess.run(
            [*self._command(host, "rabbitmqctl"), "--quiet", *node, *words],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def _write(self, host: str) -> None:
        """Copy the files of a node; names and ports differ where all are on one machine."""
        shutil.copytree(self.broker.folder / "rabbitmq", self._at(host))
        file, inside = self._at(host) / "rabbitmq.conf", self._inside(host)
        text, port = file.read_text().replace("/etc/rabbitmq", inside), self.server.port
        for other in self.hosts:
            text = text.replace(f"rabbit@{other}", self._name(other))
        file.write_text(text.replace(f"ssl.1 = {port}\n", f"ssl.1 = {host}:{port}\n"))
        cookie = self._at(host) / ".erlang.cookie"
        cookie.write_text("x" * 20)
        cookie.chmod(0o400)

    def _wait(self, host: str) -> None:
        """Wait until a node, whose output is empty when it starts, accepts connections."""
        output, until_s = self._at(host) / "output", time.monotonic() + START_S
        while "completed with" not in output.read_text():
            assert self._alive[host].poll() is None, output.read_text()[-2000:]
            assert time.monotonic() < until_s, f"{host} does not start"
            time.sleep(0.2)

    def _at(self, host: str) -> Path:
        return self._root / self._name(host)

    def _inside(self, host: str) -> str:
        return f"/{self._at(host).relative_to(CHROOT)}"

    def _name(self, host: str) -> str:
        return f"rabbit{host.rpartition('.')[2]}@{host}"

    def _command(self, host: str, program: str) -> list[str]:
        folder = self._inside(host)
        settings = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": folder, "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": self._epmd, "ERL_EPMD_RELAXED_COMMAND_CHECK": "true",
            "RABBITMQ_NODENAME": self._name(host),
            "RABBITMQ_USE_LONGNAME": "true", "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_MNESIA_BASE": f"{folder}/data", "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
            "RABBITMQ_DIST_PORT": self._ports[host], "RABBITMQ_PID_FILE": f"{folder}/pid",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        }  # fmt: skip
        words = [f"{key}={value}" for key, value in settings.items()]
        return ["chroot", str(CHROOT), "/usr/bin/env", "-i", *words, f"{PROGRAMS}/{program}"]

    def close(self) -> None:
        """Kill the nodes and their name server, and remove what they wrote."""
        for host in list(self._alive):
            self.kill(host)
        subprocess.run(
            ["chroot", str(CHROOT), "/usr/bin/env", f"ERL_EPMD_PORT={self._epmd}",
             "ERL_EPMD_RELAXED_COMMAND_CHECK=true", "epmd", "-kill"],
            capture_output=True, timeout=30, check=False,
        )  # fmt: skip
        shutil.rmtree(self._root, ignore_errors=True)


@contextmanager
def cluster(folder: Path, job: str, nodes: int = 3) -> Iterator[Rabbits]:
    """Yield a cluster whose nodes are not started yet."""
    rabbits = Rabbits(folder, job, nodes)
    try:
        yield rabbits
    finally:
        rabbits.close()
