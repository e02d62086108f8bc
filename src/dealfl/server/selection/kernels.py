"""The best m of many arms, without sorting them and without arrays as long as they are many.

Every arm's score is `queue + eta · weight · min(mean + spread · root, 1)`, where the queue has
grown by its rate since it was last brought forward. Arms are scored block by block; whoever is
above the m-th best so far is kept. The order is total, score and then place, and both ways compute
with the same operations in the same order: numba and numpy choose the same arms, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

__all__ = ["Columns", "Floats", "Places", "Scoring", "best", "best_of", "can_compile", "scores_of"]

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

_BLOCK = 32_768
_COMPILED_FROM = 50_000  # arms; below that numba's import would cost more than it ever saves


@dataclass(frozen=True, slots=True)
class Scoring:
    """What a score is made of, besides the arms: the round, and what is the same for all.

    `growth[age]` is how far a spread has grown in so many rounds without a new try; a single 1
    means that estimates do not age.
    """

    round_number: int
    eta: float
    queue_factor: float
    root: float
    growth: Floats


Columns = tuple[Floats, NDArray[np.int32], Floats, Floats, Floats, Floats]


def can_compile() -> bool:
    """Return whether numba is installed."""
    return find_spec("numba") is not None


def best(
    scoring: Scoring,
    columns: Columns,
    eligible: NDArray[np.bool_],
    count: int,
    compiled: bool | None = None,
) -> Places:
    """Return the places of the best `count` eligible arms, in ascending order.

    `columns` are deficit, since, rate, mean, spread and weight. `compiled=None` lets the number
    of arms decide.
    """
    if compiled is None:
        compiled = len(eligible) >= _COMPILED_FROM and can_compile()
    if count <= 0:
        return np.empty(0, np.int64)
    if compiled:
        from dealfl.server.selection.compiled import compiled_best

        kept = compiled_best(len(scoring.growth) > 1)(
            scoring.round_number, scoring.eta, scoring.queue_factor, scoring.root, scoring.growth,
            *columns, eligible, count,
        )  # fmt: skip
        return np.asarray(kept, dtype=np.int64)
    return _best_by_numpy(scoring, columns, eligible, count)


def best_of(scores: Floats, count: int) -> Places:
    """Return the places of the best `count` scores, ascending; negative ones are never chosen.

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


def _best_by_numpy(
    scoring: Scoring, columns: Columns, eligible: NDArray[np.bool_], count: int
) -> Places:
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
    """Return which of the scores are the best `count`; of equal ones the first are."""
    if len(scores) <= count or count <= 0:
        return np.arange(min(len(scores), max(count, 0)))
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    better = scores > least
    ties = np.flatnonzero(scores == least)[: count - int(better.sum())]
    better[ties] = True
    return np.flatnonzero(better)
