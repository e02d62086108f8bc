"""How long does a round take over a real broker with thousands of connected workers?

Broker, server and workers are processes on the loopback interface; the server waits for its disk at
every commit. Workers train for real: ridge regression with 70 features, deltas of about 16 KB. A
round lasts from its assignments to the last of its updates. Every run ends with equal digests.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import asyncio
import itertools
import logging
import multiprocessing
import resource
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from reporting import Report, main, progress

from dealfl.learners import PersonalizedPageRank, Rows, Tikhonov
from dealfl.network import Broker, BrokerSettings, ServerEnd, WorkerEnd, create_broker
from dealfl.protocol.messages import Announce, Assignment, Message, Step, Update
from dealfl.protocol.transport import encode
from dealfl.server import Ledger, Rules, Server
from dealfl.server.selection import Uniform
from dealfl.worker import Journal, MeasuredMeter, Worker

FEATURES = 70
KEY = bytes(32)
ROUNDS = 6
TRAFFIC = ("sent_bytes", "sent_packets", "received_bytes", "received_packets", "bursts")


make = partial(Tikhonov, n_features=FEATURES, feature_bound=1.0, target_bound=1.0)


def row(worker: int, number: int) -> tuple[list[float], float]:
    """Return an example that no other worker has."""
    draw = np.random.default_rng([worker, number])
    return draw.uniform(-1, 1, FEATURES).tolist(), float(draw.uniform(-1, 1))


# -- the workers' process -------------------------------------------------------------------------


class Phone(Worker):
    """A worker that finds a new example after every training."""

    def __init__(self, number: int) -> None:
        super().__init__(
            "bench", f"w{number}", make, Journal(), MeasuredMeter(), key=KEY,
            scheme_name="incremental", retry_after_s=60.0,
        )  # fmt: skip
        self._number, self._numbers = number, itertools.count()
        self._find()

    def _find(self) -> None:
        self.ingest([(self.name, Rows.encode(*row(self._number, next(self._numbers))))])

    def handle(self, messages: Iterable[Message], now_s: float, *, decoded: bool = False) -> Step:
        """Handle messages; after a training, find an example."""
        given = list(messages)
        step = super().handle(given, now_s, decoded=decoded)
        if any(isinstance(message, Assignment) for message in given):
            self._find()
        return step


def run_workers(numbers: range, credentials: list[list[Any]], per: int, pipe: Pipe) -> None:
    """Run workers, `per` on each connection; report traffic or brokers on request."""

    async def start() -> None:
        phones = [Phone(number) for number in numbers]
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()
        ends = [
            WorkerEnd("bench", one, {phone.name: phone for phone in phones[at : at + per]})
            for at, one in zip(range(0, len(phones), per), credentials, strict=True)
        ]
        tasks = [asyncio.ensure_future(end.run(stopped)) for end in ends]
        while (question := await loop.run_in_executor(None, pipe.recv)) != "stop":
            if question == "where":
                places = [end.connection.place if end.connection.is_up else "" for end in ends]
                pipe.send(dict(zip((phone.name for phone in phones), places, strict=per == 1)))
                continue
            carried = [end.connection.traffic for end in ends]
            pipe.send([sum(getattr(one, name) for one in carried) for name in TRAFFIC])
        stopped.set()
        await asyncio.gather(*tasks)

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    logging.disable()
    asyncio.run(start())


# -- the server's process -------------------------------------------------------------------------


class Watch(Server):
    """A server that notes when its rounds were assigned and answered."""

    def __init__(self, ledger: Ledger, rules: Rules) -> None:
        super().__init__("bench", make, ledger, rules, Uniform(1))
        self.assigned: dict[int, tuple[float, int]] = {}
        self.answered: Counter[int] = Counter()
        self.rounds_s: list[float] = []
        self.announced: dict[str, float] = {}
        self.learned: dict[tuple[str, int], int] = {}

    def handle(self, messages: Iterable[Message], now_s: float, *, decoded: bool = False) -> Step:
        """Handle messages, and note what they are."""
        given, arrived_s = list(messages), time.monotonic()
        step = super().handle(given, now_s, decoded=decoded)
        for message in given:
            if isinstance(message, Announce) and message.incarnation:
                self.announced.setdefault(message.worker, arrived_s)
            if isinstance(message, Update):
                self._answer(message)
        orders = Counter(one.round for one in step.messages if isinstance(one, Assignment))
        for number, assigned in orders.items():  # they leave now; some are repeated later
            self.assigned.setdefault(number, (time.monotonic(), assigned))
        return step

    def _answer(self, update: Update) -> None:
        number, key = update.round, (update.worker, update.sequence)
        if number is None or key in self.learned:
            return
        self.learned[key] = update.learned
        self.answered[number] += 1
        start_s, count = self.assigned[number]
        if self.answered[number] == count:
            self.rounds_s.append(time.monotonic() - start_s)


Figures = dict[str, Any]


def measure(workers: int, selected: int, per: int, *, tls: bool = False) -> Figures:
    """Run one fleet."""
    with tempfile.TemporaryDirectory() as folder:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        settings = BrokerSettings(job="bench", host="127.0.0.1", port=port, tls=tls)
        broker = create_broker(Path(folder) / "broker", settings)
        names = [f"w{number}" for number in range(workers)]
        credentials = broker.enrol(names) if per == 1 else [
            broker.enrol([f"g{at}"], workers=tuple(names[at : at + per]))[0]
            for at in range(0, workers, per)
        ]  # fmt: skip
        process = broker.start()
        ours, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("spawn").Process(
            target=run_workers, args=(range(workers), [[one] for one in credentials], per, theirs)
        )
        child.start()
        try:
            return asyncio.run(serve(broker, Path(folder), workers, selected, ours, tls=tls))
        finally:
            child.join(60)
            child.kill()
            process.terminate()
            process.wait()


async def serve(
    broker: Broker, folder: Path, workers: int, selected: int, pipe: Pipe, *, tls: bool
) -> Figures:
    """Serve until enough rounds are measured; with TLS, then restart the broker."""
    rules = Rules(
        rounds=10**9, workers_per_round=selected, min_workers=selected, ttl_s=60.0,
        presence_timeout_s=1e9, battery_budget=1.0, round_every_s=workers / 1_000,
    )  # fmt: skip
    ledger = Ledger(folder / "ledger.db")
    watch, stopped, start_s = Watch(ledger, rules), asyncio.Event(), time.monotonic()
    task = asyncio.ensure_future(ServerEnd(watch, [broker.admit_server()]).run(stopped))
    await until(lambda: len(watch.announced) == workers)
    join_s = max(watch.announced.values()) - start_s
    await count(pipe)  # what was sent before is over now
    watch.rounds_s.clear()
    trained, before, cpu_s = len(watch.learned), await count(pipe), time.process_time()
    await until(lambda: len(watch.rounds_s) >= ROUNDS)
    trained, cpu_s = len(watch.learned) - trained, time.process_time() - cpu_s
    carried = [now - then for now, then in zip(await count(pipe), before, strict=True)]
    pid = int((broker.folder / "mosquitto.pid").read_text())
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    watch.drain()  # open no round while the fleet returns; what is assigned is answered
    returned = await restart(broker, pid, watch, workers) if tls else {}
    await until(lambda: sum(watch.answered.values()) == sum(n for _, n in watch.assigned.values()))
    pipe.send("stop")
    stopped.set()
    await task
    exact = watch.model.digest() == central(watch)
    ledger.close()
    return returned | {
        "round s": median(watch.rounds_s[1:]), "server CPU s": cpu_s / ROUNDS,
        "all joined s": join_s, "broker MB": pages * resource.getpagesize() / 1e6, "exact": exact,
        "traffic": {name: sum_ / trained for name, sum_ in zip(TRAFFIC, carried, strict=True)},
    }  # fmt: skip


async def count(pipe: Pipe) -> list[int]:
    """Return what the workers have sent and received so far."""
    pipe.send("count")
    await until(pipe.poll)
    return list(pipe.recv())


async def restart(broker: Broker, pid: int, watch: Watch, workers: int) -> Figures:
    """Kill the broker and start it again; return the time until all are back, and the peak."""
    os.kill(pid, 9)
    await asyncio.sleep(0.5)
    watch.announced.clear()
    start_s = time.monotonic()
    broker.start()
    await until(lambda: len(watch.announced) >= workers)
    seconds = Counter(int(moment_s - start_s) for moment_s in watch.announced.values())
    took_s = max(watch.announced.values()) - start_s
    return {"return s": took_s, "peak": max(seconds.values()) / (workers / max(took_s, 1.0))}


async def until(reached: Callable[[], bool], timeout_s: float = 120.0) -> None:
    """Wait for something."""
    end_s = time.monotonic() + timeout_s
    while not reached():
        if time.monotonic() > end_s:
            raise TimeoutError("the fleet does not get there")
        await asyncio.sleep(0.02)


def central(watch: Watch) -> str:
    """Return the digest of training on everything that was learned, in one process."""
    counts: Counter[str] = Counter()
    for (name, _), learned in watch.learned.items():
        counts[name] += learned
    rows = [row(int(name[1:]), n) for name, count in counts.items() for n in range(count)]
    model = make()
    model.learn(*zip(*rows, strict=True))
    return model.digest()


# -- the report -----------------------------------------------------------------------------------

FLEETS = (
    ("1,000 workers, 100 assigned, one connection each", 1_000, 100, 1, 0.6),
    ("1,000 workers, 100 assigned, 20 per gateway", 1_000, 100, 20, 0.4),
    ("3,000 workers, 300 assigned, one connection each", 3_000, 300, 1, 2.0),
)


def benchmark(quick: bool) -> Report:
    """Measure rounds, reconnection and packets."""
    report = Report("mqtt")
    logging.disable()  # refused connections while a broker is down
    for what, workers, selected, per, target_s in FLEETS[:2] if quick else FLEETS:
        with progress(what):
            figures = measure(workers, selected, per)
        took_s, mb, traffic = figures["round s"], figures["broker MB"], figures.pop("traffic")
        report.check(f"round of {what}", f"≤ {target_s} s", f"{took_s:.2f} s", took_s <= target_s)
        exact = figures.pop("exact")
        report.check(f"digest of {what}", "central training", str(exact), exact)
        report.check(f"broker, {what}", "≤ 100 MB", f"{mb:.0f} MB", mb <= 100)
        report.rows.append({"fleet": what, **figures})
        report.rows.append({"traffic of a worker in one round": what, **traffic})
    workers = 300 if quick else 3_000
    with progress(f"{workers:,} workers return over TLS"):
        figures = measure(workers, workers // 10, 1, tls=True)
    took_s, peak = figures["return s"], figures["peak"]
    what = f"{workers:,} workers announced after a broker restart, TLS with client certificates"
    report.check(what, "≤ 30 s", f"{took_s:.1f} s", took_s <= 30)
    report.check("busiest second of that, by the mean", "≤ 2", f"{peak:.2f}", peak <= 2)
    delta(report)
    return report


def delta(report: Report) -> None:
    """Measure the bytes of a delta with about 36,000 pairs among 1,682 items."""
    draw, weights = np.random.default_rng(0), 1.0 / np.arange(1, 1683)
    weights /= weights.sum()
    histories = [draw.choice(1682, size=45, replace=False, p=weights).tolist() for _ in range(52)]
    change = PersonalizedPageRank(n_items=1682).learn(histories)
    body = change.to_bytes()
    update = Update(job="j", worker="w", incarnation=1, sequence=1, round=1, delta=body)
    start_s = time.process_time()
    for _ in range(20):
        packet = encode([update])
    kb, ms = len(packet) / 1e3, 1e3 * (time.process_time() - start_s) / 20
    report.rows.append({"delta": str(change), "kB": kb, "ms": ms})
    report.check("bytes of that delta in a packet", "≤ 30 KB", f"{kb:.1f} KB", kb <= 30)
    report.check("time to encode it", "≤ 5 ms", f"{ms:.2f} ms", ms <= 5)


if __name__ == "__main__":
    main(benchmark, __doc__ or "")
