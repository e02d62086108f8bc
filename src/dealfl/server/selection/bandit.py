"""Named workers over flat arrays: what all policies with fairness queues have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadInput
from dealfl.server.selection.arms import AWAITED, MISSED, Arms
from dealfl.server.selection.base import Candidate, OverPromise
from dealfl.server.selection.feasibility import find_excess, kept_share
from dealfl.server.selection.kernels import Floats, Places
from dealfl.server.selection.saved_state import COLUMNS, Saved, packed, packed_names, unpacked
from dealfl.server.selection.settings import Eta, Fairness, Guarantee, Price, Seed, WeightCap
from dealfl.settings import Share, check

__all__ = ["Bandit"]

_REVIEW_EVERY = 100
_SLACK = 0.98  # of what can be given: a queue at the very limit would still grow
_NOBODY: Places = np.empty(0, np.int64)
_ERRORS = 2.0  # standard errors that an availability is given the benefit of


class Bandit:
    """A policy with a queue for each worker; what it adds is how to choose (`_choose`).

    `fairness` is the least fraction of rounds, for all or by name ("*" for the others); `eta`
    weighs rewards against what is owed; weights are divided by `weight_cap`, and capped there.
    Whoever is worth less than `price` is not woken before it is owed the difference, or overdue.
    """

    names: list[str]  # of all workers known, in the order in which they were met
    arms: Arms  # what is known of them, in the same order
    _round: int
    _reviewed: int
    _per_round: int
    _places: dict[str, int]
    _awaited: Places
    _first: NDArray[np.int32]
    _awake: NDArray[np.int32]
    _served: NDArray[np.int32]
    _allowed: Floats
    _state: bytes | None
    _packed_names: bytes | None

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
        self.restore(b"")

    # -- the protocol ---------------------------------------------------------------------------

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:
        """Return at most `count` candidates, in the order in which they were met."""
        if round_number < self._round or (round_number == self._round and self._took_place()):
            raise BadInput(
                f"round {round_number} comes after round {self._round}: rounds only go up"
            )
        if not candidates or count <= 0:
            return []
        places, weights = self._met(round_number, candidates)
        eligible = np.zeros(len(self.arms), np.bool_)
        weight = np.zeros(len(self.arms))
        eligible[places], weight[places] = True, weights
        self._state = None
        self.arms.miss(self._awaited)
        self._awaited = _NOBODY
        self._awake[places] += 1
        self._round, self._per_round = round_number, count
        if round_number - self._reviewed >= _REVIEW_EVERY:
            self._review(round_number)
        if self._price:
            worthy = self.arms.scores(round_number, weight) >= self.arms.worth(self._price)
            worthy[places] |= [candidate.overdue for candidate in candidates]
            eligible &= worthy
        chosen = self._choose(round_number, eligible, weight, count)
        if not len(chosen):
            self._awake[places] -= 1  # nobody was worth it: the round does not take place
            return []
        self.arms.pick(round_number, chosen)
        self._served[chosen] += 1
        self._awaited = chosen
        return [self.names[place] for place in chosen.tolist()]

    def record_reward(self, round_number: int, worker: str, reward: Share) -> None:
        """Take note of a reward; what was not asked for or is known already changes nothing."""
        earned = check(Bandit.record_reward, {"reward": reward})["reward"]
        place = self._places.get(worker)
        if place is None or self.arms.picked[place] != round_number:
            return
        if self.arms.flag[place] == AWAITED:
            self.arms.learn(np.array([place]), np.array([earned]))
            self._awaited = self._awaited[self._awaited != place]
            self._state = None
        elif self.arms.flag[place] == MISSED:
            self.arms.correct(place, earned)
            self._state = None

    def remove(self, worker: str) -> None:
        """Drop a worker and all that is known of it; the others keep their order."""
        if worker not in self._places:
            return
        saved = self._saved()
        keep = np.arange(len(self.names)) != self._places[worker]
        columns = {name: column[keep] for name, column in saved.columns.items()}
        names = [name for name in self.names if name != worker]
        self._load(Saved(self._round, self._reviewed, self._per_round, names, columns))

    def state(self) -> bytes:
        """Return everything known; the same object until something changes."""
        if self._state is None:
            if self._packed_names is None:
                self._packed_names = packed_names(self.names)
            self._state = packed(self._saved(), self._packed_names)
        return self._state

    def restore(self, state: bytes) -> None:
        """Go on from a state; an empty one forgets everybody."""
        if not state:
            empty = {name: np.empty(0, kind) for name, (kind, _) in COLUMNS.items()}
            self._load(Saved(0, 0, 0, [], empty))
            return
        self._load(unpacked(state))
        self._state = state

    # -- promises -------------------------------------------------------------------------------

    def over_promised(self) -> OverPromise | None:
        """Return the workers that were promised most beyond what they can get, if any were.

        Who is awake how often is taken from the rounds so far, as workers that wake
        independently, and in doubt as more often: what is reported is sure.
        """
        promised = self._promised()
        early = self._round < _REVIEW_EVERY  # then only what fails for workers that never sleep
        awake = np.ones(len(promised)) if early else self._availability()
        found = find_excess(promised, awake, self._per_round)
        if found is None:
            return None
        workers = sorted(self.names[place] for place in found.places if promised[place] > 0)
        return OverPromise(tuple(workers), found.promised, found.possible)

    def _promised(self) -> Floats:
        return np.array([self._fairness.rate(name) for name in self.names], dtype=np.float64)

    def _availability(self) -> Floats:
        rounds = np.maximum(self._round + 1 - self._first, 1)
        share = np.minimum(self._awake / rounds, 1.0)
        error = np.sqrt(share * (1 - share) / rounds)
        availability: Floats = np.minimum(share + _ERRORS * error + 1.0 / rounds, 1.0)
        return availability

    def _review(self, round_number: int) -> None:
        """Cut promises down to what can be kept, so that the modest do not starve for them."""
        promised, awake = self._promised(), self._availability()
        share = kept_share(promised, awake, self._per_round) if promised.any() else 1.0
        allowed = np.ones(len(promised)) if share == 1 else _SLACK * share * awake
        cut = promised > allowed
        self.arms.bring_forward(round_number)
        if cut.any():
            others = self.arms.deficit[~cut]
            most = float(others.max()) if len(others) else 0.0
            self.arms.deficit[cut] = np.minimum(self.arms.deficit[cut], most)
        self._allowed = allowed
        self.arms.rate = np.minimum(promised, allowed)
        self._reviewed = round_number

    # -- inside ---------------------------------------------------------------------------------

    def _choose(
        self, round_number: int, eligible: NDArray[np.bool_], weight: Floats, count: int
    ) -> Places:
        return self.arms.choose(round_number, eligible, weight, count)

    def _took_place(self) -> bool:
        return bool((self.arms.picked == self._round).any())

    def _met(self, round_number: int, candidates: Sequence[Candidate]) -> tuple[Places, Floats]:
        """Return where the candidates stand and their weights; meet those not seen before."""
        names = [candidate.name for candidate in candidates]
        if len(set(names)) != len(names):
            raise BadInput("a worker is twice among the candidates; name each once")
        weights = np.array([candidate.weight for candidate in candidates], dtype=np.float64)
        if not (weights >= 0).all() or math.isinf(weights.max()):
            raise BadInput("a candidate's weight must be a number from 0 on")
        new = [name for name in names if name not in self._places]
        if new:
            self._meet(new, round_number)
        places = np.array([self._places[name] for name in names], dtype=np.int64)
        return places, np.minimum(weights / self._weight_cap, 1.0)

    def _meet(self, names: list[str], round_number: int) -> None:
        saved, count = self._saved(), len(names)
        fresh = {"mean": 1, "allowed": 1, "since": round_number, "first": round_number}
        columns = {
            name: np.concatenate([column, np.full(count, fresh.get(name, 0), column.dtype)])
            for name, column in saved.columns.items()
        }
        everybody = [*self.names, *names]
        self._load(Saved(self._round, self._reviewed, self._per_round, everybody, columns))

    def _saved(self) -> Saved:
        arms = self.arms
        columns: dict[str, NDArray[np.generic]] = {
            "deficit": arms.deficit, "count": arms.count, "mean": arms.mean,
            "allowed": self._allowed, "since": arms.since, "picked": arms.picked,
            "first": self._first, "awake": self._awake, "served": self._served, "flag": arms.flag,
        }  # fmt: skip
        return Saved(self._round, self._reviewed, self._per_round, self.names, columns)

    def _load(self, saved: Saved) -> None:
        columns: dict[str, Any] = dict(saved.columns)
        self._round, self._reviewed = saved.round_number, saved.reviewed
        self._per_round = saved.per_round
        self.names = list(saved.names)
        self._places = {name: place for place, name in enumerate(self.names)}
        self._first, self._awake = columns["first"], columns["awake"]
        self._served, self._allowed = columns["served"], columns["allowed"]
        rates = np.minimum(self._promised(), self._allowed)
        self.arms = Arms(rates, **self._arm_settings)
        self.arms.put(columns)
        self._awaited = np.flatnonzero(self.arms.flag == AWAITED)
        self._state = None
        self._packed_names = None
