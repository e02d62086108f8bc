"""How long does a whole `dealfl run` take, and how much memory does it need?

Each job is written by `dealfl job init` for a seeded synthetic file, and runs one scheme in a
process of its own: 20 phones, ten rounds of ten. The images get 1,500 ReLU features. The first run
of the default job is not measured: it fills the caches of byte code and of compiled loops. At the
end, all schemes of the default job run one after the other, and on all cores.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import Process
from pathlib import Path
from typing import Any

import numpy as np
from reporting import Report, main, progress

_NO_BYTE_CODE = "PYTHONDONTWRITEBYTECODE"  # each run would compile dealfl again
_LEAST_GAIN = 0.8

RELU = '[features]\nmap = "relu"\nwidth = 1500\nhigh = 255.0\n\n'


def write_images(path: Path, rows: int) -> None:
    """Write images of 28 × 28 pixels: ten prototypes, pixels left out, and noise."""
    draw = np.random.default_rng(1)
    shapes = draw.integers(0, 256, (10, 784)) * (draw.random((10, 784)) < 0.2)
    labels = draw.integers(0, 10, rows)
    noise = draw.integers(0, 40, (rows, 784)) * (draw.random((rows, 784)) < 0.1)
    pixels = np.minimum(shapes[labels] * (draw.random((rows, 784)) < 0.8) + noise, 255)
    names = [f"p{place}" for place in range(784)]
    _write(path, [*names, "label"], np.column_stack([pixels, labels]), "%d")


def write_ratings(path: Path, users: int) -> None:
    """Write ratings of 9,724 items, a few of them popular, about 150 a user."""
    draw = np.random.default_rng(2)
    chance = 1.0 / (np.arange(9_724) + 10.0)
    counts = np.clip(draw.lognormal(4.5, 1.05, users), 20, 2_500).astype(int)
    items = [draw.choice(9_724, n, replace=False, p=chance / chance.sum()) for n in counts]
    number = int(counts.sum())
    table = np.column_stack([
        np.repeat(np.arange(users), counts), np.concatenate(items),
        draw.integers(1, 11, number) / 2, draw.integers(10**9, 15 * 10**8, number),
    ])  # fmt: skip
    _write(path, ["userId", "movieId", "rating", "timestamp"], table, ["%d", "%d", "%.1f", "%d"])


def write_table(path: Path, rows: int) -> None:
    """Write nine numbers and a noisy weighted sum of them."""
    draw = np.random.default_rng(3)
    inputs = draw.normal(size=(rows, 9))
    target = inputs @ draw.normal(size=9) + draw.normal(size=rows)
    names = [f"x{place}" for place in range(9)]
    _write(path, [*names, "y"], np.column_stack([inputs, target]), "%.4f")


def _write(path: Path, names: list[str], table: Any, form: str | list[str]) -> None:
    np.savetxt(path, table, fmt=form, delimiter=",", header=",".join(names), comments="")


@dataclass(frozen=True)
class Job:
    """A run, its data, and its limits; a quick benchmark has fewer rows and no limits."""

    name: str
    write: Callable[[Path, int], None] | None
    rows: int
    quick_rows: int
    limit_s: float
    limit_mb: float | None = None
    features: str = ""


JOBS = (
    Job("10,000 × 784, 1,500 ReLU features", write_images, 10_000, 500, 15.0, 1_200.0, RELU),
    Job("610 × 9,724 ratings", write_ratings, 610, 100, 8.0, 600.0),
    Job("1.5 M × 10 CSV", write_table, 1_500_000, 20_000, 30.0, 1_000.0),
    Job("default job", None, 0, 0, 8.0),
)


def prepare(job: Job, folder: Path, rows: int) -> list[str]:
    """Write the data and the job file; return the arguments of `dealfl run`."""
    if job.write is None:
        return []
    data, file = folder / "data.csv", folder / "job.toml"
    writer = Process(target=job.write, args=(data, rows))  # a child's memory begins with ours
    writer.start()
    writer.join()
    _call("job", "init", str(data), "--out", str(file), "--yes")
    if job.features:
        text = file.read_text()
        file.write_text(text.replace("[[devices]]", job.features + "[[devices]]", 1))
    return [str(file)]


def _call(*arguments: str) -> tuple[float, float, float]:
    """Run a command of dealfl; return its wall time, its CPU time, and its largest memory."""
    command, start_s = [sys.executable, "-m", "dealfl", *arguments], time.perf_counter()
    usual = {name: value for name, value in os.environ.items() if name != _NO_BYTE_CODE}
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=usual
    )
    with process:
        assert process.stderr is not None
        said = process.stderr.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"dealfl {' '.join(arguments)} failed:\n{said}")
    elapsed_s = time.perf_counter() - start_s
    return elapsed_s, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def measure(job: Job, quick: bool) -> dict[str, Any]:
    """Run one job; return its figures."""
    rows = job.quick_rows if quick else job.rows
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        arguments = [*prepare(job, folder, rows), "--no-compare", "--out", str(folder / "run")]
        wall_s, cpu_s, peak_mb = _call("run", *arguments)
    return {"run": job.name, "rows": rows, "wall s": wall_s, "CPU s": cpu_s, "peak MB": peak_mb}


def run(quick: bool) -> Report:
    """Run everything; quick uses small files, which have no limits."""
    report = Report("runs")
    with progress("default job, not measured"), tempfile.TemporaryDirectory() as directory:
        _call("run", "--no-compare", "--out", directory)
    for job in JOBS:
        with progress(job.name):
            row = measure(job, quick)
        report.rows.append(row)
        if not quick or job.write is None:
            _check(report, job, row)
    _compare_processes(report)
    return report


def _compare_processes(report: Report) -> None:
    """Run all schemes of the default job in one process, and in one for each core."""
    cores = os.cpu_count() or 1
    times_s = []
    for count in (1, cores):
        with progress(f"four schemes, {count} processes"), tempfile.TemporaryDirectory() as out:
            wall_s, cpu_s, peak_mb = _call("run", "--processes", str(count), "--out", out)
        name = f"default job, all compared, processes: {count}"
        row = {"run": name, "rows": 0, "wall s": wall_s, "CPU s": cpu_s, "peak MB": peak_mb}
        report.rows.append(row)
        times_s.append(wall_s)
    ratio = times_s[1] / times_s[0]
    target = f"≤ {_LEAST_GAIN:g} of the time of one process"
    what = f"default job, all compared on {cores} cores"
    if cores > 1:
        report.check(what, target, f"{ratio:.2f}", ratio <= _LEAST_GAIN)


def _check(report: Report, job: Job, row: dict[str, Any]) -> None:
    wall_s, peak_mb = row["wall s"], row["peak MB"]
    report.check(job.name, f"≤ {job.limit_s:g} s", f"{wall_s:.1f} s", wall_s <= job.limit_s)
    if job.limit_mb is not None:
        holds = peak_mb <= job.limit_mb
        report.check(job.name, f"≤ {job.limit_mb:,.0f} MB", f"{peak_mb:,.0f} MB", holds)


if __name__ == "__main__":
    main(run, "Time and memory of whole runs.")
