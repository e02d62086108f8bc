"""What a machine computes: the contract of every learner, and digests of random histories.

Prints one JSON object; `arm64/trial.py` runs this on two machines and compares.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from dealfl.exact import short_float
from dealfl.learners import (
    Learner,
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
    Tikhonov,
    TikhonovClassifier,
)
from dealfl.learners.checks import (
    check_files,
    check_impossible,
    check_learner,
    check_refusals,
)
from tests.learners.subjects import SUBJECTS

HISTORIES, STEPS, INTERLEAVINGS = 200, 4, 5
FEATURES, ITEMS, MAX_ROWS = 12, 40, 24
CLASSES = list(range(4))

MAKERS: dict[str, Callable[[], Learner]] = {
    "tikhonov": lambda: Tikhonov(FEATURES, feature_bound=3.0, target_bound=8.0, intercept=True),
    "tikhonov_classifier": lambda: TikhonovClassifier(FEATURES, CLASSES, feature_bound=3.0),
    "naive_bayes": lambda: NaiveBayes(FEATURES, CLASSES, feature_bound=6.0, offset=-3.0),
    "neighbors": lambda: Neighbors(
        FEATURES, CLASSES, tables=4, bits=24, vote_bits=8, feature_bound=3.0
    ),
    "personalized_pagerank": lambda: PersonalizedPageRank(ITEMS),
}


def draw(name: str, random: np.random.Generator) -> tuple[Any, ...]:
    """Return a batch of examples; floats come from integers, so that every machine has the same.

    Half of the batches are whole numbers: products of such are computed in shorter floats.
    """
    rows = int(random.integers(1, MAX_ROWS))
    if name == "personalized_pagerank":
        return ([np.flatnonzero(row).tolist() for row in random.integers(0, 4, (rows, ITEMS)) < 1],)
    unit = 2 ** (40 * int(random.integers(2)))
    X = random.integers(-3 * unit, 3 * unit, (rows, FEATURES)) / unit
    if name == "tikhonov":
        return X, random.integers(-8 * unit, 8 * unit, rows) / unit
    return X, random.integers(0, len(CLASSES), rows)


def digests(name: str) -> list[str]:
    """Return the digest after each random history: learn batches, forget some, learn again."""
    found = []
    for seed in range(HISTORIES):
        random, model, held = np.random.default_rng(seed), MAKERS[name](), []
        for _ in range(STEPS):
            held.append(draw(name, random))
            model.learn(*held[-1])
            if len(held) > 1 and random.integers(2):
                model.forget(*held.pop(int(random.integers(len(held)))))
        found.append(model.digest())
    return found


def main() -> None:
    """Check the contract, compute the digests, and print both."""
    kind = short_float().__name__
    print(f"{platform.machine()}: short products are computed as {kind}", file=sys.stderr)
    for subject in SUBJECTS.values():
        check_learner(subject, interleavings=INTERLEAVINGS)
        check_refusals(subject)
        check_impossible(subject)
        check_files(subject)
        print(f"{platform.machine()}: {subject.name} keeps its contract", file=sys.stderr)
    found = {"machine": platform.machine(), "digests": {name: digests(name) for name in MAKERS}}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
