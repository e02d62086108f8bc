"""What does a tree of servers cost, and does it stay exact while its processes are killed?

The delay is measured over real brokers: from the assignment of a device to the version of the root
that contains its update, with one server and with four regions, in the same run. All servers share
one process, so that the second level gets no processor of its own. A storm kills root, regions,
brokers and workers −9, all of them processes that talk MQTT with TLS.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import asyncio
import logging
import multiprocessing
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from mqtt import KEY, central, make, run_workers, until
from reporting import Report, main, progress

from dealfl.network import Broker, BrokerSettings, ParentEnd, ServerEnd, create_broker
from dealfl.protocol.messages import Announce, Assignment, Message, Published, Step, Update
from dealfl.server import Ledger, Region, Rules, Server
from dealfl.server.selection import Uniform
from tests.network.forks import Forks
from tests.network.tree_storms import TreeStorm

REGIONS = 4
PER_GATEWAY = 25
ROUNDS = 8


class Delays:
    """Follows updates from the assignment of a device to a version of the root."""

    def __init__(self) -> None:
        self.delays_s: list[float] = []
        self.above_s: list[float] = []  # from a region's update to a version of the root
        self._posted: dict[tuple[str, str, int], float] = {}
        self._assigned: dict[tuple[str, str], float] = {}
        self._pending: dict[tuple[str, str, int], list[float]] = {}
        self.learned: dict[tuple[str, int], int] = {}

    def assign(self, server: str, messages: Iterable[Message]) -> None:
        """Note when workers are assigned."""
        for message in messages:
            if isinstance(message, Assignment):
                self._assigned[server, message.worker] = time.monotonic()

    def arrive(self, server: str, messages: Iterable[Message]) -> None:
        """Note an update of a device."""
        for message in messages:
            if isinstance(message, Update) and message.round is not None:
                key = (server, message.worker, message.sequence)
                if (
                    key not in self._pending
                    and (message.worker, message.sequence) not in self.learned
                ):
                    self.learned[message.worker, message.sequence] = message.learned
                    self._pending[key] = [self._assigned[server, message.worker]]

    def post(self, below: Server, name: str, sequence: int) -> None:
        """Note that the update of a region contains all that it has counted."""
        rows = below.workers
        done = [
            key for key in self._pending
            if key[0] == name and rows[key[1]].counted >= key[2]
        ]  # fmt: skip
        moved = [since_s for key in done for since_s in self._pending.pop(key)]
        self._pending.setdefault(("", name, sequence), []).extend(moved)
        self._posted["", name, sequence] = time.monotonic()

    def publish(self, root: Server) -> None:
        """Note that a version contains all that the root has counted."""
        rows = root.workers
        now_s = time.monotonic()
        done = [key for key in self._pending if not key[0] and rows[key[1]].counted >= key[2]]
        for key in done:
            self.delays_s += [now_s - since_s for since_s in self._pending.pop(key)]
            if key in self._posted:
                self.above_s.append(now_s - self._posted.pop(key))


class WatchedRoot(Server):
    """A root, or the only server, that notes its versions."""

    delays: Delays
    has_devices = False

    def handle(self, messages: Iterable[Message], now_s: float, *, decoded: bool = False) -> Step:
        """Handle messages, and note what is published."""
        given = list(messages)
        if self.has_devices:
            self.delays.arrive("", given)
        step = super().handle(given, now_s, decoded=decoded)
        if self.has_devices:
            self.delays.assign("", step.messages)
        if any(isinstance(message, Published) for message in step.messages):
            self.delays.publish(self)
        return step


class WatchedRegion(Region):
    """A region that notes what it assigns and posts."""

    delays: Delays
    _last = 0

    def handle(self, messages: Iterable[Any], now_s: float, *, decoded: bool = False) -> Step:
        """Handle messages, and note what is posted."""
        given = list(messages)
        self.delays.arrive(self.name, given)
        step = super().handle(given, now_s, decoded=decoded)
        self.delays.assign(self.name, step.messages)
        for message in step.messages:
            if isinstance(message, Update) and message.sequence > self._last:
                self._last = message.sequence
                self.delays.post(self, self.name, message.sequence)
        return step


def start_broker(folder: Path) -> tuple[Broker, "subprocess.Popen[bytes]"]:
    """Start a broker on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = BrokerSettings(
        job="bench", host="127.0.0.1", port=port, tls=False, owners_key=KEY.hex()
    )
    broker = create_broker(folder, settings)
    return broker, broker.start()


def measure_delay(workers: int, selected: int, regions: int) -> dict[str, Any]:
    """Run one fleet with some regions, or with one server."""
    with tempfile.TemporaryDirectory() as folder:
        brokers = [start_broker(Path(folder) / f"b{n}") for n in range(regions + 1)]
        leaves = brokers[1:] or brokers
        share = workers // len(leaves)
        credentials = []
        for number, (broker, _) in enumerate(leaves):
            names = [f"w{n}" for n in range(number * share, (number + 1) * share)]
            credentials += [
                broker.enrol([f"g{at}"], workers=tuple(names[at : at + PER_GATEWAY]))
                for at in range(0, share, PER_GATEWAY)
            ]
        ours, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("spawn").Process(
            target=run_workers, args=(range(workers), credentials, PER_GATEWAY, theirs)
        )
        child.start()
        try:
            return asyncio.run(
                serve([broker for broker, _ in brokers], Path(folder), workers, selected, ours)
            )
        finally:
            child.join(60)
            child.kill()
            for _, process in brokers:
                process.terminate()
                process.wait()


async def serve(
    brokers: list[Broker], folder: Path, workers: int, selected: int, pipe: Any
) -> dict[str, Any]:
    """Serve until enough rounds are measured."""
    root_broker, *others = brokers
    delays, stopped = Delays(), asyncio.Event()
    names = tuple(f"r{number}" for number in range(len(others)))
    plain: dict[str, Any] = {
        "rounds": 10**9, "ttl_s": 60.0, "presence_timeout_s": 1e9, "battery_budget": 1.0,
    }  # fmt: skip
    per_leaf = selected // max(len(others), 1)
    leaf_rules = Rules(workers_per_round=per_leaf, min_workers=per_leaf, round_every_s=1.0, **plain)
    root_rules = Rules(workers_per_round=max(len(others), 1), regions=names, **plain)
    ledgers = [Ledger(folder / f"{number}.db") for number in range(len(brokers))]
    root = WatchedRoot("bench", make, ledgers[0], root_rules if others else leaf_rules, Uniform(1))
    root.delays, root.has_devices = delays, not others
    leaves: list[Server] = []
    ends = [ServerEnd(root, [root_broker.admit_server()])]
    for name, broker, ledger in zip(names, others, ledgers[1:], strict=True):
        below = WatchedRegion("bench", name, make, ledger, leaf_rules, Uniform(1))
        below.delays = delays
        leaves.append(below)
        end = ServerEnd(below, [broker.admit_server()])
        parent = root_broker.enrol([name])

        def meet(path: Any, schema: str, end: Any = end, below: Any = below) -> None:
            end.meet_parent(below, path, schema)

        end.parent = ParentEnd("bench", parent, end.put_from_parent, meet)
        ends.append(end)
    tasks = [asyncio.ensure_future(end.run(stopped)) for end in ends]
    own = leaves or [root]
    await until(lambda: sum(len(one.workers) for one in own) == workers)
    delays.delays_s.clear()
    cpu_s = time.process_time()
    await until(lambda: len(delays.delays_s) >= ROUNDS * selected)
    cpu_s = (time.process_time() - cpu_s) / len(delays.delays_s)
    measured = sorted(delays.delays_s)
    for one in own:
        one.drain()
    expected = sum(delays.learned.values())
    await until(lambda: _is_settled(root, own, delays))
    pipe.send("stop")
    stopped.set()
    await asyncio.gather(*tasks)
    learned: Any = _Learned(delays)
    exact = root.model.digest() == central(learned)
    for ledger in ledgers:
        ledger.close()
    return {
        "median s": median(measured), "p95 s": quantiles(measured, n=20)[-1],
        "updates": len(measured), "examples": expected, "server CPU ms": 1e3 * cpu_s,
        "region's update to version s": median(delays.above_s or [0.0]), "exact": exact,
    }  # fmt: skip


class _Learned:
    """What `central` reads of a server."""

    def __init__(self, delays: Delays) -> None:
        self.learned = delays.learned


def _is_settled(root: Server, own: list[Server], delays: Delays) -> bool:
    """Return whether everything that devices have sent is in the root's model."""
    sent = Counter(worker for worker, _ in delays.learned)
    counted = {name: row.counted for one in own for name, row in one.workers.items()}
    if any(counted[name] < count for name, count in sent.items()):
        return False
    total = make()
    for one in own:
        total.merge(one.model.statistics)
    return total.digest() == root.model.digest()


# -- the pause of a compaction --------------------------------------------------------------------


def measure_compaction(workers: int) -> dict[str, Any]:
    """Fill the ledger of a region with the sums of workers, and rewrite it."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.db")
        rules = Rules(rounds=10**9, workers_per_round=workers, ttl_s=1e6)
        region = Region("bench", "r", make, ledger, rules, Uniform(1))
        model = make()
        delta = model.learn([[0.25] * 70] * 3, [0.5] * 3).to_bytes()
        for first in range(0, workers, 500):
            names = [f"w{number}" for number in range(first, min(first + 500, workers))]
            region.handle([_announcement(name, model) for name in names], 1.0)
            region.handle([_update(name, delta) for name in names], 2.0)
        region.drain()
        region.handle([], 2e6)
        start_s = time.monotonic()
        ledger.compact()
        took_s = time.monotonic() - start_s
        size_mb = ledger.size_bytes / 1e6
        ledger.close()
    return {"workers of a region": workers, "ledger MB": size_mb, "pause of a compaction s": took_s}


def _announcement(name: str, model: Any) -> Announce:
    return Announce(
        job="bench", worker=name, incarnation=0, journal_id=name, waiting=3, held=0,
        schema_digest=model.schema.digest(),
    )  # fmt: skip


def _update(name: str, delta: bytes) -> Update:
    return Update(
        job="bench", worker=name, incarnation=1, sequence=1, round=None, delta=delta, learned=3
    )


# -- storms ---------------------------------------------------------------------------------------


def blow(regions: int, workers: int, strikes: int) -> tuple[str, float]:
    """Blow over a tree; return what happened, and for how long. It raises an error if not exact."""
    forks, start_s = Forks(), time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder:
            storm = TreeStorm(7, Path(folder) / "storm", forks, regions=regions, workers=workers)
            storm.run(strikes)
    finally:
        forks.close()
    return str(storm), time.monotonic() - start_s


def add_tree(report: Report, quick: bool) -> None:
    """Measure the tree of servers."""
    logging.disable()
    workers, selected = (200, 40) if quick else (1_000, 100)
    with progress(f"{workers:,} workers at one server"):
        one = measure_delay(workers, selected, 0)
    with progress(f"{workers:,} workers in {REGIONS} regions"):
        many = measure_delay(workers, selected, REGIONS)
    for what, figures in (("one server", one), (f"{REGIONS} regions", many)):
        exact = figures.pop("exact")
        report.check(f"digest, {workers:,} workers, {what}", "central training", str(exact), exact)
        report.rows.append({f"assignment to version, {workers:,} workers": what, **figures})
    added_s = many["median s"] - one["median s"]
    # rounds of a region are smaller, and so are over sooner: the difference can be negative
    report.rows.append({"four regions less one server": "median s", "measured": added_s})
    with progress("compaction"):
        report.rows.append(measure_compaction(1_000 if quick else 10_000))
    regions, each = (2, 2) if quick else (3, 50)
    with progress(f"a storm over {regions} regions with {each} worker processes each"):
        try:
            what, took_s = blow(regions, each, 6)
            measured, exact = f"{what}: exact after {took_s:.0f} s", True
        except AssertionError as error:
            measured, exact = str(error)[:200], False
    report.check(
        f"{regions} regions × {each} worker processes, kill −9, a restored and a lost region",
        "digest and counts of the certificate are those of all rows", measured, exact,
    )  # fmt: skip


def benchmark(quick: bool) -> Report:
    """Measure delays, the pause of a compaction, and a storm."""
    report = Report("tree")
    add_tree(report, quick)
    return report


if __name__ == "__main__":
    main(benchmark, __doc__ or "")
