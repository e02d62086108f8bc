"""Can every worker have the fraction of rounds it was promised, and what if not?

With m workers a round, promises r can be kept if and only if every set A of workers asks for no
more than it can be given: Σ r_i ≤ E[min(m, |A awake|)]. For workers that are awake independently,
no set is worse than the best of those that hold the first few workers by r_i / awake_i, so there
are only N sets to look at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Excess", "capacities", "find_excess", "kept_share"]

Floats = NDArray[np.float64]

_STEPS = 50


@dataclass(frozen=True, slots=True)
class Excess:
    """The set of workers that was promised most beyond what it can get, in picks a round."""

    places: NDArray[np.int64]
    promised: float
    possible: float


def capacities(awake: Floats, count: int) -> Floats:
    """Return E[min(count, number awake)] for the first 1, 2, … workers.

    >>> capacities(np.array([0.5, 1.0, 1.0]), 2).tolist()
    [0.5, 1.5, 2.0]
    """
    below = np.zeros(max(count, 0))  # the chance that 0, 1, … count − 1 are awake
    below[:1] = 1.0
    gained = np.zeros(len(awake))
    for place, chance in enumerate(awake.tolist()):
        gained[place] = chance * below.sum()
        moved = below * chance
        below -= moved
        below[1:] += moved[:-1]
    return np.cumsum(gained)


def _order(promised: Floats, awake: Floats) -> NDArray[np.int64]:
    shares = promised / np.maximum(awake, 1e-12)
    return np.argsort(-shares, kind="stable")


def find_excess(promised: Floats, awake: Floats, count: int) -> Excess | None:
    """Return the most over-promised set, or None if all promises can be kept.

    >>> found = find_excess(np.array([0.9, 0.9, 0.1]), np.ones(3), 1)
    >>> found.places.tolist(), round(found.promised, 3), found.possible
    ([0, 1, 2], 1.9, 1.0)
    """
    order = _order(promised, awake)
    asked, possible = np.cumsum(promised[order]), capacities(awake[order], count)
    if not len(order) or (asked - possible).max() <= 1e-9:
        return None
    last = int(np.argmax(asked - possible))
    places = np.sort(order[: last + 1])
    return Excess(places, float(asked[last]), float(possible[last]))


def kept_share(promised: Floats, awake: Floats, count: int) -> float:
    """Return the largest share of its waking rounds that everybody can have who was promised it.

    Promises below that share of a worker's waking rounds can be kept in full; greater ones are
    cut down to it, so that the modest do not starve for the greedy.

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
    asked = np.cumsum(np.minimum(rates, share * chances))
    return bool((asked <= possible + 1e-9).all())
