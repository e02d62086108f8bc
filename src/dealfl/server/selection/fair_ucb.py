"""Optimism under a guarantee: upper confidence bounds beside virtual queues."""

from dealfl.server.selection.bandit import Bandit

__all__ = ["FairUpperConfidence"]


class FairUpperConfidence(Bandit):
    """Wakes the best by `queue + eta · weight · min(mean + sqrt(3 ln k / 2 tries), 1)`.

    In round k; an untried worker's bound is 1. The queue grows by the worker's fraction
    (`fairness`) each round, also while it sleeps, and shrinks by 1 when it is woken. Nobody is
    woken whose score is below `eta · price`.

    >>> from dealfl.server.selection.base import Candidate
    >>> selector = FairUpperConfidence(fairness={"slow": 0.25}, eta=1.0)
    >>> woken = []
    >>> for number in range(1, 101):
    ...     [name] = selector.select(number, [Candidate("fast"), Candidate("slow")], count=1)
    ...     selector.earned(number, name, 0.9 if name == "fast" else 0.1)
    ...     woken.append(name)
    >>> woken.count("slow") >= 24
    True
    """
