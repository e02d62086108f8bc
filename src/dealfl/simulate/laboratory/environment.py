"""The environment: who is awake, and what each worker would earn; the same for all policies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dealfl.seeded import round_keys, uniforms
from dealfl.simulate.laboratory.setting import Batteries, DayNight, Laboratory, Markov

__all__ = ["Environment", "awake_phases", "reward_phases"]

Floats = NDArray[np.float64]
Masks = NDArray[np.bool_]

_AWAKE, _REWARD, _RENEW = 1, 2, 3


def awake_phases(setting: Laboratory) -> Floats:
    """Return the probabilities of being awake, a row for each phase of equal length."""
    if isinstance(setting.availability, DayNight):
        swing = setting.availability.swing
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
    worker, so that more seeds or other policies do not change it.
    """

    def __init__(self, setting: Laboratory, seeds: int) -> None:
        self._setting = setting
        self._shape = (seeds, setting.workers)
        self._places = np.arange(seeds * setting.workers, dtype=np.uint64)
        self._awake_phases, self._reward_phases = awake_phases(setting), reward_phases(setting)
        self._before: Masks | None = None

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
        model, phase = self._setting.availability, 0
        if isinstance(model, DayNight):
            phase = 2 * ((round_number - 1) % model.period) // model.period
        awake: Masks = self._uniforms(round_number, _AWAKE) < self._awake_phases[phase]
        if isinstance(model, Markov) and self._before is not None:
            stays = self._uniforms(round_number, _RENEW) < model.persistence
            awake = np.where(stays, self._before, awake)
        self._before = awake
        return awake

    def rewards(self, round_number: int) -> Floats:
        """Return what each worker earns if it is chosen: 1 or 0."""
        lots = self._uniforms(round_number, _REWARD)
        return (lots < self.means(round_number)).astype(np.float64)

    def _uniforms(self, round_number: int, purpose: int) -> Floats:
        keys = round_keys(self._setting.plan.seed, round_number, purpose)
        return uniforms(keys, self._places).reshape(self._shape)
