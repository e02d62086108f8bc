"""What a job learns from: a dataset of the catalog, or a file of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dealfl.datasets import CATALOG, Dataset, Examples, Task, load
from dealfl.jobs.sources.owners import OwnerNames
from dealfl.jobs.sources.quarantine import Quarantine
from dealfl.learners import learners_for

__all__ = ["Reading", "Subject", "catalogued_subject"]


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """Examples, the rows that could not be used, and the owners' names where they are known."""

    examples: Examples
    quarantine: Quarantine
    owner_names: OwnerNames | None = None

    def owner(self, example: int) -> str:
        """Return whose example it is; an example that nobody owns stands for itself."""
        owners = self.examples.owners
        if owners is None:
            return f"{example}"
        number = int(owners[example])
        return f"{number}" if self.owner_names is None else self.owner_names[number]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is known before any example is read, and how to read them.

    `dataset` holds the limits of features and targets, from which learners take their settings;
    two subjects are equal if their `key` is: the same file in the same state, read the same way.

    >>> catalogued_subject("digits").learners
    ('tikhonov_classifier', 'naive_bayes', 'neighbors')
    """

    key: str
    dataset: Dataset = field(compare=False)
    read: Callable[[], Reading] = field(compare=False, repr=False)

    @property
    def name(self) -> str:
        """What it is called."""
        return self.dataset.name

    @property
    def task(self) -> Task:
        """What is to be learned."""
        return self.dataset.task

    @property
    def learners(self) -> tuple[str, ...]:
        """The names of the learners that fit the task."""
        return learners_for(self.task)


def catalogued_subject(name: str) -> Subject:
    """Return the subject of a dataset of the catalog."""
    return Subject(name, CATALOG[name], lambda: Reading(load(name), Quarantine(name)))
