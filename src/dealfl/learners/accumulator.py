"""Integer statistics that are added, subtracted, saved and loaded: the state of every learner."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from dealfl.errors import BadBytes, BadInput, Impossible, Incompatible, NotLearned
from dealfl.exact import (
    Entries,
    Proposal,
    Schema,
    State,
    Statistics,
    Storage,
    Work,
    bounds_from,
    in_memory,
)
from dealfl.learners.saved import SavedLearner

__all__ = ["Accumulator"]


class Accumulator(ABC):
    """Statistics of one schema, to which other statistics are added."""

    name: ClassVar[str]

    def __init__(self, schema: Schema, storage: Storage | None) -> None:
        self._state = State(schema, storage or in_memory)
        self._work: Work | Callable[[], Work] = Work(0, 0)  # or how to compute it

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The constructor arguments of an equal, empty learner."""

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self.settings.items())
        return f"{type(self).__name__}({', '.join(shown)})"

    @classmethod
    def from_schema(cls, schema: Schema) -> Self:
        """Create an empty learner whose statistics have a schema.

        Parameters
        ----------
        schema : Schema
            Schema of the statistics.

        Returns
        -------
        Learner
            Settings that do not shape statistics have defaults; a bound is the largest of its grid.

        Raises
        ------
        BadInput
            The schema does not determine all required settings.
        Incompatible
            The schema belongs to another learner or version.
        """
        known = inspect.signature(cls.__init__).parameters
        given = bounds_from(schema.settings)
        try:
            made = cls(**{name: given[name] for name in given if name in known})
        except TypeError as error:
            raise BadInput(
                f"a {cls.name} cannot be created from its statistics alone ({error}); "
                "give its job file"
            ) from None
        made.schema.require_same(schema)
        return made

    # -- statistics -----------------------------------------------------------------------------

    @property
    def last_work(self) -> Work:
        """The cost of the last call."""
        if not isinstance(self._work, Work):
            self._work = self._work()
        return self._work

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_work": self.last_work}

    @property
    def schema(self) -> Schema:
        """The schema of the statistics."""
        return self._state.schema

    @property
    def statistics(self) -> Statistics:
        """A copy of the current statistics."""
        return self._state.snapshot()

    def publish(self) -> Statistics:
        """Return the statistics that a published model holds; a learner can make them coarser.

        Returns
        -------
        Statistics
            The current statistics, or statistics with the same predictions.
        """
        return self.statistics

    def count_records(self, statistics: Statistics) -> int | None:
        """Return how many records statistics of this schema contain.

        Parameters
        ----------
        statistics : Statistics
            Statistics, or a delta; forgotten records count negatively.

        Returns
        -------
        int or None
            The number of examples, or of items in histories; None if it is not determined.
        """
        del statistics
        return None

    def digest(self) -> str:
        """Return the digest of the statistics: equal if and only if schema and values are."""
        return self._state.digest()

    @abstractmethod
    def check(self) -> None:
        """Raise `Impossible` if no set of examples has these statistics."""

    def check_statistics(self, statistics: Statistics) -> None:
        """Raise `Impossible` if no set of examples has some statistics; the learner is empty.

        Parameters
        ----------
        statistics : Statistics
            Statistics of this schema.
        """
        self.merge(statistics)
        try:
            self.check()
        finally:
            self.merge(-statistics)

    def check_added(self, delta: Statistics, touched: Statistics, whole: Statistics) -> None:
        """Raise `Impossible` if no set of examples has a sum of statistics; the learner is empty.

        Parameters
        ----------
        delta : Statistics
            What was added to statistics that some examples have.
        touched, whole : Statistics
            The sum: at least the cells that changed, and all. An array is read when it is used, so
            a learner whose rules need few of them overrides this.
        """
        del delta, touched
        self.check_statistics(whole)

    def entries(self, name: str, start: int, stop: int) -> Entries:
        """Return a range of an array of the statistics.

        Parameters
        ----------
        name : str
            Name of the array.
        start, stop : int
            First index of the range, and the index after the last one.

        Returns
        -------
        Entries
            The non-zero values.
        """
        return self._state.cells(name).entries(start, stop)

    def merge(self, delta: Statistics) -> None:
        """Add the statistics that another worker learned or forgot.

        Parameters
        ----------
        delta : Statistics
            Statistics to add; another schema or a sum that does not fit is an error.
        """
        self._state.commit(self._state.propose(delta))
        self._forget_model()
        cells = delta.count_nonzero()
        self._work = Work(cells, delta.nbytes + 2 * 8 * cells)

    def _apply(self, delta: Statistics, *, forgetting: bool) -> Statistics:
        """Add `delta`, or raise `NotLearned` and change nothing."""
        proposals = self._state.propose(delta)
        if forgetting:
            try:
                self._refuse_unlearned(proposals)
            except Impossible as error:
                raise self._not_learned(error) from None
        self._state.commit(proposals)
        return delta

    @contextmanager
    def _undoing(self, delta: Statistics) -> Iterator[None]:
        """Subtract `delta` again if an update of what is derived from the statistics fails."""
        try:
            yield
        except BaseException:
            self.merge(-delta)
            raise

    @staticmethod
    def _not_learned(error: Impossible) -> NotLearned:
        return NotLearned(f"these examples were never learned: after this, {error}")

    @abstractmethod
    def _refuse_unlearned(self, proposals: Mapping[str, Proposal]) -> None:
        """Raise `NotLearned` or `Impossible` if forgetting would leave impossible statistics."""

    @abstractmethod
    def _forget_model(self) -> None:
        """Drop the model that was derived from the statistics."""

    # -- files ----------------------------------------------------------------------------------

    def save(self, path: str | Path, sections: Mapping[str, bytes] | None = None) -> None:
        """Write the learner to one file; a crash leaves the old file or the new one.

        Parameters
        ----------
        path : str or Path
            File to write.
        sections : mapping of str to bytes, optional
            Additional sections of the file.
        """
        everything = {**self._sections(), **(sections or {})}
        SavedLearner(self.name, self.settings, everything).write(Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load a learner that `save` wrote.

        Parameters
        ----------
        path : str or Path
            File to read; one that is damaged or holds another kind of learner is an error.

        Returns
        -------
        Learner
            The learner.
        """
        saved = SavedLearner.read(Path(path))
        if saved.learner != cls.name:
            raise Incompatible(f"{path} holds learner {saved.learner}, not {cls.name}")
        try:
            learner = cls(**saved.settings)
        except TypeError as error:
            raise BadBytes(f"{path}: the settings do not fit {cls.name}: {error}") from None
        learner._restore(saved)
        learner._work = Work(0, 0)
        return learner

    def _sections(self) -> dict[str, bytes]:
        return {"statistics": self.statistics.to_bytes()}

    def _restore(self, saved: SavedLearner) -> None:
        self.merge(saved.statistics)
