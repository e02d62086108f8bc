"""Factors of a regularised Gram matrix: caches that convert statistics to weights.

The integers are authoritative. A factor is updated one row at a time while that is cheap and
accurate; otherwise it is computed from the integers again.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dealfl.errors import unknown_name

__all__ = ["SOLVERS", "Factor", "factorise", "follows"]

Floats = NDArray[np.float64]

# A downdate loses about -log10(1 - leverage) digits; below this slack the factor is computed again.
MIN_SLACK = 1e-3


class Factor(Protocol):
    """A factorised symmetric matrix."""

    def update(self, row: Floats, sign: int) -> bool:
        """Add sign·row·rowᵀ; return False and end its use if that would lose accuracy."""

    def solve(self, right: Floats) -> Floats:
        """Return the solution for the right-hand sides."""


class CholeskyFactor:
    """A lower triangle L with L·Lᵀ = A, updated by one row in O(d²).

    With p = L⁻¹x, the matrix I ± p·pᵀ has a Cholesky factor in closed form, and multiplying L by it
    needs only running sums over the columns of L.
    """

    def __init__(self, matrix: Floats) -> None:
        self._lower = linalg.cholesky(matrix, lower=True, check_finite=False)
        _require_rank(np.diag(self._lower) ** 2, np.diag(matrix))

    def update(self, row: Floats, sign: int) -> bool:
        """Add sign·row·rowᵀ; return False if a downdate would lose accuracy."""
        lower = self._lower
        p = linalg.solve_triangular(lower, row, lower=True, check_finite=False)
        t = 1.0 + sign * np.cumsum(p * p)
        if t[-1] < MIN_SLACK:
            return False
        before = np.concatenate(([1.0], t[:-1]))
        tails = np.cumsum((lower * p)[:, ::-1], axis=1)[:, ::-1]
        self._lower = lower * np.sqrt(t / before)
        self._lower[:, :-1] += tails[:, 1:] * (sign * p / np.sqrt(t * before))[:-1]
        return True

    def solve(self, right: Floats) -> Floats:
        """Return the solution for the right-hand sides."""
        return linalg.cho_solve((self._lower, True), right, check_finite=False)


class QrFactor:
    """Q·R = A, with the rank-one update of Algorithm 2 of the paper."""

    def __init__(self, matrix: Floats) -> None:
        self._q, self._r = linalg.qr(matrix, check_finite=False)
        _require_rank(np.abs(np.diag(self._r)), np.linalg.norm(matrix, axis=0))

    def update(self, row: Floats, sign: int) -> bool:
        """Add sign·row·rowᵀ; return False if a downdate would lose accuracy."""
        if sign < 0 and 1.0 - row @ self.solve(row) < MIN_SLACK:
            return False
        self._q, self._r = linalg.qr_update(self._q, self._r, sign * row, row, check_finite=False)
        return True

    def solve(self, right: Floats) -> Floats:
        """Return the solution for the right-hand sides."""
        return linalg.solve_triangular(self._r, self._q.T @ right, check_finite=False)


class PseudoInverse:
    """The minimum-norm solution if a matrix without penalty is singular."""

    def __init__(self, matrix: Floats) -> None:
        self._inverse = linalg.pinvh(matrix, check_finite=False)

    def update(self, row: Floats, sign: int) -> bool:  # noqa: ARG002
        """Return False: it is always computed again."""
        return False

    def solve(self, right: Floats) -> Floats:
        """Return the solution for the right-hand sides."""
        return self._inverse @ right


SOLVERS = ("auto", "cholesky", "qr", "refactor")


def factorise(matrix: Floats, solver: str) -> Factor:
    """Return a factor of a symmetric matrix for one of `SOLVERS`."""
    if solver not in SOLVERS:
        raise unknown_name("solver", solver, SOLVERS)
    try:
        return QrFactor(matrix) if solver == "qr" else CholeskyFactor(matrix)
    except linalg.LinAlgError:
        return PseudoInverse(matrix)


def _require_rank(pivots: Floats, columns: Floats) -> None:
    """Raise `LinAlgError` if a pivot is nothing but the rounding error of its column."""
    if np.any(pivots <= len(pivots) * np.finfo(np.float64).eps * columns):
        raise linalg.LinAlgError("the matrix is singular")


def follows(solver: str, rows: int, size: int) -> bool:
    """Return whether to update a factor of `size` columns by a batch or to compute it again."""
    if solver == "refactor":
        return False
    if solver == "auto":
        return size >= 32 and rows == 1
    return rows <= min(max(1, size // 8), 16)  # always less than a block of rows
