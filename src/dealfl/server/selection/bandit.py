"""Selectors with fairness queues: named workers over flat arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadInput
from dealfl.server.selection.arms import AWAITED, MISSED, Arms
from dealfl.server.selection.base import Candidate, OverPromise
from dealfl.server.selection.feasibility import allowed_shares, estimate_availability, find_excess
from dealfl.server.selection.kernels import Floats, Places
from dealfl.server.selection.saved_state import COLUMNS, Saved, pack, pack_names, unpack
from dealfl.server.selection.settings import Eta, Fairness, Guarantee, Price, Seed, WeightCap
from dealfl.settings import Share, check

__all__ = ["Bandit"]

_REVIEW_EVERY = 100
_NOBODY: Places = np.empty(0, np.int64)


class Bandit:
    """Base class of selectors with a fairness queue for each worker.

    A subclass decides how to choose (`_choose`).

    Parameters
    ----------
    seed : int
        Seed of random draws.
    fairness : float or mapping of str to float
        Minimum share of the rounds, for all workers or by name ("*" for the others).
    eta : float
        Weight of rewards against fairness; infinity ignores fairness.
    weight_cap : float
        Weights are divided by this value and capped at 1.
    price : float
        Minimum share of the best possible score, unless a worker's examples are overdue.
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
        """Return the best candidates, in the order in which they became known.

        Parameters
        ----------
        round_number : int
            Number of the round, larger than that of the last round.
        candidates : sequence of Candidate
            Workers that can be woken, each once.
        count : int
            Maximum number of workers to return.

        Returns
        -------
        list of str
            Names of the selected workers.

        Raises
        ------
        BadInput
            If the round is not new, a candidate appears twice, or a weight is not a number ≥ 0.
        """
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
        self._state = None
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
        self.arms.pick(round_number, chosen)
        self._served[chosen] += 1
        self._awaited = chosen
        return [self.names[place] for place in chosen.tolist()]

    def record_reward(self, round_number: int, worker: str, reward: Share) -> None:
        """Record a reward. An unexpected or repeated reward changes nothing.

        Parameters
        ----------
        round_number : int
            Round in which the worker was selected.
        worker : str
            Name of the worker.
        reward : float
            Reward in [0, 1].
        """
        reward = check(Bandit.record_reward, {"reward": reward})["reward"]
        place = self._places.get(worker)
        if place is None or self.arms.picked[place] != round_number:
            return
        if self.arms.flag[place] == AWAITED:
            self.arms.learn(np.array([place]), np.array([reward]))
            self._awaited = self._awaited[self._awaited != place]
            self._state = None
        elif self.arms.flag[place] == MISSED:
            self.arms.correct(place, reward)
            self._state = None

    def remove(self, worker: str) -> None:
        """Forget a worker. The others keep their order.

        Parameters
        ----------
        worker : str
            Name of the worker.
        """
        if worker not in self._places:
            return
        keep = np.arange(len(self.names)) != self._places[worker]
        columns = {name: column[keep] for name, column in self._saved().columns.items()}
        names = [name for name in self.names if name != worker]
        self._load(Saved(self._round, self._reviewed, self._per_round, names, columns))

    def state(self) -> bytes:
        """Return the state that must survive a restart.

        Returns
        -------
        bytes
            The state; the same object until something changes.
        """
        if self._state is None:
            if self._packed_names is None:
                self._packed_names = pack_names(self.names)
            self._state = pack(self._saved(), self._packed_names)
        return self._state

    def restore(self, state: bytes) -> None:
        """Resume from a state.

        Parameters
        ----------
        state : bytes
            Result of `state`. Empty bytes reset the selector.

        Raises
        ------
        BadBytes
            If the bytes are no valid state.
        """
        if not state:
            empty = {name: np.empty(0, kind) for name, (kind, _) in COLUMNS.items()}
            self._load(Saved(0, 0, 0, [], empty))
            return
        self._load(unpack(state))
        self._state = state

    # -- guarantees -----------------------------------------------------------------------------

    def over_promised(self) -> OverPromise | None:
        """Return the workers whose guarantees cannot be met.

        Availability is estimated optimistically from the rounds so far, as if workers woke
        independently, so that a reported excess is certain.

        Returns
        -------
        OverPromise or None
            The set with the largest excess; None if all guarantees can be met.
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
        new = [name for name in names if name not in self._places]
        if new:
            self._meet(new, round_number)
        places = np.array([self._places[name] for name in names], dtype=np.int64)
        return places, np.minimum(weights / self._weight_cap, 1.0)

    def _meet(self, names: list[str], round_number: int) -> None:
        count = len(names)
        fresh = {"mean": 1, "allowed": 1, "since": round_number, "first": round_number}
        columns = {
            name: np.concatenate([column, np.full(count, fresh.get(name, 0), column.dtype)])
            for name, column in self._saved().columns.items()
        }
        names = [*self.names, *names]
        self._load(Saved(self._round, self._reviewed, self._per_round, names, columns))

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
        self.names, self._per_round = list(saved.names), saved.per_round
        self._round, self._reviewed = saved.round_number, saved.reviewed
        self._places = {name: place for place, name in enumerate(self.names)}
        self._first, self._awake = columns["first"], columns["awake"]
        self._served, self._allowed = columns["served"], columns["allowed"]
        rates = np.minimum(self._promised(), self._allowed)
        self.arms = Arms(rates, **self._arm_settings)
        self.arms.put(columns)
        self._awaited = np.flatnonzero(self.arms.flag == AWAITED)
        self._state = self._packed_names = None
