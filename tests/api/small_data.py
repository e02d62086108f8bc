"""Small data of every kind for the tests of the front door."""

from importlib import import_module
from typing import Any

import numpy as np

pd: Any = import_module("pandas")

DRAW = np.random.default_rng(1)
X = DRAW.integers(0, 9, (60, 3)) / 8
LABELS = np.where(X[:, 0] + X[:, 1] > 1, "much", "little")
NUMBERS = X @ [1.0, -2.0, 0.5]
HISTORIES = [sorted({int(i) for i in DRAW.integers(0, 8, 4)}) for _ in range(40)]
LEARNERS = {
    "tikhonov": NUMBERS,
    "tikhonov_classifier": LABELS,
    "naive_bayes": LABELS,
    "neighbors": LABELS,
    "personalized_pagerank": None,
}
SMALL = {"neighbors": {"learner.tables": 2, "learner.vote_bits": 4, "learner.bits": 8}}


def frame_of(learner: str) -> Any:
    if learner == "personalized_pagerank":
        pairs = [(f"u{user}", item) for user, items in enumerate(HISTORIES) for item in items]
        return pd.DataFrame(pairs, columns=["owner", "item"])
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    return frame.assign(target=LEARNERS[learner])
