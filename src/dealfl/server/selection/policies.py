"""The selectors: everyone, a random sample, policies with fairness guarantees, one like Oort."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta

from dealfl.exact import round_keys, uniforms
from dealfl.server.selection.arms import Arms, Floats, Indices, Masks, best_of
from dealfl.server.selection.bandit import Bandit
from dealfl.server.selection.base import (
    Candidate,
    Eta,
    Guarantee,
    Player,
    Seed,
    Selector,
    WeightCap,
)
from dealfl.settings import Amount, check

_EXPLORED_AT_FIRST = 0.9  # share of untried workers in the first round
_EXPLORED_AT_LEAST = 0.2
_FEWER = 0.98
_CUT = 0.95
_STALENESS = 0.1


class Everyone(Selector):
    """Wakes all candidates, for any count: the traditional baseline.

    Examples
    --------
    >>> Everyone().select(1, [Candidate("a"), Candidate("b")], count=1)
    ['a', 'b']
    """

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:  # noqa: ARG002
        """Return all candidates."""
        return [candidate.name for candidate in candidates]


class Uniform(Player):
    """Wakes a uniform random sample of the candidates.

    Examples
    --------
    >>> Uniform(seed=1).select(3, [Candidate(name) for name in "abcdef"], count=2)
    ['c', 'd']
    """

    def __init__(self, seed: Seed = 0) -> None:
        self._seed: int = check(Uniform, {"seed": seed})["seed"]

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:
        """Return a random sample of the candidates."""
        everybody = np.ones((1, len(candidates)), np.bool_)
        chosen = self.play(round_number, everybody, np.ones(len(candidates)), count)
        return [candidates[index].name for index in chosen.tolist()]

    def play(self, round_number: int, eligible: Masks, weight: Floats, count: int) -> Indices:  # noqa: ARG002
        """Return the first eligible workers of a random order of each game."""
        draw = np.random.Generator(np.random.PCG64([self._seed, round_number]))
        games, workers = eligible.shape
        order = draw.permuted(np.tile(np.arange(workers), (games, 1)), axis=1)
        awake = np.take_along_axis(eligible, order, axis=1)
        chosen = np.zeros_like(eligible)
        np.put_along_axis(chosen, order, awake & (np.cumsum(awake, axis=1) <= count), axis=1)
        return np.flatnonzero(chosen)


class FairUpperConfidence(Bandit):
    """Wakes the best by `queue + eta · weight · min(mean + sqrt(3 ln k / 2 tries), 1)` in round k.

    The bound of an untried worker is 1. The queue grows by the worker's guarantee (`fairness`) each
    round, also while it sleeps, and shrinks by 1 when it is woken.

    References
    ----------
    .. [1] F. Li et al., "Combinatorial Sleeping Bandits with Fairness Constraints".

    Examples
    --------
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
        discount: Annotated[
            float,
            Meta(ge=0.5, le=0.999999, description="share of the past that counts one round later"),
        ] = 0.99,
        exploration: Annotated[
            Amount, Meta(description="preference for workers that were seldom tried")
        ] = 0.1,
    ) -> None:
        super().__init__(seed=seed, fairness=fairness, eta=eta, weight_cap=weight_cap)
        given = {"discount": discount, "exploration": exploration}
        self._arm_settings |= check(Discounted, given)
        self.restore({})


def draw_rewards(seed: int, round_number: int, mean: Floats, count: Floats) -> Floats:
    """Draw a reward for each arm from Beta(1 + gained, 1 + lost)."""
    keys = np.array(round_keys(seed, round_number), dtype=np.uint64)
    generator = np.random.Generator(np.random.Philox(key=keys))
    gained = mean * count
    return generator.beta(1.0 + gained, 1.0 + count - gained)


class ThompsonSampling(Bandit):
    """Wakes the best by queue and a reward drawn from the posterior of each worker.

    Examples
    --------
    >>> ThompsonSampling(seed=3).select(1, [Candidate(name) for name in "abcd"], count=2)
    ['a', 'c']
    """

    def _choose(self, round_number: int, eligible: Masks, weight: Floats, count: int) -> Indices:
        sample = draw_rewards(self._seed, round_number, self.arms.mean, self.arms.count)
        scores = self.arms.sampled_scores(round_number, weight, sample)
        return best_of(np.where(eligible, scores.reshape(eligible.shape), -1.0), count)


class OortLike(Bandit):
    """Wakes mostly workers of high utility, and a shrinking share of untried workers.

    The utility is `weight · (mean + sqrt(0.1 ln k / last round))`. Workers within 95 % of the
    lowest utility that would be selected are drawn in proportion to their utility. The reward
    already contains speed and number of examples. There is no fairness guarantee.
    """

    def _choose(self, round_number: int, eligible: Masks, weight: Floats, count: int) -> Indices:
        width = eligible.shape[1]
        utilities = _Utilities.of(self.arms, self._seed, round_number, weight, width)
        return np.flatnonzero(utilities.choose(eligible, count))


@dataclass(frozen=True, slots=True)
class _Utilities:
    """The input of a choice; rows are games, columns their arms."""

    round_number: int
    utility: Floats
    weight: Floats
    tried: Masks
    lots: Floats  # uniform random numbers in (0, 1)

    @classmethod
    def of(cls, arms: Arms, seed: int, round_number: int, weight: Floats, width: int) -> _Utilities:
        """Return the utilities of arms that are stored row after row, `width` in each."""
        keys = round_keys(seed, round_number)
        lots = uniforms(keys, np.arange(len(arms), dtype=np.uint64))
        stale = np.log(round_number) / np.maximum(arms.picked, 1)
        utility = weight * (arms.mean + np.sqrt(_STALENESS * stale))
        shape = (-1, width)
        return cls(
            round_number,
            utility=utility.reshape(shape),
            weight=weight.reshape(shape),
            tried=(arms.count > 0).reshape(shape),
            lots=lots.reshape(shape),
        )

    def choose(self, eligible: Masks, count: int) -> Masks:
        """Return which arms are chosen."""
        tried = eligible & self.tried
        fresh = eligible & ~self.tried
        share = max(_EXPLORED_AT_LEAST, _EXPLORED_AT_FIRST * _FEWER**self.round_number)
        explored = np.maximum(round(share * count), count - tried.sum(axis=1))
        explored = np.minimum(explored, np.minimum(fresh.sum(axis=1), count))
        near = self._near_best(tried, count - explored)
        old = self._drawn(near, self.utility) < (count - explored)[:, None]
        new = self._drawn(fresh, self.weight) < explored[:, None]
        chosen: Masks = (near & old) | (fresh & new)
        return chosen

    def _near_best(self, among: Masks, counts: Indices) -> Masks:
        """Return the arms not far below the last one that utility alone would choose."""
        fitting = among & (_ranks(np.where(among, self.utility, -1.0)) < counts[:, None])
        least = np.where(fitting, self.utility, np.inf).min(axis=1, keepdims=True)
        near: Masks = among & (self.utility >= _CUT * least)
        return near

    def _drawn(self, among: Masks, share: Floats) -> Indices:
        """Return the rank in which each arm is drawn, with chances in proportion to its share."""
        waiting = -np.log(self.lots) / np.maximum(share, 1e-300)
        return _ranks(np.where(among, -waiting, -np.inf))


def _ranks(values: Floats) -> Indices:
    """Return the rank of each value in its row, the largest first."""
    order = np.argsort(-values, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(values.shape[1])[None, :], axis=1)
    return ranks
