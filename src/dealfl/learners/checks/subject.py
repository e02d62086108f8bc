"""What is checked: a learner, a pool of examples, and random operations on them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dealfl.learners.base import Learner
from dealfl.learners.history_learner import HistoryLearner
from dealfl.learners.row_learner import RowLearner
from dealfl.statistics import Statistics

__all__ = ["Operation", "Places", "Subject", "random_operations"]

Places = Sequence[int]


@dataclass(frozen=True, slots=True)
class Operation:
    """Learn or forget some examples of a pool.

    Parameters
    ----------
    learns : bool
        True to learn, False to forget.
    places : tuple of int
        Positions in the pool; a position can occur twice.
    """

    learns: bool
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """A learner to check, with a pool of examples.

    Parameters
    ----------
    make : callable
        Creates an empty learner.
    examples : tuple
        Arguments of `learn` for the whole pool.
    refused : sequence of callable, optional
        Calls that raise `BadInput` or `NotLearned` on a learner that has learned the whole pool.
    impossible : sequence of Statistics, optional
        Statistics that no set of examples has.
    """

    make: Callable[[], Learner]
    examples: tuple[Any, ...]
    refused: Sequence[Callable[[Any], object]] = ()
    impossible: Sequence[Statistics] = ()

    @classmethod
    def of_rows(
        cls,
        make: Callable[[], RowLearner],
        X: Any,  # noqa: ANN401
        y: Any,  # noqa: ANN401
        refused: Sequence[Callable[[Any], object]] = (),
        impossible: Sequence[Statistics] = (),
    ) -> Subject:
        """Create the subject for a learner of rows and targets.

        Parameters
        ----------
        make : callable
            Creates an empty learner.
        X : ndarray
            Rows of the pool.
        y : ndarray
            Targets of the pool.
        refused : sequence of callable, optional
            Calls that must raise an error.
        impossible : sequence of Statistics, optional
            Statistics that no set of examples has.

        Returns
        -------
        Subject
            The subject.
        """
        return cls(make, (X, y), refused, impossible)

    @classmethod
    def of_histories(
        cls,
        make: Callable[[], HistoryLearner],
        histories: Any,  # noqa: ANN401
        refused: Sequence[Callable[[Any], object]] = (),
        impossible: Sequence[Statistics] = (),
    ) -> Subject:
        """Create the subject for a learner of histories.

        Parameters
        ----------
        make : callable
            Creates an empty learner.
        histories : csr_array
            Histories of the pool.
        refused : sequence of callable, optional
            Calls that must raise an error.
        impossible : sequence of Statistics, optional
            Statistics that no set of examples has.

        Returns
        -------
        Subject
            The subject.
        """
        return cls(make, (histories,), refused, impossible)

    @property
    def name(self) -> str:
        """The name of the learner."""
        return self.make().name

    @property
    def pool(self) -> int:
        """The number of examples."""
        return int(self.examples[0].shape[0])

    def at(self, places: Places) -> tuple[Any, ...]:
        """Return the examples at some positions.

        Parameters
        ----------
        places : sequence of int
            Positions in the pool.

        Returns
        -------
        tuple
            Arguments of `learn`.
        """
        return tuple(part[list(places)] for part in self.examples)

    def learn(self, model: Learner, places: Places) -> Statistics:
        """Learn the examples at some positions.

        Parameters
        ----------
        model : Learner
            Learner to change.
        places : sequence of int
            Positions in the pool.

        Returns
        -------
        Statistics
            The statistics that were added.
        """
        return model.learn(*self.at(places))

    def forget(self, model: Learner, places: Places) -> Statistics:
        """Forget the examples at some positions.

        Parameters
        ----------
        model : Learner
            Learner to change.
        places : sequence of int
            Positions in the pool.

        Returns
        -------
        Statistics
            The statistics that were added.
        """
        return model.forget(*self.at(places))

    def learned(self, places: Places) -> Learner:
        """Create a learner that has learned some examples in one batch.

        Parameters
        ----------
        places : sequence of int
            Positions in the pool.

        Returns
        -------
        Learner
            The learner.
        """
        model = self.make()
        self.learn(model, places)
        return model


def random_operations(generator: random.Random, pool: int, steps: int = 12) -> list[Operation]:
    """Return a random sequence with duplicates, re-adds, empty batches and complete removals.

    Parameters
    ----------
    generator : random.Random
        Source of randomness.
    pool : int
        Number of examples.
    steps : int, default 12
        Number of operations.

    Returns
    -------
    list of Operation
        Operations that never forget what was not learned.
    """
    held: Counter[int] = Counter()
    operations = []
    for _ in range(steps):
        size = generator.choice((0, 1, 1, 1, 2, 3, 5))
        learns = not held or generator.random() < 0.55
        if learns:
            places = generator.choices(range(pool), k=size)
            held.update(places)
        else:
            elements = sorted(held.elements())
            everything = generator.random() < 0.1
            places = (
                elements if everything else generator.sample(elements, min(size, len(elements)))
            )
            held.subtract(places)
            held = +held
        operations.append(Operation(learns, tuple(places)))
    return operations
