"""What is known of data before any example is seen; learners take their settings from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

__all__ = ["DataLimits", "FeatureLimits"]

Bound = float | Sequence[float]  # one for each feature, or one number when all agree


class FeatureLimits(Protocol):
    """The limits of the features that reach a learner."""

    @property
    def n_features(self) -> int:
        """How many features there are."""

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
    """What a dataset says of itself: its task, and the limits of features, targets and items."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def task(self) -> str:
        """What is to be learned, such as "classification"."""

    @property
    def classes(self) -> Sequence[Any]:
        """The classes of a classification."""

    @property
    def target_bound(self) -> float:
        """The largest absolute target of a regression."""

    @property
    def n_items(self) -> int:
        """The number of items of a recommendation."""

    @property
    def tuning(self) -> Mapping[str, Mapping[str, Any]]:
        """Settings that suit this data better than what a learner proposes, by learner."""

    def domain_for(self, learner: str) -> FeatureLimits:
        """Return the limits of the features that reach a learner."""
