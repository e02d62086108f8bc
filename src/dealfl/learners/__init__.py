"""Learners whose models are functions of integers: learning adds, forgetting subtracts.

A learner describes itself: its file states its examples, its tasks, the settings that suit a
dataset, and its cost. To add a learner, write such a file and add its class to `_OWN`.
"""

from pathlib import Path
from typing import Any

from dealfl.errors import BadInput, unknown_name
from dealfl.exact import Cycles, LearnerCycles, Schema, Statistics, Work
from dealfl.learners.base import Arrays, Learner, SparseVector, statistics_of
from dealfl.learners.description import DataLimits, Workload
from dealfl.learners.histories import HeldRecords, Histories, HistoryLearner
from dealfl.learners.inputs import (
    Labels,
    as_matrix,
    column_array,
    dense_blocks,
    frame_columns,
    is_absent,
    is_frame,
    is_sparse,
)
from dealfl.learners.naive_bayes import NaiveBayes
from dealfl.learners.neighbors import Neighbors
from dealfl.learners.pagerank import PersonalizedPageRank
from dealfl.learners.records import Change, Record, Rows, StoredRecord
from dealfl.learners.ridge import Tikhonov, TikhonovClassifier
from dealfl.learners.row_learner import Classifier, RowLearner
from dealfl.learners.saved import SavedLearner
from dealfl.learners.timed_learner import TimedLearner
from dealfl.registry import Registry

__all__ = [
    "LEARNERS",
    "Arrays",
    "Change",
    "Classifier",
    "Cycles",
    "DataLimits",
    "HeldRecords",
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
    "StoredRecord",
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
    "is_sparse",
    "learners_for",
    "load",
    "settings_for",
    "statistics_of",
]

_OWN: tuple[type[Learner], ...] = (  # the first one for a task is its default
    Tikhonov,
    TikhonovClassifier,
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
)


def _admit(name: str, candidate: Any) -> type[Learner]:  # noqa: ANN401
    if not (isinstance(candidate, type) and issubclass(candidate, Learner)):
        raise BadInput(f"{candidate!r} is not a subclass of dealfl.learners.Learner")
    if candidate.name != name:
        raise BadInput(f"the class has the name {candidate.name!r}; both names must be the same")
    return candidate


LEARNERS: Registry[type[Learner]] = Registry(
    "dealfl.learners", {learner.name: learner for learner in _OWN}, _admit
)


def learners_for(task: str) -> tuple[str, ...]:
    """Return the learners for a task.

    Parameters
    ----------
    task : str
        "regression", "classification" or "recommendation".

    Returns
    -------
    tuple of str
        Names of the learners, the default first.

    Examples
    --------
    >>> learners_for("classification")
    ('tikhonov_classifier', 'naive_bayes', 'neighbors')
    """
    return tuple(name for name, kind in LEARNERS.usable().items() if task in kind.tasks)


def settings_for(learner: str, data: DataLimits) -> dict[str, Any]:
    """Return the constructor arguments of a learner for data with these limits.

    They fit the output of the feature map that is declared for both, otherwise the raw features.

    Parameters
    ----------
    learner : str
        Name of the learner.
    data : DataLimits
        Limits of the data, for example an entry of `dealfl.data.CATALOG`.

    Returns
    -------
    dict of str to object
        Keyword arguments of the learner.

    Raises
    ------
    UnknownName
        No learner for this task has this name.
    """
    names = learners_for(data.task)
    if learner not in names:
        raise unknown_name(f"learner for {data.name} ({data.task})", learner, names)
    kind = LEARNERS[learner]
    if "settings_for" in kind.__abstractmethods__:
        raise BadInput(
            f"the learner {learner!r} cannot be used for {data.name}: {kind.__qualname__} of "
            f"{kind.__module__} lacks the class method settings_for(data), which returns its "
            "constructor arguments for the limits of some data; see docs/plugins.md"
        )
    return {**kind.settings_for(data), **data.tuning.get(learner, {})}


def cycles_of(learner: str) -> LearnerCycles:
    """Return the measured CPU cycles of a learner.

    Parameters
    ----------
    learner : str
        Name of the learner.

    Returns
    -------
    LearnerCycles
        Cycles of learning, forgetting and training.

    Raises
    ------
    BadInput
        The learner does not declare its cycles.

    Examples
    --------
    >>> cycles_of("neighbors").forget.per_operation > cycles_of("neighbors").learn.per_operation
    True
    """
    cycles = LEARNERS[learner].cycles
    if cycles is None:
        raise BadInput(
            f"learner {learner!r} does not declare its cost on a phone; set `cycles` of its class "
            "to a dealfl.learners.LearnerCycles (`dealfl devices calibrate` measures it)"
        )
    return cycles


def from_schema(schema: Schema) -> Learner:
    """Create an empty learner whose statistics have a schema.

    Parameters
    ----------
    schema : Schema
        Schema of the statistics.

    Returns
    -------
    Learner
        A learner with default settings where the schema does not determine them.

    Raises
    ------
    UnknownName
        No learner has the name in the schema.

    Examples
    --------
    >>> from_schema(PersonalizedPageRank(n_items=3).schema)
    PersonalizedPageRank(n_items=3, item_order=None, layout='packed')
    """
    return _kind(schema.learner).from_schema(schema)


def load(path: str | Path) -> Learner:
    """Load a saved learner of any kind.

    Parameters
    ----------
    path : str or Path
        File that `Learner.save` wrote.

    Returns
    -------
    Learner
        The learner.

    Raises
    ------
    BadInput
        The file cannot be read.
    BadBytes
        The file is damaged or is not a saved learner.
    """
    return _kind(SavedLearner.read(Path(path)).learner).load(path)


def _kind(name: str) -> type[Learner]:
    if name not in LEARNERS:
        raise unknown_name("learner", name, LEARNERS)
    return LEARNERS[name]
