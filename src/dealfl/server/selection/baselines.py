"""The baselines that learn nothing: everyone is woken, or each has the same chance."""

from collections.abc import Sequence

import numpy as np

from dealfl.server.selection.base import Candidate
from dealfl.server.selection.settings import Seed
from dealfl.settings import check

__all__ = ["Everyone", "Uniform"]


class _Memoryless:
    def record_reward(self, round_number: int, worker: str, reward: float) -> None:
        """Learn nothing."""

    def remove(self, worker: str) -> None:
        """Drop nothing."""

    def state(self) -> bytes:
        """Return nothing: nothing is remembered."""
        return b""

    def restore(self, state: bytes) -> None:
        """Restore nothing."""


class Everyone(_Memoryless):
    """Wakes all candidates, whatever the count: the traditional way, as a baseline.

    >>> Everyone().select(1, [Candidate("a"), Candidate("b")], count=1)
    ['a', 'b']
    """

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:  # noqa: ARG002
        """Return all candidates."""
        return [candidate.name for candidate in candidates]


class Uniform(_Memoryless):
    """Wakes `count` candidates at random; a round's draw depends on the seed and its number alone.

    >>> Uniform(seed=1).select(3, [Candidate(name) for name in "abcdef"], count=2)
    ['c', 'd']
    """

    def __init__(self, seed: Seed = 0) -> None:
        self._seed: int = check(Uniform, {"seed": seed})["seed"]

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:
        """Return `count` candidates, or all if there are fewer."""
        draw = np.random.Generator(np.random.PCG64([self._seed, round_number]))
        places = draw.permutation(len(candidates))[:count]
        return [candidates[place].name for place in sorted(places.tolist())]
