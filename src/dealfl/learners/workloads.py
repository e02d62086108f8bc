"""Workloads for calibration: settings of a learner, and seeded batches of any size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["Batch", "Workload", "histories", "labelled_rows", "numbered_rows"]

N_FEATURES = 64
N_ITEMS = 1000
CLASSES = list(range(10))
HIGHEST = 16.0
_MEDIAN_HISTORY = 30

NUMBERED = {"n_features": N_FEATURES, "feature_bound": HIGHEST, "target_bound": HIGHEST}
LABELLED = {"n_features": N_FEATURES, "feature_bound": HIGHEST, "classes": CLASSES}

Batch = tuple[Any, ...]


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
    lengths = generator.lognormal(np.log(_MEDIAN_HISTORY), 0.5, count).clip(2, 300).astype(int)
    popularity = 1.0 / np.arange(1, N_ITEMS + 1)
    popularity /= popularity.sum()
    items = [generator.choice(N_ITEMS, n, replace=False, p=popularity) for n in lengths.tolist()]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    ones = np.ones(ends[-1])
    table = sparse.csr_matrix((ones, np.concatenate(items), ends), shape=(count, N_ITEMS))
    table.sort_indices()
    return (table,)
