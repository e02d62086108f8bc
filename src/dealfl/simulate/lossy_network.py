"""A network that delays, loses and repeats messages, by a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

__all__ = ["Draws", "Network"]

Draws = tuple[int, tuple[int, ...], float | None]  # state of a random generator


@dataclass(slots=True)
class Network:
    """A network that delays, loses and repeats messages; the same seed gives the same faults.

    Parameters
    ----------
    loss : float
        Share of messages that are lost.
    repetition : float
        Share of messages that arrive twice.
    min_delay_s, max_delay_s : float
        Range of the delay in seconds.
    seed : int
        Seed of the random faults.

    Examples
    --------
    >>> Network(seed=1).delays_s()
    [0.0]
    """

    loss: float = 0.0
    repetition: float = 0.0
    min_delay_s: float = 0.0
    max_delay_s: float = 0.0
    seed: int = 0
    _random: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Seed the random generator."""
        self._random = random.Random(self.seed)  # noqa: S311

    def delays_s(self) -> list[float]:
        """Return the delay of each copy of a message, in seconds; empty if it is lost."""
        copies = 1 + (self._random.random() < self.repetition)
        arriving = [copy for copy in range(copies) if self._random.random() >= self.loss]
        return [self._random.uniform(self.min_delay_s, self.max_delay_s) for _ in arriving]

    def state(self) -> Draws:
        """Return the state of the random generator."""
        version, numbers, spare = self._random.getstate()
        return version, numbers, spare

    def restore(self, state: Draws) -> None:
        """Resume from a state of the random generator.

        Parameters
        ----------
        state : tuple
            Result of `state`.
        """
        self._random.setstate(state)
