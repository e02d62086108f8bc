"""Fleets at several brokers, one of which is killed −9: rounds, and how soon all are back.

The fleet is that of `mqtt.py`: ridge regression with 70 features, one connection each. A round
lasts from its assignments until the server closes it; after a kill, without those who are gone.
"""

import asyncio
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from operator import sub
from pathlib import Path
from statistics import median

from mqtt import TRAFFIC, Figures, Watch, central, count, run_workers, until

sys.path.insert(0, str(Path(__file__).parents[1]))
from dealfl.network import Credentials, ServerEnd
from dealfl.protocol.messages import Message, Step
from dealfl.server import Ledger, Rules
from tests.network.brokers import start_broker
from tests.network.rabbits import cluster

ROUNDS = 6
PATIENT_S = 300.0


@dataclass
class Place:
    """Brokers at which a fleet meets, and what can be done to one of them."""

    server: list[Credentials]  # one for each connection of the server
    workers: list[list[Credentials]]
    kill: Callable[[str], None]  # by host and port
    restart: Callable[[str], None]
    memory_mb: Callable[[], float] = lambda: 0.0


class Timed(Watch):
    """A server that notes when its rounds are closed."""

    def __init__(self, ledger: Ledger, rules: Rules) -> None:
        super().__init__(ledger, rules)
        self.closed: dict[int, float] = {}  # how long each round lasted

    def handle(self, messages: Iterable[Message], now_s: float, *, decoded: bool = False) -> Step:
        step = super().handle(messages, now_s, decoded=decoded)
        count = self.reader.count_closed()
        if count in self.assigned and count not in self.closed:
            self.closed[count] = time.monotonic() - self.assigned[count][0]
        return step


def run(place: Place, workers: int, selected: int, faults: Iterable[str]) -> Figures:
    """Run a fleet at a place; a fault kills a broker `with` or `without` the server."""
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(
        target=run_workers, args=(range(workers), place.workers, 1, theirs)
    )
    child.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            return asyncio.run(_serve(place, Path(folder), workers, selected, faults, ours))
    finally:
        with suppress(OSError):
            ours.send("stop")
        child.join(60)
        child.kill()


async def _serve(
    place: Place, folder: Path, workers: int, selected: int, faults: Iterable[str], pipe: Pipe
) -> Figures:
    rules = Rules(
        rounds=10**9, workers_per_round=selected, ttl_s=60.0, presence_timeout_s=1e9,
        battery_budget=1.0, round_every_s=workers / 1_000,
    )  # fmt: skip
    ledger = Ledger(folder / "ledger.db")
    watch, stopped, start_s = Timed(ledger, rules), asyncio.Event(), time.monotonic()
    end = ServerEnd(watch, place.server)
    task = asyncio.ensure_future(end.run(stopped))
    await until(lambda: len(watch.announced) == workers, PATIENT_S)
    join_s = max(watch.announced.values()) - start_s
    await _rounds(watch, 1)
    before, learned = await count(pipe), len(watch.learned)
    cpu_s = time.process_time()
    calm = await _rounds(watch, ROUNDS)
    cpu_s, learned = time.process_time() - cpu_s, len(watch.learned) - learned
    carried = dict(zip(TRAFFIC, map(sub, await count(pipe), before), strict=True))
    size = carried["sent_bytes"] + carried["received_bytes"]
    figures: Figures = {
        "workers": workers, "all joined s": join_s, "joined a second": workers / join_s,
        "round s": median(calm), "server CPU ms an update": 1e3 * cpu_s / learned,
        "kB an update": size / learned / 1e3, "broker MB": place.memory_mb(),
    }  # fmt: skip
    for fault in faults:
        figures |= await _strike(place, watch, end, pipe, fault)
    watch.drain()
    expected = sum(number for _, number in watch.assigned.values())
    await until(lambda: sum(watch.answered.values()) == expected, 60)
    stopped.set()
    await task
    figures["exact"] = watch.model.digest() == central(watch)
    ledger.close()
    return figures


async def _rounds(watch: Timed, count: int) -> list[float]:
    """Wait for some more rounds, and return how long each lasted."""
    before = set(watch.closed)
    await until(lambda: len(watch.closed) >= len(before) + count, PATIENT_S)
    return [took_s for number, took_s in watch.closed.items() if number not in before]


async def _strike(
    place: Place, watch: Timed, end: ServerEnd, pipe: Pipe, fault: str
) -> dict[str, float]:
    """Kill a broker; return the longest round, and when all of its workers are back."""
    pipe.send("where")
    await until(pipe.poll)
    where = pipe.recv()
    own = end.connections[0].place
    others = sorted({one for one in where.values() if one and one != own})
    victim = own if fault == "with" else others[0]
    gone = {name for name, one in where.items() if one == victim}
    watch.announced.clear()
    start_s = time.monotonic()
    place.kill(victim)
    rounds = asyncio.ensure_future(_rounds(watch, ROUNDS))
    await until(lambda: gone <= watch.announced.keys(), PATIENT_S)
    back_s = max(watch.announced[name] for name in gone) - start_s
    longest_s = max(await rounds)
    place.restart(victim)
    what = f"{fault} the server"
    return {
        f"longest round s, {what}": longest_s, f"all back s, {what}": back_s,
        f"workers at it, {what}": len(gone),
    }  # fmt: skip


# -- the places -----------------------------------------------------------------------------------


def _memory_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def star(workers: int) -> Iterator[Place]:
    """Yield three mosquittos; the server is connected to each."""
    with tempfile.TemporaryDirectory() as folder:
        running = [start_broker(Path(folder) / f"{n}", job="bench", tls=True) for n in range(3)]
        names = [f"w{number}" for number in range(workers)]
        files = [one.broker.enrol(names) for one in running]
        at = {f"127.0.0.1:{one.broker.settings.port}": one for one in running}
        try:
            yield Place(
                [one.server for one in running],
                [list(own) for own in zip(*files, strict=True)],
                lambda place: at[place].kill(),
                lambda place: at[place].restart(),
                lambda: sum(map(_memory_mb, (one.pid for one in running))) / 3,
            )
        finally:
            for one in running:
                one.kill()


@contextmanager
def rabbits(workers: int) -> Iterator[Place]:
    """Yield a cluster of three nodes of RabbitMQ; the server is connected to one of them."""
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster(Path(folder), "bench") as nodes,
    ):
        credentials = nodes.broker.enrol([f"w{number}" for number in range(workers)])
        nodes.start()
        yield Place(
            [nodes.server],
            [[one] for one in credentials],
            lambda place: nodes.kill(place.partition(":")[0]),
            lambda place: nodes.start_node(place.partition(":")[0]),
            lambda: sum(nodes.memory_mb(host) for host in nodes.hosts) / 3,
        )
