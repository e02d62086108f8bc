"""Probability matching under a guarantee: rewards are drawn from what is believed of them."""

import numpy as np
from numpy.typing import NDArray

from dealfl.server.selection.bandit import Bandit
from dealfl.server.selection.counters import round_keys
from dealfl.server.selection.kernels import Floats, Places, best_of

__all__ = ["ThompsonSampling", "drawn"]


def drawn(seed: int, round_number: int, mean: Floats, count: Floats) -> Floats:
    """Draw each arm's reward from Beta(1 + gained, 1 + lost); a round's draw is its own."""
    keys = np.array(round_keys(seed, round_number), dtype=np.uint64)
    generator = np.random.Generator(np.random.Philox(key=keys))
    gained = mean * count
    return generator.beta(1.0 + gained, 1.0 + count - gained)


class ThompsonSampling(Bandit):
    """Wakes the best by queue and a reward drawn for each; settings as `FairUpperConfidence`.

    >>> from dealfl.server.selection.base import Candidate
    >>> ThompsonSampling(seed=3).select(1, [Candidate(name) for name in "abcd"], count=2)
    ['a', 'c']
    """

    def _choose(
        self, round_number: int, eligible: NDArray[np.bool_], weight: Floats, count: int
    ) -> Places:
        sample = drawn(self._seed, round_number, self._arms.mean, self._arms.count)
        scores = self._arms.sampled_scores(round_number, weight, sample)
        return best_of(np.where(eligible, scores, -1.0), count)
