"""The protocol: whom of those who could be woken the server wakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Candidate", "Selector"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A worker that could be woken, and how much it is worth in advance.

    Time and energy are what its training is expected to take, where that is known.
    """

    name: str
    weight: float = 1.0
    elapsed_s: float | None = None
    energy_j: float | None = None


class Selector(Protocol):
    """Chooses workers, and learns from what they earned.

    A worker is known from the first round in which it is a candidate. Later rounds without it are
    rounds that it sleeps through: what it is owed goes on growing until it is `gone`. A worker
    that was chosen and did not earn anything before the next `select` counts as asleep, with
    reward 0; a reward that comes later takes the place of that 0 and is not a second try.
    """

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:
        """Return at most `count` different candidates; the same ones for the same history."""

    def earned(self, round_number: int, worker: str, reward: float) -> None:
        """Take note of a selected worker's reward in [0, 1]."""

    def gone(self, worker: str) -> None:
        """Drop a worker that will not come back; if it does, it is a new one."""

    def state(self) -> bytes:
        """Return what must survive a restart; the same object as long as nothing changes."""

    def restore(self, state: bytes) -> None:
        """Go on from a state; an empty one is that of a selector that has seen nothing."""
