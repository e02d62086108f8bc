"""Datasets of the catalog, made ready for a learner: mapped features, settings, batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.data import CATALOG, load
from dealfl.features import feature_map
from dealfl.learners import LEARNERS, Learner, settings_for
from dealfl_paper.stand_ins import SHAPES, as_table, draw_meetings

TIKHONOV = {  # the six datasets of the paper's comparisons, and the learner for each
    "housing": "tikhonov",
    "mushrooms": "tikhonov_classifier",
    "phishing": "tikhonov_classifier",
    "cadata": "tikhonov",
    "yearpredictionmsd-like": "tikhonov",
    "covtype": "tikhonov_classifier",
}

Batch = tuple[Any, ...]  # the arguments of `learn`


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A dataset as one learner receives it.

    `meetings` has the items of each history in the order of time; it is empty for rows.
    """

    dataset: str
    learner: str
    features: Any
    targets: NDArray[Any] | None
    meetings: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return int(self.features.shape[0])

    def make(self) -> Learner:
        """Return an empty learner with the settings of the catalog, or of a stand-in's shape."""
        if self.dataset in SHAPES:
            settings: dict[str, Any] = {"n_items": SHAPES[self.dataset].items}
        else:
            settings = settings_for(self.learner, CATALOG[self.dataset])
        return LEARNERS[self.learner](**settings)

    def batch(self, indices: Sequence[int] | NDArray[np.int64]) -> Batch:
        """Return examples as arguments of `learn`."""
        if self.targets is None:
            return (self.features[indices],)
        return self.features[indices], self.targets[indices]

    def history(self, items: Sequence[int]) -> Batch:
        """Return one history as the argument of `learn`."""
        row = np.zeros((1, self.features.shape[1]), np.int64)
        row[0, list(items)] = 1
        return (type(self.features)(row),)


load_examples = lru_cache(maxsize=2)(partial(load, download=False))


@lru_cache(maxsize=1)
def load_problem(dataset: str, learner: str, rows: int | None = None) -> Problem:
    """Load a dataset for a learner; `rows` examples are drawn from all of it by a fixed seed."""
    if dataset in SHAPES:
        drawn = draw_meetings(SHAPES[dataset])
        return Problem(dataset, learner, as_table(drawn, SHAPES[dataset].items), None, drawn)
    examples = load_examples(dataset)
    indices = np.arange(len(examples))
    if rows is not None and rows < len(indices):
        indices = np.sort(np.random.default_rng(0).permutation(len(indices))[:rows])
    features = examples.features[indices]
    if examples.targets is None:
        meetings = tuple(
            tuple(item for _, item in examples.meetings(int(index))) for index in indices
        )
        return Problem(dataset, learner, features, None, meetings)
    mapped = map_features(dataset, learner, features)
    return Problem(dataset, learner, mapped, examples.targets[indices], ())


def map_features(dataset: str, learner: str, rows: Any) -> Any:  # noqa: ANN401 - a matrix
    """Return rows as the learner receives them, by the feature map of the catalog."""
    table = CATALOG[dataset].feature_map(learner)
    return rows if table is None else feature_map(table, rows.shape[1]).transform(rows)


def is_stand_in(dataset: str) -> bool:
    """Return whether a dataset is generated in place of one of the paper."""
    return dataset == "yearpredictionmsd-like" or dataset in SHAPES


def count_examples(dataset: str) -> int:
    """Return the number of examples, from the catalog; an example is a row or a history."""
    return {"movielens": 943}.get(dataset, CATALOG[dataset].rows)
