"""The state of many arms in flat arrays: fairness queues and mean rewards.

Only the choice itself touches all arms in a round. The queue of an arm that is not selected grows
linearly: it is stored with its round and computed when needed. Discounted estimates are stored
in the same way. A choice scores the arms block by block, and keeps those above the m-th best so
far: no sort, and no temporary array of full length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Masks = NDArray[np.bool_]

IDLE, AWAITED, ANSWERED, MISSED = range(4)

_BLOCK = 32_768
_CERTAIN = 1e8  # a spread beyond any reward
_MAX_AGE = 1 << 16
_ALL = slice(None)


class Arms:
    """Virtual queues and mean rewards of many arms. Rounds are counted from 1.

    `rates` is the growth of each queue per round; `eta` the weight of rewards against queues, where
    infinity ignores the queues; `discount` the factor by which a trial counts less after each
    round; `exploration` the factor of the bonus for rarely tried arms.

    Examples
    --------
    >>> arms = Arms(np.array([0.0, 0.5]), eta=1.0)
    >>> arms.choose(1, np.array([[True, True]]), np.ones(2), 1).tolist()
    [0]
    >>> arms.pick(1, np.array([0])); arms.learn(np.array([0]), np.array([0.25]))
    >>> arms.choose(2, np.array([[True, True]]), np.ones(2), 1).tolist()
    [1]
    """

    def __init__(
        self, rates: Floats, *, eta: float, discount: float = 1.0, exploration: float = 1.0
    ) -> None:
        size = len(rates)
        self.rate: Floats = np.array(rates, dtype=np.float64)
        self.deficit: Floats = np.zeros(size)
        self.since: NDArray[np.int32] = np.ones(size, np.int32)
        self.count: Floats = np.zeros(size)
        self.mean: Floats = np.ones(size)  # an untried arm is assumed to be good
        self.spread: Floats = np.zeros(size)
        self.picked: NDArray[np.int32] = np.zeros(size, np.int32)
        self.flag: NDArray[np.uint8] = np.zeros(size, np.uint8)
        self._eta = 1.0 if math.isinf(eta) else eta
        self._queue_factor = 0.0 if math.isinf(eta) else 1.0
        self._discount = discount
        self._exploration = exploration
        self._growth = spread_growth(discount)

    def put(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Replace the state by saved columns."""
        self.deficit = columns["deficit"]
        self.count = columns["count"]
        self.mean = columns["mean"]
        self.since = columns["since"]
        self.picked = columns["picked"]
        self.flag = columns["flag"]
        self.update_spread(np.arange(len(self)))

    def __len__(self) -> int:
        return len(self.rate)

    # -- choices --------------------------------------------------------------------------------

    def scores(self, round_number: int, weight: Floats, part: slice = _ALL) -> Floats:
        """Return `queue + eta · weight · min(mean + spread · bonus, 1)` of a part of the arms."""
        age = round_number - self.since[part]
        bound = self.spread[part] * self._bonus(round_number)
        if len(self._growth) > 1:
            bound *= self._growth[np.minimum(age, len(self._growth) - 1)]
        bound += self.mean[part]
        np.minimum(bound, 1.0, out=bound)
        bound *= weight[part] * self._eta
        scores: Floats = self.rate[part] * age + self.deficit[part]
        scores *= self._queue_factor
        scores += bound
        return scores

    def _bonus(self, round_number: int) -> float:
        rounds = float(round_number)
        if self._discount < 1:
            rounds = (1 - self._discount**round_number) / (1 - self._discount)
        return math.sqrt(self._exploration * math.log(max(rounds, 1.0)))

    def sampled_scores(self, round_number: int, weight: Floats, sample: Floats) -> Floats:
        """Return the queue plus a given reward of every arm, such as one from its posterior."""
        owed = self.queues(round_number) * self._queue_factor
        scores: Floats = owed + self._eta * weight * sample
        return scores

    def queues(self, round_number: int) -> Floats:
        """Return the queue of every arm at the beginning of a round."""
        queues: Floats = self.deficit + self.rate * (round_number - self.since)
        return queues

    def choose(self, round_number: int, eligible: Masks, weight: Floats, count: int) -> Indices:
        """Return the best eligible arms by queue and optimistic reward, in ascending order.

        The rows of `eligible` are independent games; the arms of one follow those of the other.
        """
        if len(eligible) == 1:
            return self._choose_by_blocks(round_number, eligible[0], weight, count)
        scores = self.scores(round_number, weight).reshape(eligible.shape)
        return best_of(np.where(eligible, scores, -1.0), count)

    def _choose_by_blocks(
        self, round_number: int, eligible: Masks, weight: Floats, count: int
    ) -> Indices:
        scores = np.empty(0)
        indices = np.empty(0, np.int64)
        threshold = -1.0
        for start in range(0, len(eligible) if count > 0 else 0, _BLOCK):
            part = slice(start, start + _BLOCK)
            block = self.scores(round_number, weight, part)
            better = np.flatnonzero((block > threshold) & eligible[part])
            scores = np.concatenate([scores, block[better]])
            indices = np.concatenate([indices, better + start])
            if len(scores) >= 2 * count:
                kept = best_of(scores[None, :], count)
                scores, indices = scores[kept], indices[kept]
                threshold = float(scores.min())
        return indices[best_of(scores[None, :], count)]

    # -- rewards -------------------------------------------------------------------------------

    def pick(self, round_number: int, indices: Indices) -> None:
        """Serve the queues of the chosen arms and await their rewards."""
        age = round_number - self.since[indices]
        owed = self.deficit[indices] + self.rate[indices] * (age + 1) - 1.0
        self.deficit[indices] = np.maximum(owed, 0.0)
        if self._discount < 1:
            self.count[indices] *= self._discount ** (age + 1)
            self.update_spread(indices)
        self.since[indices] = round_number + 1
        self.picked[indices] = round_number
        self.flag[indices] = AWAITED

    def learn(self, indices: Indices, rewards: Floats, flag: int = ANSWERED) -> None:
        """Count a trial and its reward in [0, 1] for different arms; `flag` is their new state."""
        tries = self.count[indices]
        total = self.mean[indices] * tries + rewards
        self.count[indices] = tries + 1.0
        self.mean[indices] = np.minimum(total / (tries + 1.0), 1.0)
        self.flag[indices] = flag
        self.update_spread(indices)

    def correct(self, index: int, reward: float) -> None:
        """Replace the 0 of a missed trial by its late reward."""
        self.mean[index] = min(self.mean[index] + reward / max(self.count[index], 1.0), 1.0)
        self.flag[index] = ANSWERED

    def bring_forward(self, round_number: int) -> None:
        """Compute all queues for a round, so that rates may change."""
        age = round_number - self.since
        self.deficit = self.queues(round_number)
        if self._discount < 1:
            self.count *= self._discount**age
            self.update_spread(np.arange(len(self)))
        self.since[:] = round_number

    def update_spread(self, indices: Indices) -> None:
        """Update the spread of some arms from their numbers of trials."""
        tries = self.count[indices]
        tried = tries > 0
        self.spread[indices] = np.sqrt(1.5 / np.where(tried, tries, 1.0)) * tried


def best_of(scores: Floats, count: int) -> Indices:
    """Return the flat indices of the best `count` scores of each row, ascending.

    Ties go to the first; negative scores are never chosen.

    Examples
    --------
    >>> best_of(np.array([[0.5, 0.7, -1.0, 0.5, 0.5], [-1.0, -1.0, -1.0, 0.2, -1.0]]), 3).tolist()
    [0, 1, 3, 8]
    """
    best: Masks = scores >= 0
    width = scores.shape[1]
    if count <= 0:
        return np.empty(0, np.int64)
    if count < width:
        least = np.partition(scores, width - count, axis=1)[:, width - count, None]
        better = scores > least
        ties = scores == least
        free = count - better.sum(axis=1, keepdims=True)
        best &= better | (ties & (np.cumsum(ties, axis=1) <= free))
    return np.flatnonzero(best)


def spread_growth(discount: float) -> Floats:
    """Return the growth of a spread by number of rounds without a trial; a single 1 for none."""
    if discount == 1:
        return np.ones(1)
    rounds = min(math.ceil(-2 * math.log(_CERTAIN) / math.log(discount)), _MAX_AGE)
    ages = np.arange(max(rounds, 1) + 1, dtype=np.float64)
    return np.power(discount, -0.5 * ages)
