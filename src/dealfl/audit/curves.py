"""Curves: how well each attack works, by the number of persons or examples that are mixed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.audit.attacks import (
    Counts,
    find_deleted_direction,
    find_main_direction,
    find_touched_items,
    guess_from_similar,
    guess_rarest_history,
    list_exposed_histories,
)
from dealfl.data import load, yearpredictionmsd_like

__all__ = ["MIN_TRIALS", "SIZES", "SUBJECTS", "Point", "try_attacks"]

MIN_TRIALS = 100
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_ROWS, _PENALTY = 20_000, 1.0
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Point:
    """How well an attack works in one setting.

    Parameters
    ----------
    attack : str
        Name of the attack.
    size : int
        Number of persons or examples that are mixed; 1 for none.
    quality : float
        Median quality over the trials; 1 is a complete reconstruction.
    floor : float
        The same attack against somebody who is not there, or a guess without the model.
    trials : int
        Number of trials.
    measure : str
        What the quality is.
    """

    attack: str
    size: int
    quality: float
    floor: float
    trials: int
    measure: str


Report = Callable[[str], None]


def _median(values: Iterable[float]) -> float:
    return float(np.median(list(values)))


def try_attacks(
    subject: str, trials: int = MIN_TRIALS, sizes: Sequence[int] = SIZES, seed: int = 0,
    report: Report = lambda _: None,
) -> list[Point]:  # fmt: skip
    """Return how well all attacks on a kind of model work.

    Parameters
    ----------
    subject : str
        "recommender": similarities of films, on movielens; "regression": ridge, on 20,000 rows
        of 90 features.
    trials : int
        Number of persons, or of draws, per point.
    sizes : sequence of int
        Numbers of persons who are erased between two versions, or whom one update contains.
    seed : int
        Seed of the draws.
    report : callable
        Receives the name of each attack when it starts.

    Returns
    -------
    list of Point
        The points.

    Raises
    ------
    DealError
        If movielens is not on this machine.
    """
    return SUBJECTS[subject](trials, sizes, seed, report)


# -- recommendations ------------------------------------------------------------------------------


def _attack_recommendations(
    trials: int, sizes: Sequence[int], seed: int, report: Report
) -> list[Point]:
    histories = load("movielens").histories
    draw = np.random.default_rng(seed)
    # only users of the second half, which nothing was fitted to
    judged = draw.permutation(np.arange(histories.shape[0] // 2, histories.shape[0]))[:trials]
    report("stale similarities")
    points = _stale_model(histories, judged)
    report("similar users")
    points.append(_similar_users(histories, judged))
    report("versions and updates of similarities")
    for size in sizes:
        points += _mixed_histories(histories, size, trials, draw)
    return points


def _stale_model(histories: Any, users: NDArray[np.int64]) -> list[Point]:  # noqa: ANN401
    """Return recall and precision of the paper's attack, as in the paper and refined."""
    whole, found = Counts.of(histories), []
    for user in users:
        own = histories[[int(user)], :].indices.astype(np.int64)
        now = whole.without(own)
        for refined in (False, True):
            flags = find_touched_items(whole, now, refined=refined)
            hits = int(flags[own].sum())
            found.append((refined, hits / len(own), hits / max(int(flags.sum()), 1)))
    share = len(own) / len(whole.items)
    points = []
    for refined, name in ((False, "stale model, as in the paper"), (True, "stale model, refined")):
        for place, measure in ((1, "recall"), (2, "precision")):
            values = [float(one[place]) for one in found if one[0] == refined]
            mean = float(np.mean(values))
            points.append(Point(name, 1, mean, share, len(values), f"mean {measure}"))
    return points


def _similar_users(histories: Any, users: NDArray[np.int64]) -> Point:  # noqa: ANN401
    """Return how much of a deleted history the most similar users tell (Figure 1)."""
    lengths = np.asarray(histories.sum(axis=1)).ravel()
    popular = np.argsort(-np.asarray(histories.sum(axis=0)).ravel(), kind="stable")
    hits, floors = [], []
    for user in users:
        own = histories[[int(user)], :]
        others = np.flatnonzero(np.arange(len(lengths)) != user)
        both = np.asarray((histories[others] @ own.T).todense()).ravel()
        similar = both / (lengths[others] + lengths[user] - both)
        guess = guess_from_similar(similar, histories[others], len(own.indices))
        size = len(own.indices)
        hits.append(len(np.intersect1d(guess, own.indices)) / size)
        floors.append(len(np.intersect1d(popular[:size], own.indices)) / size)
    name = "similar users (Figure 1)"
    return Point(name, 1, _median(hits), _median(floors), len(hits), "share of items guessed")


def _mixed_histories(
    histories: Any, size: int, trials: int, draw: np.random.Generator  # noqa: ANN401
) -> list[Point]:  # fmt: skip
    """Return how many of some histories their common counts expose completely.

    The difference of two versions has the counts of the histories that were erased; an update has
    the counts of the histories that a worker learned: the same sum, seen by somebody else.
    """
    shares, target, best, floor = [], [], [], []
    strangers = np.random.default_rng(size)
    for _ in range(trials):
        users = draw.choice(histories.shape[0], size, replace=False)
        batch = histories[users].astype(np.int64)
        items, pairs = np.asarray(batch.sum(axis=0)).ravel(), (batch.T @ batch).tocsr()
        exposed = set(list_exposed_histories(items, pairs))
        others = strangers.choice(np.setdiff1d(np.arange(histories.shape[0]), users), size)
        own, other = (_sets(histories[one]) for one in (users, others))
        shares.append(sum(one in exposed for one in own) / size)
        target.append(float(own[0] in exposed))
        guess = guess_rarest_history(items, pairs)
        best.append(max(_overlap(guess, one) for one in own))
        floor.append(max(_overlap(guess, one) for one in other))
    return [
        Point("two versions of similarities", size, _median(shares), 0.0, trials,
              "share of histories exposed"),
        Point("one erasure among others, similarities", size, float(np.mean(target)), 0.0, trials,
              "probability of exposure"),
        Point("one update, similarities", size, _median(best), _median(floor), trials,
              "overlap with the nearest history"),
    ]  # fmt: skip


def _sets(histories: Any) -> list[frozenset[int]]:  # noqa: ANN401
    return [
        frozenset(histories[[place], :].indices.tolist()) for place in range(histories.shape[0])
    ]


def _overlap(one: frozenset[int], other: frozenset[int]) -> float:
    return len(one & other) / len(one | other)


# -- regression -----------------------------------------------------------------------------------


def _attack_regression(trials: int, sizes: Sequence[int], seed: int, report: Report) -> list[Point]:
    rows, targets = _standard_rows(seed)
    draw = np.random.default_rng(seed)
    held, public = rows[:_ROWS], rows[_ROWS:]
    data = _Ridge(held, targets[:_ROWS], np.cov(public.T))
    points = []
    for size in sizes:
        report(f"two ridge models, {size} erased")
        points += _two_models(data, public, size, trials, draw)
    for size in sizes:
        report(f"one update of {size}")
        points.append(_one_update(held, public, size, trials, draw))
    return points


def _standard_rows(seed: int) -> tuple[Floats, Floats]:
    table = yearpredictionmsd_like(_ROWS + 2_000, seed)
    rows = np.asarray(table.features, np.float64)
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    targets = np.asarray(table.targets, np.float64)
    return rows, targets - targets.mean()


@dataclass(frozen=True, slots=True)
class _Ridge:
    """Rows with their targets, and the covariance that the attacker knows from public rows."""

    rows: Floats
    targets: Floats
    covariance: Floats

    def weights_without(self, gram: Floats, moment: Floats, erased: NDArray[np.int64]) -> Floats:
        left, values = self.rows[erased], self.targets[erased]
        return np.asarray(
            np.linalg.solve(gram - left.T @ left, moment - left.T @ values), np.float64
        )


def _two_models(
    data: _Ridge, public: Floats, size: int, trials: int, draw: np.random.Generator
) -> list[Point]:
    """Return how well the difference of two models points at one of the erased rows."""
    gram = data.rows.T @ data.rows + _PENALTY * np.eye(data.rows.shape[1])
    moment = data.rows.T @ data.targets
    before = np.asarray(np.linalg.solve(gram, moment), np.float64)
    best, floor, target = [], [], []
    for _ in range(trials):
        erased = draw.choice(len(data.rows), size, replace=False)
        after = data.weights_without(gram, moment, erased)
        guess = find_deleted_direction(before, after, data.covariance)
        likeness = _likeness(data.rows[erased], guess)
        best.append(likeness.max())
        target.append(likeness[0])
        floor.append(_likeness(public[draw.choice(len(public), size)], guess).max())
    name, measure = "two ridge models", "|cosine| to the nearest row"
    return [
        Point(name, size, _median(best), _median(floor), trials, measure),
        Point("one erasure among others, ridge", size, _median(target),
              _median(_likeness(public[:trials], guess)), trials, "|cosine| to her row"),
    ]  # fmt: skip


def _one_update(
    rows: Floats, public: Floats, size: int, trials: int, draw: np.random.Generator
) -> Point:
    """Return how well the Gram matrix of one update points at one of its rows."""
    best, floor = [], []
    for _ in range(trials):
        own = rows[draw.choice(len(rows), size, replace=False)]
        guess = find_main_direction(own.T @ own)
        best.append(_likeness(own, guess).max())
        floor.append(_likeness(public[draw.choice(len(public), size)], guess).max())
    name, measure = "one update, ridge", "|cosine| to the nearest row"
    return Point(name, size, _median(best), _median(floor), trials, measure)


def _likeness(rows: Floats, direction: Floats) -> Floats:
    cosines: Floats = np.abs(rows @ direction) / np.linalg.norm(rows, axis=1)
    return cosines


SUBJECTS = {"recommender": _attack_recommendations, "regression": _attack_regression}
