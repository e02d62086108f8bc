"""Factors of a regularised Gram matrix: caches that convert statistics to weights.

The integers are authoritative. A factor is updated one row at a time while that is cheap and
accurate; otherwise it is computed from the integers again.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dealfl.compiled import is_compiled
from dealfl.errors import unknown_name

__all__ = ["SOLVERS", "CholeskyFactor", "Factor", "factorise", "follows"]

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
    """An upper triangle U with UᵀU = A, updated by one row in O(d²).

    With p = U⁻ᵀx, the matrix I ± p·pᵀ has a Cholesky factor in closed form, and multiplying U by it
    needs only running sums over the rows of U.
    """

    def __init__(self, matrix: Floats) -> None:
        upper = linalg.cholesky(matrix, lower=False, check_finite=False)
        _require_rank(np.diag(upper) ** 2, np.diag(matrix))
        self.upper = np.ascontiguousarray(upper)

    def update(self, row: Floats, sign: int) -> bool:
        """Add sign·row·rowᵀ; return False if a downdate would lose accuracy."""
        if is_compiled(row.size * row.size):
            from dealfl.learners.moment_loops import update_upper

            return update_upper(self.upper, row.copy(), sign, MIN_SLACK)
        lower = self.upper.T
        p = linalg.solve_triangular(lower, row, lower=True, check_finite=False)
        t = 1.0 + sign * np.cumsum(p * p)
        if t[-1] < MIN_SLACK:
            return False
        before = np.concatenate(([1.0], t[:-1]))
        tails = np.cumsum((lower * p)[:, ::-1], axis=1)[:, ::-1]
        after = lower * np.sqrt(t / before)
        after[:, :-1] += tails[:, 1:] * (sign * p / np.sqrt(t * before))[:-1]
        self.upper = np.ascontiguousarray(after.T)
        return True

    def solve(self, right: Floats) -> Floats:
        """Return the solution for the right-hand sides."""
        return linalg.cho_solve((self.upper, False), right, check_finite=False)


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
