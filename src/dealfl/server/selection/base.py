"""The protocol: whom of those who could be woken the server wakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

__all__ = ["Candidate", "OverPromise", "Promising", "Selector"]


_NAMED = 5  # workers; the others are counted


@dataclass(frozen=True, slots=True)
class Candidate:
    """A worker that could be woken, and how much it is worth in advance.

    Time and energy are what its training is expected to take, where that is known. Examples of
    one that is overdue have waited as long as they may.
    """

    name: str
    weight: float = 1.0
    elapsed_s: float | None = None
    energy_j: float | None = None
    overdue: bool = False


@dataclass(frozen=True, slots=True)
class OverPromise:
    """Workers that together were promised more picks a round than they can be given."""

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
    """Promises workers a share of the rounds, and knows when that can not be kept."""

    def over_promised(self) -> OverPromise | None:
        """Return the workers that were promised most beyond what they can get, if any were."""


class Selector(Protocol):
    """Chooses workers, and learns from what they earned.

    A worker is known from the first round in which it is a candidate. Later rounds without it are
    rounds that it sleeps through: what it is owed goes on growing until it is `gone`. A worker
    that was chosen and did not earn anything before the next `select` counts as asleep, with
    reward 0; a reward that comes later takes the place of that 0 and is not a second try.
    """

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:
        """Return at most `count` different candidates; the same ones for the same history.

        Where nobody is returned, the round does not take place: its number is asked for again.
        """

    def record_reward(self, round_number: int, worker: str, reward: float) -> None:
        """Take note of a selected worker's reward in [0, 1]."""

    def remove(self, worker: str) -> None:
        """Drop a worker that will not come back; if it does, it is a new one."""

    def state(self) -> bytes:
        """Return what must survive a restart; the same object as long as nothing changes."""

    def restore(self, state: bytes) -> None:
        """Go on from a state; an empty one is that of a selector that has seen nothing."""
