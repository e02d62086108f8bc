"""How many page swaps does θ-LRU save, and does a paged learner keep to its frames?

Swaps are counted on page traces of learning and forgetting: 1,000 items or features, Zipf 1.0
items, histories of lognormal length (median 30), 10 new users and θ·10 forgotten ones a round.
"dense C and L" are the paper's arrays: counts in int32 and similarities in float64, whole rows.
"packed C" is ours: PersonalizedPageRank keeps only counts, each pair once, and computes a
similarity on demand; "by popularity" is its `item_order`. Before it forgets, it reads
whole rows of rare items to refuse what was never learned; this is listed separately, because it
costs more than all else. "moments" are Tikhonov's. Our traces are recorded from the learners.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from page_traces import PAGE, PAYLOAD, WARM_UP, Rounds, layouts
from problems import problem
from reporting import Report, Row, main, progress
from scipy import sparse

from dealfl.exact import paged
from dealfl.exact.paging import PagedArray
from dealfl.learners import PersonalizedPageRank
from dealfl.storage import (
    Arc,
    BudgetedThetaLru,
    Frames,
    Lru,
    Policy,
    ThetaLru,
)
from dealfl_paper.paging import belady, count_swaps

THETA = 0.3
SHARES = (5, 10, 20, 30, 34, 50, 70, 90)  # percent of the pages
QUICK_SHARES = (10, 34, 50)
SEEDS = 6  # of the shorter traces
PAPER_SAVED = 378
LIMIT_MB = 64


# -- swaps --------------------------------------------------------------------------------------


def optimum(frames: int, rounds: Rounds) -> list[int]:
    """Return the swap-ins of each round that cannot be avoided."""
    loads = iter(belady([page for trace in rounds for page in trace], frames))
    return [sum(next(loads) for _ in trace) for trace in rounds]


def budgeted(frames: int, rounds: Rounds) -> tuple[float, float, int]:
    """Return swap-ins and deferred touches a measured round, and the most pages that waited."""
    policy = BudgetedThetaLru(frames, THETA)
    waiting: dict[int, None] = {}
    swaps, deferred, most = [], [], 0
    for trace in rounds:
        policy.new_round()
        due, waiting = [*waiting, *trace], {}
        late = [page for page in due if policy.touch(page).deferred]
        waiting = dict.fromkeys(late)
        swaps.append(policy.replaced)
        deferred.append(len(late))
        most = max(most, len(waiting))
    return float(np.mean(swaps[WARM_UP:])), float(np.mean(deferred[WARM_UP:])), most


def swap_rows(layout: str, traces: list[Rounds], shares: Sequence[int]) -> Iterator[Row]:
    """Yield one row of the swap table for each number of frames."""
    pages = 1 + max(page for trace in traces[0] for page in trace)
    for share in shares:
        frames = max(1, pages * share // 100)
        counted: dict[str, list[NDArray[np.int64]]] = {}
        policies: dict[str, Callable[[], Policy]] = {
            "LRU": partial(Lru, frames),
            "θ-LRU": partial(ThetaLru, frames, THETA),
            "ARC": partial(Arc, frames),
        }
        for rounds in traces:
            for name, make in policies.items():
                counted.setdefault(name, []).append(np.array(count_swaps(make(), rounds)))
            counted.setdefault("Belady", []).append(np.array(optimum(frames, rounds)))
        mean = {n: float(np.mean([c[WARM_UP:] for c in runs])) for n, runs in counted.items()}
        saved = np.array(counted["LRU"])[:, WARM_UP:] - np.array(counted["θ-LRU"])[:, WARM_UP:]
        swaps, deferred, waiting = budgeted(frames, traces[0])
        yield {
            "swap-ins a round": layout,
            "M": frames,
            "% of pages": share,
            **{name: round(value, 1) for name, value in mean.items()},
            "saved by θ-LRU": round(float(saved.mean()), 1),
            "at best in a round": int(saved.max()),
            "budgeted": round(swaps, 1),
            "touches deferred": round(deferred, 1),
            "pages waiting": waiting,
        }


def check_swaps(report: Report, layout: str, rows: list[Row]) -> None:
    """Add the claims about one swap table."""
    small = [row for row in rows if row["% of pages"] <= 50]
    worst = min(small, key=lambda row: row["saved by θ-LRU"] / row["LRU"])
    report.check(
        f"θ-LRU against LRU, {layout}, θ = {THETA:.0%}",
        "fewer swap-ins a round at every M up to 50 % of the pages",
        f"fewer at {sum(row['saved by θ-LRU'] > 0 for row in small)} of {len(small)}; least: "
        f"{worst['θ-LRU']:.0f} against {worst['LRU']:.0f} at M = {worst['M']}",
        all(row["saved by θ-LRU"] > 0 for row in small),
    )
    best = max(rows, key=lambda row: int(row["at best in a round"]))
    near = next(row for row in rows if row["% of pages"] == 34)
    report.check(
        f"most swaps saved in one round, {layout}",
        f"≥ the paper's {PAPER_SAVED}, which names no M",
        f"{best['at best in a round']} at M = {best['M']} ({best['% of pages']} %); "
        f"{near['at best in a round']} at M = {near['M']} (34 %)",
        best["at best in a round"] >= PAPER_SAVED,
    )


# -- the real thing -----------------------------------------------------------------------------


def _major_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def _status_mb(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith(name))


def _learn_and_forget(
    model: Any, X: Any, batch: int, forgotten: int, new_round: Callable[[], None]
) -> None:
    """Learn all histories in batches, one a round; forget the first of them again."""
    for start in range(0, X.shape[0], batch):
        new_round()
        model.learn(X[start : start + batch])
    new_round()
    model.forget(X[:forgotten])


def _run_paged(X: Any, frames: int, batch: int, forgotten: int, folder: str) -> Row:
    """Run paged, then in memory; return what it cost and whether the digests are equal."""
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of loading
    before_mb, faults = _status_mb("VmRSS"), _major_faults()
    storage = paged(folder, frames, partial(ThetaLru, theta=THETA))
    model = PersonalizedPageRank(X.shape[1], storage=storage)
    start = time.perf_counter()
    _learn_and_forget(model, X, batch, forgotten, storage.new_round)
    storage.flush()
    elapsed_s = time.perf_counter() - start
    faults, peak_mb = _major_faults() - faults, _status_mb("VmHWM") - before_mb
    swaps, pages = storage.swaps, storage.pages
    ins, outs = swaps.ins, swaps.outs
    twin = PersonalizedPageRank(X.shape[1])
    _learn_and_forget(twin, X, batch, forgotten, lambda: None)
    same = model.digest() == twin.digest() and model.statistics == twin.statistics
    return {
        "pages": pages,
        "M": frames,
        "swap-ins": ins,
        "swap-outs": outs,
        "major faults": faults,
        "peak MB": round(peak_mb, 1),
        "frames MB": round(frames * PAGE / 1e6, 1),
        "bit-identical": same,
        "seconds": round(elapsed_s, 1),
    }


def _synthetic(items: int, users: int) -> Any:
    rng = np.random.default_rng(0)
    chances = 1.0 / np.arange(1, items + 1)
    chances /= chances.sum()
    rows = np.zeros((users, items), dtype=np.int8)
    for row in rows:
        row[rng.choice(items, 30, replace=False, p=chances)] = 1
    return sparse.csr_array(rows)


def paged_run(what: str) -> Row:
    """Run paged PageRank in a process of its own."""
    command = [sys.executable, __file__, "--paged", what]
    row = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return {"paged PageRank": what, **row}


def _paged_child(what: str) -> None:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:  # a disk, not a tmpfs
        if what == "movielens":
            X = problem("movielens", "personalized_pagerank").X
            row = _run_paged(X, 138, 48, 4, folder)
        else:
            row = _run_paged(_synthetic(10_000, 60), 2000, 6, 1, folder)
    print(json.dumps(row))


def cold_faults(folder: Path, pages: int) -> Row:
    """Touch every page of a cold file at random, twice, with a tenth of the frames."""
    rng = np.random.default_rng(0)
    cells = pages * (PAYLOAD // 8)
    frames = Frames(Lru(pages // 10))
    array = PagedArray(folder / "cold", cells, "<i8", frames)
    everywhere = np.arange(0, cells, PAYLOAD // 8)
    array.put(everywhere, everywhere)
    array.flush()
    filled = frames.swaps.ins
    before = _major_faults()
    for place in rng.permutation(np.tile(everywhere, 2)).tolist():
        assert array.at(np.array([place])).tolist() == [place]
    faults = _major_faults() - before
    array.close()
    return {"cold pages": pages, "swap-ins": frames.swaps.ins - filled, "major faults": faults}


def check_paged(report: Report, row: Row) -> None:
    """Add the claims about one paged run."""
    what = f"paged PageRank, {row['paged PageRank']}, M = {row['M']} of {row['pages']} pages"
    report.check(
        what,
        "statistics and digest equal to those in memory",
        "equal" if row["bit-identical"] else "different",
        row["bit-identical"],
    )
    limit = row["frames MB"] + LIMIT_MB
    report.check(
        f"memory of {what}",
        f"at most M frames + {LIMIT_MB} MB above the process after imports: {limit:.1f} MB",
        f"{row['peak MB']} MB",
        row["peak MB"] <= limit,
    )
    check_faults(report, f"swap-ins of {what}", row)


def check_faults(report: Report, what: str, row: Row) -> None:
    """Add the claim that what is counted is what happens."""
    ins, faults = row["swap-ins"], row["major faults"]
    report.check(
        what,
        "the process's real major faults ± 2 %",
        f"{ins} counted, {faults} real",
        abs(ins - faults) <= 0.02 * ins,
    )


def run(quick: bool) -> Report:
    """Run everything; quick takes fewer rounds, M and features, and no large array."""
    report = Report("memory")
    for layout, trace in layouts(quick).items():
        large = layout.startswith("Tikhonov") or "rows read" in layout
        seeds = 1 if quick or large else SEEDS
        with progress(layout):
            traces = [trace(seed) for seed in range(seeds)]
            few = quick or "rows read" in layout
            rows = list(swap_rows(layout, traces, QUICK_SHARES if few else SHARES))
        report.rows += rows
        check_swaps(report, layout, rows)
    for what in ("movielens",) if quick else ("movielens", "10,000 items"):
        with progress(f"paged PageRank, {what}"):
            row = paged_run(what)
        report.rows.append(row)
        check_paged(report, row)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, progress("cold pages"):
        row = cold_faults(Path(folder), 500 if quick else 2000)
    report.rows.append(row)
    check_faults(report, f"swap-ins from {row['cold pages']} cold pages", row)
    return report


if __name__ == "__main__":
    if sys.argv[1:2] == ["--paged"]:
        _paged_child(sys.argv[2])
    else:
        main(run, __doc__ or "")
