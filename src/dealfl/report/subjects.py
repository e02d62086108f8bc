"""What is timed in a calibration: each learner of the paper, with batches of any size."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dealfl.learners import LEARNERS

__all__ = ["SUBJECTS", "Batch", "Subject"]

_FEATURES = 64
_CLASSES = list(range(10))
_HIGHEST = 16
_ITEMS = 1000
_MEDIAN_HISTORY = 30

Batch = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """A learner to be timed on batches that span two decades, and more at both ends."""

    learner: str
    settings: Mapping[str, object]
    batch: Callable[[np.random.Generator, int], Batch]
    fewest: int
    most: int

    def made(self) -> Any:  # noqa: ANN401 - any learner
        """Return an empty learner."""
        made: Any = LEARNERS[self.learner]
        return made(**self.settings)


def _rows(generator: np.random.Generator, count: int) -> NDArray[np.float64]:
    return generator.integers(0, _HIGHEST + 1, (count, _FEATURES)).astype(np.float64)


def _regression(generator: np.random.Generator, count: int) -> Batch:
    rows = _rows(generator, count)
    return rows, rows.mean(axis=1)


def _classification(generator: np.random.Generator, count: int) -> Batch:
    return _rows(generator, count), generator.integers(0, len(_CLASSES), count)


def _histories(generator: np.random.Generator, count: int) -> Batch:
    """Return histories of log-normal length, of items whose popularity falls by Zipf's law."""
    lengths = generator.lognormal(np.log(_MEDIAN_HISTORY), 0.5, count).clip(2, 300).astype(int)
    popularity = 1.0 / np.arange(1, _ITEMS + 1)
    popularity /= popularity.sum()
    items = [generator.choice(_ITEMS, n, replace=False, p=popularity) for n in lengths.tolist()]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    ones = np.ones(ends[-1])
    histories = sparse.csr_matrix((ones, np.concatenate(items), ends), shape=(count, _ITEMS))
    histories.sort_indices()
    return (histories,)


_OF_ROWS = {"n_features": _FEATURES, "feature_bound": float(_HIGHEST)}
_OF_CLASSES = _OF_ROWS | {"classes": _CLASSES}
_CENTRED = _OF_CLASSES | {"offset": _HIGHEST / 2}
SUBJECTS = (
    Subject("tikhonov", _OF_ROWS | {"target_bound": float(_HIGHEST)}, _regression, 50, 10_000),
    Subject("tikhonov_classifier", _OF_CLASSES, _classification, 50, 10_000),
    Subject("naive_bayes", _OF_CLASSES, _classification, 100, 20_000),
    Subject("neighbors", _CENTRED, _classification, 10, 2_000),
    Subject("personalized_pagerank", {"n_items": _ITEMS}, _histories, 2, 400),
)
