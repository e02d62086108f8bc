"""Real processes of `dealfl work`: killed at any moment, as gateways, with predictions."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dealfl.jobs import Document, plan_without_data
from dealfl.network import Credentials, write_credentials
from dealfl.runs import RunFolder, read_status
from tests.network.brokers import RunningBroker
from tests.network.feeding import HEADER, NUMBERS, row
from tests.network.forks import Forks, wait_for

JOB = NUMBERS.replace(
    "[source]",
    "rounds = 100000\nworkers_per_round = 5\nttl_s = 2.0\nretry_after_s = 0.5\n\n[source]",
)


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    processes = Forks()
    yield processes
    processes.close()


class Federation:
    """A server and workers as processes, in one folder."""

    def __init__(self, folder: Path, forks: Forks, broker: RunningBroker, text: str = JOB) -> None:
        self.folder, self.forks, self.broker = folder, forks, broker
        self.job = folder / "job.toml"
        self.job.write_text(text)
        server = self.write("server", broker.server)
        self.server = forks.start(
            folder / "server.log", ["serve", self.job, "--broker", server, "--out", folder / "run"]
        )

    def write(self, name: str, credentials: Credentials) -> Path:
        path = self.folder / f"{name}.toml"
        write_credentials(path, credentials)
        return path

    def work(self, name: str, *options: object) -> int:
        """Start a worker whose credentials are written."""
        return self.forks.start(
            self.folder / f"{name}.log",
            ["work", self.job, "--broker", self.folder / f"{name}.toml",
             "--out", self.folder / name, *options],
        )  # fmt: skip

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

    def central_digest(self, numbers: range) -> str:
        model: Any = plan_without_data(Document.read(self.job)).make()
        model.learn([[float(n)] for n in numbers], [n + 0.5 for n in numbers])
        return str(model.digest())


def test_a_worker_killed_while_its_file_grows_and_is_rotated_counts_every_row_once(
    tmp_path: Path, forks: Forks, broker: RunningBroker
) -> None:
    draw = random.Random(11)
    fed = Federation(tmp_path, forks, broker)
    fed.write("w1", broker.enrol("w1"))
    data = tmp_path / "data.csv"
    written = 0
    for _ in range(8):
        pid = fed.work("w1", "--data", data)
        end_s = time.monotonic() + draw.uniform(0.1, 0.5)
        while time.monotonic() < end_s:
            text = "".join(row(written + n) for n in range(draw.choice([1, 50, 500])))
            written += text.count("\n")
            with data.open("a") as file:
                file.write(HEADER * (file.tell() == 0) + text)
            if draw.random() < 0.2:
                for number in range(30, 0, -1):
                    older = tmp_path / f"data.csv.{number}"
                    if older.exists():
                        older.rename(tmp_path / f"data.csv.{number + 1}")
                data.rename(tmp_path / "data.csv.1")
            time.sleep(draw.uniform(0.0, 0.1))
        forks.end(pid, signal.SIGKILL)
    fed.work("w1", "--data", data)
    fed.wait_until_learned(written)
    assert fed.status["statistics_digest"] == fed.central_digest(range(written))
