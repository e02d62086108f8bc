"""Experiments: all policies of a setting in the same environment, their regret and fairness."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from dealfl.server.selection import SELECTORS, Bandit, Player, best_of
from dealfl.settings import keys_of
from dealfl.simulate import Estimate
from dealfl_paper.laboratory.environment import (
    Environment,
    Floats,
    Masks,
    Optimum,
    find_optima,
)
from dealfl_paper.laboratory.setting import Laboratory, Policy, Steady

Indices = NDArray[np.int64]

_POINTS = 60


class _Known(Bandit):
    """A policy that knows the mean rewards; its regret is the cost of fairness alone."""

    means: Floats

    def _choose(self, round_number: int, eligible: Masks, weight: Floats, count: int) -> Indices:
        everywhere = np.tile(self.means, len(eligible))
        scores = self.arms.sampled_scores(round_number, weight, everywhere)
        return best_of(np.where(eligible, scores.reshape(eligible.shape), -1.0), count)


def _make_player(setting: Laboratory, policy: Policy, names: Sequence[str]) -> Player:
    """Return the selector of a policy, with the workers of all seeds."""
    made: Callable[..., object] = _Known if policy.kind == "known" else SELECTORS[policy.kind]
    settings = {
        "seed": setting.plan.seed,
        "eta": policy.eta,
        "discount": policy.discount,
        "exploration": policy.exploration,
        "weight_cap": 1.0,
        "fairness": dict(zip(names, cycle(setting.fairness.tolist()), strict=False)),
    }
    player = made(**{key: value for key, value in settings.items() if key in keys_of(made)})
    assert isinstance(player, Player)
    player.meet(names, round_number=1)
    return player


# -- results ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Course:
    """The results of one policy. Rows are seeds, columns are reported rounds or workers."""

    policy: Policy
    regret: Floats
    fractions: Floats
    shortfall: Floats

    def regret_at_end(self) -> Estimate:
        """Return the pseudo-regret per round over the whole run."""
        return Estimate.of(self.regret[:, -1].tolist())

    def within(self, setting: Laboratory, points: NDArray[np.int64]) -> bool | None:
        """Return whether the regret is below the theoretical bound."""
        stated = self.policy.kind in ("fair_ucb", "thompson") and math.isfinite(self.policy.eta)
        if not stated or not isinstance(setting.drift, Steady):
            return None
        allowed = compute_bound(setting, self.policy.eta, points.astype(np.float64))
        return bool((self.regret.mean(axis=0) <= allowed).all())

    def mean_shortfall(self) -> Estimate:
        """Return the mean over seeds of the largest shortfall below a guarantee."""
        return Estimate.of(self.shortfall.tolist())


@dataclass(frozen=True, slots=True)
class Result:
    """The results of a setting."""

    setting: Laboratory
    seeds: int
    points: NDArray[np.int64]
    optimum: Optimum
    courses: tuple[Course, ...]


def compute_bound(setting: Laboratory, eta: float, rounds: Floats) -> Floats:
    """Return the theoretical bound of the regret per round: cost of the queues plus learning.

    References
    ----------
    .. [1] F. Li, J. Liu, B. Ji, "Combinatorial Sleeping Bandits with Fairness Constraints",
       IEEE INFOCOM 2019.
    """
    workers, heaviest = setting.workers, float(setting.weight.max())
    chosen = setting.plan.per_round
    learning = 2 * math.sqrt(6) * heaviest * np.sqrt(chosen * workers * rounds * np.log(rounds))
    start = (1 + math.pi**2 / 3) * heaviest * workers
    allowed: Floats = workers / (2 * eta) + (learning + start) / rounds
    return allowed


def run_laboratory(
    setting: Laboratory,
    seeds: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Run every policy of a setting."""
    seeds = seeds or setting.plan.seeds
    best = find_optima(setting)
    games = [_Game(setting, policy, seeds) for policy in setting.policies]
    world = Environment(setting, seeds)
    spaced = np.geomspace(min(10, setting.plan.rounds), setting.plan.rounds, _POINTS)
    points: NDArray[np.int64] = np.unique(spaced.round().astype(int))  # at growing distances
    reported = set(points.tolist())
    possible = 0.0
    for number in range(1, setting.plan.rounds + 1):
        awake, rewards = world.awake(number), world.rewards(number)
        means = world.means(number)
        possible += best[world.phase(number)].reward
        for game in games:
            game.play(number, awake, rewards, means)
            if number in reported:
                game.report(number, possible)
        if progress is not None:
            progress(number, setting.plan.rounds)
    fractions = np.mean([optimum.fractions for optimum in best], axis=0)
    mean = Optimum(float(np.mean([optimum.reward for optimum in best])), fractions, best[0].exact)
    return Result(setting, seeds, points, mean, tuple(game.course() for game in games))


class _Game:
    """One policy with all seeds, and its results."""

    def __init__(self, setting: Laboratory, policy: Policy, seeds: int) -> None:
        self._setting = setting
        self._policy = policy
        names = [f"{seed}/{worker}" for seed in range(seeds) for worker in range(setting.workers)]
        self._player = _make_player(setting, policy, names)
        self._weight = np.tile(setting.weight, seeds)
        self._gained = np.zeros(seeds)
        self._picks = np.zeros((seeds, setting.workers), np.int64)
        self._curve: list[Floats] = []

    def play(self, number: int, awake: Masks, rewards: Floats, means: Floats) -> None:
        """Play one round."""
        if isinstance(self._player, _Known):
            self._player.means = means
        indices = self._player.play(number, awake, self._weight, self._setting.plan.per_round)
        self._player.record_rewards(indices, rewards.ravel()[indices])
        chosen = np.zeros(awake.shape, np.bool_)
        chosen.ravel()[indices] = True
        self._gained += chosen @ (self._setting.weight * means)
        self._picks += chosen

    def report(self, number: int, possible: float) -> None:
        """Record the regret so far."""
        self._curve.append((possible - self._gained) / number)

    def course(self) -> Course:
        """Return the results."""
        fractions = self._picks / self._setting.plan.rounds
        shortfall = np.maximum(self._setting.fairness - fractions, 0.0).max(axis=1)
        return Course(self._policy, np.stack(self._curve, axis=1), fractions, shortfall)
