"""The phone of the paper: computing of the example jobs, resident models, their pages, their time.

Energy is modelled from the profiles of phones. Times are CPU time of this machine.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from reporting import Report, main, progress

from dealfl.learners import Histories, Learner, NaiveBayes, PersonalizedPageRank, Rows, Tikhonov
from dealfl.messages import Assignment, Receipt, Update, Welcome
from dealfl.settings import Document
from dealfl.simulate import read_fleet, run_fleet
from dealfl.worker import Journal, MeasuredMeter, State, Worker, WorkerKeys

JOBS = sorted((Path(__file__).parents[1] / "examples" / "jobs").glob("*.toml"))
QUICK = ("bayes-phishing", "tikhonov-housing")
PAGES = 1384  # of the model of movielens
POLICIES = ("theta_lru", "lru", "arc")
LIMITS_US = {"tikhonov": 150.0, "naive_bayes": 150.0, "personalized_pagerank": 500.0}


def run(quick: bool) -> Report:
    """Run all parts."""
    report = Report("phone")
    for step in (add_computing, add_times, add_factors, add_pages):
        progress(step.__name__)
        step(report, quick)
    return report


def add_computing(report: Report, quick: bool) -> None:
    """Compare the computing of `deal` with `original` and `incremental` on the example jobs."""
    for path in JOBS:
        if quick and path.stem not in QUICK:
            continue
        document = Document.read(path)
        energy = {
            scheme: run_fleet(read_fleet(document.replaced("job.scheme", scheme))).energy
            for scheme in ("deal", "incremental", "original")
        }
        deal, incremental, original = energy.values()
        operations = deal.operations / original.operations
        whole, beside = deal.compute_j / original.compute_j, deal.compute_j / incremental.compute_j
        report.rows.append(
            {"job": path.stem, "deal J": deal.compute_j, "operations / original": operations,
             "J / original": whole, "J / incremental": beside}
        )  # fmt: skip
        limit = 0.75 if path.stem == "pagerank-movielens" else 0.30
        report.check(f"operations of deal, {path.stem}", f"≤ {limit:.0%} of original",
                     f"{operations:.1%}", operations <= limit)  # fmt: skip
        report.check(
            f"computing of deal with overhead, {path.stem}",
            "≤ 102 % of original, ≤ 1.35× incremental",
            f"{whole:.1%}, {beside:.2f}×",
            whole <= 1.02 and beside <= 1.35,
        )


class TimedConnection(sqlite3.Connection):
    """A connection that counts its statements, and times those that write and commit."""

    statements: ClassVar[int] = 0
    written_s: ClassVar[float] = 0.0

    def _timed(self, run: Callable[..., sqlite3.Cursor], sql: str, values: Any) -> sqlite3.Cursor:
        start = time.process_time()
        cursor = run(sql, values)
        TimedConnection.statements += 1
        if not sql.startswith("SELECT"):
            TimedConnection.written_s += time.process_time() - start
        return cursor

    def execute(self, sql: str, values: Any = ()) -> sqlite3.Cursor:
        """Run a statement."""
        return self._timed(super().execute, sql, values)

    def executemany(self, sql: str, values: Any) -> sqlite3.Cursor:
        """Run a statement for each row of values."""
        return self._timed(super().executemany, sql, values)


def make_worker(
    learner: Learner, keys: WorkerKeys, fraction: str = "0.02"
) -> tuple[Worker, Journal]:
    """Return a worker that the server has welcomed."""
    journal = Journal(connect=partial(sqlite3.connect, factory=TimedConnection))
    worker = Worker(
        "job", "w", lambda: type(learner)(**learner.settings), journal, MeasuredMeter(),
        key=b"key", forget_fraction=fraction, keys=keys,
    )  # fmt: skip
    session = int(journal.setting("session", "0"))
    worker.handle(
        [Welcome(job="job", worker="w", incarnation=1, session=session, journal_id=journal.id)], 0.0
    )
    return worker, journal


def batches(
    learner: Learner, count: int, draw: np.random.Generator, first: int = 0
) -> list[tuple[str, bytes]]:
    """Return new records: rows of 54 features, or two items for each of some of 60 owners."""
    if isinstance(learner, PersonalizedPageRank):
        items = draw.integers(0, learner.n_items, count).tolist()
        return [
            (f"owner {(first + n) // 2 % 60}", Histories.encode(i)) for n, i in enumerate(items)
        ]
    X = draw.uniform(0, 1, (count, 54))
    targets = X.sum(axis=1) if isinstance(learner, Tikhonov) else draw.integers(0, 7, count)
    return [("owner", Rows.encode(x, y)) for x, y in zip(X, targets, strict=True)]


def add_times(report: Report, quick: bool) -> None:
    """Time trainings that learn ten records and evict one, in a worker process."""
    learners: list[Learner] = [
        Tikhonov(54, target_bound=64.0), NaiveBayes(54, list(range(7))), PersonalizedPageRank(1682),
    ]  # fmt: skip
    for learner in learners:
        for model in ("stateless", "resident"):
            times = np.array(train_timed(learner, model, 30 if quick else 120)) * 1e6
            whole, written, _ = np.median(times, axis=0).tolist()
            statements = round(times[-1, 2] / 1e6)
            report.rows.append(
                {"learner": learner.name, "model": model, "µs a training": whole,
                 "of it, µs in writes and commit": written, "statements": statements}
            )  # fmt: skip
            if model == "stateless":
                limit, rest = LIMITS_US[learner.name], whole - written
                report.check(f"a training of {learner.name}, without writes and commit",
                             f"≤ {limit:g} µs", f"{rest:.0f} µs", rest <= limit)  # fmt: skip


def train_timed(learner: Learner, model: str, count: int) -> list[tuple[float, float, int]]:
    """Return CPU seconds of trainings, those in writes, and the number of statements."""
    worker, journal = make_worker(learner, WorkerKeys(model=model))
    times, draw = [], np.random.default_rng(0)
    for number in range(count + 5):
        worker.ingest(batches(learner, 10 if number else 60 * 50, draw, 10 * number))
        held = journal.count(State.LEARNED)
        fraction = f"1/{held}" if held else "0"
        assignment = Assignment(
            job="job", worker="w", round=number + 1, deadline_s=1e9, forget_fraction=fraction
        )
        TimedConnection.statements, TimedConnection.written_s = 0, 0.0
        start = time.process_time()
        step = worker.handle([assignment], float(number))
        elapsed_s = time.process_time() - start
        times.append((elapsed_s, TimedConnection.written_s, TimedConnection.statements))
        (update,) = [one for one in step.messages if isinstance(one, Update)]
        assert update.evicted <= 1
        receipt = Receipt(
            job="job", worker="w", session=update.session, incarnation=1, sequence=update.sequence
        )
        worker.handle([receipt], float(number))
    return times[5:]


def add_factors(report: Report, quick: bool) -> None:
    """Count the factorisations of resident workers with solver = qr in federations."""
    del quick
    for path in JOBS:
        if path.stem not in ("tikhonov-housing", "tikhonov-cadata"):
            continue
        document = Document.read(path).replaced("learner.solver", "qr")
        document = document.replaced("worker.model", "resident")
        document = document.replaced("worker.validation_share", 0.1)
        energy = run_fleet(read_fleet(document)).energy
        share = 1.0 - energy.refactorisations / energy.wake_ups
        report.check(f"trainings without refactorisation, qr, {path.stem}", "≥ 90 %",
                     f"{share:.1%}", share >= 0.9)  # fmt: skip


def add_pages(report: Report, quick: bool) -> None:
    """Count the swaps of resident models of movielens, by policy and number of frames."""
    path = next(job for job in JOBS if job.stem == "pagerank-movielens")
    for share in (0.1,) if quick else (0.1, 0.3, 0.5, 0.7, 0.9):
        for policy in POLICIES:
            document = Document.read(path).replaced("job.rounds", 4 if quick else 8)
            for key, value in {
                "model": "resident",
                "memory": {"frames": int(share * PAGES), "policy": policy},
            }.items():
                document = document.replaced(f"worker.{key}", value)
            outcome = run_fleet(read_fleet(document))
            energy = outcome.energy
            trainings = max(energy.wake_ups, 1)
            report.rows.append(
                {
                    "policy": policy,
                    "frames": f"{share:.0%}",
                    "pages in / training": energy.pages_in / trainings,
                    "pages out / training": energy.pages_out / trainings,
                    "storage J": energy.by_cause_j["storage"],
                }
            )


if __name__ == "__main__":
    main(run, __doc__ or "")
