"""The limits of data that are known before any example; learners derive settings from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

__all__ = ["DataLimits", "FeatureLimits"]

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
