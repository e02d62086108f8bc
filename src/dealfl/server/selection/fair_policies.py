"""Choosing under a guarantee: virtual queues beside upper confidence bounds or drawn rewards."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dealfl.seeded import round_keys
from dealfl.server.selection.bandit import Bandit
from dealfl.server.selection.kernels import Floats, Places, best_of
from dealfl.server.selection.settings import number

__all__ = ["Discounted", "FairUpperConfidence", "ThompsonSampling", "draw_rewards"]


class FairUpperConfidence(Bandit):
    """Wakes the best by `queue + eta · weight · min(mean + sqrt(3 ln k / 2 tries), 1)`.

    In round k; an untried worker's bound is 1. The queue grows by the worker's fraction
    (`fairness`) each round, also while it sleeps, and shrinks by 1 when it is woken. Nobody is
    woken whose score is below `eta · price`.

    >>> from dealfl.server.selection.base import Candidate
    >>> selector = FairUpperConfidence(fairness={"slow": 0.25}, eta=1.0)
    >>> woken = []
    >>> for number in range(1, 101):
    ...     [name] = selector.select(number, [Candidate("fast"), Candidate("slow")], count=1)
    ...     selector.earned(number, name, 0.9 if name == "fast" else 0.1)
    ...     woken.append(name)
    >>> woken.count("slow") >= 24
    True
    """


class Discounted(Bandit):
    """As `FairUpperConfidence`, but a try is worth `discount` of itself one round later.

    A worker whose battery ran down is tried again when that is long ago. The bonus is
    `sqrt(exploration · 3 ln n / 2 tries)` with discounted tries and n discounted rounds.

    >>> Discounted(discount=1.5)
    Traceback (most recent call last):
    dealfl.errors.BadInput: discount=1.5: give a number from 0.5 to 0.999999
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        fairness: float | Mapping[str, float] = 0.0,
        eta: float = 10.0,
        weight_cap: float = 100.0,
        price: float = 0.0,
        discount: float = 0.99,
        exploration: float = 0.1,
    ) -> None:
        super().__init__(seed=seed, fairness=fairness, eta=eta, weight_cap=weight_cap, price=price)
        self._arm_settings["discount"] = number("discount", discount, 0.5, 0.999999)
        self._arm_settings["exploration"] = number("exploration", exploration, 0.0, 1e300)
        self.restore(b"")


def draw_rewards(seed: int, round_number: int, mean: Floats, count: Floats) -> Floats:
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
        sample = draw_rewards(self._seed, round_number, self.arms.mean, self.arms.count)
        scores = self.arms.sampled_scores(round_number, weight, sample)
        return best_of(np.where(eligible, scores, -1.0), count)
