"""A network that delays, loses and repeats messages, the same way for the same seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

__all__ = ["Network"]


@dataclass(slots=True)
class Network:
    """Says after which delays a message arrives: never, once, or several times.

    >>> Network(seed=1).delays_s()
    [0.0]
    """

    loss: float = 0.0
    repetition: float = 0.0
    shortest_s: float = 0.0
    longest_s: float = 0.0
    seed: int = 0
    _random: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Seed the draws."""
        self._random = random.Random(self.seed)  # noqa: S311

    def delays_s(self) -> list[float]:
        """Return the delays after which copies of one message arrive."""
        copies = 1 + (self._random.random() < self.repetition)
        arriving = [copy for copy in range(copies) if self._random.random() >= self.loss]
        return [self._random.uniform(self.shortest_s, self.longest_s) for _ in arriving]

    def state(self) -> tuple[int, tuple[int, ...], float | None]:
        """Return where the draws stand."""
        version, numbers, spare = self._random.getstate()
        return version, numbers, spare

    def restore(self, state: tuple[int, tuple[int, ...], float | None]) -> None:
        """Draw on from there."""
        self._random.setstate(state)
