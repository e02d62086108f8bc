"""What a server can compute of all sums that were opened to it: an exact search by ranks.

Each opening is a row, each example a column. A combination of openings isolates some workers if it
contains examples of no others. That is so if and only if the rows without the columns of these
workers have a smaller rank than all: then some combination vanishes outside of them, but not on
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

_PRIME = (1 << 31) - 1

Row = Mapping[int, int]  # value by example


def find_isolated(
    rows: Sequence[Row], worker_of: Mapping[int, str], fewer_than: int
) -> tuple[str, ...] | None:
    """Return a group of fewer workers than allowed that a combination isolates; None if none is."""
    columns = sorted({column for row in rows for column in row})
    workers = sorted({worker_of[column] for column in columns})
    whole = [[row.get(column, 0) for column in columns] for row in rows]
    rank = None
    for group in combinations(workers, min(fewer_than - 1, len(workers))):
        kept = [index for index, column in enumerate(columns) if worker_of[column] not in group]
        others = [[row[index] for index in kept] for row in whole]
        if _rank_modulo(others) == len(rows):  # at most the exact rank: no row can vanish
            continue
        rank = _rank(whole) if rank is None else rank
        if _rank(others) < rank:
            return group
    return None


def _rank_modulo(rows: list[list[int]]) -> int:
    """Return the rank modulo a prime, which is at most the exact one."""
    if not rows or not rows[0]:
        return 0
    matrix: NDArray[np.int64] = np.array(rows, dtype=np.int64) % _PRIME
    rank = 0
    for column in range(matrix.shape[1]):
        pivots = np.flatnonzero(matrix[rank:, column])
        if not len(pivots):
            continue
        pivot = rank + int(pivots[0])
        matrix[[rank, pivot]] = matrix[[pivot, rank]]
        inverse = pow(int(matrix[rank, column]), -1, _PRIME)
        matrix[rank] = matrix[rank] * inverse % _PRIME
        factors = matrix[rank + 1 :, column : column + 1]
        matrix[rank + 1 :] = (matrix[rank + 1 :] - factors * matrix[rank] % _PRIME) % _PRIME
        rank += 1
        if rank == len(rows):
            break
    return rank


def _rank(rows: list[list[int]]) -> int:
    """Return the exact rank."""
    matrix = [[Fraction(value) for value in row] for row in rows]
    rank = 0
    for column in range(len(matrix[0]) if matrix else 0):
        pivot = next((i for i in range(rank, len(matrix)) if matrix[i][column]), None)
        if pivot is None:
            continue
        matrix[rank], matrix[pivot] = matrix[pivot], matrix[rank]
        for row in matrix[rank + 1 :]:
            if row[column]:
                factor = row[column] / matrix[rank][column]
                for index, value in enumerate(matrix[rank]):
                    row[index] -= factor * value
        rank += 1
    return rank
