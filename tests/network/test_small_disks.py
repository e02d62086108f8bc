"""Small disks under processes: when one is full they say so, lose nothing, and serve later."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from dealfl.errors import DealError
from dealfl.network import write_credentials
from dealfl.runs import RunningServer
from tests.network.brokers import RunningBroker
from tests.network.federations import JOB, Federation
from tests.network.forks import Forks, is_alive, wait_for
from tests.network.test_silent_processes import append, finish
from tests.runs.test_full_disk import mounted_disk

pytestmark = pytest.mark.soak
SIZE_BYTES = 8 << 20
LOGS = {"run": "server.log", "w1": "w1.log"}  # by the folder of the disk
PUBLISHING = JOB.replace("[source]", "publish_every_s = 0.2\n\n[source]")


@pytest.fixture
def start(tmp_path: Path, broker: RunningBroker) -> Iterator[Callable[[str], Federation]]:
    """Return a function that starts a federation with a small disk in one of its folders."""
    forks = Forks()
    with ExitStack() as stack:
        stack.callback(forks.close)

        def started(name: str) -> Federation:
            folder = tmp_path / name
            folder.mkdir(parents=True, mode=0o700)
            stack.enter_context(mounted_disk(folder, SIZE_BYTES))
            stack.callback(forks.end_all)
            fed = Federation(tmp_path, forks, broker, PUBLISHING)
            fed.enrol("w1")
            return fed

        yield started


def fill(folder: Path) -> Path:
    """Fill a disk to its last byte; return the file that does."""
    path = folder / "filling"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
    assert os.statvfs(folder).f_bavail == 0
    return path


def fill_and_free(fed: Federation, folder: str) -> float:
    """Let rows arrive while a disk is full; return the seconds until all count when it is freed."""
    data, told = fed.folder / "data.csv", fed.folder / LOGS[folder]
    append(data, 0, 20)
    worker = fed.work("w1", "--data", data)
    fed.wait_until_learned(20)
    filling = fill(fed.folder / folder)
    rows = 20

    def fails() -> bool:
        nonlocal rows
        append(data, rows, 100)  # a file can have some room inside
        rows += 100
        time.sleep(0.5)
        return "cannot be written" in told.read_text()

    wait_for(fails, f"words about the disk in {told}", 60.0)
    assert is_alive(fed.server)
    assert is_alive(worker)
    assert fed.status["examples_learned"] < rows, "a file that is full can be read"
    filling.unlink()
    spent_s = finish(fed, rows)
    assert "Traceback" not in told.read_text()
    return spent_s


def certify_late(fed: Federation) -> float:
    """Erase while no certificate can be written; return the seconds until one is, afterwards."""
    operator, data = fed.folder / "operator.toml", fed.folder / "data.csv"
    write_credentials(operator, fed.operator)
    append(data, 0, 20)
    fed.work("w1", "--data", data)
    fed.wait_until_learned(20)
    running, folder = RunningServer(operator), fed.folder / "run" / "certificates"
    filling = fill(folder)
    with pytest.raises(DealError, match="cannot be written"):
        running.erase(["w1"], "dpo", fed.folder / "mine")
    (row,) = running.erasures()
    assert (row.published, row.examples) == (True, 20), "the erasure itself is done"
    assert fed.status["statistics_digest"] == fed.central_digest(range(0))
    assert is_alive(fed.server)
    filling.unlink()
    began_s = time.monotonic()
    running.certify(row.name, "dpo", fed.folder / "mine")
    spent_s = time.monotonic() - began_s
    for made in (folder, fed.folder / "mine"):
        assert len([*made.glob("*.json")]) == 1, made
    return spent_s


@pytest.mark.parametrize("folder", ["run", "w1"])
def test_a_full_disk_of_the_ledger_or_the_journal_delays_and_loses_nothing(
    start: Callable[[str], Federation], folder: str
) -> None:
    fill_and_free(start(folder), folder)


def test_a_full_disk_of_the_certificates_delays_the_certificate_only(
    start: Callable[[str], Federation],
) -> None:
    certify_late(start("run/certificates"))
