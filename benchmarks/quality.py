"""How well do the learners predict, beside scikit-learn and brute force on the same split?

`--part examples` runs the example jobs as they are, and compares the federated model with a
prediction without a model and with one computer that learns all examples and forgets none; nearest
neighbours compare true distances there. A difference is marked as noise if it is below 1.96 times
its standard error, which the size of the test set causes.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from problems import Problem, problem
from reporting import Report, main, progress
from sklearn.linear_model import RidgeClassifier  # type: ignore[import-untyped]
from sklearn.naive_bayes import MultinomialNB  # type: ignore[import-untyped]
from sklearn.neighbors import KNeighborsClassifier  # type: ignore[import-untyped]

from dealfl.data import load
from dealfl.learners import PersonalizedPageRank
from dealfl.settings import Document
from dealfl.simulate import finish, read_fleet, standard_error, start_run

EXAMPLES = sorted((Path(__file__).parents[1] / "examples" / "jobs").glob("*.toml"))
ROW_CLASSIFIERS = [
    ("mushrooms", "tikhonov_classifier"),
    ("phishing", "tikhonov_classifier"),
    ("covtype", "tikhonov_classifier"),
    ("digits", "tikhonov_classifier"),
    ("cifar10", "tikhonov_classifier"),
    ("mushrooms", "naive_bayes"),
    ("phishing", "naive_bayes"),
    ("covtype", "naive_bayes"),
    ("digits", "naive_bayes"),
]
NEIGHBORS = ["mushrooms", "phishing", "covtype"]
SLOW = {"covtype", "cifar10"}
K = 10


def counterpart(task: Problem, settings: dict[str, Any]) -> Any:
    """Return scikit-learn's estimator with the same settings."""
    if task.learner == "naive_bayes":
        return MultinomialNB(alpha=settings["smoothing"])
    return RidgeClassifier(alpha=settings["penalty"], solver="cholesky")


def beside_scikit_learn(task: Problem) -> dict[str, Any]:
    """Return both accuracies on the same split."""
    learned, tested = task.split(min(2000, task.X.shape[0] // 4))
    model = task.made()
    model.learn(task.X[learned], task.y[learned])
    oracle = counterpart(task, model.settings)
    shift = np.asarray(model.settings.get("offset", 0.0))
    table = np.asarray(task.X, dtype=np.float64) - shift
    oracle.fit(table[learned], task.y[learned])
    counts = np.unique(task.y[tested], return_counts=True)[1]
    return {
        "dataset": task.dataset,
        "learner": task.learner,
        "tested": len(tested),
        "accuracy": model.score(task.X[tested], task.y[tested]),
        "scikit-learn": float(oracle.score(table[tested], task.y[tested])),
        "commonest class": float(counts.max() / len(tested)),
    }


def neighbors(dataset: str) -> dict[str, Any]:
    """Return accuracies and recall beside exact search, with one setting for all datasets."""
    task = problem(dataset, "neighbors")
    learned, tested = task.split(min(2000, task.X.shape[0] // 4))
    model = task.made()
    model.learn(task.X[learned], task.y[learned], ids=np.arange(len(learned)))
    table = np.asarray(task.X, dtype=np.float64)
    oracle = KNeighborsClassifier(K, algorithm="brute").fit(table[learned], task.y[learned])
    start = time.perf_counter()
    accuracy = model.score(task.X[tested], task.y[tested])
    query_ms = (time.perf_counter() - start) / len(tested) * 1e3
    true_distances = oracle.kneighbors(table[tested], K)[0]
    return {
        "dataset": dataset,
        "tested": len(tested),
        "predict": accuracy,
        "exact kNN": float(oracle.score(table[tested], task.y[tested])),
        "recall@10": _recall(model.nearest(task.X[tested], K), true_distances),
        "predict_votes": model.score_federated(task.X[tested], task.y[tested]),
        "ms a query": query_ms,
    }


def _recall(found: list[Any], true_distances: Any) -> float:
    """Return the share of true neighbours found; an equally distant one is as good."""
    grid = 1e-3  # distances are on our grid, the oracle's are not
    hits = [
        np.sum(distances <= limits[-1] * (1 + 1e-6) + grid * (limits[-1] > 0))
        for (_, distances), limits in zip(found, true_distances, strict=True)
    ]
    return float(np.mean(hits) / K)


def hit_rate(dataset: str, most_owners: int) -> dict[str, Any]:
    """Hide one item of each history; is it among the ten recommended, as by brute force?"""
    examples = load(dataset)
    earlier, hidden = _one_out(examples)
    model = PersonalizedPageRank(earlier.shape[1])
    model.learn(earlier)
    similarity = _all_similarities(earlier)
    owners = np.random.default_rng(3).permutation(earlier.shape[0])[:most_owners]
    hits, brute_hits, same, popular = 0, 0, 0, 0
    counts = np.asarray(earlier.sum(axis=0)).ravel()
    for owner in owners.tolist():
        history = earlier.indices[earlier.indptr[owner] : earlier.indptr[owner + 1]]
        items = model.recommend(np.sort(history), K)[0].tolist()
        brute = _brute_force(similarity, history)
        hits += hidden[owner] in items
        brute_hits += hidden[owner] in brute
        same += items == brute
        unseen = np.where(np.isin(np.arange(len(counts)), history), -1, counts)
        popular += hidden[owner] in np.argsort(-unseen, kind="stable")[:K]
    return {
        "dataset": dataset,
        "owners": len(owners),
        "hit rate@10": hits / len(owners),
        "brute force": brute_hits / len(owners),
        "equal lists": same / len(owners),
        "popularity": popular / len(owners),
    }


def _one_out(examples: Any) -> tuple[Any, Any]:
    """Split off one item of each owner: the latest, of several the smallest, else one at random."""
    histories = examples.histories.copy()
    lengths = np.diff(histories.indptr)
    if examples.times is None:
        drawn = np.random.default_rng(4).random(len(lengths))
        chosen = histories.indptr[:-1] + (drawn * lengths).astype(int)
    else:
        owner_of = np.repeat(np.arange(len(lengths)), lengths)
        order = np.lexsort((histories.indices, -examples.times, owner_of))
        chosen = order[histories.indptr[:-1]]
    hidden = histories.indices[chosen].astype(np.int64)
    histories.data[chosen] = 0
    histories.eliminate_zeros()
    return histories, hidden


def _all_similarities(histories: Any) -> Any:
    table = histories.toarray().astype(np.float64)
    together = table.T @ table
    alone = np.diag(together)
    unions = alone[:, None] + alone[None, :] - together
    similarity = np.divide(together, unions, out=np.zeros_like(together), where=unions > 0)
    np.fill_diagonal(similarity, 0.0)
    return similarity


def _brute_force(similarity: Any, history: Any) -> list[int]:
    scores = similarity[np.sort(history)].sum(axis=0)
    scores[history] = 0.0
    # sums of equal fractions in another order differ in the last bits: those are ties
    order = np.lexsort((np.arange(len(scores)), -np.round(scores, 11)))[:K]
    return [int(item) for item in order if scores[item] > 0]


def example_job(path: Path) -> dict[str, Any]:
    """Return the qualities of an example job, of no model, and of one computer."""
    run = start_run(read_fleet(Document.read(path)))
    run.pump()
    outcome, central = finish(run), run.split.central_quality()
    run.close()
    quality, trivial = outcome.quality or 0.0, outcome.trivial

    def compare(other: float) -> str:
        errors = [standard_error(outcome.metric, one, outcome.tested) for one in (quality, other)]
        difference = quality - other
        return f"{difference:+.4f}" + " (noise)" * (abs(difference) <= 1.96 * math.hypot(*errors))

    return {
        "job": path.stem,
        "metric": outcome.metric,
        "tested": outcome.tested,
        "federated": f"{quality:.4f} ± {1.96 * outcome.quality_error:.4f}",
        "no model": f"{trivial.quality:.4f} ({trivial.name})",
        "better than no model by": compare(trivial.quality),
        "one computer": f"{central or 0.0:.4f}",
        "better than it by": compare(central or 0.0),
    }


def check_examples(report: Report, paths: Sequence[Path]) -> None:
    """Add the table of the example jobs; a loss that is not noise fails."""
    for path in paths:
        with progress(f"example job {path.stem}"):
            row = example_job(path)
        report.rows.append(row)
        for other, key in (
            ("a prediction without a model", "better than no model by"),
            ("one computer with all examples", "better than it by"),
        ):
            holds = not row[key].startswith("-") or row[key].endswith("(noise)")
            report.check(f"{path.stem} beside {other}", "not worse beyond noise", row[key], holds)


def check_learners(report: Report, quick: bool) -> None:
    """Compare the learners with their counterparts; quick leaves the large datasets out."""
    for dataset, learner in ROW_CLASSIFIERS:
        if quick and dataset in SLOW:
            continue
        with progress(f"{learner} on {dataset}"):
            row = beside_scikit_learn(problem(dataset, learner))
        report.rows.append(row)
        report.check(
            f"accuracy of {learner} on {dataset}",
            "within 0.5 point of scikit-learn's",
            f"{row['accuracy']:.4f} beside {row['scikit-learn']:.4f}",
            row["accuracy"] >= row["scikit-learn"] - 0.005,
        )
        if (dataset, learner) == ("digits", "tikhonov_classifier"):
            report.check(
                "digits with 256 seeded ReLU features", "≥ .97", f"{row['accuracy']:.4f}",
                row["accuracy"] >= 0.97,
            )  # fmt: skip
    for dataset in NEIGHBORS:
        if quick and dataset in SLOW:
            continue
        with progress(f"neighbors on {dataset}"):
            row = neighbors(dataset)
        report.rows.append(row)
        report.check(
            f"neighbors on {dataset}",
            "within 1 point of exact kNN, recall@10 ≥ .95",
            f"{row['predict']:.4f} beside {row['exact kNN']:.4f}, recall {row['recall@10']:.4f}; "
            f"by votes {row['predict_votes']:.4f}",
            row["predict"] >= row["exact kNN"] - 0.01 and row["recall@10"] >= 0.95,
        )
    for dataset in ("movielens", "jester"):
        with progress(f"recommendations on {dataset}"):
            row = hit_rate(dataset, 500 if quick else 5000)
        report.rows.append(row)
        report.check(
            f"hit rate@10, leave one out, on {dataset}",
            "equal to brute force, list by list",
            f"{row['hit rate@10']:.4f}, {row['equal lists']:.2%} of the lists equal",
            row["equal lists"] == 1.0 and row["hit rate@10"] == row["brute force"],
        )


def run(quick: bool, parts: Sequence[str]) -> Report:
    """Run the parts; quick leaves the large datasets and all example jobs but one out."""
    report = Report("quality")
    if "learners" in parts:
        check_learners(report, quick)
    if "examples" in parts:
        check_examples(report, EXAMPLES[-1:] if quick else EXAMPLES)
    return report


if __name__ == "__main__":
    main(run, __doc__ or "", ("learners", "examples"))
