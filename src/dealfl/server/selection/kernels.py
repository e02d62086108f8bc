"""The best m of many arms, without sorting and without temporary arrays of full length.

The score of an arm is `queue + eta · weight · min(mean + spread · root, 1)`, where the queue has
grown by its rate since it was last updated. Arms are scored block by block; arms above the m-th
best so far are kept. Ties are broken by place. `choice_loops` uses the same operations in the same
order, so that numba and numpy choose the same arms, bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dealfl.exact import is_compiled

__all__ = [
    "Columns", "Floats", "Masks", "Places", "Scoring", "best", "best_of", "growth_of", "scores_of",
]  # fmt: skip

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Masks = NDArray[np.bool_]

_BLOCK = 32_768
_CERTAIN = 1e8  # a spread beyond any reward
_MAX_AGE = 1 << 16
_STEPS = 8  # of the score of an arm


@dataclass(frozen=True, slots=True)
class Scoring:
    """The part of a score that is the same for all arms of a round.

    `growth[age]` is the growth of a spread after `age` rounds without a trial; a single 1 means
    that estimates do not age.
    """

    round_number: int
    eta: float
    queue_factor: float
    root: float
    growth: Floats


Columns = tuple[Floats, NDArray[np.int32], Floats, Floats, Floats, Floats]


def growth_of(discount: float) -> Floats:
    """Return the growth of a spread for each number of rounds without a trial."""
    if discount == 1:
        return np.ones(1)
    rounds = min(math.ceil(-2 * math.log(_CERTAIN) / math.log(discount)), _MAX_AGE)
    ages = np.arange(max(rounds, 1) + 1, dtype=np.float64)
    return np.power(discount, -0.5 * ages)


def best(scoring: Scoring, columns: Columns, eligible: Masks, count: int) -> Places:
    """Return the best `count` eligible arms, in ascending order.

    `columns` are deficit, since, rate, mean, spread and weight.
    """
    if count <= 0:
        return np.empty(0, np.int64)
    if is_compiled(_STEPS * len(eligible)):
        from dealfl.server.selection.choice_loops import choose

        places: Places = choose(
            scoring.round_number, scoring.eta, scoring.queue_factor, scoring.root, scoring.growth,
            *columns, eligible, count,
        )  # fmt: skip
        return places
    return _best_by_numpy(scoring, columns, eligible, count)


def best_of(scores: Floats, count: int) -> Places:
    """Return the places of the best `count` scores, ascending; negative scores are never chosen.

    Examples
    --------
    >>> best_of(np.array([0.5, 0.7, -1.0, 0.5, 0.5]), 3).tolist()
    [0, 1, 3]
    """
    places = np.flatnonzero(scores >= 0)
    return places[_kept(scores[places], count)]


def scores_of(scoring: Scoring, columns: Columns, part: slice = slice(None)) -> Floats:
    """Return the scores of a part of the arms."""
    deficit, since, rate, mean, spread, weight = columns
    age = scoring.round_number - since[part]
    bonus = spread[part] * scoring.root
    if len(scoring.growth) > 1:
        bonus *= scoring.growth[np.minimum(age, len(scoring.growth) - 1)]
    bonus += mean[part]
    np.minimum(bonus, 1.0, out=bonus)
    bonus *= weight[part] * scoring.eta
    queue: Floats = rate[part] * age + deficit[part]
    queue *= scoring.queue_factor
    queue += bonus
    return queue


def _best_by_numpy(scoring: Scoring, columns: Columns, eligible: Masks, count: int) -> Places:
    scores, places = np.empty(0), np.empty(0, np.int64)
    threshold = -1.0
    for start in range(0, len(eligible), _BLOCK):
        part = slice(start, start + _BLOCK)
        block = scores_of(scoring, columns, part)
        found = np.flatnonzero((block > threshold) & eligible[part])
        scores = np.concatenate([scores, block[found]])
        places = np.concatenate([places, found + start])
        if len(scores) >= 2 * count:
            kept = _kept(scores, count)
            scores, places = scores[kept], places[kept]
            threshold = float(scores.min())
    return places[_kept(scores, count)]


def _kept(scores: Floats, count: int) -> Places:
    """Return which of the scores are the best `count`; ties go to the first."""
    if len(scores) <= count or count <= 0:
        return np.arange(min(len(scores), max(count, 0)))
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    better = scores > least
    ties = np.flatnonzero(scores == least)[: count - int(better.sum())]
    better[ties] = True
    return np.flatnonzero(better)
