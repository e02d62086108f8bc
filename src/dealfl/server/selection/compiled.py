"""Loops compiled by numba. This module is imported only if numba is installed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["compiled_best"]

_BLOCK = 64

numba: Any = import_module("numba")

Floats = NDArray[np.float64]
Masks = NDArray[np.bool_]


@cache
def compiled_best(aged: bool) -> Callable[..., Any]:  # noqa: C901
    """Return the compiled equivalent of the numpy version; `aged` if spreads grow."""
    keep = _compiled_keep()
    value_of = numba.njit(_aged if aged else _steady)

    def choose(
        number: int, eta: float, factor: float, root: float, growth: Floats, deficit: Floats,
        since: NDArray[np.int32], rate: Floats, mean: Floats, spread: Floats, weight: Floats,
        eligible: Masks, count: int,
    ) -> NDArray[np.int64]:  # fmt: skip
        arms = np.uint64(len(eligible))
        scores = np.empty(2 * count + _BLOCK)
        places = np.empty(2 * count + _BLOCK, np.int64)
        held, threshold = 0, -1.0
        start = np.uint64(0)
        while start < arms:
            stop = min(start + np.uint64(_BLOCK), arms)
            found = 0  # counting needs no store, so it is vectorized
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


def _compiled_keep() -> Any:  # noqa: ANN401
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
