"""Attacks on models and updates, and how well each works by how many persons are mixed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dealfl.data import load, yearpredictionmsd_like

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Report = Callable[[str], None]

MIN_TRIALS = 100
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_ROWS = 20_000
_PENALTY = 1.0


@dataclass(frozen=True, slots=True)
class Counts:
    """The statistics of item-item similarities: histories per item and per pair of items."""

    items: NDArray[np.int64]
    pairs: NDArray[np.int64]

    @classmethod
    def of(cls, histories: csr_array[Any, Any]) -> Counts:
        """Count histories."""
        dense = histories.toarray().astype(np.float64)
        pairs = (dense.T @ dense).astype(np.int64)
        items = np.diagonal(pairs).copy()
        np.fill_diagonal(pairs, 0)
        return cls(items, pairs)

    def without(self, history: NDArray[np.int64]) -> Counts:
        """Return the counts after one history is removed."""
        items = self.items.copy()
        items[history] -= 1
        pairs = self.pairs.copy()
        pairs[np.ix_(history, history)] -= 1
        np.fill_diagonal(pairs, 0)
        return Counts(items, pairs)


def find_touched_items(stale: Counts, now: Counts, *, refined: bool) -> Flags:
    """Guess the items of a deleted history from similarities before and after the deletion.

    The paper's attack flags an item if any of its similarities changed. But one history changes
    the counts of its items, and so similarities of all items that occur together with them. The
    refined attack flags an item if all its similarities changed.
    """
    # a/b and c/d differ if a·d and c·b do: no rounding hides a change
    unions = [counts.items[:, None] + counts.items - counts.pairs for counts in (stale, now)]
    changed = stale.pairs * unions[1] != now.pairs * unions[0]
    together = stale.pairs > 0
    if not refined:
        return np.asarray((changed & together).any(axis=1))
    fixed = (stale.pairs == unions[0]) & (now.pairs == unions[1])  # 1 before and after
    counted = together & ~fixed
    return np.asarray((changed | ~counted).all(axis=1) & counted.any(axis=1))


def guess_from_similar(
    similarities: Floats, histories: csr_array[Any, Any], size: int
) -> NDArray[np.int64]:
    """Guess the deleted history of a user from a stale row of user-user similarities."""
    weights = np.where(similarities >= np.sort(similarities)[-20], similarities, 0.0)
    return np.argsort(-(weights @ histories), kind="stable")[:size]


def list_exposed_histories(
    items: NDArray[np.int64], pairs: csr_array[Any, Any]
) -> list[frozenset[int]]:
    """Return the histories that the difference of two published models exposes completely.

    An item that only one of the erased histories contains tells, by its pairs, all other items of
    that history.
    """
    owned_once = map(int, np.flatnonzero(items == 1))
    return list({_history_of(item, pairs) for item in owned_once})


def guess_rarest_history(items: NDArray[np.int64], pairs: csr_array[Any, Any]) -> frozenset[int]:
    """Guess a history from the counts of an update: all that occurs with an item of the fewest."""
    rare = np.flatnonzero(items == items[items > 0].min())
    lengths = np.diff(pairs.indptr)[rare]
    return _history_of(int(rare[np.argmax(lengths)]), pairs)


def _history_of(item: int, pairs: csr_array[Any, Any]) -> frozenset[int]:
    """Return an item and all that occur with it."""
    return frozenset({item, *map(int, pairs[[item], :].indices)})


def find_deleted_direction(before: Floats, after: Floats, covariance: Floats) -> Floats:
    """Return the direction of a deleted row from the weights of two ridge models."""
    return _unit(covariance @ (before - after))


def find_main_direction(gram: Floats) -> Floats:
    """Return the direction that explains most of the Gram matrix of an update."""
    return _unit(np.linalg.eigh(gram)[1][:, -1])


def _unit(vector: Floats) -> Floats:
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector


# -- curves ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Point:
    """How well an attack works in one setting."""

    attack: str
    size: int  # number of persons or examples that are mixed; 1 for none
    quality: float  # median over the trials; 1 is a complete reconstruction
    floor: float  # the same attack against somebody who is not there, or a guess without the model
    trials: int
    measure: str  # what the quality is


def _median(values: Iterable[float]) -> float:
    return float(np.median(list(values)))


def try_attacks(
    subject: str,
    trials: int,
    sizes: Sequence[int] = SIZES,
    seed: int = 0,
    report: Report = lambda _: None,
) -> list[Point]:
    """Return how well all attacks on a kind of model work."""
    return SUBJECTS[subject](trials, sizes, seed, report)


# -- recommendations ------------------------------------------------------------------------------


def _attack_recommendations(
    trials: int, sizes: Sequence[int], seed: int, report: Report
) -> list[Point]:
    histories = load("movielens", download=False).histories
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
    whole = Counts.of(histories)
    points = []
    for refined, name in ((False, "stale model, as in the paper"), (True, "stale model, refined")):
        recalls = []
        precisions = []
        for user in users:
            own = histories[[int(user)], :].indices.astype(np.int64)
            flags = find_touched_items(whole, whole.without(own), refined=refined)
            hits = int(flags[own].sum())
            recalls.append(hits / len(own))
            precisions.append(hits / max(int(flags.sum()), 1))
        share = len(own) / len(whole.items)
        for measure, values in (("recall", recalls), ("precision", precisions)):
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
        size = len(own.indices)
        guess = guess_from_similar(similar, histories[others], size)
        hits.append(len(np.intersect1d(guess, own.indices)) / size)
        floors.append(len(np.intersect1d(popular[:size], own.indices)) / size)
    name = "similar users (Figure 1)"
    return Point(name, 1, _median(hits), _median(floors), len(hits), "share of items guessed")


def _mixed_histories(
    histories: Any,  # noqa: ANN401
    size: int,
    trials: int,
    draw: np.random.Generator,
) -> list[Point]:
    """Return how many of some histories their common counts expose completely.

    The difference of two versions has the counts of the histories that were erased; an update has
    the counts of the histories that a worker learned: the same sum, seen by somebody else.
    """
    shares, target, best, floor = [], [], [], []
    strangers = np.random.default_rng(size)
    for _ in range(trials):
        users = draw.choice(histories.shape[0], size, replace=False)
        batch = histories[users].astype(np.int64)
        items = np.asarray(batch.sum(axis=0)).ravel()
        pairs = (batch.T @ batch).tocsr()
        exposed = set(list_exposed_histories(items, pairs))
        others = strangers.choice(np.setdiff1d(np.arange(histories.shape[0]), users), size)
        own = _sets(histories[users])
        shares.append(sum(history in exposed for history in own) / size)
        target.append(float(own[0] in exposed))
        guess = guess_rarest_history(items, pairs)
        best.append(max(_overlap(guess, history) for history in own))
        floor.append(max(_overlap(guess, history) for history in _sets(histories[others])))
    measures = (
        ("two versions of similarities", _median(shares), 0.0, "share of histories exposed"),
        (
            "one erasure among others, similarities",
            float(np.mean(target)),
            0.0,
            "probability of exposure",
        ),
        (
            "one update, similarities",
            _median(best),
            _median(floor),
            "overlap with the nearest history",
        ),
    )
    return [
        Point(attack, size, quality, chance, trials, measure)
        for attack, quality, chance, measure in measures
    ]


def _sets(histories: Any) -> list[frozenset[int]]:  # noqa: ANN401
    rows = range(histories.shape[0])
    return [frozenset(histories[[row], :].indices.tolist()) for row in rows]


def _overlap(first: frozenset[int], second: frozenset[int]) -> float:
    return len(first & second) / len(first | second)


# -- regression -----------------------------------------------------------------------------------


def _attack_regression(trials: int, sizes: Sequence[int], seed: int, report: Report) -> list[Point]:
    rows, targets = _standard_rows(seed)
    draw = np.random.default_rng(seed)
    learned, public = rows[:_ROWS], rows[_ROWS:]
    data = _Ridge(learned, targets[:_ROWS], np.cov(public.T))
    points = []
    for size in sizes:
        report(f"two ridge models, {size} erased")
        points += _two_models(data, public, size, trials, draw)
    for size in sizes:
        report(f"one update of {size}")
        points.append(_single_update(learned, public, size, trials, draw))
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
        Point(
            "one erasure among others, ridge",
            size,
            _median(target),
            _median(_likeness(public[:trials], guess)),
            trials,
            "|cosine| to her row",
        ),
    ]


def _single_update(
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
