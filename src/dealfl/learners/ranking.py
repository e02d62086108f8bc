"""Exact rankings: descending score, then ascending id, with scores compared as fractions.

Most of the work uses floats. Division rounds monotonically, so only scores whose floats are equal
(or, for sums, within the rounding error) need the exact comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

__all__ = ["top_ratios", "top_sums"]

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Ranked = tuple[Int64s, Floats]

_EPSILON = 2.0**-52


def top_ratios(ids: Int64s, numerators: Int64s, denominators: Int64s, k: int) -> Ranked:
    """Return the k ids with the largest numerator / denominator, and these ratios.

    Examples
    --------
    >>> items, ratios = top_ratios(np.array([7, 3, 5]), np.array([1, 2, 1]), np.array([2, 4, 3]), 2)
    >>> items.tolist()
    [3, 7]
    """
    scores = numerators / denominators

    def exact(place: int) -> Fraction:
        return Fraction(int(numerators[place]), int(denominators[place]))

    return _ranked(ids, scores, k, exact, slack=0.0)


def top_sums(
    ids: Int64s,
    scores: Floats,
    k: int,
    terms: Callable[[int], Sequence[tuple[int, int]]],
    most: int,
) -> Ranked:
    """Return the k ids with the largest sum of ratios; `terms(place)` lists at most `most` ratios.

    `scores` are the sums in floats, added one by one.
    """
    known: dict[tuple[tuple[int, int], ...], Fraction] = {}

    def exact(place: int) -> Fraction:
        ratios = tuple(sorted(terms(place)))
        if ratios not in known:
            known[ratios] = sum((Fraction(*ratio) for ratio in ratios), Fraction())
        return known[ratios]

    return _ranked(ids, scores, k, exact, slack=(most + 2) * _EPSILON)


def _ranked(
    ids: Int64s, scores: Floats, k: int, exact: Callable[[int], Fraction], slack: float
) -> Ranked:
    places = _worth_ranking(scores, k, slack)
    order = places[np.lexsort((ids[places], -scores[places]))]
    for start, stop in _unclear_runs(scores[order], slack):
        if start < k:
            run = sorted(order[start:stop].tolist(), key=lambda p: (-exact(p), int(ids[p])))
            order[start:stop] = run
    return ids[order[:k]], scores[order[:k]]


def _worth_ranking(scores: Floats, k: int, slack: float) -> Int64s:
    """Return the positions whose score can be among the k largest."""
    if len(scores) <= k:
        return np.arange(len(scores))
    kth = np.partition(scores, len(scores) - k)[len(scores) - k]
    return np.flatnonzero(scores >= kth * (1.0 - 2.0 * slack))


def _unclear_runs(descending: Floats, slack: float) -> list[tuple[int, int]]:
    """Return the runs of adjacent scores whose floats do not determine their order."""
    clear = descending[:-1] * (1.0 - slack) > descending[1:]
    stops = np.append(np.flatnonzero(clear) + 1, len(descending))
    starts = np.append(0, stops[:-1])
    pairs = zip(starts.tolist(), stops.tolist(), strict=True)
    return [(start, stop) for start, stop in pairs if stop - start > 1]
