"""Real processes of `dealfl work`: killed at any moment, as gateways, with predictions."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dealfl.network import ask
from dealfl.server import LedgerReader
from tests.network.brokers import RunningBroker
from tests.network.federations import JOB, Federation
from tests.network.feeding import HEADER, row
from tests.network.forks import Forks, is_alive, wait_for


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    processes = Forks()
    yield processes
    processes.close()


@pytest.fixture
def fed(tmp_path: Path, forks: Forks, broker: RunningBroker) -> Iterator[Federation]:
    yield Federation(tmp_path, forks, broker)
    forks.end_all()


def test_a_worker_killed_while_its_file_grows_and_is_rotated_counts_every_row_once(
    tmp_path: Path, fed: Federation
) -> None:
    draw = random.Random(11)
    fed.enrol("w1")
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
        fed.forks.end(pid, signal.SIGKILL)
    fed.work("w1", "--data", data)
    fed.wait_until_learned(written)
    assert fed.status["statistics_digest"] == fed.central_digest(range(written))


def test_a_quiet_server_publishes_that_a_lost_worker_was_removed(
    tmp_path: Path, forks: Forks, broker: RunningBroker
) -> None:
    fed = Federation(
        tmp_path, forks, broker, JOB.replace("ttl_s", "publish_every_s = 3.0\nttl_s", 1)
    )
    pids = {}
    for first, name in ((0, "lost"), (5, "kept")):
        fed.enrol(name)
        data = tmp_path / f"{name}.csv"
        data.write_text(HEADER + "".join(map(row, range(first, first + 5))))
        pids[name] = fed.work(name, "--data", data)
    fed.wait_until_learned(10)
    fed.forks.end(pids["lost"], signal.SIGKILL)
    wait_for(lambda: fed.status["workers"]["awake"] == 1, "the end of the connection")
    wait_for(lambda: _last_digest(tmp_path) == fed.central_digest(range(10)), "all rows")
    ask(fed.operator, "remove", {"worker": "lost"})
    wait_for(lambda: _last_digest(tmp_path) == fed.central_digest(range(5, 10)), "a version")
    fed.forks.end_all()


def _last_digest(folder: Path) -> str:
    with LedgerReader.open(folder / "run" / "ledger.db") as reader:
        version = reader.last_version()
        return "" if version is None else version.digest


def test_a_gateway_carries_workers_with_a_file_or_a_folder_each(
    tmp_path: Path, fed: Federation
) -> None:
    fed.enrol("hub", workers=("w4", "w5"))
    data = tmp_path / "data"
    data.mkdir()
    pid = fed.work("hub", "--data", data, "--predict-socket", tmp_path / "predict")
    (data / "w4.csv").write_text(HEADER + "".join(map(row, range(10))))
    (data / "w6.csv").write_text(HEADER + row(99))  # nobody's
    fed.wait_until_learned(10)
    (data / "w5").mkdir()
    (data / "w5" / "monday.csv").write_text(HEADER + "".join(map(row, range(10, 15))))
    (data / "w5" / "tuesday.csv").write_text("y,x\n" + "15.5,15\n")
    fed.wait_until_learned(16)
    assert fed.status["statistics_digest"] == fed.central_digest(range(16))
    assert fed.status["workers"]["awake"] == 2
    assert (tmp_path / "hub" / "w4" / "journal.db").exists()
    nameless, one = fed.ask(
        tmp_path / "predict", {"features": [[3]]}, {"worker": "w5", "features": [[3]]}
    )
    assert nameless == {"error": "worker is ''; it takes one of: w4, w5"}
    assert one["predictions"] == [pytest.approx(3.5, abs=0.1)]
    fed.forks.end(pid, signal.SIGTERM)


def test_predictions_are_answered_locally_whatever_is_asked(
    tmp_path: Path, fed: Federation
) -> None:
    fed.enrol("w1")
    data, path = tmp_path / "data.csv", tmp_path / "predict"
    data.write_text(HEADER + "".join(map(row, range(100))))
    fed.work("w1", "--data", data, "--predict-socket", path)
    fed.wait_until_learned(100)
    wait_for(lambda: fed.status["version"] >= 1, "a version")
    answers = fed.ask(
        path, {"features": [[1], [2.5]]}, b"rubbish", b"\xff\x00", b"[]", {},
        {"features": [[1], []]},
        {"features": [[1]], "owner": "w1"}, {"owner": "w1"}, {"features": [["a"]]}, {"x": 1},
        b"[" * 100_000, {"features": [[1]]},
    )  # fmt: skip
    assert answers[0]["version"] == answers[-1]["version"] >= 1
    assert answers[0]["predictions"] == pytest.approx([1.5, 3.0], abs=0.1)
    assert [set(one) for one in answers[1:-1]] == [{"error"}] * 10
    assert "1,048,576 bytes" in fed.ask(path, b"1" * 2_000_000)[0]["error"]
    assert path.stat().st_mode & 0o777 == 0o600
    with ThreadPoolExecutor(20) as many:
        found = list(many.map(lambda n: fed.ask(path, {"features": [[n]]}), range(20)))
    assert [one["predictions"][0] for (one,) in found] == pytest.approx(
        [n + 0.5 for n in range(20)], abs=0.1
    )


def test_a_second_process_with_the_same_journal_is_refused(tmp_path: Path, fed: Federation) -> None:
    fed.enrol("w1")
    fed.work("w1", "--data", tmp_path / "data.csv")
    wait_for((tmp_path / "w1" / "journal.db").exists, "the journal")
    second = fed.work("w1", "--data", tmp_path / "data.csv")
    wait_for(lambda: not is_alive(second), "the end of the second process")
    assert "w1/journal.db is in use by process" in (tmp_path / "w1.log").read_text()
