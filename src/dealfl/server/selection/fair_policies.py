"""Selection with fairness guarantees: virtual queues with confidence bounds or sampled rewards."""

from typing import Annotated

import numpy as np
from msgspec import Meta

from dealfl.seeded import round_keys
from dealfl.server.selection.bandit import Bandit
from dealfl.server.selection.base import Eta, Guarantee, Price, Seed, WeightCap
from dealfl.server.selection.kernels import Floats, Masks, Places, best_of
from dealfl.settings import Amount, check

__all__ = ["Discounted", "FairUpperConfidence", "ThompsonSampling", "draw_rewards"]


class FairUpperConfidence(Bandit):
    """Wakes the best by `queue + eta · weight · min(mean + sqrt(3 ln k / 2 tries), 1)` in round k.

    The bound of an untried worker is 1. The queue grows by the worker's guarantee (`fairness`) each
    round, also while it sleeps, and shrinks by 1 when it is woken. Workers with a score below `eta
    · price` are not woken.

    References
    ----------
    .. [1] F. Li et al., "Combinatorial Sleeping Bandits with Fairness Constraints".

    Examples
    --------
    >>> from dealfl.server.selection.base import Candidate
    >>> selector = FairUpperConfidence(fairness={"slow": 0.25}, eta=1.0)
    >>> woken = []
    >>> for number in range(1, 101):
    ...     [name] = selector.select(number, [Candidate("fast"), Candidate("slow")], count=1)
    ...     selector.record_reward(number, name, 0.9 if name == "fast" else 0.1)
    ...     woken.append(name)
    >>> woken.count("slow") >= 24
    True
    """


class Discounted(Bandit):
    """As `FairUpperConfidence`, but past trials lose weight with every round.

    A worker that was bad long ago, for example with an empty battery, is tried again. The bonus is
    `sqrt(exploration · 3 ln n / 2 tries)` with discounted tries and n discounted rounds.

    Examples
    --------
    >>> Discounted(discount=1.5)
    Traceback (most recent call last):
    dealfl.errors.BadInput: discount is 1.5; it takes a number from 0.5 to 0.999999
    """

    def __init__(
        self,
        *,
        seed: Seed = 0,
        fairness: Guarantee = 0.0,
        eta: Eta = 10.0,
        weight_cap: WeightCap = 100.0,
        price: Price = 0.0,
        discount: Annotated[
            float,
            Meta(ge=0.5, le=0.999999, description="share of the past that counts one round later"),
        ] = 0.99,
        exploration: Annotated[
            Amount, Meta(description="preference for workers that were seldom tried")
        ] = 0.1,
    ) -> None:
        super().__init__(seed=seed, fairness=fairness, eta=eta, weight_cap=weight_cap, price=price)
        given = {"discount": discount, "exploration": exploration}
        self._arm_settings |= check(Discounted, given)
        self.restore({})


def draw_rewards(seed: int, round_number: int, mean: Floats, count: Floats) -> Floats:
    """Draw a reward for each arm from Beta(1 + gained, 1 + lost).

    Parameters
    ----------
    seed : int
        Seed of the draws.
    round_number : int
        Number of the round; every round has its own draws.
    mean : array of float
        Mean reward of each arm.
    count : array of float
        Number of trials of each arm.

    Returns
    -------
    array of float
        Rewards in [0, 1].
    """
    keys = np.array(round_keys(seed, round_number), dtype=np.uint64)
    generator = np.random.Generator(np.random.Philox(key=keys))
    gained = mean * count
    return generator.beta(1.0 + gained, 1.0 + count - gained)


class ThompsonSampling(Bandit):
    """Wakes the best by queue and a reward drawn from the posterior of each worker.

    Examples
    --------
    >>> from dealfl.server.selection.base import Candidate
    >>> ThompsonSampling(seed=3).select(1, [Candidate(name) for name in "abcd"], count=2)
    ['a', 'c']
    """

    def _choose(self, round_number: int, eligible: Masks, weight: Floats, count: int) -> Places:
        sample = draw_rewards(self._seed, round_number, self.arms.mean, self.arms.count)
        scores = self.arms.sampled_scores(round_number, weight, sample)
        return best_of(np.where(eligible, scores, -1.0), count)
