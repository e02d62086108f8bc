"""A utility in the manner of Oort: the useful, sampled, and some that were never tried."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dealfl.seeded import round_keys, uniforms
from dealfl.server.selection.arms import Arms
from dealfl.server.selection.bandit import Bandit
from dealfl.server.selection.kernels import Floats, Places

__all__ = ["OortLike", "Utilities"]

Masks = NDArray[np.bool_]

_EXPLORED_AT_FIRST, _EXPLORED_AT_LEAST, _FEWER = 0.9, 0.2, 0.98
_CUT = 0.95
_STALENESS = 0.1


class OortLike(Bandit):
    """Wakes mostly workers of high utility, and a share that shrinks of those never tried.

    The utility is `weight · (mean + sqrt(0.1 ln k / last round))`; whoever is within 95 % of the
    last that would fit is drawn in proportion to it. The reward holds speed and data already.
    There is no guarantee: `fairness` and `eta` change nothing but who is worth a `price`.
    """

    def _choose(self, round_number: int, eligible: Masks, weight: Floats, count: int) -> Places:
        utilities = Utilities.of(self.arms, self._seed, round_number, weight, len(eligible))
        return np.flatnonzero(utilities.chosen(eligible[None, :], count))


@dataclass(frozen=True, slots=True)
class Utilities:
    """What a round's choice is made from; rows are independent choices, columns their arms."""

    round_number: int
    utility: Floats
    weight: Floats
    tried: Masks
    lots: Floats

    @classmethod
    def of(cls, arms: Arms, seed: int, round_number: int, weight: Floats, width: int) -> Utilities:
        """Return the utilities of arms that lie one row after another."""
        keys = round_keys(seed, round_number)
        lots = uniforms(keys, np.arange(len(arms), dtype=np.uint64))
        stale = np.log(round_number) / np.maximum(arms.picked, 1)
        utility = weight * (arms.mean + np.sqrt(_STALENESS * stale))
        shape = (-1, width)
        return cls(
            round_number,
            utility=utility.reshape(shape),
            weight=weight.reshape(shape),
            tried=(arms.count > 0).reshape(shape),
            lots=lots.reshape(shape),
        )

    def chosen(self, eligible: Masks, count: int) -> Masks:
        """Return at most `count` of each row."""
        tried, fresh = eligible & self.tried, eligible & ~self.tried
        there = fresh.sum(axis=1)
        share = max(_EXPLORED_AT_LEAST, _EXPLORED_AT_FIRST * _FEWER**self.round_number)
        explored = np.maximum(round(share * count), count - tried.sum(axis=1))
        explored = np.minimum(explored, np.minimum(there, count))
        near = self._near_best(tried, count - explored)
        old = self._drawn(near, self.utility) < (count - explored)[:, None]
        new = self._drawn(fresh, self.weight) < explored[:, None]
        chosen: Masks = (near & old) | (fresh & new)
        return chosen

    def _near_best(self, among: Masks, counts: Places) -> Masks:
        """Return who is not far below the last one that would be chosen by utility alone."""
        fitting = among & (_ranks(np.where(among, self.utility, -1.0)) < counts[:, None])
        least = np.where(fitting, self.utility, np.inf).min(axis=1, keepdims=True)
        near: Masks = among & (self.utility >= _CUT * least)
        return near

    def _drawn(self, among: Masks, share: Floats) -> Places:
        """Return in which place each is drawn, with chances in proportion to its share."""
        waiting = -np.log(self.lots) / np.maximum(share, 1e-300)
        return _ranks(np.where(among, -waiting, -np.inf))


def _ranks(values: Floats) -> Places:
    """Return the rank of each value in its row, the largest first."""
    order = np.argsort(-values, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(values.shape[1])[None, :], axis=1)
    return ranks
