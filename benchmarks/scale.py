"""Beyond one machine: executors, parts, calls of one process, brokers that are killed, Flower.

python benchmarks/scale.py [--quick] [--json] [--part star]

What is not installed is skipped with a line that says so; `make rabbitmq` and `make flower` install
the large ones.

Speed-ups are given by wall time, and by CPU time: that of one process over the largest of two,
which is what an idle machine would show. Other loads spoil the first, not the second.
"""

import ast
import importlib
import io
import json
import logging
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
import tokenize
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import clusters
import mqtt
import numpy as np
from reporting import Report, main, progress

import dealfl
from dealfl.parallel import call_each, open_executor
from dealfl.protocol.messages import Update
from dealfl.server import Ledger, Rules, Server
from dealfl.server.selection import Everyone

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.executors import clusters as clusters_of_dask
from tests.network import rabbits, test_once
from tests.network.brokers import start_broker
from tests.network.forks import Forks

SPAWN = multiprocessing.get_context("spawn")
COLUMNS = 20


def make(seed: int, rows: int) -> Any:
    X = np.random.default_rng(seed).uniform(-1, 1, (rows, COLUMNS))
    return X, X @ np.linspace(-0.05, 0.05, COLUMNS)


def usage(_: int) -> tuple[int, float, float]:
    """Return the process, its CPU time, and its largest memory in MB."""
    time.sleep(0.2)  # so that each process has one of these calls
    used = resource.getrusage(resource.RUSAGE_SELF)
    return multiprocessing.current_process().pid or 0, used.ru_utime + used.ru_stime, (
        used.ru_maxrss / 1024
    )  # fmt: skip


def measure(count: int, work: Callable[[Executor], Any]) -> tuple[Any, float, float, float]:
    """Return a result on some processes, its wall time, the largest CPU time and memory of one."""
    with ProcessPoolExecutor(count, SPAWN) as pool:
        dealfl.learn([partial(make, 0, 100)] * 4 * count, dealfl.Tikhonov(COLUMNS), pool)  # imports
        before = {used[0]: used for used in pool.map(usage, range(6 * count))}
        start_s = time.perf_counter()
        result = work(pool)
        wall_s = time.perf_counter() - start_s
        after = {used[0]: used for used in pool.map(usage, range(6 * count))}
    cpu_s = max(after[key][1] - before[key][1] for key in before.keys() & after.keys())
    memory_mb = max(after[key][2] - before[key][2] for key in before.keys() & after.keys())
    return result, wall_s, cpu_s, memory_mb


def compare(
    report: Report, what: str, target: float, work: Callable[[Executor], Any]
) -> tuple[Any, Any, float]:
    found = {count: measure(count, work) for count in (1, 2)}
    (first, wall_1, cpu_1, _), (second, wall_2, cpu_2, memory_mb) = found[1], found[2]
    for count, (_, wall_s, cpu_s, most_mb) in found.items():
        report.rows.append({
            "what": what, "processes": count, "wall s": wall_s, "CPU s of one": cpu_s,
            "memory of one, MB": most_mb,
        })  # fmt: skip
    report.check(
        f"{what}: two processes against one", f"≥ {target} ×",
        f"{cpu_1 / cpu_2:.2f} × by CPU, {wall_1 / wall_2:.2f} × by wall time",
        cpu_1 / cpu_2 >= target,
    )  # fmt: skip
    return first, second, memory_mb


def learn_parts(report: Report, rows: int, parts: int) -> None:
    each = rows // parts
    made = [partial(make, seed, each) for seed in range(parts)]

    def work(pool: Executor) -> str:
        return dealfl.learn(made, dealfl.Tikhonov(COLUMNS), pool).digest()

    what = f"ridge, {rows:,} × {COLUMNS} rows in {parts} parts"
    first, second, memory_mb = compare(report, what, 1.7, work)
    report.check(f"{what}: digests", "equal", str(first == second), first == second)
    partitions = memory_mb / (each * (COLUMNS + 1) * 8 / 2**20)
    report.check(
        "memory of a process", "≤ 2 partitions", f"{partitions:.1f} partitions", partitions <= 2
    )


def run_sweeps(report: Report, seeds: int) -> None:
    X = np.random.default_rng(0).uniform(0, 1, (4_000, 20))
    fleet = dealfl.Fleet.from_arrays(X, X[:, 0] > X[:, 1], workers=20).with_rounds(20)
    sweep = partial(dealfl.sweep, fleet, seeds=seeds, verbose=False)
    here = str(sweep().to_dict() if find_spec("pandas") else sweep())

    def work(pool: Executor) -> str:
        table = sweep(executor=pool)
        return str(table.to_dict() if find_spec("pandas") else table)

    first, second, _ = compare(report, f"sweep of {seeds} seeds", 1.6, work)
    report.check(
        "rows on processes", "equal", str(here == first == second), here == first == second
    )
    for name, module in (("loky", "joblib.externals.loky"), ("Dask", "distributed")):
        if find_spec(module.partition(".")[0]) is None:
            print(f"skipped: {name} is not installed", file=sys.stderr)
            continue
        rows = work_on(module, work)
        report.check(f"rows on {name}", "equal", str(rows == here), rows == here)


def work_on(module: str, work: Callable[[Executor], str]) -> str:
    """Return the rows on loky, or on a Dask cluster of two processes."""
    package: Any = importlib.import_module(module)
    if module != "distributed":
        return work(package.get_reusable_executor(max_workers=2))
    with (
        package.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        package.Client(cluster) as client,
    ):
        return work(client.get_executor())


def wait_a_little(number: int) -> int:
    time.sleep(0.2)
    return number


def kill_dask_worker(report: Report) -> None:
    """Kill one of two workers of a real Dask scheduler while calls run."""
    if find_spec("distributed") is None:
        skip("Dask is not installed")
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        clusters_of_dask.cluster(Path(folder)) as (address, workers),
        open_executor(address) as executor,
    ):
        assert executor is not None
        found = []
        for _, number in call_each(executor, wait_a_little, ((n, (n,)) for n in range(20))):
            found.append(number)
            if len(found) == 3:
                workers[0].kill()
    holds = sorted(found) == list(range(20))
    report.check("calls with a killed Dask worker", "20 of 20", f"{len(found)} of 20", holds)


def call_once(report: Report, calls: int) -> None:
    """Let a worker live for one call, many times, and kill it at random moments."""
    forks = Forks()
    with tempfile.TemporaryDirectory() as folder:
        broker = start_broker(Path(folder) / "broker")
        try:
            fed = test_once.Callers(Path(folder), forks, broker, test_once.SOON)
            for name in ("w1", "w2"):
                fed.enrol(name)
            start_s = time.perf_counter()
            test_once.call_and_kill(fed, calls, seed=11)  # ends with an assertion if not exact
            took_s, outcome = time.perf_counter() - start_s, "exact"
        except AssertionError as error:
            took_s, outcome = 0.0, f"not exact: {error}"
        finally:
            forks.close()
            broker.kill()
    what = f"`work --once` {calls} times, killed −9 at random, beside an ordinary worker"
    report.check(what, "exact", f"{outcome}, {took_s:.0f} s", outcome == "exact")


# -- brokers --------------------------------------------------------------------------------------


def kill_brokers(report: Report, workers: int) -> None:
    """Kill −9 one of three mosquittos; the server is connected to each."""
    with clusters.star(workers) as place:
        found = clusters.run(place, workers, workers // 10, ["without"])
    what = f"three mosquittos, {workers:,}/{workers // 10}, TLS, one killed −9"
    longest_s = found["longest round s, without the server"]
    back_s = found["all back s, without the server"]
    report.check(f"{what}: digest", "central training", str(found["exact"]), found["exact"])
    report.check(f"{what}: longest round", "≤ 2 s", f"{longest_s:.2f} s", longest_s <= 2)
    report.check(f"{what}: all back", "≤ 10 s", f"{back_s:.1f} s", back_s <= 10)
    report.rows.append({"brokers": "three mosquittos", **found})


def kill_rabbits(report: Report, workers: int) -> None:
    """Kill −9 nodes of a cluster of RabbitMQ, without and with the server's connection."""
    if not (rabbits.CHROOT / "usr/lib/rabbitmq").exists() or os.geteuid():
        skip("RabbitMQ is not here (make rabbitmq), or this user is not root")
        return
    with clusters.rabbits(workers) as place:
        found = clusters.run(place, workers, workers // 10, ["without", "with"])
    what = f"three nodes of RabbitMQ, {workers:,}/{workers // 10}, TLS, killed −9"
    longest_s = found["longest round s, without the server"]
    report.check(f"{what}: digest", "central training", str(found["exact"]), found["exact"])
    report.check(
        f"{what}: longest round, a node without the server", "≤ 15 s",
        f"{longest_s:.1f} s", longest_s <= 15,
    )  # fmt: skip
    report.rows.append({"brokers": "three nodes of RabbitMQ", **found})


# -- Flower ---------------------------------------------------------------------------------------


def run_flower(report: Report) -> None:
    """Run the example with simulated nodes and with SuperNodes; it compares digests itself."""
    python = ROOT / ".venv-flower" / "bin" / "python"
    if not python.exists():
        skip("Flower is not here (make flower)")
        return
    done = subprocess.run(
        [str(python), str(ROOT / "examples" / "flower" / "trial.py")],
        stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    exact = done.returncode == 0
    report.check(
        "Flower: simulation, SuperNodes, a killed ServerApp, an erasure: digests",
        "central training", str(exact), exact,
    )  # fmt: skip
    for kind, found in json.loads(done.stdout.splitlines()[-1] if exact else "{}").items():
        round_s, bags = found["served s"] / found["rounds"], found["bags"] / found["updates"]
        report.rows.append({"Flower": kind, **found, "s a round": round_s})
        report.check(f"Flower, {kind}: bags an update", "≤ 3", f"{bags:.2f}", bags <= 3)
    lines = count_code(ROOT / "src" / "dealfl" / "flower.py")
    report.check("Flower: lines of code of the adapter", "≤ 200", str(lines), lines <= 200)


def count_code(path: Path) -> int:
    """Return the lines of code of a file, without blank lines, comments and docstrings."""
    text = path.read_text("utf-8")
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.string.strip() and token.type != tokenize.COMMENT:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        kinds = (ast.Module, ast.FunctionDef, ast.ClassDef)
        if isinstance(node, kinds) and ast.get_docstring(node):
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


# -- unit costs -----------------------------------------------------------------------------------


def measure_units(report: Report, workers: int) -> None:
    """Measure what a worker costs: in the ledger, when it is compacted, and in a simulation."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        with closing(Ledger(path)) as ledger:
            rules = Rules(rounds=10**9, workers_per_round=workers, ttl_s=1e6)
            server = Server("bench", mqtt.make, ledger, rules, Everyone())
            cpu_s = exchange(server, {f"w{n}": mqtt.Phone(n) for n in range(workers)})
            start_s = time.perf_counter()
            ledger.compact()
            took_s = time.perf_counter() - start_s
        size = path.stat().st_size
    few, many = (simulated_mb(count) for count in (workers // 10, workers))
    report.rows.append({
        "unit costs": f"ridge with {mqtt.FEATURES} features", "workers": workers,
        "engine CPU ms an update": 1e3 * cpu_s / workers,
        "ledger kB a worker": size / workers / 1e3,
        "compaction s a GB": took_s / size * 1e9,
        "simulated kB a worker": 1e3 * (many - few) / (workers - workers // 10),
    })  # fmt: skip


def exchange(server: Server, phones: dict[str, mqtt.Phone]) -> float:
    """Let each worker join and deliver one update; return the server's CPU time for updates."""
    now_s, spent_s = 0.0, 0.0
    updates: list[Any] = []
    up: list[Any] = []
    for phone in phones.values():
        phone.reconnect()
        up += phone.handle([], now_s).messages
    while len(updates) < len(phones):
        down = server.handle(up, now_s).messages
        now_s += 1.0
        replies = [
            reply
            for message in down
            if message.worker in phones
            for reply in phones[message.worker].handle([message], now_s).messages
        ]
        updates += [one for one in replies if isinstance(one, Update)]
        up = [one for one in replies if not isinstance(one, Update)]
    for at in range(0, len(updates), 100):
        start_s = time.process_time()
        server.handle(updates[at : at + 100], now_s)
        spent_s += time.process_time() - start_s
    return spent_s


def simulated_mb(workers: int) -> float:
    """Return the largest memory of a process that simulates some workers."""
    done = subprocess.run(
        [sys.executable, "-c", SIMULATION.format(workers=workers)],
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return float(done.stdout.split()[-1])


SIMULATION = r"""
import re
import numpy as np
import dealfl
X = np.random.default_rng(0).uniform(-1, 1, (2 * {workers}, 20))
fleet = dealfl.Fleet.from_arrays(X, X[:, 0], workers={workers}).with_rounds(2)
dealfl.sweep(fleet, seeds=1, verbose=False)
with open("/proc/self/status") as file:  # ru_maxrss is that of the process before, too
    print(int(re.search(r"VmHWM:\s*([0-9]+)", file.read()).group(1)) / 1024)
"""


def skip(reason: str) -> None:
    print(f"skipped: {reason}", file=sys.stderr)


def run_executors(report: Report, seeds: int) -> None:
    run_sweeps(report, seeds)
    kill_dask_worker(report)


PARTS = ("parts", "sweeps", "once", "units", "star", "rabbitmq", "flower")


def benchmark(quick: bool, parts: Sequence[str] = PARTS) -> Report:
    """Measure executors, calls of one process, brokers that are killed, Flower, and unit costs."""
    report = Report("scale")
    logging.disable()  # refused connections while a broker is down
    fleet = 200 if quick else 1_000
    rows, count = (2_000_000, 8) if quick else (20_000_000, 40)
    steps: dict[str, Callable[[], None]] = {
        "parts": lambda: learn_parts(report, rows, count),
        "sweeps": lambda: run_executors(report, 2 if quick else 8),
        "once": lambda: call_once(report, 10 if quick else 200),
        "units": lambda: measure_units(report, fleet),
        "star": lambda: kill_brokers(report, fleet),
        "rabbitmq": lambda: skip("RabbitMQ takes longer") if quick else kill_rabbits(report, fleet),
        "flower": lambda: skip("Flower takes longer") if quick else run_flower(report),
    }
    for name in parts:
        numba = {"DEALFL_NUMBA": "never"} if name in ("parts", "sweeps") else {}
        with progress(name), patch.dict(os.environ, numba):  # else one process loads loops alone
            try:
                steps[name]()
            except (OSError, AssertionError, subprocess.SubprocessError) as error:
                report.check(name, "measured", f"{type(error).__name__}: {error}", False)
    return report


if __name__ == "__main__":
    main(benchmark, __doc__ or "", PARTS)
