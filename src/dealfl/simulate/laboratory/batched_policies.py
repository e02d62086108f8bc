"""The policies of the selectors for many seeds at once, on the same arrays and formulas."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dealfl.seeded import round_keys, uniforms
from dealfl.server.selection import Arms, Utilities, draw_rewards
from dealfl.simulate.laboratory.setting import Laboratory, Policy

__all__ = ["Player", "make_player"]

Floats = NDArray[np.float64]
Masks = NDArray[np.bool_]

_CHOICE = 5


class Player(Protocol):
    """A policy that chooses in every seed's round, and learns the rewards of the chosen workers."""

    def scores(self, round_number: int, means: Floats, awake: Masks) -> Floats:
        """Return the score of each worker, one row per seed; a score below 0 is never chosen."""

    def learn(self, round_number: int, chosen: Masks, rewards: Floats) -> None:
        """Learn the rewards of the chosen workers."""


class _Queued:
    """A policy with fairness queues; the arms of all seeds are stored one after another."""

    def __init__(self, setting: Laboratory, policy: Policy, seeds: int) -> None:
        aged = policy.kind == "discounted"
        self._arms = Arms(
            np.tile(setting.fairness, seeds),
            eta=policy.eta,
            discount=policy.discount if aged else 1.0,
            exploration=policy.exploration if aged else 1.0,
        )
        self._weight = np.tile(setting.weight, seeds)
        self._shape = (seeds, setting.workers)
        self._seed = setting.plan.seed

    def scores(self, round_number: int, means: Floats, awake: Masks) -> Floats:  # noqa: ARG002
        return self._arms.scores(round_number, self._weight).reshape(self._shape)

    def learn(self, round_number: int, chosen: Masks, rewards: Floats) -> None:
        places = np.flatnonzero(chosen)
        self._arms.pick(round_number, places)
        self._arms.learn(places, rewards.ravel()[places])


class _Sampled(_Queued):
    def scores(self, round_number: int, means: Floats, awake: Masks) -> Floats:  # noqa: ARG002
        sample = draw_rewards(self._seed, round_number, self._arms.mean, self._arms.count)
        return self._arms.sampled_scores(round_number, self._weight, sample).reshape(self._shape)


class _Known(_Queued):
    """A policy that knows the mean rewards; its regret is the cost of fairness alone."""

    def scores(self, round_number: int, means: Floats, awake: Masks) -> Floats:  # noqa: ARG002
        everywhere = np.tile(means, self._shape[0])
        scores = self._arms.sampled_scores(round_number, self._weight, everywhere)
        return scores.reshape(self._shape)


class _Useful(_Queued):
    """A policy that chooses by utility: chosen workers score 1, all others −1."""

    def __init__(self, setting: Laboratory, policy: Policy, seeds: int) -> None:
        super().__init__(setting, policy, seeds)
        self._count = setting.plan.per_round

    def scores(self, round_number: int, means: Floats, awake: Masks) -> Floats:  # noqa: ARG002
        workers = self._shape[1]
        utilities = Utilities.of(self._arms, self._seed, round_number, self._weight, workers)
        return np.where(utilities.choose(awake, self._count), 1.0, -1.0)


class _Uniform:
    def __init__(self, setting: Laboratory, policy: Policy, seeds: int) -> None:  # noqa: ARG002
        self._places = np.arange(seeds * setting.workers, dtype=np.uint64)
        self._shape, self._seed = (seeds, setting.workers), setting.plan.seed

    def scores(self, round_number: int, means: Floats, awake: Masks) -> Floats:  # noqa: ARG002
        keys = round_keys(self._seed, round_number, _CHOICE)
        return uniforms(keys, self._places).reshape(self._shape)

    def learn(self, round_number: int, chosen: Masks, rewards: Floats) -> None:
        """Learn nothing."""


_PLAYERS: dict[str, type[_Queued] | type[_Uniform]] = {
    "fair_ucb": _Queued,
    "discounted": _Queued,
    "thompson": _Sampled,
    "known": _Known,
    "oort": _Useful,
    "uniform": _Uniform,
}


def make_player(setting: Laboratory, policy: Policy, seeds: int) -> Player:
    """Return the player of a policy."""
    return _PLAYERS[policy.kind](setting, policy, seeds)
