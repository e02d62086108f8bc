"""Learners whose examples are histories: sets of items."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dealfl.learners.base import Learner, Record
from dealfl.learners.records import Histories, StoredRecord
from dealfl.statistics import Statistics

__all__ = ["HistoryLearner"]


Ranked = tuple[NDArray[np.int64], NDArray[np.float64]]


class HistoryLearner(Learner):
    """A learner whose examples are histories: sets of items, one per owner.

    Parameters
    ----------
    schema : Schema
        Schema of the statistics.
    storage : callable or None
        Creates the cells of an array; by default in memory.
    """

    whole_owners = True

    @property
    @abstractmethod
    def n_items(self) -> int:
        """The number of items."""

    @abstractmethod
    def learn(self, histories: object) -> Statistics:
        """Add histories.

        Parameters
        ----------
        histories : csr_array, array_like or list of list of int
            One row of 0 and 1, or one list of item numbers, per history.

        Returns
        -------
        Statistics
            The statistics that were added.

        Raises
        ------
        BadInput
            A history is not a set of items; nothing was changed.
        """

    @abstractmethod
    def forget(self, histories: object) -> Statistics:
        """Remove histories; the result is the same as if they had never been learned.

        Parameters
        ----------
        histories : csr_array, array_like or list of list of int
            One row of 0 and 1, or one list of item numbers, per history.

        Returns
        -------
        Statistics
            The (negative) statistics that were added.

        Raises
        ------
        NotLearned
            A history was never learned, as far as the statistics show it; nothing was changed.
        """

    @abstractmethod
    def recommend(self, history: object, k: int = 10) -> Ranked:
        """Return items that fit a history and are not in it.

        Parameters
        ----------
        history : array_like or csr_array
            Item numbers, or one row of 0 and 1.
        k : int, default 10
            Largest number of items.

        Returns
        -------
        items : ndarray of int64
            Item numbers, the best first.
        scores : ndarray of float64
            Their scores.
        """

    def score(self, histories: Sequence[Sequence[int]], k: int = 10) -> float:
        """Return the fraction of histories whose last item is recommended for the items before it.

        Parameters
        ----------
        histories : sequence of sequence of int
            Item numbers, the latest last.
        k : int, default 10
            Number of recommended items.

        Returns
        -------
        float
            A number in [0, 1].
        """
        hits = sum(history[-1] in self.recommend(history[:-1], k)[0] for history in histories)
        return hits / len(histories) if histories else 0.0

    def score_federated(self, histories: Sequence[Sequence[int]]) -> float:
        """Return the same as `score`: recommendations need statistics only.

        Parameters
        ----------
        histories : sequence of sequence of int
            Item numbers, the latest last.

        Returns
        -------
        float
            A number in [0, 1].
        """
        return self.score(histories)

    def score_records(self, records: Sequence[Record]) -> None:
        """Return None: stored histories have no last item.

        Parameters
        ----------
        records : sequence of Record
            Records of a worker.
        """

    def _examples_of(self, records: Sequence[Record]) -> tuple[Any, ...]:
        return (Histories.table(records, self.n_items),)

    @classmethod
    def records_of(cls, histories: sparse.csr_array) -> Sequence[Record]:
        """Convert each item to a record; each history has its own owner.

        Parameters
        ----------
        histories : csr_array
            One row of 0 and 1 per history.

        Returns
        -------
        sequence of Record
            One record per item.
        """
        owners, items = (places.tolist() for places in histories.nonzero())
        pairs = zip(owners, items, strict=True)
        return [StoredRecord(b"%d" % owner, Histories.encode(item)) for owner, item in pairs]
