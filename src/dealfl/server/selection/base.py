"""The protocol: whom of those who could be woken the server wakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Candidate", "Selector"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A worker that could be woken, and how much it is worth in advance."""

    name: str
    weight: float = 1.0


class Selector(Protocol):
    """Chooses workers, and learns from what they earned."""

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:
        """Return at most `count` different candidates; the same ones for the same history."""

    def earned(self, round_number: int, worker: str, reward: float) -> None:
        """Take note of a selected worker's reward in [0, 1]."""

    def state(self) -> bytes:
        """Return what must survive a restart."""

    def restore(self, state: bytes) -> None:
        """Go on from a state."""
