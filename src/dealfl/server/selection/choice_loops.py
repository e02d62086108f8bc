"""Compiled loops that choose the best of many arms; see `kernels`."""

from __future__ import annotations

from typing import Any

import numpy as np

from dealfl.exact import compile_loop

__all__ = ["choose"]

Array = Any  # a contiguous array; numba derives the types
Number = Any

_PART = 64  # arms that are compared with the lowest score at a time


@compile_loop
def _score(
    place: int, number: int, eta: float, factor: float, root: float, growth: Array, deficit: Array,
    since: Array, rate: Array, mean: Array, spread: Array, weight: Array,
) -> Number:  # fmt: skip
    age, bonus = number - since[place], spread[place] * root
    if len(growth) > 1:
        bonus *= growth[np.uint64(min(age, len(growth) - 1))]
    bonus += mean[place]
    estimate = (bonus if bonus < 1.0 else 1.0) * (weight[place] * eta)
    return (rate[place] * age + deficit[place]) * factor + estimate


@compile_loop
def choose(
    number: int, eta: float, factor: float, root: float, growth: Array, deficit: Array,
    since: Array, rate: Array, mean: Array, spread: Array, weight: Array, eligible: Array,
    count: int,
) -> Array:  # fmt: skip
    """Return the best `count` eligible arms, in ascending order."""
    arms, start = np.uint64(len(eligible)), np.uint64(0)
    scores, places = np.empty(2 * count + _PART), np.empty(2 * count + _PART, np.int64)
    held, threshold = 0, -1.0
    while start < arms:
        stop = min(start + np.uint64(_PART), arms)
        found = 0  # the compiler vectorizes a loop that only counts
        for place in range(start, stop):
            score = _score(
                place, number, eta, factor, root, growth, deficit, since, rate, mean, spread, weight
            )
            found += (score > threshold) & eligible[place]
        if found > 0:
            for place in range(start, stop):
                score = _score(
                    place, number, eta, factor, root, growth, deficit, since, rate, mean, spread,
                    weight,
                )  # fmt: skip
                if eligible[place] and score > threshold:
                    scores[held], places[held] = score, place
                    held += 1
            if held >= 2 * count:
                held, threshold = _keep(scores, places, held, count)
        start = stop
    if held > count:
        held, threshold = _keep(scores, places, held, count)
    return places[:held].copy()


@compile_loop
def _keep(scores: Array, places: Array, held: int, count: int) -> tuple[int, float]:
    """Move the best `count` to the front, in order; return their number and the lowest."""
    least = _value_at(scores[:held].copy(), held - count)
    ties = count
    for place in range(held):
        ties -= scores[place] > least
    kept = 0
    for place in range(held):
        tie = scores[place] == least and ties > 0
        if tie or scores[place] > least:
            scores[kept], places[kept] = scores[place], places[place]
            kept += 1
            ties -= tie
    return kept, least


@compile_loop
def _value_at(values: Array, rank: int) -> Number:
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
    return values[rank]
