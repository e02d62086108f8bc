"""Beyond one process: sweeps on executors, and one model from many parts.

python benchmarks/scale.py [--quick] [--json]

Speed-ups are given by wall time, and by CPU time: that of one process over the largest of two,
which is what an idle machine would show. Other loads spoil the first, not the second.
"""

import importlib
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from reporting import Report, main, progress

import dealfl

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


def benchmark(quick: bool) -> Report:
    """Measure two processes against one."""
    os.environ["DEALFL_NUMBA"] = "never"  # else one process loads loops that two never need
    report = Report("scale")
    with progress("parts"):
        learn_parts(report, 2_000_000 if quick else 20_000_000, 8 if quick else 40)
    with progress("sweeps"):
        run_sweeps(report, 2 if quick else 8)
    print("not measured here: Flower (`make flower`), a killed Dask worker (`make soak`)",
          file=sys.stderr)  # fmt: skip
    return report


if __name__ == "__main__":
    main(benchmark, __doc__ or "")
