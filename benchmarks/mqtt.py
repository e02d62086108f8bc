"""How long does a round take over a real broker with thousands of connected workers?

Broker, server and workers are three processes on the loopback interface; the server's ledger is on
disk and waits for it at every commit. Workers hold a journal in memory and train for real: ridge
regression with 70 features, deltas of about 16 KB. A round lasts from its assignments to the last
of its updates. Every run ends with a comparison of digests.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import asyncio
import multiprocessing
import resource
import socket
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from statistics import median

import numpy as np
from reporting import Report, main, progress

from dealfl.learners import PersonalizedPageRank, Rows, Tikhonov
from dealfl.messages import Announce, Assignment, Message, Step, Update
from dealfl.network import (
    Broker,
    BrokerSettings,
    Credentials,
    ServerEnd,
    WorkerEnd,
    create_broker,
)
from dealfl.server import Ledger, Server, Terms
from dealfl.server.selection import Uniform
from dealfl.transport import encode
from dealfl.worker import Journal, MeasuredMeter, Worker

FEATURES = 70
KEY = bytes(32)
ROUNDS = 6


def make() -> Tikhonov:
    """Return the learner of this benchmark."""
    return Tikhonov(n_features=FEATURES, penalty=1.0, feature_bound=1.0, target_bound=1.0)


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
            scheme_name="incremental", announce_every_s=3600.0, retry_after_s=60.0,
        )  # fmt: skip
        self._number, self._examples = number, 0
        self._find()

    def _find(self) -> None:
        self.ingest([(self.name, Rows.encode(*row(self._number, self._examples)))])
        self._examples += 1

    def handle(self, messages: Iterable[Message], now_s: float) -> Step:
        """Handle messages; after a training, find an example."""
        given = list(messages)
        step = super().handle(given, now_s)
        if any(isinstance(message, Assignment) for message in given):
            self._find()
        return step


def run_workers(numbers: range, credentials: list[Credentials], per: int, pipe: Pipe) -> None:
    """Run workers, `per` on each connection, until the pipe says stop; report traffic."""

    async def start() -> None:
        phones = [Phone(number) for number in numbers]
        stopped = asyncio.Event()
        ends = [
            WorkerEnd("bench", [one], {phone.name: phone for phone in phones[at : at + per]})
            for at, one in zip(range(0, len(phones), per), credentials, strict=True)
        ]
        tasks = [asyncio.ensure_future(end.run(stopped)) for end in ends]
        await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
        stopped.set()
        await asyncio.gather(*tasks)
        sent = sum(end.connection.sent_bytes for end in ends)
        packets = sum(end.connection.sent_packets for end in ends)
        pipe.send((sent, packets))

    _allow_many_files()
    asyncio.run(start())


def _allow_many_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


# -- the server's process -------------------------------------------------------------------------


class Watch(Server):
    """A server that notes when its rounds were assigned and answered."""

    def __init__(self, ledger: Ledger, terms: Terms) -> None:
        super().__init__("bench", make, ledger, terms, Uniform(1))
        self.assigned: dict[int, tuple[float, int]] = {}
        self.answered: dict[int, int] = {}
        self.rounds_s: list[float] = []
        self.announced: dict[str, float] = {}
        self.learned: dict[tuple[str, int], int] = {}

    def handle(self, messages: Iterable[Message], now_s: float) -> Step:
        """Handle messages, and note what they are."""
        given, arrived_s = list(messages), time.monotonic()
        step = super().handle(given, now_s)
        for message in given:
            if isinstance(message, Announce):
                self.announced.setdefault(message.worker, arrived_s)
            if isinstance(message, Update):
                self._answer(message)
        orders = [one for one in step.messages if isinstance(one, Assignment)]
        if orders:
            self.assigned.setdefault(orders[0].round, (arrived_s, len(orders)))
        return step

    def _answer(self, update: Update) -> None:
        number, key = update.round, (update.worker, update.sequence)
        if number is None or key in self.learned:
            return
        self.learned[key] = update.learned
        self.answered[number] = self.answered.get(number, 0) + 1
        start_s, count = self.assigned[number]
        if self.answered[number] == count:
            self.rounds_s.append(time.monotonic() - start_s)


@dataclass
class Figures:
    """What one fleet measured."""

    round_s: float
    join_s: float
    broker_mb: float
    exact: bool
    sent_bytes: float
    packets: float
    reconnect_s: float = 0.0
    peak: float = 0.0


def measure(workers: int, selected: int, per: int, *, tls: bool = False) -> Figures:
    """Run one fleet."""
    with tempfile.TemporaryDirectory() as folder:
        broker = make_broker(Path(folder) / "broker", tls=tls)
        gateways = [
            tuple(f"w{n}" for n in range(at, min(at + per, workers)))
            for at in range(0, workers, per)
        ]
        if per == 1:
            credentials = broker.enrol([one[0] for one in gateways])
        else:
            credentials = [
                broker.enrol([f"g{place}"], workers=carried)[0]
                for place, carried in enumerate(gateways)
            ]
        process = broker.start()
        ours, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("spawn").Process(
            target=run_workers, args=(range(workers), credentials, per, theirs)
        )
        child.start()
        try:
            serving = serve(broker, Path(folder), workers, selected, ours, tls=tls)
            return asyncio.run(serving)
        finally:
            child.join(60)
            child.kill()
            process.terminate()
            process.wait()


def make_broker(folder: Path, *, tls: bool) -> Broker:
    """Return a broker on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return create_broker(folder, BrokerSettings(job="bench", host="127.0.0.1", port=port, tls=tls))


async def serve(
    broker: Broker, folder: Path, workers: int, selected: int, pipe: Pipe, *, tls: bool
) -> Figures:
    """Serve until enough rounds are measured; with TLS, then restart the broker."""
    terms = Terms(
        rounds=10**9, workers_per_round=selected, min_workers=selected, ttl_s=60.0,
        presence_timeout_s=1e9, battery_budget=1.0, round_every_s=workers / 1_000,
    )  # fmt: skip
    ledger = Ledger(folder / "ledger.db")
    watch = Watch(ledger, terms)
    stopped, start_s = asyncio.Event(), time.monotonic()
    end = ServerEnd(watch, [broker.admit_server()])
    task = asyncio.ensure_future(end.run(stopped))
    await until(lambda: len(watch.announced) == workers)
    join_s = max(watch.announced.values()) - start_s
    watch.rounds_s.clear()  # those while the fleet joined
    await until(lambda: len(watch.rounds_s) >= ROUNDS)
    rss = broker_mb(broker)
    reconnect_s = peak = 0.0
    if tls:
        reconnect_s, peak = await restart(broker, watch, workers)
    watch.drain()
    await until(lambda: sum(watch.answered.values()) == sum(n for _, n in watch.assigned.values()))
    pipe.send("stop")
    while not pipe.poll():
        await asyncio.sleep(0.05)
    sent, packets = pipe.recv()
    stopped.set()
    await task
    trained = sum(watch.answered.values())
    exact = watch.model.digest() == central(watch)
    ledger.close()
    return Figures(
        median(watch.rounds_s[1:]), join_s, rss, exact, sent / trained, packets / trained,
        reconnect_s, peak,
    )  # fmt: skip


async def restart(broker: Broker, watch: Watch, workers: int) -> tuple[float, float]:
    """Kill the broker and start it again; return the time until all are back, and the peak."""
    os.kill(int((broker.folder / "mosquitto.pid").read_text()), 9)
    await asyncio.sleep(0.5)
    watch.announced.clear()
    start_s = time.monotonic()
    broker.start()
    await until(lambda: len(watch.announced) >= workers)
    seconds: dict[int, int] = {}
    for moment_s in watch.announced.values():
        second = int(moment_s - start_s)
        seconds[second] = seconds.get(second, 0) + 1
    took_s = max(watch.announced.values()) - start_s
    return took_s, max(seconds.values()) / (workers / max(took_s, 1.0))


async def until(reached: Callable[[], bool], timeout_s: float = 120.0) -> None:
    """Wait for something."""
    end_s = time.monotonic() + timeout_s
    while not reached():
        if time.monotonic() > end_s:
            raise TimeoutError("the fleet does not get there")
        await asyncio.sleep(0.02)


def broker_mb(broker: Broker) -> float:
    """Return the resident memory of the broker in megabytes."""
    pid = (broker.folder / "mosquitto.pid").read_text().strip()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def central(watch: Watch) -> str:
    """Return the digest of training on everything that was learned, in one process."""
    counts: dict[str, int] = {}
    for (name, _), learned in watch.learned.items():
        counts[name] = counts.get(name, 0) + learned
    rows = [row(int(name[1:]), n) for name, count in counts.items() for n in range(count)]
    model = make()
    model.learn([features for features, _ in rows], [target for _, target in rows])
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
    for what, workers, selected, per, target_s in FLEETS[:2] if quick else FLEETS:
        with progress(what):
            figures = measure(workers, selected, per)
        report.check(
            f"round of {what}", f"≤ {target_s} s", f"{figures.round_s:.2f} s",
            figures.round_s <= target_s,
        )  # fmt: skip
        report.check(f"digest of {what}", "central training", str(figures.exact), figures.exact)
        report.rows.append(
            {
                "fleet": what, "round s": figures.round_s, "all joined s": figures.join_s,
                "broker MB": figures.broker_mb, "bytes sent per training": figures.sent_bytes,
                "packets per training": figures.packets,
            }
        )  # fmt: skip
        holds = figures.broker_mb <= 100
        report.check(f"broker, {what}", "≤ 100 MB", f"{figures.broker_mb:.0f} MB", holds)
    reconnect(report, 300 if quick else 3_000)
    delta(report)
    return report


def reconnect(report: Report, workers: int) -> None:
    """Measure the return of a fleet with client certificates after a restart of the broker."""
    with progress(f"{workers:,} workers return over TLS"):
        figures = measure(workers, workers // 10, 1, tls=True)
    seconds = figures.reconnect_s
    report.check(
        f"{workers:,} workers announced after a broker restart, TLS with client certificates",
        "≤ 30 s", f"{seconds:.1f} s", seconds <= 30,
    )  # fmt: skip
    report.check(
        "busiest second of that, by the mean", "≤ 2", f"{figures.peak:.2f}", figures.peak <= 2
    )


def delta(report: Report) -> None:
    """Measure the bytes of a delta with about 36,000 pairs among 1,682 items."""
    draw, weights = np.random.default_rng(0), 1.0 / np.arange(1, 1683)
    weights /= weights.sum()
    histories = [draw.choice(1682, size=45, replace=False, p=weights).tolist() for _ in range(52)]
    change = PersonalizedPageRank(n_items=1682).learn(histories)
    update = Update(
        job="j", worker="w", incarnation=1, sequence=1, round=1, delta=change.to_bytes()
    )
    times = []
    for _ in range(20):
        start_s = time.process_time()
        packet = encode([update])
        times.append(time.process_time() - start_s)
    kb, ms = len(packet) / 1e3, 1e3 * median(times)
    report.rows.append({"delta": str(change), "kB": kb, "ms": ms})
    report.check("bytes of that delta in a packet", "≤ 30 KB", f"{kb:.1f} KB", kb <= 30)
    report.check("time to encode it", "≤ 5 ms", f"{ms:.2f} ms", ms <= 5)


if __name__ == "__main__":
    main(benchmark, __doc__ or "")
