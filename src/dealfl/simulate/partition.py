"""The section [data]: how examples are partitioned among workers, and the size of the test set."""

from __future__ import annotations

from typing import Annotated, ClassVar, Protocol

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from dealfl.datasets import Examples, split_by_label, split_by_owner, split_uniformly
from dealfl.errors import BadInput
from dealfl.settings import Positive, Whole

__all__ = ["PARTITIONS", "ByOwner", "LabelSkewed", "Partition", "Uniform"]

Indices = NDArray[np.int64]
NumberOfRows = Annotated[Whole, Meta(description="examples drawn from the dataset; 0: all")]
TestShare = Annotated[
    float,
    Meta(gt=0, le=0.9, description="share of the examples in the test set; no worker gets it"),
]


class Partition(Protocol):
    """A division of examples among workers."""

    wants_labels: ClassVar[bool]

    @property
    def rows(self) -> int:
        """Number of examples drawn from the dataset; 0 for all."""

    @property
    def test_share(self) -> float:
        """Share of the examples that no worker gets."""

    def parts(self, examples: Examples, chosen: Indices, workers: int, seed: int) -> list[Indices]:
        """Return the chosen examples of each worker."""


class Uniform(Struct, frozen=True, kw_only=True, tag_field="partition", tag="uniform"):
    """A random partition; every worker gets the same number."""

    rows: NumberOfRows = 0
    test_share: TestShare = 0.2
    wants_labels: ClassVar[bool] = False

    def parts(
        self,
        examples: Examples,  # noqa: ARG002
        chosen: Indices,
        workers: int,
        seed: int,
    ) -> list[Indices]:
        """Return parts of equal size."""
        return [chosen[part] for part in split_uniformly(len(chosen), workers, seed)]


class ByOwner(Struct, frozen=True, kw_only=True, tag_field="partition", tag="by_owner"):
    """A partition by owner; one worker gets all examples of an owner."""

    rows: NumberOfRows = 0
    test_share: TestShare = 0.2
    wants_labels: ClassVar[bool] = False

    def parts(self, examples: Examples, chosen: Indices, workers: int, seed: int) -> list[Indices]:
        """Return the parts of the owners."""
        if examples.owners is None:
            raise BadInput(
                f'data.partition is "by_owner", but {examples.name} has no owners; '
                'use "uniform" or "label_skewed"'
            )
        return [chosen[part] for part in split_by_owner(examples.owners[chosen], workers, seed)]


class LabelSkewed(Struct, frozen=True, kw_only=True, tag_field="partition", tag="label_skewed"):
    """A partition in which each worker has mostly a few classes."""

    concentration: Annotated[
        Positive, Meta(description="the smaller, the fewer classes per worker")
    ]
    rows: NumberOfRows = 0
    test_share: TestShare = 0.2
    wants_labels: ClassVar[bool] = True

    def parts(self, examples: Examples, chosen: Indices, workers: int, seed: int) -> list[Indices]:
        """Return uneven parts."""
        assert examples.targets is not None, "only datasets with labels are let through"
        labels = examples.targets[chosen]
        dealt = split_by_label(labels, workers, self.concentration, seed)
        return [chosen[part] for part in dealt]


PARTITIONS: tuple[type[ByOwner | Uniform | LabelSkewed], ...] = (Uniform, ByOwner, LabelSkewed)
