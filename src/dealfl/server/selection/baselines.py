"""Selectors without fairness guarantees: everyone, a random sample, and one similar to Oort."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dealfl.seeded import round_keys, uniforms
from dealfl.server.selection.arms import Arms
from dealfl.server.selection.bandit import Bandit
from dealfl.server.selection.base import Candidate, Seed, Selector
from dealfl.server.selection.kernels import Floats, Masks, Places
from dealfl.settings import check

__all__ = ["Everyone", "OortLike", "Uniform", "Utilities"]

_EXPLORED_AT_FIRST, _EXPLORED_AT_LEAST, _FEWER = 0.9, 0.2, 0.98
_CUT = 0.95
_STALENESS = 0.1


class Everyone(Selector):
    """Wakes all candidates, for any count: the traditional baseline.

    Examples
    --------
    >>> Everyone().select(1, [Candidate("a"), Candidate("b")], count=1)
    ['a', 'b']
    """

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:  # noqa: ARG002
        """Return all candidates.

        Parameters
        ----------
        round_number : int
            Ignored.
        candidates : sequence of Candidate
            Workers that can be woken.
        count : int
            Ignored.

        Returns
        -------
        list of str
            Names of all candidates.
        """
        return [candidate.name for candidate in candidates]


class Uniform(Selector):
    """Wakes a uniform random sample of the candidates.

    Examples
    --------
    >>> Uniform(seed=1).select(3, [Candidate(name) for name in "abcdef"], count=2)
    ['c', 'd']
    """

    def __init__(self, seed: Seed = 0) -> None:
        self._seed: int = check(Uniform, {"seed": seed})["seed"]

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:
        """Return a random sample of the candidates.

        Parameters
        ----------
        round_number : int
            Number of the round.
        candidates : sequence of Candidate
            Workers that can be woken.
        count : int
            Size of the sample; all candidates if there are fewer.

        Returns
        -------
        list of str
            Names in the order of the candidates.
        """
        draw = np.random.Generator(np.random.PCG64([self._seed, round_number]))
        places = draw.permutation(len(candidates))[:count]
        return [candidates[place].name for place in sorted(places.tolist())]


class OortLike(Bandit):
    """Wakes mostly workers of high utility, and a shrinking share of untried workers.

    The utility is `weight · (mean + sqrt(0.1 ln k / last round))`. Workers within 95 % of the
    lowest utility that would be selected are drawn in proportion to their utility. The reward
    already contains speed and number of examples. There is no fairness guarantee.
    """

    def _choose(self, round_number: int, eligible: Masks, weight: Floats, count: int) -> Places:
        utilities = Utilities.of(self.arms, self._seed, round_number, weight, len(eligible))
        return np.flatnonzero(utilities.choose(eligible[None, :], count))


@dataclass(frozen=True, slots=True)
class Utilities:
    """The input of a choice; rows are independent choices, columns their arms.

    Parameters
    ----------
    round_number : int
        Number of the round.
    utility : array of float
        Utility of each arm.
    weight : array of float
        Weight of each arm.
    tried : array of bool
        Whether each arm was tried before.
    lots : array of float
        A uniform random number in (0, 1) for each arm.
    """

    round_number: int
    utility: Floats
    weight: Floats
    tried: Masks
    lots: Floats

    @classmethod
    def of(cls, arms: Arms, seed: int, round_number: int, weight: Floats, width: int) -> Utilities:
        """Return the utilities of arms that are stored row after row.

        Parameters
        ----------
        arms : Arms
            State of the arms.
        seed : int
            Seed of the random numbers.
        round_number : int
            Number of the round.
        weight : array of float
            Weight of each arm.
        width : int
            Number of arms in a row.

        Returns
        -------
        Utilities
            Matrices with `width` columns.
        """
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

    def choose(self, eligible: Masks, count: int) -> Masks:
        """Return which arms are chosen.

        Parameters
        ----------
        eligible : array of bool
            Arms that can be chosen.
        count : int
            Maximum number of arms in a row.

        Returns
        -------
        array of bool
            The chosen arms.
        """
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
        """Return the arms not far below the last one that utility alone would choose."""
        fitting = among & (_ranks(np.where(among, self.utility, -1.0)) < counts[:, None])
        least = np.where(fitting, self.utility, np.inf).min(axis=1, keepdims=True)
        near: Masks = among & (self.utility >= _CUT * least)
        return near

    def _drawn(self, among: Masks, share: Floats) -> Places:
        """Return the rank in which each arm is drawn, with chances in proportion to its share."""
        waiting = -np.log(self.lots) / np.maximum(share, 1e-300)
        return _ranks(np.where(among, -waiting, -np.inf))


def _ranks(values: Floats) -> Places:
    """Return the rank of each value in its row, the largest first."""
    order = np.argsort(-values, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(values.shape[1])[None, :], axis=1)
    return ranks
