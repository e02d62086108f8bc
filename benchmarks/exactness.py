"""Is the digest after forgetting that of training from scratch, on all rows of real data?

Also: how far are Tikhonov's predictions from scikit-learn's after 100,000 pairs of learning and
forgetting, and how much memory does it take to learn every row of covtype?
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from problems import Problem, problem
from reporting import Report, main, progress
from sklearn.linear_model import Ridge  # type: ignore[import-untyped]

PROBLEMS = [
    ("mushrooms", "tikhonov_classifier"),
    ("mushrooms", "naive_bayes"),
    ("mushrooms", "neighbors"),
    ("phishing", "tikhonov_classifier"),
    ("phishing", "naive_bayes"),
    ("phishing", "neighbors"),
    ("covtype", "tikhonov_classifier"),
    ("covtype", "naive_bayes"),
    ("covtype", "neighbors"),
    ("housing", "tikhonov"),
    ("cadata", "tikhonov"),
    ("movielens", "personalized_pagerank"),
    ("jester", "personalized_pagerank"),
]
FORGOTTEN = 1000  # rows, in batches of random sizes
PAIRS = 100_000
MEMORY_LIMIT_MB = 300
STATISTICS_LIMIT_MB = 1.0


def forget_and_compare(task: Problem) -> dict[str, Any]:
    """Learn all rows, forget some in random batches, compare with training from scratch."""
    rng = np.random.default_rng(1)
    count = task.X.shape[0]
    gone = rng.permutation(count)[: min(FORGOTTEN, count // 2)]
    kept = np.setdiff1d(np.arange(count), gone)
    model, scratch = task.made(), task.made()

    def rows(places: Any) -> tuple[Any, ...]:
        return (task.X[places],) if task.y is None else (task.X[places], task.y[places])

    start = time.perf_counter()
    model.learn(*rows(slice(None)))
    learn_s = time.perf_counter() - start
    cuts = np.sort(rng.integers(0, len(gone), 40))
    start = time.perf_counter()
    for batch in np.split(gone, cuts):
        model.forget(*rows(batch))
    forget_s = time.perf_counter() - start
    scratch.learn(*rows(rng.permutation(kept)))
    model.check()
    return {
        "dataset": task.dataset,
        "learner": task.learner,
        "rows": count,
        "forgotten": len(gone),
        "equal digest": model.digest() == scratch.digest(),
        "statistics kB": model.statistics.nbytes / 1e3,
        "learn s": learn_s,
        "forget ms a row": forget_s / len(gone) * 1e3,
    }


def predictions_after_pairs(dataset: str, solver: str, pairs: int) -> dict[str, Any]:
    """Learn and forget rows, some at the bounds; compare predictions with scikit-learn's."""
    task = problem(dataset, "tikhonov")
    X, y = np.asarray(task.X, dtype=np.float64), np.asarray(task.y, dtype=np.float64)
    model = task.made(solver=solver)
    bound = np.array(model.settings["feature_bound"])
    target_bound = model.settings["target_bound"]
    model.learn(X, y)
    _ = model.weights
    before = model.statistics
    rng = np.random.default_rng(2)
    for pair in range(pairs):
        if pair % 200 == 0:
            row, target = rng.choice([-1.0, 1.0], X.shape[1]) * bound, target_bound
        else:
            place = rng.integers(len(X))
            row, target = X[place], y[place]
        model.learn(row[None], [target])
        model.forget(row[None], [target])
        if pair % 50 == 0:
            _ = model.weights  # keeps the factor alive, as a user who predicts would
    oracle = Ridge(alpha=1.0, solver="cholesky", fit_intercept=model.settings["intercept"])
    expected = oracle.fit(X, y).predict(X)
    error = np.linalg.norm(model.predict(X) - expected) / np.linalg.norm(expected)
    return {
        "dataset": dataset,
        "solver": solver,
        "pairs": pairs,
        "relative error": float(error),
        "statistics identical": model.statistics == before,
    }


def memory_of(learner: str) -> dict[str, Any]:
    """Learn covtype in a process of its own; return its peak above the data."""
    command = [sys.executable, __file__, "--memory-of", learner]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))


def _learn_covtype(learner: str) -> None:
    task = problem("covtype", learner)
    model = task.made()
    Path("/proc/self/clear_refs").write_text("5")  # the peak of loading the data does not count
    resident_mb = _status_mb("VmRSS")
    model.learn(task.X, task.y)
    print(
        json.dumps(
            {
                "learner": learner,
                "rows": int(task.X.shape[0]),
                "peak MB above the data": _status_mb("VmHWM") - resident_mb,
                "statistics MB": model.statistics.nbytes / 1e6,
            }
        )
    )


def _status_mb(name: str) -> float:
    """Return a figure of this process that the kernel keeps, in megabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(name))


def run(quick: bool) -> Report:
    """Run everything; quick leaves covtype out and makes 2,000 pairs."""
    report = Report("exactness")
    for dataset, learner in PROBLEMS:
        if quick and dataset == "covtype":
            continue
        with progress(f"{learner} on {dataset}"):
            row = forget_and_compare(problem(dataset, learner))
        report.rows.append(row)
        report.check(
            f"digest after forgetting, {learner} on all {row['rows']} rows of {dataset}",
            "that of training from scratch",
            "equal" if row["equal digest"] else "different",
            row["equal digest"],
        )
    pairs = 2000 if quick else PAIRS
    for dataset in ("housing", "cadata"):
        for solver in ("auto", "cholesky", "qr"):
            with progress(f"{pairs} pairs on {dataset}, solver {solver}"):
                row = predictions_after_pairs(dataset, solver, pairs)
            report.rows.append(row)
            holds = row["relative error"] <= 1e-7 and row["statistics identical"]
            report.check(
                f"predictions after {pairs:,} pairs on {dataset}, solver {solver}",
                "≤ 1e-7 from Ridge(solver='cholesky'), statistics identical",
                f"{row['relative error']:.1e}, "
                + ("identical" if row["statistics identical"] else "different"),
                holds,
            )
    for learner in () if quick else ("naive_bayes", "tikhonov_classifier"):
        with progress(f"memory of {learner} on covtype"):
            row = memory_of(learner)
        report.rows.append(row)
        peak, size = row["peak MB above the data"], row["statistics MB"]
        report.check(
            f"memory of {learner} on covtype",
            f"peak ≤ {MEMORY_LIMIT_MB} MB above the data, statistics ≤ 1 MB",
            f"{peak:.0f} MB, {size:.2f} MB",
            peak <= MEMORY_LIMIT_MB and size <= STATISTICS_LIMIT_MB,
        )
    return report


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory-of"]:
        _learn_covtype(sys.argv[2])
    else:
        main(run, __doc__ or "")
