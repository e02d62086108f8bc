"""What the description of a learner refers to: limits of data, and workloads.

The limits of data are known before any example; learners derive settings from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

__all__ = ["Batch", "DataLimits", "FeatureLimits", "Workload"]

Batch = tuple[Any, ...]
Bound = float | Sequence[float]  # one per feature, or one number if all are equal


class FeatureLimits(Protocol):
    """The limits of the features that a learner receives."""

    @property
    def n_features(self) -> int:
        """The number of features."""

    @property
    def magnitude(self) -> Bound:
        """The largest absolute value of each feature."""

    @property
    def lowest(self) -> Bound:
        """The smallest value of each feature."""

    @property
    def span(self) -> Bound:
        """The distance from the smallest to the largest value of each feature."""

    @property
    def centre(self) -> Bound:
        """The typical value of each feature."""

    @property
    def radius(self) -> Bound:
        """The largest distance of each feature from its centre."""


class DataLimits(Protocol):
    """What a dataset declares: its task, and the limits of features, targets and items."""

    @property
    def name(self) -> str:
        """The name of the dataset."""

    @property
    def task(self) -> str:
        """What can be learned, for example "classification"."""

    @property
    def classes(self) -> Sequence[Any]:
        """The classes of a classification dataset."""

    @property
    def target_bound(self) -> float:
        """The largest magnitude of the target of a regression dataset."""

    @property
    def n_items(self) -> int:
        """The number of items of a recommendation dataset."""

    @property
    def tuning(self) -> Mapping[str, Mapping[str, Any]]:
        """Settings that suit this data better than the defaults, by learner."""

    def domain_for(self, learner: str) -> FeatureLimits:
        """Return the limits of the features that a learner receives.

        Parameters
        ----------
        learner : str
            Name of the learner.

        Returns
        -------
        FeatureLimits
            Limits after the feature map for this learner, if any.
        """


@dataclass(frozen=True, slots=True)
class Workload:
    """Settings of a learner, and batches that span at least two decades of work.

    Parameters
    ----------
    settings : mapping of str to object
        Constructor arguments of the learner.
    batch : callable
        Returns the arguments of `learn` from a random generator and a number of examples.
    fewest : int
        Examples of the smallest batch.
    most : int
        Examples of the largest batch.
    """

    settings: Mapping[str, Any]
    batch: Callable[[np.random.Generator, int], Batch]
    fewest: int
    most: int
