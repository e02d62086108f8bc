"""The best m of many arms, without sorting and without temporary arrays of full length.

The score of an arm is `queue + eta · weight · min(mean + spread · root, 1)`, where the queue has
grown by its rate since it was last updated. Arms are scored block by block; arms above the m-th
best so far are kept. Ties are broken by place. Both versions use the same operations in the same
order, so that numba and numpy choose the same arms, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Columns", "Floats", "Masks", "Places", "Scoring", "best", "best_of", "can_compile",
    "growth_of", "scores_of",
]  # fmt: skip

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Masks = NDArray[np.bool_]

_BLOCK = 32_768
_COMPILED_BLOCK = 64
_CERTAIN = 1e8  # a spread beyond any reward
_MAX_AGE = 1 << 16
_COMPILED_FROM = 50_000  # arms; below, importing numba costs more than it saves


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


def can_compile() -> bool:
    """Return whether numba is installed."""
    return find_spec("numba") is not None


def growth_of(discount: float) -> Floats:
    """Return the growth of a spread for each number of rounds without a trial."""
    if discount == 1:
        return np.ones(1)
    rounds = min(math.ceil(-2 * math.log(_CERTAIN) / math.log(discount)), _MAX_AGE)
    ages = np.arange(max(rounds, 1) + 1, dtype=np.float64)
    return np.power(discount, -0.5 * ages)


def best(
    scoring: Scoring,
    columns: Columns,
    eligible: Masks,
    count: int,
    compiled: bool | None = None,
) -> Places:
    """Return the places of the best `count` eligible arms, in ascending order.

    `columns` are deficit, since, rate, mean, spread and weight. With `compiled=None` the number of
    arms decides.
    """
    if compiled is None:
        compiled = len(eligible) >= _COMPILED_FROM and can_compile()
    if count <= 0:
        return np.empty(0, np.int64)
    if compiled:
        kept = _compiled_best(len(scoring.growth) > 1)(
            scoring.round_number, scoring.eta, scoring.queue_factor, scoring.root, scoring.growth,
            *columns, eligible, count,
        )  # fmt: skip
        return np.asarray(kept, dtype=np.int64)
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


# -- the same, compiled by numba -------------------------------------------------------------------


@cache
def _compiled_best(aged: bool) -> Callable[..., Any]:  # noqa: C901
    """Return the compiled equivalent of the numpy version; `aged` if spreads grow."""
    numba: Any = import_module("numba")
    keep = _compiled_keep(numba)
    value_of = numba.njit(_aged if aged else _steady)

    def choose(
        number: int, eta: float, factor: float, root: float, growth: Floats, deficit: Floats,
        since: NDArray[np.int32], rate: Floats, mean: Floats, spread: Floats, weight: Floats,
        eligible: Masks, count: int,
    ) -> NDArray[np.int64]:  # fmt: skip
        arms = np.uint64(len(eligible))
        scores = np.empty(2 * count + _COMPILED_BLOCK)
        places = np.empty(2 * count + _COMPILED_BLOCK, np.int64)
        held, threshold = 0, -1.0
        start = np.uint64(0)
        while start < arms:
            stop = min(start + np.uint64(_COMPILED_BLOCK), arms)
            found = 0  # the compiler vectorizes a loop that only counts
            for place in range(start, stop):
                value = value_of(
                    place, number, eta, factor, root, growth, deficit, since, rate, mean, spread,
                    weight,
                )  # fmt: skip
                found += (value > threshold) & eligible[place]
            if found > 0:
                for place in range(start, stop):
                    value = value_of(
                        place, number, eta, factor, root, growth, deficit, since, rate, mean,
                        spread, weight,
                    )  # fmt: skip
                    if eligible[place] and value > threshold:
                        scores[held] = value
                        places[held] = place
                        held += 1
                if held >= 2 * count:
                    held, threshold = keep(scores, places, held, count)
            start = stop
        if held > count:
            held, threshold = keep(scores, places, held, count)
        return places[:held].copy()

    return numba.njit(choose)  # type: ignore[no-any-return]


def _steady(
    place: int, number: int, eta: float, factor: float, root: float,
    growth: Floats,  # noqa: ARG001
    deficit: Floats, since: NDArray[np.int32], rate: Floats, mean: Floats, spread: Floats,
    weight: Floats,
) -> float:  # fmt: skip
    bonus = spread[place] * root + mean[place]
    estimate = (bonus if bonus < 1.0 else 1.0) * (weight[place] * eta)
    return (rate[place] * (number - since[place]) + deficit[place]) * factor + estimate  # type: ignore[no-any-return]


def _aged(
    place: int, number: int, eta: float, factor: float, root: float, growth: Floats,
    deficit: Floats, since: NDArray[np.int32], rate: Floats, mean: Floats, spread: Floats,
    weight: Floats,
) -> float:  # fmt: skip
    age = number - since[place]
    bonus = spread[place] * root * growth[np.uint64(min(age, len(growth) - 1))] + mean[place]
    estimate = (bonus if bonus < 1.0 else 1.0) * (weight[place] * eta)
    return (rate[place] * age + deficit[place]) * factor + estimate  # type: ignore[no-any-return]


def _compiled_keep(numba: Any) -> Any:  # noqa: ANN401
    rank = numba.njit(_rank)

    def keep(scores: Floats, places: NDArray[np.int64], held: int, count: int) -> tuple[int, float]:
        """Move the best `count` to the front, in order; return their number and the lowest."""
        least = rank(scores[:held].copy(), held - count)
        ties = count
        for place in range(held):
            ties -= scores[place] > least
        kept = 0
        for place in range(held):
            tie = scores[place] == least and ties > 0
            if tie or scores[place] > least:
                scores[kept] = scores[place]
                places[kept] = places[place]
                kept += 1
                ties -= tie
        return kept, least

    return numba.njit(keep)


def _rank(values: Floats, rank: int) -> float:
    """Return the value of a rank, from 0; numba's own partition takes seconds to compile."""
    low, high = 0, len(values) - 1
    while low < high:
        pivot = values[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while pivot < values[right]:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left, right = left + 1, right - 1
        if rank <= right:
            high = right
        elif rank >= left:
            low = left
        else:
            break
    return float(values[rank])
