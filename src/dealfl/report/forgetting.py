"""Learning, forgetting and training from scratch on handwritten digits, with digests and times."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.datasets import CATALOG, load
from dealfl.errors import BadInput
from dealfl.features import feature_map
from dealfl.learners import LEARNERS

__all__ = ["LEARNERS_SHOWN", "Digits", "Outcome", "run", "split_digits"]

LEARNERS_SHOWN = ("tikhonov_classifier", "naive_bayes", "neighbors")

_TESTED = 400


@dataclass(frozen=True, slots=True)
class Digits:
    """Handwritten digits: some to learn, the first of which are forgotten, others to test with."""

    features: NDArray[Any]
    targets: NDArray[Any]
    learned: int
    forgotten: int

    @property
    def tested(self) -> int:
        """How many are left to test with."""
        return len(self.targets) - self.learned


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one learner did; times are of the wall clock, measured on this machine."""

    learner: str
    accuracy: float
    accuracy_after: float
    learned_digest: str
    forgotten_digest: str
    scratch_digest: str
    relearned_digest: str
    forget_one_s: float
    retrain_s: float

    @property
    def exact(self) -> bool:
        """Whether nothing is left of what was forgotten, and everything came back."""
        left_nothing = self.forgotten_digest == self.scratch_digest
        return left_nothing and self.relearned_digest == self.learned_digest

    def as_dict(self) -> dict[str, object]:
        """Return all of it for a JSON file."""
        return asdict(self) | {"exact": self.exact}


def split_digits(seed: int, forget: int) -> Digits:
    """Return the digits in the order of a seed."""
    examples = load("digits")
    assert examples.targets is not None
    learned = len(examples) - _TESTED
    if not 1 <= forget < learned:
        raise BadInput(f"--forget must be from 1 to {learned - 1}, not {forget}")
    if seed < 0:
        raise BadInput(f"--seed must be from 0 on, not {seed}")
    order = np.random.default_rng(seed).permutation(len(examples))
    features = np.asarray(examples.features)[order]
    return Digits(features, examples.targets[order], learned, forget)


def run(digits: Digits, learner: str) -> Outcome:
    """Let a learner learn, forget one by one, and learn back; train another from scratch."""
    entry = CATALOG["digits"]
    table = entry.feature_map(learner)
    X, y = digits.features, digits.targets
    if table is not None:
        X = feature_map(table, X.shape[1]).transform(X)

    def made() -> Any:  # noqa: ANN401 - any learner of rows and classes
        return LEARNERS[learner](**entry.settings(learner))

    learned, gone = digits.learned, digits.forgotten
    test = slice(learned, None)
    model, scratch = made(), made()
    model.learn(X[:learned], y[:learned])
    first, accuracy = model.digest(), model.score(X[test], y[test])
    forget_s = _timed(lambda: [model.forget(X[i : i + 1], y[i : i + 1]) for i in range(gone)])
    forgotten, accuracy_after = model.digest(), model.score(X[test], y[test])
    retrain_s = _timed(lambda: scratch.learn(X[gone:learned], y[gone:learned]))
    model.learn(X[:gone], y[:gone])
    return Outcome(
        learner, accuracy, accuracy_after, first, forgotten, scratch.digest(), model.digest(),
        forget_s / gone, retrain_s,
    )  # fmt: skip


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
