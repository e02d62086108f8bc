"""Learners whose models are functions of integers: learning adds, forgetting subtracts."""

from pathlib import Path

from dealfl.errors import unknown_name
from dealfl.learners import files
from dealfl.learners.base import Learner, Work
from dealfl.learners.naive_bayes import NaiveBayes
from dealfl.learners.neighbors import Neighbors
from dealfl.learners.pagerank import PersonalizedPageRank
from dealfl.learners.tikhonov import Tikhonov, TikhonovClassifier
from dealfl.statistics import Statistics

__all__ = [
    "LEARNERS",
    "Learner",
    "NaiveBayes",
    "Neighbors",
    "PersonalizedPageRank",
    "Statistics",
    "Tikhonov",
    "TikhonovClassifier",
    "Work",
    "load",
]

LEARNERS: dict[str, type[Learner]] = {
    learner.name: learner
    for learner in (NaiveBayes, Neighbors, PersonalizedPageRank, Tikhonov, TikhonovClassifier)
}


def load(path: str | Path) -> Learner:
    """Read a saved learner of any kind."""
    kind = files.read(Path(path)).learner
    if kind not in LEARNERS:
        raise unknown_name("learner", kind, LEARNERS)
    return LEARNERS[kind].load(path)
