"""Factors of a regularised Gram matrix: caches that convert statistics to weights.

The integers are authoritative. A factor is updated one row at a time while that is cheap and
accurate; otherwise it is computed from the integers again.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg import lapack

from dealfl.errors import unknown_name
from dealfl.exact import is_compiled

__all__ = ["MIN_SLACK", "SOLVERS", "CholeskyFactor", "Factor", "factorise", "follows"]

Floats = NDArray[np.float64]

# A downdate loses about -log10(1 - leverage) digits; below this slack the factor is computed again.
MIN_SLACK = 1e-3
_RANK_ONE_ROWS = 64
_STEPS = 32  # rows of a table that one product of matrices turns
_AFTER = np.triu(np.ones((_STEPS, _STEPS)), 1)  # 1 for each later row


class Factor(Protocol):
    """A factorised symmetric matrix A, and right-hand sides B."""

    def update(self, row: Floats, sign: int) -> bool:
        """Add sign·x·xᵀ to A and sign·x·bᵀ to B, for a row [x, b].

        Return False and end the use of the factor if that would lose accuracy.
        """

    def solve(self) -> Floats:
        """Return the solutions of A·X = B."""


class CholeskyFactor:
    """A table [U, U⁻ᵀB] with UᵀU = A, updated by one row in O(d²).

    With p = U⁻ᵀx, the matrix I ± p·pᵀ has a Cholesky factor in closed form, and multiplying the
    table by it needs only running sums over its rows. numpy turns some rows at a time by a product.
    """

    def __init__(self, matrix: Floats, right: Floats) -> None:
        upper = linalg.cholesky(matrix.T, lower=False, check_finite=False)  # in LAPACK's order
        _require_rank(np.diag(upper) ** 2, np.diag(matrix))
        size = len(upper)
        self.table = np.empty((size, size + right.shape[1]))
        self.table[:, :size] = upper
        self.table[:, size:] = linalg.solve_triangular(upper, right, trans="T", check_finite=False)

    def update(self, row: Floats, sign: int) -> bool:
        """Add a row to both sides, or subtract it; return False if it would lose accuracy."""
        if is_compiled(row.size * row.size):
            from dealfl.learners.factor_loops import update_table

            return update_table(self.table, row.copy(), sign, MIN_SLACK)
        size, lower = len(self.table), self.table.T
        p, _ = lapack.dtrtrs(lower[:size], row[:size], lower=1)
        t = 1.0 + sign * np.cumsum(p * p)
        if t[-1] < MIN_SLACK:
            return False
        before = np.concatenate(([1.0], t[:-1]))
        kept, shares = np.sqrt(t / before), sign * p / np.sqrt(t * before)
        rest = np.zeros(len(row))  # of the row, after each step
        rest[size:] = row[size:] - p @ self.table[:, size:]
        for stop in range(size, 0, -_STEPS):
            start = max(stop - _STEPS, 0)
            some, part = slice(start, stop), self.table[start:stop, start:]
            turn = shares[some, None] * p[some]
            turn *= _AFTER[: stop - start, : stop - start]
            turn.flat[:: stop - start + 1] = kept[some]
            turned = turn @ part
            turned += shares[some, None] * rest[start:]
            rest[start:] += p[some] @ part
            part[:] = turned
        return True

    def solve(self) -> Floats:
        """Return the solutions."""
        size = len(self.table)  # the transposed triangle is not copied to another order
        solution, _ = lapack.dtrtrs(self.table.T[:size], self.table[:, size:], lower=1, trans=1)
        return np.asarray(solution)


class QrFactor:
    """Q·R = A, with the rank-one update of Algorithm 2 of the paper."""

    def __init__(self, matrix: Floats, right: Floats) -> None:
        self._q, self._r = linalg.qr(matrix, check_finite=False)
        self._right = right.copy()
        _require_rank(np.abs(np.diag(self._r)), np.linalg.norm(matrix, axis=0))

    def update(self, row: Floats, sign: int) -> bool:
        """Add a row to both sides, or subtract it; return False if it would lose accuracy."""
        x, goals = np.split(row, [len(self._r)])
        if sign < 0 and 1.0 - x @ self._solve(x) < MIN_SLACK:
            return False
        self._q, self._r = linalg.qr_update(self._q, self._r, sign * x, x, check_finite=False)
        self._right += sign * np.outer(x, goals)
        return True

    def solve(self) -> Floats:
        """Return the solutions."""
        return self._solve(self._right)

    def _solve(self, right: Floats) -> Floats:
        return linalg.solve_triangular(self._r, self._q.T @ right, check_finite=False)


class PseudoInverse:
    """The minimum-norm solution if a matrix without penalty is singular."""

    def __init__(self, matrix: Floats, right: Floats) -> None:
        self._solution = linalg.pinvh(matrix, check_finite=False) @ right

    def update(self, row: Floats, sign: int) -> bool:  # noqa: ARG002
        """Return False: it is always computed again."""
        return False

    def solve(self) -> Floats:
        """Return the solutions."""
        return self._solution


SOLVERS = ("auto", "cholesky", "qr", "refactor")


def factorise(matrix: Floats, right: Floats, solver: str) -> Factor:
    """Return a factor of a symmetric matrix with right-hand sides, for one of `SOLVERS`."""
    if solver not in SOLVERS:
        raise unknown_name("solver", solver, SOLVERS)
    try:
        return (QrFactor if solver == "qr" else CholeskyFactor)(matrix, right)
    except linalg.LinAlgError:
        return PseudoInverse(matrix, right)


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
    if solver == "qr":  # as in the paper: every row of a training is a rank-one update
        return rows <= _RANK_ONE_ROWS
    return rows <= min(max(1, size // 8), 16)  # always less than a block of rows
