"""How examples are dealt out to workers, and how many are kept to test with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dealfl.datasets import Examples, by_owner, label_skewed, uniform
from dealfl.errors import BadInput
from dealfl.jobs.settings import number, setting, whole

__all__ = ["DEALINGS", "ByOwner", "Dealing", "Evenly", "LabelSkewed"]

Indices = NDArray[np.int64]
_TEST_SHARE = number(0.0, most=0.9, above=True)


class Dealing(Protocol):
    """Deals out examples."""

    wants_labels: bool

    @property
    def rows(self) -> int:
        """How many examples are drawn from the dataset; 0 takes all."""

    @property
    def test_share(self) -> float:
        """The share that no worker gets."""

    def parts(self, examples: Examples, chosen: Indices, workers: int, seed: int) -> list[Indices]:
        """Return which of the chosen examples each worker gets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evenly:
    """At random, to each worker the same number."""

    rows: int = setting(whole(0), 0)
    test_share: float = setting(_TEST_SHARE, 0.2)
    wants_labels = False

    def parts(
        self,
        examples: Examples,  # noqa: ARG002
        chosen: Indices,
        workers: int,
        seed: int,
    ) -> list[Indices]:
        """Return equal parts."""
        return [chosen[part] for part in uniform(len(chosen), workers, seed)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ByOwner:
    """All examples of an owner to one worker."""

    rows: int = setting(whole(0), 0)
    test_share: float = setting(_TEST_SHARE, 0.2)
    wants_labels = False

    def parts(self, examples: Examples, chosen: Indices, workers: int, seed: int) -> list[Indices]:
        """Return the owners' parts."""
        if examples.owners is None:
            raise BadInput(
                f'data.partition is "by_owner", but {examples.name} does not say who owns an '
                'example; take "uniform" or "label_skewed"'
            )
        return [chosen[part] for part in by_owner(examples.owners[chosen], workers, seed)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSkewed:
    """To each worker mostly a few classes; the smaller the concentration, the fewer."""

    concentration: float = setting(number(0.0, above=True))
    rows: int = setting(whole(0), 0)
    test_share: float = setting(_TEST_SHARE, 0.2)
    wants_labels = True

    def parts(self, examples: Examples, chosen: Indices, workers: int, seed: int) -> list[Indices]:
        """Return uneven parts."""
        assert examples.targets is not None, "only datasets with labels are let through"
        labels = examples.targets[chosen]
        dealt = label_skewed(labels, workers, self.concentration, seed)
        return [chosen[part] for part in dealt]


DEALINGS: Mapping[str, type[ByOwner | Evenly | LabelSkewed]] = {
    "by_owner": ByOwner,
    "uniform": Evenly,
    "label_skewed": LabelSkewed,
}
