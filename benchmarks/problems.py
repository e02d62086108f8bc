"""Real datasets made ready for a learner: features mapped, settings from the catalog."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dealfl.data import CATALOG, load
from dealfl.features import feature_map
from dealfl.learners import LEARNERS, settings_for


@dataclass(frozen=True)
class Problem:
    """A dataset as one learner sees it."""

    dataset: str
    learner: str
    X: Any
    y: Any

    def made(self, **other: Any) -> Any:
        """Return an empty learner with the catalog's settings."""
        return LEARNERS[self.learner](**(settings_for(self.learner, CATALOG[self.dataset]) | other))

    def split(self, tested: int, seed: int = 0) -> tuple[Any, Any]:
        """Return the places to learn and to test."""
        order = np.random.default_rng(seed).permutation(self.X.shape[0])
        return order[tested:], order[:tested]


def problem(dataset: str, learner: str, rows: int | None = None) -> Problem:
    """Load a dataset for a learner."""
    examples = load(dataset, rows=rows)
    X = examples.features
    table = CATALOG[dataset].feature_map(learner)
    if table is not None:
        X = feature_map(table, X.shape[1]).transform(X)
    return Problem(dataset, learner, X, examples.targets)
