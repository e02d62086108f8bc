"""Learners whose models are functions of integers: learning adds, forgetting subtracts."""

from pathlib import Path
from typing import Any

from dealfl.errors import BadInput, unknown_name
from dealfl.learners import files
from dealfl.learners.base import Learner, Record, Work
from dealfl.learners.naive_bayes import NaiveBayes
from dealfl.learners.neighbors import Neighbors
from dealfl.learners.pagerank import PersonalizedPageRank
from dealfl.learners.records import (
    Histories,
    HistoryLearner,
    RowLearner,
    Rows,
    statistics_of,
)
from dealfl.learners.tikhonov import Tikhonov, TikhonovClassifier
from dealfl.plugins import Registry
from dealfl.statistics import Statistics

__all__ = [
    "LEARNERS",
    "Histories",
    "HistoryLearner",
    "Learner",
    "NaiveBayes",
    "Neighbors",
    "PersonalizedPageRank",
    "Record",
    "RowLearner",
    "Rows",
    "Statistics",
    "Tikhonov",
    "TikhonovClassifier",
    "Work",
    "load",
    "statistics_of",
]

_OWN: tuple[type[Learner], ...] = (
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
    Tikhonov,
    TikhonovClassifier,
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


def load(path: str | Path) -> Learner:
    """Read a saved learner of any kind."""
    kind = files.read(Path(path)).learner
    if kind not in LEARNERS:
        raise unknown_name("learner", kind, LEARNERS)
    return LEARNERS[kind].load(path)
