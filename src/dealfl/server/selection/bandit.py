"""Selectors with fairness queues: named workers over flat arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadInput
from dealfl.server.selection.arms import AWAITED, MISSED, Arms
from dealfl.server.selection.base import (
    Candidate,
    Eta,
    Fairness,
    Guarantee,
    OverPromise,
    Price,
    Seed,
    Selector,
    WeightCap,
)
from dealfl.server.selection.feasibility import allowed_shares, estimate_availability, find_excess
from dealfl.server.selection.kernels import Floats, Places
from dealfl.server.selection.saved_state import BLOCK, COLUMNS, HEADER, Saved, pack, unpack
from dealfl.settings import Share, check

__all__ = ["Bandit"]

_REVIEW_EVERY = 100
_NOBODY: Places = np.empty(0, np.int64)


class Bandit(Selector):
    """Base class of selectors with a fairness queue for each worker.

    A subclass decides how to choose (`_choose`).
    """

    names: list[str]  # of all known workers, in the order in which they became known
    arms: Arms  # their state, in the same order
    _round: int
    _reviewed: int
    _per_round: int
    _places: dict[str, int]
    _awaited: Places
    _first: NDArray[np.int32]
    _awake: NDArray[np.int32]
    _served: NDArray[np.int32]
    _allowed: Floats
    _stale: set[int]  # numbers of the blocks that changed since they were saved
    _header: bytes  # as it was saved

    def __init__(
        self,
        *,
        seed: Seed = 0,
        fairness: Guarantee = 0.0,
        eta: Eta = 10.0,
        weight_cap: WeightCap = 100.0,
        price: Price = 0.0,
    ) -> None:
        given: dict[str, Any] = {"seed": seed, "fairness": fairness, "eta": eta}
        given = check(Bandit, given | {"weight_cap": weight_cap, "price": price})
        self._seed = seed
        self._fairness = Fairness.of(given["fairness"])
        self._weight_cap, self._price = given["weight_cap"], given["price"]
        self._arm_settings: dict[str, Any] = {"eta": given["eta"]}
        self.restore({})

    # -- the protocol ---------------------------------------------------------------------------

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:
        """Return the best candidates, in the order in which they became known."""
        if round_number < self._round or (round_number == self._round and self._took_place()):
            raise BadInput(
                f"round {round_number} is not after round {self._round}; rounds must increase"
            )
        if not candidates or count <= 0:
            return []
        places, weights = self._locate(round_number, candidates)
        eligible = np.zeros(len(self.arms), np.bool_)
        weight = np.zeros(len(self.arms))
        eligible[places], weight[places] = True, weights
        self._touch(self._awaited)
        self.arms.miss(self._awaited)
        self._awaited = _NOBODY
        self._awake[places] += 1
        self._round, self._per_round = round_number, count
        if round_number - self._reviewed >= _REVIEW_EVERY:
            self._review(round_number)
        if self._price:
            worthy = self.arms.scores(round_number, weight) >= self.arms.score_of_share(self._price)
            worthy[places] |= [candidate.overdue for candidate in candidates]
            eligible &= worthy
        chosen = self._choose(round_number, eligible, weight, count)
        if not len(chosen):
            self._awake[places] -= 1  # the round does not take place
            return []
        self._touch(places)
        self.arms.pick(round_number, chosen)
        self._served[chosen] += 1
        self._awaited = chosen
        return [self.names[place] for place in chosen.tolist()]

    def record_reward(self, round_number: int, worker: str, reward: Share) -> None:
        """Record a reward. An unexpected or repeated reward changes nothing."""
        reward = check(Bandit.record_reward, {"reward": reward})["reward"]
        place = self._places.get(worker)
        if place is None or self.arms.picked[place] != round_number:
            return
        places = np.array([place])
        if self.arms.flag[place] == AWAITED:
            self.arms.learn(places, np.array([reward]))
            self._awaited = self._awaited[self._awaited != place]
            self._touch(places)
        elif self.arms.flag[place] == MISSED:
            self.arms.correct(place, reward)
            self._touch(places)

    def find_least_weight(self, worker: str) -> float:
        """Return the weight at which a worker is worth its price, given the debt to it."""
        place = self._places.get(worker)
        if place is None or not self._price:
            return float(self._price * self._weight_cap)
        weight = np.zeros(len(self.arms))
        debt = self.arms.scores(self._round + 1, weight)[place]
        weight[place] = 1.0
        most = self.arms.scores(self._round + 1, weight)[place] - debt
        missing = max(self.arms.score_of_share(self._price) - debt, 0.0)
        return float(self._weight_cap * min(missing / most if most > 0 else 1.0, 1.0))

    def remove(self, worker: str) -> None:
        """Forget a worker. The others keep their order."""
        if worker not in self._places:
            return
        place, last = self._places[worker], len(self.names) - 1
        columns = {name: np.delete(one, place) for name, one in self._saved().columns.items()}
        names = self.names[:place] + self.names[place + 1 :]
        self._load(Saved(self._round, self._reviewed, self._per_round, names, columns))
        self._touch(np.arange(place, last + 1))  # the last block may be empty now

    def changes(self) -> Mapping[str, bytes]:
        """Return the parts of the state that changed since the last call or `restore`."""
        parts, self._stale = pack(self._saved(), self._stale), set()
        if parts[HEADER] == self._header:
            del parts[HEADER]
        else:
            self._header = parts[HEADER]
        return parts

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Resume from a stored state."""
        empty = {name: np.empty(0, kind) for name, (kind, _) in COLUMNS.items()}
        self._load(unpack(parts) if parts else Saved(0, 0, 0, [], empty))
        self._stale, self._header = set(), parts.get(HEADER, b"")

    def _touch(self, places: Places) -> None:
        self._stale |= set(np.unique(places // BLOCK).tolist())

    # -- guarantees -----------------------------------------------------------------------------

    def over_promised(self) -> OverPromise | None:
        """Return the workers whose guarantees cannot be met.

        Availability is estimated optimistically from the rounds so far, as if workers woke
        independently, so that a reported excess is certain.
        """
        promised = self._promised()
        # early, report only guarantees that fail even for workers that never sleep
        awake = np.ones(len(promised)) if self._round < _REVIEW_EVERY else self._availability()
        found = find_excess(promised, awake, self._per_round)
        if found is None:
            return None
        workers = sorted(self.names[place] for place in found.places if promised[place] > 0)
        return OverPromise(tuple(workers), found.promised, found.possible)

    def _promised(self) -> Floats:
        return np.array([self._fairness.rate(name) for name in self.names], dtype=np.float64)

    def _availability(self) -> Floats:
        return estimate_availability(self._awake, self._round + 1 - self._first)

    def _review(self, round_number: int) -> None:
        """Reduce guarantees to what can be met; small guarantees do not suffer from large ones."""
        promised = self._promised()
        allowed = allowed_shares(promised, self._availability(), self._per_round)
        cut = promised > allowed
        self.arms.bring_forward(round_number)
        if cut.any():
            others = self.arms.deficit[~cut]
            most = float(others.max()) if len(others) else 0.0
            self.arms.deficit[cut] = np.minimum(self.arms.deficit[cut], most)
        self._allowed = allowed
        self.arms.rate = np.minimum(promised, allowed)
        self._reviewed = round_number
        self._touch(np.arange(len(promised)))

    # -- inside ---------------------------------------------------------------------------------

    def _choose(
        self, round_number: int, eligible: NDArray[np.bool_], weight: Floats, count: int
    ) -> Places:
        return self.arms.choose(round_number, eligible, weight, count)

    def _took_place(self) -> bool:
        return bool((self.arms.picked == self._round).any())

    def _locate(self, round_number: int, candidates: Sequence[Candidate]) -> tuple[Places, Floats]:
        """Return the places and weights of the candidates; add those that are new."""
        names = [candidate.name for candidate in candidates]
        if len(set(names)) != len(names):
            raise BadInput("a worker appears twice among the candidates; give each once")
        weights = np.array([candidate.weight for candidate in candidates], dtype=np.float64)
        if not (weights >= 0).all() or math.isinf(weights.max()):
            raise BadInput("a candidate has a negative or infinite weight; it must be a number ≥ 0")
        places = list(map(self._places.get, names))
        if None in places:
            new = [name for name, place in zip(names, places, strict=True) if place is None]
            self._meet(new, round_number)
            places = list(map(self._places.get, names))
        return np.array(places, dtype=np.int64), np.minimum(weights / self._weight_cap, 1.0)

    def _meet(self, names: list[str], round_number: int) -> None:
        count = len(names)
        fresh = {"mean": 1, "allowed": 1, "since": round_number, "first": round_number}
        columns = {
            name: np.concatenate([column, np.full(count, fresh.get(name, 0), column.dtype)])
            for name, column in self._saved().columns.items()
        }
        known = [*self.names, *names]
        self._load(Saved(self._round, self._reviewed, self._per_round, known, columns))

    def _saved(self) -> Saved:
        arms = self.arms
        columns: dict[str, NDArray[Any]] = {
            "deficit": arms.deficit, "count": arms.count, "mean": arms.mean,
            "allowed": self._allowed, "since": arms.since, "picked": arms.picked,
            "first": self._first, "awake": self._awake, "served": self._served, "flag": arms.flag,
        }  # fmt: skip
        return Saved(self._round, self._reviewed, self._per_round, self.names, columns)

    def _load(self, saved: Saved) -> None:
        columns = saved.columns
        self.names, self._per_round = list(saved.names), saved.per_round
        self._round, self._reviewed = saved.round_number, saved.reviewed
        self._places = {name: place for place, name in enumerate(self.names)}
        self._first, self._awake = columns["first"], columns["awake"]
        self._served, self._allowed = columns["served"], columns["allowed"]
        rates = np.minimum(self._promised(), self._allowed)
        self.arms = Arms(rates, **self._arm_settings)
        self.arms.put(columns)
        self._awaited = np.flatnonzero(self.arms.flag == AWAITED)
