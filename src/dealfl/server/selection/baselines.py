"""Baselines that learn nothing: wake all candidates, or a random sample."""

from collections.abc import Sequence

import numpy as np

from dealfl.server.selection.base import Candidate
from dealfl.server.selection.settings import Seed
from dealfl.settings import check

__all__ = ["Everyone", "Uniform"]


class _Memoryless:
    def record_reward(self, round_number: int, worker: str, reward: float) -> None:
        """Ignore the reward.

        Parameters
        ----------
        round_number : int
            Ignored.
        worker : str
            Ignored.
        reward : float
            Ignored.
        """

    def remove(self, worker: str) -> None:
        """Ignore the worker.

        Parameters
        ----------
        worker : str
            Ignored.
        """

    def state(self) -> bytes:
        """Return an empty state.

        Returns
        -------
        bytes
            Always empty.
        """
        return b""

    def restore(self, state: bytes) -> None:
        """Ignore the state.

        Parameters
        ----------
        state : bytes
            Ignored.
        """


class Everyone(_Memoryless):
    """Wakes all candidates, for any count: the traditional baseline.

    Examples
    --------
    >>> Everyone().select(1, [Candidate("a"), Candidate("b")], count=1)
    ['a', 'b']
    """

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:  # noqa: ARG002
        """Return all candidates.

        Parameters
        ----------
        round_number : int
            Ignored.
        candidates : sequence of Candidate
            Workers that can be woken.
        count : int
            Ignored.

        Returns
        -------
        list of str
            Names of all candidates.
        """
        return [candidate.name for candidate in candidates]


class Uniform(_Memoryless):
    """Wakes a uniform random sample of the candidates.

    Parameters
    ----------
    seed : int
        Seed of the samples. A sample depends only on the seed and the number of the round.

    Examples
    --------
    >>> Uniform(seed=1).select(3, [Candidate(name) for name in "abcdef"], count=2)
    ['c', 'd']
    """

    def __init__(self, seed: Seed = 0) -> None:
        self._seed: int = check(Uniform, {"seed": seed})["seed"]

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:
        """Return a random sample of the candidates.

        Parameters
        ----------
        round_number : int
            Number of the round.
        candidates : sequence of Candidate
            Workers that can be woken.
        count : int
            Size of the sample; all candidates if there are fewer.

        Returns
        -------
        list of str
            Names in the order of the candidates.
        """
        draw = np.random.Generator(np.random.PCG64([self._seed, round_number]))
        places = draw.permutation(len(candidates))[:count]
        return [candidates[place].name for place in sorted(places.tolist())]
