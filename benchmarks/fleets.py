"""Large fleets in one process: memory and time to build them, and what a round costs.

python benchmarks/fleets.py [--quick] [--json]

Times are CPU time of the process, so that other loads do not change them much. A fleet is built
when all its workers have joined: their examples are stored, and the server has welcomed them.
Compiled loops are not used.
"""

import multiprocessing
import os
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from typing import Any, TypeVar

import numpy as np
from msgspec.structs import replace
from reporting import Report, main, progress

import dealfl
from dealfl.simulate import AWAKE, FleetRun, Outcome, finish, start_run

EXAMPLES = 4  # of each worker
COLUMNS = 4
EVERYONE = 1_000_000
SMALL_ROUND, LARGE_ROUND = 100, 1_000
COUNTED_ROUNDS = 20
Answer = TypeVar("Answer")
CONNECTED = {  # phones that stay connected; all their examples are there at the start
    "job.sleep": None, "job.round_every_s": None, "job.min_waiting": None, "job.wait_j": None,
    "job.max_wait_s": None, "job.ride_along": None, "job.ride_wait_s": None,
    "job.min_examples_per_update": None, "radio": None,
    "arrival": None, "arrival.pattern": "at_once",
    "faults.announce_every_s": 86_400.0, "job.evaluate_every": 10**6,
}  # fmt: skip


def in_new_process(work: Callable[..., Answer], *arguments: Any) -> Answer:
    """Return what a function returns in a process of its own, whose memory is its alone."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def make_fleet(workers: int, rounds: int, per_round: int) -> dealfl.Fleet:
    X = np.random.default_rng(0).uniform(0, 1, (EXAMPLES * workers + 100, COLUMNS))
    fleet = dealfl.Fleet.from_arrays(
        X, X.sum(axis=1), learner="tikhonov", workers=2, test_share=100 / len(X)
    )
    return fleet.with_settings(
        CONNECTED
        | {"devices.1.count": workers, "job.rounds": rounds, "job.workers_per_round": per_round}
    )


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def pump_rounds(run: FleetRun, count: int) -> list[float]:
    """Return the CPU time of each of the next rounds."""
    times_s: list[float] = []
    for _ in range(count):
        done, start_s = len(run.rounds), time.process_time()
        run.pump(stopped=lambda done=done: len(run.rounds) > done)  # type: ignore[misc]
        times_s.append(time.process_time() - start_s)
    return times_s


def measure_fleet(workers: int, large_rounds: int) -> dict[str, Any]:
    """Return what a fleet costs: building, rounds of 1,000, then rounds of 100."""
    fleet = make_fleet(workers, 10_000, LARGE_ROUND)
    start_s, own_mb = time.process_time(), memory_mb()
    run = start_run(fleet.simulated)
    started_s = time.process_time() - start_s
    pump_rounds(run, 1)  # all join before it ends: it is that of the first
    built_s, built_mb = time.process_time() - start_s, memory_mb()
    large_s = pump_rounds(run, large_rounds)
    run.server.rules = replace(run.server.rules, workers_per_round=SMALL_ROUND)
    pump_rounds(run, 2)
    small_s = pump_rounds(run, COUNTED_ROUNDS)
    return {
        "workers": workers,
        "start, s": started_s,
        "built, s": built_s,
        "ms a worker": 1e3 * built_s / workers,
        "before, MB": own_mb,
        "built, MB": built_mb,
        "KB a worker": 1024 * (built_mb - own_mb) / workers,
        f"rounds of {LARGE_ROUND:,}": large_rounds,
        "these, s": sum(large_s),
        f"round of {SMALL_ROUND}, ms": 1e3 * median(small_s),
        "at the end, MB": memory_mb(),
    }


def run_whole(workers: int, most_awake: int) -> tuple[Outcome, float, float]:
    """Return the outcome of a run with ten rounds of 100, its CPU time and its memory."""
    fleet = make_fleet(workers, 10, SMALL_ROUND)
    start_s = time.process_time()
    run = start_run(fleet.simulated, owners_key=bytes(32), most_awake=most_awake)
    run.pump()
    outcome = finish(run)
    return outcome, time.process_time() - start_s, memory_mb()


def compare_awake(report: Report, workers: int, repeats: int) -> None:
    """Compare hibernating workers with workers that are all awake, in turns."""
    turns = [
        (in_new_process(run_whole, workers, AWAKE), in_new_process(run_whole, workers, EVERYONE))
        for _ in range(repeats)
    ]
    (few, _, few_mb), (all_awake, _, all_mb) = turns[0]
    few_s, all_s = (min(turn[index][1] for turn in turns) for index in (0, 1))
    report.rows.append({
        "workers": workers, "whole run": "ten rounds of 100, with all updates delivered",
        "hibernating, CPU s": few_s, "all awake, CPU s": all_s,
        "hibernating, MB": few_mb, "all awake, MB": all_mb,
    })  # fmt: skip
    same = few == all_awake and few.exact
    what = f"{workers:,} workers, hibernating or all awake: digest, selections, energy"
    report.check(what, "equal", "equal" if same else "different", same)
    if repeats > 1:
        report.check(
            f"{workers:,} workers, whole run, hibernating against all awake",
            "≤ 1.00 × CPU time", f"{few_s / all_s:.2f} ×", few_s <= all_s,
        )  # fmt: skip


def measure_fleets(report: Report, quick: bool) -> None:
    """Measure fleets of growing size."""
    with progress("1,000 workers, hibernating and all awake"):
        compare_awake(report, 1_000, 1 if quick else 3)
    found = []
    for workers, large_rounds in ((3_000, 1),) if quick else ((10_000, 1), (100_000, 10)):
        with progress(f"{workers:,} workers"):
            found.append(in_new_process(measure_fleet, workers, large_rounds))
    report.rows += found
    if quick:
        return
    with progress("10,000 workers, hibernating and all awake"):
        compare_awake(report, 10_000, 1)
    small, large = found
    rounds_s, whole_mb = large["these, s"], report.rows[-1]["hibernating, MB"]
    for what, target, measured, unit in (
        ("100,000 workers: built", 180.0, large["built, s"], "s"),
        ("100,000 workers: memory", 1_500.0, large["at the end, MB"], "MB"),
        ("100,000 workers: ten rounds of 1,000", 60.0, rounds_s, "s"),
        ("10,000 workers: memory of a whole run", 300.0, whole_mb, "MB"),
    ):
        report.check(what, f"≤ {target:g} {unit}", f"{measured:.3g} {unit}", measured <= target)
    name = f"round of {SMALL_ROUND}, ms"
    times = large[name] / small[name]
    report.check(
        "a round of 100 among 100,000 and among 10,000 registered", "≤ 1.3 × CPU time",
        f"{times:.2f} × ({large[name]:.0f} and {small[name]:.0f} ms)", times <= 1.3,
    )  # fmt: skip


def benchmark(quick: bool) -> Report:
    """Measure fleets of growing size."""
    os.environ["DEALFL_NUMBA"] = "never"  # it takes 120 MB for itself, and saves nothing here
    report = Report("fleets")
    measure_fleets(report, quick)
    return report


if __name__ == "__main__":
    main(benchmark, __doc__ or "")
