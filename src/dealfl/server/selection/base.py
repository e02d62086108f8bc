"""The protocol of selectors, and the keys that several of them share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol, overload, runtime_checkable

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.settings import Positive, Share, Whole

_NAMED = 5  # workers named in a message


@dataclass(frozen=True, slots=True)
class Candidate:
    """A worker that can be woken."""

    name: str
    weight: float = 1.0
    elapsed_s: float | None = None
    energy_j: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Candidates(Sequence[Candidate]):
    """Many candidates as arrays; a `Candidate` is made when it is needed.

    `numbers` identify the same workers in all candidates of the same `origin`. Unknown times and
    energies are NaN.
    """

    origin: object
    names: list[str]
    numbers: NDArray[np.int64]
    weight: NDArray[np.float64]
    elapsed_s: NDArray[np.float64]
    energy_j: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> list[Candidate]: ...
    def __getitem__(self, index: int | slice) -> Candidate | list[Candidate]:
        """Return one candidate, or some."""
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        return Candidate(
            self.names[index],
            float(self.weight[index]),
            _known(self.elapsed_s[index]),
            _known(self.energy_j[index]),
        )


def _known(value: float) -> float | None:
    return None if value != value else float(value)


@dataclass(frozen=True, slots=True)
class OverPromise:
    """Workers whose fairness guarantees together exceed what they can get."""

    workers: tuple[str, ...]
    promised: float
    possible: float

    def __str__(self) -> str:
        """Return the figures, and the first names.

        >>> print(OverPromise(("a", "b"), promised=1.2, possible=0.9))
        1.20 picks a round, 0.90 possible: a, b
        """
        names = ", ".join(self.workers[:_NAMED])
        if len(self.workers) > _NAMED:
            names += f" and {len(self.workers) - _NAMED} more"
        return f"{self.promised:.2f} picks a round, {self.possible:.2f} possible: {names}"


@runtime_checkable
class Promising(Protocol):
    """A selector that guarantees workers a share of the rounds."""

    def over_promised(self) -> OverPromise | None:
        """Return the workers whose guarantees cannot be met."""


class Selector(Protocol):
    """A policy that selects workers and learns from their rewards.

    A worker is known from the first round in which it is a candidate. It counts as asleep in later
    rounds without it, and its fairness queue grows until `remove`. A selected worker without a
    reward before the next `select` gets the reward 0; a later reward replaces this 0.

    A policy that learns nothing inherits all methods but `select`.
    """

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:
        """Return the workers to wake; the same history gives the same result.

        If the result is empty, the round does not take place and its number is used again.

        Parameters
        ----------
        round_number
            Number of the round.
        candidates
            The workers that are awake and able.
        count
            Number of replies that the round aims at.

        Returns
        -------
        list[str]
            Names of workers.
        """

    def record_reward(self, round_number: int, worker: str, reward: float) -> None:  # noqa: ARG002
        """Record the reward of a selected worker.

        Parameters
        ----------
        round_number
            Number of the round.
        worker
            Name of the worker.
        reward
            The reward, from 0 to 1.
        """
        return

    def remove(self, worker: str) -> None:  # noqa: ARG002
        """Forget a worker. If it returns, it is a new worker.

        Parameters
        ----------
        worker
            Name of the worker.
        """
        return

    def changes(self) -> Mapping[str, bytes]:
        """Return the parts of the state that changed since the last call or `restore`.

        The server stores them before it sends the messages of a call. A state in several parts
        makes this cheap for many workers.
        """
        return {}

    def restore(self, parts: Mapping[str, bytes]) -> None:  # noqa: ARG002
        """Resume from a stored state.

        Parameters
        ----------
        parts
            What `changes` returned, the last of each part.
        """
        return


@runtime_checkable
class Player(Selector, Protocol):
    """A selector that also plays independent games side by side, as arrays.

    Rows are games and columns their workers; a flat index counts workers row after row. `select`
    is a game of one row, so that a simulation of many games and a server follow the same rule.
    """

    def meet(self, names: Sequence[str], round_number: int) -> None:  # noqa: ARG002
        """Know the workers of all games, row after row, from a round on."""
        return

    def play(
        self,
        round_number: int,
        eligible: NDArray[np.bool_],
        weight: NDArray[np.float64],
        count: int,
    ) -> NDArray[np.int64]:
        """Return the flat indices of the workers to wake in all games; weights are at most 1."""

    def record_rewards(self, indices: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:  # noqa: ARG002
        """Record the rewards of workers that were chosen in the last round."""
        return


# -- keys ----------------------------------------------------------------------------------------

Seed = Annotated[Whole, Meta(description="seed of the selector; by default the job's seed")]
Guarantee = Annotated[
    Share | Mapping[str, Share],
    Meta(
        description="minimum share of the rounds for each worker: one number, or a table by name "
        'with "*" for the others'
    ),
]
Eta = Annotated[
    float, Meta(gt=0, extra={"inf": True}, description="weight of rewards against fairness")
]
WeightCap = Annotated[
    Positive, Meta(description="number of waiting examples above which more do not count")
]
