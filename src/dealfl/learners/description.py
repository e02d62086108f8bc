"""What a learner states about itself: settings for data of some limits, and workloads to time it.

The limits of data are known before any example; learners derive settings from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import needs_extra

Batch = tuple[Any, ...]
Bound = float | Sequence[float]  # one per feature, or one number if all are equal

N_FEATURES = 64
N_ITEMS = 1000
CLASSES = list(range(10))
HIGHEST = 16.0
_MEDIAN_HISTORY = 30

NUMBERED = {"n_features": N_FEATURES, "feature_bound": HIGHEST, "target_bound": HIGHEST}
LABELLED = {"n_features": N_FEATURES, "feature_bound": HIGHEST, "classes": CLASSES}


class FeatureLimits(Protocol):
    """The limits of the features that a learner receives."""

    @property
    def n_features(self) -> int:
        """The number of features."""

    @property
    def magnitude(self) -> Bound:
        """The largest absolute value of each feature."""

    @property
    def lowest(self) -> Bound:
        """The smallest value of each feature."""

    @property
    def span(self) -> Bound:
        """The distance from the smallest to the largest value of each feature."""

    @property
    def centre(self) -> Bound:
        """The typical value of each feature."""

    @property
    def radius(self) -> Bound:
        """The largest distance of each feature from its centre."""


class DataLimits(Protocol):
    """What a dataset declares: its task, and the limits of features, targets and items."""

    @property
    def name(self) -> str:
        """The name of the dataset."""

    @property
    def task(self) -> str:
        """What can be learned, for example "classification"."""

    @property
    def classes(self) -> Sequence[Any]:
        """The classes of a classification dataset."""

    @property
    def target_bound(self) -> float:
        """The largest magnitude of the target of a regression dataset."""

    @property
    def n_items(self) -> int:
        """The number of items of a recommendation dataset."""

    @property
    def tuning(self) -> Mapping[str, Mapping[str, Any]]:
        """Settings that suit this data better than the defaults, by learner."""

    def domain_for(self, learner: str) -> FeatureLimits:
        """Return the limits of the features that a learner receives.

        Parameters
        ----------
        learner : str
            Name of the learner.

        Returns
        -------
        FeatureLimits
            Limits after the feature map for this learner, if any.
        """


@dataclass(frozen=True, slots=True)
class Workload:
    """Settings of a learner, and batches that span at least two decades of work.

    Parameters
    ----------
    settings : mapping of str to object
        Constructor arguments of the learner.
    batch : callable
        Returns the arguments of `learn` from a random generator and a number of examples.
    fewest : int
        Examples of the smallest batch.
    most : int
        Examples of the largest batch.
    """

    settings: Mapping[str, Any]
    batch: Callable[[np.random.Generator, int], Batch]
    fewest: int
    most: int


def _rows(generator: np.random.Generator, count: int) -> NDArray[np.float64]:
    return generator.integers(0, int(HIGHEST) + 1, (count, N_FEATURES)).astype(np.float64)


def numbered_rows(generator: np.random.Generator, count: int) -> Batch:
    """Return rows whose targets are numbers from 0 to `HIGHEST`."""
    rows = _rows(generator, count)
    return rows, rows.mean(axis=1)


def labelled_rows(generator: np.random.Generator, count: int) -> Batch:
    """Return rows whose targets are `CLASSES`."""
    return _rows(generator, count), generator.integers(0, len(CLASSES), count)


def histories(generator: np.random.Generator, count: int) -> Batch:
    """Return histories of log-normal length; the popularity of items follows Zipf's law."""
    with needs_extra("scipy", "a sparse table of histories"):
        from scipy import sparse

    lengths = generator.lognormal(np.log(_MEDIAN_HISTORY), 0.5, count).clip(2, 300).astype(int)
    popularity = 1.0 / np.arange(1, N_ITEMS + 1)
    popularity /= popularity.sum()
    items = [generator.choice(N_ITEMS, n, replace=False, p=popularity) for n in lengths.tolist()]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    ones = np.ones(ends[-1])
    table = sparse.csr_matrix((ones, np.concatenate(items), ends), shape=(count, N_ITEMS))
    table.sort_indices()
    return (table,)
