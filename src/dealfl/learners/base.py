"""What every learner is: a model that is a function of integer statistics.

A learner supplies the statistics of a batch, the rules its statistics obey, the model derived from
them, and what others must know of it: tasks, settings for data, cycles, a workload to time.
Adding, refusing, digests, files and merging are the same for all and live here.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadBytes, BadInput, Incompatible
from dealfl.fixedpoint import bounds_from
from dealfl.learners.accumulator import Accumulator
from dealfl.learners.limits import DataLimits
from dealfl.learners.saved import SavedLearner
from dealfl.learners.workloads import Workload
from dealfl.schema import Schema
from dealfl.statistics import Statistics
from dealfl.work import LearnerCycles, Work

__all__ = ["Arrays", "Learner", "Record", "SparseVector"]

Arrays = dict[str, NDArray[Any]]
SparseVector = tuple[NDArray[np.int64], NDArray[np.float64]]


class Record(Protocol):
    """An example, or a part of one, as a worker stores it."""

    @property
    def owner(self) -> bytes:
        """Whose it is, hashed."""

    @property
    def body(self) -> bytes:
        """What it holds."""


class Learner(Accumulator):
    """A model that learns and forgets by adding and subtracting integers.

    `name` is its name in jobs, files and statistics; `tasks` are those of datasets that it serves.
    `feature_map` names the map that suits columns of different units, where raw ones do not.
    `cycles` say what it costs on a phone: without them only devices whose speed is stated in
    operations can run it. A `workload` lets `dealfl devices calibrate` measure them.
    """

    name: ClassVar[str]
    tasks: ClassVar[tuple[str, ...]] = ()
    feature_map: ClassVar[str | None] = None
    cycles: ClassVar[LearnerCycles | None] = None
    workload: ClassVar[Workload | None] = None
    whole_owners: ClassVar[bool]  # whether all records of an owner are one example

    # -- an empty learner -----------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def settings_for(cls, data: DataLimits) -> dict[str, Any]:
        """Return the arguments of a learner for data with these limits."""

    @classmethod
    def from_schema(cls, schema: Schema) -> Self:
        """Return an empty learner whose statistics have that schema.

        Settings that do not shape statistics are default; a bound is the largest of its grid.
        """
        known = inspect.signature(cls.__init__).parameters
        given = bounds_from(schema.settings)
        try:
            made = cls(**{name: given[name] for name in given if name in known})
        except TypeError as error:
            raise BadInput(
                f"a {cls.name} can not be made from its statistics alone ({error}); "
                "give its job file"
            ) from None
        made.schema.require_same(schema)
        return made

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The arguments that make an empty learner like this one."""

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self.settings.items())
        return f"{type(self).__name__}({', '.join(shown)})"

    # -- examples -------------------------------------------------------------------------------

    @abstractmethod
    def learn(self, *examples: Any, **more: Any) -> Statistics:  # noqa: ANN401
        """Add examples; return the statistics that were added."""

    @abstractmethod
    def forget(self, *examples: Any, **more: Any) -> Statistics:  # noqa: ANN401
        """Remove examples as if they had never been learned; return what was added."""

    def learn_records(self, records: Sequence[Record]) -> Statistics:
        """Add records; return the statistics that were added."""
        if not records:
            return Statistics.zero(self.schema)
        return self.learn(*self._examples_of(records))

    @abstractmethod
    def _examples_of(self, records: Sequence[Record]) -> tuple[Any, ...]:
        """Return what `learn` takes for records."""

    @classmethod
    @abstractmethod
    def records_of(cls, *examples: Any) -> Sequence[Record]:  # noqa: ANN401
        """Return examples, as `learn` takes them, as records."""

    @abstractmethod
    def score_federated(self, *test: Any, **more: Any) -> float:  # noqa: ANN401
        """Return how well a model of statistics alone does; 1.0 is perfect."""

    @abstractmethod
    def score_records(self, records: Sequence[Record]) -> float | None:
        """Return the score on a worker's own records; None where there is none."""

    # -- the model ------------------------------------------------------------------------------

    def change(self, before: Statistics | Learner) -> float:
        """Return how far the model is from the one of `before`, relative to the larger of them."""
        other = type(self)(**self.settings)
        other.merge(before.statistics if isinstance(before, Learner) else before)
        return _relative_change(self._derived(), other._derived())

    def derived_arrays(self) -> Arrays:
        """Return the model as named arrays, to be used elsewhere."""
        return {}

    @abstractmethod
    def _derived(self) -> SparseVector:
        """Return the model as ascending indices and values, to measure how much it changed."""

    # -- files ----------------------------------------------------------------------------------

    def save(self, path: str | Path, sections: Mapping[str, bytes] | None = None) -> None:
        """Write everything to one file, completely or not at all; more sections may go with it."""
        everything = {**self._sections(), **(sections or {})}
        SavedLearner(self.name, self.settings, everything).write(Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        saved = SavedLearner.read(Path(path))
        if saved.learner != cls.name:
            raise Incompatible(f"{path} holds a {saved.learner}, not a {cls.name}")
        try:
            learner = cls(**saved.settings)
        except TypeError as error:
            raise BadBytes(f"a saved {cls.name} with settings that do not fit: {error}") from None
        learner._restore(saved)
        learner._work = Work(0, 0)
        return learner

    def _sections(self) -> dict[str, bytes]:
        return {"statistics": self.statistics.to_bytes()}

    def _restore(self, saved: SavedLearner) -> None:
        self.merge(saved.statistics)


def _relative_change(now: SparseVector, before: SparseVector) -> float:
    places = np.union1d(now[0], before[0])
    vectors = np.zeros((2, len(places)))
    for vector, (indices, values) in zip(vectors, (now, before), strict=True):
        vector[np.searchsorted(places, indices)] = values
    size = float(np.max(np.linalg.norm(vectors, axis=1), initial=0.0))
    return float(np.linalg.norm(vectors[0] - vectors[1])) / size if size else 0.0
