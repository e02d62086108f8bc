"""The environment: who is awake and what each worker earns, and the best policy that knows it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse

from dealfl.errors import BadInput
from dealfl.exact import round_keys, uniforms
from dealfl.server.selection import find_excess
from dealfl.simulate import Availability, Markov
from dealfl_paper.laboratory.setting import Batteries, Laboratory

Floats = NDArray[np.float64]
Masks = NDArray[np.bool_]

_REWARD, _SAMPLING = 2, 4
_AHEAD = 1_000  # rounds
_ALL_SETS_UP_TO = 10  # workers
_SAMPLED_SETS = 2_000


def awake_phases(setting: Laboratory) -> Floats:
    """Return the probabilities of being awake, a row for each phase of equal length."""
    swing = setting.availability.swing
    if swing:
        day, night = setting.awake * (1 + swing), setting.awake * (1 - swing)
        return np.minimum(np.stack([day, night]), 1.0)
    return setting.awake[None, :]


def reward_phases(setting: Laboratory) -> Floats:
    """Return the mean rewards, a row for each phase of equal length."""
    if not isinstance(setting.drift, Batteries):
        return setting.reward[None, :]
    steps = np.arange(setting.drift.steps)[:, None] / setting.drift.steps
    drained = (steps + np.arange(setting.workers) / setting.workers) % 1.0
    rewards: Floats = setting.reward * (1 - (1 - setting.drift.empty) * drained)
    return rewards


class Environment:
    """The rounds of a setting for several seeds at once, as matrices of seed and worker.

    A random number depends only on the setting's seed, the round, the place of the seed and the
    worker, so that more seeds or other policies do not change it. Workers wake by the models of
    fleets, where a round is a second.
    """

    def __init__(self, setting: Laboratory, seeds: int) -> None:
        self._setting = setting
        self._shape = (seeds, setting.workers)
        self._indices = np.arange(seeds * setting.workers, dtype=np.uint64)
        self._reward_phases = reward_phases(setting)
        self._schedules = [
            [
                _Schedule(_model(setting, chance), f"{setting.plan.seed}/{phase}/{seed}/{worker}")
                for seed in range(seeds)
                for worker, chance in enumerate(chances.tolist())
            ]
            for phase, chances in enumerate(awake_phases(setting))
        ]
        self._ahead: list[Masks] = []

    def phase(self, round_number: int) -> int:
        """Return the row of the mean rewards in a round."""
        drift = self._setting.drift
        if not isinstance(drift, Batteries):
            return 0
        return (round_number - 1) % drift.period * drift.steps // drift.period

    def means(self, round_number: int) -> Floats:
        """Return the mean rewards in a round."""
        means: Floats = self._reward_phases[self.phase(round_number)]
        return means

    def awake(self, round_number: int) -> Masks:
        """Return who is awake; must be called once per round, in order."""
        offset = (round_number - 1) % _AHEAD
        if offset == 0:
            self._ahead = [
                np.array([schedule.awake(round_number, _AHEAD) for schedule in schedules]).T.copy()
                for schedules in self._schedules
            ]
        period = self._setting.availability.period
        phase = len(self._ahead) * ((round_number - 1) % period) // period
        awake: Masks = self._ahead[phase][offset].reshape(self._shape)
        return awake

    def rewards(self, round_number: int) -> Floats:
        """Return what each worker earns if it is chosen: 1 or 0."""
        lots = self._uniforms(round_number, _REWARD)
        return (lots < self.means(round_number)).astype(np.float64)

    def _uniforms(self, round_number: int, purpose: int) -> Floats:
        keys = round_keys(self._setting.plan.seed, round_number, purpose)
        return uniforms(keys, self._indices).reshape(self._shape)


class Independent(Availability, frozen=True):
    """In each time slot a worker is awake with the same probability, independently."""

    probability: float
    slot_s: float = 600.0

    def awake(self, worker: int, draw: random.Random) -> Iterator[tuple[float, float]]:  # noqa: ARG002
        """Yield consecutive slots as one interval."""
        slot = 0
        while True:
            slot += _geometric(draw, 1.0 - self.probability)
            length = 1 + _geometric(draw, self.probability)
            yield (slot * self.slot_s, (slot + length) * self.slot_s)
            slot += length + 1  # the slot that ended the run


def _geometric(draw: random.Random, probability: float) -> int:
    """Return how often in a row an event of a probability occurs."""
    if probability <= 0.0:
        return 0
    if probability >= 1.0:
        return 1 << 60
    return int(math.log(1.0 - draw.random()) / math.log(probability))


def _model(setting: Laboratory, chance: float) -> Availability:
    """Return the model of a worker that is awake with a probability, seen once a round."""
    persistence = setting.availability.persistence
    if not persistence or chance == 1:
        return Independent(chance, slot_s=1.0)
    cycle_s = -1 / (chance * (1 - chance) * math.log(persistence))
    return Markov(up_s=chance * cycle_s, down_s=(1 - chance) * cycle_s)


class _Schedule:
    """The rounds in which a worker is awake, part after part."""

    def __init__(self, model: Availability, seed: str) -> None:
        self._intervals: Iterator[tuple[float, float]] = model.awake(0, random.Random(seed))  # noqa: S311
        self._interval = next(self._intervals)

    def awake(self, first: int, rounds: int) -> Masks:
        """Return whether the worker is awake in the middle of each of some rounds."""
        awake = np.zeros(rounds, np.bool_)
        while True:
            from_s, to_s = self._interval
            start, stop = math.ceil(from_s + 0.5) - first, math.ceil(to_s + 0.5) - first
            if start >= rounds:
                return awake
            awake[max(start, 0) : max(stop, 0)] = True
            if stop >= rounds:
                return awake
            self._interval = next(self._intervals)


# -- the optimum --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best possible policy."""

    reward: float
    fractions: Floats
    exact: bool


def find_optima(setting: Laboratory) -> list[Optimum]:
    """Return the optimum of each phase of the mean rewards."""
    sets, chances, exact = _who_wakes(setting)
    count = setting.plan.per_round
    return [
        _solve(setting.weight * means, setting.fairness, count, sets, chances, exact=exact)
        for means in reward_phases(setting)
    ]


def _solve(
    values: Floats, fairness: Floats, per_round: int, sets: Masks, chances: Floats, *, exact: bool
) -> Optimum:
    """Solve for the probability of choosing each worker, for each set of awake workers.

    Probabilities that add up to at most m are always a mixture of sets of m workers, so that the
    program needs no variable for each such set.
    """
    row, worker = np.nonzero(sets)
    columns = np.arange(len(row))
    at_most = sparse.csr_array((np.ones(len(row)), (row, columns)), shape=(len(sets), len(row)))
    at_least = sparse.csr_array((-chances[row], (worker, columns)), shape=(len(values), len(row)))
    limits: Any = sparse.vstack([at_most, at_least])
    solution: Any = optimize.linprog(
        -chances[row] * values[worker],
        A_ub=limits,
        b_ub=np.concatenate([np.full(len(sets), float(per_round)), -fairness]),
        bounds=(0.0, 1.0),
        method="highs",
    )
    if not solution.success:
        raise BadInput(_explain_infeasible(fairness, sets, chances, per_round))
    fractions: Floats = -(at_least @ solution.x)
    return Optimum(-float(solution.fun), fractions, exact)


def _explain_infeasible(fairness: Floats, sets: Masks, chances: Floats, per_round: int) -> str:
    excess = find_excess(fairness, chances @ sets, per_round)
    advice = "reduce workers.fairness, or increase setting.per_round or workers.awake"
    if excess is None:
        return f"workers.fairness cannot be met: too few workers are awake at once; {advice}"
    workers = ", ".join(str(index + 1) for index in excess.indices)
    return (
        f"workers.fairness cannot be met: workers {workers} have guarantees of "
        f"{excess.promised:.3f} selections per round and can get {excess.possible:.3f}; {advice}"
    )


def _who_wakes(setting: Laboratory) -> tuple[Masks, Floats, bool]:
    """Return sets of awake workers, their probabilities, and whether these are all sets."""
    phases, workers = awake_phases(setting), setting.workers
    if workers > _ALL_SETS_UP_TO:
        return *_sampled(setting, phases), False
    bits = np.arange(2**workers)[:, None] >> np.arange(workers)
    sets = (bits & 1).astype(np.bool_)
    chances = np.mean([np.where(sets, phase, 1 - phase).prod(axis=1) for phase in phases], axis=0)
    possible = chances > 0
    return sets[possible], chances[possible], True


def _sampled(setting: Laboratory, phases: Floats) -> tuple[Masks, Floats]:
    indices = np.arange(setting.workers, dtype=np.uint64)
    drawn = [
        uniforms(round_keys(setting.plan.seed, number, _SAMPLING), indices)
        < phases[number % len(phases)]
        for number in range(_SAMPLED_SETS)
    ]
    return np.array(drawn), np.full(_SAMPLED_SETS, 1.0 / _SAMPLED_SETS)
