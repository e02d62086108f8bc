"""Feasibility of fairness guarantees.

With m workers per round, guarantees r can be met if and only if no set A of workers is promised
more than it can get: Σ r_i ≤ E[min(m, |A awake|)]. If workers wake independently, the worst set
always consists of the first workers by r_i / awake_i, so that only N sets need to be checked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dealfl.server.selection.arms import Floats, Indices

_STEPS = 50
_NEVER = 1e-30  # a probability
_SLACK = 0.98  # of the possible share; a queue at the limit would still grow
_STANDARD_ERRORS = 2.0  # added to an estimated availability


@dataclass(frozen=True, slots=True)
class Excess:
    """The set of workers with the largest excess of guarantees, in selections per round."""

    indices: Indices
    promised: float
    possible: float


def capacities(awake: Floats, count: int) -> Floats:
    """Return E[min(count, number awake)] for the first 1, 2, … workers.

    Examples
    --------
    >>> capacities(np.array([0.5, 1.0, 1.0]), 2).tolist()
    [0.5, 1.5, 2.0]
    """
    below = np.zeros(max(count, 0))  # probability that 0, 1, … count − 1 are awake
    below[:1] = 1.0
    gained = np.zeros(len(awake))
    for index, chance in enumerate(awake.tolist()):
        missing = below.sum()
        if missing < _NEVER:
            break  # the others gain nothing
        gained[index] = chance * missing
        moved = below * chance
        below -= moved
        below[1:] += moved[:-1]
    return np.cumsum(gained)


def _order(promised: Floats, awake: Floats) -> Indices:
    shares = promised / np.maximum(awake, 1e-12)
    return np.argsort(-shares, kind="stable")


def find_excess(promised: Floats, awake: Floats, count: int) -> Excess | None:
    """Return the set of workers whose guarantees exceed most what they can get.

    Examples
    --------
    >>> found = find_excess(np.array([0.9, 0.9, 0.1]), np.ones(3), 1)
    >>> found.indices.tolist(), round(found.promised, 3), found.possible
    ([0, 1, 2], 1.9, 1.0)
    """
    order = _order(promised, awake)
    total, possible = np.cumsum(promised[order]), capacities(awake[order], count)
    if not len(order) or (total - possible).max() <= 1e-9:
        return None
    last = int(np.argmax(total - possible))
    indices = np.sort(order[: last + 1])
    return Excess(indices, float(total[last]), float(possible[last]))


def estimate_availability(awake: NDArray[np.int32], rounds: NDArray[np.int32]) -> Floats:
    """Return an optimistic probability of being awake, from counts of rounds."""
    counted = np.maximum(rounds, 1)
    share = np.minimum(awake / counted, 1.0)
    error = np.sqrt(share * (1 - share) / counted)
    availability: Floats = np.minimum(share + _STANDARD_ERRORS * error + 1.0 / counted, 1.0)
    return availability


def allowed_shares(promised: Floats, awake: Floats, count: int) -> Floats:
    """Return the largest guarantee of each worker that can be met; 1 if all can be met."""
    share = kept_share(promised, awake, count) if promised.any() else 1.0
    return np.ones(len(promised)) if share == 1 else _SLACK * share * awake


def kept_share(promised: Floats, awake: Floats, count: int) -> float:
    """Return the largest share of its waking rounds that every worker can be given.

    Guarantees below this share can be met in full; larger ones are reduced to it, so that small
    guarantees do not suffer from large ones.

    Examples
    --------
    >>> round(kept_share(np.array([0.9, 0.9, 0.1]), np.ones(3), 1), 6)
    0.45
    """
    order = _order(promised, awake)
    rates, chances = promised[order], awake[order]
    possible = capacities(chances, count)
    low, high = 0.0, 1.0
    if _kept(rates, chances, possible, high):
        return high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _kept(rates, chances, possible, middle) else (low, middle)
    return low


def _kept(rates: Floats, chances: Floats, possible: Floats, share: float) -> bool:
    promised = np.cumsum(np.minimum(rates, share * chances))
    return bool((promised <= possible + 1e-9).all())
