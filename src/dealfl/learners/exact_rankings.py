"""Exact rankings: descending score, then ascending id, with scores compared as fractions.

Most of the work uses floats. Division rounds monotonically, so only scores whose floats are equal
(or, for sums, within the rounding error) need the exact comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dealfl.exact import is_compiled
from dealfl.learners.history_learner import Ranked

__all__ = ["FEW", "best_places", "is_among", "slack_of", "top_ratios", "top_sums"]

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

FEW = 64  # items that are found by inserting into a list
_EPSILON = 2.0**-52
_DISTINCT = 1 << 26  # different fractions with smaller denominators have different floats


def best_places(scores: Floats, k: int, factor: float) -> Int64s:
    """Return the places of positive scores that reach `factor` times the k-th largest one."""
    if k <= FEW and is_compiled(len(scores)):
        from dealfl.learners import row_loops

        places: Int64s = row_loops.best_places(scores, k, factor)
        return places
    found = np.flatnonzero(scores)
    if len(found) > k:
        kth = np.partition(scores[found], len(found) - k)[len(found) - k]
        found = found[scores[found] >= kth * factor]
    return found


def top_ratios(ids: Int64s, numerators: Int64s, denominators: Int64s, k: int) -> Ranked:
    """Return the k ids with the largest numerator / denominator, and these ratios.

    Examples
    --------
    >>> items, ratios = top_ratios(np.array([7, 3, 5]), np.array([1, 2, 1]), np.array([2, 4, 3]), 2)
    >>> items.tolist()
    [3, 7]
    """
    scores = numerators / denominators
    if not len(ids) or denominators.max() < _DISTINCT:
        best = np.lexsort((ids, -scores))[:k]
        return ids[best], scores[best]

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

    return _ranked(ids, scores, k, exact, slack_of(most))


def is_among(scores: Floats, item: int, k: int, slack: float) -> bool | None:
    """Return whether an item has one of the k largest positive scores; None if it is unclear.

    >>> scores = np.array([0.5, 0.9, 0.0, 0.5])
    >>> [is_among(scores, item, 2, 1e-9) for item in range(4)]
    [None, True, False, None]
    """
    own = scores[item] if 0 <= item < len(scores) else 0.0
    if own == 0.0 or np.count_nonzero(scores * (1.0 - slack) > own) >= k:
        return False
    return True if np.count_nonzero(scores >= own * (1.0 - slack)) <= k else None


def slack_of(terms: int) -> float:
    """Return the relative rounding error of a sum of ratios."""
    return (terms + 2) * _EPSILON


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
    return np.flatnonzero(scores >= np.partition(scores, -k)[-k] * (1.0 - 2.0 * slack))


def _unclear_runs(descending: Floats, slack: float) -> list[tuple[int, int]]:
    """Return the runs of adjacent scores whose floats do not determine their order."""
    clear = descending[:-1] * (1.0 - slack) > descending[1:]
    if np.count_nonzero(clear) == len(clear):
        return []
    stops = np.append(np.flatnonzero(clear) + 1, len(descending))
    starts = np.append(0, stops[:-1])
    pairs = zip(starts.tolist(), stops.tolist(), strict=True)
    return [(start, stop) for start, stop in pairs if stop - start > 1]
