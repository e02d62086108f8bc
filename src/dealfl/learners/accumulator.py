"""Integer statistics that are added and subtracted: the state of every learner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from dealfl.cells import Proposal, State, Storage, in_memory
from dealfl.schema import Schema
from dealfl.statistics import Statistics
from dealfl.work import Work

__all__ = ["Accumulator"]


class Accumulator(ABC):
    """Statistics of one schema, to which other statistics are added.

    Parameters
    ----------
    schema : Schema
        Schema of the statistics.
    storage : callable or None
        Creates the cells of an array; by default in memory.
    """

    def __init__(self, schema: Schema, storage: Storage | None) -> None:
        self._state = State(schema, storage or in_memory)
        self._work = Work(0, 0)

    @property
    def last_work(self) -> Work:
        """The cost of the last call."""
        return self._work

    @property
    def schema(self) -> Schema:
        """The schema of the statistics."""
        return self._state.schema

    @property
    def statistics(self) -> Statistics:
        """A copy of the current statistics."""
        return self._state.snapshot()

    @property
    def example_count(self) -> int | None:
        """The number of learned examples; None if the statistics do not determine it."""
        return None

    def digest(self) -> str:
        """Return the digest of the statistics.

        Returns
        -------
        str
            64 hexadecimal digits; equal if and only if schema and statistics are equal.
        """
        return self._state.digest()

    @abstractmethod
    def check(self) -> None:
        """Check that some set of examples can have these statistics.

        Raises
        ------
        Impossible
            No set of examples has these statistics.
        """

    def merge(self, delta: Statistics) -> None:
        """Add the statistics that another worker learned or forgot.

        Parameters
        ----------
        delta : Statistics
            Statistics to add.

        Raises
        ------
        Incompatible
            `delta` has another schema.
        OutOfBounds
            A sum does not fit the width of its array.
        """
        self._state.commit(self._state.propose(delta))
        self._forget_model()
        cells = sum(len(delta[name]) for name in delta)
        self._work = Work(cells, delta.nbytes + 2 * 8 * cells)

    def _apply(self, delta: Statistics, *, forgetting: bool) -> Statistics:
        """Add `delta`, or raise `NotLearned` and change nothing."""
        proposals = self._state.propose(delta)
        if forgetting:
            self._refuse_unlearned(proposals)
        self._state.commit(proposals)
        return delta

    @abstractmethod
    def _refuse_unlearned(self, proposals: Mapping[str, Proposal]) -> None:
        """Raise `NotLearned` if forgetting would leave impossible statistics."""

    @abstractmethod
    def _forget_model(self) -> None:
        """Drop the model that was derived from the statistics."""
