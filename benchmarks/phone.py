"""The phone of the paper: computing of the example jobs, resident models, their pages, their time.

Energy is modelled from the profiles of phones. Times are CPU time of this machine.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import multiprocessing
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from phone_clock import run as run_clocks
from phone_pages import add_pages
from reporting import Report, main, progress

from dealfl.exact import CHOICE
from dealfl.learners import (
    Histories,
    Learner,
    NaiveBayes,
    PersonalizedPageRank,
    Rows,
    Tikhonov,
    cycles_of,
)
from dealfl.protocol import Assignment, Receipt, Update, Welcome, decode, encode
from dealfl.settings import Document
from dealfl.simulate import read_fleet, run_fleet
from dealfl.worker import (
    Journal,
    MeasuredMeter,
    Memory,
    State,
    Worker,
    WorkerKeys,
    exact_fraction,
)

JOBS = sorted((Path(__file__).parents[1] / "examples" / "jobs").glob("*.toml"))
QUICK = ("bayes-phishing", "tikhonov-housing")
LEARNERS: list[Learner] = [
    Tikhonov(54, target_bound=64.0), NaiveBayes(54, list(range(7))), PersonalizedPageRank(1682),
]  # fmt: skip
BEFORE_J = {  # computing of deal before phones had a clock and trained in one pass, 391c0fe
    "bayes-covtype": 1.500, "bayes-mushrooms": 0.6892, "bayes-phishing": 0.6565,
    "neighbors-mushrooms": 5.894, "neighbors-phishing": 5.764, "pagerank-jester": 2.648,
    "pagerank-movielens": 3.751, "tikhonov-cadata": 0.7357, "tikhonov-housing": 0.2334,
}  # fmt: skip
FRAMES = (2, 1, 415)  # 30 % of the pages of each
CYCLES = {
    "naive_bayes": 0.16e6, "tikhonov": 0.25e6, "personalized_pagerank": 0.46e6, "neighbors": 1.8e6,
}  # fmt: skip
LIMITS_US = {"tikhonov": 220.0, "naive_bayes": 180.0, "personalized_pagerank": 450.0}
PROCESSES = 5


def run(quick: bool, parts: Sequence[str]) -> Report:
    """Run some parts."""
    report = Report("phone")
    for part in parts:
        with progress(part):
            PARTS[part](report, quick)
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
        before = deal.compute_j / BEFORE_J[path.stem]
        report.rows.append(
            {"job": path.stem, "deal J": deal.compute_j, "operations / original": operations,
             "J / original": whole, "J / incremental": beside, "J before": BEFORE_J[path.stem],
             "J / before": before}
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
        report.check(f"computing of deal against the version before, {path.stem}", "≤ 30 %",
                     f"{before:.1%}", before <= 0.3)  # fmt: skip


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
    learner: Learner, keys: WorkerKeys, connection: type[sqlite3.Connection] = sqlite3.Connection
) -> tuple[Worker, Journal]:
    """Return a worker that the server has welcomed."""
    journal = Journal(connect=partial(sqlite3.connect, factory=connection))
    worker = Worker(
        "job", "w", lambda: type(learner)(**learner.settings), journal, MeasuredMeter(),
        key=b"key", keys=keys,
    )  # fmt: skip
    session = journal.state.session
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
    """Time trainings that learn ten records and evict one: the median of several processes."""
    count = 30 if quick else 300
    for index, learner in enumerate(LEARNERS):
        for model in ("stateless", "resident"):
            processes = [_in_process(index, model, count) for _ in range(1 if quick else PROCESSES)]
            whole, written, statements = np.median(processes, axis=0).tolist()
            report.rows.append(
                {"learner": learner.name, "model": model, "µs a training": whole,
                 "of it, µs in writes and commit": written, "statements": statements,
                 "loops": "compiled"}
            )  # fmt: skip
            if model == "stateless":
                limit, rest = LIMITS_US[learner.name], whole - written
                report.check(f"a training of {learner.name}, without writes and commit",
                             f"≤ {limit:g} µs", f"{rest:.0f} µs", rest <= limit)  # fmt: skip


def _in_process(index: int, model: str, count: int) -> tuple[float, float, float]:
    """Return the median µs of a training, those in writes, and statements, in a new process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_medians, index, model, count).result()


def _medians(index: int, model: str, count: int) -> tuple[float, float, float]:
    CHOICE.mode = "always"
    learner = LEARNERS[index]
    # reading a clock for every statement takes longer than many of them
    whole_s = np.median(train_timed(learner, model, count, sqlite3.Connection)[:, 0])
    parts = train_timed(learner, model, count, TimedConnection)
    written_s, statements = np.median(parts[:, 1:], axis=0).tolist()
    return float(whole_s) * 1e6, written_s * 1e6, statements


def train_timed(
    learner: Learner, model: str, count: int, connection: type[sqlite3.Connection]
) -> NDArray[np.float64]:
    """Return CPU seconds of trainings, those in writes, and the number of statements."""
    worker, journal = make_worker(learner, WorkerKeys(model=model), connection)
    times, draw = [], np.random.default_rng(0)
    for number in range(count + 5):
        worker.ingest(batches(learner, 10 if number else 60 * 50, draw, 10 * number))
        held = journal.count(State.LEARNED)
        *spent, evicted = train(worker, number, f"1/{held}" if held else "0")
        assert evicted <= 1
        times.append(spent)
    return np.array(times[5:])


def train(worker: Worker, number: int, fraction: str) -> tuple[float, float, int, int]:
    """Let a worker train; return CPU seconds, those in writes, statements, and evictions."""
    assignment = Assignment(
        job="job", worker="w", round=number + 1, deadline_s=1e9, forget_fraction=fraction
    )
    exact_fraction(fraction)  # θ of a job is one text, which is read once
    packet = encode([assignment])
    TimedConnection.statements, TimedConnection.written_s = 0, 0.0
    start = time.process_time()
    step = worker.handle(decode(packet), float(number), decoded=True)
    spent = time.process_time() - start, TimedConnection.written_s, TimedConnection.statements
    (update,) = [one for one in step.messages if isinstance(one, Update)]
    receipt = Receipt(
        job="job", worker="w", session=update.session, incarnation=1, sequence=update.sequence
    )
    worker.handle([receipt], float(number))
    return *spent, update.evicted


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


def add_models(report: Report, quick: bool) -> None:
    """Compare live models with central training on what is held, after every training."""
    for learner, frames in zip(LEARNERS, FRAMES, strict=True):
        for memory in (None, Memory(frames=frames)):
            worker, journal = make_worker(learner, WorkerKeys(model="resident", memory=memory))
            count, equal, draw = 5 if quick else 20, 0, np.random.default_rng(0)
            for number in range(count):
                worker.ingest(batches(learner, 100, draw, 100 * number))
                train(worker, number, "0.02")
                central = type(learner)(**learner.settings)
                central.update_records(journal.records(State.LEARNED), ())
                equal += worker.own_model.digest() == central.digest()
            where = "in memory" if memory is None else f"in {frames} page frames (30 %)"
            report.check(f"live models of {learner.name} equal to central training, {where}",
                         f"all of {count}", f"{equal}", equal == count)  # fmt: skip


def add_cycles(report: Report, quick: bool) -> None:
    """Report the calibrated cycles of a call that trains."""
    del quick
    for name, limit in CYCLES.items():
        law = cycles_of(name).train
        assert law is not None
        report.check(f"cycles of a call that trains, {name}", f"≤ {limit / 1e6:g} M",
                     f"{law.per_call / 1e6:.3f} M", law.per_call <= limit)  # fmt: skip


def add_clocks(report: Report, quick: bool) -> None:
    """Compare the control of clocks with every fixed frequency."""
    clocks = run_clocks(quick)
    report.checks += clocks.checks
    report.rows += clocks.rows


PARTS: dict[str, Callable[[Report, bool], None]] = {
    "computing": add_computing,
    "models": add_models,
    "factors": add_factors,
    "pages": add_pages,
    "clocks": add_clocks,
    "times": add_times,
    "cycles": add_cycles,
}

if __name__ == "__main__":
    main(run, __doc__ or "", list(PARTS))
