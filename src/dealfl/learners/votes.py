"""Who wins a vote: exact, whatever floating point says of a close one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

__all__ = ["commonest_nearest", "winners"]

Int64s = NDArray[np.int64]

_CLEAR_GAP = 1e-9  # between float votes: below it they are compared as fractions


def commonest_nearest(squares: Int64s, codes: NDArray[np.int32], k: int) -> int:
    """Return the commonest class among the k nearest; ties at the end share the places left."""
    classes = int(codes.max()) + 1
    limit = np.partition(squares, k - 1)[k - 1] if len(squares) > k else squares.max()
    nearer = np.bincount(codes[squares < limit], minlength=classes)
    tied = np.bincount(codes[squares == limit], minlength=classes)
    places_left = min(k, len(squares)) - nearer.sum()
    return int(np.argmax(nearer * tied.sum() + places_left * tied))


def winners(votes: Int64s, commonest: int) -> Int64s:
    """Return the winning class of each row of votes[row, table, class]; exact.

    Where every bucket is empty, the commonest class of all is the best guess.
    """
    totals = votes.sum(axis=2, keepdims=True)
    shares = np.divide(votes, totals, out=np.zeros(votes.shape), where=totals > 0).sum(axis=1)
    best_class = np.argmax(shares, axis=1)
    best = shares.max(axis=1, keepdims=True)
    for row in np.flatnonzero(np.sum(shares >= best - _CLEAR_GAP, axis=1) > 1):
        exact = [_mean_share(votes[row, :, code], totals[row, :, 0])
                 for code in range(votes.shape[2])]  # fmt: skip
        best_class[row] = exact.index(max(exact))
    return np.where(best[:, 0] > 0, best_class, commonest)


def _mean_share(votes: Int64s, totals: Int64s) -> Fraction:
    pairs = zip(votes.tolist(), totals.tolist(), strict=True)
    return sum((Fraction(vote, total) for vote, total in pairs if total), Fraction())
