"""Histories of MovieLens' shapes, drawn by a seed: what a ratio does when the dataset grows.

Stand-ins: the numbers of people, items and ratings are those of MovieLens, and so are the medians
of ratings of a person and of an item. Who rated what is drawn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Int64s = NDArray[np.int64]

_LEAST = 20  # ratings of a person, in both datasets
_SPREAD = 1.14  # of the logarithm of the ratings above these: 45 and 76 at the median
_HEAD = 4.6  # how fast the popularity of items falls among the popular ones,
_TAIL = 3.8  # and among the others; fitted to the ratings of items of MovieLens 100k
_MOST = 0.6  # of the items, for one person


class Shape(NamedTuple):
    """The size of a dataset of histories."""

    people: int
    items: int
    ratings: int


SHAPES = {
    "movielens-100k-like": Shape(943, 1_682, 100_000),
    "movielens-1m-like": Shape(6_040, 3_706, 1_000_209),
}


def draw_meetings(shape: Shape, seed: int = 0) -> tuple[tuple[int, ...], ...]:
    """Return the items of each person, in the order of time."""
    rng = np.random.default_rng(seed)
    above = rng.lognormal(0.0, _SPREAD, shape.people)
    above *= (shape.ratings - _LEAST * shape.people) / above.sum()
    lengths = np.minimum(_LEAST + np.rint(above), _MOST * shape.items).astype(np.int64)
    ranks = np.linspace(0.0, 1.0, shape.items)
    chances = -(_HEAD * ranks**0.5 + _TAIL * ranks**4)
    numbers = rng.permutation(shape.items)
    return tuple(
        # the largest of these sums are a draw without replacement, in the order of the draw
        tuple(numbers[np.argsort(-(chances + rng.gumbel(size=shape.items)))[:length]].tolist())
        for length in lengths.tolist()
    )


def as_table(meetings: tuple[tuple[int, ...], ...], items: int) -> sparse.csr_array:
    """Return one row per person, with 1 for each of its items."""
    rows = [sorted(history) for history in meetings]
    starts = np.cumsum([0, *map(len, rows)])
    columns = np.concatenate([np.array(row, dtype=np.int64) for row in rows])
    ones = np.ones(len(columns), dtype=np.int64)
    return sparse.csr_array((ones, columns, starts), shape=(len(rows), items))
