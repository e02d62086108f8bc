"""What a supervised source predicts: one of some classes, or a number within a bound."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from dealfl.datasets import Dataset, Domain, Task
from dealfl.settings import Document, Labels, Positive

__all__ = ["Classes", "TargetBound", "require_one_target", "supervised"]

Classes = Annotated[
    tuple[Any, ...],
    Labels(2),
    Meta(description="values the target can take; required for classification only"),
]
TargetBound = Annotated[
    Positive, Meta(description="largest magnitude of the target; required for regression only")
]


def require_one_target(document: Document, classes: tuple[Any, ...], bound: float) -> None:
    """Refuse a source that says neither what its classes are nor what its target's bound is."""
    if bool(classes) == bool(bound):
        given = "both are given" if classes else "neither is given"
        raise document.error(
            "source.target_bound" if classes else "source",
            f"source takes either classes (for classification) or target_bound (for "
            f"regression); {given}",
        )


def supervised(
    path: Path, domain: Domain, classes: tuple[Any, ...], target_bound: float
) -> Dataset:
    """Return the description from which learners take their settings."""
    return Dataset(
        name=path.name,
        task=Task.CLASSIFICATION if classes else Task.REGRESSION,
        description="a file of the user's own",
        rows=0,
        columns=domain.n_features,
        licence="the user's",
        address=str(path),
        domain=domain,
        classes=classes,
        target_bound=target_bound,
        tuning={} if classes else {"tikhonov": {"intercept": True}},
    )
