"""The optimum: the best policy that knows all parameters and meets all guarantees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse

from dealfl.errors import BadInput
from dealfl.seeded import round_keys, uniforms
from dealfl.server.selection import find_excess
from dealfl.simulate.laboratory.environment import awake_phases, reward_phases
from dealfl.simulate.laboratory.setting import Laboratory

__all__ = ["Optimum", "find_optima", "solve_optimum"]

Floats = NDArray[np.float64]
Masks = NDArray[np.bool_]

_ALL_SETS_UP_TO = 10  # workers
_SAMPLED_SETS = 2_000
_SAMPLING = 4


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best possible policy.

    Parameters
    ----------
    reward : float
        Its reward per round.
    fractions : array of float
        Share of the rounds in which it chooses each worker.
    exact : bool
        Whether all sets of awake workers were considered, or a sample of them.
    """

    reward: float
    fractions: Floats
    exact: bool


def find_optima(setting: Laboratory) -> list[Optimum]:
    """Return the optimum of each phase of the mean rewards.

    Parameters
    ----------
    setting : Laboratory
        The setting.

    Returns
    -------
    list of Optimum
        One optimum per phase.

    Raises
    ------
    BadInput
        If the fairness guarantees cannot be met.
    """
    sets, chances, exact = _who_wakes(setting)
    count = setting.plan.per_round
    return [
        solve_optimum(setting.weight * means, setting.fairness, count, sets, chances, exact=exact)
        for means in reward_phases(setting)
    ]


def solve_optimum(
    values: Floats, fairness: Floats, per_round: int, sets: Masks, chances: Floats, *, exact: bool
) -> Optimum:
    """Solve for the probability of choosing each worker, for each set of awake workers.

    Probabilities that add up to at most m are always a mixture of sets of m workers, so that the
    program needs no variable for each such set.
    """
    row, worker = np.nonzero(sets)
    places = np.arange(len(row))
    at_most = sparse.csr_array((np.ones(len(row)), (row, places)), shape=(len(sets), len(row)))
    at_least = sparse.csr_array((-chances[row], (worker, places)), shape=(len(values), len(row)))
    limits: Any = sparse.vstack([at_most, at_least])
    found: Any = optimize.linprog(
        -chances[row] * values[worker],
        A_ub=limits,
        b_ub=np.concatenate([np.full(len(sets), float(per_round)), -fairness]),
        bounds=(0.0, 1.0),
        method="highs",
    )
    if not found.success:
        raise BadInput(_explain_infeasible(fairness, sets, chances, per_round))
    fractions: Floats = -(at_least @ found.x)
    return Optimum(-float(found.fun), fractions, exact)


def _explain_infeasible(fairness: Floats, sets: Masks, chances: Floats, per_round: int) -> str:
    found = find_excess(fairness, chances @ sets, per_round)
    advice = "reduce workers.fairness, or increase setting.per_round or workers.awake"
    if found is None:
        return f"workers.fairness cannot be met: too few workers are awake at once; {advice}"
    workers = ", ".join(str(place + 1) for place in found.places)
    return (
        f"workers.fairness cannot be met: workers {workers} have guarantees of "
        f"{found.promised:.3f} selections per round and can get {found.possible:.3f}; {advice}"
    )


def _who_wakes(setting: Laboratory) -> tuple[Masks, Floats, bool]:
    """Return sets of awake workers, their probabilities, and whether these are all sets."""
    phases, workers = awake_phases(setting), setting.workers
    if workers > _ALL_SETS_UP_TO:
        return *_sampled(setting, phases), False
    bits = np.arange(2**workers)[:, None] >> np.arange(workers)
    sets = (bits & 1).astype(np.bool_)
    chances = np.mean([np.where(sets, one, 1 - one).prod(axis=1) for one in phases], axis=0)
    possible = chances > 0
    return sets[possible], chances[possible], True


def _sampled(setting: Laboratory, phases: Floats) -> tuple[Masks, Floats]:
    places = np.arange(setting.workers, dtype=np.uint64)
    drawn = [
        uniforms(round_keys(setting.plan.seed, number, _SAMPLING), places)
        < phases[number % len(phases)]
        for number in range(_SAMPLED_SETS)
    ]
    return np.array(drawn), np.full(_SAMPLED_SETS, 1.0 / _SAMPLED_SETS)
