"""What is timed in a calibration: a learner on batches of any size, made from a seed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

if TYPE_CHECKING:
    from dealfl.learners.base import Learner

__all__ = ["TimedLearner", "Workload", "histories", "labelled_rows", "numbered_rows"]

N_FEATURES = 64
N_ITEMS = 1000
CLASSES = list(range(10))
HIGHEST = 16.0
_MEDIAN_HISTORY = 30

NUMBERED = {"n_features": N_FEATURES, "feature_bound": HIGHEST, "target_bound": HIGHEST}
LABELLED = {"n_features": N_FEATURES, "feature_bound": HIGHEST, "classes": CLASSES}

Batch = tuple[Any, ...]
Call = Callable[[int], tuple[int, float]]  # of one of the sizes: operations, and the time
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Workload:
    """Settings of a learner, and batches for it that span two decades of work or more.

    `batch(generator, count)` returns what `learn` takes for that many examples.
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
    """Return histories of log-normal length, of items whose popularity falls by Zipf's law."""
    lengths = generator.lognormal(np.log(_MEDIAN_HISTORY), 0.5, count).clip(2, 300).astype(int)
    popularity = 1.0 / np.arange(1, N_ITEMS + 1)
    popularity /= popularity.sum()
    items = [generator.choice(N_ITEMS, n, replace=False, p=popularity) for n in lengths.tolist()]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    ones = np.ones(ends[-1])
    table = sparse.csr_matrix((ones, np.concatenate(items), ends), shape=(count, N_ITEMS))
    table.sort_indices()
    return (table,)


class TimedLearner:
    """A learner that can be timed as it learns or forgets, or as a worker trains with it.

    Learning is timed on a model that holds little, forgetting on one that holds as much as is ever
    timed: what a model holds is what it must look through to forget. A worker holds no model while
    it trains: it reads records and computes what they add or take back.
    """

    actions = ("learn", "forget", "train")

    def __init__(
        self, kind: type[Learner], workload: Workload, clock: Clock = time.process_time
    ) -> None:
        self.name, self.fewest, self.most = kind.name, workload.fewest, workload.most
        self._kind, self._workload, self._clock = kind, workload, clock

    def call(self, action: str, sizes: Sequence[int]) -> Call:
        """Return what does an action with one of the sizes, and times it.

        The clock counts the processor's time: what else runs here stretches long trainings only.
        """
        calls = {"learn": self._learning, "forget": self._forgetting, "train": self._training}
        return calls[action](sizes)

    def made(self) -> Learner:
        """Return an empty learner."""
        return self._kind(**self._workload.settings)

    def _batches(self, sizes: Sequence[int]) -> list[Batch]:
        generator = np.random.default_rng(0)
        return [self._workload.batch(generator, size) for size in sizes]

    def _learning(self, sizes: Sequence[int]) -> Call:
        batches = self._batches(sizes)

        def learn(place: int) -> tuple[int, float]:
            model = self.made()
            model.learn(*batches[0])  # a worker's model is in memory before it trains
            start = self._clock()
            model.learn(*batches[place])
            return model.last_work.operations, self._clock() - start

        return learn

    def _forgetting(self, sizes: Sequence[int]) -> Call:
        (held,) = self._batches(sizes[-1:])
        model = self.made()
        model.learn(*held)

        def forget(place: int) -> tuple[int, float]:
            batch = tuple(part[: sizes[place]] for part in held)
            start = self._clock()
            model.forget(*batch)
            elapsed_s = self._clock() - start
            operations = model.last_work.operations
            model.learn(*batch)
            return operations, elapsed_s

        return forget

    def _training(self, sizes: Sequence[int]) -> Call:
        batches = [self._kind.records_of(*batch) for batch in self._batches(sizes)]

        def train(place: int) -> tuple[int, float]:
            start = self._clock()
            model = self.made()
            model.learn_records(batches[place])
            return model.last_work.operations, self._clock() - start

        return train
