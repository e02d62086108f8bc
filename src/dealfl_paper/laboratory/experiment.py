"""Experiments: all policies of a setting in the same environment, their regret and fairness."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dealfl.exact import round_keys, uniforms
from dealfl.server.selection import Arms, Utilities, draw_rewards
from dealfl.simulate import Estimate
from dealfl_paper.laboratory.environment import (
    Environment,
    Floats,
    Masks,
    Optimum,
    find_optima,
)
from dealfl_paper.laboratory.setting import Laboratory, Policy, Steady

_POINTS = 60
_CHOICE = 5


# -- the policies for many seeds at once, on the arrays and formulas of the selectors -----------


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
    fractions = np.mean([one.fractions for one in best], axis=0)
    mean = Optimum(float(np.mean([one.reward for one in best])), fractions, best[0].exact)
    return Result(setting, seeds, points, mean, tuple(game.course() for game in games))


class _Game:
    """One policy with all seeds, and its results."""

    def __init__(self, setting: Laboratory, policy: Policy, seeds: int) -> None:
        self._setting, self._policy = setting, policy
        self._player = _PLAYERS[policy.kind](setting, policy, seeds)
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
        """Record the regret so far."""
        self._curve.append((possible - self._gained) / number)

    def course(self) -> Course:
        """Return the results."""
        fractions = self._picks / self._setting.plan.rounds
        shortfall = np.maximum(self._setting.fairness - fractions, 0.0).max(axis=1)
        return Course(self._policy, np.stack(self._curve, axis=1), fractions, shortfall)


def _best_of_rows(scores: Floats, count: int) -> Masks:
    """Return the best `count` of each row, the first of equal ones; never negative ones."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    chosen = np.zeros(scores.shape, np.bool_)
    np.put_along_axis(chosen, order, True, axis=1)
    chosen &= scores >= 0
    return chosen
