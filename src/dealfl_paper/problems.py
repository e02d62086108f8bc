"""Datasets of the catalog, made ready for a learner: mapped features, settings, batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dealfl.data import CATALOG, load
from dealfl.features import feature_map
from dealfl.learners import LEARNERS, Learner, settings_for

TIKHONOV = {  # the six datasets of the paper's comparisons, and the learner for each
    "housing": "tikhonov",
    "mushrooms": "tikhonov_classifier",
    "phishing": "tikhonov_classifier",
    "cadata": "tikhonov",
    "yearpredictionmsd-like": "tikhonov",
    "covtype": "tikhonov_classifier",
}

Int64s = NDArray[np.int64]
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


# -- stand-ins of MovieLens' shapes: people, items, ratings and their medians are MovieLens' ------

_LEAST = 20  # ratings of a person, in both datasets
_SPREAD = 1.14  # of the logarithm of the ratings above these: 45 and 76 at the median
_HEAD = 4.6  # how fast the popularity of items falls among the popular ones,
_TAIL = 3.8  # and among the others; fitted to the ratings of items of MovieLens 100k
_MOST = 0.6  # of the items, for one person


class Shape(NamedTuple):
    """The size of a dataset of histories."""

    people: int
    items: int
    ratings: int


SHAPES = {
    "movielens-100k-like": Shape(943, 1_682, 100_000),
    "movielens-1m-like": Shape(6_040, 3_706, 1_000_209),
}


def draw_meetings(shape: Shape, seed: int = 0) -> tuple[tuple[int, ...], ...]:
    """Return the items of each person, in the order of time."""
    rng = np.random.default_rng(seed)
    above = rng.lognormal(0.0, _SPREAD, shape.people)
    above *= (shape.ratings - _LEAST * shape.people) / above.sum()
    lengths = np.minimum(_LEAST + np.rint(above), _MOST * shape.items).astype(np.int64)
    ranks = np.linspace(0.0, 1.0, shape.items)
    chances = -(_HEAD * ranks**0.5 + _TAIL * ranks**4)
    numbers = rng.permutation(shape.items)
    return tuple(
        # the largest of these sums are a draw without replacement, in the order of the draw
        tuple(numbers[np.argsort(-(chances + rng.gumbel(size=shape.items)))[:length]].tolist())
        for length in lengths.tolist()
    )


def as_table(meetings: tuple[tuple[int, ...], ...], items: int) -> sparse.csr_array:
    """Return one row per person, with 1 for each of its items."""
    rows = [sorted(history) for history in meetings]
    starts = np.cumsum([0, *map(len, rows)])
    columns = np.concatenate([np.array(row, dtype=np.int64) for row in rows])
    ones = np.ones(len(columns), dtype=np.int64)
    return sparse.csr_array((ones, columns, starts), shape=(len(rows), items))
