"""Play all policies of a setting in the same world; measure what they lose and whom they pick."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dealfl.simulate.laboratory.batched_policies import Player, make_player
from dealfl.simulate.laboratory.environment import Environment
from dealfl.simulate.laboratory.optimum import Optimum, find_optima
from dealfl.simulate.laboratory.setting import Laboratory, Policy, Steady
from dealfl.simulate.sweeps import Estimate

__all__ = ["Course", "Result", "compute_bound", "run_laboratory"]

Floats = NDArray[np.float64]
Masks = NDArray[np.bool_]

_POINTS = 60


@dataclass(frozen=True, slots=True)
class Course:
    """What one policy did: rows are seeds, columns the rounds that are reported, or workers."""

    policy: Policy
    regret: Floats  # a round, in the mean of all rounds so far
    fractions: Floats
    shortfall: Floats  # of the worker furthest below its promise, a value a seed

    def regret_at_end(self) -> Estimate:
        """Return the pseudo-regret a round over the whole run."""
        return Estimate.of(self.regret[:, -1].tolist())

    def within(self, setting: Laboratory, points: NDArray[np.int64]) -> bool | None:
        """Return whether the regret is below what theory allows, where theory says anything."""
        stated = self.policy.kind in ("fair_ucb", "thompson") and math.isfinite(self.policy.eta)
        if not stated or not isinstance(setting.drift, Steady):
            return None
        allowed = compute_bound(setting, self.policy.eta, points.astype(np.float64))
        return bool((self.regret.mean(axis=0) <= allowed).all())

    def mean_shortfall(self) -> Estimate:
        """Return how far the worst-served worker is below its promise."""
        return Estimate.of(self.shortfall.tolist())


@dataclass(frozen=True, slots=True)
class Result:
    """A setting, its optimum, and the course of each policy."""

    setting: Laboratory
    seeds: int
    points: NDArray[np.int64]
    optimum: Optimum
    courses: tuple[Course, ...]


def compute_bound(setting: Laboratory, eta: float, rounds: Floats) -> Floats:
    """Return the regret a round that theory allows: what the queues cost, and the learning."""
    workers, most = setting.workers, float(setting.weight.max())
    chosen = setting.plan.per_round
    learning = 2 * math.sqrt(6) * most * np.sqrt(chosen * workers * rounds * np.log(rounds))
    start = (1 + math.pi**2 / 3) * most * workers
    allowed: Floats = workers / (2 * eta) + (learning + start) / rounds
    return allowed


def run_laboratory(
    setting: Laboratory,
    seeds: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Play every policy; `progress` is told the round and how many there are."""
    seeds = seeds or setting.plan.seeds
    best = find_optima(setting)
    games = [_Game(setting, policy, seeds) for policy in setting.policies]
    world = Environment(setting, seeds)
    points = _points(setting.plan.rounds)
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
    mean = _mean_optimum(best)
    return Result(setting, seeds, points, mean, tuple(game.course() for game in games))


def _mean_optimum(best: list[Optimum]) -> Optimum:
    fractions = np.mean([one.fractions for one in best], axis=0)
    return Optimum(float(np.mean([one.reward for one in best])), fractions, best[0].exact)


def _points(rounds: int) -> NDArray[np.int64]:
    """Return the rounds to report, ever further apart."""
    first = min(10, rounds)
    points: NDArray[np.int64] = np.unique(np.geomspace(first, rounds, _POINTS).round().astype(int))
    return points


class _Game:
    """One policy in all seeds, and the books on it."""

    def __init__(self, setting: Laboratory, policy: Policy, seeds: int) -> None:
        self._setting, self._policy = setting, policy
        self._player: Player = make_player(setting, policy, seeds)
        self._gained = np.zeros(seeds)
        self._picks = np.zeros((seeds, setting.workers), np.int64)
        self._curve: list[Floats] = []

    def play(self, number: int, awake: Masks, rewards: Floats, means: Floats) -> None:
        """Play one round."""
        scores = np.where(awake, self._player.scores(number, means, awake), -1.0)
        chosen = _best_of_rows(scores, self._setting.plan.per_round)
        self._player.learn(number, chosen, rewards)
        self._gained += chosen @ (self._setting.weight * means)
        self._picks += chosen

    def report(self, number: int, possible: float) -> None:
        """Note the regret so far."""
        self._curve.append((possible - self._gained) / number)

    def course(self) -> Course:
        """Close the books."""
        fractions = self._picks / self._setting.plan.rounds
        shortfall = np.maximum(self._setting.fairness - fractions, 0.0).max(axis=1)
        return Course(self._policy, np.stack(self._curve, axis=1), fractions, shortfall)


def _best_of_rows(scores: Floats, count: int) -> Masks:
    """Return the best `count` of each row, of equal ones the first; negative ones never."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    chosen = np.zeros(scores.shape, np.bool_)
    np.put_along_axis(chosen, order, True, axis=1)
    chosen &= scores >= 0
    return chosen
