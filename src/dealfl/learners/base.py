"""The base class of learners: a model that is a function of integer statistics.

A learner supplies the statistics of a batch, the rules that its statistics obey, the model derived
from them, and a description: tasks, settings for data, cycles, and a workload to measure them.
Adding, digests, merging and files are the same for all learners.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadBytes, BadInput, Impossible, Incompatible, NotLearned
from dealfl.exact import (
    Entries,
    LearnerCycles,
    Proposal,
    Schema,
    State,
    Statistics,
    Storage,
    Work,
    bounds_from,
    in_memory,
)
from dealfl.learners.description import DataLimits, Workload
from dealfl.learners.records import Change, Record
from dealfl.learners.saved import SavedLearner

Arrays = dict[str, NDArray[Any]]
SparseVector = tuple[NDArray[np.int64], NDArray[np.float64]]
_MAX_UNBOUNDED = 1 << 12  # features of a saved learner with one bound for all
Result = TypeVar("Result")
# Functions and their arguments; each takes one change back, if it was made, and can be repeated.
Undo = list[tuple[Any, ...]]


class Learner(ABC):
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

    Notes
    -----
    Threads can share a learner: each call that changes it or reads its model waits for the call
    before, and a copy is one of its states. Of two changes, `last_work` is that of the later one.
    A process can fork, also after loops were compiled, while no other thread is inside a call.
    """

    name: ClassVar[str]
    tasks: ClassVar[tuple[str, ...]] = ()
    feature_map: ClassVar[str | None] = None
    cycles: ClassVar[LearnerCycles | None] = None
    workload: ClassVar[Workload | None] = None
    whole_owners: ClassVar[bool]
    dips_at_features: ClassVar[bool] = False

    def __init__(self, schema: Schema, storage: Storage | None) -> None:
        self._state = State(schema, storage or in_memory)
        self._lock = RLock()
        self._work: Work | Callable[[], Work] = Work(0, 0)  # or how to compute it

    # -- an empty learner -----------------------------------------------------------------------

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
        parameters = inspect.signature(cls.__init__).parameters
        given = bounds_from(schema.settings)
        try:
            made = cls(**{name: given[name] for name in given if name in parameters})
        except TypeError as error:
            raise BadInput(
                f"a {cls.name} cannot be created from its statistics alone ({error}); "
                "give its job file"
            ) from None
        made.schema.require_same(schema)
        return made

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

    # -- statistics -----------------------------------------------------------------------------

    @property
    def last_work(self) -> Work:
        """The cost of the last call."""
        work = self._work
        if not isinstance(work, Work):
            self._work = work = work()
        return work

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:  # what is copied or pickled later, another thread could change before
            state = {**self.__dict__, "_work": self.last_work}
            del state["_lock"]
            return deepcopy(state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = RLock()

    @property
    def schema(self) -> Schema:
        """The schema of the statistics."""
        return self._state.schema

    @property
    def statistics(self) -> Statistics:
        """A copy of the current statistics."""
        with self._lock:
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

    @property
    def max_entry(self) -> int | None:
        """The largest integer that one record adds to a cell; None if it is not known."""
        return None

    @property
    def example_count(self) -> int | None:
        """The number of learned examples; None if the statistics do not determine it."""
        return None if self.whole_owners else self.count_records(self.statistics)

    def digest(self) -> str:
        """Return the digest of the statistics: equal if and only if schema and values are."""
        with self._lock:
            return self._state.digest()

    def require_packages(self) -> None:  # noqa: B027 - most models need none
        """Raise `MissingExtra` if the model needs a package that its statistics do not need.

        Raises
        ------
        MissingExtra
            The package is not installed.
        """

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
        self._atomically(self._check_merged, statistics)

    def _check_merged(self, statistics: Statistics, undo: Undo) -> None:
        self._merge(statistics, undo)
        self.check()
        self._undo(undo)

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
        with self._lock:
            return self._state.cells(name).entries(start, stop)

    def merge(self, delta: Statistics) -> None:
        """Add the statistics that another worker learned or forgot.

        Parameters
        ----------
        delta : Statistics
            Statistics to add; another schema or a sum that does not fit is an error.
        """
        if not isinstance(delta, Statistics):
            raise BadInput(f"merge takes Statistics, not {type(delta).__name__}; see learn")
        self._atomically(self._merge, delta)

    def _merge(self, delta: Statistics, undo: Undo) -> None:
        self._apply(delta, undo, forgetting=False)
        self._forget_model()
        cells = delta.count_nonzero()
        self._work = Work(cells, delta.nbytes + 2 * 8 * cells)

    def _atomically(self, change: Callable[..., Result], *given: Any) -> Result:  # noqa: ANN401
        """Run a change; on any error, also an interrupt, take back what it has changed."""
        undo: Undo = []
        try:
            try:
                with self._lock:
                    try:
                        undo.append((setattr, self, "_work", self._work))
                        return change(*given, undo)
                    except BaseException:
                        self._undo(undo)  # before another thread changes the same cells
                        raise
            except BaseException:  # an interrupt between the change and the end of `with`
                self._undo(undo)
                raise
        except BaseException:  # one that came while that was called
            self._undo(undo)
            raise

    def _undo(self, undo: Undo) -> None:
        """Take changes back, the last one first; continue after one interrupt."""
        with self._lock:
            try:
                self._take_all_back(undo)
            except BaseException:
                self._take_all_back(undo)
                raise

    def _take_all_back(self, undo: Undo) -> None:
        while undo:
            take_back, *given = undo[-1]
            take_back(*given)
            undo.pop()

    def _apply(self, delta: Statistics, undo: Undo, *, forgetting: bool) -> Statistics:
        """Add `delta`, or raise `NotLearned` and change nothing."""
        proposals = self._state.propose(delta)
        if forgetting:
            try:
                self._refuse_unlearned(proposals)
            except Impossible as error:
                raise NotLearned(
                    f"these examples were never learned: after this, {error}"
                ) from None
        undo.append((self._restore_cells, proposals))
        self._state.commit(proposals)
        return delta

    def _restore_cells(self, proposals: Mapping[str, Proposal]) -> None:
        self._state.restore(proposals)
        self._forget_model()

    def _take_back(
        self,
        cells: NDArray[Any],
        part: int | slice,
        before: int,
        subtract: Callable[..., object],
        *given: Any,  # noqa: ANN401
    ) -> None:
        """Subtract what was added in place, if it was: then the sum of a part of cells is another.

        No interrupt comes between the changes of these cells and of all others.
        """
        if np.sum(cells[part]) != before:
            self._forget_model()
            subtract(*given)

    @abstractmethod
    def _refuse_unlearned(self, proposals: Mapping[str, Proposal]) -> None:
        """Raise `NotLearned` or `Impossible` if forgetting would leave impossible statistics."""

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
        with self._lock:
            return _relative_change(self._derived(), other._derived())

    def derived_arrays(self) -> Arrays:
        """Return the model as named arrays, which can be saved without pickle."""
        return {}

    @abstractmethod
    def _derived(self) -> SparseVector:
        """Return the model as ascending indices and values, to measure its change."""

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
        with self._lock:
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
            cls._require_bounded(saved.settings)
            learner = cls(**saved.settings)
            learner._restore(saved)
        except (BadBytes, Incompatible) as error:
            raise type(error)(f"{path}: {error}") from None
        except (TypeError, ValueError, ArithmeticError, LookupError, MemoryError) as error:
            raise BadBytes(f"{path}: the settings do not fit {cls.name}: {error}") from None
        learner._work = Work(0, 0)
        return learner

    @classmethod
    def _require_bounded(cls, settings: Mapping[str, Any]) -> None:
        """Raise `BadBytes` unless the memory that saved settings need is bounded by their size."""
        bounds, features = settings.get("feature_bound"), settings.get("n_features")
        allowed = len(bounds) if isinstance(bounds, list) else _MAX_UNBOUNDED
        if isinstance(features, int) and features > allowed:
            raise BadBytes(f"the saved settings do not have bounds of {features} features")

    def _sections(self) -> dict[str, bytes]:
        return {"statistics": self.statistics.to_bytes()}

    def _restore(self, saved: SavedLearner) -> None:
        self.merge(saved.statistics)


def _relative_change(now: SparseVector, before: SparseVector) -> float:
    cells = np.union1d(now[0], before[0])
    vectors = np.zeros((2, len(cells)))
    for vector, (indices, values) in zip(vectors, (now, before), strict=True):
        vector[np.searchsorted(cells, indices)] = values
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
