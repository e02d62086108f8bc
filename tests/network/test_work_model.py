"""The published model reaches a worker on demand, never by itself."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from dealfl.jobs import Document, plan_without_data
from dealfl.messages import Published
from dealfl.network import ServerEnd, ServerState, WorkerEnd
from dealfl.server import Ledger, Server
from dealfl.worker import Journal, MeasuredMeter, Worker
from tests.network.brokers import JOB, RunningBroker
from tests.network.feeding import KEY, NUMBERS


def published(epoch: str, version: int, rows: int) -> Published:
    model = plan_without_data(Document.parse(NUMBERS, "job.toml")).make()
    model.learn([[float(n)] for n in range(rows)], [2.0 * n for n in range(rows)])
    body = model.statistics.to_bytes()
    return Published(job=JOB, worker="", epoch=epoch, version=version, digest="", statistics=body)


@pytest.mark.parametrize("inline_bytes", [100_000, 700])  # whole, and in pieces
def test_a_newer_version_is_fetched_when_it_is_asked_for(
    broker: RunningBroker, tmp_path: Path, inline_bytes: int
) -> None:
    plan = plan_without_data(Document.parse(NUMBERS, "job.toml"))

    async def run(worker: Worker) -> None:
        stopped = asyncio.Event()
        limits = ServerState(inline_bytes=inline_bytes)
        server = ServerEnd(Server(JOB, plan.make, Ledger()), [broker.server], limits=limits)
        end = WorkerEnd(JOB, [broker.enrol("w")], {"w": worker})
        tasks = [asyncio.ensure_future(one.run(stopped)) for one in (server, end)]
        with pytest.raises(TimeoutError):  # nothing is published
            await end.update_model("w", 0, 0.5)
        server.send([published(server.state.epoch, 1, 3)])
        await end.update_model("w", 0, 10.0)
        assert worker.model_version == 1
        received = end.connection.traffic.received_bytes
        await end.update_model("w", 1, 10.0)
        assert end.connection.traffic.received_bytes - received == 1  # the number of the version
        server.send([published(server.state.epoch, 2, 50)])
        await asyncio.sleep(0.1)
        assert end.connection.traffic.received_bytes - received == 1  # not broadcast
        await end.update_model("w", 1, 10.0)
        assert worker.model_version == 2
        stopped.set()
        await asyncio.gather(*tasks)

    with closing(Journal(tmp_path / "journal.db")) as journal:
        asyncio.run(run(Worker(JOB, "w", plan.make, journal, MeasuredMeter(), key=KEY)))
