"""A federation of real processes: a server and workers, which a test starts, stops and asks."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from dealfl.erasure import owner_hash
from dealfl.jobs import Document, plan_without_data
from dealfl.network import ask, write_credentials
from dealfl.runs import RunFolder, read_status
from tests.network.brokers import RunningBroker
from tests.network.feeding import NUMBERS
from tests.network.forks import Forks, wait_for

JOB = NUMBERS.replace(
    "[source]",
    "rounds = 100000\nworkers_per_round = 5\nttl_s = 2.0\nretry_after_s = 0.5\n\n[source]",
)


class Federation:
    """A server and workers as processes, in one folder."""

    def __init__(self, folder: Path, forks: Forks, broker: RunningBroker, text: str = JOB) -> None:
        self.folder, self.forks, self.broker = folder, forks, broker
        self.job = folder / "job.toml"
        self.job.write_text(text)
        write_credentials(folder / "server.toml", broker.server)
        self.operator = broker.broker.enrol(["operator"], operator=True)[0]
        self.server = self.serve()

    def serve(self, *options: object) -> int:
        """Start the server."""
        return self.forks.start(
            self.folder / "server.log",
            ["serve", self.job, "--broker", self.folder / "server.toml",
             "--out", self.folder / "run", "--trust", "operator", *options],
        )  # fmt: skip

    def enrol(self, name: str, workers: tuple[str, ...] = ()) -> None:
        credentials = self.broker.enrol(name, workers=workers)
        write_credentials(self.folder / f"{name}.toml", credentials)

    def work(self, name: str, *options: object, change: str = "") -> int:
        """Start a worker that is enrolled; `change` is one of `forks`."""
        return self.forks.start(
            self.folder / f"{name}.log",
            ["work", self.job, "--broker", self.folder / f"{name}.toml",
             "--out", self.folder / name, *options],
            change,
        )  # fmt: skip

    def ask(self, path: Path, *requests: object) -> list[Any]:
        """Send requests over one connection to a socket; return the answers."""
        wait_for(path.is_socket, "the socket")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            stream = client.makefile("rwb")
            for request in requests:
                line = request if isinstance(request, bytes) else json.dumps(request).encode()
                stream.write(line + b"\n")
            stream.flush()
            client.shutdown(socket.SHUT_WR)
            return [json.loads(line) for line in stream]

    def wait_until_learned(self, rows: int) -> None:
        """Wait until the server has counted so many rows, and compare with central training."""
        wait_for(lambda: self._learned() >= rows, f"{rows} rows")
        assert self._learned() == rows

    def _learned(self) -> int:
        try:
            return int(self.status["examples_learned"])
        except Exception:
            return 0

    @property
    def status(self) -> dict[str, Any]:
        return read_status(RunFolder(self.folder / "run")).as_dict()

    def erase(self, owner: str) -> None:
        """Ask the server to erase a person."""
        hashed = owner_hash(bytes.fromhex(self.operator.owners_key), owner).hex()
        asked = {"request": f"erase {owner}", "owners": [hashed]}
        ask(self.operator, "erase", asked, timeout_s=60.0)

    def central_digest(self, numbers: range) -> str:
        model: Any = plan_without_data(Document.read(self.job)).make()
        if numbers:
            model.learn([[float(n)] for n in numbers], [n + 0.5 for n in numbers])
        return str(model.digest())
