"""One small subject a learner: examples with duplicates, bounds and empty rows among them."""

from typing import Any

import numpy as np

from dealfl.exact import Entries, Statistics
from dealfl.learners import (
    LEARNERS,
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
    Tikhonov,
    TikhonovClassifier,
)
from dealfl.learners.checks import Subject

try:
    from scipy import sparse
except ModuleNotFoundError:  # the contract holds without
    table: Any = np.asarray
else:
    table = sparse.csr_array

ROWS = np.array(
    [
        [0.1, -3.7, 2.0],
        [0.1, -3.7, 2.0],  # the same again
        [0.0, 0.0, 0.0],
        [1.0, 16.0, 4.0],  # at the bounds
        [-1.0, -16.0, -4.0],
        [0.3333333333333333, 1e-9, -2.5],
        [0.7, 0.1, 0.30000000000000004],
        [-0.0, 5.5, 1.25],
    ]
)
BOUNDS = [1.0, 16.0, 4.0]
TARGETS = np.array([1.5, 1.5, 0.0, 8.0, -8.0, 0.1, 3.14159, -0.7])
LABELS = np.array(["a", "a", "b", "c", "a", "b", "c", "b"])
CLASSES = ["a", "b", "c", "never"]
COUNTS = np.array([[2, 0, 1], [2, 0, 1], [0, 0, 0], [16, 16, 16], [0, 1, 0], [3, 0, 5], [0, 0, 7]])
HISTORIES = table(
    np.array(
        [
            [1, 1, 0, 1, 0, 0],
            [1, 1, 0, 1, 0, 0],
            [0, 0, 0, 0, 0, 0],
            [0, 0, 1, 0, 0, 0],
            [1, 1, 1, 1, 1, 1],
            [0, 0, 0, 0, 1, 1],
            [0, 1, 0, 0, 1, 0],
        ]
    )
)


def tikhonov(**other: Any) -> Tikhonov:
    return Tikhonov(3, penalty=0.5, feature_bound=BOUNDS, target_bound=8.0, **other)


def classifier(**other: Any) -> TikhonovClassifier:
    return TikhonovClassifier(3, CLASSES, penalty=0.5, feature_bound=BOUNDS, **other)


def naive_bayes(**other: Any) -> NaiveBayes:
    return NaiveBayes(3, CLASSES, feature_bound=16.0, **other)


def neighbors(**other: Any) -> Neighbors:
    settings: dict[str, Any] = {
        "k": 3,
        "tables": 3,
        "bits": 12,
        "vote_bits": 4,
        "enough": 2,
        "seed": 5,
    }
    return Neighbors(3, CLASSES, feature_bound=BOUNDS, **(settings | other))


def pagerank(**other: Any) -> PersonalizedPageRank:
    return PersonalizedPageRank(6, **other)


def altered(model: Any, array: str, changes: dict[int, int]) -> Statistics:
    """Return the statistics of a model with some values changed by so much."""
    statistics: Statistics = model.statistics
    wide = statistics[array].values.wide
    arrays = dict(statistics.arrays)
    arrays[array] = arrays[array] + Entries.of(changes, wide)
    return Statistics(statistics.schema, arrays)


def _after(model: Any, *examples: Any) -> Any:
    model.learn(*examples)
    return model


_NAN = np.where(np.eye(8, 3) > 0, np.nan, ROWS)
_INFINITE = np.where(np.eye(8, 3) > 0, np.inf, ROWS)

_BAD_ROWS = [
    lambda model: model.learn(_NAN, _y(model)),
    lambda model: model.learn(_INFINITE, _y(model)),
    lambda model: model.learn(table(_NAN), _y(model)),
    lambda model: model.learn(ROWS * 100, _y(model)),
    lambda model: model.learn(ROWS[0], _y(model)),
    lambda model: model.learn(ROWS[:, :2], _y(model)),
    lambda model: model.learn(ROWS[None], _y(model)),
    lambda model: model.learn(ROWS, _y(model)[:3]),
    lambda model: model.learn(ROWS, _y(model)[:, None]),
    lambda model: model.learn(ROWS + 0j, _y(model)),
    lambda model: model.learn(ROWS.astype(str), _y(model)),
    lambda model: model.learn(ROWS.astype(object), _y(model)),
    lambda model: model.learn([[1.0, 2.0, 3.0], [3.0]], _y(model)[:2]),
    lambda model: model.learn(None, _y(model)),
    lambda model: model.learn(ROWS[:2], [[1], [2, 3]]),
    lambda model: model.forget(np.concatenate([ROWS, ROWS]), np.concatenate([_y(model)] * 2)),
]
_BAD_LABELS = [
    lambda model: model.learn(abs(ROWS), np.array(["z"] * 8)),
    lambda model: model.learn(abs(ROWS), np.arange(8)),
    lambda model: model.learn(abs(ROWS), np.full(8, np.nan)),
    lambda model: model.learn(abs(ROWS), [None] * 8),
    lambda model: model.forget(abs(ROWS[:1]), ["never"]),
]


def _y(model: Any) -> Any:
    return TARGETS if isinstance(model, Tikhonov) else LABELS


def subjects() -> dict[str, Subject]:
    """Return a subject for each learner, by its name."""
    one_row = _after(tikhonov(), ROWS[:1], TARGETS[:1])
    classified = _after(classifier(), ROWS, LABELS)
    counted = _after(naive_bayes(), COUNTS, LABELS[:7])
    voted = _after(neighbors(), ROWS, LABELS)
    ranked = _after(pagerank(), HISTORIES)
    pairs = ranked.statistics["pairs"].indices
    all_subjects = [
        Subject(
            tikhonov,
            (ROWS, TARGETS),
            [
                *_BAD_ROWS,
                lambda model: model.learn(ROWS, TARGETS * 100),
                lambda model: model.learn(ROWS, np.full(8, np.nan)),
                lambda model: model.learn(ROWS, LABELS),
            ],
            [
                altered(tikhonov(), "moments", {0: -1}),
                altered(tikhonov(), "moments", {2: 4}),  # squares of no example
                altered(one_row, "moments", {2: 1 << 61}),  # a square beyond the bound
                altered(one_row, "moments", {2: -(1 << 80)}),  # a square below zero
                altered(one_row, "moments", {1: 1 << 31}),  # a sum too large for its squares
                altered(one_row, "moments", {2: 1}),  # parity of sum and squares
                altered(one_row, "moments", {4: 1 << 58}),  # a product beyond Cauchy and Schwarz
            ],
        ),
        Subject(
            classifier,
            (ROWS, LABELS),
            [*_BAD_ROWS, *_BAD_LABELS],
            [
                altered(classifier(), "moments", {0: -1}),
                altered(classified, "moments", {10: 2}),  # a class count beyond the examples
                altered(classified, "moments", {11: 1}),  # class sums that do not add up
                altered(classified, "moments", {19: 1, 14: 1}),  # an example in two classes
            ],
        ),
        Subject(
            naive_bayes,
            (COUNTS, LABELS[:7]),
            [
                *_BAD_LABELS,
                lambda model: model.learn(-COUNTS, LABELS[:7]),
                lambda model: model.learn(table(-COUNTS), LABELS[:7]),
                lambda model: model.learn(COUNTS * 2, LABELS[:7]),
                lambda model: model.learn(table(COUNTS * 2), LABELS[:7]),
                lambda model: model.learn(COUNTS[:, :2], LABELS[:7]),
                lambda model: model.forget([[0, 9, 0]], ["a"]),
                lambda model: model.forget(COUNTS[[3, 3]], LABELS[[3, 3]]),
            ],
            [
                altered(counted, "counts", {0: -9}),
                altered(counted, "sums", {1: -(10**12)}),
                altered(counted, "sums", {9: 1}),  # a sum of a class without examples
                altered(counted, "sums", {0: 10**14}),  # more than the bounds allow
            ],
        ),
        Subject(
            neighbors,
            (ROWS, LABELS),
            [
                *_BAD_ROWS,
                *_BAD_LABELS,
                lambda model: model.learn(ROWS[:2], LABELS[:2], ids=[50, 50]),
                lambda model: model.learn(ROWS[:1], LABELS[:1], ids=[0]),
                lambda model: model.learn(ROWS[:1], LABELS[:1], ids=[0.5]),
                lambda model: model.learn(ROWS[:1], LABELS[:1], ids=[1, 2]),
                lambda model: model.forget(np.full((1, 3), 0.5), LABELS[:1]),
                lambda model: model.forget(ROWS[[2, 2]], LABELS[[2, 2]]),
                lambda model: model.forget(ids=[99]),
                lambda model: model.forget(ids=[1, 1]),
                lambda model: model.forget(ids=["x"]),
            ],
            [
                altered(voted, "counts", {0: -9}),
                altered(voted, "counts", {0: 1}),  # a table that misses an example
                altered(voted, "votes", {0: 1}),
                altered(voted, "votes", {0: -9}),
            ],
        ),
        Subject(
            pagerank,
            (HISTORIES,),
            [
                lambda model: model.learn(HISTORIES * 2),
                lambda model: model.learn(HISTORIES * -1),
                lambda model: model.learn(HISTORIES * np.nan),
                lambda model: model.learn(HISTORIES[:, :5]),
                lambda model: model.learn([1, 2, 3]),
                lambda model: model.learn("no table"),
                lambda model: model.learn(_csr([0, 0], 6)),
                lambda model: model.learn(_csr([6], 6)),
                lambda model: model.learn(_csr([-1], 6)),
                lambda model: model.forget(HISTORIES[[3, 3, 3]]),
                lambda model: model.forget(np.array([[0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 0, 0]])),
            ],
            [
                altered(ranked, "items", {2: -9}),
                altered(ranked, "pairs", {int(pairs[0]): 9}),
                altered(ranked, "pairs", {int(pairs[0]): -9}),
            ],
        ),
    ]
    assert {subject.name for subject in all_subjects} == set(LEARNERS)
    return {subject.name: subject for subject in all_subjects}


def _csr(items: list[int], columns: int) -> Any:
    """Return a csr of one row without scipy's checks, as hostile or careless code may make it."""
    if table is np.asarray:
        return [items]
    matrix = table((1, columns), dtype=np.int64)
    matrix.indices = np.array(items, dtype=np.int32)
    matrix.data = np.ones(len(items), dtype=np.int64)
    matrix.indptr = np.array([0, len(items)], dtype=np.int32)
    return matrix


SUBJECTS = subjects()
