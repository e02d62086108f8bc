"""The base class of learners: a model that is a function of integer statistics.

A learner supplies the statistics of a batch, the rules that its statistics obey, the model derived
from them, and a description: tasks, settings for data, cycles, and a workload to measure them.
Adding, digests, merging and files are the same for all learners (`Accumulator`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dealfl.exact import LearnerCycles, Statistics, Work
from dealfl.learners.accumulator import Accumulator
from dealfl.learners.description import DataLimits, Workload
from dealfl.learners.records import Change, Record

__all__ = ["Arrays", "Learner", "SparseVector", "statistics_of"]

Arrays = dict[str, NDArray[Any]]
SparseVector = tuple[NDArray[np.int64], NDArray[np.float64]]


class Learner(Accumulator):
    """A model that learns and forgets by adding and subtracting integers.

    Parameters
    ----------
    schema : Schema
        Schema of the statistics.
    storage : callable or None
        Creates the cells of an array; by default in memory.

    Attributes
    ----------
    name : str
        Name in jobs, files and statistics.
    tasks : tuple of str
        Tasks of datasets that it can learn.
    feature_map : str or None
        Feature map that suits columns of different units, if raw columns do not.
    cycles : LearnerCycles or None
        CPU cycles on a phone; without them only devices with a speed in operations can run it.
    workload : Workload or None
        Batches with which `dealfl devices calibrate` measures the cycles.
    whole_owners : bool
        Whether all records of an owner are one example.
    dips_at_features : bool
        Whether its quality falls for a while near as many examples as features (double descent).
    """

    tasks: ClassVar[tuple[str, ...]] = ()
    feature_map: ClassVar[str | None] = None
    cycles: ClassVar[LearnerCycles | None] = None
    workload: ClassVar[Workload | None] = None
    whole_owners: ClassVar[bool]
    dips_at_features: ClassVar[bool] = False

    # -- an empty learner -----------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def settings_for(cls, data: DataLimits) -> dict[str, Any]:
        """Return the constructor arguments for data with these limits.

        Parameters
        ----------
        data : DataLimits
            Limits of the data.

        Returns
        -------
        dict of str to object
            Keyword arguments of the learner.
        """

    # -- examples -------------------------------------------------------------------------------

    @abstractmethod
    def learn(self, *examples: Any, **more: Any) -> Statistics:  # noqa: ANN401
        """Add examples.

        Parameters
        ----------
        *examples : object
            Rows and targets, or histories.
        **more : object
            Options of the learner.

        Returns
        -------
        Statistics
            The statistics that were added.
        """

    @abstractmethod
    def forget(self, *examples: Any, **more: Any) -> Statistics:  # noqa: ANN401
        """Remove examples; the result is the same as if they had never been learned.

        Parameters
        ----------
        *examples : object
            Rows and targets, or histories; `NotLearned` if statistics show they were not learned.
        **more : object
            Options of the learner.

        Returns
        -------
        Statistics
            The (negative) statistics that were added.
        """

    @abstractmethod
    def update(self, learn: tuple[Any, ...] = (), forget: tuple[Any, ...] = ()) -> Statistics:
        """Add and remove examples in one pass; on any error nothing changes.

        Parameters
        ----------
        learn, forget : tuple
            Arguments of `learn` and of `forget`; empty for no examples.

        Returns
        -------
        Statistics
            The statistics that were added.
        """

    @abstractmethod
    def pack(self, records: Sequence[Record]) -> list[bytes]:
        """Check records, and convert them to the integers that this learner computes with.

        Parameters
        ----------
        records : sequence of Record
            New records, or packed ones, which do not change.

        Returns
        -------
        list of bytes
            Bodies to store; an unusable record is an error.
        """

    @abstractmethod
    def difference(
        self, learn: Sequence[Record], forget: Sequence[Record], kept: Sequence[Record] = ()
    ) -> Change:
        """Compute what learning and forgetting records would add; the learner does not change.

        Parameters
        ----------
        learn, forget : sequence of Record
            Records to add and to remove.
        kept : sequence of Record
            Records of the same owners that stay, if `whole_owners`.

        Returns
        -------
        Change
            The difference, and its work.
        """

    @abstractmethod
    def update_records(
        self, learn: Sequence[Record], forget: Sequence[Record], kept: Sequence[Record] = ()
    ) -> Change:
        """Add and remove records in one pass; on any error nothing changes.

        Parameters
        ----------
        learn, forget, kept
            See `difference`.

        Returns
        -------
        Change
            What was added, and its work.
        """

    @classmethod
    @abstractmethod
    def records_of(cls, *examples: Any) -> Sequence[Record]:  # noqa: ANN401
        """Convert examples to records.

        Parameters
        ----------
        *examples : object
            Arguments of `learn`.

        Returns
        -------
        sequence of Record
            The records.
        """

    @abstractmethod
    def score_federated(self, *test: Any) -> float:  # noqa: ANN401
        """Return the quality of a model that has statistics only.

        Parameters
        ----------
        *test : object
            Test examples.

        Returns
        -------
        float
            1.0 is perfect.
        """

    @abstractmethod
    def score_records(
        self, records: Sequence[Record], known: Sequence[Record] = ()
    ) -> float | None:
        """Return the score on records of a worker that were not learned.

        Parameters
        ----------
        records : sequence of Record
            Records of the worker.
        known : sequence of Record
            What was learned of their owners; recommendations need it.

        Returns
        -------
        float or None
            1.0 is perfect; None if there is no score.
        """

    @property
    def example_count(self) -> int | None:
        """The number of learned examples; None if the statistics do not determine it."""
        return None if self.whole_owners else self.count_records(self.statistics)

    # -- the model ------------------------------------------------------------------------------

    def change(self, before: Statistics | Learner) -> float:
        """Return the distance to another model, relative to the larger of both.

        Parameters
        ----------
        before : Statistics or Learner
            The other model.

        Returns
        -------
        float
            0.0 for equal models.
        """
        other = type(self)(**self.settings)
        other.merge(before.statistics if isinstance(before, Learner) else before)
        return _relative_change(self._derived(), other._derived())

    def derived_arrays(self) -> Arrays:
        """Return the model as named arrays, which can be saved without pickle."""
        return {}

    @abstractmethod
    def _derived(self) -> SparseVector:
        """Return the model as ascending indices and values, to measure its change."""


def _relative_change(now: SparseVector, before: SparseVector) -> float:
    places = np.union1d(now[0], before[0])
    vectors = np.zeros((2, len(places)))
    for vector, (indices, values) in zip(vectors, (now, before), strict=True):
        vector[np.searchsorted(places, indices)] = values
    size = float(np.max(np.linalg.norm(vectors, axis=1), initial=0.0))
    return float(np.linalg.norm(vectors[0] - vectors[1])) / size if size else 0.0


def statistics_of(
    make: Callable[[], Learner], records: Sequence[Record]
) -> tuple[Statistics, Work]:
    """Compute the statistics of records with an empty learner.

    Parameters
    ----------
    make : callable
        Creates an empty learner.
    records : sequence of Record
        Records, of whole owners where that matters.

    Returns
    -------
    statistics : Statistics
        Statistics of the records.
    work : Work
        Cost of computing them.
    """
    change = make().difference(records, ())
    return change.delta, change.learned
