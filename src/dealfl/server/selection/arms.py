"""The state of many arms in flat arrays: fairness queues and mean rewards.

Only the choice itself touches all arms in a round. The queue of an arm that is not selected grows
linearly: it is stored with its round and computed when needed. Discounted estimates are stored
in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.server.selection.kernels import (
    Columns,
    Floats,
    Places,
    Scoring,
    best,
    growth_of,
    scores_of,
)

__all__ = ["ANSWERED", "AWAITED", "IDLE", "MISSED", "Arms"]

IDLE, AWAITED, ANSWERED, MISSED = range(4)


class Arms:
    """Virtual queues and mean rewards of many arms, by place. Rounds are counted from 1.

    Parameters
    ----------
    rates : array of float
        Growth of each queue per round.
    eta : float
        Weight of rewards against queues; infinity ignores the queues.
    discount : float
        Factor by which a trial counts less after each round; 1 for no discount.
    exploration : float
        Factor of the bonus for rarely tried arms.

    Examples
    --------
    >>> arms = Arms(np.array([0.0, 0.5]), eta=1.0)
    >>> arms.choose(1, np.array([True, True]), np.ones(2), 1).tolist()
    [0]
    >>> arms.pick(1, np.array([0])); arms.learn(np.array([0]), np.array([0.25]))
    >>> arms.choose(2, np.array([True, True]), np.ones(2), 1).tolist()
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
        self._discount, self._exploration = discount, exploration
        self._growth = growth_of(discount)

    def put(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Replace the state by saved columns.

        Parameters
        ----------
        columns : mapping of str to array
            Columns deficit, count, mean, since, picked and flag.
        """
        self.deficit, self.count, self.mean = columns["deficit"], columns["count"], columns["mean"]
        self.since, self.picked, self.flag = columns["since"], columns["picked"], columns["flag"]
        self.update_spread(np.arange(len(self)))

    def __len__(self) -> int:
        return len(self.rate)

    def _scoring(self, round_number: int) -> Scoring:
        """Return the part of the scores that is the same for all arms."""
        rounds = float(round_number)
        if self._discount < 1:
            rounds = (1 - self._discount**round_number) / (1 - self._discount)
        root = math.sqrt(self._exploration * math.log(max(rounds, 1.0)))
        return Scoring(round_number, self._eta, self._queue_factor, root, self._growth)

    def columns(self, weight: Floats) -> Columns:
        """Return the arrays that a choice reads.

        Parameters
        ----------
        weight : array of float
            Weight of each arm.

        Returns
        -------
        tuple of array
            Deficit, since, rate, mean, spread and weight.
        """
        return self.deficit, self.since, self.rate, self.mean, self.spread, weight

    def scores(self, round_number: int, weight: Floats) -> Floats:
        """Return the queue plus the optimistic reward of every arm.

        Parameters
        ----------
        round_number : int
            Number of the round.
        weight : array of float
            Weight of each arm.

        Returns
        -------
        array of float
            Scores.
        """
        return scores_of(self._scoring(round_number), self.columns(weight))

    def sampled_scores(self, round_number: int, weight: Floats, sample: Floats) -> Floats:
        """Return the queue plus a given reward of every arm.

        Parameters
        ----------
        round_number : int
            Number of the round.
        weight : array of float
            Weight of each arm.
        sample : array of float
            Reward of each arm, for example drawn from its posterior.

        Returns
        -------
        array of float
            Scores.
        """
        owed = self.queues(round_number) * self._queue_factor
        scores: Floats = owed + self._eta * weight * sample
        return scores

    def score_of_share(self, share: float) -> float:
        """Return the score of an arm with an empty queue and a share of the maximum reward.

        Parameters
        ----------
        share : float
            Share of the maximum reward.

        Returns
        -------
        float
            Score.
        """
        return self._eta * share

    def queues(self, round_number: int) -> Floats:
        """Return the queue of every arm at the beginning of a round.

        Parameters
        ----------
        round_number : int
            Number of the round.

        Returns
        -------
        array of float
            Queue lengths.
        """
        queues: Floats = self.deficit + self.rate * (round_number - self.since)
        return queues

    def choose(
        self, round_number: int, eligible: NDArray[np.bool_], weight: Floats, count: int
    ) -> Places:
        """Return the best eligible arms by queue and optimistic reward.

        Parameters
        ----------
        round_number : int
            Number of the round.
        eligible : array of bool
            Arms that can be chosen.
        weight : array of float
            Weight of each arm.
        count : int
            Maximum number of arms.

        Returns
        -------
        array of int
            Places in ascending order.
        """
        scoring, columns = self._scoring(round_number), self.columns(weight)
        return best(scoring, columns, eligible, count)

    # -- rewards -------------------------------------------------------------------------------

    def pick(self, round_number: int, places: Places) -> None:
        """Serve the queues of the chosen arms and await their rewards.

        Parameters
        ----------
        round_number : int
            Number of the round.
        places : array of int
            The chosen arms.
        """
        age = round_number - self.since[places]
        owed = self.deficit[places] + self.rate[places] * (age + 1) - 1.0
        self.deficit[places] = np.maximum(owed, 0.0)
        if self._discount < 1:
            self.count[places] *= self._discount ** (age + 1)
            self.update_spread(places)
        self.since[places] = round_number + 1
        self.picked[places] = round_number
        self.flag[places] = AWAITED

    def learn(self, places: Places, rewards: Floats, flag: int = ANSWERED) -> None:
        """Count a trial and its reward for some arms.

        Parameters
        ----------
        places : array of int
            Different arms.
        rewards : array of float
            Reward of each, in [0, 1].
        flag : int
            New state of the arms.
        """
        tries = self.count[places]
        total = self.mean[places] * tries + rewards
        self.count[places] = tries + 1.0
        self.mean[places] = np.minimum(total / (tries + 1.0), 1.0)
        self.flag[places] = flag
        self.update_spread(places)

    def miss(self, places: Places) -> None:
        """Count a trial with reward 0 for arms that did not answer.

        Parameters
        ----------
        places : array of int
            Different arms.
        """
        self.learn(places, np.zeros(len(places)), MISSED)

    def correct(self, place: int, reward: float) -> None:
        """Replace the 0 of a missed trial by its late reward.

        Parameters
        ----------
        place : int
            The arm.
        reward : float
            Reward in [0, 1].
        """
        self.mean[place] = min(self.mean[place] + reward / max(self.count[place], 1.0), 1.0)
        self.flag[place] = ANSWERED

    def bring_forward(self, round_number: int) -> None:
        """Compute all queues for a round, so that rates may change.

        Parameters
        ----------
        round_number : int
            Number of the round.
        """
        age = round_number - self.since
        self.deficit = self.queues(round_number)
        if self._discount < 1:
            self.count *= self._discount**age
            self.update_spread(np.arange(len(self)))
        self.since[:] = round_number

    def update_spread(self, places: Places) -> None:
        """Update the spread of some arms from their numbers of trials.

        Parameters
        ----------
        places : array of int
            The arms.
        """
        tries = self.count[places]
        tried = tries > 0
        self.spread[places] = np.sqrt(1.5 / np.where(tried, tries, 1.0)) * tried
