"""What is known of many arms, as a few flat arrays: what they are owed and what they earned.

Nothing here is done for all arms in a round but the choice itself. A queue that is not served
grows by its rate a round, so it is stored with the round it belongs to and brought forward when
it is needed; estimates that age are kept in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.server.selection.kernels import Columns, Floats, Places, Scoring, best, scores_of

__all__ = ["ANSWERED", "AWAITED", "IDLE", "MISSED", "Arms"]

IDLE, AWAITED, ANSWERED, MISSED = range(4)

_CERTAIN = 1e8  # a spread grown so far is beyond any reward
_MAX_ROUNDS = 1 << 16


class Arms:
    """Virtual queues and mean rewards of many arms, by place; rounds are counted from 1.

    `eta` weighs rewards against what is owed (infinite: nothing is owed), `discount` is what a
    try is still worth one round later, `exploration` scales the bonus of what was rarely tried.

    >>> arms = Arms(np.array([0.0, 0.5]), eta=1.0)
    >>> arms.choose(1, np.array([True, True]), np.ones(2), 1).tolist()
    [0]
    >>> arms.pick(1, np.array([0])); arms.learn(np.array([0]), np.array([0.25]))
    >>> arms.choose(2, np.array([True, True]), np.ones(2), 1).tolist()
    [1]
    """

    def __init__(
        self,
        rates: Floats,
        *,
        eta: float,
        discount: float = 1.0,
        exploration: float = 1.0,
        round_number: int = 1,
    ) -> None:
        size = len(rates)
        self.rate: Floats = np.array(rates, dtype=np.float64)
        self.deficit: Floats = np.zeros(size)
        self.since: NDArray[np.int32] = np.full(size, round_number, np.int32)
        self.count: Floats = np.zeros(size)
        self.mean: Floats = np.ones(size)  # nobody is written off untried
        self.spread: Floats = np.zeros(size)
        self.picked: NDArray[np.int32] = np.zeros(size, np.int32)
        self.flag: NDArray[np.uint8] = np.zeros(size, np.uint8)
        self._eta = 1.0 if math.isinf(eta) else eta
        self._queue_factor = 0.0 if math.isinf(eta) else 1.0
        self._discount, self._exploration = discount, exploration
        self._growth = _growth(discount)

    def put(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Take over what was known before."""
        self.deficit, self.count, self.mean = columns["deficit"], columns["count"], columns["mean"]
        self.since, self.picked = columns["since"], columns["picked"]
        self.flag = columns["flag"]
        self.update_spread(np.arange(len(self)))

    def __len__(self) -> int:
        return len(self.rate)

    @property
    def nbytes(self) -> int:
        """The memory of all arrays."""
        return sum(column.nbytes for column in vars(self).values() if hasattr(column, "nbytes"))

    # -- the choice -----------------------------------------------------------------------------

    def scoring(self, round_number: int) -> Scoring:
        """Return what is the same for all arms in a round."""
        heard = float(round_number)
        if self._discount < 1:
            heard = (1 - self._discount**round_number) / (1 - self._discount)
        root = math.sqrt(self._exploration * math.log(max(heard, 1.0)))
        return Scoring(round_number, self._eta, self._queue_factor, root, self._growth)

    def columns(self, weight: Floats) -> Columns:
        """Return what a choice reads."""
        return self.deficit, self.since, self.rate, self.mean, self.spread, weight

    def scores(self, round_number: int, weight: Floats) -> Floats:
        """Return every arm's queue plus its optimistic reward."""
        return scores_of(self.scoring(round_number), self.columns(weight))

    def sampled_scores(self, round_number: int, weight: Floats, sample: Floats) -> Floats:
        """Return every arm's queue plus a reward that was drawn for it."""
        owed = self.queues(round_number) * self._queue_factor
        scores: Floats = owed + self._eta * weight * sample
        return scores

    def worth(self, share: float) -> float:
        """Return the score of an arm that is owed nothing and earns this share of the most."""
        return self._eta * share

    def queues(self, round_number: int) -> Floats:
        """Return what every arm is owed at the beginning of a round."""
        queues: Floats = self.deficit + self.rate * (round_number - self.since)
        return queues

    def choose(
        self,
        round_number: int,
        eligible: NDArray[np.bool_],
        weight: Floats,
        count: int,
        compiled: bool | None = None,
    ) -> Places:
        """Return the best `count` eligible arms by queue and optimistic reward, ascending."""
        scoring, columns = self.scoring(round_number), self.columns(weight)
        return best(scoring, columns, eligible, count, compiled)

    # -- what became of it ----------------------------------------------------------------------

    def pick(self, round_number: int, places: Places) -> None:
        """Serve the queues of the chosen, and await their rewards."""
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
        """Count a try with its reward for each of different arms."""
        tries = self.count[places]
        total = self.mean[places] * tries + rewards
        self.count[places] = tries + 1.0
        self.mean[places] = np.minimum(total / (tries + 1.0), 1.0)
        self.flag[places] = flag
        self.update_spread(places)

    def miss(self, places: Places) -> None:
        """Count a try without a reward for arms that did not answer."""
        self.learn(places, np.zeros(len(places)), MISSED)

    def correct(self, place: int, reward: float) -> None:
        """Put a late reward in the place of the 0 that was counted for it."""
        self.mean[place] = min(self.mean[place] + reward / max(self.count[place], 1.0), 1.0)
        self.flag[place] = ANSWERED

    def bring_forward(self, round_number: int) -> None:
        """Write down every queue as it is now, so that rates may change."""
        age = round_number - self.since
        self.deficit = self.queues(round_number)
        if self._discount < 1:
            self.count *= self._discount**age
            self.update_spread(np.arange(len(self)))
        self.since[:] = round_number

    def update_spread(self, places: Places) -> None:
        """Bring the spread of some arms in line with their number of tries."""
        tries = self.count[places]
        tried = tries > 0
        self.spread[places] = np.sqrt(1.5 / np.where(tried, tries, 1.0)) * tried


def _growth(discount: float) -> Floats:
    """Return how a spread grows with each round without a try."""
    if discount == 1:
        return np.ones(1)
    rounds = min(math.ceil(-2 * math.log(_CERTAIN) / math.log(discount)), _MAX_ROUNDS)
    ages = np.arange(max(rounds, 1) + 1, dtype=np.float64)
    return np.power(discount, -0.5 * ages)
