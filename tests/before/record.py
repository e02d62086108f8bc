"""What a version of dealfl computes, written down so that a later one can be held against it.

`python -m tests.before.record FOLDER` writes statistics, saved models and the figures of short runs
(`--whole`: of whole example jobs), through the public names and commands alone.
"""

import argparse
import contextlib
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from dealfl.cli import main
from dealfl.learners import (
    Learner,
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
    Tikhonov,
    TikhonovClassifier,
)

JOBS = sorted((Path(__file__).parents[2] / "examples" / "jobs").glob("*.toml"))
SHORT = {
    "job.rounds": "4",
    "job.evaluate_every": "2",
    "arrival.initial_share": "0.5",
    "data.rows": "600",
    **{f"devices.{group}.count": "2" for group in range(1, 6)},
}
DIGITS = {"job.max_h": "3.0"}

_ROUND = [
    "number",
    "reason",
    "closed_at_s",
    "quality",
    "able",
    "selected",
    "replied",
    "learned",
    "evicted",
    "compute_j",
    "operating_j",
    "radio_j",
]
_PARTICIPANT = [
    "name",
    "device",
    "selected",
    "replied",
    "learned",
    "held",
    "compute_j",
    "radio_j",
    "battery",
]
_OUTCOME = [
    "learner",
    "metric",
    "quality",
    "learned",
    "evicted",
    "not_learned",
    "updates",
    "ended",
    "operations",
    "energy_j",
    "virtual_s",
    "digest",
    "central_digest",
]


def learners() -> dict[str, Learner]:
    """Return one learner of each kind that has learned and forgotten."""
    generator = np.random.default_rng(20)
    X = generator.uniform(-3, 5, (60, 7))
    y, labels = X @ np.arange(7.0), generator.integers(0, 3, 60)
    classes = ["ham", "spam", "other"]
    named = np.array(classes)[labels]
    bounds = [8.0, 4.0, 5.0, 5.0, 100.0, 5.0, 16.0]
    X = np.clip(X, -np.array(bounds), bounds)
    made: dict[str, Any] = {
        "tikhonov": Tikhonov(7, 0.5, feature_bound=bounds, target_bound=128.0, intercept=True),
        "tikhonov_classifier": TikhonovClassifier(7, classes, feature_bound=bounds),
        "naive_bayes": NaiveBayes(7, classes, 0.5, feature_bound=8.0, offset=-3.0),
        "neighbors": Neighbors(7, classes, k=3, seed=5, feature_bound=8.0, offset=1.0),
    }
    targets = {"tikhonov": y}
    for name, learner in made.items():
        target = targets.get(name, named)
        learner.learn(X, target)
        learner.forget(X[10:20], target[10:20])
    histories = sparse.csr_array(generator.random((40, 30)) < 0.2).astype(np.int64)
    pagerank = PersonalizedPageRank(30)
    pagerank.learn(histories)
    pagerank.forget(histories[5:9])
    return made | {"personalized_pagerank": pagerank}


def run(job: Path | None, values: dict[str, str], *options: str) -> dict[str, Any]:
    """Return what came out of `dealfl run`, scheme by scheme, as far as it must not change."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["run", *([str(job)] if job else []), "--json", "--out", folder, *options]
        words += [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            assert main(words) == 0, words
    outcomes = json.loads(printed.getvalue())["outcomes"]
    return {scheme: _figures(outcome) for scheme, outcome in outcomes.items()}


def _figures(outcome: dict[str, Any]) -> dict[str, Any]:
    figures = {name: outcome[name] for name in _OUTCOME}
    figures["by_cause_j"] = outcome["energy"]["by_cause_j"]
    figures["saved_j"] = outcome["energy"]["saved_j"]
    figures["rounds"] = [[one[name] for name in _ROUND] for one in outcome["rounds"]]
    figures["participants"] = [
        [one[name] for name in _PARTICIPANT] for one in outcome["participants"]
    ]
    return figures


def short_run(name: str) -> dict[str, Any]:
    """Return a short run of an example job, or of the main job under all schemes."""
    if name == "digits":
        return run(None, DIGITS)
    return run(next(job for job in JOBS if job.stem == name), SHORT, "--no-compare")


def whole_runs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all example jobs as they are, and the main job."""
    yield "digits", run(None, {})
    for job in JOBS:
        yield job.stem, run(job, {}, "--no-compare")


def _record(folder: Path, *, whole: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not whole:
        for name, learner in learners().items():
            (folder / f"{name}.statistics").write_bytes(learner.statistics.to_bytes())
            learner.save(folder / f"{name}.model")
    names = ["digits", *(job.stem for job in JOBS)]
    runs = dict(whole_runs()) if whole else {name: short_run(name) for name in names}
    text = json.dumps(runs, indent=None, separators=(",", ":"), ensure_ascii=False)
    (folder / ("whole_runs.json" if whole else "short_runs.json")).write_text(text + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--whole", action="store_true")
    given = parser.parse_args()
    _record(given.folder, whole=given.whole)
