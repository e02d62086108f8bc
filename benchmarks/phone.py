"""The phone of the paper: computing of the example jobs, resident models, their pages, their time.

Energy is modelled from the profiles of phones. Times are CPU time of this machine.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from pathlib import Path
from statistics import median

import numpy as np
from reporting import Report, main, progress

from dealfl.learners import Histories, Learner, NaiveBayes, PersonalizedPageRank, Rows, Tikhonov
from dealfl.messages import Assignment, Receipt, Update, Welcome
from dealfl.settings import Document
from dealfl.simulate import read_fleet, run_fleet
from dealfl.worker import Journal, MeasuredMeter, Worker, WorkerKeys

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


def make_worker(learner: Learner, keys: WorkerKeys, fraction: str) -> tuple[Worker, Journal]:
    """Return a worker that the server has welcomed."""
    journal = Journal()
    worker = Worker(
        "job", "w", lambda: type(learner)(**learner.settings), journal, MeasuredMeter(),
        key=b"key", forget_fraction=fraction, keys=keys,
    )  # fmt: skip
    session = int(journal.setting("session", "0"))
    worker.handle(
        [Welcome(job="job", worker="w", incarnation=1, session=session, journal_id=journal.id)], 0.0
    )
    return worker, journal


def batches(learner: Learner, count: int, draw: np.random.Generator) -> list[tuple[str, bytes]]:
    """Return new records: rows of 54 features, or items of five owners."""
    if isinstance(learner, PersonalizedPageRank):
        items = draw.integers(0, learner.n_items, count).tolist()
        return [(f"owner {n % 5}", Histories.encode(item)) for n, item in enumerate(items)]
    X = draw.uniform(0, 1, (count, 54))
    targets = X.sum(axis=1) if isinstance(learner, Tikhonov) else draw.integers(0, 7, count)
    return [("owner", Rows.encode(x, y)) for x, y in zip(X, targets, strict=True)]


def add_times(report: Report, quick: bool) -> None:
    """Time trainings that learn ten records and evict about one, in a worker process."""
    learners: list[Learner] = [
        Tikhonov(54, target_bound=64.0), NaiveBayes(54, list(range(7))), PersonalizedPageRank(1682),
    ]  # fmt: skip
    for learner in learners:
        for model in ("stateless", "resident"):
            worker, _ = make_worker(learner, WorkerKeys(model=model), "0.004")
            draw, times = np.random.default_rng(0), []
            for number in range(1, 60 if quick else 200):
                worker.ingest(batches(learner, 10 if number > 1 else 250, draw))
                assignment = Assignment(job="job", worker="w", round=number, deadline_s=1e9)
                start = time.process_time()
                step = worker.handle([assignment], float(number))
                times.append(time.process_time() - start)
                (update,) = [one for one in step.messages if isinstance(one, Update)]
                receipt = Receipt(
                    job="job", worker="w", session=update.session, incarnation=1,
                    sequence=update.sequence,
                )  # fmt: skip
                worker.handle([receipt], float(number))
            micros = median(times[5:]) * 1e6
            report.rows.append({"learner": learner.name, "model": model, "µs a training": micros})
            if model == "stateless":
                limit = LIMITS_US[learner.name]
                report.check(f"a training of {learner.name}, commit in memory included",
                             f"≤ {limit:g} µs", f"{micros:.0f} µs", micros <= limit)  # fmt: skip


def add_factors(report: Report, quick: bool) -> None:
    """Count the factorisations of resident workers with solver = qr."""
    del quick
    for name, features in (("housing", 13), ("cadata", 8)):
        learner = Tikhonov(features, target_bound=64.0, solver="qr", intercept=True)
        worker, _ = make_worker(learner, WorkerKeys(model="resident"), "0.02")
        draw, trainings, computed = np.random.default_rng(0), 100, 0
        for number in range(1, trainings + 1):
            X = draw.uniform(0, 1, (40 if number == 1 else 3, features))
            worker.ingest([("owner", Rows.encode(x, x.sum())) for x in X])
            worker.handle(
                [Assignment(job="job", worker="w", round=number, deadline_s=1e9)], 1.0 * number
            )
            own = worker.own_model
            assert isinstance(own, Tikhonov)
            assert len(own.weights) == features
            computed = own.factorisations
        share = 1.0 - computed / trainings
        report.check(f"trainings without refactorisation, qr, size of {name}", "≥ 90 %",
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
