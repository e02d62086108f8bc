"""A utility in the manner of Oort: the useful, sampled, and some that were never tried."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dealfl.server.selection.bandit import Bandit
from dealfl.server.selection.counters import round_keys, uniforms
from dealfl.server.selection.kernels import Floats, Places, best_of

__all__ = ["OortLike"]

_EXPLORED_AT_FIRST, _EXPLORED_AT_LEAST, _FEWER = 0.9, 0.2, 0.98
_CUT = 0.95
_STALENESS = 0.1


class OortLike(Bandit):
    """Wakes mostly workers of high utility, and a share that shrinks of those never tried.

    The utility is `weight · (mean + sqrt(0.1 ln k / last round))`; whoever is within 95 % of the
    last that would fit is drawn in proportion to it. The reward holds speed and data already.
    There is no guarantee: `fairness` and `eta` change nothing but what `behind` reports.
    """

    def _choose(
        self, round_number: int, eligible: NDArray[np.bool_], weight: Floats, count: int
    ) -> Places:
        lots = uniforms(
            round_keys(self._seed, round_number), np.arange(len(eligible), dtype=np.uint64)
        )
        tried = eligible & (self._arms.count > 0)
        fresh = eligible & ~tried
        share = max(_EXPLORED_AT_LEAST, _EXPLORED_AT_FIRST * _FEWER**round_number)
        explored = min(int(fresh.sum()), round(share * count))
        explored = max(explored, min(int(fresh.sum()), count - int(tried.sum())))
        stale = np.log(max(round_number, 1)) / np.maximum(self._arms.picked, 1)
        utility = weight * (self._arms.mean + np.sqrt(_STALENESS * stale))
        old = _sampled(
            _near_best(utility, tried, count - explored), utility, lots, count - explored
        )
        new = _sampled(fresh, weight, lots, explored)
        return np.sort(np.concatenate([old, new]))


def _near_best(utility: Floats, among: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    """Return who is not far below the last one that would be chosen by utility alone."""
    top = best_of(np.where(among, utility, -1.0), count)
    least = _CUT * float(utility[top].min()) if len(top) else math.inf
    return among & (utility >= least)


def _sampled(among: NDArray[np.bool_], share: Floats, lots: Floats, count: int) -> Places:
    """Draw `count` without putting back, each with a chance in proportion to its share."""
    waiting = -np.log(lots) / np.maximum(share, 1e-300)
    return best_of(np.where(among, 1.0 / (1.0 + waiting), -1.0), count)
