"""A learner whose calls are timed, for calibration."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from dealfl.learners.base import Learner
from dealfl.learners.description import Batch, Workload
from dealfl.learners.records import StoredRecord

_HELD = 100  # examples of a live model
_REVIEWING = 10  # examples that review it
_FEATURES = (8, 256)  # fewest and most

Call = Callable[[int], tuple[int, float]]  # from the index of a size to operations and seconds
Clock = Callable[[], float]


class TimedLearner:
    """A learner whose learning, forgetting and training can be timed.

    Learning is timed on a model that holds few examples, forgetting on one that holds the largest
    batch, because forgetting searches the held examples. Training has no model in memory: it reads
    stored records and computes the statistics to add or subtract. Updating does the same and
    changes a live model. Reviewing scores a live model that has just changed.

    Parameters
    ----------
    kind : type of Learner
        Class of the learner.
    workload : Workload
        Settings and batches.
    clock : callable, optional
        Returns a time in seconds; by default the CPU time of this process.
    """

    actions = ("learn", "forget", "train", "update", "review")

    def __init__(
        self, kind: type[Learner], workload: Workload, clock: Clock = time.process_time
    ) -> None:
        self.name, self.fewest, self.most = kind.name, workload.fewest, workload.most
        self._kind, self._workload, self._clock = kind, workload, clock

    def call(self, action: str, sizes: Sequence[int]) -> Call:
        """Return a function that performs an action and times it.

        Parameters
        ----------
        action : {"learn", "forget", "train", "update", "review"}
            Action to time.
        sizes : sequence of int
            Numbers of examples of the batches.

        Returns
        -------
        callable
            Takes the index of a size; returns the operations and the time in seconds.
        """
        calls = {
            "learn": self._learning,
            "forget": self._forgetting,
            "train": self._training,
            "update": self._updating,
            "review": self._reviewing,
        }
        return calls[action](sizes)

    def made(self) -> Learner:
        """Return an empty learner."""
        return self._kind(**self._workload.settings)

    def _batches(self, sizes: Sequence[int]) -> list[Batch]:
        generator = np.random.default_rng(0)
        return [self._workload.batch(generator, size) for size in sizes]

    def _learning(self, sizes: Sequence[int]) -> Call:
        batches = self._batches(sizes)

        def learn(index: int) -> tuple[int, float]:
            model = self.made()
            model.learn(*batches[0])  # a worker's model is in memory before it trains
            start = self._clock()
            model.learn(*batches[index])
            return model.last_work.operations, self._clock() - start

        return learn

    def _forgetting(self, sizes: Sequence[int]) -> Call:
        (examples,) = self._batches(sizes[-1:])
        model = self.made()
        model.learn(*examples)

        def forget(index: int) -> tuple[int, float]:
            batch = tuple(part[: sizes[index]] for part in examples)
            start = self._clock()
            model.forget(*batch)
            elapsed_s = self._clock() - start
            operations = model.last_work.operations
            model.learn(*batch)
            return operations, elapsed_s

        return forget

    def _packed(self, sizes: Sequence[int]) -> list[list[StoredRecord]]:
        return self._pack(self.made(), self._batches(sizes))

    def _pack(self, model: Learner, batches: Sequence[Batch]) -> list[list[StoredRecord]]:
        """Return batches as a worker stores them."""
        packed = []
        for batch in batches:
            records = self._kind.records_of(*batch)
            pairs = zip(records, model.pack(records), strict=True)
            packed.append([StoredRecord(record.owner, body) for record, body in pairs])
        return packed

    def _updating(self, sizes: Sequence[int]) -> Call:
        batches, model = self._packed(sizes), self.made()
        model.update_records(batches[-1], ())

        def update(index: int) -> tuple[int, float]:
            start = self._clock()
            change = model.update_records(batches[index], ())
            elapsed_s = self._clock() - start
            model.update_records((), batches[index])
            return change.work.operations, elapsed_s

        return update

    def _reviewing(self, sizes: Sequence[int]) -> Call:
        """Vary the features of rows, because a factor costs more than predictions, or people."""
        if "n_features" in self._workload.settings:
            sizes = np.geomspace(*_FEATURES, len(sizes)).round().astype(int).tolist()
        models = [self._review_case(size) for size in sizes]

        def review(index: int) -> tuple[int, float]:
            model, records, hidden = models[index]
            model.update_records(records, ())  # what is derived from the statistics is old now
            start = self._clock()
            model.score_records(hidden, records)
            elapsed_s = self._clock() - start
            operations = model.last_work.operations
            model.update_records((), records)
            return operations, elapsed_s

        return review

    def _review_case(self, size: int) -> tuple[Learner, list[StoredRecord], list[StoredRecord]]:
        """Return an empty model, the records that it will hold, and those that review it."""
        if "n_features" not in self._workload.settings:
            (records,) = self._packed([max(size, _HELD)])
            lasts = {record.owner: record for record in records}
            return self.made(), records, list(lasts.values())[:size]
        model = self._kind(**{**self._workload.settings, "n_features": size})
        X, y = self._workload.batch(np.random.default_rng(0), _HELD)
        (records,) = self._pack(model, [(np.resize(X, (_HELD, size)), y)])
        return model, records, records[:_REVIEWING]

    def _training(self, sizes: Sequence[int]) -> Call:
        model, batches = self.made(), self._packed(sizes)  # a worker keeps the model

        def train(index: int) -> tuple[int, float]:
            start = self._clock()
            change = model.difference(batches[index], ())
            return change.work.operations, self._clock() - start

        return train
