"""A learner on its workload, with a clock around each call."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from dealfl.learners.base import Learner
from dealfl.learners.workloads import Batch, Workload

__all__ = ["TimedLearner"]

Call = Callable[[int], tuple[int, float]]  # of one of the sizes: operations, and the time
Clock = Callable[[], float]


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
