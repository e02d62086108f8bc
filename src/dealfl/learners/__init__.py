"""Learners whose models are functions of integers: learning adds, forgetting subtracts.

A learner describes itself: its file says what it learns from, what tasks it serves, which settings
suit a dataset, and what it costs. To add one, write that file and enter its class in `_OWN`.
"""

from pathlib import Path
from typing import Any

from dealfl.errors import BadInput, unknown_name
from dealfl.learners.base import Arrays, Learner, Record, SparseVector
from dealfl.learners.frames import column_array, frame_columns, is_absent, is_frame
from dealfl.learners.inputs import Labels, as_matrix, dense_blocks
from dealfl.learners.kinds import Classifier, HistoryLearner, RowLearner
from dealfl.learners.limits import DataLimits
from dealfl.learners.naive_bayes import NaiveBayes
from dealfl.learners.neighbors import Neighbors
from dealfl.learners.pagerank import PersonalizedPageRank
from dealfl.learners.records import Histories, Rows, statistics_of
from dealfl.learners.saved import SavedLearner
from dealfl.learners.tikhonov import Tikhonov
from dealfl.learners.tikhonov_classifier import TikhonovClassifier
from dealfl.learners.timed_learner import TimedLearner
from dealfl.learners.workloads import Workload
from dealfl.plugins import Registry
from dealfl.schema import Schema
from dealfl.statistics import Statistics
from dealfl.work import Cycles, LearnerCycles, Work

__all__ = [
    "LEARNERS",
    "Arrays",
    "Classifier",
    "Cycles",
    "DataLimits",
    "Histories",
    "HistoryLearner",
    "Labels",
    "Learner",
    "LearnerCycles",
    "NaiveBayes",
    "Neighbors",
    "PersonalizedPageRank",
    "Record",
    "RowLearner",
    "Rows",
    "SavedLearner",
    "SparseVector",
    "Statistics",
    "Tikhonov",
    "TikhonovClassifier",
    "TimedLearner",
    "Work",
    "Workload",
    "as_matrix",
    "column_array",
    "cycles_of",
    "dense_blocks",
    "frame_columns",
    "from_schema",
    "is_absent",
    "is_frame",
    "learners_for",
    "load",
    "settings_for",
    "statistics_of",
]

_OWN: tuple[type[Learner], ...] = (  # the first that serves a task is the default
    Tikhonov,
    TikhonovClassifier,
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
)


def _admit(name: str, found: Any) -> type[Learner]:  # noqa: ANN401
    if not (isinstance(found, type) and issubclass(found, Learner)):
        raise BadInput(f"{found!r} is no subclass of dealfl.learners.Learner")
    if found.name != name:
        raise BadInput(f"the class calls itself {found.name!r}; both names must be the same")
    return found


LEARNERS: Registry[type[Learner]] = Registry(
    "dealfl.learners", {learner.name: learner for learner in _OWN}, _admit
)


def learners_for(task: str) -> tuple[str, ...]:
    """Return the names of the learners that serve a task, the default first.

    >>> learners_for("classification")
    ('tikhonov_classifier', 'naive_bayes', 'neighbors')
    """
    return tuple(name for name, kind in LEARNERS.usable().items() if task in kind.tasks)


def settings_for(learner: str, data: DataLimits) -> dict[str, Any]:
    """Return the arguments of a learner for data with these limits.

    They fit the output of the feature map that is declared for both, else the raw features.
    """
    known = learners_for(data.task)
    if learner not in known:
        raise unknown_name(f"learner for {data.name} ({data.task})", learner, known)
    return {**LEARNERS[learner].settings_for(data), **data.tuning.get(learner, {})}


def cycles_of(learner: str) -> LearnerCycles:
    """Return what was measured of a learner.

    >>> cycles_of("neighbors").forget.per_operation > cycles_of("neighbors").learn.per_operation
    True
    """
    cycles = LEARNERS[learner].cycles
    if cycles is None:
        raise BadInput(
            f"the learner {learner!r} does not say what it costs on a phone; its class needs "
            "`cycles`, a dealfl.learners.LearnerCycles (dealfl devices calibrate measures)"
        )
    return cycles


def from_schema(schema: Schema) -> Learner:
    """Return an empty learner whose statistics have that schema.

    >>> from_schema(PersonalizedPageRank(n_items=3).schema)
    PersonalizedPageRank(n_items=3, item_order=None)
    """
    return _kind(schema.learner).from_schema(schema)


def load(path: str | Path) -> Learner:
    """Read a saved learner of any kind."""
    return _kind(SavedLearner.read(Path(path)).learner).load(path)


def _kind(name: str) -> type[Learner]:
    if name not in LEARNERS:
        raise unknown_name("learner", name, LEARNERS)
    return LEARNERS[name]
